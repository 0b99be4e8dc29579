package expr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestArithmetic(t *testing.T) {
	h := fake{numbers("x", time.Minute, 4, math.NaN(), 2), numbers("c", time.Minute, 0)}
	for _, c := range []struct{ src, want string }{
		{"1 + 2 * 3 ^ 2", "19"}, {"(1 + 2) * 3", "9"}, {"2 ^ 3 ^ 2", "512"}, {"-2 ^ 2", "-4"}, {"2 ^ -1", "0.5"},
		{"10 - 4 - 3", "3"}, {"12 / 3 / 2", "2"}, {"7 % 4", "3"}, {"-7 % 4", "-3"}, {"- - 3", "3"}, {"+3", "3"},
		{"1e3 + .5", "1000.5"}, {"pi > 3 and e < 3", "1"}, {"x[0]-x[2]", "2"}, {"1 < 2 == 2 > 1", "parse"},
		{"(1 < 2) == (2 > 1)", "1"}, {"not 1 == 2", "1"}, {"!1 == 0", "1"}, {"1 or 0 and 0", "1"}, {"3 != 3 || 2 >= 2 && 1 <= 0", "0"},
		{"1 / c[0]", "null"}, {"1 / 0", "null"}, {"0 / 0", "null"}, {"5 % 0", "null"}, {"1e308 * 10", "null"},
		{"avg(1e308, 1.5e308) / 1e308", "1.25"}, {"(-8) ^ 0.5", "null"}, {"sqrt(-1)", "null"},
		{"null", "null"}, {"null == null", "null"}, {"1 or null", "null"}, {"if(null, 1, 2)", "null"}, {"if(0, 1 / 0, 2)", "2"},
		{"ifnull(1 / 0, ifnull(x[1], 3))", "3"}, {"value * 2", "25"}, {"gone", "null"}, {"isnull(gone)", "1"},
		{"round(-2.5)", "-3"}, {"round(1234.5, -2)", "1200"}, {"round(0.1, 400)", "0.1"}, {"floor(-0.5)", "-1"}, {"mod(-7, 4)", "-3"},
		{"percentile(x[0,2], 200 / 2)", "4"}, {"percentile(x[0,2], -1 * 5)", "null"}, {"p0(x[0,2])", "2"},
		{"1 # one\n + 1", "2"}, {"AVG(1, 3)", "2"}, {"value-x[0]", "8.5"}, {"20-value-x[0]", "3.5"},
		{"rate(c[0:0])", "null"}, {"slope(x[0:0])", "null"}, {"increase(x[0,0])", "0"}, {"rate(x[0,0])", "null"},
		{"avgMadT(0, x[0,2])", "null"}, {"rand() == rand()", "0"}, {"rand() < 1 and rand() >= 0", "1"},
	} {
		p, err := Parse(c.src, Options{Variables: []string{"value", "gone"}})
		if err != nil {
			if c.want != "parse" {
				t.Errorf("%s: %v", c.src, err)
			}
			continue
		}
		r, err := p.Eval(t.Context(), h, now, EvalOptions{Vars: map[string]float64{"value": 12.5, "gone": math.Inf(1)}})
		got := "null"
		if !r.Null {
			got = formatNumber(r.Value)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.src, got, err, c.want)
		}
	}
}

