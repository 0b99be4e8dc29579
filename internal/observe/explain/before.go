package explain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// leastBefore is the least length of the stretch before, in seconds: that of the slots
	// wanted. leastAfter is the least time of the rectangle after a mark inside it.
	leastBefore = slotsWanted * int64(series.Base)
	leastAfter  = fewestSlots * int64(series.Base)
	// An operation of which more than mostInside lay inside before counts from a threshold
	// of its own: the value that ownQuantile of its requests kept, of at least enoughOwn.
	mostInside  = 0.5
	ownQuantile = 0.75
	enoughOwn   = 100
)

// lookBack is how long before the rectangle changes are searched at least, in seconds, and
// mostStretches bounds the stretches before changes that it is compared with.
//
// Stretches before that no change ends are laid at multiples of its length, or of leastLag, and
// reach back longestLag: over hours, requests become slower for the time of day alone.
const (
	lookBack      = int64(2 * time.Hour / time.Second)
	mostStretches = 4
	leastLag      = int64(10 * time.Minute / time.Second)
	longestLag    = int64(time.Hour / time.Second)
)

var lags = []int64{0, 1, 3}

// stretch is a stretch before, and what was found at its end.
type stretch struct {
	api.ExplainBefore
	until  *api.Change // nil if it ends elsewhere
	lagged bool        // it lies before a stretch that no change ends
}

// stretches returns the stretches before of durations, and of errors: the one named, the same
// time of the day before, or those that lie behind the newest change, the latest first, and
// behind them those before changes that were found. Each is as long as the rectangle and at
// least leastBefore, and holds none of the changes. The first ends at a mark that is near, or
// where the rectangle begins.
//
// A mark is near up to half the rectangle's length from its beginning; failing that, it is
// the last one inside. The rectangle begins at a mark inside, and a note says so; a mark
// before it ends the stretch alone.
func (q *question) stretches(ctx context.Context) (durations, errors []stretch, err error) {
	var b api.ExplainBefore
	if !q.BeforeEnd.IsZero() {
		b.Start, b.End = query.Base(q.BeforeStart, q.BeforeEnd)
		one := []stretch{{ExplainBefore: b}}
		return one, one, nil
	}
	from, to := query.Base(q.From, q.To)
	if q.Against == Day {
		b.End = to - int64(24*time.Hour/time.Second)
		b.Start = b.End - max(to-from, leastBefore)
		one := []stretch{{ExplainBefore: b}}
		return one, one, nil
	}
	b.End = from
	mark, err := q.mark(ctx, from, to)
	if err != nil {
		return nil, nil, err
	}
	if mark.ID != "" {
		b.Mark, b.Name = mark.ID, mark.Name
		// The slot of the mark holds requests from before and after it.
		b.End = series.Base.Slot(mark.Time.Unix())
		if b.End > from {
			q.From, from = time.Unix(b.End, 0), b.End
			q.note("the rectangle begins at the mark %s, %s: what lies before the mark is what it is compared with", strconv.Quote(cmp.Or(mark.Name, mark.ID)), clock(b.End))
		}
	}
	length := max(to-from, leastBefore)
	b.Start = b.End - length
	found, err := q.changes(ctx, min(b.Start, q.Start.Unix())-length, from, to)
	if err != nil {
		return nil, nil, err
	}
	first := stretch{ExplainBefore: b}
	return cutAtChanges(first, changesOf(found, judge.Durations), length), cutAtChanges(first, changesOf(found, judge.ErrorShare), length), nil
}

// changesOf returns the changes of what is named: a change of errors alone makes nobody slow.
func changesOf(found []api.Change, what string) []api.Change {
	return slices.DeleteFunc(slices.Clone(found), func(c api.Change) bool { return !slices.Contains(c.Found, what) })
}

// changes returns the changes of the requests from a time on, at the latest lookBack before
// the rectangle, that began before it; none of what cannot be searched.
func (q *question) changes(ctx context.Context, start, from, to int64) ([]api.Change, error) {
	if q.Changes == nil || q.Family != series.SpanDuration || query.Named(q.Matchers, series.LabelService) == "" {
		return nil, nil
	}
	ask := q.Selection
	// Changes are of requests, whether asked for as such or not.
	ask.Matchers = slices.DeleteFunc(slices.Clone(q.Matchers), func(m *labels.Matcher) bool { return m.Name == series.LabelKind && m.Value == "server|consumer" })
	ask.Start, ask.End = time.Unix(max(0, min(start, from-lookBack)), 0), time.Unix(to, 0)
	found, err := q.Changes(ctx, ask)
	return slices.DeleteFunc(found, func(c api.Change) bool { return int64(c.Low) >= from }), err
}

