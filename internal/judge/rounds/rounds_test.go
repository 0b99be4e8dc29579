package rounds

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/internal/judge"
)

// factors of two and three levels, all combinations.
func combinations() (factors []Factor, levels [][]int, names []string) {
	factors = []Factor{{"w", []string{"8", "1", "24"}}, {"k", []string{"on", "off"}}}
	for w := range 3 {
		for k := range 2 {
			levels = append(levels, []int{w, k})
			names = append(names, "w="+factors[0].Levels[w]+" k="+factors[1].Levels[k])
		}
	}
	return factors, levels, names
}

// Effects that were put in come out: w=1 doubles, k=off takes a fifth off, and
// both together do half as much again.
func TestFactorialEffects(t *testing.T) {
	factors, levels, names := combinations()
	r := rand.New(rand.NewPCG(1, 1))
	var runs []Run
	for round := range 8 {
		block := r.NormFloat64()
		for s, at := range levels {
			v := block + 0.005*r.NormFloat64()
			if at[0] == 1 {
				v += math.Log(2)
			}
			if at[1] == 1 {
				v += math.Log(0.8)
			}
			if at[0] == 1 && at[1] == 1 {
				v += math.Log(1.5)
			}
			runs = append(runs, Run{Round: round, Setting: s, Cells: map[Key]Cell{{}: {Values: map[string]float64{"p99": math.Exp(v)}, Requests: 100}}})
		}
	}
	want := map[string]float64{
		"w=1":          2 * math.Sqrt(1.5), // over both of k
		"w=24":         1,
		"k=off":        0.8 * math.Cbrt(1.5), // over the three of w
		"w=1 × k=off":  1.5,
		"w=24 × k=off": 1,
	}
	rows := Rows(Input{Settings: names, Runs: runs, Contrasts: Factorial(factors, levels), Decides: "p99"})
	if len(rows) != len(want) {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		m := row.Measures[0]
		w := want[row.Contrast.Setting]
		if !(m.Low <= w && w <= m.High) || m.High/m.Low > 1.05 {
			t.Errorf("%s: %.3f from %.3f to %.3f, not %.3f: %s", row.Contrast.Setting, m.Effect, m.Low, m.High, w, m.Sentence)
		}
	}
}

// An interval of rounds is that of the paired t-test: the example of Student
// (1908, Biometrika 6), hours of sleep gained by ten patients with two drugs; t is
// 4.06 with 9 degrees of freedom.
func TestAgainstStudent(t *testing.T) {
	gain := []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}
	e := Rule{}.estimate(gain, 0.95)
	if got := e.Effect / e.SE; math.Abs(got-4.0621) > 1e-3 {
		t.Errorf("t is %.4f", got)
	}
	if math.Abs(e.P-0.002833) > 1e-5 || math.Abs(e.Low-0.7001) > 1e-3 || math.Abs(e.High-2.4599) > 1e-3 {
		t.Errorf("p %.6f, interval %.4f to %.4f", e.P, e.Low, e.High)
	}
}

// The interval that holds at every look is where its probability is the level.
func TestLiveIntervalAndProbability(t *testing.T) {
	for n := liveLeast; n < 60; n++ {
		for _, alpha := range []float64{0.05, 0.01} {
			c := liveCritical(alpha, n)
			if math.IsInf(c, 1) {
				if n > 6 {
					t.Errorf("%d rounds say nothing", n)
				}
				continue
			}
			if p := liveP(c, n); math.Abs(p/alpha-1) > 1e-6 {
				t.Errorf("n=%d: beyond the interval of %g the probability is %g", n, alpha, p)
			}
			if ordinary := critical(alpha/2, float64(n-1)); c < ordinary {
				t.Errorf("n=%d: %g is narrower than an ordinary interval's %g", n, c, ordinary)
			}
		}
	}
}

func TestApart(t *testing.T) {
	// Welch's test of two samples, against another way to write it.
	a, b := []float64{1, 2, 3, 4}, []float64{2, 4, 6, 8, 10}
	e := Apart(a, b, 0.95)
	se := math.Sqrt(5.0/3/4 + 10.0/5)
	df := math.Pow(5.0/12+2, 2) / (math.Pow(5.0/12, 2)/3 + math.Pow(2, 2)/4)
	p := 2 * distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-3.5/se)
	if math.Abs(e.Effect-3.5) > 1e-12 || math.Abs(e.SE-se) > 1e-12 || math.Abs(e.DF-df) > 1e-9 || math.Abs(e.P-p) > 1e-12 {
		t.Errorf("%+v", e)
	}
}

