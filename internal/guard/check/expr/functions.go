package expr

import (
	"math"
	"strconv"
	"strings"
	"time"

	"tailscope/hist"
	"tailscope/internal/strictyaml"
)

// Function is a row of the table that reading, evaluating, tests and docs share.
type Function struct {
	Name    string
	Aliases []string // Bischeck's names, and common ones
	Args    string   // as written: "values, percent"
	Does    string
	Null    Rule
	// Example is evaluated over x, whose three samples of the last three minutes
	// are 4, null and 2, newest first; Want is its value under strict, skip
	// and zero.
	Example string
	Want    [3]string

	shape       shape
	least, most int // arguments
	list        func(e *evaluation, v []float64, parameter float64) float64
	timed       func(points []Sample, at time.Time, parameter float64) float64
	number      func(a []float64) float64
	// dist is the same of a distribution; nil if the function takes none.
	dist func(h *hist.Histogram, parameter float64) float64
}

// Rule is how a function treats nulls among its arguments under strict, skip and zero.
// Zero makes 0 of a look-up that finds nothing and of a variable that is not set. A null
// that was computed, such as 1/0, stays null.
type Rule uint8

const (
	// AnyNull: null if any argument is; under zero, look-ups give 0.
	AnyNull Rule = iota
	// ListNull: strict: null if any is; skip: left out, null if none is left;
	// zero: 0.
	ListNull
	// TimedNull is ListNull, but zero leaves out too: what is not there has no time.
	TimedNull
	// NeverNull: left out under each policy.
	NeverNull
	// BranchNull: null if the condition is, or the branch taken.
	BranchNull
)

func (r Rule) String() string {
	return [...]string{"null if any is null", "strict: null if any is; skip: left out; zero: 0",
		"strict: null if any is; else left out", "left out", "of the condition and the branch taken"}[r]
}

// shape is the kind of arguments that a function takes.
type shape uint8

const (
	takesNumbers      shape = iota // least to most numbers
	takesValues                    // one or more numbers and lists
	takesValuesNumber              // the same, then a number
	takesNumberValues              // a number, then the same
	takesList                      // one list
	takesListTime                  // one list, then "1H"
	takesBranches                  // if
	takesAny                       // looks at nulls itself
)

// Functions returns the table, in the order of the documentation.
func Functions() []Function {
	t := make([]Function, len(functions))
	for i, f := range functions {
		t[i] = *f
	}
	return t
}

