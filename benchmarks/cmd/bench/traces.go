package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/internal/series"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// assembly measures traces put together, broken down and kept.
func assembly(ctx context.Context, o *options, r *report.Report) error {
	if o.only != "open" {
		if err := assembleAll(ctx, o, r); err != nil {
			return err
		}
	}
	if !o.wants("open") {
		return nil
	}
	for _, mib := range []int{128, 256} { // the default, and what 100,000 such traces take
		if err := openTraces(ctx, o, r, mib); err != nil {
			return err
		}
	}
	return nil
}

// settled is the least life of a program: ten seconds of waiting for a trace's last
// spans, ten of waiting for the next flush, and a moment.
const settled = 24 * time.Second

func assembleAll(ctx context.Context, o *options, r *report.Report) error {
	traces := 100_000
	if o.quick {
		traces /= 10
	}
	spans := traces * payload.ShopSpansPerTrace
	lasts := time.Duration(spans) * time.Second / payload.SpansPerSecond
	sec := r.Section("Spans into traces", fmt.Sprintf(
		"%d traces of %d spans in three services, %d of them requests; two calls at once, databases, a cache, another company's service; "+
			"exported by nine processes in requests of 200 spans, so that a trace arrives in three of them (279 bytes a span; %s of traffic at %d spans/s, "+
			"sent as fast as it is taken by gRPC from 4 concurrent senders). CPU is user and system time of the whole process, from its start to its end, "+
			"at least %s of life in which every trace is closed; for Tailscope with the journal, the distributions, the breakdown of every request, "+
			"the kept traces and the flush of everything into the store. `off` is the same program with `--set traces.memory=0`. "+
			"The Collector keeps nothing and works out no times: with groupbytrace it holds each trace for 10 s and makes spanmetrics of whole traces, "+
			"with tail sampling it makes spanmetrics and, beside them, holds each trace for 10 s to choose the slow and the failed.",
		traces, payload.ShopSpansPerTrace, payload.ShopRequestsPerTrace, lasts, payload.SpansPerSecond, settled))
	entrants := []struct {
		name  string
		start func(string) (*target, error)
		ours  bool
	}{
		{"tailscope", startTailscope(ctx), true},
		{"tailscope off", startTailscope(ctx, "--set", "traces.memory=0"), true},
		{"collector groupbytrace", startCollector(ctx, "assembling"), false},
		{"collector tail sampling", startCollector(ctx, "sampling"), false},
	}
	for rep := range o.reps {
		var l *load
		var first time.Time
		for _, e := range entrants {
			if !o.wants(e.name) || !e.ours && !o.peers {
				continue
			}
			broken := e.name == "tailscope"
			if l == nil || e.ours { // which looks at times: they are to be of about now
				o.logf("making %d traces", traces)
				first = time.Now().Add(10 * time.Second)
				l = &load{method: sender.Traces, items: spans, workers: 4, payloads: payload.NewShop(uint64(rep+1), first).Requests(traces, true)}
			}
			m := map[string]float64{}
			l.look = nil
			if broken {
				l.look = func(ctx context.Context, t *target) (err error) {
					m, err = untilBrokenDown(ctx, t.url)
					return err
				}
			}
			c, dir, err := spend(ctx, o, e.start, "gRPC", l, settled)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			if e.ours {
				requests := 0
				// Where a trace was closed too early its requests may be cut up, and where traces were
				// left out others count for them, about.
				if broken && m["tailscope_trace_spans_late_total"]+m["tailscope_traces_left_out_total"] == 0 {
					requests = traces * payload.ShopRequestsPerTrace
				}
				kept, err := counted(ctx, dir, first.Add(-time.Minute), first.Add(lasts+time.Minute), spans, requests)
				if err != nil {
					return err
				}
				m["kept"] = kept
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			perMillion := c.cpu.Seconds() / float64(spans) * 1e6
			o.logf("%d/%d %-24s %6.3f CPU-s per million spans, %5.2f s, peak %4d MiB, %d retries", rep+1, o.reps, e.name, perMillion, c.wall.Seconds(), c.peak>>20, c.retries)
			target := 0.0
			if broken {
				target = 1.2
			}
			sec.Add("CPU", e.name, "CPU-s per million spans", target, perMillion)
			sec.Add("of which after the traces were closed", e.name, "CPU-s", 0, c.stop.Seconds())
			sec.Add("peak memory", e.name, "MB", 0, float64(c.peak)/1e6)
			sec.Add("throughput", e.name, "spans/s", 0, float64(spans)/c.wall.Seconds())
			if broken {
				for _, x := range []struct{ what, metric string }{
					{"traces closed", "tailscope_traces_closed_total"}, {"of which early, for want of memory", "tailscope_traces_closed_early_total"},
					{"traces left out for want of memory", "tailscope_traces_left_out_total"},
					{"spans that came after their trace was closed", "tailscope_trace_spans_late_total"},
					{"requests broken down", "tailscope_trace_requests_total"}, {"traces kept", "kept"},
				} {
					sec.Add(x.what, e.name, "", 0, m[x.metric])
				}
			}
		}
	}
	ratios(sec, "CPU-s per million spans")
	return nil
}

// counted fails unless a run has left so many spans, and so many requests
// broken down if that is not 0; it returns how many traces are kept.
func counted(ctx context.Context, dir string, from, to time.Time, spans, requests int) (kept float64, err error) {
	p, err := program.StartTailscope(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return 0, err
	}
	defer p.Kill()
	for _, w := range []struct {
		family string
		want   int
	}{{series.SpanDuration, spans}, {series.BreakdownRequests, requests}} {
		if w.want == 0 {
			continue
		}
		n, err := observations(ctx, p.URL, w.family, from, to)
		if err != nil {
			return 0, err
		}
		if n != uint64(w.want) {
			return 0, fmt.Errorf("tailscope stored %d of %d in %s", n, w.want, w.family)
		}
	}
	m, err := readMetrics(ctx, p.URL)
	return m["tailscope_store_traces"], err
}

// untilBrokenDown waits until no trace is open, and returns what Tailscope says of itself
// then. A server that is stopped earlier drops what it has no time to break down, and costs
// less than it should.
func untilBrokenDown(ctx context.Context, url string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		m, err := readMetrics(ctx, url)
		if err != nil || m["tailscope_traces_open"] == 0 {
			return m, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, fmt.Errorf("%.0f traces are open: %w", m["tailscope_traces_open"], ctx.Err())
		}
	}
}

// readMetrics reads what Tailscope says of itself, by name; of one with labels
// the sum.
func readMetrics(ctx context.Context, url string) (map[string]float64, error) {
	body, err := askRaw(ctx, url, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for s := bufio.NewScanner(bytes.NewReader(body)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), " ")
		if i := strings.LastIndexByte(s.Text(), '}'); i >= 0 {
			name, value, ok = s.Text()[:strings.IndexByte(s.Text(), '{')], strings.TrimSpace(s.Text()[i+1:]), true
		}
		v, err := strconv.ParseFloat(value, 64)
		if !ok || strings.HasPrefix(name, "#") || err != nil {
			continue
		}
		out[name] += v
	}
	return out, nil
}
