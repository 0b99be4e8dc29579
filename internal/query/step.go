package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// MaxColumns bounds the steps of one answer.
const MaxColumns = 11000

// farFuture is later than every slot, in Unix seconds.
const farFuture = int64(1) << 40

// steps are the lengths a chart's column may have, in seconds; all divide a
// day, so that columns begin at round times.
var steps = [...]int64{10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400}

func checkRange(start, end time.Time) error {
	switch {
	case start.Unix() < 0:
		return Invalid("start", "start is before 1970; write a later time, such as now-6h")
	case end.Unix() >= farFuture:
		return Invalid("end", "end is too far away; write an earlier time, such as now")
	case !end.After(start):
		return Invalid("end", "end (%s) is not after start (%s); write a later end or an earlier start",
			end.UTC().Format(time.RFC3339), start.UTC().Format(time.RFC3339))
	}
	return nil
}

// Whole is how long after a slot's end it is surely whole in the store: spans that ended
// in it may arrive some seconds later, and wait for the next flush.
const Whole = 12 * time.Second

// LastWhole returns the end of the last base slot that is surely whole at a moment, in Unix
// seconds.
func LastWhole(now time.Time) int64 { return series.Base.Slot(now.Add(-Whole).Unix()) }

// Base widens [start, end) to whole base slots, in Unix seconds.
func Base(start, end time.Time) (int64, int64) {
	return align(start, end, int64(series.Base))
}

// align widens [start, end) to multiples of step.
func align(start, end time.Time, step int64) (int64, int64) {
	a := series.Resolution(step).Slot(start.Unix())
	b := end.Unix()
	if end.Nanosecond() > 0 {
		b++
	}
	return a, series.Resolution(step).Slot(b + step - 1)
}

// Grid says how a range is cut into columns.
type Grid struct {
	Step  int64 // seconds asked for; 0 chooses by Width
	Width int   // the most columns wanted; 0 means 300 when Step is 0 too
	// exact reads nothing beyond the end asked for: the last column may be cut,
	// as rates need that divide by the time before the end.
	exact bool
}

// stepFor returns the finest nice step, at least floor, that cuts the range,
// widened to whole steps, into at most width columns. Beyond the nice ones it
// returns a multiple of a day.
func stepFor(start, end time.Time, width int, floor int64) int64 {
	fits := func(s int64) bool {
		a, b := align(start, end, s)
		return (b-a)/s <= int64(width)
	}
	for _, s := range steps {
		if s >= floor && fits(s) {
			return s
		}
	}
	day := steps[len(steps)-1]
	s := (max(floor, day) + day - 1) / day * day
	for !fits(s) {
		s *= 2
	}
	return s
}

// choose settles the step: the asked one as far as the family's export
// interval and the width allow, else the finest that fits the width.
func (g Grid) choose(start, end time.Time, interval int64) (int64, error) {
	if g.Step < 0 {
		return 0, Invalid("step", "a step of %d s is not positive; write a duration such as 60s", g.Step)
	}
	if g.Width < 0 || g.Width == 1 || g.Width > MaxColumns {
		// A range of any length may straddle a column's bound, so one is not enough.
		return 0, Invalid("width", "width %d is not between 2 and %d", g.Width, MaxColumns)
	}
	width := g.Width
	if width == 0 {
		width = MaxColumns
		if g.Step == 0 {
			width = 300
		}
	}
	floor := int64(series.Base)
	if interval > floor {
		floor = niceAtLeast(interval)
	}
	if g.Step > 0 {
		s := (g.Step + int64(series.Base) - 1) / int64(series.Base) * int64(series.Base)
		s = max(s, floor)
		a, b := align(start, end, s)
		if (b-a)/s <= int64(width) {
			return s, nil
		}
		if g.Width == 0 {
			return 0, Invalid("step", "a step of %s cuts the range into %d columns, more than %d; write %ds or more, or leave step out",
				time.Duration(g.Step)*time.Second, (b-a)/s, MaxColumns, stepFor(start, end, MaxColumns, floor))
		}
		floor = s
	}
	return stepFor(start, end, width, floor), nil
}

func niceAtLeast(sec int64) int64 {
	for _, s := range steps {
		if s >= sec {
			return s
		}
	}
	return sec
}

// basePoints is how many points of base slots a question whose step is ours to
// choose may read; base slots are kept small, not fast. Beyond it a column is a
// minute, unless the range is so short that minutes would be few.
const (
	basePoints  = 40_000
	fewestSteps = 120
)

// stepped runs q over whole steps of the grid. When the range reaches back to
// where only coarser slots are kept, the step grows to theirs.
func stepped(ctx context.Context, st store.Store, q store.Query, start, end time.Time, g Grid, interval int64) (*store.Result, store.Query, error) {
	step, err := g.choose(start, end, interval)
	if err != nil {
		return nil, q, err
	}
	const minute = int64(series.Minute)
	if a, b := align(start, end, step); g.Step == 0 && step < minute && (b-a)/minute >= fewestSteps {
		q.Start, q.End, q.Step = a, b, step
		q.MaxSeries = int(max(1, basePoints*int64(series.Base)/(b-a)))
		if res, err := st.Query(ctx, g.cut(q, end)); err == nil && int64(res.Resolution) <= step {
			return res, q, nil
		} else if err != nil && !errors.Is(err, store.ErrTooMany) {
			return nil, q, err
		}
		q.MaxSeries = 0
		if step, err = g.choose(start, end, max(interval, minute)); err != nil {
			return nil, q, err
		}
	}
	for {
		q.Step = step
		q.Start, q.End = align(start, end, step)
		res, err := st.Query(ctx, g.cut(q, end))
		if err != nil {
			return nil, q, err
		}
		kept := int64(res.Resolution)
		if kept <= step {
			return res, q, nil
		}
		g.Step = max(g.Step, kept)
		if step, err = g.choose(start, end, max(interval, kept)); err != nil {
			return nil, q, err
		}
		if step < kept {
			return nil, q, fmt.Errorf("step %d s is finer than the kept slots of %d s", step, kept)
		}
	}
}

// cut ends q where the range does, if that matters.
func (g Grid) cut(q store.Query, end time.Time) store.Query {
	if g.exact {
		q.End = min(q.End, lastBase(end))
	}
	return q
}