var functions = []*Function{
	{Name: "avg", Aliases: []string{"mean"}, Args: "values", Does: "the mean", Null: ListNull,
		Example: "avg(x[0:2])", Want: [3]string{"null", "3", "2"}, shape: takesValues,
		list: listMean, dist: func(h *hist.Histogram, _ float64) float64 { return h.Mean() }},
	{Name: "median", Args: "values", Does: "the middle one, or the mean of the two in the middle", Null: ListNull,
		Example: "median(x[0:2])", Want: [3]string{"null", "3", "2"}, shape: takesValues,
		list: func(_ *evaluation, v []float64, _ float64) float64 { return quantile(v, 0.5) },
		dist: func(h *hist.Histogram, _ float64) float64 { return h.Quantile(0.5) }},
	{Name: "min", Args: "values", Does: "the least", Null: ListNull,
		Example: "min(x[0:2])", Want: [3]string{"null", "2", "0"}, shape: takesValues,
		list: listMin, dist: func(h *hist.Histogram, _ float64) float64 { return h.Min }},
	{Name: "max", Args: "values", Does: "the greatest", Null: ListNull,
		Example: "max(x[0:2])", Want: [3]string{"null", "4", "4"}, shape: takesValues,
		list: listMax, dist: func(h *hist.Histogram, _ float64) float64 { return h.Max }},
	{Name: "sum", Args: "values", Does: "the sum", Null: ListNull,
		Example: "sum(x[0:2])", Want: [3]string{"null", "6", "6"}, shape: takesValues,
		list: listSum, dist: func(h *hist.Histogram, _ float64) float64 { return h.Sum }},
	{Name: "count", Args: "values", Does: "how many there are; of distributions, observations", Null: NeverNull,
		Example: "count(x[0:2])", Want: [3]string{"2", "2", "2"}, shape: takesValues,
		list: func(_ *evaluation, v []float64, _ float64) float64 { return float64(len(v)) },
		dist: func(h *hist.Histogram, _ float64) float64 { return float64(h.Count) }},
	{Name: "stddev", Aliases: []string{"stdev"}, Args: "values", Does: "the standard deviation (divided by n)", Null: ListNull,
		Example: "stddev(x[0:2])", Want: [3]string{"null", "1", "1.63299"}, shape: takesValues, list: listStddev},
	{Name: "percentile", Args: "values, percent", Does: "the value below which so many per cent lie, interpolated; p50 to p99.9(values) are short for it", Null: ListNull,
		Example: "percentile(x[0:2], 75)", Want: [3]string{"null", "3.5", "3"}, shape: takesValuesNumber,
		list: func(_ *evaluation, v []float64, percent float64) float64 { return quantile(v, percent/100) },
		dist: func(h *hist.Histogram, percent float64) float64 { return h.Quantile(percent / 100) }},
	{Name: "above", Args: "values, limit", Does: "the share that is greater than limit, 0 to 1", Null: ListNull,
		Example: "above(x[0:2], 3)", Want: [3]string{"null", "0.5", "0.333333"}, shape: takesValuesNumber,
		list: func(_ *evaluation, v []float64, limit float64) float64 { return 1 - atMost(v, limit) },
		dist: func(h *hist.Histogram, limit float64) float64 { return 1 - distAtMost(h, limit) }},
	{Name: "below", Args: "values, limit", Does: "the share that is at most limit, 0 to 1", Null: ListNull,
		Example: "below(x[0:2], 3)", Want: [3]string{"null", "0.5", "0.666667"}, shape: takesValuesNumber,
		list: func(_ *evaluation, v []float64, limit float64) float64 { return atMost(v, limit) }, dist: distAtMost},
	{Name: "mad", Args: "values", Does: "the median distance from the median", Null: ListNull,
		Example: "mad(x[0:2])", Want: [3]string{"null", "1", "2"}, shape: takesValues, list: listMad},
	{Name: "avgmad", Aliases: []string{"avgMad"}, Args: "values", Does: "the mean of those nearer to the median than 3 mad; if mad is 0, the median", Null: ListNull,
		Example: "avgmad(x[0:2])", Want: [3]string{"null", "3", "2"}, shape: takesValues,
		list: func(e *evaluation, v []float64, _ float64) float64 { return listAvgMad(e, v, 3) }},
	{Name: "avgMadT", Args: "times, values", Does: "avgmad with another number than 3", Null: ListNull,
		Example: "avgMadT(2, x[0:2])", Want: [3]string{"null", "3", "2"}, shape: takesNumberValues, list: listAvgMad},
	{Name: "last", Args: "values", Does: "the first as listed: of a selector, the newest", Null: ListNull,
		Example: "last(x[1:2])", Want: [3]string{"null", "2", "0"}, shape: takesValues,
		list: func(_ *evaluation, v []float64, _ float64) float64 { return v[0] }},
	{Name: "first", Args: "values", Does: "the last as listed: of a selector, the oldest", Null: ListNull,
		Example: "first(x[0:1])", Want: [3]string{"null", "4", "0"}, shape: takesValues,
		list: func(_ *evaluation, v []float64, _ float64) float64 { return v[len(v)-1] }},
	{Name: "ols", Aliases: []string{"forecast"}, Args: `list, "1H"`, Does: "where the least-squares line through the list will be in an hour; needs two times", Null: TimedNull,
		Example: `ols(x[0:2], "2M")`, Want: [3]string{"null", "6", "6"}, shape: takesListTime, timed: forecast},
	{Name: "slope", Aliases: []string{"olss"}, Args: "list", Does: "the slope of that line, per hour", Null: TimedNull,
		Example: "slope(x[0:2])", Want: [3]string{"null", "60", "60"}, shape: takesList, timed: slope},
	{Name: "increase", Args: "list", Does: "how much a counter grew from the oldest to the newest; a fall is a restart at 0", Null: TimedNull,
		Example: "increase(x[0:2])", Want: [3]string{"null", "2", "2"}, shape: takesList, timed: increase},
	{Name: "rate", Args: "list", Does: "the same per second", Null: TimedNull,
		Example: "rate(x[0:2])", Want: [3]string{"null", "0.0166667", "0.0166667"}, shape: takesList, timed: rate},
	{Name: "avgNull", Args: "values", Does: "avg of those that are there", Null: NeverNull,
		Example: "avgNull(x[0:2])", Want: [3]string{"3", "3", "3"}, shape: takesValues, list: listMean,
		dist: func(h *hist.Histogram, _ float64) float64 { return h.Mean() }},
	{Name: "sumNull", Args: "values", Does: "sum of those that are there", Null: NeverNull,
		Example: "sumNull(x[0:2])", Want: [3]string{"6", "6", "6"}, shape: takesValues, list: listSum,
		dist: func(h *hist.Histogram, _ float64) float64 { return h.Sum }},
	{Name: "multNull", Args: "numbers", Does: "the product", Null: AnyNull,
		Example: "multNull(x[0], x[1])", Want: [3]string{"null", "null", "0"}, shape: takesNumbers, least: 1, most: 100,
		number: func(a []float64) float64 {
			product := 1.0
			for _, v := range a {
				product *= v
			}
			return product
		}},
	{Name: "divNull", Args: "a, b", Does: "a/b", Null: AnyNull,
		Example: "divNull(x[1], x[0])", Want: [3]string{"null", "null", "0"}, shape: takesNumbers, least: 2, most: 2,
		number: func(a []float64) float64 { return a[0] / a[1] }},
	{Name: "if", Args: "condition, a, b", Does: "a if the condition is not 0, else b; the other is not looked up", Null: BranchNull,
		Example: "if(x[1] > 1, 7, 8)", Want: [3]string{"null", "null", "8"}, shape: takesBranches, least: 3, most: 3},
	{Name: "ifnull", Args: "a, b", Does: "a, or b if a is null", Null: NeverNull,
		Example: "ifnull(x[1], 9)", Want: [3]string{"9", "9", "9"}, shape: takesAny, least: 2, most: 2},
	{Name: "isnull", Args: "a", Does: "1 if a is null, else 0", Null: NeverNull,
		Example: "isnull(x[1])", Want: [3]string{"1", "1", "1"}, shape: takesAny, least: 1, most: 1},
	{Name: "abs", Args: "a", Does: "without its sign", Example: "abs(x[1] - x[0])", Want: [3]string{"null", "null", "4"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Abs(a[0]) }},
	{Name: "round", Args: "a, decimals", Does: "to so many decimals (none if left out), halves away from 0", Example: "round(x[0] / 3, 2)", Want: [3]string{"1.33", "1.33", "1.33"},
		least: 1, most: 2, number: round},
	{Name: "floor", Args: "a", Does: "the next whole number below", Example: "floor(x[1] + 0.5)", Want: [3]string{"null", "null", "0"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Floor(a[0]) }},
	{Name: "ceil", Args: "a", Does: "the next whole number above", Example: "ceil(x[1] + 0.5)", Want: [3]string{"null", "null", "1"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Ceil(a[0]) }},
	{Name: "sqrt", Args: "a", Does: "the square root; null below 0", Example: "sqrt(x[1])", Want: [3]string{"null", "null", "0"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Sqrt(a[0]) }},
	{Name: "ln", Args: "a", Does: "the natural logarithm; null up to 0", Example: "ln(x[1])", Want: [3]string{"null", "null", "null"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Log(a[0]) }},
	{Name: "log", Args: "a", Does: "the logarithm to base 10; null up to 0", Example: "log(x[1] + 10)", Want: [3]string{"null", "null", "1"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Log10(a[0]) }},
	{Name: "exp", Args: "a", Does: "e to the power of a", Example: "exp(x[1])", Want: [3]string{"null", "null", "1"},
		least: 1, most: 1, number: func(a []float64) float64 { return math.Exp(a[0]) }},
	{Name: "pow", Args: "a, b", Does: "a^b", Example: "pow(x[0], x[1])", Want: [3]string{"null", "null", "1"},
		least: 2, most: 2, number: func(a []float64) float64 { return math.Pow(a[0], a[1]) }},
	{Name: "mod", Args: "a, b", Does: "a % b: the remainder, with the sign of a", Example: "mod(x[1], x[0])", Want: [3]string{"null", "null", "0"},
		least: 2, most: 2, number: func(a []float64) float64 { return math.Mod(a[0], a[1]) }},
	{Name: "rand", Args: "", Does: "a number in [0, 1) that depends on the moment and its place alone, so that a backtest repeats it", Example: "floor(rand())", Want: [3]string{"0", "0", "0"},
		shape: takesAny},
}

// byName finds functions by their names in lower case.
var byName = func() map[string]*Function {
	m := map[string]*Function{}
	for _, f := range functions {
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			m[strings.ToLower(name)] = f
		}
	}
	return m
}()

// findFunction returns the function of that name, in any case, or nil.
func findFunction(name string) *Function {
	name = strings.ToLower(name)
	if f := byName[name]; f != nil {
		return f
	}
	if _, ok := percentOf(name); ok {
		return &short
	}
	return nil
}

// short is p50 … p99.9: percentile with the percentage in its name.
var short = func() Function {
	f := *byName["percentile"]
	f.Args, f.shape = "values", takesValues
	return f
}()

// percentOf reads the percentage of p99.9.
func percentOf(name string) (float64, bool) {
	if len(name) < 2 || name[0]|0x20 != 'p' || !digit(name[1]) {
		return 0, false
	}
	v, err := strconv.ParseFloat(name[1:], 64)
	return v, err == nil && v <= 100 && wordLength(name) == len(name)
}

// nearest is the candidate that name is most likely a slip of; empty if none.
func nearest(name string, candidates []string) string {
	if near, ok := strictyaml.Nearest(name, candidates); ok {
		return near
	}
	return ""
}
