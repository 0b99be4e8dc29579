package main

import (
	"context"
	"fmt"

	"tailscope/benchmarks/report"
	"tailscope/test/payload"
)

// wide sends spans of many tenants, routes and processes to a server at its defaults, and
// reads what folds and how much memory it takes.
func wide(ctx context.Context, o *options, r *report.Report) error {
	most := 2_000_000
	if o.quick {
		most /= 10
	}
	sec := r.Section("Tenants of many routes", fmt.Sprintf(
		"%d tenants, each as likely, × %d services × %d routes × %d processes of each: %d spans at %d a second, traces of %d spans, every setting at its default, the breakdown on. "+
			"Folded is what lost its tenant, its operation or its process.",
		payload.Tenants, payload.WideServices, payload.WideRoutes, payload.WideInstances, most, pacedRate, payload.SpansPerTrace))
	p, stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	spans, err := pace(ctx, p.OTLPGRPC, payload.WideAt, most)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	m, err := readMetrics(ctx, p.URL)
	if err != nil {
		return err
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	o.logf("%d spans, peak %d MiB, resident %d MiB, %.3f CPU-s per million", spans, u.PeakBytes>>20, u.ResidentNow>>20, u.CPU().Seconds()/float64(spans)*1e6)
	for _, f := range []struct{ what, metric string }{
		{"names folded in traces", "tailscope_trace_names_folded_total"},
		{"parts folded in traces", "tailscope_trace_parts_folded_total"},
		{"tenants folded", "tailscope_folded_tenants_total"},
		{"operations folded", "tailscope_folded_operations_total"},
		{"requests refused for a while", "tailscope_overloads_total"},
	} {
		v, ok := m[f.metric]
		if !ok {
			return fmt.Errorf("/metrics has no %s", f.metric)
		}
		o.logf("%s: %.0f", f.what, v)
		sec.Add(f.what, "tailscope", "", 0, v)
	}
	sec.Add("series", "tailscope", "", 0, m["tailscope_active_series"])
	sec.Add("peak", "tailscope", "MiB", 300, float64(u.PeakBytes)/(1<<20))
	sec.Add("CPU", "tailscope", "CPU-s per million spans", 0, u.CPU().Seconds()/float64(spans)*1e6)
	return nil
}
