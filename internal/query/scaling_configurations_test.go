package query

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// tuned is a store with a service that marks made faster: each configuration has a law of
// its own, an operation that was always slow gets more of the requests, and processor time
// and memory are sent.
func tuned(t *testing.T) store.Store {
	t.Helper()
	st, w, rng := storetest.NewTwin(), querytest.NewWriter(), rand.New(rand.NewPCG(7, 1))
	of := func(operation string) labels.Labels {
		return labels.FromStrings("service", "shop", "operation", operation, "kind", "server", "status", "ok")
	}
	cpu := series.Series{Family: "process.cpu.time", Kind: series.Counter, Labels: labels.FromStrings("service", "shop")}
	memory := func(instance string) series.Series {
		return series.Series{Family: "process.memory.usage", Kind: series.Gauge, Labels: labels.FromStrings("service", "shop", "instance", instance)}
	}
	used := 0.0
	for minute := range 180 {
		lambda := []float64{10, 20, 40}[minute/60]
		slow := []float64{0.1, 0.2, 0.3}[minute/60] // share of the slow operation
		x := lambda * (0.3 + 2*math.Abs(math.Sin(float64(minute)*1.9)))
		n := x / lambda * (1 + 0.05*x/lambda)
		at := querytest.Epoch + int64(minute)*60
		for j := range int(x * 60) {
			operation, took := "GET /", n/x*(0.9+0.2*rng.Float64())
			if rng.Float64() < slow {
				operation, took = "POST /import", 5*took
			}
			w.Span(at+int64(float64(j)/x), of(operation), took)
		}
		used += 60 * []float64{3, 2, 1}[minute/60]
		w.Number((at+59)*1000, cpu, used)
		for _, instance := range []string{"a", "b"} {
			w.Number((at+59)*1000, memory(instance), 1e9*[]float64{1, 1.5, 2}[minute/60])
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	for i, m := range []store.Mark{
		{ID: "a", Name: "cache", Service: "shop"}, {ID: "b", Name: "packing"}, {ID: "c", Name: "other", Service: "cart"},
	} {
		m.Time = time.Unix(querytest.Epoch+int64(i%2+1)*3600+20, 0)
		if err := store.PutMark(t.Context(), st, m); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func TestScalingByConfiguration(t *testing.T) {
	out, err := Scaling(t.Context(), tuned(t), ofShop(180))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Configurations) != 3 || out.CPU != "process.cpu.time" || out.Memory != "process.memory.usage" {
		t.Fatalf("%d configurations, CPU of %q, memory of %q; want 3, both", len(out.Configurations), out.CPU, out.Memory)
	}
	of := make([]int, 4)
	for _, p := range out.Points {
		of[p.Configuration+1]++
	}
	if of[0] != 2 || of[1] != 60 || of[2] != 59 || of[3] != 59 {
		t.Errorf("points by configuration, none first: %v, want 2, 60, 59, 59: the steps of the marks are of none", of)
	}
	for i, want := range []struct {
		name                string
		cpu, memory, factor float64
	}{{"", 3, 2e9, 0}, {"cache", 2, 3e9, 0.5}, {"packing", 1, 4e9, 0.5}} {
		c := out.Configurations[i]
		if c.Name != want.name || c.Law == nil {
			t.Fatalf("configuration %d: name %q, law %v, warnings %v; want %q and a law", i, c.Name, c.Law, c.Warnings, want.name)
		}
		if math.Abs(float64(c.CPU)/want.cpu-1) > 0.03 || math.Abs(float64(c.Memory)/want.memory-1) > 0.01 {
			t.Errorf("%s: CPU %v, memory %v, want %v and %v", want.name, c.CPU, c.Memory, want.cpu, want.memory)
		}
		if c.Requests == 0 || !(c.Quantiles["p50"] < c.Quantiles["p99"]) || !(c.Apdex > 0.5 && c.Apdex <= 1) || c.Errors != 0 {
			t.Errorf("%s: %+v", want.name, c)
		}
		if i == 0 {
			if c.Change != nil {
				t.Errorf("the first configuration changed: %+v", c.Change)
			}
			continue
		}
		// The mix moves towards the slow operation, and the mean is still told for a common one.
		ratio := c.Change.Ratio
		if math.Abs(float64(ratio.Value)-want.factor) > 0.06 || !(ratio.Low < ratio.Value && ratio.Value < ratio.High && ratio.High < 1) {
			t.Errorf("%s: ratio %+v, want about %v", want.name, ratio, want.factor)
		}
		if before := out.Configurations[i-1].Change; before != nil && before.After != c.Change.Before {
			t.Errorf("%s: before it %v, after the one before %v: changes add up", want.name, c.Change.Before, before.After)
		}
	}
	if out.Headline != out.Sentence {
		t.Errorf("headline %q of two marks is not the sentence", out.Headline)
	}
	if out.Law != out.Configurations[2].Law || !strings.Contains(out.Sentence, " ms with cache and −") {
		t.Errorf("sentence %q; the law is that of the newest configuration: %v", out.Sentence, out.Law == out.Configurations[2].Law)
	}
	t.Log(out.Sentence)
}

// The quantiles of a configuration are those of the distribution over its range.
func TestScalingQuantilesAreThoseOfTheDistribution(t *testing.T) {
	st := tuned(t)
	out, err := Scaling(t.Context(), st, ofShop(180))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Configurations {
		r := DistributionRequest{Selection: ofShop(180).Selection, Quantiles: []Quantile{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}}}
		r.Start, r.End = time.Unix(c.Start, 0), time.Unix(c.End, 0)
		whole, err := Distribution(t.Context(), st, r)
		if err != nil || len(whole.Groups) != 1 || whole.Groups[0].Count != c.Requests {
			t.Fatalf("%q: %v, %+v; want %d requests", c.Name, err, whole, c.Requests)
		}
		for q, want := range whole.Groups[0].Quantiles {
			if got := c.Quantiles[q]; got != want {
				t.Errorf("%q: %s is %v, of the distribution %v", c.Name, q, got, want)
			}
		}
	}
}

// Marks that are close to each other are one change, and one that changed nothing is told
// so.
func TestScalingOfMarksThatChangedNothing(t *testing.T) {
	st := scaledStore(t, 120, func(i int) float64 { return 4 + 3*math.Sin(float64(i)*1.9) })
	for i, sec := range []int64{3600, 3700, 3800} {
		if err := store.PutMark(t.Context(), st, store.Mark{ID: string(rune('a' + i)), Name: "deploy " + string(rune('1'+i)), Time: time.Unix(querytest.Epoch+sec, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := Scaling(t.Context(), st, ofShop(120))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Configurations) != 2 || out.Configurations[1].Name != "deploy 1, deploy 2 and deploy 3" || !strings.Contains(out.Sentence, "(no evidence)") {
		t.Errorf("%d configurations, the last %q, sentence %q", len(out.Configurations), out.Configurations[len(out.Configurations)-1].Name, out.Sentence)
	}
}

// Where a minute holds too few requests, longer steps are taken by themselves.
func TestScalingStepFollowsTheRequests(t *testing.T) {
	r := ofShop(180)
	r.Grid = Grid{}
	for rate, want := range map[float64]int64{4: 60, 0.1: 600} {
		out, err := Scaling(t.Context(), scaledStore(t, 180, func(int) float64 { return rate }), r)
		if err != nil {
			t.Fatal(err)
		}
		if out.Step != want {
			t.Errorf("%v requests/s: steps of %d s, want %d", rate, out.Step, want)
		}
	}
}
