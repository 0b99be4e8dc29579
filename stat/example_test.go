package stat_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/hist"
	"tailscope/stat"
)

// Half an hour of 10 s slots before a change and half an hour after it, which
// made everything a tenth slower.
func ExampleQuantile() {
	r := rand.New(rand.NewPCG(1, 2))
	side := func(median float64) stat.Side {
		slots := make([]*hist.Histogram, 180)
		for t := range slots {
			slots[t] = hist.New(hist.DefaultSchema)
			for range 100 {
				_ = slots[t].Record(median * math.Exp(0.6*r.NormFloat64())) // finite
			}
		}
		s, err := stat.NewSeries(slots)
		if err != nil {
			panic(err)
		}
		return stat.Side{s}
	}
	before, after := side(0.100), side(0.110)

	c, err := stat.Quantile(before, after, 0.99, nil, stat.Options{})
	if err != nil {
		panic(err)
	}
	ratio, ci := c.Ratio()
	fmt.Printf("p99 %.0f ms, then %.0f ms: %.2f times, %.2f to %.2f at 95 %%\n", 1000*c.A, 1000*c.B, ratio, ci.Low, ci.High)
	fmt.Println(c.Verdict(0.03))
	fmt.Printf("5 %% would need %.1f times the data\n", c.Needed(math.Log(1.05), 0.9).Both)
	// Output:
	// p99 407 ms, then 460 ms: 1.13 times, 1.07 to 1.21 at 95 %
	// more
	// 5 % would need 4.4 times the data
}
