package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/internal/experiment/capacity/objective"
)

// Levels simulates requests at a rate, after a tenth as many that are not counted. It
// returns for each condition the logarithm of the observed figure over its limit,
// below 0 if it is kept.
func (s Shape) Levels(rate float64, requests int, seed uint64) ([]float64, error) {
	o, err := objective.Parse(s.Objective)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	line := New(s.Server, rng)
	sums := make([]float64, len(o))
	t, warm := 0.0, requests/10
	for i := range requests + warm {
		t += rng.ExpFloat64() / rate
		takes, fails := line.Arrive(t)
		if i < warm {
			continue
		}
		for k, c := range o {
			switch {
			case c.Measure == "mean":
				sums[k] += takes
			case c.Measure == "errors" && fails, c.Measure != "errors" && takes > c.Limit:
				sums[k]++
			}
		}
	}
	for k, c := range o {
		target := c.Limit
		if c.Measure == "quantile" {
			target = 1 - c.Quantile
		}
		sums[k] = math.Log(sums[k] / float64(requests) / target)
	}
	return sums, nil
}

// Find returns the rate between low and high at which the objective breaks in the
// long run: by halving, with the same random numbers at each.
func (s Shape) Find(low, high float64, requests int, seed uint64) (float64, error) {
	for high/low > 1.0005 {
		middle := math.Sqrt(low * high)
		levels, err := s.Levels(middle, requests, seed)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.Name, err)
		}
		broken := false
		for _, l := range levels {
			broken = broken || l > 0
		}
		if broken {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Sqrt(low * high), nil
}
