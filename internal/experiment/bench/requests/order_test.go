package requests

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Over a period each query comes as often as its weight says, exactly, and at no
// time is one further than one turn of each other ahead of its share.
func TestWeightsAreExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		weights := rapid.SliceOfN(rapid.Map(rapid.IntRange(1, 40), func(n int) float64 { return float64(n) / 8 }), 1, 8).Draw(rt, "weights")
		d := deal(weights)
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		period := uint64(len(d.turns))
		counts := make([]uint64, len(weights))
		for k := range 3 * period {
			q, nth := d.turn(k)
			if nth != counts[q] {
				rt.Fatalf("request %d is the %d-th of query %d, not the %d-th", k, nth, q, counts[q])
			}
			counts[q]++
			for q, n := range counts {
				if d.count(q, k+1) != n {
					rt.Fatalf("%d of query %d among %d, not %d", d.count(q, k+1), q, k+1, n)
				}
				if share := weights[q] / sum * float64(k+1); math.Abs(float64(n)-share) > float64(len(weights)) {
					rt.Fatalf("%d of query %d among %d, where %v is its share", n, q, k+1, share)
				}
			}
		}
		for q, n := range counts {
			if want := weights[q] / sum * float64(3*period); math.Abs(float64(n)-want) > 1e-6 {
				rt.Fatalf("query %d came %d times, not %v", q, n, want)
			}
		}
	})
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		want    []uint64
	}{
		{[]float64{1}, []uint64{1}},
		{[]float64{5, 5}, []uint64{1, 1}},
		{[]float64{0.7, 0.3}, []uint64{7, 3}},
		{[]float64{1, 1.0 / 3}, []uint64{3, 1}},
		{[]float64{99.9, 0.1}, []uint64{999, 1}},
		{[]float64{math.Pi, 1}, []uint64{24855, 7912}}, // the last good before the longest period, or near it
		{[]float64{1e9, 1}, []uint64{65536, 1}},        // rounded, and nothing is left out
	} {
		got := shares(c.weights)
		if c.weights[0] == math.Pi {
			if r := float64(got[0]) / float64(got[1]); math.Abs(r-math.Pi) > 1e-3 {
				t.Errorf("π: %v", got)
			}
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.weights, got, c.want)
		}
	}
}

// A permutation takes every number once, and each pass is another.
func TestShuffleTakesEveryRowOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, seed := uint64(rapid.IntRange(1, 300).Draw(rt, "rows")), rapid.Uint64().Draw(rt, "seed")
		var passes [2][]uint64
		for pass := range uint64(2) {
			for i := range rows {
				passes[pass] = append(passes[pass], shuffled.row(pass*rows+i, rows, seed))
			}
			sorted := slices.Sorted(slices.Values(passes[pass]))
			for i, row := range sorted {
				if row != uint64(i) {
					rt.Fatalf("pass %d: %v", pass, passes[pass])
				}
			}
		}
		if rows > 20 && slices.Equal(passes[0], passes[1]) {
			rt.Fatal("both passes are the same")
		}
	})
}

// Rows by chance are uniform: the χ² of 1,000 rows is within what comes once in
// some 10^6 times (mean 999, deviation √1998).
func TestRowsByChanceAreUniform(t *testing.T) {
	const rows, draws = 1000, 200_000
	var counts [rows]float64
	for k := range uint64(draws) {
		counts[byChance.row(k, rows, 7)]++
	}
	chi := 0.0
	for _, n := range counts {
		chi += (n - draws/rows) * (n - draws/rows) / (draws / rows)
	}
	if math.Abs(chi-(rows-1)) > 5*math.Sqrt(2*(rows-1)) {
		t.Errorf("χ² %v", chi)
	}
}

func TestOperationPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"GET /a", "GET /a", true}, {"GET /a", "GET /ab", false}, {"GET *", "GET /ab", true}, {"*/b", "GET /a/b", true},
		{"*/b", "GET /a/bc", false}, {"G*/a*c", "GET /abc", true}, {"*", "", true}, {"", "x", false},
	} {
		if matches(c.pattern, c.name) != c.want {
			t.Errorf("%q, %q", c.pattern, c.name)
		}
	}
}
