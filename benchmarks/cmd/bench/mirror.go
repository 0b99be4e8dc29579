package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tailscope/benchmarks/mirror"
	"tailscope/benchmarks/report"
)

// contenders take turns. Those that only pass on are the floor of what a proxy
// costs on this machine.
var contenders = []struct {
	name   string
	start  mirror.Starter
	mirror bool
	ours   bool
}{
	{"direct", mirror.Direct, false, false},
	{"nginx, no mirror", mirror.Nginx, false, false},
	{"nginx mirror", mirror.Nginx, true, false},
	{"net/http duplicator", mirror.Duplicator("net/http"), true, false},
	{"fasthttp duplicator", mirror.Duplicator("fasthttp"), true, false},
	{"tailscope, no mirror", mirror.Tailscope(), false, true},
	{"tailscope", mirror.Tailscope(), true, true},
}

// mirrorBench measures what a mirror costs, and what its clients notice.
func mirrorBench(ctx context.Context, o *options, r *report.Report) error {
	full, open := 5*time.Second, 10*time.Second
	if o.quick {
		full, open = time.Second, 2*time.Second
	}
	cost := r.Section("CPU of a mirrored request", fmt.Sprintf(
		"Clients on kept connections, each sending as soon as it is answered, for %s; primary and candidate are an nginx each. "+
			"CPU is user and system time of the whole process in between, also of Tailscope's store, its page, pairing and accounts. "+
			"The duplicators are the least that duplicates (benchmarks/peers/duplicator): they measure, pair and stream nothing. "+
			"25 µs are to be reached where nginx's mirror costs 69; the ratio to nginx's mirror holds on other machines.", full))
	calm := r.Section("What clients notice", fmt.Sprintf(
		"GET at 1,000 requests a second, due whether or not earlier ones are answered, on up to 64 connections for %s; latency from when each was due. "+
			"Added is the difference to no proxy in the same turn.", open))
	for rep := range o.reps {
		servers, err := mirror.StartServers(ctx, filepath.Join(o.tmp, fmt.Sprintf("servers%d", rep)))
		if err != nil {
			return err
		}
		err = mirrorTurn(ctx, o, servers, rep, full, open, cost, calm)
		servers.Stop()
		if err != nil {
			return err
		}
	}
	ratios(cost, "CPU-µs per request")
	return nil
}

func mirrorTurn(ctx context.Context, o *options, servers *mirror.Servers, rep int, full, open time.Duration, cost, calm *report.Section) error {
	var p50, p99 float64 // without a proxy
	for i, c := range contenders {
		if !o.wants(c.name) && i > 0 || !c.ours && i > 0 && !o.peers {
			continue
		}
		candidate := ""
		if c.mirror {
			candidate = servers.Candidate
		}
		dir := filepath.Join(o.tmp, fmt.Sprintf("mirror-%d-%d", rep, i))
		between, err := c.start(ctx, dir, servers.Primary, candidate)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		err = func() error {
			defer between.Stop()
			mirror.Closed(ctx, between.Addr, mirror.Get, 64, time.Second) // connections and caches
			if between.Process != nil {
				for _, req := range []mirror.Request{mirror.Get, mirror.Post} {
					for _, n := range []int{16, 64} {
						if err := spendOn(ctx, o, between, c.name, req, n, full, cost); err != nil {
							return err
						}
					}
				}
			}
			clients, err := mirror.NewClients(between.Addr, mirror.Get, 64)
			if err != nil {
				return err
			}
			defer clients.Close()
			res, err := clients.Open(ctx, 1000, open, uint64(rep+1))
			if err != nil {
				return err
			}
			if res.Errors > 0 {
				return fmt.Errorf("%d of %d requests failed: %v", res.Errors, res.Errors+res.Requests(), res.Why)
			}
			a, b := res.Latency.Quantile(0.5)*1e6, res.Latency.Quantile(0.99)*1e6
			if between.Process == nil {
				p50, p99 = a, b
			}
			target := 0.0
			if c.name == "tailscope" {
				target = 100
			}
			calm.Add("added p50", c.name, "µs", target, a-p50)
			calm.Add("added p99", c.name, "µs", 0, b-p99)
			calm.Add("p50", c.name, "µs", 0, a)
			calm.Add("p99", c.name, "µs", 0, b)
			o.logf("%d/%d %-22s at 1,000/s p50 %5.0f µs, p99 %6.0f µs", rep+1, o.reps, c.name, a, b)
			if c.ours && c.mirror {
				share, err := mirror.CheckAccount(ctx, between.Page)
				calm.Add("copies answered and paired, of all that were offered in this turn, full load included", c.name, "%", 0, 100*share)
				return err
			}
			return nil
		}()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// spendOn measures one cell.
func spendOn(ctx context.Context, o *options, c *mirror.Contender, name string, req mirror.Request, connections int, d time.Duration, sec *report.Section) error {
	before, err := c.Process.Usage()
	if err != nil {
		return err
	}
	res := mirror.Closed(ctx, c.Addr, req, connections, d)
	after, err := c.Process.Usage()
	if err != nil {
		return err
	}
	if res.Errors > 0 || res.Requests() == 0 {
		return fmt.Errorf("%s: %d of %d requests failed: %v", req.Name, res.Errors, res.Errors+res.Requests(), res.Why)
	}
	us := float64((after.CPU() - before.CPU()).Microseconds()) / float64(res.Requests())
	rate := float64(res.Requests()) / res.Elapsed.Seconds()
	target := 0.0
	if name == "tailscope" {
		target = 25
	}
	what := fmt.Sprintf("%s, %d connections", req.Name, connections)
	sec.Add(what, name, "CPU-µs per request", target, us)
	sec.Add(what, name, "requests/s", 0, rate)
	o.logf("  %-22s %-36s %6.1f CPU-µs per request, %6.0f/s", name, what, us, rate)
	return nil
}
