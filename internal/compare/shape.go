package compare

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

const (
	// A spike of a mark begins a slot before it at the earliest, and spikeWithin after it
	// at the latest.
	spikeWithin = 2 * time.Minute
	// MostSpikeOperations are searched one by one where all together show no spike.
	MostSpikeOperations = 10
	// falseSpikes is the probability of a spike at a mark without one, of all operations;
	// falseInRanges of one in a range, of which every slot is searched.
	falseSpikes, falseInRanges = 0.01, 0.05
	// FalseHints is the probability of a hint of an operation at a mark without a spike.
	FalseHints = 0.05
	// nearSides are sides with so little between them, as a share of the longer one, that a
	// line through both says something.
	nearSides = 0.1
)

// findShapes finds spikes. The slots of one at the moment of a mark belong to neither
// side from then on.
func (c *comparison) findShapes(ctx context.Context) (err error) {
	if c.Label != "" || c.kind == ofNumbers || c.a.parts != nil || c.b.parts != nil || c.brief {
		return nil
	}
	if c.Moment.IsZero() {
		for _, s := range []struct {
			name string
			of   *side
		}{{"a", c.a}, {"b", c.b}} {
			found, _, err := c.spike(s.of, stat.SpikeOptions{Alpha: falseInRanges})
			if err != nil {
				return err
			}
			if found != nil {
				found.Side = s.name
				c.shapes = append(c.shapes, *found)
			}
		}
		return nil
	}
	at := c.Moment.Unix()
	if !(c.a.end <= at && at < c.b.start) {
		return nil
	}
	// A spike of the time before would hide others like it, and belongs to neither side too.
	if c.before, _, err = c.spike(c.a, stat.SpikeOptions{Alpha: falseSpikes}); err != nil {
		return err
	}
	if c.before != nil {
		c.left = append(c.left, span{c.before.Start, c.before.End})
		c.a.leave(c.left)
	}
	sides := []*side{c.a, c.b}
	if c.a.end < c.b.start {
		read := func() (*side, error) { return c.read(ctx, span{c.a.end, c.b.start}, c.step) }
		if c.kind == ofObservations {
			read = func() (*side, error) {
				return c.gatherSeries(ctx, where{span: span{c.a.end, c.b.start}}, c.step)
			}
		}
		between, err := read()
		if err != nil {
			return err
		}
		if !between.gathered(c.step) {
			return nil // it expired meanwhile
		}
		sides = []*side{c.a, between, c.b}
	}
	all := join(sides...)
	moment := int((at - all.start) / all.step)
	o := stat.SpikeOptions{
		Reference: [2]int{0, c.a.slots()},
		Starts:    [2]int{max(0, moment-1), min(all.slots(), moment+1+max(1, int(int64(spikeWithin/time.Second)/all.step)))},
		Alpha:     falseSpikes,
	}
	found, hints, err := c.spike(all, o)
	if c.hints = hints; found == nil || err != nil {
		return err
	}
	c.shapes = append(c.shapes, *found)
	c.left = append(c.left, span{found.Start, found.End})
	c.a.leave(c.left)
	c.b.leave(c.left)
	return nil
}

// join returns sides that follow each other as one.
func join(sides ...*side) *side {
	out := newSide(span{sides[0].start, sides[len(sides)-1].end}, sides[0].step)
	for _, s := range sides {
		first := int((s.start - out.start) / out.step)
		for name, x := range s.strata {
			to := out.stratum(name, false)
			copy(to.good[first:], x.good)
			copy(to.failed[first:], x.failed)
		}
	}
	for _, x := range out.strata {
		x.countAll()
	}
	return out
}

// leave leaves slots out of a side that lie in any of the ranges.
func (s *side) leave(ranges []span) {
	if len(ranges) == 0 {
		return
	}
	out := make([]bool, s.slots())
	any := false
	for _, p := range s.places() {
		for i := range p.n {
			at := p.start + int64(i)*s.step
			for _, r := range ranges {
				if at < r.end && r.start < at+s.step {
					out[p.first+i], any = true, true
				}
			}
		}
	}
	if !any {
		return
	}
	s.left = out
	for name, x := range s.strata {
		y := &stratum{good: slices.Clone(x.good), failed: slices.Clone(x.failed)}
		for i, left := range out {
			if left {
				y.good[i], y.failed[i] = nil, nil
			}
		}
		y.countAll()
		if s.strata[name] = y; y.seen.Count == 0 {
			delete(s.strata, name)
		}
	}
}

