package tally

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
)

// Frame holds what a tally cannot see of its run.
type Frame struct {
	Start   time.Time     // of what is measured
	Elapsed time.Duration // since
	// Due returns the number of requests that the plan has due before d; nil if the
	// plan does not say.
	Due func(d time.Duration) float64
	// Unsent counts requests that were due and neither sent nor dropped.
	Unsent uint64
}

// Fill writes everything collected into r: all counts, and the figures of r.Phases,
// whose names and times the caller has set.
func (t *Tally) Fill(r *api.BenchResult, f Frame) {
	b := t.sums
	r.Account = api.BenchAccount{Dropped: b.dropped, Unsent: f.Unsent, Failed: map[string]uint64{}, Statuses: map[string]uint64{}, Checks: map[string]uint64{}}
	a := &r.Account
	first := hist.New(hist.DefaultSchema)
	r.Bytes = 0
	for _, c := range b.all() {
		a.Sent += c.sent
		a.Answered += c.causes[load.Answered]
		a.CutOff += c.causes[load.CutOff]
		a.Errors += c.errors
		r.Bytes += c.bytes
		for cause := load.Answered + 1; cause < load.CutOff; cause++ {
			addCount(a.Failed, cause.String(), c.causes[cause])
		}
		t.addOutcomes(c, a.Statuses, a.Checks)
		for half := range c.hists {
			if h := c.hists[half][firstByte]; h != nil {
				merge(first, h)
			}
		}
	}
	a.Due = a.Sent + a.Dropped + a.Unsent
	r.Latency, r.Uncorrected = t.latency(b.whole(true), true), t.latency(b.whole(false), true)
	r.FirstByte = Latency(first, false)
	r.Generator.Late, r.Generator.Blocked = Latency(b.late, true), Latency(b.blocked, false)
	t.queries(r)
	t.phases(r, f)
	t.line.assign(f)
	r.Timeline = t.line.result(f.Start)
	t.line.unassign()
}

func (t *Tally) latency(h *hist.Histogram, chart bool) api.BenchLatency {
	return Latency(h, chart, t.o.Quantiles...)
}

func addCount(m map[string]uint64, name string, n uint64) {
	if n > 0 {
		m[name] += n
	}
}

// addOutcomes adds a cell's statuses and failed checks.
func (t *Tally) addOutcomes(c *cell, statuses, checks map[string]uint64) {
	for _, s := range c.statuses {
		addCount(statuses, strconv.Itoa(s.status), s.n)
	}
	for i, n := range c.checks {
		addCount(checks, t.o.Checks[i], n)
	}
}

// queries writes the rows of queries, in their order, and of tenants, the heaviest
// first.
func (t *Tally) queries(r *api.BenchResult) {
	type row struct {
		api.BenchQuery
		latency, service *hist.Histogram
	}
	empty := func(name string) *row {
		return &row{api.BenchQuery{Name: name, Statuses: map[string]uint64{}, Checks: map[string]uint64{}}, hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)}
	}
	queries, tenants := map[string]*row{}, map[string]*row{}
	for _, name := range t.o.Queries {
		queries[name] = empty(name)
	}
	for name, c := range t.sums.all() {
		rows := [2]*row{queries[name.query], nil}
		if name.tenant != "" {
			if rows[1] = tenants[name.tenant]; rows[1] == nil {
				rows[1] = empty(name.tenant)
				tenants[name.tenant] = rows[1]
			}
		}
		for _, to := range rows {
			if to == nil {
				continue
			}
			to.Sent, to.Answered, to.Errors, to.Bytes = to.Sent+c.sent, to.Answered+c.causes[load.Answered], to.Errors+c.errors, to.Bytes+c.bytes
			t.addOutcomes(c, to.Statuses, to.Checks)
			for half := range c.hists {
				if c.hists[half][latency] != nil {
					merge(to.latency, c.hists[half][latency])
					merge(to.service, c.hists[half][service])
				}
			}
		}
	}
	done := func(x *row) api.BenchQuery {
		x.Latency, x.Uncorrected = t.latency(x.latency, false), t.latency(x.service, false)
		return x.BenchQuery
	}
	r.Queries, r.Tenants = []api.BenchQuery{}, []api.BenchQuery{}
	for _, name := range t.o.Queries {
		r.Queries = append(r.Queries, done(queries[name]))
	}
	for _, x := range tenants {
		r.Tenants = append(r.Tenants, done(x))
	}
	slices.SortFunc(r.Tenants, func(a, b api.BenchQuery) int {
		return cmp.Or(cmp.Compare(b.Sent, a.Sent), cmp.Compare(a.Name, b.Name))
	})
}

// phases writes the figures of the phases. The requests that were never sent are
// taken for those that were due last.
func (t *Tally) phases(r *api.BenchResult, f Frame) {
	left := f.Unsent
	for i := min(len(r.Phases), len(t.sums.phases)) - 1; i >= 0; i-- {
		p, q := &r.Phases[i], &t.sums.phases[i]
		p.Due, p.Answered, p.Errors = q.due, q.answered, q.errors
		p.Latency, p.Uncorrected = t.latency(q.latency, false), t.latency(q.service, false)
		more := f.unsentIn(float64(p.Start), float64(p.End), q.due, left, i == 0)
		p.Due += more
		left -= more
	}
}

// unsentIn returns the requests due in [from, to) beside those counted, at most left.
func (f Frame) unsentIn(from, to float64, counted, left uint64, first bool) uint64 {
	if f.Due == nil || first {
		return left
	}
	seconds := func(s float64) time.Duration {
		return min(f.Elapsed, time.Duration(min(max(s, 0), 1e9)*float64(time.Second)))
	}
	if math.IsNaN(to) {
		to = f.Elapsed.Seconds()
	}
	due := math.Round(f.Due(seconds(to))) - math.Round(f.Due(seconds(from)))
	return min(left, uint64(max(due-float64(counted), 0)))
}

// assign adds requests that were never sent to the last slots.
func (l *timeline) assign(f Frame) {
	left := f.Unsent
	for i := len(l.slots) - 1; i >= 0 && left > 0; i-- {
		s := l.slots[i]
		from := float64(s.at) * l.width.Seconds()
		s.unsent = f.unsentIn(from, from+l.width.Seconds(), s.due, left, i == 0)
		left -= s.unsent
	}
}

func (l *timeline) unassign() {
	for _, s := range l.slots {
		s.unsent = 0
	}
}

// result returns the time line of a run that began at began.
func (l *timeline) result(began time.Time) []api.BenchSlot {
	out := make([]api.BenchSlot, 0, len(l.slots))
	var due, handled uint64
	for _, s := range l.slots {
		due, handled = due+s.due+s.unsent, handled+s.sent+s.dropped
		p := Latency(s.latency, false)
		x := api.BenchSlot{
			Time: Unix(began.Add(time.Duration(s.at) * l.width)), Width: api.Float(l.width.Seconds()),
			Due: s.due + s.unsent, Answered: s.answered, Errors: s.errors, Waiting: due - min(due, handled),
			P50: p.Quantiles["0.5"], P99: p.Quantiles["0.99"], Max: p.Max, Late: api.Float(math.NaN()),
		}
		if s.late.Count > 0 {
			x.Late = api.Float(s.late.Quantile(0.99))
		}
		out = append(out, x)
	}
	return out
}

// Unix returns t in Unix seconds, or NaN (null on the wire) for the zero time.
func Unix(t time.Time) api.Float {
	if t.IsZero() {
		return api.Float(math.NaN())
	}
	return api.Float(float64(t.UnixMicro()) / 1e6)
}
