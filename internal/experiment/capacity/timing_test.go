package capacity

import (
	"math"
	"testing"

	"tailscope/internal/experiment/bench/load"
)

func TestTimingsInAnswers(t *testing.T) {
	field := func(name, value string) []load.Field {
		return []load.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: name, Value: value}}
	}
	for _, test := range []struct {
		header []load.Field
		by     string
		want   float64 // seconds; NaN of none
	}{
		{field("Server-Timing", `miss, db;dur=53, queue;desc="in line";dur=47.2`), "Server-Timing;queue", 0.0472},
		{field("server-timing", `wait;dur="12"`), "Server-Timing;wait", 0.012},
		{field("Server-Timing", "app;dur=9"), "", math.NaN()},
		{field("X-Queue-Time", "15"), "X-Queue-Time", 0.015},
		{field("X-Queue-Time", "t=15"), "X-Queue-Time", 0.015},
		{field("X-Queue-Time", "0.25s"), "X-Queue-Time", 0.25},
		{field("X-Queue-Time", "soon"), "", math.NaN()},
		{field("X-Queue-Time", "-4"), "", math.NaN()},
		{field("X-Runtime", "0.031"), "X-Runtime", 0.031},
		{field("X-Upstream-Response-Time", "0.004, 0.010 : 0.002"), "X-Upstream-Response-Time", 0.016},
		{field("X-Upstream-Response-Time", "-"), "", math.NaN()},
	} {
		q := &queueing{timings: usualTimings}
		if header, _ := q.Wants(0); !header {
			t.Fatal("nobody listens")
		}
		if got := q.Check(0, 200, test.header, nil); got != -1 {
			t.Errorf("check %d failed", got)
		}
		seconds, n, by := q.takeTimings()
		if math.IsNaN(test.want) {
			if n != 0 || by != nil {
				t.Errorf("%v: %v by %v", test.header, seconds, by)
			}
			continue
		}
		if n != 1 || math.Abs(seconds-test.want) > 1e-9 || by.String() != test.by || by.Worked != (test.by == "X-Runtime" || test.by == "X-Upstream-Response-Time") {
			t.Errorf("%v: %v s of %d answers by %v, not %v by %s", test.header, seconds, n, by, test.want, test.by)
		}
	}
}

// Headers of a target that sends no timings are not read for ever.
func TestNobodyListensForEver(t *testing.T) {
	q := &queueing{timings: usualTimings}
	for range enoughSilence {
		q.Check(0, 200, nil, nil)
	}
	if header, _ := q.Wants(0); header {
		t.Error("somebody listens")
	}
	q = &queueing{timings: []Timing{}}
	if header, _ := q.Wants(0); header {
		t.Error("somebody listens to nothing")
	}
}

func TestTimingsAsWritten(t *testing.T) {
	for _, test := range []struct {
		text string
		want Timing
	}{
		{"X-Queue-Time", Timing{Field: "X-Queue-Time", Unit: 1e-3}},
		{"X-Queue-Time:s", Timing{Field: "X-Queue-Time", Unit: 1}},
		{"X-Queue-Time:us", Timing{Field: "X-Queue-Time", Unit: 1e-6}},
		{"Server-Timing;backlog", Timing{Field: "Server-Timing", Metric: "backlog", Unit: 1e-3}},
		{"", Timing{}}, {"X-Queue-Time:h", Timing{}}, {"Server-Timing", Timing{}}, {"a b", Timing{}},
	} {
		got, err := ParseTiming(test.text, false)
		if (err != nil) != (test.want == Timing{}) || err == nil && got != test.want {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
	}
}

func FuzzInterval(f *testing.F) {
	for _, s := range []string{"12", "0.5s", "1, 2 : 3ms", "t=1e9", "-", "=;,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := interval(s, 1e-3); ok != (v > 0) && v != 0 || v < 0 || math.IsNaN(v) {
			t.Errorf("%q: %v, %v", s, v, ok)
		}
	})
}