// spike returns the spike of a side, nil if there is none: of all its requests, or else of
// an operation. Where o says when one begins, hints are those of each operation by itself
// that FalseHints allows.
func (c *comparison) spike(s *side, o stat.SpikeOptions) (found *api.Shape, hints []api.Shape, err error) {
	names := namesOf(s, s)
	if len(names) == 0 {
		return nil, nil, nil
	}
	one := names[:min(len(names), MostSpikeOperations)]
	if len(names) == 1 {
		one = nil
	}
	// Half of the false ones is for all requests, half for the operations.
	groups, share := [][]operation{names}, 1.0
	if len(one) > 0 {
		share = 0.5
	}
	for _, name := range one {
		groups = append(groups, []operation{name})
	}
	alpha, hinted := o.Alpha, o.Starts != [2]int{}
	for i, group := range groups {
		if i == 1 {
			share = 0.5 / float64(len(one))
		}
		o.Alpha = alpha * share
		hint := hinted && len(group) == 1
		if hint {
			o.Alpha = max(o.Alpha, FalseHints)
		}
		shape, p, err := c.spikeOf(s, group, o)
		if err != nil {
			return nil, nil, err
		}
		if shape != nil && hint {
			hints = append(hints, *shape)
		}
		if shape != nil && found == nil && p <= alpha*share {
			if found = shape; !hinted {
				break
			}
		}
	}
	return found, hints, nil
}

// spikeOf returns the spike of operations together, and the probability of one as clear
// where there is none; the spike is nil if there is none.
func (c *comparison) spikeOf(s *side, names []operation, o stat.SpikeOptions) (*api.Shape, float64, error) {
	col, err := c.column(s, names)
	if err != nil {
		return nil, 1, err
	}
	return c.spikeIn(s, names, col, o)
}

// spikeIn is spikeOf for operations of which the column is known.
func (c *comparison) spikeIn(s *side, names []operation, col column, o stat.SpikeOptions) (*api.Shape, float64, error) {
	to := o.Reference[1]
	if to == 0 {
		to = s.slots()
	}
	tallies := append(col.series.Beyond(o.Reference[0], to), col.errors)
	found, ok, err := stat.FindSpike(tallies, o)
	if !ok || err != nil {
		return nil, 1, err
	}
	return c.spikeShape(s, names, found, found.Which == len(tallies)-1, o), found.P, nil
}

// spikeShape names the operation of which a spike matters most, and says how high it was.
func (c *comparison) spikeShape(s *side, names []operation, found stat.Spike, failed bool, o stat.SpikeOptions) *api.Shape {
	out := &api.Shape{Kind: judge.Spike, Start: s.start + int64(found.From)*s.step, End: s.start + int64(found.To)*s.step}
	usual := func(i int) bool {
		return (i < found.From || i >= found.To) && (o.Reference[1] == 0 || i >= o.Reference[0] && i < o.Reference[1])
	}
	spike := func(i int) bool { return i >= found.From && i < found.To }
	// Those of which requests took the most time more, or failed the most.
	var most operation
	greatest, sum := 0.0, 0.0
	for _, name := range names {
		in, before := s.summed([]operation{name}, spike), s.summed([]operation{name}, usual)
		more := in.time - in.requests*before.time/max(1, before.requests)
		if failed {
			more = in.failed - in.requests*before.failed/max(1, before.requests)
		}
		if more > greatest {
			most, greatest = name, more
		}
		sum += max(0, more)
	}
	if len(names) == 1 {
		most, greatest, sum = names[0], 1, 1
	}
	of := c.of
	if sum > 0 && 2*greatest > sum && len(namesOf(s, s)) > 1 {
		names = []operation{most}
		out.Service, out.Operation = most.service, most.operation
		of = cmp.Or(most.title(), of)
	}
	in, before := s.summed(names, spike), s.summed(names, usual)
	if failed {
		out.Measure, out.Value, out.Usual = judge.ErrorShare, api.Float(in.failed/in.requests), api.Float(before.failed/before.requests)
		out.Sentence = judge.SpikeText(judge.Title(out.Measure, of), figure.Percent(float64(out.Value)), out.End-out.Start)
		return out
	}
	q := 0.5
	for _, p := range []float64{0.95, 0.99} {
		if in.requests*(1-p) >= 0.5 {
			q = p
		}
	}
	out.Measure, out.Value, out.Usual = figure.Percentile(q), api.Float(in.all.Quantile(q)), api.Float(before.all.Quantile(q))
	out.Sentence = judge.SpikeText(judge.Title(out.Measure, of), c.value(float64(out.Value)), out.End-out.Start)
	return out
}

// summed is what slots of strata amount to.
type summed struct {
	all                    hist.Histogram
	requests, failed, time float64
}

func (s *side) summed(names []operation, slot func(i int) bool) *summed {
	out := &summed{}
	for _, name := range names {
		x := s.strata[name]
		if x == nil {
			continue
		}
		for i := range x.good {
			if !slot(i) {
				continue
			}
			for k, h := range []*hist.Histogram{x.good[i], x.failed[i]} {
				if h == nil || out.all.Merge(h) != nil {
					continue
				}
				out.requests, out.time = out.requests+float64(h.Count), out.time+h.Sum
				if k == 1 {
					out.failed += float64(h.Count)
				}
			}
		}
	}
	return out
}

