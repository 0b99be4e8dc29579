// Package marks judges every mark by itself: what changed at it, how much
// and how surely, without anybody having asked.
//
// A mark is compared with package compare, the time before it against the time
// after, for its service, or for each service if it concerns all. It is waiting
// until there are enough slots after it, judged early a few times on what there
// is, and finally once the time after is complete. A verdict is kept in the
// store beside the marks, so it outlives a restart and the data it was made of.
//
// Where the sides begin and end, and what several figures amount to, is
// arithmetic (sides.go, services.go, conclude.go); Judge owns what is known.
package marks

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/seconds"
	"tailscope/internal/store"
)

// States of a verdict.
const (
	Waiting     api.MarkState = "waiting"
	Provisional api.MarkState = "provisional"
	Early       api.MarkState = "early"
	Final       api.MarkState = "final"
)

// Options configures a Judge. Store is required; the zero value of every other
// field means its default.
type Options struct {
	Around
	// Seconds are the newest minutes in slots of one second; nil: marks have no
	// provisional verdicts.
	Seconds *seconds.Ring
	// CohortOf, if not nil, names the cohort of a tenant as a list of tenants has it, see
	// compare.Request.
	CohortOf func(tenant string) (cohort string, ok bool)
	// Final, if not nil, is told of each mark when its verdict becomes final, before that is kept:
	// after a crash it may be told again. On an error the mark is judged again later.
	Final  func(ctx context.Context, m store.Mark, v *api.MarkVerdict) error
	Now    func() time.Time // default time.Now
	Logger *slog.Logger     // default discards
	// Window is how long a side is at most; default 1 h.
	Window time.Duration
	// Keep is how long slots of 10 s are kept: of older marks a verdict is not
	// made anew when a mark comes or goes beside them. Default 48 h.
	Keep time.Duration
	// Every is how often Run looks for what is due; default 5 s, half a slot.
	Every time.Duration
	// Once calls do if no other server of the store judges its marks, and reports whether
	// it did; default calls it.
	Once func(ctx context.Context, do func(context.Context) error) (did bool, err error)
	// Budget is how long Run works at a stretch before it waits again, which
	// bounds its share of the processor; default 2 s.
	Budget time.Duration
}

func (o *Options) ensureDefaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	if o.Keep <= 0 {
		o.Keep = 48 * time.Hour
	}
	if o.Once == nil {
		o.Once = func(ctx context.Context, do func(context.Context) error) (bool, error) { return true, do(ctx) }
	}
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	if o.Budget <= 0 {
		o.Budget = 2 * time.Second
	}
}

// Judge keeps the verdicts of all marks. Its methods are safe for concurrent
// use; of Round, one call at a time does anything.
type Judge struct {
	o       Options
	judging sync.Mutex // held by Round
	judges  bool       // did so in the last round; guarded by judging

	mu     sync.RWMutex
	loaded bool
	read   map[string]uint64  // revisions of verdicts as last read, by id of the mark
	known  map[string]*known  // by id of the mark
	found  map[foundAt]*found // what is told of marks whose verdict tells no change yet
	stats  Stats
}

// known is what is remembered of a mark.
type known struct {
	beside string          // the marks it was judged beside, and its own moment
	brief  api.MarkVerdict // without figures
	counted
	checked time.Time // when requests were last counted
	grew    bool      // more came since it was judged
	fails   int       // in a row
	retryAt time.Time
}

// Stats are running totals.
type Stats struct {
	Provisional, Early, Final uint64 // verdicts made
	Failures                  uint64 // comparisons that failed and are tried again
	Seconds                   float64
	Waiting                   int // marks whose verdict is not final
}

// New returns a judge that knows nothing yet: Load or the first Round reads
// what is kept.
func New(o Options) *Judge {
	o.ensureDefaults()
	return &Judge{o: o, known: map[string]*known{}, found: map[foundAt]*found{}}
}

// Stats returns the totals so far.
func (j *Judge) Stats() Stats {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.stats
	for _, k := range j.known {
		if k.brief.State != Final {
			s.Waiting++
		}
	}
	return s
}

// Brief is the verdict of a mark without its figures, as it is now.
func (j *Judge) Brief(m store.Mark) *api.MarkVerdict {
	v := brief(*j.withFound(m.ID, j.own(m)))
	return &v
}

// own is Brief by what the mark itself was judged.
func (j *Judge) own(m store.Mark) *api.MarkVerdict {
	j.mu.RLock()
	defer j.mu.RUnlock()
	v := api.MarkVerdict{}
	if k := j.known[m.ID]; k != nil {
		v = k.brief
		v.Services = slices.Clone(v.Services)
	} else {
		v = j.waiting([]store.Mark{m}, 0)
	}
	return &v
}

// Of is the verdict of a mark for one service: what was found of the service,
// where the mark concerns every one.
func (j *Judge) Of(m store.Mark, service string) *api.MarkVerdict {
	v := j.Brief(m)
	if m.Service != "" {
		return v
	}
	i := slices.IndexFunc(v.Services, func(s api.ServiceVerdict) bool { return s.Service == service })
	if i < 0 {
		if v.State != Waiting {
			v.Verdict, v.Sentence = judge.TooLittle, "Too little data of "+service+" to judge it"
		}
		v.Services = []api.ServiceVerdict{}
		return v
	}
	v.Services = v.Services[i : i+1]
	v.Verdict, v.Sentence = v.Services[0].Verdict, v.Services[0].Sentence
	return v
}
