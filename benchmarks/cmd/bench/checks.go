package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/benchmarks/report"
	"tailscope/internal/agg"
	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

const checksText = `10,000 checks, each every ten seconds, in one process with the store on disk, the aggregator and 2,000 live spans a second of ` +
	`10,000 operations, whose last seventy minutes are there when it begins. CPU is that of the process, less what it takes with no check at all; ` +
	`it holds measuring, thresholds, states, what checks store, and the flushes and maintenance that this causes. Lag is how late runs begin.`

// checksCase is one shape of 10,000 checks.
type checksCase struct {
	name string
	yaml func(services, operations int) string
}

var checksCases = []checksCase{
	{"4 definitions × 2,500 series", func(services, _ int) string {
		var b strings.Builder
		b.WriteString("checks:\n")
		for i, measure := range []string{"p99", "errors", "rate", "mean"} {
			of := map[string]string{"p99": "5", "errors": "0.5", "rate": "1000", "mean": "5"}[measure]
			fmt.Fprintf(&b, "  %s:\n    every: 10s\n    each: {series: 'span_duration_seconds{service=~\"s%d.*\"}', by: [service, operation], most: 2500}\n", measure, i)
			fmt.Fprintf(&b, "    value: {query: {measure: %s, series: 'span_duration_seconds{service=\"$service\", operation=\"$operation\"}', over: 5m}}\n", measure)
			fmt.Fprintf(&b, "    threshold: {must: \"<\", of: %s, warning: 10%%, critical: 50%%}\n", of)
		}
		return b.String()
	}},
	{"10,000 definitions", func(services, operations int) string {
		var b strings.Builder
		b.WriteString("checks:\n")
		for s := range services {
			for o := range operations {
				name := fmt.Sprintf("%s %s", serviceName(s), operationName(o))
				fmt.Fprintf(&b, "  %s:\n    every: 10s\n    value: 'p99(span_duration_seconds{service=\"%s\",operation=\"%s\"}[-5M:-0M])'\n", name, serviceName(s), operationName(o))
				fmt.Fprintf(&b, "    threshold: {must: \"<\", of: 'avg({check=\"%[1]s\"}[-10M], {check=\"%[1]s\"}[-20M], {check=\"%[1]s\"}[-30M]) * 100', warning: 10%%, critical: 50%%}\n    null: skip\n", name)
			}
		}
		return b.String()
	}},
}

func serviceName(s int) string   { return fmt.Sprintf("s%d-%d", s%4, s) }
func operationName(o int) string { return fmt.Sprintf("GET /%d", o) }

