package main

import (
	"context"
	"fmt"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// How often resident looks.
const residentEvery = 10 * time.Second

// resident sends spans at a steady rate to a server at its defaults, breakdown
// included, and looks at its memory: what the kernel counts, what the garbage
// collector found alive, and what the server's own table adds up to.
func resident(ctx context.Context, o *options, r *report.Report) error {
	lasts := o.lasting
	if o.quick {
		lasts = 30 * time.Second
	}
	sec := r.Section(fmt.Sprintf("Memory at %d spans a second", pacedRate), fmt.Sprintf(
		"%d tenants in three services, traces of %d spans, paced for %s; every setting at its default, the breakdown on. "+
			"Resident memory is that of the whole process as the kernel counts it; the live heap is what the last garbage collection found; "+
			"the parts are those of `tailscope_memory_bytes`. Each is read every %s.",
		payload.Tenants, payload.SpansPerTrace, lasts, residentEvery))
	p, stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
	if err != nil {
		return err
	}
	defer s.Close()

	begin, last := time.Now(), program.Usage{}
	spans, retries, err := sendPaced(ctx, s, 0, lasts, func(retries int) error {
		u, err := p.Usage()
		if err != nil {
			return err
		}
		m, err := readMetrics(ctx, p.URL)
		if err != nil {
			return err
		}
		o.logf("%4.0f s: resident %4d MiB, peak %4d MiB, heap in use %4.0f MiB, parts %4.0f MiB, %.3f CPU-s per million spans, %d retries",
			time.Since(begin).Seconds(), u.ResidentNow>>20, u.PeakBytes>>20, m["go_memstats_heap_inuse_bytes"]/(1<<20), m["tailscope_memory_bytes"]/(1<<20),
			(u.CPU()-last.CPU()).Seconds()/(residentEvery.Seconds()*pacedRate)*1e6, retries)
		last = u
		sec.Add("resident", "tailscope", "MiB", 400, float64(u.ResidentNow)/(1<<20))
		sec.Add("parts", "tailscope", "MiB", 0, m["tailscope_memory_bytes"]/(1<<20))
		sec.Add("live heap", "tailscope", "MiB", 0, m["tailscope_live_heap_bytes"]/(1<<20))
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	sec.Add("peak", "tailscope", "MiB", 400, float64(u.PeakBytes)/(1<<20))
	sec.Add("CPU", "tailscope", "CPU-s per million spans", 0, u.CPU().Seconds()/float64(spans)*1e6)
	sec.Add("sent", "tailscope", "spans/s", 0, float64(spans)/time.Since(begin).Seconds())
	sec.Add("told to retry", "tailscope", "requests", 0, float64(retries))
	return nil
}
