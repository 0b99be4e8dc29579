package stat

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// reference is what testdata/reference.py found with SciPy; it names versions.
type reference struct {
	MadeBy string `json:"made_by"`
	Edges  []float64
	Cases  []struct {
		Name      string
		A, B      [][]float64
		SumsA     []float64 `json:"sums_a"`
		SumsB     []float64 `json:"sums_b"`
		Quantiles []referenceChange
		Mean      referenceChange
	}
	Student        []struct{ P, DF, T float64 }
	FalseDiscovery struct{ P, Adjusted []float64 } `json:"false_discovery"`
	Wilson         []struct{ K, N, Level, Low, High float64 }
}

type referenceChange struct {
	P, Level, A, B, Effect, DF, Low, High, Within float64
	Cosines                                       int
}

func readReference(t *testing.T) (r reference) {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*max(1e-3, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestIntervalsAgreeWithSciPy(t *testing.T) {
	r := readReference(t)
	compared := 0
	for _, c := range r.Cases {
		a, err := NewSeriesOfCounts(r.Edges, c.A, c.SumsA)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewSeriesOfCounts(r.Edges, c.B, c.SumsB)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name string, got Change, want referenceChange) {
			t.Helper()
			compared++
			near(t, name+" A", got.A, want.A, 1e-9)
			near(t, name+" B", got.B, want.B, 1e-9)
			near(t, name+" effect", got.Effect, want.Effect, 1e-8)
			// Wide bins of the spectrum are integrated at four points here.
			near(t, name+" degrees of freedom", got.DF, want.DF, 1e-3)
			near(t, name+" low", got.CI.Low, want.Low, 1e-3)
			near(t, name+" high", got.CI.High, want.High, 1e-3)
			if got.Cosines != want.Cosines {
				t.Errorf("%s: %d cosines, want %d", name, got.Cosines, want.Cosines)
			}
		}
		for _, want := range c.Quantiles {
			got, err := Quantile(Side{a}, Side{b}, want.P, nil, Options{Level: want.Level})
			if err != nil {
				t.Fatal(err)
			}
			check(c.Name, got, want)
		}
		got, err := Mean(Side{a}, Side{b}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		check(c.Name+", mean", got, c.Mean)
		near(t, c.Name+", within 25 %", got.Within(0.25), c.Mean.Within, 5e-3)
	}
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

func TestDistributionsAgreeWithSciPy(t *testing.T) {
	r := readReference(t)
	for _, s := range r.Student {
		near(t, "critical", critical(s.P, s.DF), s.T, 1e-9)
		near(t, "tail", tail(s.T, s.DF), s.P, 1e-6)
	}
	for i, got := range BenjaminiHochberg(r.FalseDiscovery.P) {
		near(t, "adjusted", got, r.FalseDiscovery.Adjusted[i], 1e-12)
	}
	for _, w := range r.Wilson {
		low, high := wilson(w.K/w.N, w.N, critical((1-w.Level)/2, math.Inf(1)))
		near(t, "Wilson low", low, w.Low, 1e-9)
		near(t, "Wilson high", high, w.High, 1e-9)
	}
}
