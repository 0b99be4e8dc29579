package calibration

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A short version of the campaign. The bounds leave room for what 150 trials
// scatter: three standard errors around 3 % and 9 %.
func TestFalseAlarmsAndFoundChanges(t *testing.T) {
	const trials = 150
	ran := 0
	for _, cell := range Unchanged() {
		if !slices.Contains([]string{
			"log-normal, 1 h, correlation 0.6", "log-normal, 1 h, correlation 0.9", "paired, 1 h, correlation 0.9",
			"mix shift, like for like, 1 h, correlation 0.6", "daily season, same hour, 1 h, correlation 0.6",
			"a share by itself, 1 h, correlation 0", "a share by itself, 1 h, correlation 0.6", "a share by itself, 1 h, correlation 0.9",
			"a counter for each request, 1 h, correlation 0.6", "1 to 200 requests a side in 20 to 100 slots, paired, 1 h, correlation 0.6",
		}, cell.Name) {
			continue
		}
		ran++
		tallies, err := cell.Run(context.Background(), trials)
		if err != nil {
			t.Fatal(err)
		}
		for _, tally := range tallies {
			rate := tally.Rate()
			switch {
			case strings.HasPrefix(tally.Method, "Mann–Whitney on requests"):
				if rate < 0.3 {
					t.Errorf("%s, %s: alarms in %.0f %%, which requests that depend on each other do not give", cell.Name, tally.Method, 100*rate)
				}
			case strings.HasSuffix(tally.Method, "of requests"):
				if rate > 0.16 {
					t.Errorf("%s, %s: %.1f %% of %d intervals leave out the truth", cell.Name, tally.Method, 100*rate, tally.Trials)
				}
			case cell.A.Slots == 0: // drawn by the method: not all of them can be judged
				if rate > 0.16 {
					t.Errorf("%s, %s: alarms in %.1f %%", cell.Name, tally.Method, 100*rate)
				}
			case strings.HasPrefix(tally.Method, "p") || tally.Method == "mean":
				if rate > 0.16 {
					t.Errorf("%s, %s: alarms in %.1f %% of %d trials without a change", cell.Name, tally.Method, 100*rate, tally.Trials)
				}
				if s := tally.StandardError(); s < 0.8 || s > 1.25 {
					t.Errorf("%s, %s: standard errors are %.2f of the true one", cell.Name, tally.Method, s)
				}
			}
		}
	}
	if ran != 10 {
		t.Errorf("%d cells ran, want 10: their names changed", ran)
	}
	for _, cell := range Changed() {
		if cell.Name != "all requests 5 % slower, paired, correlation 0.9" && cell.Name != "the slowest 1 % 20 % slower, tapering off to 3 %, windows, correlation 0" {
			continue
		}
		ours, oracle, err := cell.Found(context.Background(), 60)
		if err != nil {
			t.Fatal(err)
		}
		if ours < 0.9 || oracle < 0.9 {
			t.Errorf("%s: found in %.0f %%, by the oracle in %.0f %%", cell.Name, 100*ours, 100*oracle)
		}
	}
}