func TestWords(t *testing.T) {
	rowOf := func(shift float64, n int) Row {
		r := rand.New(rand.NewPCG(5, uint64(n)))
		return Rows(input(draw(r, noise{"", 0.1, normal(0.02 * float64(max(1, 8-n)))}, 0, n, []float64{0, shift}), Rule{}, "workers=8", "workers=24"))[0]
	}
	for _, c := range []struct {
		shift   float64
		rounds  int
		verdict judge.Verdict
		want    string
	}{
		{math.Log(0.62), 10, judge.Faster, "% faster than with workers=8 (95 % interval 3"},
		{math.Log(3), 10, judge.Slower, "p99 with workers=24 is 3 times as slow as with workers=8"},
		{0, 30, judge.Same, "is the same as with workers=8 within 5 %"},
		{0, 3, judge.NoEvidence, "no evidence that p99 with workers=24 differs from workers=8"},
		{0, 2, judge.TooLittle, "2 of the 3 rounds that an interval needs"},
	} {
		row := rowOf(c.shift, c.rounds)
		if row.Verdict != c.verdict || !strings.Contains(row.Sentence(), c.want) {
			t.Errorf("%s: %s", row.Verdict, row.Sentence())
		}
		if c.verdict == judge.NoEvidence && !strings.Contains(row.Measures[0].Needs, "more would tell a change of 5 %") {
			t.Errorf("needs %q", row.Measures[0].Needs)
		}
	}
}

// No error in few requests is no knowledge of a main effect either.
func TestFewErrorsOfFactors(t *testing.T) {
	factors, levels, names := combinations()
	var runs []Run
	for round := range 6 {
		for s := range names {
			runs = append(runs, Run{Round: round, Setting: s, Cells: map[Key]Cell{{}: {Values: map[string]float64{"errors": 0}, Requests: 50}}})
		}
	}
	for _, row := range Rows(Input{Settings: names, Runs: runs, Contrasts: Factorial(factors, levels)}) {
		want := judge.NoEvidence
		if row.Contrast.Effect == "interaction" {
			want = judge.TooLittle
		}
		if m := row.Measures[0]; m.Verdict != want {
			t.Errorf("%s: %s", row.Contrast.Setting, m.Sentence)
		}
	}
}

// The optimum's interval stands in the sentence.
func TestTheSentenceOfACurve(t *testing.T) {
	names := []string{"w=8", "w=1", "w=2", "w=24"}
	runs := draw(rand.New(rand.NewPCG(2, 2)), noises[0], 0, 8, []float64{0, 1, 0, 0.5})
	c := Curves(input(runs, Rule{}, names...), []float64{8, 1, 2, 24})[0]
	if c.XLow != 2 || c.XHigh != 8 || !strings.HasSuffix(c.Sentence, "cannot be told (95 % confidence): the best of those measured lies from w=2 to w=8") {
		t.Errorf("%g to %g: %s", c.XLow, c.XHigh, c.Sentence)
	}
}

// Two differences of shares: equal intervals widen by the square root of two, and
// the probability is below the level where the interval leaves out nought.
func TestDifferenceOfShares(t *testing.T) {
	a := Estimate{Effect: 0, Low: -0.01, High: 0.01}
	if e := DifferenceOfShares(a, a, 0.95); math.Abs(e.High-0.01*math.Sqrt2) > 1e-12 || e.Low != -e.High || e.P != 1 {
		t.Errorf("%+v", e)
	}
	for _, effect := range []float64{-0.03, -0.0142, -0.014, 0.014, 0.0142, 0.03} {
		e := DifferenceOfShares(a, Estimate{Effect: effect, Low: effect - 0.01, High: effect + 0.01}, 0.95)
		if out := e.Low > 0 || e.High < 0; out != (e.P < 0.05) {
			t.Errorf("%g: %g to %g with p %g", effect, e.Low, e.High, e.P)
		}
	}
}

