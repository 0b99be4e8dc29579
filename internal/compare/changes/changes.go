// Package changes finds the moments at which requests changed, without being
// told where to look.
//
// A service as a whole and each of its operations is a series of distributions,
// slot by slot, and package stat searches each for change points. Probabilities
// are adjusted for all that was searched, and the stretches on both sides of a
// moment are judged as any comparison is. What people make of a change, a mark
// or nothing, is a decision that the store keeps; a change that is found again
// is known by its moment, which may move a little within its interval.
package changes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Request asks for the changes of a selection's services and operations.
type Request struct {
	query.Selection        // Family is span_duration_seconds, or a metric
	Per             string // query.PerRequest, or empty: a metric is then searched for each request
	// Operations is how many are searched, those with the most requests; 0 is 50.
	Operations int
	// Status is of the changes to answer: All, New, Confirmed or Dismissed;
	// empty is all but Dismissed.
	Status string
	// CohortOf is that of a comparison.
	CohortOf func(tenant string) (cohort string, ok bool)
	// Newest, if not nil, has the newest requests in slots of one second, for changes with too
	// few slots after them.
	Newest *seconds.Ring
	Now    time.Time // slots that have only just ended then are not read; the zero time: all are
	// Known answers what was found within the last knownFor, and of windows of which nothing was
	// what is found within knownWithin: their search goes on, see Finder.GoOn, and the next
	// question has more. Whether what became worse is over is looked up all the same.
	Known bool

	cuts bool // for Cuts: neither parts of requests are searched nor who moved
}

// What people make of a change.
const (
	New       = "new"
	Confirmed = "confirmed"
	Dismissed = "dismissed"
	All       = "all"
)

// Mix is the verdict of a change where operations or tenants come in other shares than
// before, and take as long as they did.
const Mix = "mix"

const (
	defaultOperations = 50
	maxOperations     = 500
	// discovery is the level of one search, and of what is said to differ at a change.
	discovery = 0.05
	// among is the rate of false discoveries in all that is searched of a day. It is below 0.05
	// since the least probabilities of a day's slots are too small, by up to a half.
	among = 0.03
	// nearest is how far from a moment's interval a mark may be to be its cause.
	nearest = 5 * time.Minute
	// fresh is how long an answer is kept. Who asks once a minute is shown a change within
	// two minutes of the last slot that it needs.
	fresh = 20 * time.Second
	// settled is how long an answer is kept of a window that reaches until now and of whose
	// moments each has fewestSlots slots after it: none is found that was not, and what more
	// slots say of them is little.
	settled = 2 * time.Minute
	// busiest is the least time between two searches of a window, in times as long as one takes: on
	// a loaded machine an answer is old when it is there.
	busiest = 4
	// knownFor is how long an answer is kept for those who ask for what is known.
	knownFor = 10 * time.Minute
	// knownWithin is how long those who ask for what is known wait for what is not.
	knownWithin = 2 * time.Second
)

func (r *Request) check() error {
	if r.Operations == 0 {
		r.Operations = defaultOperations
	}
	if r.Operations < 0 || r.Operations > maxOperations {
		return query.Invalid("operations", "operations %d is not between 1 and %d", r.Operations, maxOperations)
	}
	if r.Family == "" {
		r.Family = series.SpanDuration
	}
	if r.Family != series.SpanDuration && query.IsSpanFamily(r.Family) {
		return query.Invalid("match", "changes are those of requests, or of a metric: leave the name %s out of match", r.Family)
	}
	if r.Per != "" && r.Family == series.SpanDuration {
		return query.Invalid("per", "requests are not searched for each request; leave per out, or name a metric in match")
	}
	if known := []string{New, Confirmed, Dismissed, All}; r.Status != "" && !slices.Contains(known, r.Status) {
		return query.Invalid("status", "there is no status %q; %s", r.Status, query.Suggest(r.Status, known))
	}
	return nil
}

// Finder finds changes and keeps what was decided of them. It is safe for
// concurrent use.
type Finder struct {
	st store.Store
	// metrics has what was found of a metric, open what was found in a window that decides the
	// newest moments, settling in one that lasts, past in one that is over, as long as no request
	// of it came late. Known has what was found last in any window.
	metrics                     refresh.Cache[api.ChangesResponse]
	open, settling, past, known refresh.Cache[inWindow]
	failed                      refresh.Cache[error] // why windows could not be searched
	searches                    searches
}

// NewFinder returns one over st. It holds nothing that must be closed unless GoOn is called.
func NewFinder(st store.Store) *Finder {
	return &Finder{
		st: st, metrics: refresh.Cache[api.ChangesResponse]{Size: 16, Fresh: fresh},
		open:     refresh.Cache[inWindow]{Size: 32, Fresh: fresh, Times: busiest, Longest: knownFor},
		settling: refresh.Cache[inWindow]{Size: 32, Fresh: settled, Times: busiest, Longest: knownFor},
		past:     refresh.Cache[inWindow]{Size: 64, Fresh: time.Hour}, known: refresh.Cache[inWindow]{Size: 64, Fresh: knownFor},
		failed: refresh.Cache[error]{Size: 64, Times: busiest},
	}
}

// GoOn lets one search at a time go on when the time of all who asked for it is over, so that
// the next question finds what it found. After stop none does, nor is any under way. A search
// that panics is an error, and log has its stack.
func (f *Finder) GoOn(log *slog.Logger) (stop func()) {
	f.searches.mu.Lock()
	defer f.searches.mu.Unlock()
	f.searches.goOn, f.searches.log = true, log
	return f.searches.close
}

