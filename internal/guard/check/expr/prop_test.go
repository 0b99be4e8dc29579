package expr

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anExpression draws the source of an expression, with more or fewer parentheses
// and spaces than it needs.
func anExpression(t *rapid.T, depth int) string {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "word") }
	leaf := func() string {
		switch rapid.IntRange(0, 4).Draw(t, "leaf") {
		case 0:
			return strconv.FormatFloat(rapid.Float64Range(0, 1e6).Draw(t, "number"), 'g', -1, 64)
		case 1:
			return strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "whole"))
		case 2:
			return pick("value", "null", "pi", "true")
		}
		return pick("x[0]", "x[1]", `y{a="b"}[-3M]`, `y{a=~"b|c",d!="\"é\\"}[ 2 ]`, `{check="c d"}[-1h]`, "x[9]")
	}
	list := func() string {
		return pick("x[0:3]", "x[3:END]", "x[1,2,4]", "x[-0M:-4M]", "x[-1M:end]", "x[3 days]", "x[2 weeks, -30M:+90M]", "x[7:8]")
	}
	if depth == 0 {
		return leaf()
	}
	sub := func() string { return anExpression(t, depth-1) }
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return leaf()
	case 1:
		return "(" + sub() + ")"
	case 2:
		return pick("-", "- ", "not ", "!", "+") + sub()
	case 3:
		f := pick("avg", "median", "max", "stddev", "p95", "p99.9", "avgMad", "count", "sumNull")
		return f + "(" + pick(list(), sub()) + " ,\n" + pick(list(), sub()) + ")"
	case 4:
		return pick("slope", "rate", "increase") + "(" + list() + ")"
	case 5:
		return pick("percentile(", "above(", "below(") + list() + "," + sub() + ")"
	case 6:
		return "if(" + sub() + "," + sub() + "," + sub() + ")"
	case 7:
		return pick("(", "(  ") + sub() + pick(" < ", "<=", "==", "!=", ">", " >= ") + sub() + ")"
	}
	return sub() + pick("+", " - ", " * ", "/", "%", "^", " and ", " or ", "&&", "||") + sub()
}

var properties = fake{
	numbers("x", time.Minute, 4, 0, math.NaN(), -2.5, 1e300, 1e-9),
	numbers(`y{a="b"}`, time.Minute, 3, 1, 4, 1, 5),
}

// TestPrinting: what is printed is read again as the same expression, which comes
// to the same.
func TestPrinting(t *testing.T) {
	o := Options{Variables: []string{"value"}}
	vars := map[string]float64{"value": 12.5}
	rapid.Check(t, func(t *rapid.T) {
		src := anExpression(t, rapid.IntRange(0, 5).Draw(t, "depth"))
		p, err := Parse(src, o)
		if err != nil {
			t.Skip(err) // a comparison of a comparison
		}
		printed := p.Canonical()
		q, err := Parse(printed, o)
		if err != nil {
			t.Fatalf("%s is printed as %s: %v", src, printed, err)
		}
		if again := q.Canonical(); again != printed {
			t.Fatalf("%s is printed as %s, and that as %s", src, printed, again)
		}
		for n := Strict; n <= Zero; n++ {
			a, errA := p.Eval(t.Context(), properties, now, EvalOptions{Nulls: n, Vars: vars})
			b, errB := q.Eval(t.Context(), properties, now, EvalOptions{Nulls: n, Vars: vars, Steps: true})
			if errA != nil || errB != nil {
				t.Fatalf("%s: %v, %s: %v", src, errA, printed, errB)
			}
			if a.Null != b.Null || !a.Null && a.Value != b.Value {
				t.Fatalf("%s comes to %v, %s to %v", src, a.Value, printed, b.Value)
			}
			if a.Null != math.IsNaN(a.Value) || math.IsInf(a.Value, 0) {
				t.Fatalf("%s: null is %v, value %v", src, a.Null, a.Value)
			}
			checkSteps(t, printed, b)
		}
	})
}

// checkSteps: the whole is first, parts lie within it, and the first number is the
// result.
func checkSteps(t *rapid.T, src string, r Result) {
	for i, s := range r.Steps {
		if s.Text != src[s.Offset:s.Offset+len(s.Text)] || s.Value == "" || (i == 0) != (s.Depth == 0) {
			t.Fatalf("%s: step %d is %+v", src, i, s)
		}
		if _, err := Parse("max("+s.Text+")", Options{Variables: []string{"value"}}); err != nil {
			t.Fatalf("%s: the text of step %+v is not an expression: %v", src, s, err)
		}
	}
	if len(r.Steps) > 0 && !r.Null && r.Steps[0].Number != r.Value {
		t.Fatalf("%s comes to %v, its first step to %v", src, r.Value, r.Steps[0].Number)
	}
}

