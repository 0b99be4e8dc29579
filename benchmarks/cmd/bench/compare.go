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

// The load that is compared: operations of tenants, whose shares are unequal.
const (
	comparedOperations = 100
	comparedTenants    = 10
	comparedSeries     = comparedOperations * comparedTenants
	comparedTemplates  = 20
)

// compareBench measures comparisons over HTTP, on the real store.
func compareBench(ctx context.Context, o *options, r *report.Report) error {
	half := 24 * time.Hour
	if o.quick {
		half = 2 * time.Hour
	}
	data, f, err := filledOnce(o, "compare", func(dir string) (filled, error) { return fillCompared(ctx, o, dir, half) })
	if err != nil {
		return err
	}
	sec := r.Section("Comparisons of 1,000 series", fmt.Sprintf(
		"%d series of one service, %d operations for each of %d tenants, in slots of 10 s for %s, %d points of every view, settled; in the last %s everything takes 5 %% longer. "+
			"A client's wall time for `tailscope serve` to answer GET /api/v1/compare over HTTP: nine measures raw and like for like over operations and cohorts, "+
			"the test of whole distributions with 1,000 resamples, lists of all operations and tenants, warnings; JSON included.",
		f.Series, comparedOperations, comparedTenants, hours(2*half), f.Points, hours(half/2)))
	p, err := program.StartTailscope(ctx, data)
	if err != nil {
		return err
	}
	defer p.Kill()
	at := func(before time.Duration) string { return strconv.FormatInt(f.End-int64(before/time.Second), 10) }
	q := func(a, b string, more ...string) url.Values {
		v := url.Values{"match": {`{service="shop"}`}, "a": {a}, "b": {b}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	halfDay, hour := half/2, min(time.Hour, half/4)
	lastHalves := [2]string{at(half) + "/" + at(halfDay), at(halfDay) + "/" + at(0)}
	for _, c := range []struct {
		name   string
		target float64 // ms
		params url.Values
	}{
		{"two halves of " + hours(half), 2000, q(lastHalves[0], lastHalves[1])},
		{"two halves of " + hours(half) + ", with curves and heatmaps", 0, q(lastHalves[0], lastHalves[1], "include", "curve,heat")},
		{hours(half) + " against the " + hours(half) + " before", 2000, q(at(2*half)+"/"+at(half), at(half)+"/"+at(0))},
		{hours(hour) + " against the " + hours(hour) + " before", 0, q(at(2*hour)+"/"+at(hour), at(hour)+"/"+at(0))},
	} {
		if !o.wants(c.name) {
			continue
		}
		if err := checkCompared(ctx, p.URL, c.params); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := askTimes(ctx, sec, p, c.name, c.target, 2*o.reps, "/api/v1/compare", c.params, nil); err != nil {
			return err
		}
	}
	u, err := p.Usage()
	if err != nil {
		return err
	}
	sec.Add("peak memory of the server that answers", "tailscope", "MB", 0, float64(u.PeakBytes)/1e6)
	return nil
}

func hours(d time.Duration) string { return strconv.FormatFloat(d.Hours(), 'g', 3, 64) + " h" }

// checkCompared refuses an answer that is not whole.
func checkCompared(ctx context.Context, server string, params url.Values) error {
	b, err := askRaw(ctx, server, "/api/v1/compare", params)
	if err != nil {
		return err
	}
	var r api.CompareResponse
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	if len(r.StrataBy) != 3 || r.Whole == nil || r.Whole.Resamples != 1000 || len(r.Measures) != 9 || len(r.Operations) == 0 || len(r.Tenants) != comparedTenants {
		return fmt.Errorf("answers %d measures over %v, %d operations, %d tenants, %+v", len(r.Measures), r.StrataBy, len(r.Operations), len(r.Tenants), r.Whole)
	}
	return nil
}

// fillCompared fills a store with slots that are drawn from a few templates, and
// compacts it.
func fillCompared(ctx context.Context, o *options, dir string, half time.Duration) (f filled, err error) {
	rng := rand.New(rand.NewPCG(7, 7))
	var sides [2][]*store.Batch
	for i, factor := range []float64{1, 1.05} {
		for range comparedTemplates {
			b, err := comparedSlot(rng, factor)
			if err != nil {
				return f, err
			}
			sides[i] = append(sides[i], b)
		}
	}
	end := lastHour()
	f = filled{Start: end.Add(-2 * half).Unix(), End: end.Unix(), Series: comparedSeries}
	err = fillSlots(ctx, o, dir, &f, func(at int64) *store.Batch {
		templates := sides[0]
		if f.End-at <= int64(half/2/time.Second) {
			templates = sides[1]
		}
		return templates[rng.IntN(len(templates))]
	})
	return f, err
}

// comparedSlot returns what all tenants request in a slot: 1 to 13 requests of each
// operation, the more the larger the tenant, log-normal about the operation's
// median.
func comparedSlot(rng *rand.Rand, factor float64) (*store.Batch, error) {
	b := shopBatch()
	total := hist.New(hist.DefaultSchema)
	for op := range comparedOperations {
		name := fmt.Sprintf("GET /things/%d/{id}", op)
		median := 5e6 * math.Exp(2*float64(op)/comparedOperations) * factor // ns
		whole := hist.New(hist.DefaultSchema)
		for tenant := range comparedTenants {
			h := hist.New(hist.DefaultSchema)
			for range 1 + rng.IntN(1+tenant+tenant/3) {
				if err := h.RecordNanos(int64(median*math.Exp(0.7*rng.NormFloat64())), 1); err != nil {
					return nil, err
				}
			}
			if err := whole.Merge(h); err != nil {
				return nil, err
			}
			if err := addShop(b, series.Full, h, series.LabelOperation, name, series.LabelTenant, fmt.Sprintf("tenant-%d", tenant)); err != nil {
				return nil, err
			}
		}
		if err := total.Merge(whole); err != nil {
			return nil, err
		}
		if err := addShop(b, series.Marginal, whole, series.LabelOperation, name, series.LabelInstance, "shop-1"); err != nil {
			return nil, err
		}
	}
	return b, addShop(b, series.Total, total)
}
