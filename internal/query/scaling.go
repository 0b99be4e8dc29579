package query

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/scaling"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fewestInPoint is how many requests a step needs for its mean to say something;
// steps with fewer are shown and left out of the law.
const fewestInPoint = 20

// scalingWidth is how many steps a range is cut into unless said otherwise.
const scalingWidth = 240

// ScalingRequest asks for the scalability law of requests.
type ScalingRequest struct {
	Selection
	Grid
	Level float64 // of the intervals; 0 stands for 0.95
}

// Scaling fits the Universal Scalability Law to stored requests: in every step there
// are rate × mean latency of them at a time (Little 1961). Steps depend on their
// neighbours, so intervals are by the bootstrap on blocks of about twice the cube
// root of their number (Hall, Horowitz & Jing 1995, Biometrika 82, on the order). The
// law is missing where there is too little for one, and a warning says so.
func Scaling(ctx context.Context, st store.Store, r ScalingRequest) (*api.ScalingResponse, error) {
	if r.Level != 0 && !(r.Level > 0.5 && r.Level < 1) {
		return nil, Invalid("level", "a level of %v is not between 0.5 and 1; write 0.95", r.Level)
	}
	if r.Step == 0 && r.Width == 0 {
		r.Width = scalingWidth
	}
	if serviceOf(r.Matchers) == "" {
		return nil, Invalid("match", `a law is of the requests of one service; write match={service="checkout"}`)
	}
	found, err := Requests(ctx, st, RequestsRequest{Selection: r.Selection, Grid: r.Grid, Measure: store.Moments})
	if err != nil {
		return nil, err
	}
	points, seen := found.points()
	out := &api.ScalingResponse{
		Range: api.Range{Start: found.Start, End: found.End}, Step: found.Step,
		Points: scaling.APIPoints(points), Warnings: []api.CompareWarning{},
	}
	warn := func(format string, args ...any) {
		out.Warnings = append(out.Warnings, api.CompareWarning{Code: "law", Text: fmt.Sprintf(format, args...)})
	}
	fitted := 0
	for _, p := range points {
		if !p.Left {
			fitted++
		}
	}
	if left := len(points) - fitted; left > 0 {
		warn("%d of %d steps of %ds have fewer than %d requests and are left out: longer steps have more", left, len(points), found.Step, fewestInPoint)
	}
	law, err := scaling.Fit(points, scaling.Options{
		Level: r.Level, Block: int(math.Ceil(2 * math.Cbrt(float64(fitted)))), Resamples: 300, Seed: uint64(found.Start),
	})
	switch {
	case errors.Is(err, scaling.ErrTooLittle) && seen == 0:
		warn("no request was seen in this range: ask for a longer one")
	case errors.Is(err, scaling.ErrTooLittle):
		warn("%v: ask for a longer range", err)
	case errors.Is(err, scaling.ErrNoLaw):
		warn("%v: ask for a range in which load went up and down, or for one operation", err)
	case err != nil:
		return nil, err
	default:
		for _, w := range law.Warnings {
			warn("%s", w)
		}
		out.Law = law.API("stored")
	}
	return out, nil
}

// points returns a point for every step with requests, and how many requests there
// were. Groups are one on top of the other. The last step is left out unless it has
// ended.
func (r *Requested) points() (points []scaling.Point, seen uint64) {
	if r.Step == 0 {
		return nil, 0
	}
	for i := range int((r.End - r.Start) / r.Step) {
		start := r.Start + int64(i)*r.Step
		if start+r.Step > r.Until {
			break
		}
		count, sum := uint64(0), 0.0
		for _, g := range r.Groups {
			for _, h := range []*hist.Histogram{g.Good[i], g.Failed[i]} {
				if h != nil {
					count += h.Count
					sum += h.Sum
				}
			}
		}
		if count == 0 || !(sum > 0) {
			continue
		}
		seen += count
		points = append(points, scaling.Point{
			Rate: float64(count) / float64(r.Step), Mean: sum / float64(count), N: sum / float64(r.Step),
			Time: float64(start), Left: count < fewestInPoint,
		})
	}
	return points, seen
}

// serviceOf returns the service that matchers name, empty if they name none.
func serviceOf(ms []*labels.Matcher) string {
	for _, m := range ms {
		if m.Name == series.LabelService && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}