// TestSteps is what people see of an evaluation.
func TestSteps(t *testing.T) {
	var many []float64
	for i := range 15 {
		many = append(many, float64(i)/4)
	}
	h := fake{numbers("x", time.Minute, many...), numbers(`n`, time.Minute, 4, math.NaN(), 2), numbers("gap", 19*time.Minute, 7, 8),
		distributions("d", time.Minute, []float64{1, 2}, make([]float64, 1500))}
	for _, c := range []struct{ src, want string }{
		{"avg(x[0:9]) * 1.2 > value or gap[-20M] == 8", `
0 avg(x[0:9]) * 1.2 > value or gap[-20M] == 8 = 1
1  avg(x[0:9]) * 1.2 > value = 0
2   avg(x[0:9]) * 1.2 = 1.35
3    avg(x[0:9]) = 1.125
4     x[0:9] = 10 values 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25
2   value = 12.5
1  gap[-20M] == 8 = 1
2   gap[-20M] = 8, 19m0s ago`},
		{"max(x[0:END], n[0:2], n[1], x[0])", `
0 max(x[0:END], n[0:2], n[1], x[0]) = null
1  x[0:END] = 15 values 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, … 3.5
1  n[0:2] = 3 values 4, null, 2
1  n[1] = null
1  x[0] = 0, now`},
		{"if(x[0] > 1, x[1], percentile(x[0,1], 100 - x[2]))", `
0 if(x[0] > 1, x[1], percentile(x[0,1], 100 - x[2])) = 0.24875
1  x[0] > 1 = 0
2   x[0] = 0, now
1  percentile(x[0,1], 100 - x[2]) = 0.24875
2   x[0,1] = 2 values 0, 0.25
2   100 - x[2] = 99.5
3    x[2] = 0.5, 2m0s ago`},
		{"(1 + x[1]) * ((2))^(value)", `
0 (1 + x[1]) * ((2))^(value) = 7240.77
1  (1 + x[1]) = 1.25
2   x[1] = 0.25, 1m0s ago
1  ((2))^(value) = 5792.62
2   (value) = 12.5`},
		{"count(d[0:1]) + max(d[0])", `
0 count(d[0:1]) + max(d[0]) = 1504
1  count(d[0:1]) = 1502
2   d[0:1] = 2 distributions of 1,502
1  max(d[0]) = 2
2   d[0] = distribution of 2`},
		{"1 + d[0]", `
0 1 + d[0] = not evaluated
1  d[0] = not evaluated`},
		{"none[0:9] == 1", "\ncolumn 1: none[0:9] is a list, not one number; write avg(none[0:9]), or max, median, p95 …"},
		{"ols(x[0:2], \"1M\") + last(none[0:9])", `
0 ols(x[0:2], "1M") + last(none[0:9]) = null
1  ols(x[0:2], "1M") = -0.25
2   x[0:2] = 3 values 0, 0.25, 0.5
1  last(none[0:9]) = null
2   none[0:9] = null: there is nothing named none yet`},
		{"none{a=\"b\"}[-1H] + n[9] + max(n[9])", `
0 none{a="b"}[-1H] + n[9] + max(n[9]) = null
1  none{a="b"}[-1H] + n[9] = null
2   none{a="b"}[-1H] = null: there is nothing named none yet
2   n[9] = null
1  max(n[9]) = null
2   n[9] = null`},
	} {
		var b strings.Builder
		p, err := Parse(c.src, Options{Variables: []string{"value"}})
		if err != nil {
			fmt.Fprintf(&b, "\n%v", err)
		} else {
			r, _ := p.Eval(t.Context(), h, now, EvalOptions{Steps: true, Vars: map[string]float64{"value": 12.5}})
			for _, s := range r.Steps {
				fmt.Fprintf(&b, "\n%d %s%s = %s", s.Depth, strings.Repeat(" ", s.Depth), s.Text, s.Value)
			}
		}
		if got := b.String(); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.src, got, c.want)
		}
	}
}

