// Package live keeps the last seconds of a mirror's measurements for live views:
// quantiles of each target's durations and of the ratios.
//
// A Window stands between a ledger and its sink. Points that the sink refuses are put
// again later, together with new ones; the window shows them at once, and counts them
// once.
package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/series"
)

// Span is the time that a window covers. Ledgers report slots of 10 s, so between one
// and two of them are shown.
const Span = 10 * time.Second

// Window is a pair.Sink. It is safe for concurrent use.
type Window struct {
	next pair.Sink
	now  func() time.Time

	mu      sync.Mutex
	kept    map[key]*hist.Histogram // taken by the sink
	pending map[key]*hist.Histogram // refused by it
}

// key is one series of durations or ratios, all operations and tenants together,
// in one slot.
type key struct {
	slot             int64 // Unix seconds
	variant, against string
	ratio            bool
}

// New returns a window in front of a sink.
func New(next pair.Sink, now func() time.Time) *Window {
	return &Window{next: next, now: now, kept: map[key]*hist.Histogram{}, pending: map[key]*hist.Histogram{}}
}

// Put passes points on and returns the sink's error.
func (w *Window) Put(ctx context.Context, points []pair.Point) error {
	err := w.next.Put(ctx, points)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.pending)
	into := w.kept
	if err != nil {
		into = w.pending
	}
	oldest := w.oldest()
	for _, p := range points {
		if p.Kind != series.Distribution || p.TimeNanos/1e9 < oldest {
			continue
		}
		k := key{slot: slotOf(p.TimeNanos / 1e9), variant: p.Labels.Get(series.LabelVariant)}
		switch p.Family {
		case pair.FamilyDuration:
		case pair.FamilyRatio:
			k.ratio, k.against = true, p.Labels.Get(pair.LabelAgainst)
		default:
			continue
		}
		h := into[k]
		if h == nil {
			h = hist.New(p.Hist.Schema)
			into[k] = h
		}
		_ = h.Merge(p.Hist) // of one session, whose counts do not overflow
	}
	for k := range w.kept {
		if k.slot < oldest {
			delete(w.kept, k)
		}
	}
	return err
}

const slotSeconds = 10

func slotOf(seconds int64) int64 { return seconds - seconds%slotSeconds }

// oldest returns the begin of the oldest slot that is shown.
func (w *Window) oldest() int64 { return slotOf(w.now().Add(-Span).Unix()) }

// Figures cover all operations and tenants together.
type Figures struct {
	Durations map[string]*hist.Histogram // seconds, by variant
	Ratios    []Ratio                    // by variant, then against
}

// Ratio is one target's time by another's, request by request.
type Ratio struct {
	Variant, Against string
	Hist             *hist.Histogram
}

// Figures returns the figures of the last seconds. The caller owns them.
func (w *Window) Figures() Figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Figures{Durations: map[string]*hist.Histogram{}}
	ratios := map[[2]string]*hist.Histogram{}
	oldest := w.oldest()
	for _, from := range []map[key]*hist.Histogram{w.kept, w.pending} {
		for k, h := range from {
			switch {
			case k.slot < oldest:
			case k.ratio:
				merge(ratios, [2]string{k.variant, k.against}, h)
			default:
				merge(out.Durations, k.variant, h)
			}
		}
	}
	for names, h := range ratios {
		out.Ratios = append(out.Ratios, Ratio{names[0], names[1], h})
	}
	slices.SortFunc(out.Ratios, func(a, b Ratio) int {
		return slices.Compare([]string{a.Variant, a.Against}, []string{b.Variant, b.Against})
	})
	return out
}

func merge[K comparable](into map[K]*hist.Histogram, k K, h *hist.Histogram) {
	if into[k] == nil {
		into[k] = h.Clone()
		return
	}
	_ = into[k].Merge(h)
}