// withLead reports whether a change was dismissed with the one of its service that leads it,
// given those that were dismissed by their ids. Of another service it is then made its own lead.
func withLead(c *api.Change, dismissed map[string]*api.Change) bool {
	lead := dismissed[c.Under]
	if lead == nil {
		return false
	}
	if c.Service == lead.Service && c.Environment == lead.Environment {
		return c.Status == New
	}
	c.Under = ""
	return false
}

// Find answers the changes of a range, in order of time.
func (f *Finder) Find(ctx context.Context, r Request) (*api.ChangesResponse, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	found, err := f.search(ctx, &r)
	if err != nil {
		return nil, err
	}
	out := *found // shared with the cache
	out.Changes = []api.Change{}
	decided, err := f.decisions(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := store.AllMarks(ctx, f.st)
	if err != nil {
		return nil, err
	}
	known := match(found.Changes, decided)
	ids, dismissed := map[string]string{}, map[string]*api.Change{}
	all := slices.Clone(found.Changes)
	for i := range all {
		c := &all[i]
		c.Status = New
		if d := known[i]; d != nil {
			ids[c.ID] = d.ID
			c.ID, c.Status, c.Mark = d.ID, d.Status, d.Mark
			if d.Status == Confirmed && !slices.ContainsFunc(marks, func(m store.Mark) bool { return m.ID == d.Mark }) {
				c.Status, c.Mark = New, "" // its mark was removed
			}
		}
		if c.Status == Dismissed {
			dismissed[c.ID] = c
		}
	}
	for i := range all {
		c := &all[i]
		c.Under = cmp.Or(ids[c.Under], c.Under)
		c.Near = near(c, out.Slot, withoutOwn(c, out.Slot, marks, decided))
		if withLead(c, dismissed) && r.Status != All {
			continue
		}
		if r.Status == All || r.Status == c.Status || r.Status == "" && c.Status != Dismissed {
			out.Changes = append(out.Changes, *c)
		}
	}
	if len(ids) > 0 {
		out.Events = slices.Clone(out.Events)
		for i := range out.Events {
			e := &out.Events[i]
			e.Changes = slices.Clone(e.Changes)
			for j, id := range e.Changes {
				e.Changes[j] = cmp.Or(ids[id], id)
			}
		}
	}
	if r.Family == series.SpanDuration && !r.cuts {
		if err := nameEnds(ctx, f.st, &r, &out); err != nil {
			return nil, err
		}
	}
	if n := len(found.Changes); n > 0 && len(out.Changes) == 0 {
		note := "a change was found that has another status; ask for it with status all"
		if n > 1 {
			note = fmt.Sprintf("%d changes were found that have another status; ask for them with status all", n)
		}
		out.Notes = append(slices.Clip(out.Notes), note)
	}
	return &out, nil
}

// search returns the changes that r asks for; those of a metric are shared with the cache.
func (f *Finder) search(ctx context.Context, r *Request) (*api.ChangesResponse, error) {
	if r.Family == series.SpanDuration {
		return f.searchWindows(ctx, r)
	}
	if r.Now.IsZero() {
		return searchMetric(ctx, f.st, r)
	}
	return f.metrics.Get(ctx, keyOf(r), r.Now, func() (*api.ChangesResponse, error) { return searchMetric(ctx, f.st, r) })
}

// keyOf tells questions apart. Ranges that hold the same slots of a minute are
// one: within a minute hardly more is known.
func keyOf(r *Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q%q,", r.Family, r.Per)
	for _, m := range r.Matchers {
		fmt.Fprintf(&b, "%q%s%q,", m.Name, m.Type, m.Value)
	}
	fmt.Fprintf(&b, "%d-%d,%d,%v", r.Start.Unix()/60, r.End.Unix()/60, r.Operations, r.cuts)
	return b.String()
}

const farFuture = 1 << 33 // Unix seconds, in the year 2242

// withoutOwn returns marks without those made of changes at the moment of this one: they
// are no causes of it.
func withoutOwn(c *api.Change, slot int64, marks []store.Mark, decided []decision) []store.Mark {
	wide := float64(4 * slot) // two of either change, as in eventsOf
	return slices.DeleteFunc(slices.Clone(marks), func(m store.Mark) bool {
		return slices.ContainsFunc(decided, func(d decision) bool {
			return d.Mark == m.ID && float64(d.Low)-float64(c.High) <= wide && float64(c.Low)-float64(d.High) <= wide
		})
	})
}

// near returns the marks that may be the cause of a change, the nearest first. A change
// belongs to a mark that it came after. Those made after it count only where there is none,
// for people mark late.
func near(c *api.Change, slot int64, marks []store.Mark) []api.Mark {
	wide := max(nearest.Seconds(), float64(2*slot))
	out := []api.Mark{}
	for _, m := range marks {
		at := api.UnixTime(m.Time)
		if m.ID == c.Mark || m.Service != "" && m.Service != c.Service || !m.Concerns(c.Service, c.Environment) || float64(c.Low-at) > wide || float64(at-c.High) > wide {
			continue
		}
		out = append(out, m.API())
	}
	later := func(m api.Mark) bool { return float64(m.Time-c.High) >= float64(slot) }
	if slices.ContainsFunc(out, func(m api.Mark) bool { return !later(m) }) {
		out = slices.DeleteFunc(out, later)
	}
	slices.SortStableFunc(out, func(x, y api.Mark) int {
		return cmp.Compare(max(x.Time-c.Time, c.Time-x.Time), max(y.Time-c.Time, c.Time-y.Time))
	})
	return out
}