// Rounds without any error differ by nought, and that is not taken for knowledge.
func TestFewErrors(t *testing.T) {
	runs := func(n, errorsB uint64) []Run {
		var out []Run
		for round := range 6 {
			for s := range 2 {
				c := Cell{Values: map[string]float64{"errors": 0}, Requests: n}
				if s == 1 && errorsB > 0 {
					c.Errors, c.Values["errors"] = errorsB, float64(errorsB)/float64(n)
				}
				out = append(out, Run{Round: round, Setting: s, Cells: map[Key]Cell{{}: c}})
			}
		}
		return out
	}
	in := func(runs []Run) Input {
		return Input{Settings: []string{"a", "b"}, Runs: runs, Contrasts: Against([]string{"a", "b"})}
	}
	if m := Rows(in(runs(100, 0)))[0].Measures[0]; m.Verdict != judge.NoEvidence || m.High < 0.004 {
		t.Errorf("600 requests a side without errors: %s, up to %g", m.Verdict, m.High)
	}
	if m := Rows(in(runs(100_000, 0)))[0].Measures[0]; m.Verdict != judge.Same {
		t.Errorf("600,000 requests a side without errors: %s, %g to %g", m.Verdict, m.Low, m.High)
	}
	// Two one-sided intervals of the counts alone: z is 1.645, and 2.706 / n their width.
	for _, c := range []struct {
		n    uint64
		want judge.Verdict
	}{{440, judge.NoEvidence}, {460, judge.Same}} {
		if m := Rows(in(runs(c.n, 0)))[0].Measures[0]; m.Verdict != c.want {
			t.Errorf("%d requests a side without errors: %s, up to %g", 6*c.n, m.Verdict, m.High)
		}
	}
	// A closed form: Newcombe's example of 56 of 70 and 48 of 80, method 10.
	if d, low, high := newcombe(48, 80, 56, 70, 1.959964); math.Abs(d-0.2) > 1e-9 || math.Abs(low-0.0524) > 1e-4 || math.Abs(high-0.3339) > 1e-4 {
		t.Errorf("56/70 - 48/80 is %.4f, %.4f to %.4f", d, low, high)
	}
	if m := Rows(in(runs(1000, 50)))[0].Measures[0]; m.Verdict != judge.MoreErrors || math.Abs(m.Effect-0.05) > 1e-9 {
		t.Errorf("5 %% of errors more: %s %g", m.Verdict, m.Effect)
	}
}

func TestTogether(t *testing.T) {
	for _, c := range []struct {
		words []judge.Verdict
		want  judge.Verdict
	}{
		{[]judge.Verdict{judge.Slower, judge.MoreErrors}, judge.Slower},
		{[]judge.Verdict{judge.Slower, judge.Same, judge.Faster}, judge.Mixed},
		{[]judge.Verdict{judge.Same, judge.NoEvidence}, judge.NoEvidence},
		{[]judge.Verdict{judge.NoEvidence, judge.Faster, judge.Same}, judge.Faster},
		{[]judge.Verdict{judge.TooLittle, judge.Same}, judge.Same},
		{[]judge.Verdict{judge.Mixed, judge.Slower}, judge.Mixed},
	} {
		var rows []*Row
		for _, w := range c.words {
			rows = append(rows, &Row{Verdict: w})
		}
		if got, _ := Together(rows); got != c.want {
			t.Errorf("%q together are %s, not %s", c.words, got, c.want)
		}
	}
}

// Of a measure whose word does not say so, its sense says what got worse: the
// headline is of the row that did, and rows that went both ways are mixed.
func TestTogetherByTheSenseOfMeasures(t *testing.T) {
	row := func(lead string, v judge.Verdict) *Row { return &Row{Lead: lead, Verdict: v} }
	for _, c := range []struct {
		rows []*Row
		want judge.Verdict
		lead int
	}{
		{[]*Row{row("p99", judge.Faster), row("cpu_per_request", judge.Higher)}, judge.Mixed, 1},
		{[]*Row{row("p99", judge.Slower), row("cpu_per_request", judge.Lower)}, judge.Mixed, 0},
		{[]*Row{row("p99", judge.Faster), row("cpu_per_request", judge.Lower)}, judge.Faster, 0},
		{[]*Row{row("p99", judge.Faster), row(judge.Rate, judge.Lower)}, judge.Mixed, 1},
		{[]*Row{row("cpu_per_request", judge.Higher), row(judge.Rate, judge.Lower)}, judge.Higher, 0},
	} {
		if got, lead := Together(c.rows); got != c.want || lead != c.rows[c.lead] {
			t.Errorf("%s of %s and %s of %s: %s by %s, want %s by %s", c.rows[0].Verdict, c.rows[0].Lead, c.rows[1].Verdict, c.rows[1].Lead, got, lead.Lead, c.want, c.rows[c.lead].Lead)
		}
	}
}
