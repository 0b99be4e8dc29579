package expr

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// example is the series that the examples of the table of functions are over.
var example = fake{numbers("x", time.Minute, 4, math.NaN(), 2)}

// evaluate gives what a step would show.
func evaluate(t *testing.T, src string, h History, o Options, n Nulls) string {
	t.Helper()
	p, err := Parse(src, o)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	r, err := p.Eval(t.Context(), h, now, EvalOptions{Nulls: n})
	switch {
	case err != nil:
		return err.Error()
	case r.Null != math.IsNaN(r.Value):
		t.Fatalf("%s: null is %v, value %v", src, r.Null, r.Value)
	case r.Null:
		return "null"
	}
	return formatNumber(r.Value)
}

func TestFunctions(t *testing.T) {
	for _, f := range Functions() {
		for _, name := range append([]string{f.Name, strings.ToUpper(f.Name)}, f.Aliases...) {
			src := strings.Replace(f.Example, f.Name, name, 1)
			for n, want := range f.Want {
				if got := evaluate(t, src, example, Options{}, Nulls(n)); got != want {
					t.Errorf("%s under %v: got %s, want %s", src, Nulls(n), got, want)
				}
			}
		}
	}
}

// TestNullRules holds each function to the rule that its row states, whatever its
// example.
func TestNullRules(t *testing.T) {
	arguments := func(f Function, x string) string {
		switch f.shape {
		case takesValues, takesList:
			return x
		case takesValuesNumber:
			return x + ", 50"
		case takesNumberValues:
			return "3, " + x
		case takesListTime:
			return x + `, "1H"`
		case takesBranches:
			return x + ", 1, 2"
		}
		return strings.TrimSuffix(strings.Repeat(x+", ", max(f.least, 1)), ", ")
	}
	for _, f := range Functions() {
		if f.Name == "rand" {
			continue
		}
		lists := f.shape >= takesValues && f.shape <= takesListTime
		for n := Strict; n <= Zero; n++ {
			some := "x[1]"
			if lists {
				some = "x[0:2]"
			}
			got := evaluate(t, f.Name+"("+arguments(f, some)+")", example, Options{}, n)
			want := map[Rule]bool{AnyNull: n != Zero, ListNull: n == Strict, TimedNull: n == Strict, NeverNull: false, BranchNull: n != Zero}[f.Null]
			if f.Name == "ln" || f.Name == "log" || f.Name == "divNull" || f.Name == "mod" || f.Name == "ifnull" {
				want = true // of 0, 0/0, of null and null under strict and skip
				if f.Name == "ifnull" {
					want = n != Zero
				}
			}
			if (got == "null") != want {
				t.Errorf("%s of a null under %v is %s, want null: %v", f.Name, n, got, want)
			}
		}
		if !lists || f.Name == "count" {
			continue
		}
		if got := evaluate(t, f.Name+"("+arguments(f, "x[5:9]")+")", example, Options{}, Skip); got != "null" {
			t.Errorf("%s of nothing is %s", f.Name, got)
		}
	}
	if got := evaluate(t, "count(x[5:9])", example, Options{}, Strict); got != "0" {
		t.Errorf("count of nothing is %s", got)
	}
}

