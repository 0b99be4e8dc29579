package capacity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/clock"
	"tailscope/internal/experiment/capacity/virtual"
)

// Known is one search of a server whose limit is known.
type Known struct {
	Shape string  `json:"shape"`
	Seed  uint64  `json:"seed"`
	Real  bool    `json:"real"` // its workers wait one by one
	Truth float64 `json:"truth"`
	Value float64 `json:"value"` // what was found; 0 if nothing was
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Verdict is the search's, Seconds how long it took, Requests how many it sent.
	Verdict  api.CapacityVerdict `json:"verdict"`
	Doubts   []string            `json:"doubts,omitempty"` // its warnings
	Seconds  float64             `json:"seconds"`
	Requests int64               `json:"requests"`
	Late     float64             `json:"late"` // 99th percentile of how late answers left, seconds

	shape virtual.Shape
	took  []float64 // services of real workers, whose truth is still to be found
}

// Off returns how far what was found is from the truth, as a share of it; 1 if nothing was
// found.
func (k Known) Off() float64 { return math.Abs(k.Value/k.Truth - 1) }

// Covers reports whether the interval holds the truth.
func (k Known) Covers() bool { return k.Low <= k.Truth && k.Truth <= k.High }

// Open reports whether the interval has an end that no load was held beyond.
func (k Known) Open() bool { return k.Low == 0 || k.High == math.MaxFloat64 }

// plain reports whether a shape is nothing but workers and service.
func plain(s virtual.Shape) bool {
	return s.Slowing == nil && s.QueueLimit == 0 && s.Allowed == 0 && s.Collapses == 0
}

// truthRequests is the number of requests, at each rate that is tried, with which the
// truth of real workers is simulated.
const truthRequests = 4_000_000

// Plan returns the runs of a proof, the first of them being those of any shorter one:
// shape after shape with ever new seeds; of plain queues every third round has real
// workers.
func Plan(runs int) []Known {
	shapes := virtual.Shapes()
	plan := make([]Known, runs)
	for i := range plan {
		s, round := shapes[i%len(shapes)], i/len(shapes)
		plan[i] = Known{Shape: s.Name, Seed: uint64(1000 + i), Real: plain(s) && round%3 == 2, Truth: s.Truth, shape: s}
	}
	return plan
}

// Run searches k's server, within budget, and fills in what came of it, but for what is
// left to Tell. The search knows nothing of the truth: it begins at a rate drawn from 1
// to 20 % of it.
func (k Known) Run(ctx context.Context, c *clock.Clock, budget time.Duration) (Known, error) {
	shape := k.shape
	var s *Server
	var w *Workers
	var err error
	if k.Real {
		if w, err = StartWorkers(ctx, shape.Server, c, k.Seed); err == nil {
			s = w.Server
		}
	} else {
		s, err = Queue(ctx, shape.Server, c, k.Seed)
	}
	if err != nil {
		return k, err
	}
	defer s.Close()
	random := rand.New(rand.NewPCG(k.Seed, 7))
	lowest := shape.Truth * (0.01 + 0.19*random.Float64())
	begun := time.Now()
	found, err := Ask(ctx, s.URL, "--objective", shape.Objective, "--lowest", fmt.Sprintf("%.2f", lowest), "--within", budget.String(),
		"--seed", fmt.Sprint(k.Seed), "--set", "connections=4096", "--set", "timeout=10s")
	if err != nil {
		return k, err
	}
	k.Seconds, k.Requests, k.Verdict, k.Late = time.Since(begun).Seconds(), s.Arrivals(), found.Verdict, s.Late(0.99)
	for _, w := range found.Warnings {
		k.Doubts = append(k.Doubts, w.Text)
	}
	if found.Failed != "" {
		return k, fmt.Errorf("%s: %s", shape.Name, found.Failed)
	}
	if a := found.Answer; a != nil {
		k.Value, k.Low, k.High = finite(float64(a.Value), 0), finite(float64(a.Low), 0), finite(float64(a.High), math.MaxFloat64)
	}
	if k.Real {
		k.took = w.Took()
	}
	return k, nil
}

// Tell fills in the truth of real workers, by a long simulation that takes all of the
// machine: once no search is under way any more. Others' is known before.
func (k *Known) Tell() (err error) {
	if k.took == nil {
		return nil
	}
	k.Truth, err = Truth(k.shape, k.took, truthRequests)
	k.took = nil
	return err
}

// finite is v, or otherwise what stands for it if it is not a number.
func finite(v, otherwise float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return otherwise
	}
	return v
}
