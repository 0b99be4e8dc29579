package answer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/experiment/simulate/measured"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/strictyaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// played plays a file, of which x.json may be in it.
func played(t *testing.T, file string, content string, o Options) (*api.Simulation, error) {
	t.Helper()
	s, problems := spec.Read("s.yaml", []byte(file))
	if len(problems) > 0 {
		t.Fatal(strictyaml.Error(problems))
	}
	m, problems, err := measured.Load(t.Context(), s, measured.Sources{File: func(string) ([]byte, error) { return []byte(content), nil }})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, strictyaml.Error(problems))
	}
	return Play(t.Context(), s, m, o)
}

func warned(s *api.Simulation, code string) string {
	var out []string
	for _, w := range s.Warnings {
		if w.Code == code {
			out = append(out, w.Text)
		}
	}
	return strings.Join(out, "\n")
}

// Half as many nodes again gain nothing until the next power of two; data that can be
// divided at will gains all the way.
func TestStaircase(t *testing.T) {
	s, err := played(t, `simulate: stairs
queries: 5k
leaves: [{from: {takes: 5ms, shards: 8}}]
layout: {shards: 8, threads: 1, cores: 1, rate: 2}
layouts: [{name: binary, split: binary}, {name: arbitrary, split: arbitrary}]
vary: {nodes: 4..9}
`, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	p50 := func(i int) float64 { return float64(s.Layouts[i].Quantiles["0.5"].Value) }
	for i, want := range []float64{0.010, 0.010, 0.010, 0.010, 0.005, 0.005, 0.010, 0.008, 0.00667, 0.00571, 0.005, 0.00444} {
		if math.Abs(p50(i)/want-1) > 0.01 {
			t.Errorf("%s: p50 %g, want %g", s.Layouts[i].Name, p50(i), want)
		}
	}
	if !strings.Contains(s.Headline, "; from 4 to 7 nodes, binary, nothing is gained") || s.Layouts[7].Curve != "arbitrary" || s.Layouts[7].X != 5 {
		t.Error(s.Headline)
	}
	work := 0
	for _, l := range s.Layouts {
		if len(l.Work) > 0 {
			work++
		}
	}
	if work != mostWatched || len(s.Layouts[0].Work) == 0 || len(s.Layouts[11].Work) == 0 {
		t.Errorf("the work of %d layouts is kept", work)
	}
}

// A small gain with every step is not a stretch without gain, and a figure without an
// interval is compared with nothing.
func TestHeadline(t *testing.T) {
	curve := func(low float64, p99 ...float64) (out []api.SimulationLayout) {
		for i, v := range p99 {
			value := api.ScalingValue{Value: api.Float(v), Low: api.Float(low * v), High: api.Float(1.02 * v)}
			out = append(out, api.SimulationLayout{Name: fmt.Sprint(i + 4), X: api.Float(i + 4), Stable: true, Quantiles: map[string]api.ScalingValue{"0.99": value}})
		}
		return out
	}
	s := &spec.Spec{Asks: 0.99, Variable: "nodes"}
	for want, layouts := range map[string][]api.SimulationLayout{
		"surely lower, and lowest, with 8: 500 ms (95 % interval 490 ms … 510 ms), 50 % less; from 4 to 7 nodes nothing is gained": curve(0.98, 1, 1, 0.99, 1, 0.5, 0.5),
		"surely lower, and lowest, with 6: 922 ms (95 % interval 903 ms … 940 ms), 8 % less":                                       curve(0.98, 1, 0.96, 0.9216),
		"too few queries for its interval": curve(math.NaN(), 1, 0.5),
	} {
		got := headline(s, layouts)
		if !strings.Contains(got, want) || strings.Contains(got, "gained") != strings.Contains(want, "gained") {
			t.Errorf("%s\n  want %s", got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	few := strings.Repeat("5ms\n", 1000) + strings.Repeat("50ms\n", 10)
	for file, want := range map[string]string{
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 2, shards: 8, threads: 8, cores: 4, rate: 2}":                               "threads 8 threads share 4 cores of a node",
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 2, shards: 8, threads: 8, rate: 2}":                                         "no_cores cores are not said, so each of 8 threads has one of its own: write cores: 8",
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 2, shards: 8, rate: 2}":                                                     "no_limit neither threads nor cores",
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 2, shards: 8, cores: 2, rate: 2}":                                           "threads threads are not said",
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 1, threads: 1, cores: 1, rate: 20}\nvary: {shards: [4, 8, 16]}":             "size it is not said at how many shards leaves of queries were measured: 4 are taken",
		"leaves: [{from: {takes: 5ms, shards: 8}}]\nlayout: {nodes: 1, threads: 1, cores: 1, rate: 2}\nvary: {shards: [8, 32]}":      "extrapolated 32 shards: leaves of queries were measured at 8 shards",
		"leaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 1, shards: 8, threads: 1, cores: 1}\nvary: {rate: [2, 30]}":                 "unstable rate 30 cannot keep up: ",
		"asks: p50\nleaves: [{from: {file: x}}]\nlayout: {nodes: 8, shards: 8, threads: 1, cores: 1, rate: 2}":                       "beyond p99.9 of queries is left out: it takes 79965 observations",
		"asks: p50\nleaves: [{from: {file: x, shards: 8}}]\nlayout: {nodes: 8, threads: 1, cores: 1, rate: 2}\nvary: {shards: 4..9}": "beyond 4 shards: p99.9 of queries is left out: it takes 39985 observations of leaves of x, and there are 1010; so it is, with other figures, of 5 more layouts",
	} {
		s, err := played(t, "simulate: x\nqueries: 2k\n"+file+"\n", few, Options{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		code, text, _ := strings.Cut(want, " ")
		if got := warned(s, code); !strings.Contains(got, text) {
			t.Errorf("%s\n  warns of %v\n  want %s", file, s.Warnings, want)
		}
		for _, l := range s.Layouts {
			if !l.Stable && !math.IsNaN(float64(l.Quantiles["0.5"].Value)) {
				t.Errorf("%s: figures of a layout that cannot keep up", l.Name)
			}
		}
	}
}

// However many play at once, in whatever order they are done, the answer is the same.
func TestWorkersDoNotMatter(t *testing.T) {
	answer := func(workers int) string {
		calls := 0
		s, err := played(t, `simulate: x
queries: 2k
leaves: [{from: {takes: {exponential: 5ms}}}]
layout: {shards: 8, threads: 2, rate: 20}
layouts: [{name: queued, nodes: 4}, {name: shared, cores: 1, nodes: 4}, {name: late, nodes: 2, rate: 900}]
vary: {replicas: [1, 2]}
`, "", Options{Workers: workers, Now: func() time.Time { return time.Unix(0, 0) }, Progress: func(done, of int, _ string) {
			if calls++; done > of {
				t.Errorf("%d of %d are done", done, of)
			}
		}})
		if err != nil || calls != 12 {
			t.Fatalf("%v, %d calls", err, calls)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := answer(1)
	for _, workers := range []int{2, 5, 64} {
		if answer(workers) != one {
			t.Errorf("%d workers give another answer", workers)
		}
	}
}

func TestTooMuch(t *testing.T) {
	const file = "simulate: x\nqueries: 20M\nleaves: [{from: {takes: 5ms}}]\nlayout: {nodes: 100, shards: 1000, threads: 1, rate: 2}\n"
	if _, err := played(t, file, "", Options{Most: 1e9}); err == nil || !strings.Contains(err.Error(), "write fewer with queries") {
		t.Error(err)
	}
	s, problems := spec.Read("s", []byte(file))
	if len(problems) > 0 {
		t.Fatal(strictyaml.Error(problems))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m, _, err := measured.Load(t.Context(), s, measured.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	s.Queries = 10_000
	if _, err := Play(ctx, s, m, Options{}); err == nil {
		t.Error("it goes on when nobody wants it any more")
	}
}

// Slots whose length is not a power of two are left one after the other: none is
// entered twice.
func TestManySlots(t *testing.T) {
	var slots []string
	for i := range 61 {
		slots = append(slots, fmt.Sprintf(`{"time":%d,"min":0.001,"max":0.002,"at":[0],"counts":[%d]}`, 1000+10*i, 900+7*i))
	}
	leaves := `{"format":1,"source":"x","start":1000,"end":1610,"step":10,"bounds":[0.001,0.002],"classes":[{"class":"a","count":1,"slots":[` + strings.Join(slots, ",") + `]}]}`
	for _, rate := range []string{"0.5", "0.7", "3", "31"} {
		s, err := played(t, "simulate: x\nqueries: 3k\nasks: p90\nleaves: [{from: {file: x}}]\nlayout: {nodes: 2, shards: 4, threads: 4, cores: 4, rate: "+rate+"}\n", leaves, Options{})
		if err != nil || !s.Layouts[0].Stable || s.Leaves[0].Slots != 61 {
			t.Errorf("%s: %+v, %v", rate, s, err)
		}
	}
}
