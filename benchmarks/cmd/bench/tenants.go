package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/report"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/test/program"
)

// The load of the tenants' table: some tenants in a thousand send most of it.
const (
	listedTenants    = 10_000
	tenantRequests   = 2_000 // a slot
	tenantTemplates  = 200
	tenantOperations = 4
	slowEvery        = 25 // of so many tenants one has slow requests, 1 in 20
)

// tenantsBench measures the table of tenants over HTTP: read anew, and in
// another order, search or page of what was read within a minute.
func tenantsBench(ctx context.Context, o *options, r *report.Report) error {
	whole, fine := 24*time.Hour, 6*time.Hour
	if o.quick {
		whole, fine = 7*time.Hour, time.Hour
	}
	data, f, err := filledOnce(o, "tenants", func(dir string) (filled, error) { return fillTenants(ctx, o, dir, whole, fine) })
	if err != nil {
		return err
	}
	sec := r.Section("10,000 tenants", fmt.Sprintf(
		"%d requests a slot of 10 s by Zipf's law over %d tenants and %d operations, drawn from %d templates: the last %s whole, before that one slot a minute; %d points of tenants in %d series. "+
			"A client's wall time for `tailscope serve` to answer GET /api/v1/tenants over HTTP, a page of 50, JSON included. Read anew: a matcher that differs each time keeps what was read before from being used.",
		tenantRequests, listedTenants, tenantOperations, tenantTemplates, hours(fine), f.Points, f.Series))
	p, err := program.StartTailscope(ctx, data)
	if err != nil {
		return err
	}
	defer p.Kill()
	question := 0
	for _, long := range []time.Duration{fine, whole} {
		params := func(kv ...string) url.Values {
			v := url.Values{"match": {`{service="shop"}`}, "start": {strconv.FormatInt(f.End-int64(long/time.Second), 10)}, "end": {strconv.FormatInt(f.End, 10)}}
			for i := 0; i < len(kv); i += 2 {
				v.Set(kv[i], kv[i+1])
			}
			return v
		}
		if err := checkTenants(ctx, p.URL, params()); err != nil {
			return err
		}
		for _, c := range []struct {
			name   string
			target float64 // ms
			params url.Values
			kept   bool
		}{
			{"by requests, read anew", 300, params(), false},
			{"by p99, read anew", 1000, params("sort", "0.99"), false},
			{"by share of slow requests, read anew", 1000, params("sort", "slow"), false},
			{"only where slow is not rare, read anew", 1000, params("not_rare", "true", "sort", "slow"), false},
			{"by requests", 300, params(), true},
			{"by p99", 1000, params("sort", "0.99"), true},
			{"by share of slow requests, searched", 1000, params("sort", "slow", "search", "77"), true},
			{"the hundredth page", 300, params("offset", "4950"), true},
		} {
			name := hours(long) + ", " + c.name
			if !o.wants(name) {
				continue
			}
			if c.kept {
				if err := askTimes(ctx, sec, p, name, c.target, 2*o.reps, "/api/v1/tenants", c.params, nil); err != nil {
					return err
				}
				continue
			}
			before, err := p.Usage()
			if err != nil {
				return err
			}
			var figure *report.Figure
			err = repeat(ctx, o.reps, func() error {
				question++
				c.params.Set("match", fmt.Sprintf(`{service="shop",operation!="none-%d"}`, question))
				_, err := askRaw(ctx, p.URL, "/api/v1/tenants", c.params)
				return err
			}, func(first bool, d time.Duration) {
				if !first {
					figure = sec.Add(name, "tailscope", "ms", c.target, ms(d))
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			after, err := p.Usage()
			if err != nil {
				return err
			}
			figure.Note = fmt.Sprintf("%.0f ms of CPU an answer", ms(after.CPU()-before.CPU())/float64(o.reps+1))
		}
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	sec.Add("peak memory of the server that answers", "tailscope", "MB", 0, float64(u.PeakBytes)/1e6)
	return nil
}

// checkTenants refuses an answer that is not whole.
func checkTenants(ctx context.Context, server string, params url.Values) error {
	b, err := askRaw(ctx, server, "/api/v1/tenants", params)
	if err != nil {
		return err
	}
	var r api.TenantsResponse
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if r.Total < listedTenants*9/10 || len(r.Tenants) != 50 || len(r.Cohorts) < 3 || r.Everyone.NotRare == 0 || len(r.Tenants[0].InBands) != 5 {
		return fmt.Errorf("tenants: %d of them, %d on the page, %d cohorts, %d for whom slow is not rare", r.Total, len(r.Tenants), len(r.Cohorts), r.Everyone.NotRare)
	}
	return nil
}

// fillTenants fills a store and compacts it.
func fillTenants(ctx context.Context, o *options, dir string, whole, fine time.Duration) (f filled, err error) {
	rng := rand.New(rand.NewPCG(7, 9))
	var templates []*store.Batch
	distinct := map[string]bool{}
	for range tenantTemplates {
		b, err := tenantSlot(rng)
		if err != nil {
			return f, err
		}
		for i := range b.Series {
			distinct[b.Series[i].Labels.String()] = true
		}
		templates = append(templates, b)
	}
	end := lastHour()
	f = filled{Start: end.Add(-whole).Unix(), End: end.Unix(), Series: len(distinct)}
	err = fillSlots(ctx, o, dir, &f, func(at int64) *store.Batch {
		if f.End-at > int64(fine/time.Second) && at%60 != 0 {
			return nil
		}
		return templates[rng.IntN(len(templates))]
	})
	return f, err
}

// tenantSlot returns what tenants request in a slot: log-normal durations, and for
// some tenants now and then seconds.
func tenantSlot(rng *rand.Rand) (*store.Batch, error) {
	type key struct{ tenant, operation int }
	zipf := rand.NewZipf(rng, 1.05, 8, listedTenants-1)
	cells := map[key]*hist.Histogram{}
	total := hist.New(hist.DefaultSchema)
	for range tenantRequests {
		k := key{int(zipf.Uint64()), rng.IntN(tenantOperations)}
		d := 0.02 * math.Exp(float64(k.operation)/2+0.8*rng.NormFloat64())
		if k.tenant%slowEvery == 3 && rng.IntN(20) == 0 {
			d = 1.5 + 4*rng.ExpFloat64()
		}
		if cells[k] == nil {
			cells[k] = hist.New(hist.DefaultSchema)
		}
		for _, h := range []*hist.Histogram{cells[k], total} {
			if err := h.RecordNanos(int64(d*1e9), 1); err != nil {
				return nil, err
			}
		}
	}
	b := shopBatch()
	for tenant := range listedTenants {
		for operation := range tenantOperations {
			if h := cells[key{tenant, operation}]; h != nil {
				if err := addShop(b, series.Full, h, series.LabelTenant, fmt.Sprintf("tenant-%05d", tenant), series.LabelOperation, fmt.Sprintf("GET /things/%d", operation)); err != nil {
					return nil, err
				}
			}
		}
	}
	return b, addShop(b, series.Total, total)
}