func TestDistributions(t *testing.T) {
	h := fake{
		distributions(`d{service="shop"}`, 10*time.Minute, []float64{0.1, 0.2, 0.3}, []float64{0.4, 0.5}, []float64{2, 3, 4}),
		numbers("n", time.Minute, 7),
	}
	for _, c := range []struct{ src, want string }{
		{"count(d[0:2])", "8"},
		{"count(d[-10M:-0M])", "5"},
		{"count(d[1])", "2"},
		{"sum(d[0:1])", "1.5"},
		{"avg(d[0:1])", "0.3"},
		{"min(d[0:2])", "0.1"},
		{"max(d[-60M:-0M])", "4"},
		{"p100(d[0:2])", "4"},
		{"percentile(d[0:2], 100)", "4"},
		{"round(above(d[0:2], 1), 3)", "0.375"},
		{"round(below(d[0:2], 1), 3)", "0.625"},
		{"round(median(d[0]), 1)", "0.2"},
		{"max(d[0], d[2])", "4"},
		{"avg(p100(d[0]), p100(d[2]))", "2.15"},
		{"p99(d[9:12])", "null"},
		{"count(d[9:12])", "0"},
		{"if(count(d[-60M:-0M]) > 5, p100(d[-60M:-0M]), 0)", "4"},
		{"d[0] * 2", "column 1: d[0] is a distribution, not a number; write p99(d[0]), or avg, count, above …"},
		{"stddev(d[0:2])", "column 8: d[0:2] is a distribution, and there is no stddev of one; write p99(d[0:2]), or avg, min, max, sum, count, above, below"},
		{"slope(d[0:2])", "column 7: d[0:2] is of distributions, and there is no slope of them; store a quantile of them as a check, and ask for that"},
		{"avg(d[0:2], n[0])", "column 1: avg of distributions and numbers together; measure the distribution first: avg(p99(a[0]), b[0])"},
	} {
		if got := evaluate(t, c.src, h, Options{}, Strict); got != c.want {
			t.Errorf("%s: got %s, want %s", c.src, got, c.want)
		}
	}
	// One of two is missing: strict says so, the others merge what there is.
	for n, want := range []string{"null", "3", "3"} {
		if got := evaluate(t, "count(d[0]) * min(1, count(d[0,7]) / count(d[0,7])) + 0 * p50(d[0,7])", h, Options{}, Nulls(n)); got != want {
			t.Errorf("p50(d[0,7]) under %v: got %s, want %s", Nulls(n), got, want)
		}
	}
	// Merging is of all observations, and leaves those that were merged alone.
	if n := h[0].samples[0].Dist.Count; n != 3 {
		t.Errorf("merging changed what history holds: %d observations", n)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "column 1: there is no expression; write a number, x[0] or avg(x[0:9])"},
		{"x[-24]", "column 3: \"-24\" is neither an index nor a time; a time needs a unit: write [-24H], or [24] for the 25th newest"},
		{"x[ -30 ]", "column 4: \"-30\" is neither an index nor a time; a time needs a unit: write [-30H], or [30] for the 31st newest"},
		{"x[-0]", "column 3: \"-0\" is neither an index nor a time; write [0] for the newest, or [-0M] for now"},
		{"x[30M]", "column 3: \"30M\" is neither an index nor a time; history lies behind: write [-30M] for then, [-30M:-0M] for all since"},
		{"x[+30M]", "column 3: \"+30M\" lies in the future; write [-30M]; only [4 weeks, -30M:+30M] has a plus"},
		{"x[-1.5H]", "column 3: \"-1.5H\" is not a whole number; write it in a smaller unit: [-90M]"},
		{"x[-30X]", "column 3: \"-30X\" has no known unit; units are S M H D W, for seconds, minutes, hours, days, weeks"},
		{"x[-99999999999D]", "column 3: \"-99999999999D\" is more than a hundred years; units are S M H D W, for seconds, minutes, hours, days, weeks"},
		{"x[99999999999999999999]", "column 3: index 99999999999999999999 is too large; the largest is 499999"},
		{"x[-10M,-20M]", "column 3: a list in brackets is of indexes; write avg(x[-10M], x[-20M]), or [-10M:-20M] for all between"},
		{"x[0:-30M]", "column 3: this is half an index, half a time; write [0:9] or [-0M:-30M]"},
		{"x[END]", "column 3: END ends a range; write [10:END] or [-1H:END]"},
		{"x[0 days]", "column 3: \"0 days\": how many?; write a number from 1 to 1000, such as [4 days]"},
		{"x[4 weeks, 30M]", "column 12: around the same time of what?; write [4 weeks, -30M:+30M]"},
		{"x[]", "column 3: the brackets are empty; write [0] for the newest, [0:9] for the ten newest, [-30M] for half an hour ago"},
		{"x[0", "column 2: this bracket does not end; close it with ]"},
		{"x", "column 1: x is not a variable; write x[0] for the newest value of the series x"},
		{"valeu + 1", "column 1: valeu is not a variable; did you mean value? If not, write valeu[0] for the newest value of the series valeu"},
		{"avrg(x[0:9])", "column 1: there is no function avrg; did you mean avg?"},
		{"avg_over_time(x[5m])", "column 1: there is no function avg_over_time; write avg(x[-1H:-0M])"},
		{"avgNul(x[0])", "column 1: there is no function avgNul; did you mean avgNull?"},
		{"frobnicate(1)", "column 1: there is no function frobnicate; docs/checks.md lists the functions"},
		{"avg", "column 1: avg is a function; write avg(…)"},
		{"x[0:9]", "column 1: x[0:9] is a list, not one number; write avg(x[0:9]), or max, median, p95 …"},
		{"1 + x[0:9] * 2", "column 5: x[0:9] is a list, not one number; write avg(x[0:9]), or max, median, p95 …"},
		{"abs(x[0:9])", "column 5: x[0:9] is a list, not one number; write avg(x[0:9]), or max, median, p95 …"},
		{"a-x[0]", "column 1: a is not a variable; write a[0] for the newest value of the series a"},
		{"x{a=\"b\"}", "column 1: which of its past?; write x{a=\"b\"}[0] for the newest value"},
		{"x{a=b}[0]", "column 5: the value of a label is a string; write a=\"b\""},
		{"x{a=~\"(\"}[0]", "column 6: this is not a regular expression: error parsing regexp: missing closing ): `(`"},
		{"{}[0]", "column 1: {} selects everything; write {check=\"orders\"}[0] or name{label=\"value\"}[0]"},
		{"x[0] = 3", "column 6: \"=\" does not belong here; write == to compare"},
		{"1 < x[0] < 3", "column 10: comparisons do not follow one another; write a < b and b < c"},
		{"\n  1 +", "line 2, column 6: the expression ends too early; here should be a value"},
		{"é", "column 1: 'é' has no meaning here"},
		{"1 2", "column 3: \"2\" does not belong here; here should be an operator"},
		{"5M", "column 1: \"5M\" is not a number; times stand in brackets: x[-30M]; names do not begin with a digit"},
		{"1 + a-b-c-d[0]", "column 5: a-b-c-d has 4 parts, host-service-item has 3; write \\- for a dash within a name, and spaces around a minus"},
		{"$service", "column 1: $ has no meaning here; $label works in a check with each, $$HOSTNAME$$ where a check names its host"},
		{"percentile(x[0:9])", "column 1: percentile has 1 argument; write percentile(values, percent)"},
		{"percentile(x[0:9], 101)", "column 20: a percentage is at most 100; write percentile(values, percent)"},
		{"ols(x[0:9], 2)", "column 13: how far ahead?; write a time as a string, such as \"2H\" or \"14D\""},
		{"ols(x[0], \"2H\")", "column 5: ols needs a list with times; write ols(x[-6H:-0M], \"1H\")"},
		{"if(1, 2)", "column 1: if has 2 arguments; write if(condition, a, b)"},
		{"\"a\"", "column 1: a string is not a number"},
		{strings.Repeat("(", 200) + "1", "column 101: the expression is nested too deeply; make parts of it checks of their own"},
	} {
		_, err := Parse(c.src, Options{Variables: []string{"value", "threshold"}})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got  %v\n want %s", c.src, err, c.want)
		}
	}
}

