package compare

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// mostSlots is how many slots of a side are read. More say little more, for
// they depend on each other, and cost time: an hour is read in slots of 10 s,
// a day in slots of a minute.
const mostSlots = 1500

// slotLengths that a side may be cut into, in seconds: those that are kept.
var slotLengths = []int64{int64(series.Base), int64(series.Minute), 600, int64(series.Hour)}

// span is a range of whole slots, Unix seconds.
type span struct{ start, end int64 }

// side is one side's requests.
type side struct {
	name string
	span
	step   int64
	strata map[operation]*stratum
}

// operation names a stratum. Cohort is that of tenants, empty where they are
// not told apart.
type operation struct{ service, operation, cohort string }

// stratum is an operation's requests in each slot of a side.
type stratum struct {
	good, failed     []*hist.Histogram // nil where there were none
	requests, errors uint64
}

func (s *side) slots() int { return int((s.end - s.start) / s.step) }

// occupied is the slots with requests; first and last are -1 if there are none.
func (s *side) occupied() (n, first, last int) {
	first, last = -1, -1
	for i := range s.slots() {
		for _, x := range s.strata {
			if x.good[i] != nil || x.failed[i] != nil {
				if first < 0 {
					first = i
				}
				n, last = n+1, i
				break
			}
		}
	}
	return n, first, last
}

func (s *side) total() (requests, errors uint64) {
	for _, x := range s.strata {
		requests, errors = requests+x.requests, errors+x.errors
	}
	return requests, errors
}

func (s *side) api() api.CompareSide {
	out := api.CompareSide{Range: api.Range{Start: s.start, End: s.end}, Name: s.name, Rate: api.Float(math.NaN())}
	out.Slots, _, _ = s.occupied()
	out.Requests, out.Errors = s.total()
	if s.end > s.start {
		out.Rate = api.Float(float64(out.Requests) / float64(s.end-s.start))
	}
	return out
}

// cut keeps slots [from, to).
func (s *side) cut(from, to int) {
	s.start, s.end = s.start+int64(from)*s.step, s.start+int64(to)*s.step
	for name, x := range s.strata {
		y := &stratum{good: x.good[from:to], failed: x.failed[from:to]}
		for i := range y.good {
			y.requests += count(y.good[i]) + count(y.failed[i])
			y.errors += count(y.failed[i])
		}
		if s.strata[name] = y; y.requests == 0 {
			delete(s.strata, name)
		}
	}
}

func count(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}

// sides reads both sides.
func (c *comparison) sides(ctx context.Context) error {
	ways := 0
	for _, given := range []bool{!c.A.Start.IsZero() || !c.B.Start.IsZero(), c.Mark != "", c.Label != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return query.Invalid("a", "a comparison has two sides: write a and b as start/end, or a mark, or a label with its values as a and b")
	}
	if c.Label != "" {
		return c.byLabel(ctx)
	}
	if c.Mark != "" {
		if err := c.findMark(ctx); err != nil {
			return err
		}
	}
	a, b, err := c.windows(int64(series.Base))
	if err != nil {
		return err
	}
	step, err := slotLength(max(a.end-a.start, b.end-b.start))
	if err != nil {
		return err
	}
	if err := c.onlyRequests(ctx, a, b); err != nil {
		return err
	}
	for {
		if a, b, err = c.windows(step); err != nil {
			return err
		}
		if c.a, err = c.read(ctx, a, step); err != nil {
			return err
		}
		if c.b, err = c.read(ctx, b, step); err != nil {
			return err
		}
		if kept := max(c.a.step, c.b.step); kept > step {
			step = kept // only coarser slots are kept of one side
			continue
		}
		break
	}
	c.step = step
	c.a.name, c.b.name = "A", "B"
	if c.mark != nil {
		c.a.name, c.b.name = "before "+c.mark.Name, "after "+c.mark.Name
	}
	const day = 86400
	apart := b.start - a.start
	c.paired = apart != 0 && apart%day == 0 && a.end-a.start == b.end-b.start && a.end-a.start <= max(apart, -apart)
	return nil
}

func slotLength(seconds int64) (int64, error) {
	for _, s := range slotLengths {
		if seconds <= s*mostSlots {
			return s, nil
		}
	}
	return 0, query.Invalid("a", "a side of %d days is longer than the longest that can be compared, %d; shorten it",
		seconds/86400, slotLengths[len(slotLengths)-1]*mostSlots/86400)
}

// inward is the whole slots within w.
func inward(w Window, step int64) span {
	start := w.Start.Unix()
	if w.Start.Nanosecond() > 0 {
		start++
	}
	r := series.Resolution(step)
	return span{r.Slot(start + step - 1), r.Slot(w.End.Unix())}
}

