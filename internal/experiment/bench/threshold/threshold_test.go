package threshold_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/threshold"
)

func result() *api.BenchResult {
	latency := func(p99 float64) api.BenchLatency {
		return api.BenchLatency{Count: 100, Mean: 0.05, Min: 0.001, Max: 0.9,
			Quantiles: map[string]api.Float{"0.5": 0.02, "0.99": api.Float(p99), "0.999": 0.8},
			Bounds:    []api.Float{0.001, 0.01, 0.1, 1}, Counts: []uint64{50, 40, 10}}
	}
	return &api.BenchResult{
		Start: 1000, End: 1010, Rate: 480,
		Account:  api.BenchAccount{Due: 5000, Sent: 4900, Answered: 4800, Dropped: 60, Unsent: 40, CutOff: 100, Errors: 48, Checks: map[string]uint64{"status 200": 24}},
		Latency:  latency(0.25),
		Queries:  []api.BenchQuery{{Name: "term", Sent: 1000, Answered: 1000, Errors: 20, Latency: latency(0.04)}, {Name: "silent"}},
		Tenants:  []api.BenchQuery{{Name: "acme: eu", Sent: 10, Answered: 10, Latency: latency(0.07)}},
		Phases:   []api.BenchPhase{{Name: "peak", Start: 5, End: 10, Due: 3000, Answered: 2500, Errors: 30, Latency: latency(0.4)}},
		Timeline: []api.BenchSlot{{Time: 1009, Width: 1}},
	}
}

func TestJudge(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		text  string
		value float64
		met   bool
	}{
		{"p(99) < 300ms", 0.25, true},
		{"p99<250ms", 0.25, false},
		{"p99 <= 250ms", 0.25, true},
		{"p99.9 < 1s", 0.8, true},
		{"median < 20.5ms", 0.02, true},
		{"mean < 1 s", 0.05, true},
		{"avg > 60ms", 0.05, false},
		{"min >= 1ms", 0.001, true},
		{"max < 900ms", 0.9, false},
		{"errors < 1%", 0.01, false}, // 48 of the 4,800 that were not cut off
		{"errors <= 0.01", 0.01, true},
		{"checks > 99%", 0.995, true},
		{"dropped = 2%", 0.02, true},
		{"rate > 450/s", 480, true},
		{"rate > 30000/m", 480, false},
		{"count >= 4800", 4800, true},
		{"p(99){term} < 50ms", 0.04, true},
		{"p(99){query: term} < 50ms", 0.04, true},
		{"errors{term} < 1%", 0.02, false},
		{"rate{term} > 99/s", 100, true},
		{"p99{phase: peak} < 300ms", 0.4, false},
		{"errors{phase:peak} <= 1%", 0.01, true},
		{"rate{phase:peak} > 499/s", 500, true},
		{"p(99){tenant: acme: eu} < 80ms", 0.07, true},
		{"p(99){silent} < 50ms", nan, false},
		{"errors{silent} = 0%", nan, false},
		{"p(99){absent} < 50ms", nan, false},
		{"p(90) < 1s", 0.1, true}, // from the buckets: rank 90 is the end of the second
	} {
		th, err := threshold.Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := th.Judge(result())
		if v := float64(got.Value); !(math.Abs(v-c.value) < 1e-12 || math.IsNaN(v) && math.IsNaN(c.value)) || got.Met != c.met || got.Text != c.text {
			t.Errorf("%s: %+v, want %v, met %v", c.text, got, c.value, c.met)
		}
	}
}

