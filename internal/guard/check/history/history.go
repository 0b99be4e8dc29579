// Package history answers what expressions ask of the past (expr.History) out of
// the store.
//
// Numbers are looked up among raw samples, which are kept one by one (15,000 of
// each series at least, 35 days at most); what lies further back is answered by
// the points of slots, ever coarser with age, so that "four weeks ago" has an
// answer for as long as any point is kept. Distributions are read from slots.
//
// Who measures hands over what it has just stored (Observe), because the store
// learns of it up to ten seconds later.
package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

// Options configure a History. Of all but Cache the zero value means the default.
type Options struct {
	Cache *Cache           // of the store
	Now   func() time.Time // default time.Now
	// Tolerance bounds the distance of a sample from the asked moment; default 5 min.
	Tolerance time.Duration
	// Lag delays the slots of distributions that are read, so that those not flushed
	// yet are not missed; default 0.
	Lag time.Duration
}

// ForOptions configure the look-ups of one check's expressions.
type ForOptions struct {
	Tolerance time.Duration        // 0 is that of the History
	Location  *time.Location       // of "the same time"; nil is UTC
	Holidays  func(time.Time) bool // whether the day that holds a moment, in Location, is one; nil is never
}

// History is safe for concurrent use. It has no goroutines and needs no closing.
type History struct {
	o       Options
	kinds   sync.Map // family to expr.Kind, which never changes
	recent  recent
	pages   pages
	answers answers
}

// New returns a History over o.Cache.
func New(o Options) *History {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tolerance <= 0 {
		o.Tolerance = 5 * time.Minute
	}
	return &History{o: o}
}

// For binds the History to a check. What it resolves it keeps by *expr.Selector,
// so make one for as long as the check's definition lives, not one per run.
func (h *History) For(o ForOptions) expr.History {
	if o.Tolerance <= 0 {
		o.Tolerance = h.o.Tolerance
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	return &view{h: h, o: o, tolerance: o.Tolerance.Milliseconds(), resolved: map[*expr.Selector]*resolved{}, same: map[string]*resolved{}}
}

// Observe tells of a sample of a number series that is on its way to the store.
// Samples of one series come in order of time; one that is not a number is
// ignored: what is null is absent.
func (h *History) Observe(s series.Series, v series.Sample) { h.recent.observe(&s, v) }

// view is a History bound to a check.
type view struct {
	h         *History
	o         ForOptions
	tolerance int64 // ms

	mu       sync.RWMutex
	resolved map[*expr.Selector]*resolved
	same     map[string]*resolved // by family and matchers
}

func (v *view) Kind(ctx context.Context, family string) (expr.Kind, error) {
	return v.h.kind(ctx, family)
}

func (h *History) kind(ctx context.Context, family string) (expr.Kind, error) {
	if k, ok := h.kinds.Load(family); ok {
		return k.(expr.Kind), nil
	}
	if h.recent.family(family) != nil {
		return expr.Numbers, nil
	}
	all, err := h.o.Cache.Families(ctx)
	if err != nil {
		return expr.Missing, err
	}
	kind := expr.Missing
	for _, f := range all {
		k := expr.Numbers
		if f.Kind == series.Distribution {
			k = expr.Distributions
		}
		h.kinds.Store(f.Name, k)
		if f.Name == family {
			kind = k
		}
	}
	return kind, nil
}

func (v *view) Look(ctx context.Context, s *expr.Selector, at time.Time, dst []expr.Sample) ([]expr.Sample, error) {
	r := v.resolve(s)
	kind := expr.Kind(r.kind.Load())
	var err error
	if kind == expr.Missing {
		if kind, err = v.h.kind(ctx, s.Family); err != nil {
			return dst, lookError(s, err)
		}
		r.kind.Store(uint32(kind))
	}
	mark := len(dst)
	if kind == expr.Distributions {
		dst, err = v.lookUpDistributions(ctx, r, s, at, dst)
	} else {
		dst, err = v.lookUpNumbers(ctx, r, s, at, dst)
	}
	if err != nil {
		return dst, lookError(s, err)
	}
	if len(dst) == mark {
		dst = append(dst, expr.Sample{Null: true})
	}
	return dst, nil
}

func lookError(s *expr.Selector, err error) error {
	var ambiguous *expr.AmbiguousError
	var invalid *query.Error
	if errors.As(err, &ambiguous) || errors.As(err, &invalid) {
		return err
	}
	return fmt.Errorf("look up %s: %w", s.Text, err)
}