func TestSelectors(t *testing.T) {
	for _, c := range []struct {
		src  string
		want Selector
	}{
		{"x[0]", Selector{By: ByIndex, Indexes: []int{0}}},
		{"x[ 1, 3 ,5 ]", Selector{By: ByIndex, Indexes: []int{1, 3, 5}}},
		{"x[0:9]", Selector{By: ByIndexRange, To: 9}},
		{"x[9:0]", Selector{By: ByIndexRange, To: 9}},
		{"x[10:END]", Selector{By: ByIndexRange, From: 10, To: END}},
		{"x[10:end]", Selector{By: ByIndexRange, From: 10, To: END}},
		{"x[-30M]", Selector{By: ByTime, Ago: 30 * time.Minute}},
		{"x[-30 m]", Selector{By: ByTime, Ago: 30 * time.Minute}},
		{"x[-0M]", Selector{By: ByTime}},
		{"x[-45s]", Selector{By: ByTime, Ago: 45 * time.Second}},
		{"x[-25D]", Selector{By: ByTime, Ago: 25 * 24 * time.Hour}},
		{"x[-400D]", Selector{By: ByTime, Ago: 400 * 24 * time.Hour}},
		{"x[-4w]", Selector{By: ByTime, Ago: 28 * 24 * time.Hour}},
		{"x[-30M:-120M]", Selector{By: ByTimeRange, Newer: 30 * time.Minute, Older: 2 * time.Hour}},
		{"x[-60M:-0M]", Selector{By: ByTimeRange, Older: time.Hour}},
		{"x[-1H:END]", Selector{By: ByTimeRange, Newer: time.Hour, Older: END}},
		{"x[4 days]", Selector{By: BySameTime, N: 4}},
		{"x[1 weekday]", Selector{By: BySameTime, N: 1, Every: Weekdays}},
		{"x[ 4  Weeks , -30M : +1H ]", Selector{By: BySameTime, N: 4, Every: Weeks, Before: 30 * time.Minute, After: time.Hour}},
	} {
		p, err := Parse("max("+c.src+")", Options{})
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		got := *p.Selectors()[0]
		c.want.Text, c.want.Offset, c.want.Family = c.src, 4, "x"
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n got  %+v\n want %+v", c.src, got, c.want)
		}
	}
	p, err := Parse(`a:b{service="shop",op!='GET /a',t=~"x|y",u!~`+"`z`"+`,}[0] + {check="orders"}[-1H] + {__name__="n"}[0]`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `a:b{service="shop",op!="GET /a",t=~"x|y",u!~"z"}[0] + check_value{check="orders"}[-1H] + n[0]`
	if got := p.Canonical(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