func TestBadConditionsSayWhatToWrite(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "it is empty (hint: write one as p(99) < 300ms or errors < 1%)"},
		{"p99", "a comparison is missing after p99 (hint: write < or >, such as p(99) < 300ms)"},
		{"erors < 1%", "measure erors is not known (hint: did you mean errors?)"},
		{"p(99 < 1s", "p(99: the parenthesis is not closed (hint: write p(99))"},
		{"p100 < 1s", "p100: a percentile is above 0 and below 100 (hint: write p(99) or p(99.9); the largest is max)"},
		{"p99 < 300", "300 has no unit (hint: write 300ms or 300s)"},
		{"p99 <> 300ms", "comparison <> is not known (hint: one of < <= > >= =)"},
		{"p99 <", "a value is missing after < (hint: such as p(99) < 300ms)"},
		{"p99 < fast", `"fast" cannot be read as a duration (hint: such as p(99) < 300ms)`},
		{"errors < 5", "5 is not a share of requests (hint: write 1% or 0.01)"},
		{"errors < 0", "nothing is below 0, so that no run meets it (hint: write <= or = for none at all)"},
		{"checks > 100%", "no share is above 100%, so that no run meets it (hint: write = 100%)"},
		{"rate > 5/d", "unit /d is not known (hint: write 5/s)"},
		{"p99{term < 5ms", "the brace is not closed (hint: write the name of a query as p(99){term} < 50ms)"},
		{"p99{} < 5ms", "no name stands in the braces (hint: a query's as {term}, {phase: peak} or {tenant: acme})"},
		{"p99{phase: } < 5ms", "no name stands in the braces (hint: a query's as {term}, {phase: peak} or {tenant: acme})"},
		{"dropped{term} < 5%", "what was dropped was of no query yet, and is counted of the whole run (hint: leave {term} out)"},
		{"checks{phase: p} > 5%", "checks are counted by query and not by phase (hint: use errors, which failed checks are among)"},
		{"p99 < 1s, abort soon", "abort soon cannot be read (hint: write abort, or abort after 10s)"},
		{"< 5ms", "a measure is missing (hint: write p(99), mean, max, errors, checks, rate or count)"},
	} {
		_, err := threshold.Parse(c.text)
		if want := `threshold "` + c.text + `": ` + c.want; err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", c.text, err, want)
		}
	}
}

func TestAbort(t *testing.T) {
	for _, c := range []struct {
		text    string
		elapsed time.Duration
		want    bool
	}{
		{"p99 < 1ms", time.Hour, false},
		{"p99 < 1ms, abort", 4 * time.Second, false},
		{"p99 < 1ms, abort", 5 * time.Second, true},
		{"p99 < 1ms abort after 10s", 9 * time.Second, false},
		{"p99 < 1ms abort after 10s", 10 * time.Second, true},
		{"p99 < 1ms, abort after 0s", 0, true},
		{"p99 < 1s, abort after 0s", 0, false},
		{"p99{silent} < 1s, abort after 0s", 0, false}, // nothing to judge by yet
	} {
		th, err := threshold.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := th.Hopeless(result(), c.elapsed); got != c.want {
			t.Errorf("%s after %s: %v", c.text, c.elapsed, got)
		}
	}
}

// A rate is known while the run is still under way, when it has no end yet.
func TestRateOfARunUnderWay(t *testing.T) {
	r := result()
	r.End, r.Rate = api.Float(math.NaN()), api.Float(math.NaN())
	th, err := threshold.Parse("rate{term} > 1/s")
	if err != nil {
		t.Fatal(err)
	}
	if got := th.Judge(r); float64(got.Value) != 100 {
		t.Errorf("got %v", got.Value)
	}
}

func TestNamesMustExist(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"p99{term} < 1s", ""},
		{"p99{phase: peak} < 1s", ""},
		{"p99{tenant: any} < 1s", ""}, // none are known before the run
		{"p99{trem} < 1s", `there is no query trem (hint: did you mean term?)`},
		{"p99{phase: base} < 1s", `there is no phase base (hint: write one of peak)`},
	} {
		th, err := threshold.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		err = th.Check([]string{"term", "range"}, []string{"peak"}, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// Whatever is accepted means the same when it is written again, and no text
// breaks the reader.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"p(99) < 300ms", "errors<1%", "rate{a b} >= 5/m, abort after 3s", "max{phase: x} = 1s", "p(", "{}", "checks > 0.5 abort"} {
		f.Add(s)
	}
	r := result()
	f.Fuzz(func(t *testing.T, s string) {
		th, err := threshold.Parse(s)
		if err != nil {
			if !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%q: no hint in %v", s, err)
			}
			return
		}
		again, err := threshold.Parse(th.String())
		if err != nil || again != th {
			t.Errorf("%q: again %+v, %v", s, again, err)
		}
		if j := th.Judge(r); j.Met && math.IsNaN(float64(j.Value)) {
			t.Errorf("%q: met by nothing", s)
		}
	})
}
