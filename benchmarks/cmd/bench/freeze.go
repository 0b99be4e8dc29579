package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	generators "tailscope/benchmarks/load"
	"tailscope/benchmarks/report"
)

// freezeBench asks programs that send load for the tail of a target that freezes.
func freezeBench(ctx context.Context, o *options, r *report.Report) error {
	during := 30 * time.Second
	if o.quick {
		during = 10 * time.Second
	}
	f := generators.Freeze
	implied := generators.TailOf(f.Implied(generators.FrozenRate, generators.Connections, during))
	told := r.Section("A target that freezes", fmt.Sprintf(
		"It answers in %s and stands still for %s at the end of every %s, %s of it. Implied is what requests wait that are due at %d a second, on up to %d connections, "+
			"computed from when they are due and when the target stands still. Tailscope, vegeta and hey are told that rate; "+
			"ab, k6 and wrk send when they have their answer; wrk adds to what it saw the requests that a connection would have sent meanwhile at its mean rate.", f.Serves, f.Lasts, f.Every, during, generators.FrozenRate, generators.Connections))
	off := r.Section("How far from what is implied", "The difference to the implied figure, in percent of it.")
	figures := []struct {
		what string
		of   func(generators.Tail) float64
	}{
		{"p99", func(t generators.Tail) float64 { return t.P99 }},
		{"p99.9", func(t generators.Tail) float64 { return t.P999 }},
		{"maximum", func(t generators.Tail) float64 { return t.Max }},
	}
	for _, f := range figures {
		told.Add(f.what, "implied", "ms", 0, 1000*f.of(implied))
	}
	for rep := range o.reps {
		for i, w := range generators.Witnesses() {
			if !o.wants(w.Name) || !w.Ours && !o.peers {
				continue
			}
			tails, err := w.Ask(ctx, during, filepath.Join(o.tmp, fmt.Sprintf("witness-%d-%d", rep, i)))
			switch {
			case err != nil && !w.Ours && ctx.Err() == nil:
				o.logf("%s is left out: %v", w.Name, err)
				continue
			case err != nil:
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			for k, t := range tails {
				who := w.Name
				if k > 0 {
					who += ", from when requests were sent"
				}
				o.logf("%d/%d %-52s p50 %7.2f ms, p99 %7.2f ms, p99.9 %7.2f ms, max %7.2f ms", rep+1, o.reps, who, 1000*t.P50, 1000*t.P99, 1000*t.P999, 1000*t.Max)
				for _, f := range figures {
					told.Add(f.what, who, "ms", 0, 1000*f.of(t))
					target := 0.0
					if w.Ours && k == 0 {
						target = 2
					}
					off.Add(f.what, who, "%", target, 100*math.Abs(f.of(t)/f.of(implied)-1))
				}
			}
		}
	}
	return nil
}
