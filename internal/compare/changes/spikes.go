package changes

import (
	"context"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// amongSpikes is the rate of false discoveries in the short spikes of all that is searched.
const amongSpikes = 0.01

// takeSpikes finds the spikes that are shorter than two changes are apart, and leaves their
// slots out of all that is searched and compared afterwards: a step fits such a spike badly,
// and what it does to a stretch hides other steps. Where a season is taken out all slots are
// needed, and none is looked for.
func takeSpikes(ctx context.Context, s *compare.Stretches, parts []compare.Part) ([]api.Change, error) {
	if int64(s.Slots())*s.Step() >= fewestDays*day {
		return nil, nil
	}
	all := make([][]compare.Spike, len(parts))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range parts {
		work.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			all[i], err = s.Spikes(p, fewestAfter, discovery)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	p := make([]float64, len(parts))
	for i := range all {
		p[i] = 1
		for _, x := range all[i] {
			p[i] = min(p[i], x.P)
		}
	}
	times := stat.AmongFamilies(p, amongSpikes)
	var out []api.Change
	for i, part := range parts {
		var kept []compare.Spike
		for _, x := range all[i] {
			height, _ := heights(x.Shape.Measure, float64(x.Shape.Usual), float64(x.Shape.Value), float64(x.Shape.Usual))
			if x.P = min(1, x.P*times); x.P > amongSpikes || math.Abs(height) < leastOf(x.Shape.Measure) {
				continue
			}
			kept = append(kept, x)
			out = append(out, *spikeChange(s, part, x))
		}
		s.Leave(part, kept)
	}
	return out, nil
}

// spikeChange is a spike as a change.
func spikeChange(s *compare.Stretches, part compare.Part, x compare.Spike) *api.Change {
	thing := Durations
	if x.Shape.Measure == judge.ErrorShare {
		thing = Errors
	}
	c := newChange(s, candidate{
		part:   part,
		point:  point{at: x.From, low: max(0, x.From-1), high: x.From + 1, p: x.P, of: []string{thing}},
		before: compare.Stretch{From: 0, To: x.From}, after: compare.Stretch{From: x.From, To: x.To},
	})
	c.Verdict, c.Measures = judge.Regression, []api.CompareMeasure{}
	c.Shape = &x.Shape
	of := part // or the one operation of a service that stands for it
	if x.Shape.Operation != "" {
		of.Operation, of.Own = x.Shape.Operation, true
	}
	c.Shape.Service, c.Shape.Operation = of.Service, of.Operation
	nameSpike(c, s.Subject(of), s.Step())
	return c
}