// episode is a time of changes less than leastBefore apart, as of one rollout: nothing of it
// is before. until is the last that lasts, or nil where all got well.
type episode struct {
	low, high int64
	until     *api.Change
}

// episodes returns those of changes in order. What a spike did by its end, before the
// rectangle begins, and what became better, ends no stretch: what came after is not slow.
func episodes(found []api.Change, from int64) (out []episode) {
	for i := range found {
		c := &found[i]
		e := episode{low: int64(c.Low), high: int64(c.High)}
		if s := c.Shape; s != nil && s.Kind == judge.Spike && s.End <= from {
			e.low, e.high = min(e.low, s.Start), max(e.high, s.End)
		} else if c.Verdict != judge.Improvement {
			e.until = c
		}
		for n := len(out); n > 0 && e.low-out[n-1].high < leastBefore; n = len(out) {
			e = episode{min(e.low, out[n-1].low), max(e.high, out[n-1].high), cmp.Or(e.until, out[n-1].until)}
			out = out[:n-1]
		}
		out = append(out, e)
	}
	return out
}

// cutAtChanges returns the stretches that end where the first one does and before it, behind the
// last change, and those that end at changes, the latest first.
func cutAtChanges(first stretch, found []api.Change, length int64) (out []stretch) {
	all := episodes(found, first.End)
	// begin sets the beginning, behind the last episode.
	begin := func(x *stretch) {
		x.Start = x.End - length
		if n := len(all); n > 0 {
			x.Start = max(x.Start, series.Base.Slot(all[n-1].high))
		}
	}
	for n := len(all); n > 0 && all[n-1].high > first.End-leastBefore; n = len(all) {
		if first.Mark == "" {
			first.until, first.End = all[n-1].until, min(first.End, series.Base.Slot(all[n-1].low))
		}
		all = all[:n-1]
	}
	for _, lag := range lags {
		x := first
		if x.End -= lag * max(length, leastLag); lag > 0 {
			x.Mark, x.Name, x.until, x.lagged = "", "", nil, true
		}
		if begin(&x); lag == 0 || x.End-x.Start >= leastBefore && first.End-x.Start <= longestLag {
			out = append(out, x)
		}
	}
	for n := 0; len(all) > 0 && n < mostStretches; {
		last := all[len(all)-1]
		all = all[:len(all)-1]
		if last.until == nil {
			continue
		}
		x := stretch{until: last.until}
		x.End = series.Base.Slot(last.low)
		begin(&x)
		out = append(out, x)
		n++
	}
	return out
}

// mark returns the mark that the stretch before ends at, if one is near.
func (q *question) mark(ctx context.Context, from, to int64) (near store.Mark, err error) {
	half := (to - from) / 2
	all, err := store.Marks(ctx, q.st, time.Unix(from-half, 0), time.Unix(to-leastAfter, 0))
	if err != nil {
		return near, err
	}
	distance := func(m store.Mark) int64 { return max(m.Time.Unix()-from, from-m.Time.Unix()) }
	for _, m := range all {
		ours := m.Service == ""
		for _, x := range q.Matchers {
			ours = ours || x.Name == series.LabelService && x.Matches(m.Service)
		}
		if ours && (near.ID == "" || distance(near) > half || distance(m) <= distance(near)) {
			near = m
		}
	}
	return near, nil
}

// became explains the rectangle against the time before: against each stretch in turn, until
// somebody became slow, and until somebody's requests fail more often.
func (q *question) became(ctx context.Context) error {
	durations, errors, err := q.stretches(ctx)
	if err != nil {
		return err
	}
	ask, now, err := q.values(ctx)
	if err != nil {
		return err
	}
	q.out.Before = &durations[0].ExplainBefore
	q.out.Start, q.out.End = min(durations[0].Start, q.out.From), max(durations[0].End, q.out.To)
	if now == nil {
		return nil
	}
	for _, all := range []*[]stretch{&durations, &errors} {
		if *all, err = q.held(ctx, *all, ask); err != nil {
			return err
		}
	}
	c := comparisons{question: q, ask: ask, now: now, done: map[tried]*question{}, others: max(len(durations), len(errors)) - 1}
	nothing := "nobody surely became slow"
	if !q.span {
		nothing = "nothing surely rose"
	}
	slow, err := c.first(ctx, durations, nothing, func(x *question) bool { return len(x.out.Items) > 0 })
	if err != nil {
		return err
	}
	failing, err := c.first(ctx, errors, "no more requests surely fail", func(x *question) bool { return x.out.Errors == nil && x.judged || x.failing() })
	if err != nil {
		return err
	}
	out := *slow.out // which the errors may be of as well
	out.Errors = failing.out.Errors
	*q = *slow
	q.out = &out
	if a, b := slow.out.Before, failing.out.Before; failing.failing() && (a.Start != b.Start || a.End != b.End) {
		q.note("whose requests fail more often is said against another time before, %s", fromTo(b.Start, b.End))
	}
	return nil
}