// TestErrorsOfHistory: what looking up fails with is what evaluating fails with.
func TestErrorsOfHistory(t *testing.T) {
	h := fake{numbers(`x{a="1"}`, time.Minute, 1), numbers(`x{a="2"}`, time.Minute, 2)}
	for _, src := range []string{"x[0]", "avg(x[0:9])", "slope(x[0:9])", "1 + max(2, x[0])", "if(1, abs(x[0]), 0)"} {
		p, err := Parse(src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Eval(t.Context(), h, now, EvalOptions{Steps: true})
		var e *AmbiguousError
		if !errors.As(err, &e) || e.Selector != p.Selectors()[0] || len(e.Series) != 2 || !r.Null {
			t.Errorf("%s: got %v, %v", src, r, err)
		}
		if _, err := p.Eval(t.Context(), failing{context.Canceled}, now, EvalOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", src, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Kind(context.Context, string) (Kind, error) { return Missing, f.err }
func (f failing) Look(_ context.Context, _ *Selector, _ time.Time, dst []Sample) ([]Sample, error) {
	return dst, f.err
}

// TestBounds: neither a long source nor a long history is followed to its end.
func TestBounds(t *testing.T) {
	if _, err := Parse(strings.Repeat("1+", MaxSource/2)+"1", Options{}); err == nil || !strings.Contains(err.Error(), "longer than 16384 bytes") {
		t.Errorf("a long source: %v", err)
	}
	p, err := Parse(strings.Repeat("1+", MaxSource/2-1)+"1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Eval(t.Context(), fake{}, now, EvalOptions{Steps: true})
	if err != nil || r.Value != MaxSource/2 {
		t.Errorf("a chain: %v, %v", r.Value, err)
	}
	if texts := len(r.Steps) * len(r.Steps[len(r.Steps)-1].Text); len(r.Steps) > maxSteps || texts > maxTexts || len(r.Steps) < 10 {
		t.Errorf("a chain is explained in %d steps, %d bytes", len(r.Steps), texts)
	}
	// What might be the old notation at each of many places is looked at but so far.
	if p, err = Parse(strings.Repeat("1-", MaxSource/2-3)+"x[0]", Options{}); err != nil || len(p.Selectors()) != 1 {
		t.Errorf("a long subtraction: %v", err)
	}
	p, err = Parse("avg(x[0:END]) + avg(x[0:END])", Options{})
	if err != nil {
		t.Fatal(err)
	}
	long := fake{numbers("x", time.Second, make([]float64, MaxSamples/2)...)}
	if _, err := p.Eval(t.Context(), long, now, EvalOptions{}); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	long = fake{numbers("x", time.Second, make([]float64, MaxSamples/2+1)...)}
	want := "column 21: this looks up more than 500000 samples; ask for less of the past, or for the value of a check that does"
	if _, err := p.Eval(t.Context(), long, now, EvalOptions{}); err == nil || err.Error() != want {
		t.Errorf("one more: got %v, want %s", err, want)
	}
}

// TestNotation: the old notation is told from a subtraction without being asked
// for, where it could not be one.
func TestNotation(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"e-o-i[0] - e-o-i[1]", `check_value{host="e",service="o",item="i"}[0] - check_value{host="e",service="o",item="i"}[1]`},
		{`max(10.0.0.1-H\-1/avg-an item[0:9],2)`, `max(check_value{host="10.0.0.1",service="H-1/avg",item="an item"}[0:9], 2)`},
		{"value-1-x[0]", "value - 1 - x[0]"},
		{"10-value-x[0]", "10 - value - x[0]"},
		{"x[0]-y-z[0]", ""},
	} {
		p, err := Parse(c.src, Options{Variables: []string{"value"}})
		got := ""
		if err == nil {
			got = p.Canonical()
		}
		if got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.src, got, err, c.want)
		}
	}
}

// TestConcurrent: a program is evaluated by many at once.
func TestConcurrent(t *testing.T) {
	p, err := Parse("p50(d[0:1]) * 0 + count(d[0:1]) + avg(x[0:2]) + value", Options{Variables: []string{"value"}})
	if err != nil {
		t.Fatal(err)
	}
	h := fake{numbers("x", time.Minute, 1, 2, 3), distributions("d", time.Minute, []float64{1, 2}, []float64{3})}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				r, err := p.Eval(t.Context(), h, now, EvalOptions{Steps: i%2 == 0, Vars: map[string]float64{"value": float64(i)}})
				if err != nil || r.Value != float64(5+i) {
					t.Errorf("got %v, %v, want %d", r.Value, err, 5+i)
				}
			}
		})
	}
	all.Wait()
}

// nine is a History that answers look-ups by time from a sorted slice, one sample
// each second.
type nine []Sample

func (n nine) Kind(context.Context, string) (Kind, error) { return Numbers, nil }
func (n nine) Look(_ context.Context, s *Selector, at time.Time, dst []Sample) ([]Sample, error) {
	return append(dst, n[int(s.Ago/time.Second)]), nil
}

// The threshold of the account of Bischeck 1.1.1: the mean of nine look-ups.
const nineLookups = `avg(x[-10M], x[-20M], x[-30M], x[-40M], x[-60M], x[-90M], x[-120M], x[-150M], x[-180M])`

func nineHistory() History {
	n := make(nine, 15_000)
	for i := range n {
		n[i] = Sample{Time: now.Add(-time.Duration(i) * time.Second), Value: float64(i)}
	}
	return n
}

func TestNoAllocations(t *testing.T) {
	h := nineHistory()
	for _, src := range []string{nineLookups, "if(value > 3 and x[-1M] < 100, p95(x[-1M], x[-2M], 7), 0) + avgmad(x[-1S], x[-2S], 4) * percentile(x[-5M], 50)"} {
		p, err := Parse(src, Options{Variables: []string{"value"}})
		if err != nil {
			t.Fatal(err)
		}
		o, ctx := EvalOptions{Vars: map[string]float64{"value": 4}}, t.Context()
		e := new(evaluation)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := e.run(ctx, p, h, now, o); err != nil || !e.release() {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s allocates %v times", src, n)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	h := nineHistory()
	p, err := Parse(nineLookups, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, steps := range []bool{false, true} {
		b.Run(fmt.Sprintf("steps=%v", steps), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Eval(b.Context(), h, now, EvalOptions{Steps: steps}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(nineLookups, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