// A trial's outcome depends on the seed alone, not on who runs it when.
func TestTrialsRepeat(t *testing.T) {
	cell := Unchanged()[0]
	first, err := cell.Run(context.Background(), 8)
	if err != nil {
		t.Fatal(err)
	}
	second, err := cell.Run(context.Background(), 8)
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		if first[i].Alarms != second[i].Alarms || !slices.EqualFunc(first[i].effects, second[i].effects, func(x, y float64) bool {
			return x == y || math.IsNaN(x) && math.IsNaN(y)
		}) {
			t.Errorf("%s differs between runs", first[i].Method)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := cell.Run(ctx, 8); err == nil {
		t.Error("no error of a run that was cancelled")
	}
}

// What is drawn has the medians and tails it was asked to have.
func TestDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	l := Load{Slots: 2000, Rate: 50, Poisson: true, Strata: []Stratum{{Share: 0.5, Median: 0.2}, {Share: 0.5, Median: 1, Pareto: 1.5}, {Share: 0.5, Median: 0.2, Slower: 2, Tail: 0.1}}}
	side := l.Draw(r)
	for _, tc := range []struct {
		stratum int
		p, want float64
	}{
		{0, 0.5, 0.2}, {0, 0.9, 0.2 * math.Exp(0.6*1.2816)},
		{1, 0.5, math.Pow(2, 1/1.5)}, {1, 0.99, math.Pow(100, 1/1.5)},
		{2, 0.5, 0.2}, {2, 0.7, 0.2 * math.Exp(0.6*0.5244)}, {2, 0.95, 0.4 * math.Exp(0.6*1.6449)},
	} {
		got := math.Exp(quantileOf(side[tc.stratum].between(0, l.Slots), tc.p))
		if math.Abs(got/tc.want-1) > 0.05 {
			t.Errorf("stratum %d, p%g: %.3f, want %.3f", tc.stratum, 100*tc.p, got, tc.want)
		}
	}
	m := (&Load{Slots: 100000, Correlation: 0.6, Spread: 0.15}).medians(r)
	var c0, c1 float64
	for t := 1; t < len(m); t++ {
		c0 += m[t] * m[t]
		c1 += m[t] * m[t-1]
	}
	if math.Abs(c1/c0-0.6) > 0.02 || math.Abs(math.Sqrt(c0/float64(len(m)))-0.15) > 0.005 {
		t.Errorf("correlation %.3f, deviation %.3f; want 0.6, 0.15", c1/c0, math.Sqrt(c0/float64(len(m))))
	}
}

// counts makes a side whose slots each have one row of bucket counts.
func counts(rows ...[]float64) *Counts {
	c := &Counts{Slots: make([][]float64, len(rows)), Used: make([][2]int, len(rows)), Sums: make([]float64, len(rows))}
	for t, row := range rows {
		c.Slots[t] = make([]float64, len(edges)-1)
		copy(c.Slots[t][-lowest:], row)
		c.Used[t] = [2]int{-lowest, -lowest + len(row)}
	}
	return c
}

// The probabilities are SciPy 1.16.3's, of mannwhitneyu(x, y,
// method="asymptotic", use_continuity=False) on bucket numbers repeated by their
// counts.
func TestMannWhitneyAgreesWithSciPy(t *testing.T) {
	for _, tc := range []struct {
		a, b []float64
		p    float64
	}{
		{[]float64{0, 0, 4, 0, 1, 7}, []float64{4, 3, 4, 7, 1, 6}, 0.050088},
		{[]float64{0, 5, 2, 5, 6, 0}, []float64{6, 5, 0, 7, 0, 2}, 0.050334},
		{[]float64{5, 3, 5, 4, 6, 0}, []float64{3, 0, 6, 5, 3, 7}, 0.049937},
		{[]float64{1, 3, 4, 5, 7, 5}, []float64{6, 5, 5, 2, 4, 4}, 0.049920},
	} {
		if got := MannWhitneyRequests(counts(tc.a), counts(tc.b)); got != (tc.p <= 0.05) {
			t.Errorf("%v, %v: alarm %v at p = %v", tc.a, tc.b, got, tc.p)
		}
		// The same as slots with one request each.
		single := func(row []float64) *Counts {
			var rows [][]float64
			for k, n := range row {
				for range int(n) {
					one := make([]float64, len(row))
					one[k] = 1
					rows = append(rows, one)
				}
			}
			return counts(rows...)
		}
		if got := MannWhitneySlots(single(tc.a), single(tc.b), 0.5); got != (tc.p <= 0.05) {
			t.Errorf("%v, %v by slots: alarm %v at p = %v", tc.a, tc.b, got, tc.p)
		}
	}
}
