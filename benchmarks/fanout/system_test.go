//go:build servers

package fanout

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"tailscope/internal/simulate"
)

// TestSimulated holds simulations against processes that speak HTTP: queries to 1, 4
// and 16 leaves, and the staircase. Other tests keep the machine busy meanwhile, so
// what is asserted is coarse; the benchmark says how near it comes.
func TestSimulated(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	works := []Work{{Seed: 1}, {Seed: 1, Even: true}}
	models := make([]simulate.Model, len(works))
	for i, w := range works {
		leaf, err := Leaf(ctx, dir, w, Base, 300, 4*time.Second, 1)
		if err != nil {
			t.Fatal(err)
		}
		if models[i], err = Model(map[int][]float64{Base: leaf}, 0, Base); err != nil {
			t.Fatal(err)
		}
	}
	layouts := []Layout{Evenly(8, false, 0), Evenly(12, false, 0), Evenly(16, false, 0)}
	for _, n := range []int{1, 4, 16} {
		layouts = append(layouts, Idle(n, 30))
	}
	p50 := make([]float64, len(layouts))
	var all sync.WaitGroup
	for i, l := range layouts {
		all.Go(func() {
			kind := 0
			if l.Rate == 0 {
				kind = 1
			}
			took, err := l.Run(ctx, dir, works[kind], 8*time.Second, uint64(i))
			if err != nil {
				t.Errorf("%s: %v", l.Name, err)
				return
			}
			res, err := l.Simulate(ctx, models[kind], 50_000, 1)
			if err != nil {
				t.Errorf("%s: %v", l.Name, err)
				return
			}
			slices.Sort(took)
			p50[i] = took[len(took)/2]
			for _, q := range []struct {
				name string
				p    float64
			}{{"0.5", 0.5}, {"0.95", 0.95}} {
				got, want := float64(res.Quantiles[q.name].Value), took[int(q.p*float64(len(took)))]
				t.Logf("%s: p%g of %d is %.1f ms, simulated %.1f ms", l.Name, 100*q.p, len(took), 1e3*want, 1e3*got)
				if math.Abs(got-want) > 0.25*want+0.01 {
					t.Errorf("%s: p%g is %.1f ms, simulated %.1f ms", l.Name, 100*q.p, 1e3*want, 1e3*got)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if p50[1] < 0.85*p50[0] || p50[2] > 0.85*p50[0] {
		t.Errorf("p50 of 8, 12 and 16 nodes is %.1f, %.1f and %.1f ms: no stairs", 1e3*p50[0], 1e3*p50[1], 1e3*p50[2])
	}
}