// windows are both sides in whole slots of the given length.
func (c *comparison) windows(step int64) (a, b span, err error) {
	wa, wb := c.A, c.B
	if c.mark != nil {
		length := c.Length
		if length == 0 {
			length = defaultLength
		}
		settle := c.Settle
		if settle < 0 {
			settle = time.Duration(step) * time.Second
		}
		// The slot that holds the mark belongs to neither side.
		at := series.Resolution(step).Slot(c.mark.Time.Unix())
		wa = Window{time.Unix(at, 0).Add(-length), time.Unix(at, 0)}
		from := time.Unix(at+step, 0).Add(settle)
		wb = Window{from, from.Add(length)}
	}
	if c.mark == nil && wa.End.Sub(wa.Start) == wb.End.Sub(wb.Start) && wb.Start.Sub(wa.Start)%(24*time.Hour) == 0 {
		// What has not come of today is not read of another day either.
		lostA, lostB := wa.End.Sub(c.atLatest(wa.End)), wb.End.Sub(c.atLatest(wb.End))
		wa.End, wb.End = wa.End.Add(-lostB), wb.End.Add(-lostA)
	}
	for _, x := range []struct {
		field string
		w     *Window
		to    *span
	}{{"a", &wa, &a}, {"b", &wb, &b}} {
		field := x.field
		if c.mark != nil {
			field = "mark"
		}
		if x.w.Start.IsZero() || x.w.End.IsZero() {
			return a, b, query.Invalid(field, "side %s is not given; write it as start/end, such as now-2h/now-1h", x.field)
		}
		ends := x.w.End
		x.w.End = c.atLatest(ends)
		*x.to = inward(*x.w, step)
		if x.w.Start.Unix() < 0 {
			return a, b, query.Invalid(field, "side %s begins before 1970; write a later time", x.field)
		}
		if x.to.end <= x.to.start {
			if c.mark != nil && x.field == "b" {
				return a, b, query.TooEarly(field, "%s was %s; the time after it is not a slot of %d s yet: ask again later", quote(c.mark.Name), c.mark.Time.UTC().Format(time.RFC3339), step)
			}
			if x.field == "b" && x.w.End.Before(ends) {
				return a, b, query.TooEarly(field, "side b does not hold a slot of %d s yet; ask again later", step)
			}
			return a, b, query.Invalid(field, "side %s does not hold a slot of %d s; write a longer one", x.field, step)
		}
	}
	if c.mark == nil && a.start < b.end && b.start < a.end {
		return a, b, query.Invalid("b", "the sides overlap; write windows that do not")
	}
	return a, b, nil
}

// unfinished is how long ago a slot must have ended for all of it to have come:
// an observation is seen some 11 s after it was sent.
const unfinished = 20 * time.Second

// atLatest is t, or when the last slot ended that is complete.
func (c *comparison) atLatest(t time.Time) time.Time {
	if last := c.Now.Add(-unfinished); !c.Now.IsZero() && t.After(last) {
		return last
	}
	return t
}

func (c *comparison) findMark(ctx context.Context) error {
	const forever = 1 << 33 // Unix seconds, in the year 2242
	all, err := c.st.Marks(ctx, time.Unix(0, 0), time.Unix(forever, 0))
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].ID == c.Mark {
			c.mark = &all[i]
			if c.mark.Time.After(c.Now) && !c.Now.IsZero() {
				return query.TooEarly("mark", "%s has not come yet; ask again after it", quote(c.mark.Name))
			}
			return nil
		}
	}
	return &query.Error{Code: query.CodeNotFound, Field: "mark", Message: "there is no mark " + quote(c.Mark) + "; /api/v1/marks and tailscope mark list show those there are"}
}

// read reads one side; its step is longer than asked for where only longer slots are kept.
func (c *comparison) read(ctx context.Context, w span, step int64) (*side, error) {
	found, err := c.requests(ctx, w, step, c.strataBy())
	if err != nil {
		return nil, err
	}
	s := newSide(found)
	for i := range found.Groups {
		if err := s.add(c.operationOf(found.Groups[i].Labels), &found.Groups[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func newSide(found *query.Requested) *side {
	return &side{span: span{found.Start, found.End}, step: found.Step, strata: map[operation]*stratum{}}
}

// add takes in a group, which it keeps.
func (s *side) add(name operation, g *query.RequestGroup) error {
	x := s.strata[name]
	if x == nil {
		x = &stratum{good: make([]*hist.Histogram, len(g.Good)), failed: make([]*hist.Histogram, len(g.Good))}
		s.strata[name] = x
	}
	for i := range g.Good {
		x.requests += g.Count(i)
		x.errors += count(g.Failed[i])
		if err := errors.Join(mergeInto(&x.good[i], g.Good[i]), mergeInto(&x.failed[i], g.Failed[i])); err != nil {
			return err
		}
	}
	if x.requests == 0 {
		delete(s.strata, name)
	}
	return nil
}

func mergeInto(to **hist.Histogram, h *hist.Histogram) error {
	switch {
	case h == nil || h.Count == 0:
		return nil
	case *to == nil:
		*to = h
		return nil
	}
	return (*to).Merge(h)
}

// onlyRequests settles what is compared, once for both sides and all questions:
// spans of kind server or consumer if there are any, else all.
func (c *comparison) onlyRequests(ctx context.Context, a, b span, more ...*labels.Matcher) error {
	c.of = c.subject()
	if slices.ContainsFunc(c.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelKind }) || c.Label == series.LabelKind {
		return nil
	}
	for _, w := range []span{a, b} {
		if w.end <= w.start {
			continue
		}
		sel := c.Selection
		sel.Matchers = slices.Concat(sel.Matchers, more)
		sel.Start, sel.End = time.Unix(w.start, 0), time.Unix(w.end, 0)
		found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Whole: true, Measure: store.Moments})
		if err != nil {
			return err
		}
		if found.Entry {
			m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelKind, "server|consumer")
			if err != nil {
				return err
			}
			c.Matchers = append(slices.Clone(c.Matchers), m)
			return nil
		}
	}
	return nil
}

