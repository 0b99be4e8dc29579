package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/scaling"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fewestInPoint is how many requests a step needs for its mean to say something;
// steps with fewer are shown and left out of the law.
const fewestInPoint = 20

// scalingWidth is the most steps that a range longer than a day is cut into by default;
// a shorter one has a step a minute.
const scalingWidth = 1440

// scalingSteps are the default steps of a range, in seconds: the first one is used in
// which most steps have requests enough, for at least leastSteps of them.
var scalingSteps = []int64{60, 600, 3600}

const leastSteps = 12

// ScalingRequest asks for the scalability laws of requests.
type ScalingRequest struct {
	Selection
	Grid
	Level float64   // of the intervals; default 0.95
	Now   time.Time // steps of which not all is stored then are left out; the zero time: none
	// Target returns what satisfies a user, in seconds; default DefaultApdexT.
	Target func(service, operation string) float64
}

// Scaling fits the Universal Scalability Law to stored requests, once for each
// configuration: in every step there are rate × mean latency of them at a time
// (Little 1961). Steps depend on their neighbours, so intervals are by the bootstrap
// on blocks of about twice the cube root of their number (Hall, Horowitz & Jing 1995,
// Biometrika 82, on the order). A law is missing where there is too little for one,
// and a warning says so.
func Scaling(ctx context.Context, st store.Store, r ScalingRequest) (*api.ScalingResponse, error) {
	if r.Level == 0 {
		r.Level = 0.95
	}
	if !(r.Level > 0.5 && r.Level < 1) {
		return nil, Invalid("level", "a level of %v is not between 0.5 and 1; write 0.95", r.Level)
	}
	if r.Target == nil {
		r.Target = func(string, string) float64 { return DefaultApdexT }
	}
	service := Named(r.Matchers, series.LabelService)
	if service == "" {
		return nil, Invalid("match", `a law is of the requests of one service; write match={service="checkout"}`)
	}
	found, err := r.steps(ctx, st)
	if err != nil {
		return nil, err
	}
	if !r.Now.IsZero() {
		found.Until = min(found.Until, LastWhole(r.Now))
	}
	marks, err := store.Marks(ctx, st, r.Start, r.End)
	if err != nil {
		return nil, err
	}
	points := found.points()
	s := &scaled{ScalingRequest: r, st: st, found: found, points: points, out: &api.ScalingResponse{
		Range: api.Range{Start: found.Start, End: found.End}, Step: found.Step, Warnings: []api.CompareWarning{},
	}}
	s.part(marks, service)
	for i := range s.out.Configurations {
		if err := s.describe(ctx, i); err != nil {
			return nil, err
		}
	}
	newest := &s.out.Configurations[len(s.out.Configurations)-1]
	s.out.Law, s.out.Points = newest.Law, scaling.APIPoints(points)
	s.out.Warnings = append(s.out.Warnings, newest.Warnings...)
	if err := s.usage(ctx); err != nil {
		return nil, err
	}
	return s.out, s.changes()
}

// steps reads the requests by operation. By default it takes the finest step in which most
// steps have requests enough for a point.
func (r *ScalingRequest) steps(ctx context.Context, st store.Store) (*Requested, error) {
	ask := func(g Grid) (*Requested, error) {
		return Requests(ctx, st, RequestsRequest{Selection: r.Selection, Grid: g, By: []string{series.LabelOperation}, Measure: store.Moments})
	}
	length := r.End.Unix() - r.Start.Unix()
	switch {
	case r.Step != 0 || r.Width != 0:
		return ask(r.Grid)
	case length > scalingWidth*scalingSteps[0]:
		return ask(Grid{Width: scalingWidth})
	}
	for i, step := range scalingSteps {
		found, err := ask(Grid{Step: step})
		if err != nil {
			return nil, err
		}
		few, points := 0, found.points()
		for _, p := range points {
			if p.Left {
				few++
			}
		}
		if 2*few <= len(points) || i+1 == len(scalingSteps) || length/scalingSteps[i+1] < leastSteps {
			return found, nil
		}
	}
	panic("unreachable: the last step is always taken")
}

// fit fits the law to the points of configuration i.
func (s *scaled) fit(i int) error {
	c := &s.out.Configurations[i]
	c.Warnings = []api.CompareWarning{}
	warn := func(format string, args ...any) {
		c.Warnings = append(c.Warnings, api.CompareWarning{Code: "law", Text: fmt.Sprintf(format, args...)})
	}
	var own []scaling.Point
	fitted := 0
	for _, p := range s.points {
		if p.Configuration != i {
			continue
		}
		own = append(own, p)
		if !p.Left {
			fitted++
		}
	}
	if left := len(own) - fitted; left > 0 {
		warn("%d of %d steps of %ds have fewer than %d requests, or border on ones without any, and are left out: longer steps have more", left, len(own), s.found.Step, fewestInPoint)
	}
	found, err := scaling.Fit(own, scaling.Options{
		Level: s.Level, Block: int(math.Ceil(2 * math.Cbrt(float64(fitted)))), Resamples: 300, Seed: uint64(s.found.Start),
	})
	none := func(why, next string) {
		c.NoLaw = why
		warn("%s: %s", why, next)
	}
	switch {
	case errors.Is(err, scaling.ErrTooLittle) && len(own) == 0 && len(s.points) > 0:
		none(fmt.Sprintf("%s has no whole step of %ds with requests", cmp.Or(c.Name, "the time before the first mark"), s.found.Step), "ask again later, or for shorter steps")
	case errors.Is(err, scaling.ErrTooLittle) && len(own) == 0:
		none("no request was seen in this range", "ask for a longer one")
	case errors.Is(err, scaling.ErrTooLittle):
		none(err.Error(), "ask for a longer range")
	case errors.Is(err, scaling.ErrNoLaw):
		none(err.Error(), "ask for a range in which load went up and down, twofold at least, or for one operation")
	case err != nil:
		return err
	default:
		for _, w := range found.Warnings {
			warn("%s", w)
		}
		c.Law = found.API("stored")
	}
	return nil
}

// points returns a point for every step with requests, of no configuration. Groups are one
// on top of the other. The last step is left out unless it has ended. Steps that border on
// ones without any request are not fitted: only a part of them was measured.
func (r *Requested) points() (points []scaling.Point) {
	if r.Step == 0 {
		return nil
	}
	for i := range int((r.End - r.Start) / r.Step) {
		start := r.Start + int64(i)*r.Step
		if start+r.Step > r.Until {
			break
		}
		count, sum := uint64(0), 0.0
		for _, g := range r.Groups {
			n, s := g.total(i)
			count += n
			sum += s
		}
		if count == 0 || !(sum > 0) {
			continue
		}
		n := len(points)
		afterGap := i > 0 && (n == 0 || int64(points[n-1].Time) != start-r.Step)
		if n > 0 && afterGap {
			points[n-1].Left = true
		}
		points = append(points, scaling.Point{
			Rate: float64(count) / float64(r.Step), Mean: sum / float64(count), N: sum / float64(r.Step),
			Time: float64(start), Left: count < fewestInPoint || afterGap, Configuration: -1,
		})
	}
	return points
}

// total returns how many requests there were in step i, and the sum of their durations.
func (g *RequestGroup) total(i int) (count uint64, sum float64) {
	for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
		if h != nil {
			count += h.Count
			sum += h.Sum
		}
	}
	return count, sum
}
