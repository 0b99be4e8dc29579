package changes

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/stat"
)

// amongSpikes is the rate of false discoveries in the short spikes of all that is searched.
const amongSpikes = 0.01

// place is a stretch of a part in which spikes are looked for.
type place struct {
	part compare.Part
	in   compare.Stretch
}

// wholes are the parts from their beginning to their end.
func wholes(s *compare.Stretches, parts []compare.Part) []place {
	out := make([]place, len(parts))
	for i, p := range parts {
		out[i] = place{p, compare.Stretch{From: 0, To: s.Slots()}}
	}
	return out
}

// betweenSteps are the stretches of parts that steps bound, without the slots in which a
// step may lie. What is usual in one of them is not so in another, so that a spike is seen
// in its own stretch only. The candidates of a part follow each other.
func betweenSteps(found []candidate) (out []place) {
	found = slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return c.inner != nil })
	for from := 0; from < len(found); { // errors of few tenants are among the others
		to := from + 1
		for to < len(found) && found[to].part == found[from].part {
			to++
		}
		slices.SortStableFunc(found[from:to], func(x, y candidate) int { return cmp.Compare(x.point.at, y.point.at) })
		from = to
	}
	add := func(p compare.Part, from, to int) {
		if to-from >= fewestSlots {
			out = append(out, place{p, compare.Stretch{From: from, To: to}})
		}
	}
	for i, c := range found {
		from := c.before.From
		if i > 0 && found[i-1].part == c.part {
			from = found[i-1].point.high
		}
		add(c.part, from, c.point.low)
		if i+1 == len(found) || found[i+1].part != c.part {
			add(c.part, c.point.high, c.after.To)
		}
	}
	return out
}

// takeSpikes finds the spikes that are shorter than two changes are apart, and leaves their
// slots out of all that is searched and compared afterwards: a step fits such a spike badly,
// and what it does to a stretch hides other steps. Where a season is taken out all slots are
// needed, and none is looked for. It calls quiet, unless that is nil, with the durations of each place
// without a spike, possibly of several at once: what was read of them need not be read again.
func takeSpikes(ctx context.Context, s *compare.Stretches, places []place, quiet func(compare.Part, *stat.Series) error) ([]api.Change, error) {
	if int64(s.Slots())*s.Step() >= fewestDays*day {
		return nil, nil
	}
	all := make([][]compare.Spike, len(places))
	work, working := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range places {
		work.Go(func() (err error) {
			if err := working.Err(); err != nil {
				return err
			}
			var durations *stat.Series
			all[i], durations, err = s.Spikes(p.part, p.in, fewestAfter, discovery)
			if err == nil && durations != nil && quiet != nil {
				err = quiet(p.part, durations)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	p := make([]float64, len(places))
	for i := range all {
		p[i] = 1
		for _, x := range all[i] {
			p[i] = min(p[i], x.P)
		}
	}
	times := stat.AmongFamilies(p, amongSpikes)
	var out []api.Change
	for i, at := range places {
		for _, x := range all[i] {
			height, _ := heights(x.Shape.Measure, float64(x.Shape.Usual), float64(x.Shape.Value), float64(x.Shape.Usual))
			if x.P = min(1, x.P*times); x.P > amongSpikes || math.Abs(height) < leastOf(x.Shape.Measure) {
				continue
			}
			s.Leave(at.part, x.Stretch)
			then, err := besideSpike(ctx, s, at, x)
			if err != nil {
				return nil, err
			}
			out = append(out, *spikeChange(s, at, x, then))
		}
	}
	return out, nil
}

// besideSpike compares the measure of a spike before and after it, in the slots next to it: farther
// ones may lie beyond a step. It returns nil if there are too few.
func besideSpike(ctx context.Context, s *compare.Stretches, at place, x compare.Spike) (*api.CompareMeasure, error) {
	before := compare.Stretch{From: max(at.in.From, x.From-nextTo), To: x.From}
	after := compare.Stretch{From: x.To, To: min(at.in.To, x.To+nextTo)}
	if min(before.To-before.From, after.To-after.From) < fewestSlots {
		return nil, nil
	}
	ctx, done := store.Passing(ctx)
	defer done()
	found, err := s.Compare(ctx, at.part, before, after)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found.Measures, func(m api.CompareMeasure) bool { return m.Name == x.Shape.Measure })
	if i < 0 {
		return nil, nil
	}
	return &found.Measures[i], nil
}

// nextTo is the number of slots before and after a short spike that are compared.
const nextTo = 2 * fewestSlots

// spikeChange is a spike as a change.
func spikeChange(s *compare.Stretches, at place, x compare.Spike, then *api.CompareMeasure) *api.Change {
	thing := Durations
	if x.Shape.Measure == judge.ErrorShare {
		thing = Errors
	}
	c := newChange(s, candidate{
		part:   at.part,
		point:  point{at: x.From, low: max(0, x.From-1), high: x.From + 1, p: x.P, of: []string{thing}},
		before: compare.Stretch{From: at.in.From, To: x.From}, after: compare.Stretch{From: x.From, To: x.To},
	})
	c.Verdict, c.Measures = judge.Regression, []api.CompareMeasure{}
	c.Shape = &x.Shape
	of := at.part // or the one operation of a service that stands for it
	if x.Shape.Operation != "" {
		of.Operation, of.Own = x.Shape.Operation, true
	}
	c.Shape.Service, c.Shape.Operation = of.Service, of.Operation
	nameSpike(c, s.Subject(of), s.Step(), then)
	return c
}