func checksBench(ctx context.Context, o *options, r *report.Report) error {
	sec := r.Section("10,000 checks at 10 s", checksText)
	lasts := 45 * time.Second
	services, operations := 200, 50
	if o.quick {
		lasts, services = 15*time.Second, 20
	}
	for _, c := range checksCases {
		if !o.wants(c.name) {
			continue
		}
		if err := runChecks(ctx, o, sec, &c, services, operations, lasts); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func runChecks(ctx context.Context, o *options, sec *report.Section, c *checksCase, services, operations int, lasts time.Duration) (err error) {
	dir, err := os.MkdirTemp(o.tmp, "checks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	a, err := agg.Open(ctx, st, agg.Options{Writer: "bench", Dir: filepath.Join(dir, "journal"), MemoryBytes: 1 << 30})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close(context.WithoutCancel(ctx))) }()
	load := &checksLoad{a: a, services: services, operations: operations, rng: rand.New(rand.NewPCG(1, 2))}
	now := time.Now()
	o.logf("%s: filling", c.name)
	for t := now.Add(-70 * time.Minute); t.Before(now); t = t.Add(10 * time.Second) {
		if err := load.fill(ctx, t, c.name == checksCases[1].name && t.Before(now.Add(-8*time.Minute))); err != nil {
			return err
		}
		if (now.Sub(t)/(10*time.Second))%30 == 0 {
			if err := a.Flush(ctx); err != nil {
				return err
			}
		}
	}
	name := filepath.Join(dir, "checks.yaml")
	if err := os.WriteFile(name, []byte(c.yaml(services, operations)), 0o600); err != nil {
		return err
	}
	file, problems := spec.Read([]string{name}, spec.Options{})
	if len(problems) > 0 {
		return problems[0]
	}
	if err := st.Maintain(ctx, time.Now()); err != nil { // what the filling left to do
		return err
	}
	live, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 2)
	go func() { done <- load.live(live) }()
	go func() {
		for live.Err() == nil {
			if err := st.Maintain(live, time.Now()); err != nil && live.Err() == nil {
				o.logf("maintain: %v", err)
			}
			select {
			case <-live.Done():
			case <-time.After(10 * time.Second):
			}
		}
		done <- nil
	}()
	if err := sleepFor(ctx, lasts/2); err != nil {
		return err
	}
	runtime.GC()
	idle, err := cpuOver(ctx, lasts)
	if err != nil {
		return err
	}
	e, err := check.Open(ctx, check.Options{Store: st, Agg: a, Prom: query.NewPromEngine(st, query.PromOptions{}), File: *file})
	if err != nil {
		return err
	}
	running, halt := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(running) }()
	defer func() { halt(); <-ended; stop(); err = errors.Join(err, <-done, <-done) }()
	o.logf("%s: warming up", c.name)
	if err := sleepFor(ctx, 2*lasts); err != nil {
		return err
	}
	if path := os.Getenv("TAILSCOPE_BENCH_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	before := e.Stats()
	busy, err := cpuOver(ctx, lasts)
	if err != nil {
		return err
	}
	after := e.Stats()
	listed, err := e.List(ctx, check.ListRequest{Limit: after.Checks})
	if err != nil {
		return err
	}
	nulls, bare := 0, 0
	for _, c := range listed.Checks {
		if math.IsNaN(float64(c.Value)) {
			nulls++
		}
		if math.IsNaN(float64(c.Bands.Threshold)) {
			bare++
		}
	}
	runs := float64(after.Runs - before.Runs)
	cost := busy - idle
	add := func(what, unit string, value, target float64, note string) {
		sec.Figures = append(sec.Figures, &report.Figure{What: c.name + ": " + what, Who: "tailscope", Unit: unit, Values: []float64{value}, Target: target, Note: note})
	}
	add("runs a second", "1/s", runs/lasts.Seconds(), 0, fmt.Sprintf("%d checks, of which %d had no value and %d no threshold at the end; %d runs left out, %d failed",
		after.Checks, nulls, bare, after.Skipped-before.Skipped, after.Failures-before.Failures))
	add("CPU of checks", "cores", cost/lasts.Seconds(), 0.5, fmt.Sprintf("%.3f cores with, %.3f without", busy/lasts.Seconds(), idle/lasts.Seconds()))
	add("CPU of a run", "µs", cost/runs*1e6, 0, "")
	lags := after.Lags
	if err := lags.Subtract(before.Lags); err != nil {
		return err
	}
	add("schedule lag p99", "s", lags.Quantile(0.99), 1, fmt.Sprintf("at most %.2g s", lags.Quantile(1)))
	add("cold: lag p99", "s", before.Lags.Quantile(0.99), 0, fmt.Sprintf("of the first %s, in which what the past holds is read; %d runs left out", 2*lasts, before.Skipped))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	add("heap in use", "MiB", float64(m.HeapInuse)/(1<<20), 0, "with the aggregator and the store's caches in Go")
	return nil
}

// checksLoad sends spans of every operation.
type checksLoad struct {
	a                    *agg.Aggregator
	services, operations int
	rng                  *rand.Rand
	targets              []agg.Target
	values               []agg.Target
	epoch                uint32
}

func (l *checksLoad) begin(withValues bool) *agg.Batch {
	b := l.a.NewBatch()
	if b.Epoch() != l.epoch || withValues && l.values == nil {
		l.epoch = b.Epoch()
		l.targets, l.values = l.targets[:0], nil
		for s := range l.services {
			for o := range l.operations {
				id := agg.SpanIdentity{Service: serviceName(s), Operation: operationName(o), Component: "app", Kind: "server", Status: "ok"}
				l.targets = append(l.targets, l.a.SpanTarget(&id))
				if withValues {
					l.values = append(l.values, l.a.SeriesTarget(series.Series{Family: check.FamilyValue, Kind: series.Gauge,
						Labels: checkLabels(serviceName(s) + " " + operationName(o))}))
				}
			}
		}
	}
	return b
}

// fill sends one span of each operation in the slot at t, and what its check
// would have stored.
func (l *checksLoad) fill(ctx context.Context, t time.Time, values bool) error {
	b := l.begin(values)
	for i, target := range l.targets {
		b.Observe(target, t.UnixNano(), int64(1e6+l.rng.ExpFloat64()*2e7), 1)
		if values {
			b.Number(l.values[i], t.UnixNano(), 0.1+0.01*l.rng.NormFloat64())
		}
	}
	_, err := b.Commit(ctx)
	return err
}

// live sends 2,000 spans a second until ctx is done.
func (l *checksLoad) live(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			b := l.begin(false)
			for range 200 {
				b.Observe(l.targets[next%len(l.targets)], now.UnixNano(), int64(1e6+l.rng.ExpFloat64()*2e7), 1)
				next++
			}
			if _, err := b.Commit(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// cpuOver returns the CPU time, in seconds, that this process takes within d.
func cpuOver(ctx context.Context, d time.Duration) (float64, error) {
	used := func() (float64, error) {
		var u syscall.Rusage
		err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6, err
	}
	before, err := used()
	if err != nil {
		return 0, err
	}
	if err := sleepFor(ctx, d); err != nil {
		return 0, err
	}
	after, err := used()
	return after - before, err
}

func checkLabels(name string) labels.Labels { return labels.FromStrings(check.LabelCheck, name) }