// twins are the functions of lists, written as their definitions read.
var twins = map[string]func(v []float64) float64{
	"avg": func(v []float64) float64 { return total(v) / float64(len(v)) },
	"sum": total,
	"min": func(v []float64) float64 { s := sorted(v); return s[0] },
	"max": func(v []float64) float64 { s := sorted(v); return s[len(s)-1] },
	"median": func(v []float64) float64 {
		s := sorted(v)
		return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
	},
	"stddev": func(v []float64) float64 {
		var of []float64
		for _, x := range v {
			of = append(of, math.Pow(x-total(v)/float64(len(v)), 2))
		}
		return math.Sqrt(total(of) / float64(len(v)))
	},
	"p75": func(v []float64) float64 {
		// A piecewise linear curve through (i/(n-1), s[i]).
		s := sorted(v)
		at := 0.75 * float64(len(s)-1)
		low := s[int(math.Floor(at))]
		return low + (s[int(math.Ceil(at))]-low)*(at-math.Floor(at))
	},
	"mad": func(v []float64) float64 { return middle(distances(v)) },
	"avgmad": func(v []float64) float64 {
		away, limit := distances(v), 3*middle(distances(v))
		var kept []float64
		for i, x := range v {
			if away[i] < limit || away[i] == 0 && limit == 0 {
				kept = append(kept, x)
			}
		}
		return total(kept) / float64(len(kept))
	},
	"first": func(v []float64) float64 { return v[len(v)-1] },
	"last":  func(v []float64) float64 { return v[0] },
}

func total(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}
func sorted(v []float64) []float64 { s := slices.Clone(v); slices.Sort(s); return s }
func middle(v []float64) float64 {
	s := sorted(v)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
func distances(v []float64) (away []float64) {
	for _, x := range v {
		away = append(away, math.Abs(x-middle(v)))
	}
	return away
}

// TestListFunctions holds them to their twins, and lists with nulls to lists
// without, or with zeros in their places.
func TestListFunctions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"avg", "sum", "min", "max", "median", "stddev", "p75", "mad", "avgmad", "first", "last"}).Draw(t, "function")
		v := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.Just(7.0), rapid.Just(math.NaN())), 1, 30).Draw(t, "values")
		h := fake{numbers("x", time.Minute, v...)}
		there := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return x != x })
		zeros := slices.Clone(v)
		for i, x := range zeros {
			if x != x {
				zeros[i] = 0
			}
		}
		p, err := Parse(name+"(x[0:END])", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n, list := range map[Nulls][]float64{Strict: v, Skip: there, Zero: zeros} {
			r, err := p.Eval(t.Context(), h, now, EvalOptions{Nulls: n})
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 || n == Strict && len(there) < len(v) {
				if !r.Null {
					t.Fatalf("%s of %v under %v is %v, want null", name, v, n, r.Value)
				}
				continue
			}
			if want := twins[name](list); r.Null || math.Abs(r.Value-want) > 1e-9*math.Max(1, math.Abs(want)) {
				t.Fatalf("%s of %v under %v is %v, want %v", name, v, n, r.Value, want)
			}
		}
	})
}

// TestTrends: points on a line give that line, whatever their times, and a counter
// that restarts now and then gives what it counted.
func TestTrends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		height, perHour := rapid.Float64Range(-100, 100).Draw(t, "height"), rapid.Float64Range(-100, 100).Draw(t, "slope")
		gaps := rapid.SliceOfN(rapid.IntRange(1, 3600), 2, 20).Draw(t, "gaps")
		line, counter := fakeSeries{labels: parseLabels("x")}, fakeSeries{labels: parseLabels("n")}
		at, count, grown := now.Add(-20*time.Hour), 0.0, 0.0
		for i, g := range gaps {
			at = at.Add(time.Duration(g) * time.Second)
			line.samples = slices.Insert(line.samples, 0, Sample{Time: at, Value: height + perHour*at.Sub(now).Hours()})
			if step := float64(rapid.IntRange(0, 9).Draw(t, "step")); step < count && rapid.Bool().Draw(t, "restart") {
				count, grown = step, grown+step
			} else {
				count += step
				if i > 0 {
					grown += step
				}
			}
			counter.samples = slices.Insert(counter.samples, 0, Sample{Time: at, Value: count})
		}
		between := at.Sub(counter.samples[len(gaps)-1].Time).Seconds()
		for src, want := range map[string]float64{"slope(x[0:END])": perHour, `ols(x[0:END], "2H")`: height + 2*perHour,
			"increase(n[0:END])": grown, "rate(n[0:END])": grown / between} {
			p, err := Parse(src, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Eval(t.Context(), fake{line, counter}, now, EvalOptions{})
			// The line is found to a part of its distance: seconds may tell its points.
			if err != nil || math.Abs(r.Value-want) > 1e-6*(1+math.Abs(want)+math.Abs(perHour)) {
				t.Fatalf("%s over %v: got %v, %v, want %v", src, gaps, r.Value, err, want)
			}
		}
	})
}

