package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"tailscope/benchmarks/report"
	"tailscope/internal/series"
	"tailscope/test/payload"
	"tailscope/test/sender"
)

// A spanmetrics connector emits every ten seconds; a run shorter than that
// would measure it without ever emitting.
const emitsWithin = 12 * time.Second

// ingest measures spans into distributions.
func ingest(ctx context.Context, o *options, r *report.Report) error {
	requests := 10_000 // two million spans
	if o.quick {
		requests /= 10
	}
	spans := requests * payload.SpansPerRequest
	lasts := time.Duration(spans) * time.Second / payload.SpansPerSecond
	l := &load{method: sender.Traces, path: "/v1/traces", items: spans, workers: 4, lasts: time.Duration(spans) * time.Second / pacedRate}

	sec := r.Section("Spans into distributions", fmt.Sprintf(
		"%d requests of %d spans (266 bytes a span; %s of traffic at %d spans/s, sent as fast as it is taken) from %d concurrent senders to a process of its own; "+
			"as many, of the moment at which they are sent, at %d a second where it says paced. "+
			"CPU is user and system time of the whole process, from its start to its end: for Tailscope with the journal of every request, "+
			"the breakdown of every trace, the flush of everything into the store, and the shutdown; `breakdown off` is the same program with `--set traces.memory=0`. The Collector keeps nothing; with spanmetrics it makes histograms of at most 160 buckets "+
			"by service, span name, kind, status and tenant, and emits them every 10 s into nothing; bare it decodes and drops.",
		requests, payload.SpansPerRequest, lasts, payload.SpansPerSecond, l.workers, pacedRate))
	type entrant struct {
		name    string
		start   func(string) (*target, error)
		alive   time.Duration
		targets map[string]float64 // CPU-seconds per million spans, by protocol; nil for a peer
	}
	further := strings.Fields(o.flags)
	entrants := []entrant{
		{"tailscope", startTailscope(ctx, further...), 0, map[string]float64{"gRPC": 1, "HTTP": 0.95, "HTTP gzip": 1.35, paced: 1.4}},
		{"tailscope breakdown off", startTailscope(ctx, append([]string{"--set", "traces.memory=0"}, further...)...), 0,
			map[string]float64{"gRPC": 0.45, "HTTP": 0.45, "HTTP gzip": 0.8, paced: 0.675}},
		{"collector spanmetrics", startCollector(ctx, "spanmetrics"), emitsWithin, nil},
		{"collector bare", startCollector(ctx, "bare"), 0, nil},
	}
	for rep := range o.reps {
		// Times of about now, as senders have them: what is late costs more.
		// Tailscope, which looks at times, goes first.
		o.logf("making %d requests of %d spans", requests, payload.SpansPerRequest)
		first := time.Now().Add(20 * time.Second)
		l.payloads = payload.TracesAt(1, requests, first)
		l.gzipped = compress(l.payloads)
		for _, e := range entrants {
			for _, protocol := range []string{"gRPC", "HTTP", "HTTP gzip", paced} {
				ours := e.targets != nil
				var m map[string]float64
				l.look = nil
				if ours {
					l.look = func(ctx context.Context, t *target) (err error) {
						m, err = untilBrokenDown(ctx, t.url)
						return err
					}
				}
				if !o.wants(e.name+" "+protocol) || (!ours && !o.peers) {
					continue
				}
				c, dir, err := spend(ctx, o, e.start, protocol, l, e.alive)
				if err != nil {
					return fmt.Errorf("%s by %s: %w", e.name, protocol, err)
				}
				if ours {
					start, end := first.Add(-time.Minute), first.Add(lasts+time.Minute)
					if protocol == paced {
						start, end = time.Now().Add(-time.Hour), time.Now()
					}
					n, err := stored(ctx, dir, series.SpanDuration, start, end)
					if err != nil {
						return err
					}
					if n != uint64(c.items) {
						return fmt.Errorf("tailscope stored %d spans of %d", n, c.items)
					}
				}
				if err := os.RemoveAll(dir); err != nil {
					return err
				}
				perMillion := c.cpu.Seconds() / float64(c.items) * 1e6
				o.logf("%d/%d %-23s %-9s %6.3f CPU-s per million spans, %5.2f s, peak %4d MiB, %d retries", rep+1, o.reps, e.name, protocol, perMillion, c.wall.Seconds(), c.peak>>20, c.retries)
				target, peak := 0.0, 0.0
				if ours {
					target, peak = e.targets[protocol], 300
					sec.Add(protocol+", traces left out", e.name, "", 0, m["tailscope_traces_left_out_total"])
					sec.Add(protocol+", traces closed early", e.name, "", 0, m["tailscope_traces_closed_early_total"])
				}
				sec.Add(protocol+", CPU", e.name, "CPU-s per million spans", target, perMillion)
				sec.Add(protocol+", of which at start", e.name, "CPU-s", 0, c.start.Seconds())
				sec.Add(protocol+", of which after the last span", e.name, "CPU-s", 0, c.stop.Seconds())
				sec.Add(protocol+", peak memory", e.name, "MB", peak, float64(c.peak)/1e6)
				sec.Add(protocol+", throughput", e.name, "spans/s", 0, float64(c.items)/c.wall.Seconds())
			}
		}
	}
	ratios(sec, "CPU-s per million spans")
	return nil
}

// ratios notes how many times as much each peer spends as Tailscope.
func ratios(sec *report.Section, unit string) {
	for _, f := range sec.Figures {
		if f.Unit != unit || f.Who != "tailscope" {
			continue
		}
		var parts []string
		for _, p := range sec.Figures {
			if p.What == f.What && p.Unit == unit && p != f {
				parts = append(parts, fmt.Sprintf("%s spends %.1f times as much", p.Who, p.Median()/f.Median()))
			}
		}
		f.Note = strings.Join(parts, "; ")
	}
}

// compress packs payloads as an SDK would.
func compress(payloads [][]byte) [][]byte {
	out := make([][]byte, len(payloads))
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.NumCPU() {
		wg.Go(func() {
			var buf bytes.Buffer
			w := gzip.NewWriter(&buf)
			for i := range next {
				buf.Reset()
				w.Reset(&buf)
				_, _ = w.Write(payloads[i]) // a bytes.Buffer takes everything
				_ = w.Close()
				out[i] = bytes.Clone(buf.Bytes())
			}
		})
	}
	for i := range payloads {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}
