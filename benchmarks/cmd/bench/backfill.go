package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/test/payload"
	"tailscope/test/program"
	"tailscope/test/sender"
)

// backfillSpans is the number of spans of a case.
const backfillSpans = 2_000_000

// tenantsDay is the day that the page's questions are asked of.
const tenantsDay = "a day of 10,000 tenants"

// backfill measures spans that are sent long after they ended.
func backfill(ctx context.Context, o *options, r *report.Report) error {
	spans := backfillSpans
	if o.quick {
		spans /= 10
	}
	sec := r.Section("Old spans", fmt.Sprintf(
		"%d spans of one tenant, or of 10,000, of the traces of `traces`, sent as fast as they are taken by gRPC from 4 concurrent senders. "+
			"`a day` spreads them evenly over the 24 hours that end now: in order of time, or each request up to an hour later; "+
			"the others are as dense as %d spans/s. CPU is of the whole process until a minute after the last trace was broken down, its end included, without its start; "+
			"points are those written, of every resolution, the bytes are those of the store then, and of the whole data directory.",
		spans, payload.SpansPerSecond))
	dense := time.Duration(spans) * time.Second / payload.SpansPerSecond
	for _, c := range []struct {
		name     string
		lasts    time.Duration
		ago      time.Duration // their end
		shuffled time.Duration
		flags    []string
	}{
		{"a day in order", 24 * time.Hour, 0, 0, nil},
		{tenantsDay, 24 * time.Hour, 0, 0, nil},
		{"a day, breakdown off", 24 * time.Hour, 0, 0, []string{"--set", "traces.memory=0"}},
		{"a day shuffled by an hour", 24 * time.Hour, 0, time.Hour, nil},
		{"20 minutes ago", dense, 20 * time.Minute, 0, nil},
		{"2 days ago", dense, 48 * time.Hour, 0, nil},
	} {
		if !o.wants(c.name) {
			continue
		}
		for rep := range o.reps {
			o.logf("making %d spans of %s", spans, c.name)
			traces := spans / payload.ShopSpansPerTrace
			start := time.Now().Add(-c.ago - c.lasts)
			shop := payload.NewShop(uint64(rep+1), start)
			shop.Every = c.lasts / time.Duration(traces)
			if c.name != tenantsDay {
				shop.Tenant = "tenant-00000"
			}
			l := &load{method: sender.Traces, items: spans, workers: 4, payloads: shop.Requests(traces, true)}
			shuffle(l.payloads, float64(len(l.payloads))*c.shuffled.Seconds()/c.lasts.Seconds())
			broken := len(c.flags) == 0
			var m map[string]float64
			var used, all int64
			l.look = func(ctx context.Context, t *target) (err error) {
				if broken {
					if _, err := untilBrokenDown(ctx, t.url); err != nil {
						return err
					}
				}
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return ctx.Err()
				}
				if m, err = readMetrics(ctx, t.url); err != nil {
					return err
				}
				if c.name == tenantsDay {
					if err := askOfDay(ctx, sec, t, start, start.Add(c.lasts), o.reps); err != nil {
						return err
					}
				}
				if used, err = dirSize(filepath.Join(t.dir, "data", "store")); err != nil {
					return err
				}
				all, err = dirSize(filepath.Join(t.dir, "data"))
				return err
			}
			cost, dir, err := spend(ctx, o, startTailscope(ctx, append(c.flags, strings.Fields(o.flags)...)...), "gRPC", l, 0)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if _, err := counted(ctx, dir, start.Add(-time.Hour), start.Add(c.lasts+2*time.Hour), spans, 0); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			millions := float64(spans) / 1e6
			perMillion := (cost.cpu - cost.start).Seconds() / millions
			put, late, rolled := m["tailscope_store_points_total"], m["tailscope_store_points_late_total"], m["tailscope_store_points_rolled_up_total"]
			o.logf("%d/%d %-30s %6.2f CPU-s per million spans, %5.2f s; of %.0f points put, %.0f added late, %.0f rolled up, %.0f settled; %.1f MB of store, %.1f MB in all, peak %d MiB",
				rep+1, o.reps, c.name, perMillion, cost.wall.Seconds(), put, late, rolled, m["tailscope_store_points_settled_total"], float64(used)/1e6, float64(all)/1e6, cost.peak>>20)
			cpuGoal, bytesGoal := 0.0, 0.0
			if c.name == "a day in order" {
				cpuGoal, bytesGoal = 4, 75
			}
			sec.Add(c.name+", CPU", "tailscope", "CPU-s per million spans", cpuGoal, perMillion)
			sec.Add(c.name+", points", "tailscope", "a span", 0, (put+late+rolled)/float64(spans))
			sec.Add(c.name+", settled", "tailscope", "points a span", 0, m["tailscope_store_points_settled_total"]/float64(spans))
			sec.Add(c.name+", store", "tailscope", "bytes a span", bytesGoal, float64(used)/float64(spans))
			sec.Add(c.name+", data directory", "tailscope", "bytes a span", 0, float64(all)/float64(spans))
			if broken { // traces are closed early where they come faster than they are broken down
				sec.Add(c.name+", requests not broken down", "tailscope", "%", 0, 100-100*m["tailscope_trace_requests_total"]/float64(traces*payload.ShopRequestsPerTrace))
				sec.Add(c.name+", traces kept", "tailscope", "", 0, m["tailscope_store_traces"])
			}
			sec.Add(c.name+", peak memory", "tailscope", "MB", 0, float64(cost.peak)/1e6)
		}
	}
	return nil
}

// askOfDay asks what the page of a service asks of a day: where its requests' time went,
// and how the day's halves differ.
func askOfDay(ctx context.Context, sec *report.Section, t *target, start, end time.Time, reps int) error {
	p := &program.Tailscope{Process: t.proc, URL: t.url}
	at := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	noon := start.Add(end.Sub(start) / 2)
	for _, q := range []struct {
		name   string
		target float64 // ms
		path   string
		params url.Values
	}{
		{"breakdown of 24 h", 40, "/api/v1/breakdown", url.Values{"start": {at(start)}, "end": {at(end)}}},
		{"halves of 24 h compared", 150, "/api/v1/compare", url.Values{"a": {at(start) + "/" + at(noon)}, "b": {at(noon) + "/" + at(end)}}},
	} {
		q.params.Set("match", `{service="accounts"}`)
		if err := askTimes(ctx, sec, p, tenantsDay+", "+q.name, q.target, 5*reps, q.path, q.params, nil); err != nil {
			return err
		}
	}
	return nil
}

// shuffle moves each payload back by less than a number of places, at random.
func shuffle(payloads [][]byte, places float64) {
	rng := rand.New(rand.NewPCG(1, 0xbacf))
	type placed struct {
		at      float64
		payload []byte
	}
	list := make([]placed, len(payloads))
	for i, p := range payloads {
		list[i] = placed{float64(i) + places*rng.Float64(), p}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	for i := range list {
		payloads[i] = list[i].payload
	}
}