// strataBy are the labels whose values are strata, besides the service.
func (c *comparison) strataBy() []string {
	if c.Label == series.LabelOperation {
		return nil
	}
	return []string{series.LabelOperation}
}

func (c *comparison) operationOf(l labels.Labels) operation {
	o := operation{service: l.Get(series.LabelService), operation: l.Get(series.LabelOperation)}
	switch c.Label {
	case series.LabelService:
		o.service = ""
	case series.LabelOperation:
		o.operation = ""
	}
	return o
}

func (c *comparison) requests(ctx context.Context, w span, step int64, by []string, more ...*labels.Matcher) (*query.Requested, error) {
	sel := c.Selection
	sel.Matchers = slices.Concat(sel.Matchers, more)
	sel.Start, sel.End = time.Unix(w.start, 0), time.Unix(w.end, 0)
	return query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: step}, By: by})
}

// byLabel reads both sides at once. They are paired if they were measured at
// the same time, as variants and instances are; versions that follow each other
// are windows that differ in time.
func (c *comparison) byLabel(ctx context.Context) error {
	if c.ValueA == c.ValueB {
		return query.Invalid("b", "both sides are %s %s; write two values of the label", c.Label, quote(c.ValueA))
	}
	var more []*labels.Matcher
	if c.ValueA != "" && c.ValueB != "" {
		m, err := labels.NewMatcher(labels.MatchRegexp, c.Label, either(c.ValueA, c.ValueB))
		if err != nil {
			return query.Invalid("label", "%s cannot be matched: %v", c.Label, err)
		}
		more = append(more, m)
	}
	w := Window{c.Start, c.atLatest(c.End)}
	if !w.End.After(w.Start) {
		return query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	step, err := slotLength(w.End.Unix() - w.Start.Unix())
	if err != nil {
		return err
	}
	if err := c.onlyRequests(ctx, inward(w, int64(series.Base)), span{}, more...); err != nil {
		return err
	}
	var found *query.Requested
	for {
		at := inward(w, step)
		if at.end <= at.start {
			return query.Invalid("end", "the range does not hold a slot of %d s; write a longer one", step)
		}
		if found, err = c.requests(ctx, at, step, append(c.strataBy(), c.Label), more...); err != nil {
			return err
		}
		if found.Step == step {
			break
		}
		step = found.Step
	}
	c.step = step
	c.a, c.b = newSide(found), newSide(found)
	c.a.name, c.b.name = orNone(c.ValueA), orNone(c.ValueB)
	for i := range found.Groups {
		g := &found.Groups[i]
		to := c.a
		switch g.Labels.Get(c.Label) {
		case c.ValueA:
		case c.ValueB:
			to = c.b
		default:
			continue
		}
		if err := to.add(c.operationOf(g.Labels), g); err != nil {
			return err
		}
	}
	for _, s := range []struct {
		field, value string
		side         *side
	}{{"a", c.ValueA, c.a}, {"b", c.ValueB, c.b}} {
		if len(s.side.strata) == 0 {
			refused := query.Invalid(s.field, "no request in the range has %s %s; /api/v1/labels lists the values there are", c.Label, quote(s.value))
			if s.field == "b" && c.End.After(w.End) {
				refused.Code = query.CodeTooEarly // it may come yet
			}
			return refused
		}
	}
	c.align()
	return nil
}

// align trims the sides to where they have requests: both to their common
// time if that is most of the shorter one's, else each to its own.
func (c *comparison) align() {
	na, firstA, lastA := c.a.occupied()
	nb, firstB, lastB := c.b.occupied()
	first, last := max(firstA, firstB), min(lastA, lastB)
	within := 0
	for i := first; i <= last; i++ {
		if c.a.has(i) && c.b.has(i) {
			within++
		}
	}
	if 2*within >= min(na, nb) {
		c.paired = true
		c.a.cut(first, last+1)
		c.b.cut(first, last+1)
		return
	}
	c.a.cut(firstA, lastA+1)
	c.b.cut(firstB, lastB+1)
}

func (s *side) has(i int) bool {
	for _, x := range s.strata {
		if x.good[i] != nil || x.failed[i] != nil {
			return true
		}
	}
	return false
}