// anything is a History in which anything may be found: it is for what must hold
// whatever is.
type anything struct{ answers []Sample }

func (r anything) Kind(context.Context, string) (Kind, error) { return Numbers, nil }

func (r anything) Look(_ context.Context, _ *Selector, _ time.Time, dst []Sample) ([]Sample, error) {
	return append(dst, r.answers...), nil
}

func FuzzParse(f *testing.F) {
	for _, src := range []string{
		"avg(x[-10M], x[-20M])", `p99.9(x{a="b"}[-60M:-0M]) * 1.2`, "if(x[0] > 3, x[1,2], max(x[4 weeks, -30M:+30M]))",
		`ols(x[-1H:END], "2H")`, `ols("h","s","i","AVG","D",3,"END")`, `a\-b-c d-e/f[0:9] - 2^-3`, "-value^2 % e # c\n", "x[-24]", "{a=~`.*`}[0]",
		"not (1 < 2) == !0 and null", "percentile(x[0:9], 95) + round(1.5, 1)", "é$\"",
	} {
		f.Add(src, false, uint8(0), 1.5, true)
		f.Add(src, true, uint8(1), math.Inf(1), false)
	}
	f.Fuzz(func(t *testing.T, src string, old bool, policy uint8, v float64, distribution bool) {
		o := Options{Variables: []string{"value"}, Old: old}
		p, err := Parse(src, o)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%q: %v is not an *Error", src, err)
			}
			if e.Offset < 0 || e.Offset > len(src) || e.Line < 1 || e.Column < 1 || e.Message == "" {
				t.Fatalf("%q: %+v", src, e)
			}
			return
		}
		printed := p.Canonical()
		if len(printed) <= MaxSource {
			q, err := Parse(printed, o)
			if err != nil && !strings.Contains(err.Error(), "nested") {
				t.Fatalf("%q is printed as %q: %v", src, printed, err)
			}
			if err == nil && q.Canonical() != printed {
				t.Fatalf("%q is printed as %q, and that as %q", src, printed, q.Canonical())
			}
		}
		h := anything{answers: []Sample{{Time: now, Value: v}, {Null: true}, {Time: now.Add(-time.Hour), Value: 2}}}
		if distribution {
			h.answers = distributions("d", time.Minute, []float64{1, 2}, []float64{3}).samples
		}
		n := Nulls(policy % 3)
		a, errA := p.Eval(t.Context(), h, now, EvalOptions{Nulls: n})
		b, errB := p.Eval(t.Context(), h, now, EvalOptions{Nulls: n, Steps: true})
		if (errA == nil) != (errB == nil) || a.Null != b.Null || !a.Null && a.Value != b.Value {
			t.Fatalf("%q: %v, %v without steps, %v, %v with", src, a, errA, b, errB)
		}
	})
}

func FuzzBracket(f *testing.F) {
	for _, s := range []string{"0", "1,3", "0:9", "-30M", "-1H:END", "4 weeks, -30M:+30M", "-99999999999999999999D", " - 0 m "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse("count(x["+s+"])", Options{})
		if err != nil || strings.Contains(s, "]") {
			return
		}
		got := *p.Selectors()[0]
		q, err := Parse(p.Canonical(), Options{})
		if err != nil {
			t.Fatalf("%q is printed as %s: %v", s, p.Canonical(), err)
		}
		again := *q.Selectors()[0]
		if got.By != again.By || !slices.Equal(got.Indexes, again.Indexes) || got.From != again.From || got.To != again.To ||
			got.Ago != again.Ago || got.Newer != again.Newer || got.Older != again.Older || got.N != again.N ||
			got.Every != again.Every || got.Before != again.Before || got.After != again.After {
			t.Fatalf("%q is %+v, printed %+v", s, got, again)
		}
		if got.Ago < 0 || got.Newer < 0 || got.Older < END || got.From < 0 || got.To < END {
			t.Fatalf("%q: %+v", s, got)
		}
	})
}
