package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"tailscope/benchmarks/mirror"
	"tailscope/benchmarks/report"
	"tailscope/test/program"
)

// mirrorSoak mirrors for long to a candidate that comes and goes, and fails where
// anything grows or is lost.
func mirrorSoak(ctx context.Context, o *options, r *report.Report) error {
	long := cmp.Or(o.long, 30*time.Minute)
	if o.quick {
		long = 20 * time.Second
	}
	sec := r.Section("A candidate that comes and goes", fmt.Sprintf(
		"GET and POST in turn at 1,000 requests a second for %s; the candidate answers, sleeps, never answers, resets, refuses and answers again, changing every two seconds. "+
			"Memory is resident, at the end of each tenth; goroutines are those of the whole process, its server and page included.", long))
	servers, err := mirror.StartServers(ctx, filepath.Join(o.tmp, "soak-servers"))
	if err != nil {
		return err
	}
	defer servers.Stop()
	bad, addr, err := program.StartFaulty(ctx, filepath.Join(o.tmp, "soak-faulty.log"), "flap")
	if err != nil {
		return err
	}
	defer bad.Kill()
	c, err := mirror.Tailscope()(ctx, filepath.Join(o.tmp, "soak"), servers.Primary, addr)
	if err != nil {
		return err
	}
	defer c.Stop()
	goroutines := func() (float64, error) {
		m, err := readMetrics(ctx, c.Page)
		return m["go_goroutines"], err
	}
	before, err := goroutines()
	if err != nil {
		return err
	}
	sec.Add("goroutines before", "tailscope", "", 0, before)
	requests := []mirror.Request{mirror.Get, mirror.Post}
	var clients []*mirror.Clients
	for _, req := range requests {
		cl, err := mirror.NewClients(c.Addr, req, 64)
		if err != nil {
			return err
		}
		defer cl.Close()
		clients = append(clients, cl)
	}
	const tenths = 10
	var sent, failed uint64
	var first float64
	for i := range tenths {
		for _, cl := range clients {
			res, err := cl.Open(ctx, 1000, long/tenths/2, uint64(i))
			if err != nil {
				return err
			}
			sent += res.Requests() + res.Errors
			failed += res.Errors
		}
		u, err := c.Process.Usage()
		if err != nil {
			return err
		}
		mb := float64(u.ResidentNow) / 1e6
		o.logf("soak %d/%d: %.0f MB resident, %d requests, %d failed", i+1, tenths, mb, sent, failed)
		target := 0.0
		if i == tenths/2 {
			first = mb
		} else if i == tenths-1 {
			target = 1.1 * first
		}
		sec.Add(fmt.Sprintf("memory after %d tenths", i+1), "tailscope", "MB", target, mb)
	}
	sec.Add("requests", "tailscope", "", 0, float64(sent))
	sec.Add("requests that failed", "tailscope", "", 0, float64(failed))
	if _, err := mirror.CheckAccount(ctx, c.Page); err != nil {
		return err
	}
	s, err := mirror.Session(ctx, c.Page)
	if err != nil {
		return err
	}
	// A client that breaks off may not be a request of the mirror's.
	sent += uint64(64 * len(requests)) // that opened the connections
	if s.Mirror.Requests < sent-failed || s.Mirror.Requests > sent {
		return fmt.Errorf("the mirror counts %d requests, %d were sent and %d of them failed", s.Mirror.Requests, sent, failed)
	}
	for _, t := range s.Mirror.Shadows {
		a := t.Account
		sec.Add("copies offered", "tailscope", "", 0, float64(a.Offered))
		sec.Add("of which answered", "tailscope", "", 0, float64(a.Answered))
		for cause, n := range a.Dropped {
			sec.Add("of which dropped: "+cause, "tailscope", "", 0, float64(n))
		}
		for cause, n := range a.Failed {
			sec.Add("of which failed: "+cause, "tailscope", "", 0, float64(n))
		}
	}
	for _, cl := range clients {
		cl.Close()
	}
	after := before
	for range 100 {
		if after, err = goroutines(); err != nil {
			return err
		}
		if after <= before+70 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	sec.Add("goroutines after", "tailscope", "", 0, after).Note = "one for each connection kept to the candidate, at most 64 of them, and to the page"
	return nil
}
