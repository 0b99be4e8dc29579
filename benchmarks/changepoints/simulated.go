package changepoints

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/hist"
	"tailscope/stat"
)

const (
	// Slots of 10 s, an hour of them, as Tailscope keeps them.
	Slots    = 360
	requests = 100
)

// Kind is a sort of change. Slot medians follow a first-order autoregression
// with a log standard deviation of 0.15, requests within a slot are log-normal
// with one of 0.6.
type Kind struct {
	Name  string
	Truth []int // first slots of what is new
	// draw is the logarithm of one request of slot t whose median is m.
	draw func(r *rand.Rand, m float64, t int) float64
}

// shifted multiplies all durations by a factor where it applies.
func shifted(name string, truth []int, factor func(t int) float64) Kind {
	return Kind{name, truth, func(r *rand.Rand, m float64, t int) float64 {
		return m + 0.6*r.NormFloat64() + math.Log(factor(t))
	}}
}

func between(from, to int, factor float64) func(int) float64 {
	return func(t int) float64 {
		if from <= t && t < to {
			return factor
		}
		return 1
	}
}

// Unchanged are kinds without a change, by the shape of the tail.
func Unchanged() []Kind {
	return []Kind{
		shifted("log-normal", nil, between(0, 0, 1)),
		{"Pareto 1.5", nil, func(r *rand.Rand, m float64, _ int) float64 { return m + r.ExpFloat64()/1.5 }},
	}
}

// Kinds returns those that series are simulated of.
func Kinds() []Kind {
	return []Kind{
		shifted("no change", nil, between(0, 0, 1)),
		shifted("lone slots twenty times as slow", nil, func(t int) float64 {
			if t%90 == 50 {
				return 20
			}
			return 1
		}),
		shifted("all 10 % slower", []int{180}, between(180, Slots, 1.1)),
		shifted("all 25 % slower", []int{180}, between(180, Slots, 1.25)),
		shifted("all three times as slow", []int{120}, between(120, Slots, 3)),
		shifted("30 % slower in the last tenth", []int{324}, between(324, Slots, 1.3)),
		shifted("50 % slower for five minutes", []int{150, 180}, between(150, 180, 1.5)),
		shifted("30 % slower, back, and again", []int{90, 180, 270}, func(t int) float64 {
			if (t/90)%2 == 1 {
				return 1.3
			}
			return 1
		}),
		{"the slowest 1 % twice as slow", []int{180}, func(r *rand.Rand, m float64, t int) float64 {
			z := r.NormFloat64()
			if t >= 180 && z > 2.3263 {
				return m + 0.6*z + math.Ln2
			}
			return m + 0.6*z
		}},
		{"the slowest 2 % three times as slow", []int{180}, func(r *rand.Rand, m float64, t int) float64 {
			z := r.NormFloat64()
			if t >= 180 && z > 2.0537 {
				return m + 0.6*z + math.Log(3)
			}
			return m + 0.6*z
		}},
		{"two modes with the mean unchanged", []int{180}, func(r *rand.Rand, m float64, t int) float64 {
			if t < 180 {
				return m + 0.6*r.NormFloat64()
			}
			// Modes at a third and three times the other, mean e^(0.18) as before.
			x := m + 0.135 - math.Log(math.Cosh(0.55)) + 0.3*r.NormFloat64()
			if r.IntN(2) == 0 {
				return x - 0.55
			}
			return x + 0.55
		}},
	}
}

// Simulate draws a series of a kind; the same seed draws the same.
func (k Kind) Simulate(seed uint64, correlation float64) ([]*hist.Histogram, error) {
	r := rand.New(rand.NewPCG(seed, uint64(1000*correlation)+uint64(len(k.Name))<<20))
	slots := make([]*hist.Histogram, Slots)
	m := 0.15 * r.NormFloat64()
	for t := range slots {
		if t > 0 {
			m = correlation*m + 0.15*math.Sqrt(1-correlation*correlation)*r.NormFloat64()
		}
		slots[t] = hist.New(hist.DefaultSchema)
		for range requests {
			if err := slots[t].Record(0.1 * math.Exp(k.draw(r, m, t))); err != nil {
				return nil, fmt.Errorf("simulate %s: %w", k.Name, err)
			}
		}
	}
	return slots, nil
}

// Metrics are each slot's p50, p95 and p99, what a tool that takes numbers is
// given.
func Metrics(slots []*hist.Histogram) [][]float64 {
	rows := make([][]float64, len(slots))
	for t, h := range slots {
		rows[t] = []float64{h.Quantile(0.5), h.Quantile(0.95), h.Quantile(0.99)}
	}
	return rows
}

// Moments returns those of change points.
func Moments(points []stat.ChangePoint) []int {
	var at []int
	for _, p := range points {
		at = append(at, p.At)
	}
	return at
}
