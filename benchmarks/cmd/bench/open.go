package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// openTraces holds 100,000 traces open, then sends spans of traces that never
// end, and looks at the memory; what is sent between must go on being counted.
func openTraces(ctx context.Context, o *options, r *report.Report, mib int) error {
	scale := 1
	if o.quick {
		scale = 10
	}
	open, endless, whole := 100_000/scale, 1_000, 10_000/scale
	sec := r.Section(fmt.Sprintf("Traces that do not end, in %d MiB", mib), fmt.Sprintf(
		"One process with `traces.memory` %d MiB. First %d traces of %d spans whose roots do not come; then %d spans of %d traces that go on and on; "+
			"then %d whole traces, while all of that is still open. Each is sent as fast as it is taken. The accounting is the assembler's own "+
			"(`tailscope_trace_bytes`), read every 50 ms; resident memory is the whole process, with everything else it holds. "+
			"The run fails unless every span is counted in the end.",
		mib, open, payload.ShopSpansPerTrace-1, open*(payload.ShopSpansPerTrace-1), endless, whole))
	dir, err := os.MkdirTemp(o.tmp, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := program.StartTailscope(ctx, dir+"/data", "--set", fmt.Sprintf("traces.memory=%dMiB", mib))
	if err != nil {
		return err
	}
	defer p.Kill()
	s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
	if err != nil {
		return err
	}
	defer s.Close()
	w := watch(ctx, p)
	defer w.stop()

	begin := time.Now()
	headless := payload.NewShop(1, begin)
	headless.Headless = true
	forever := payload.NewShop(2, begin)
	forever.Headless, forever.Endless = true, endless
	spans := 0
	for _, phase := range []struct {
		name  string
		shop  *payload.Shop
		n     int
		spans int
	}{
		{fmt.Sprintf("%d traces open", open), headless, open, payload.ShopSpansPerTrace - 1},
		{"roots that never end", forever, open, payload.ShopSpansPerTrace - 1},
		{"whole traces beside them", payload.NewShop(3, begin), whole, payload.ShopSpansPerTrace},
	} {
		requests := phase.shop.Requests(phase.n, true)
		w.reset()
		took, retries, err := sender.All(ctx, s, requests, 4, wishesRetry)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", phase.name, err, p.Log())
		}
		select { // until a sweep or two have looked at it
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		most, last, err := w.seen()
		if err != nil {
			return err
		}
		u, err := p.Usage()
		if err != nil {
			return err
		}
		spans += phase.n * phase.spans
		o.logf("%s: %.0f open, %.1f MB of traces at most, %d MB resident, %d retries", phase.name,
			most["tailscope_traces_open"], most["tailscope_trace_bytes"]/1e6, u.ResidentNow/1e6, retries)
		add := func(what, unit string, target, v float64) {
			sec.Add(phase.name+": "+what, "tailscope", unit, target, v)
		}
		add("accounted, at most", "MB", float64(mib<<20)/1e6, most["tailscope_trace_bytes"]/1e6)
		add("open, at most", "traces", 0, most["tailscope_traces_open"])
		add("left out since the start", "traces", 0, last["tailscope_traces_left_out_total"])
		add("closed early since the start", "traces", 0, last["tailscope_traces_closed_early_total"])
		add("resident", "MB", 0, float64(u.ResidentNow)/1e6)
		add("throughput", "spans/s", 0, float64(phase.n*phase.spans)/took.Seconds())
	}
	w.stop()
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	u, err := p.Stop(stopping)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	sec.Add("peak resident memory of it all", "tailscope", "MB", 0, float64(u.PeakBytes)/1e6)
	sec.Add("CPU of it all", "tailscope", "CPU-s per million spans", 0, u.CPU().Seconds()/float64(spans)*1e6)
	_, err = counted(ctx, dir, begin.Add(-time.Minute), begin.Add(5*time.Minute), spans, 0)
	return err
}

// watcher reads Tailscope's own metrics again and again.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu         sync.Mutex
	most, last map[string]float64
	err        error
}

func watch(ctx context.Context, p *program.Tailscope) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{cancel: cancel, done: make(chan struct{}), most: map[string]float64{}}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			m, err := readMetrics(ctx, p.URL)
			if ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			w.last, w.err = m, err
			for k, v := range m {
				w.most[k] = max(w.most[k], v)
			}
			w.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// reset forgets the greatest values.
func (w *watcher) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.most)
}

// seen returns the greatest values since reset and the last.
func (w *watcher) seen() (most, last map[string]float64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	most = map[string]float64{}
	for k, v := range w.most {
		most[k] = v
	}
	return most, w.last, w.err
}

// stop may be called more than once.
func (w *watcher) stop() {
	w.cancel()
	<-w.done
}
