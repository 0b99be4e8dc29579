package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/benchmarks/report"
	"tailscope/internal/series"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// servers measures what spans cost servers that share one ClickHouse, beside one with the
// embedded store.
func servers(ctx context.Context, o *options, r *report.Report) error {
	lasts := 50 * time.Second
	if o.quick {
		lasts /= 5
	}
	sec := r.Section("Servers that share a store", fmt.Sprintf(
		"Each server is sent %d spans a second of about now by gRPC for %s, by one sender, at the same time. CPU is user and system time of a server from its start to its end, "+
			"everything stored, per million spans that it took; ClickHouse's (Debian's, on this machine, files in memory) is apart. "+
			"What is stored at the end is counted and must be what was sent. Whole: every setting at its default, with the breakdown; "+
			"`breakdown off` is `--set traces.memory=0`. Two servers take 1.9 times as much as one if they spend at most 1/0.95 of its CPU time on a span.",
		pacedRate, lasts))
	for rep := range o.reps {
		for _, on := range []struct {
			name            string
			shards, servers int
		}{{"embedded", 0, 1}, {"ClickHouse, 1 node, 1 server", 1, 1}, {"ClickHouse, 1 node, 2 servers", 1, 2}, {"ClickHouse, 3 shards, 1 server", 3, 1}, {"ClickHouse, 3 shards, 2 servers", 3, 2}} {
			for _, of := range []struct {
				name string
				args []string
			}{{"breakdown off", []string{"--set", "traces.memory=0"}}, {"whole", nil}} {
				if !o.wants(on.name + ", " + of.name) {
					continue
				}
				c, err := spendOnServers(ctx, o, on.shards, on.servers, lasts, of.args)
				if errors.Is(err, exec.ErrNotFound) {
					o.logf("%s is left out: %v", on.name, err)
					continue
				}
				if err != nil {
					return fmt.Errorf("%s, %s: %w", on.name, of.name, err)
				}
				o.logf("%d/%d %-32s %-14s %6.3f CPU-s per million spans, %6.3f of ClickHouse, %d retries", rep+1, o.reps, on.name, of.name, c.server, c.clickHouse, c.retries)
				sec.Add(of.name+", a server", on.name, "CPU-s per million spans", 0, c.server)
				sec.Add(of.name+", sent", on.name, "spans/s to each", 0, c.rate)
				if on.shards > 0 {
					sec.Add(of.name+", ClickHouse", on.name, "CPU-s per million spans", 0, c.clickHouse)
				}
			}
		}
	}
	for _, of := range []string{"breakdown off", "whole"} {
		for _, shards := range []string{"1 node", "3 shards"} {
			one, two := sec.Median(of+", a server", "ClickHouse, "+shards+", 1 server"), sec.Median(of+", a server", "ClickHouse, "+shards+", 2 servers")
			if one == 0 || two == 0 {
				continue
			}
			sec.Add(of+", CPU time of two servers beside that of one", "ClickHouse, "+shards, "times", 1/0.95, two/one)
			if embedded := sec.Median(of+", a server", "embedded"); embedded > 0 {
				sec.Add(of+", CPU time of one server beside the embedded store's", "ClickHouse, "+shards, "times", 1.1, one/embedded)
			}
		}
	}
	return nil
}

// serversCost is in CPU-seconds per million spans.
type serversCost struct {
	server, clickHouse float64
	rate               float64 // spans a second that were sent to each server
	retries            int
}

// spendOnServers runs so many servers on a ClickHouse of so many shards, 0 being the embedded
// store, sends spans to all of them, ends them, and counts what is stored.
func spendOnServers(ctx context.Context, o *options, shards, count int, lasts time.Duration, args []string) (c serversCost, err error) {
	dir, err := os.MkdirTemp(o.tmp, "servers-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(dir)
	var nodes *program.ClickHouse
	if shards > 0 {
		if nodes, err = program.StartClickHouse(ctx, shards); err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, nodes.Close()) }()
		args = append([]string{"--store", nodes.Address("bench")}, args...)
	}
	running := make([]*program.Tailscope, count)
	for i := range running {
		if running[i], err = program.StartTailscope(ctx, filepath.Join(dir, fmt.Sprint(i)), args...); err != nil {
			return c, err
		}
		defer running[i].Kill()
	}
	before, err := cpuOf(nodes)
	if err != nil {
		return c, err
	}
	begin := time.Now()
	sent, retries := make([]int, count), make([]int, count)
	g, sending := errgroup.WithContext(ctx)
	for i, p := range running {
		g.Go(func() error {
			s, err := sender.GRPC(p.OTLPGRPC, sender.Traces)
			if err != nil {
				return err
			}
			defer s.Close()
			sent[i], retries[i], err = sendPaced(sending, s, uint64(i)<<32, lasts, func(int) error { return nil })
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return c, err
	}
	stopping, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var spent time.Duration
	all := 0
	for i, p := range running {
		u, err := p.Stop(stopping)
		if err != nil {
			return c, fmt.Errorf("%w\n%s", err, p.Log())
		}
		spent += u.CPU()
		all += sent[i]
		c.retries += retries[i]
	}
	after, err := cpuOf(nodes)
	if err != nil {
		return c, err
	}
	again, err := program.StartTailscope(ctx, filepath.Join(dir, "0"), args...)
	if err != nil {
		return c, err
	}
	defer again.Kill()
	n, err := observations(ctx, again.URL, series.SpanDuration, begin.Add(-time.Minute), time.Now().Add(time.Minute))
	if err != nil {
		return c, err
	}
	if n != uint64(all) {
		return c, fmt.Errorf("%d spans of %d are stored", n, all)
	}
	per := 1e6 / float64(all)
	c.rate = float64(all) / float64(count) / lasts.Seconds()
	c.server, c.clickHouse = spent.Seconds()*per, (after-before).Seconds()*per
	return c, nil
}