// held returns the stretches without those behind the first of which nothing is stored.
func (q *question) held(ctx context.Context, all []stretch, ask store.Query) ([]stretch, error) {
	out := all[:1]
	for _, x := range all[1:] {
		ask.Start, ask.End, ask.Measure = x.Start, x.End, store.Moments
		res, err := q.st.Query(ctx, ask)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(res.Groups, func(g store.Group) bool { return len(g.Points) > 0 }) {
			out = append(out, x)
		}
	}
	return out, nil
}

// comparisons of a question with stretches before. Ask is the query of the rectangle's time, and
// now what that holds. The first stretch has half of the level, and the others share the rest.
type comparisons struct {
	*question
	ask    store.Query
	now    *hist.Histogram
	done   map[tried]*question
	others int // stretches but the first
}

// tried names a comparison: the stretch before, and the factor on probabilities.
type tried struct {
	start, end int64
	tries      float64
}

// first returns the question, explained against the first stretch that answers it, or else
// against the first one. Nothing says what the first one did not show.
func (c *comparisons) first(ctx context.Context, all []stretch, nothing string, answers func(x *question) bool) (out *question, err error) {
	for i := range all {
		b := &all[i]
		tries := 1.
		switch {
		case i > 0:
			tries = 2 * float64(c.others)
		case c.others > 0:
			tries = 2
		}
		x, err := c.with(ctx, b, tries)
		if until := b.until; err == nil && until != nil && !x.judged {
			// So few requests before the earliest time of a change: up to its likeliest one.
			length := b.End - b.Start
			b.End = min(c.out.From, series.Base.Slot(int64(until.Time)))
			b.Start = b.End - max(length, c.out.To-c.out.From, leastBefore)
			x, err = c.with(ctx, b, tries)
		}
		if err != nil {
			return nil, err
		}
		if out != nil && !answers(x) {
			continue
		}
		told := *x
		copied := *x.out
		told.out, copied.Notes = &copied, slices.Clone(copied.Notes)
		switch {
		case b.until != nil:
			told.note("the time before ends at a change that was found: %s", b.until.Sentence)
		case b.lagged:
			told.note("against the time %s %s: the rectangle is compared with an earlier time, %s", fromTo(all[0].Start, all[0].End), nothing, fromTo(x.out.Before.Start, x.out.Before.End))
		}
		if out = &told; answers(x) {
			break
		}
	}
	return out, nil
}

// with returns the question, explained against one stretch before.
func (c *comparisons) with(ctx context.Context, before *stretch, tries float64) (*question, error) {
	at := tried{before.Start, before.End, tries}
	if x := c.done[at]; x != nil {
		return x, nil
	}
	x := *c.question
	x.tries = tries
	out, b := *c.out, before.ExplainBefore
	x.out, out.Notes, out.Before = &out, slices.Clone(out.Notes), &b
	if err := x.against(ctx, c.ask, c.now); err != nil {
		return nil, err
	}
	c.done[at] = &x
	return &x, nil
}

// failing reports whether somebody's requests are found to fail more often.
func (q *question) failing() bool { return q.out.Errors != nil && len(q.out.Errors.Items) > 0 }

// against explains the rectangle against the stretch before.
func (q *question) against(ctx context.Context, ask store.Query, now *hist.Histogram) error {
	b := q.out.Before
	ask.Start, ask.End = b.Start, b.End
	before, err := q.thresholds(ctx, ask)
	if err != nil {
		return err
	}
	q.out.Start, q.out.End = min(b.Start, q.out.From), max(b.End, q.out.To)
	q.out.Inside = q.band.count(now)
	q.out.Outside = now.Count - q.out.Inside
	if before == nil {
		q.note("no %s were measured %s, with which the rectangle would be compared: name another stretch before, or ask who is slow", q.what, fromTo(b.Start, b.End))
		return nil
	}
	b.Count, b.Inside = before.Count, q.band.count(before)
	q.weigh(before)
	if now.Effective() < fewest || before.Effective() < fewest {
		q.note("there are fewer than %d %s in the rectangle's time or in the time before: draw another", fewest, q.what)
		return nil
	}
	q.noteOwn()
	q.cut(q.out.From, q.out.To, true)
	q.cut(b.Start, b.End, false)
	main, tenants, err := q.read(ctx)
	if err != nil {
		return err
	}
	q.judgeBefore(main, tenants)
	return nil
}

