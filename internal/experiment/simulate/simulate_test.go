package simulate

import (
	"context"
	"math"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one returns a model of one class whose leaves take d, whatever their size.
func one(d *Distribution) Model {
	return Model{Classes: []Class{{Name: "one", Weight: 1, Sizes: []Size{{Slots: []*Distribution{d}}}}}}
}

func run(t *testing.T, m Model, l Layout, o Options) *Result {
	t.Helper()
	if raceEnabled && o.Queries > 10_000 {
		t.Skip("figures do not depend on the race detector, their time does")
	}
	r, err := Run(context.Background(), m, l, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near fails unless got is within share of want.
func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)+1e-9) {
		t.Errorf("%s: %.6g, want %.6g within %.2g %%", what, got, want, 100*share)
	}
}

func TestOneQueueIsThatOfTheory(t *testing.T) {
	r := run(t, one(Exponential(0.01)), Layout{Nodes: 1, Shards: 1, Threads: 1, Rate: 50}, Options{Queries: 200_000})
	near(t, "mean of M/M/1", float64(r.Mean.Value), 0.02, 0.02)
	near(t, "p99 of M/M/1", float64(r.Quantiles["0.99"].Value), 0.02*math.Log(100), 0.03)
	near(t, "utilisation", float64(r.Utilisation), 0.5, 0.01)
}
