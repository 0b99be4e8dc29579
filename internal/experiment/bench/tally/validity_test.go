package tally

import (
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
)

// of makes a distribution whose quantiles are about these.
func of(median, p99, p999 time.Duration) api.BenchLatency {
	h := hist.New(hist.DefaultSchema)
	_ = h.RecordNanos(int64(median), 98_500)
	_ = h.RecordNanos(int64(p99), 1_350)
	_ = h.RecordNanos(int64(p999), 150)
	return Latency(h, false)
}

func TestJudge(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name    string
		change  func(r *api.BenchResult)
		reasons []string // parts of them, in order; none: valid
	}{
		{"on time", func(*api.BenchResult) {}, nil},
		{"a slow target is no reason", func(r *api.BenchResult) {
			r.Latency, r.Generator.Blocked = of(time.Second, 20*time.Second, 30*time.Second), of(time.Second, 20*time.Second, 30*time.Second)
			r.Account.Unsent, r.Account.CutOff = 1000, 64
		}, nil},
		{"late below the floor", func(r *api.BenchResult) { r.Generator.Late = of(300*us, 900*us, 4*ms) }, nil},
		{"late, and little beside what it measures", func(r *api.BenchResult) {
			r.Generator.Late, r.Latency = of(10*us, 5*ms, 9*ms), of(30*ms, 90*ms, 120*ms)
		}, nil},
		{"late at p99", func(r *api.BenchResult) {
			r.Generator.Late, r.Latency = of(10*us, 5*ms, 9*ms), of(2*ms, 8*ms, 12*ms)
		}, []string{"at p99 5.00 ms after requests were due although a connection was free, which is 62 % of the latency of 8.05 ms"}},
		{"late at the median says so once", func(r *api.BenchResult) {
			r.Generator.Late, r.Latency = of(2*ms, 5*ms, 9*ms), of(4*ms, 8*ms, 12*ms)
		}, []string{"at the median 2.02 ms"}},
		{"late at p99.9 alone", func(r *api.BenchResult) {
			r.Generator.Late, r.Latency = of(10*us, 100*us, 30*ms), of(ms, 2*ms, 32*ms)
		}, []string{"at p99.9 30.0 ms"}},
		{"a few late of few say nothing", func(r *api.BenchResult) {
			r.Generator.Late = of(10*us, 100*us, 30*ms)
			r.Generator.Late.Count = 500
		}, nil},
		{"a busy thread", func(r *api.BenchResult) { r.Generator.Busiest = 0.97 }, []string{"busiest thread ran 97 % of the time (allowed: 95 %)"}},
		{"a thread without a core", func(r *api.BenchResult) { r.Generator.Busiest, r.Generator.Starved = 0.53, 0.48 }, []string{"ready to run and had no core for 48 % of the time (allowed: 10 %)"}},
		{"a thread that waited now and then", func(r *api.BenchResult) { r.Generator.Busiest, r.Generator.Starved = 0.5, 0.08 }, nil},
		{"a full machine on which it did not wait", func(r *api.BenchResult) { r.Generator.Host, r.Generator.Delayed = 1, 40e-6 }, nil},
		{"a full machine", func(r *api.BenchResult) { r.Generator.Host, r.Generator.Delayed = 1, 300e-6 },
			[]string{"busy 100 % of the time (allowed: 95 %), and the generator waited for one for 300 µs a request, 30 % of the mean latency"}},
		{"a full machine that does not say", func(r *api.BenchResult) { r.Generator.Host, r.Generator.Delayed = 1, api.Float(math.NaN()) }, []string{"the cores of this machine were busy"}},
		{"dropped", func(r *api.BenchResult) { r.Account.Dropped, r.Account.Due = 12, 100_000 }, []string{"12 of 100,000 requests were dropped"}},
		{"all of it", func(r *api.BenchResult) {
			r.Generator.Late, r.Generator.Busiest, r.Account.Dropped = of(time.Second, time.Second, time.Second), 1, 1
		}, []string{"sent late", "busiest", "dropped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			none := api.Float(math.NaN())
			r := &api.BenchResult{
				Latency: of(ms, 2*ms, 4*ms), Uncorrected: api.BenchLatency{Mean: 1e-3},
				Generator: api.BenchGenerator{Late: of(20*us, 100*us, 200*us), Busiest: 0.4, Host: 0.5, Delayed: none},
			}
			c.change(r)
			got := Limits{}.Judge(r)
			if len(got) != len(c.reasons) {
				t.Fatalf("got %q, want %q", got, c.reasons)
			}
			for i, part := range c.reasons {
				if !strings.Contains(got[i], part) || !strings.Contains(got[i], "; ") {
					t.Errorf("got %q, want %q and a next step", got[i], part)
				}
			}
		})
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{1.5e-9: "1.50 ns", 999.6e-9: "1.00 µs", 0.0999: "99.9 ms", 0.12345: "123 ms", 0.99949: "999 ms", 1: "1.00 s", 75: "75.0 s"} {
		if got := Short(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
