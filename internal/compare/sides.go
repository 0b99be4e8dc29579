package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// mostSlots is how many slots of a range are read, and sideSlots of a side. More
// say little more, for they depend on each other, and cost time and memory: an
// hour is read in slots of 10 s, half a day in minutes, a day in tens of them.
const (
	mostSlots = 1500
	sideSlots = 720
)

// slotLengths that a side may be cut into, in seconds: those that are kept.
var slotLengths = []int64{int64(series.Base), int64(series.Minute), int64(series.TenMin), int64(series.Hour)}

// sides reads both sides.
func (c *comparison) sides(ctx context.Context) error {
	ways := 0
	for _, given := range []bool{c.Mark == "" && (!c.A.Start.IsZero() || !c.B.Start.IsZero()) || c.severalWindows(), c.Mark != "", c.Label != ""} {
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
	step, err := c.slotLength(max(a.end-a.start, b.end-b.start))
	if err != nil {
		return err
	}
	if a, b, err = c.windows(step); err != nil {
		return err
	}
	if err := c.settle(ctx, []where{a, b}); err != nil {
		return err
	}
	for {
		if a, b, err = c.windows(step); err != nil {
			return err
		}
		if c.a, c.b, err = c.both(ctx, a, b, step); err != nil {
			return err
		}
		if kept := max(c.a.step, c.b.step); kept > step {
			if step, err = c.atLeast(kept); err != nil { // only coarser slots are kept of one side
				return err
			}
			continue
		}
		break
	}
	c.step = step
	c.a.name, c.b.name = "A", "B"
	if c.mark != nil {
		c.a.name, c.b.name = "before "+c.mark.Name, "after "+c.mark.Name
	}
	return nil
}

func slotLength(seconds int64) (int64, error) { return shortest(slotLengths, seconds, mostSlots) }

// shortest is the shortest length of which there are at most so many slots; of
// the longest there may be mostSlots.
func shortest(lengths []int64, seconds, most int64) (int64, error) {
	for i, s := range lengths {
		if seconds <= s*most || i == len(lengths)-1 && seconds <= s*mostSlots {
			return s, nil
		}
	}
	return 0, query.Invalid("a", "a side of %d days is longer than the longest that can be compared, %d; shorten it",
		seconds/86400, lengths[len(lengths)-1]*mostSlots/86400)
}

// lengths are those that slots of the family may have.
func (c *comparison) lengths() []int64 {
	if c.kind == ofSpans {
		return slotLengths
	}
	return query.SlotLengths(c.interval)
}

func (c *comparison) slotLength(seconds int64) (int64, error) {
	return shortest(c.lengths(), seconds, sideSlots)
}

// atLeast is the shortest length that is not below the kept one.
func (c *comparison) atLeast(kept int64) (int64, error) {
	for _, s := range c.lengths() {
		if s >= kept {
			return s, nil
		}
	}
	return 0, query.Invalid("a", "only slots of %d s are kept of that time; write a later one", kept)
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

// windows are both sides in whole slots of the given length. They are paired if
// they are the same hours of other days.
func (c *comparison) windows(step int64) (a, b where, err error) {
	if c.severalWindows() {
		return c.laid(step)
	}
	wa, wb := c.A, c.B
	if c.mark != nil && c.B.Start.IsZero() {
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
	var days []int
	if c.mark == nil {
		if c.Days > 0 {
			if days, err = c.earlierDays(wb); err != nil {
				return a, b, err
			}
			wa = c.earlierWindow(wb, days[0])
		} else if n, ok := c.daysApart(wa, wb); ok {
			days = []int{n}
		}
	}
	if days != nil {
		// What has not come of today is not read of another day either.
		lostA, lostB := wa.End.Sub(c.atLatest(wa.End)), wb.End.Sub(c.atLatest(wb.End))
		wa.End, wb.End = wa.End.Add(-lostB), wb.End.Add(-lostA)
	}
	for _, x := range []struct {
		field string
		w     *Window
		to    *where
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
		x.to.span = inward(*x.w, step)
		if x.w.Start.Unix() < 0 {
			return a, b, query.Invalid(field, "side %s begins before 1970; write a later time", x.field)
		}
		if x.to.end <= x.to.start {
			if c.mark != nil && x.field == "b" {
				newest, among := c.mark, ""
				if n := len(c.Together); n > 1 {
					newest, among = c.Together[n-1], fmt.Sprintf(", the newest of %d marks that are judged as one", n)
				}
				return a, b, query.TooEarly(field, "%s was %s%s; the time after it is not a slot of %d s yet: ask again at %s UTC",
					quote(newest.Name), newest.Time.UTC().Format(time.RFC3339), among, step, time.Unix(x.to.start+step, 0).Add(unfinished).UTC().Format(time.TimeOnly))
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
	if c.paired = days != nil; c.paired {
		a, b, c.paired = c.pair(a.span, b.span, days, step)
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
	all, err := store.AllMarks(ctx, c.st)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].ID == c.Mark {
			c.mark = &all[i]
			if c.Moment.IsZero() {
				c.Moment = c.mark.Time
			}
			if c.mark.Time.After(c.Now) && !c.Now.IsZero() {
				return query.TooEarly("mark", "%s has not come yet; ask again after it", quote(c.mark.Name))
			}
			return c.asMarked()
		}
	}
	return &query.Error{Code: query.CodeNotFound, Field: "mark", Message: "there is no mark " + quote(c.Mark) + "; /api/v1/marks and tailscope mark list show those there are"}
}

// asMarked takes from the mark what the request leaves open: its environment, and what it
// allows.
func (c *comparison) asMarked() (err error) {
	environment := func(m *labels.Matcher) bool { return m.Name == series.LabelEnvironment }
	if c.mark.Environment != "" && !slices.ContainsFunc(c.Matchers, environment) {
		m := query.InEnvironment(c.mark.Environment)
		c.Matchers, c.given = append(slices.Clip(c.Matchers), m), append(slices.Clip(c.given), m)
	}
	if c.Gates == nil {
		c.Gates, err = judge.ParseGates(c.mark.Allow)
	}
	return err
}

// byLabel reads both sides of one range. They are paired if they were measured
// at the same time, as variants and instances are; versions that follow each
// other are windows that differ in time.
func (c *comparison) byLabel(ctx context.Context) error {
	if c.ValueA == c.ValueB {
		return query.Invalid("b", "both sides are %s %s; write two values of the label", c.Label, quote(c.ValueA))
	}
	if err := c.checkOthers(); err != nil {
		return err
	}
	w := Window{c.Start, c.atLatest(c.End)}
	if !w.End.After(w.Start) {
		return query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	step, err := c.slotLength(w.End.Unix() - w.Start.Unix())
	if err != nil {
		return err
	}
	if at := inward(w, step); at.end > at.start {
		if err := c.settle(ctx, []where{{span: at}}); err != nil {
			return err
		}
	}
	for {
		at := inward(w, step)
		if at.end <= at.start {
			return query.Invalid("end", "the range does not hold a slot of %d s; write a longer one", step)
		}
		if c.a, c.b, err = c.both(ctx, where{span: at}, where{span: at}, step); err != nil {
			return err
		}
		if kept := max(c.a.step, c.b.step); kept > step {
			if step, err = c.atLeast(kept); err != nil {
				return err
			}
			continue
		}
		break
	}
	c.step = step
	c.a.name, c.b.name = c.valueName(c.ValueA), c.valueName(c.ValueB)
	for _, s := range []struct {
		field, value string
		side         *side
	}{{"a", c.ValueA, c.a}, {"b", c.ValueB, c.b}} {
		if len(s.side.strata) == 0 {
			refused := query.Invalid(s.field, "no %s in the range has %s %s; /api/v1/labels lists the values there are", c.what(), c.Label, quote(s.value))
			if s.field == "b" && c.End.After(w.End) {
				refused.Code = query.CodeTooEarly // it may come yet
				return refused
			}
			if err := query.CheckNames(ctx, c.st, query.Selection{Family: c.Family, Matchers: c.given}); err != nil {
				return err
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
		firstA, lastA, firstB, lastB = first, last, first, last
	}
	c.a.cut(firstA, lastA+1)
	c.b.cut(firstB, lastB+1)
}