// thresholds reads the distributions of operations before, each environment by itself, and
// sets their own thresholds. It returns the distribution of all of them, nil if there is
// nothing.
func (q *question) thresholds(ctx context.Context, ask store.Query) (whole *hist.Histogram, err error) {
	ask.By = []string{series.LabelService, series.LabelOperation, series.LabelEnvironment}
	if ask.View == series.Total {
		ask.View = series.Marginal
	}
	res, err := q.st.Query(ctx, ask)
	if err != nil {
		return nil, err
	}
	b := q.out.Before
	b.Start, b.End = res.Start, res.End
	found := map[operation]*hist.Histogram{}
	var order []operation
	add := func(o operation, h *hist.Histogram) error {
		if found[o] == nil {
			found[o] = h.Clone()
			order = append(order, o)
			return nil
		}
		return found[o].Merge(h)
	}
	environments := map[operation]int{}
	for _, g := range res.Groups {
		o := operationOf(g.Labels)
		for _, x := range g.Points {
			if x.Hist == nil || x.Hist.Count == 0 {
				continue
			}
			if found[o] == nil {
				environments[o.anywhere()]++
			}
			if whole == nil {
				whole = x.Hist.Clone()
			} else if err := whole.Merge(x.Hist); err != nil {
				return nil, err
			}
			if err := errors.Join(add(o, x.Hist), add(o.anywhere(), x.Hist)); err != nil {
				return nil, err
			}
		}
	}
	q.own = map[operation]band{}
	for _, o := range order {
		// An environment that is new has the threshold of all that were there.
		listed := (o.environment == anyEnvironment) == (environments[o.anywhere()] == 1)
		q.own[o] = q.band
		if above, ok := q.threshold(found[o]); ok {
			q.own[o] = bandOf(found[o], above, q.band.high)
			if listed {
				t := api.ExplainThreshold{Service: o.service, Operation: o.operation, Above: api.Float(above)}
				if o.environment != anyEnvironment {
					t.Environment = o.environment
				}
				b.Own = append(b.Own, t)
			}
		}
	}
	return whole, nil
}

// threshold returns the end of the bucket that holds the ownQuantile of h, if most of h
// lies inside the rectangle's values and some of them are above it.
func (q *question) threshold(h *hist.Histogram) (above float64, ok bool) {
	// Between no lower and some upper bound are the fast ones.
	fast := q.band.low < 0 && q.band.high < inf
	if fast || h.Effective() < enoughOwn || float64(q.band.count(h)) <= mostInside*float64(h.Count) {
		return 0, false
	}
	n := 0.0
	for x := range h.All() {
		if n += float64(x.Count); n >= ownQuantile*float64(h.Count) {
			above = x.Upper
			break
		}
	}
	return above, above > q.band.low && above < q.band.high
}

// operation names an operation of a service in one of its environments.
type operation struct{ service, operation, environment string }

// anyEnvironment stands for all environments. None has this name.
const anyEnvironment = "\xff"

// anywhere returns the operation in all environments.
func (o operation) anywhere() operation {
	o.environment = anyEnvironment
	return o
}

func operationOf(l labels.Labels) operation {
	return operation{l.Get(series.LabelService), l.Get(series.LabelOperation), l.Get(series.LabelEnvironment)}
}

// bandOf returns the values that count for a series.
func (q *question) bandOf(l labels.Labels) *band {
	o := operationOf(l)
	for _, o := range []operation{o, o.anywhere()} {
		if b, ok := q.own[o]; ok {
			return &b
		}
	}
	return &q.band
}

func clock(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.DateTime) + " UTC" }

// besideTenant reports whether a label is not kept together with the tenant.
func besideTenant(name string) bool { return name == series.LabelInstance || name == series.LabelPeer }

// together returns the table of all labels but instance and peer, with a row for what tenants does
// not hold, and the table with instances if there is one besides.
func together(main, tenants *table) (all, instances *table) {
	if tenants == nil || tenants == main {
		return main, nil
	}
	// Only the heaviest tenants may have been read: what is missing is a row of its own.
	const rest = 1e-6
	missing := &table{window: main.window, rest: main.rest, both: main.both, index: map[string]int{}}
	var buf []byte
	add := func(t *table, sign float64) {
		for i, l := range t.labels {
			var row *counts
			row, buf = missing.row(labels.NewBuilder(l).Del(series.LabelInstance, series.LabelPeer, series.LabelTenant).Labels(), buf)
			row.add(t.rows[i], sign)
		}
	}
	add(main, 1)
	add(tenants, -1)
	for i, r := range missing.rows {
		// Numbers of sampled requests are not whole, and leave what rounding does.
		if slices.ContainsFunc(r.all, func(v float64) bool { return v > rest }) {
			var row *counts
			row, buf = tenants.row(labels.NewBuilder(missing.labels[i]).Set(series.LabelTenant, unread).Labels(), buf)
			row.add(r, 1)
		}
	}
	return tenants, main
}

// unread is the value of label tenant of what was not read by tenant. No tenant has it.
const unread = "\xff"
