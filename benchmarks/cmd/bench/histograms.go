package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/test/payload"
	"tailscope/test/sender"
)

// histogramSenders divides the number of processes, so that the points of one
// stream come from one sender, in order.
const histogramSenders = 5

// histograms measures histograms that arrive as metrics.
func histograms(ctx context.Context, o *options, r *report.Report) error {
	slots := 50
	if o.quick {
		slots /= 10
	}
	requests := slots * payload.HistogramProcesses
	points := requests * payload.PointsPerRequest
	lasts := time.Duration(slots) * payload.HistogramInterval
	sec := r.Section("Histograms that arrive as metrics", fmt.Sprintf(
		"%d requests of %d histograms of about %d log-normal observations (%d series over %s) from %d concurrent senders, by HTTP to both. "+
			"CPU is of the whole process, from its start to its end. Prometheus is its database behind its own OTLP handler; it writes its log, "+
			"but no block before two hours are over, while Tailscope has flushed everything into its store.",
		requests, payload.PointsPerRequest, payload.ObservationsPerPoint, payload.HistogramProcesses*payload.PointsPerRequest, lasts, histogramSenders))
	for _, form := range []payload.HistogramForm{{Cumulative: true}, {Explicit: true, Cumulative: true}, {}} {
		if !o.wants(form.String()) {
			continue
		}
		l := &load{method: sender.Metrics, path: "/v1/metrics", items: points, workers: histogramSenders}
		for rep := range o.reps {
			// From now on, for both: what lies back would be late.
			o.logf("making %d requests of %s histograms", requests, form)
			start := time.Now().Truncate(payload.HistogramInterval)
			l.payloads = payload.Histograms(1, payload.HistogramProcesses, requests, start, form)
			for _, e := range []struct {
				name, protocol string
				start          func(string) (*target, error)
			}{
				{"tailscope", "gRPC", startTailscope(ctx)},
				{"tailscope", "HTTP", startTailscope(ctx)},
				{"prometheus", "HTTP", startPrometheus(ctx)},
			} {
				ours := e.name == "tailscope"
				if !ours && !o.peers {
					continue
				}
				if ours && e.protocol == "gRPC" && form.String() != "exponential cumulative" {
					continue
				}
				c, dir, err := spend(ctx, o, e.start, e.protocol, l, 0)
				if err != nil {
					return fmt.Errorf("%s, %s by %s: %w", e.name, form, e.protocol, err)
				}
				if ours {
					if err := keptPoints(ctx, dir, l, payload.HistogramProcesses, form, start, start.Add(lasts+time.Minute)); err != nil {
						return err
					}
				}
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
				perMillion := c.cpu.Seconds() / float64(points) * 1e6
				o.logf("%d/%d %-24s %-10s %-5s %6.3f CPU-s per million points, %5.2f s, peak %4d MiB", rep+1, o.reps, form, e.name, e.protocol, perMillion, c.wall.Seconds(), c.peak>>20)
				target := 0.0
				if ours {
					target = 2
				}
				sec.Add(form.String()+" by "+e.protocol+", CPU", e.name, "CPU-s per million points", target, perMillion)
				sec.Add(form.String()+" by "+e.protocol+", peak memory", e.name, "MB", 0, float64(c.peak)/1e6)
			}
		}
	}
	ratios(sec, "CPU-s per million points")
	return histogramHours(ctx, o, r)
}

// histogramHours measures six hours of histograms that are sent at once: those that end
// now, and those of the day before.
func histogramHours(ctx context.Context, o *options, r *report.Report) error {
	const processes = 10
	lasts := 6 * time.Hour
	if o.quick {
		lasts /= 12
	}
	requests := int(lasts/payload.HistogramInterval) * processes
	points := requests * payload.PointsPerRequest
	sec := r.Section("Hours of histograms, sent at once", fmt.Sprintf(
		"%d exponential delta histograms of about %d log-normal observations (%d series over %s) from %d concurrent senders by HTTP, in order of time. "+
			"CPU is of the whole process until a minute after the last was sent, its end included; the bytes are those of its data directory then.",
		points, payload.ObservationsPerPoint, processes*payload.PointsPerRequest, lasts, histogramSenders))
	for _, age := range []struct {
		name string
		ends time.Duration // ago
	}{{"recent", 0}, {"old", 24 * time.Hour}} {
		if !o.wants(age.name) {
			continue
		}
		for rep := range o.reps {
			form := payload.HistogramForm{}
			o.logf("making %d requests of %s histograms", requests, age.name)
			start := time.Now().Add(-age.ends - lasts).Truncate(payload.HistogramInterval)
			l := &load{method: sender.Metrics, path: "/v1/metrics", items: points, workers: histogramSenders}
			l.payloads = payload.Histograms(1, processes, requests, start, form)
			var used int64
			l.look = func(ctx context.Context, t *target) (err error) {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
				used, err = dirSize(filepath.Join(t.dir, "data"))
				return err
			}
			c, dir, err := spend(ctx, o, startTailscope(ctx), "HTTP", l, 0)
			if err != nil {
				return fmt.Errorf("%s histograms: %w", age.name, err)
			}
			if err := keptPoints(ctx, dir, l, processes, form, start, start.Add(lasts+time.Minute)); err != nil {
				return err
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			perMillion, bytes := c.cpu.Seconds()/float64(points)*1e6, float64(used)/float64(points)
			o.logf("%d/%d %-6s hours %6.3f CPU-s per million points, %5.2f s, peak %4d MiB, %5.1f bytes a point", rep+1, o.reps, age.name, perMillion, c.wall.Seconds(), c.peak>>20, bytes)
			sec.Add(age.name+" hours, CPU", "tailscope", "CPU-s per million points", 2, perMillion)
			sec.Add(age.name+" hours, data directory", "tailscope", "bytes a point", 45, bytes)
			sec.Add(age.name+" hours, peak memory", "tailscope", "MB", 0, float64(c.peak)/1e6)
		}
	}
	return nil
}

// keptPoints holds what was stored against what was sent.
func keptPoints(ctx context.Context, dir string, l *load, processes int, form payload.HistogramForm, start, end time.Time) error {
	n, err := stored(ctx, dir, "http_server_request_duration_seconds", start, end)
	if err != nil {
		return err
	}
	want := uint64(l.items) * payload.ObservationsPerPoint
	least := want / 100 * 99
	if form.Cumulative { // each stream's first point is a baseline
		least -= uint64(processes) * payload.PointsPerRequest * payload.ObservationsPerPoint * 2
	}
	if n < least || n > want/100*101 {
		return fmt.Errorf("tailscope stored %d observations of about %d", n, want)
	}
	return nil
}
