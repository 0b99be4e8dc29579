package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	generators "tailscope/benchmarks/load"
	"tailscope/benchmarks/report"
)

// loadBench measures what sending load costs, beside others that do.
func loadBench(ctx context.Context, o *options, r *report.Report) error {
	stretch := 5 * time.Second
	if o.quick {
		stretch = 2 * time.Second
	}
	for _, p := range []generators.Protocol{generators.Plain, generators.TLS, generators.HTTP2TLS, generators.HTTP2} {
		if !slices.ContainsFunc(generators.Senders(), func(s generators.Sender) bool { return o.wants(string(p) + ", " + s.Name) }) {
			continue
		}
		t, err := generators.StartTarget(ctx, filepath.Join(o.tmp, "target-"+fmt.Sprint(len(r.Sections))), p)
		if err != nil {
			return err
		}
		err = turns(ctx, o, r, t, stretch)
		t.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// sleeping is whose cost is the least of whoever sends requests one by one.
const sleeping = "a thread that sleeps"

// loadRates are the fixed rates, in requests a second. loadTargets are the µs of CPU to
// reach at a rate, 0 as fast as it goes.
var (
	loadRates   = []int{1000, 5000, 20000}
	loadTargets = map[int]float64{0: 9, 5000: 17}
)

func turns(ctx context.Context, o *options, r *report.Report, t *generators.Target, stretch time.Duration) error {
	full := r.Section(string(t.Protocol)+", as fast as the target answers", fmt.Sprintf(
		"%d connections are kept, or streams of as few connections as the sender has for them; each sends its next request when it has its answer. "+
			"The target is an nginx of one process, which counts the requests; CPU is user and system time of the sender's process, "+
			"both over %s in the middle of its run. Tailscope counts every request's latency from when it was due meanwhile, and keeps the distributions.", generators.Connections, stretch))
	sections := map[int]*report.Section{0: full}
	for _, rate := range loadRates {
		sections[rate] = r.Section(fmt.Sprintf("%s, %d requests a second", t.Protocol, rate),
			"As above, at a fixed rate. Some hold it with workers that have a rate each, and latency from when a worker sends.")
	}
	for rep := range o.reps {
		if t.Protocol == generators.Plain && o.wants(sleeping) {
			for _, rate := range loadRates {
				cost, err := generators.SleepCost(time.Second/time.Duration(rate), rate)
				if err != nil && !errors.Is(err, generators.ErrCannot) {
					return err
				}
				if err == nil {
					sections[rate].Add("CPU of a sleep until the next, and of nothing else", sleeping, "µs", 0, float64(cost.Nanoseconds())/1e3)
				}
			}
		}
		for i, s := range generators.Senders() {
			if !o.wants(string(t.Protocol)+", "+s.Name) || i > 0 && !o.peers {
				continue
			}
			for _, at := range append([]int{0}, loadRates...) {
				dir := filepath.Join(o.tmp, fmt.Sprintf("sender-%d-%d-%d-%d", len(r.Sections), rep, i, at))
				speed, err := s.Measure(ctx, t, at, stretch, dir)
				switch {
				case errors.Is(err, generators.ErrCannot):
					continue
				case err != nil && i > 0 && ctx.Err() == nil:
					o.logf("%s is left out: %v", s.Name, err)
					continue
				case err != nil:
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				target := 0.0
				if s.Name == "tailscope" && t.Protocol == generators.Plain {
					target = loadTargets[at]
				}
				section := sections[at]
				µs := float64(speed.CPU.Nanoseconds()) / 1e3
				section.Add("CPU of a request", s.Name, "µs", target, µs)
				section.Add("requests", s.Name, "a second", 0, speed.Rate)
				o.logf("%d/%d %-22s %-10s asked %5d/s: %6.0f/s, %5.2f µs", rep+1, o.reps, t.Protocol, s.Name, at, speed.Rate, µs)
			}
		}
	}
	for _, s := range sections {
		slices.SortStableFunc(s.Figures, func(a, b *report.Figure) int {
			if a.What == b.What {
				return 0
			}
			if a.What == "CPU of a request" {
				return -1
			}
			return 1
		})
	}
	return nil
}
