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
var misbehaving = []string{"sleep", "refuse", "hang", "reset", "slowloris", "endless", "garbage"}

// pairs is the number of measurements with and without, taking turns.
const pairs = 10

// mirrorFaults measures what clients notice of a candidate that misbehaves.
func mirrorFaults(ctx context.Context, o *options, r *report.Report) error {
	block, n := 1500*time.Millisecond, pairs
	if o.quick {
		block, n = 500*time.Millisecond, 3
	}
	sec := r.Section("A candidate that misbehaves", fmt.Sprintf(
		"GET at 1,000 requests a second through two mirrors of the same primary, one with the misbehaving candidate and one with none: %d pairs, each of four blocks of %s "+
			"with and four without, taking turns, who begins by chance. The ratio is of the p99 (and p50) with over without; its interval is Student's at 95 %% over the logarithms of the pairs. "+
			"nginx's mirror has the same candidate, two blocks.", n, block))
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
	with, err := mirror.Tailscope()(ctx, filepath.Join(o.tmp, fault+"-with"), primary, addr)
	if err != nil {
		return err
	}
	defer with.Stop()
	without, err := mirror.Tailscope()(ctx, filepath.Join(o.tmp, fault+"-without"), primary, "")
	if err != nil {
		return err
	}
	defer without.Stop()
	side := map[bool]*mirror.Clients{}
	for w, c := range map[bool]*mirror.Contender{true: with, false: without} {
		mirror.Closed(ctx, c.Addr, mirror.Get, 64, time.Second) // connections and caches
		if side[w], err = mirror.NewClients(c.Addr, mirror.Get, 64); err != nil {
			return err
		}
		defer side[w].Close()
	}
	seed := uint64(0)
	measure := func(c *mirror.Clients, into *mirror.Result) error {
		seed++
		res, err := c.Open(ctx, 1000, block, seed)
		if err != nil {
			return err
		}
		into.Add(res)
		return nil
	}
	rnd := rand.New(rand.NewPCG(uint64(len(fault)), 5))
	var p50, p99 []float64
	var errors [2]uint64
	for range n {
		res := map[bool]*mirror.Result{true: mirror.NewResult(), false: mirror.NewResult()}
		first := rnd.IntN(2) == 0
		for i := range 8 {
			w := first != (i%4 == 1 || i%4 == 2) // first, other, other, first
			if err := measure(side[w], res[w]); err != nil {
				return err
			}
		}
		p50 = append(p50, logRatio(res[true].Latency, res[false].Latency, 0.5))
		p99 = append(p99, logRatio(res[true].Latency, res[false].Latency, 0.99))
		errors[0] += res[true].Errors
		errors[1] += res[false].Errors
	}
	for _, q := range []struct {
		what   string
		logs   []float64
		target float64
	}{{"p99", p99, 1.1}, {"p50", p50, 0}} {
		mid, low, high := studentLogs(q.logs)
		sec.Add(fault+": "+q.what+" with / without, upper end", "tailscope", "ratio", q.target, high).Note = fmt.Sprintf("%.3f (%.3f to %.3f)", mid, low, high)
		o.logf("%-10s %s with / without %.3f (%.3f to %.3f)", fault, q.what, mid, low, high)
	}
	sec.Add(fault+": errors with", "tailscope", "", 0, float64(errors[0]))
	sec.Add(fault+": errors without", "tailscope", "", 0, float64(errors[1]))
	if _, err := mirror.CheckAccount(ctx, with.Page); err != nil {
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
