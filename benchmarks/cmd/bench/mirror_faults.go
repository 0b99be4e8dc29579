package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/benchmarks/mirror"
	"tailscope/benchmarks/report"
	"tailscope/hist"
	"tailscope/test/program"
)

// misbehaving are the candidates that a primary must not notice.
var misbehaving = []string{"sleep", "refuse", "hang", "reset", "reset-at-once", "reset-request", "slowloris", "endless", "early", "garbage", "closes", "flap"}

// faultRounds is the number of measurements of all sides, taking turns.
const faultRounds = 8

// The sides of a measurement: two mirrors without a candidate tell what the difference of
// two that are alike comes to.
const (
	with = iota
	without
	again
	sides
)

// mirrorFaults measures what clients notice of a candidate that misbehaves.
func mirrorFaults(ctx context.Context, o *options, r *report.Report) error {
	block, n := 1500*time.Millisecond, faultRounds
	if o.quick {
		block, n = 500*time.Millisecond, 3
	}
	sec := r.Section("A candidate that misbehaves", fmt.Sprintf(
		"GET at 1,000 requests a second through three mirrors of the same primary, one with the misbehaving candidate and two with none: %d rounds, each of two blocks of %s "+
			"through each, taking turns in an order by chance and then in the reverse of it. A ratio is of the p99 (and p50) over that of the first mirror without a candidate; its interval is Student's at 95 %% over the logarithms of the rounds. "+
			"A/A is the ratio of the two without. nginx's mirror has the same candidate, two blocks.", n, block))
	servers, err := mirror.StartServers(ctx, filepath.Join(o.tmp, "fault-servers"))
	if err != nil {
		return err
	}
	defer servers.Stop()
	for _, fault := range misbehaving {
		if !o.wants(fault) {
			continue
		}
		if err := oneFault(ctx, o, sec, servers.Primary, fault, n, block); err != nil {
			return fmt.Errorf("%s: %w", fault, err)
		}
	}
	return nil
}

func oneFault(ctx context.Context, o *options, sec *report.Section, primary, fault string, n int, block time.Duration) error {
	bad, addr, err := program.StartFaulty(ctx, filepath.Join(o.tmp, fault+".log"), fault)
	if err != nil {
		return err
	}
	defer bad.Kill()
	var mirrors [sides]*mirror.Contender
	var clients [sides]*mirror.Clients
	for side := range sides {
		candidate := ""
		if side == with {
			candidate = addr
		}
		m, err := mirror.Tailscope()(ctx, filepath.Join(o.tmp, fmt.Sprintf("%s-%d", fault, side)), primary, candidate)
		if err != nil {
			return err
		}
		defer m.Stop()
		mirror.Closed(ctx, m.Addr, mirror.Get, 64, time.Second) // connections and caches
		c, err := mirror.NewClients(m.Addr, mirror.Get, 64)
		if err != nil {
			return err
		}
		defer c.Close()
		mirrors[side], clients[side] = m, c
	}
	rnd := rand.New(rand.NewPCG(uint64(len(fault)), 5))
	seed := uint64(0)
	var logs [sides]struct{ p50, p99 []float64 } // of ratios over without
	var errors [sides]uint64
	for range n {
		var res [sides]*mirror.Result
		for side := range sides {
			res[side] = mirror.NewResult()
		}
		order := rnd.Perm(sides)
		for i := range 2 * sides {
			side := order[min(i, 2*sides-1-i)]
			seed++
			got, err := clients[side].Open(ctx, 1000, block, seed)
			if err != nil {
				return err
			}
			res[side].Add(got)
		}
		for side := range sides {
			logs[side].p50 = append(logs[side].p50, logRatio(res[side].Latency, res[without].Latency, 0.5))
			logs[side].p99 = append(logs[side].p99, logRatio(res[side].Latency, res[without].Latency, 0.99))
			errors[side] += res[side].Errors
		}
	}
	for _, q := range []struct {
		side   int
		what   string
		logs   []float64
		target float64
	}{{with, "p99", logs[with].p99, 1.05}, {again, "p99, A/A", logs[again].p99, 0}, {with, "p50", logs[with].p50, 0}, {again, "p50, A/A", logs[again].p50, 0}} {
		mid, low, high := studentLogs(q.logs)
		sec.Add(fault+": "+q.what+", upper end", "tailscope", "ratio", q.target, high).Note = fmt.Sprintf("%.3f (%.3f to %.3f)", mid, low, high)
		o.logf("%-14s %-8s %.3f (%.3f to %.3f)", fault, q.what, mid, low, high)
	}
	sec.Add(fault+": errors with", "tailscope", "", 0, float64(errors[with]))
	sec.Add(fault+": errors without", "tailscope", "", 0, float64(errors[without]+errors[again]))
	if _, err := mirror.CheckAccount(ctx, mirrors[with].Page); err != nil {
		return err
	}
	if !o.peers {
		return nil
	}
	ng, err := mirror.Nginx(ctx, filepath.Join(o.tmp, fault+"-nginx"), primary, addr)
	if err != nil {
		return err
	}
	defer ng.Stop()
	res := mirror.NewResult()
	for range 2 {
		cold, err := mirror.Open(ctx, ng.Addr, mirror.Get, 64, 1000, 2*time.Second)
		if err != nil {
			return err
		}
		res.Add(cold)
	}
	sec.Add(fault+": errors of requests, %", "nginx mirror", "%", 0, 100*float64(res.Errors)/float64(res.Errors+res.Requests()))
	sec.Add(fault+": p99", "nginx mirror", "ms", 0, 1000*res.Latency.Quantile(0.99))
	return nil
}

func logRatio(a, b *hist.Histogram, q float64) float64 {
	return math.Log(a.Quantile(q) / b.Quantile(q))
}

// studentLogs returns the geometric mean of ratios given by their logarithms, with
// its interval at 95 %.
func studentLogs(logs []float64) (mid, low, high float64) {
	mean, sd := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * sd / math.Sqrt(n)
	return math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)
}