// nameShapes says of a change that lasts whether it is a step or a drift, or a season,
// warns of spikes in ranges, and puts what came and went before the sentence.
func (c *comparison) nameShapes() {
	if c.brief {
		return
	}
	c.out.Shapes, c.out.Hints = append(c.out.Shapes, c.shapes...), c.hints
	if s := c.before; s != nil {
		c.warning("spike", "the time before holds a spike, which is left out: %s from %s UTC", s.Sentence, time.Unix(s.Start, 0).UTC().Format("2006-01-02 15:04:05"))
	}
	for i := range c.shapes {
		if s := &c.shapes[i]; s.Side != "" {
			side, of := c.a, "A"
			if s.Side == "b" {
				side, of = c.b, "B"
			}
			c.warning("spike", "side %s holds a spike: %s from %s UTC, %s of its %s; compare without that time", of, s.Sentence,
				time.Unix(s.Start, 0).UTC().Format("2006-01-02 15:04:05"), figure.Percent(float64(s.End-s.Start)/float64(side.end-side.start)), judge.Span(side.end-side.start))
		}
	}
	if judge.Moved(c.out.Verdict) && c.whole != nil {
		c.nameLasting()
	}
	if c.mark != nil {
		c.out.Sentence = judge.WithShapes(c.out.Shapes, c.out.Verdict, c.lasting)
	}
}

// nameLasting says how the measure that stands for all moved.
func (c *comparison) nameLasting() {
	lead := Lead(c.out.Measures, c.found, c.Within)
	if of := leadOf(c.out.Measures, drifts, c.Within); of != nil {
		lead = of
	}
	if lead == nil || c.paired || c.Label != "" || c.a.parts != nil || c.b.parts != nil {
		return
	}
	i := slices.IndexFunc(measures, func(m measure) bool { return m.Name == lead.Name })
	gap := c.b.start - c.a.end
	if i < 0 || gap < 0 || float64(gap) > nearSides*float64(max(c.a.end-c.a.start, c.b.end-c.b.start)) {
		return
	}
	shape := api.Shape{Measure: lead.Name, Usual: lead.Judged().A, Value: lead.Judged().B}
	if w := slices.IndexFunc(c.out.Warnings, func(w api.CompareWarning) bool { return w.Code == "season" }); w >= 0 {
		shape.Kind, shape.Start, shape.End = judge.Season, c.a.start, c.b.end
		shape.Sentence = judge.Title(lead.Name, c.of) + " moves so at these hours of an earlier day as well"
		c.out.Shapes = append(c.out.Shapes, shape)
		return
	}
	switch measures[i].trend(c.whole) {
	case stat.Step:
		shape.Kind, shape.Start, shape.End = judge.Step, c.b.start, c.b.start
		shape.Sentence = fmt.Sprintf("%s is at one level before, %s, and at another after, %s", judge.Title(lead.Name, c.of), c.shapeValue(lead.Name, shape.Usual), c.shapeValue(lead.Name, shape.Value))
	case stat.Drift:
		shape.Kind, shape.Start, shape.End = judge.Drift, c.a.start, c.b.end
		shape.Sentence = judge.Title(lead.Name, c.of) + " moves along a line through both sides, which is a drift and not a step"
	default:
		return
	}
	c.out.Shapes = append(c.out.Shapes, shape)
}

func (c *comparison) shapeValue(measure string, v api.Float) string {
	switch measure {
	case judge.ErrorShare:
		return figure.Percent(float64(v))
	case judge.Apdex:
		return figure.Digits(float64(v))
	}
	return c.value(float64(v))
}

// trend says how a measure of all requests together moved.
func (m measure) trend(whole *strata) stat.Trend {
	sum := func(strata []stat.Tally) (out stat.Tally) {
		out = stat.Tally{Num: make([]float64, len(strata[0].Num)), Den: make([]float64, len(strata[0].Den))}
		for _, t := range strata {
			for i := range t.Num {
				out.Num[i] += t.Num[i]
				out.Den[i] += t.Den[i]
			}
		}
		return out
	}
	switch {
	case m.q > 0:
		return stat.StepOrDrift(whole.a, whole.b, m.q)
	case m.Name == judge.ErrorShare:
		return stat.StepOrDriftOf(sum(whole.errorsA), sum(whole.errorsB))
	case m.Name == judge.Mean:
		return stat.StepOrDriftOf(sum(whole.a.Sums()), sum(whole.b.Sums()))
	}
	return stat.StepOrDriftOf(sum(whole.apdexA), sum(whole.apdexB))
}
