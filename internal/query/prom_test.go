package query

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

const epoch = querytest.Epoch

func at(sec int64) time.Time { return time.Unix(sec, 0).UTC() }

// engineOver returns an engine whose clock stands an hour after the data.
func engineOver(st store.Store) *PromEngine {
	return NewPromEngine(st, PromOptions{Now: func() time.Time { return at(epoch + 7200) }})
}

func instant(t testing.TB, e *PromEngine, q string, when time.Time) promql.Vector {
	t.Helper()
	res := run(t, e, q, when)
	if res.Err != nil {
		t.Fatalf("%s: %v", q, res.Err)
	}
	v, err := res.Vector()
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return v
}

func run(t testing.TB, e *PromEngine, q string, when time.Time) *promql.Result {
	t.Helper()
	pq, err := e.Instant(context.Background(), nil, q, when)
	if err != nil {
		return &promql.Result{Err: err}
	}
	t.Cleanup(pq.Close)
	return pq.Exec(context.Background())
}

// anyStore is a naive store, or a real one that settle rolls up.
func anyStore(t *testing.T, rt *rapid.T) (st store.Store, settle func()) {
	if rapid.IntRange(0, 3).Draw(rt, "store") > 0 {
		return storetest.NewTwin(), func() {}
	}
	p, err := pebblestore.Open(context.Background(), pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		rt.Fatal(err)
	}
	rt.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, func() {
		if err := p.Maintain(context.Background(), at(epoch+rapid.SampledFrom([]int64{0, 700, 7200}).Draw(rt, "maintained"))); err != nil {
			rt.Fatal(err)
		}
	}
}

// The acceptance rule: PromQL's quantile of a rate lies in the bucket of the
// distribution over the same window, for dense, sparse and one-slot series,
// at any moment, for ranges and subqueries alike.
func TestRateQuantileIsTheDistributions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		st, settle := anyStore(t, rt)
		w := querytest.NewWriter()
		tenants := []string{"dense", "sparse", "once"}
		for _, tenant := range tenants {
			l := labels.FromStrings(series.LabelService, "s", series.LabelOperation, "o", series.LabelTenant, tenant, series.LabelInstance, "i")
			slots := []int64{rapid.Int64Range(0, 119).Draw(rt, "slot")}
			switch tenant {
			case "dense":
				slots = nil
				for i := range int64(120) {
					slots = append(slots, i)
				}
			case "sparse":
				slots = rapid.SliceOfNDistinct(rapid.Int64Range(0, 119), 1, 12, rapid.ID[int64]).Draw(rt, "slots")
			}
			for _, s := range slots {
				for range rapid.IntRange(1, 4).Draw(rt, "spans") {
					w.Span(epoch+s*10, l, math.Exp(rapid.Float64Range(-9, 3).Draw(rt, "log")))
				}
			}
		}
		if err := w.Put(ctx, st, 1); err != nil {
			rt.Fatal(err)
		}
		settle()
		e := engineOver(st)
		window := rapid.SampledFrom([]int64{10, 60, 90, 300, 600}).Draw(rt, "window")
		end := epoch + rapid.Int64Range(10, 1300).Draw(rt, "end")
		millis := rapid.Int64Range(0, 999).Draw(rt, "millis")
		lastEnd := floorTo(end, 10) // the window holds the slots that end in (end-window, end]
		want := map[string]*hist.Histogram{}
		res, err := st.Query(ctx, store.Query{Family: series.SpanDuration, Start: lastEnd - window, End: lastEnd, By: []string{series.LabelTenant}, Schema: hist.MaxSchema})
		if err != nil {
			rt.Fatal(err)
		}
		for _, g := range res.Groups {
			want[g.Labels.Get(series.LabelTenant)] = g.Points[0].Hist
		}
		rate := fmt.Sprintf("sum by (tenant) (rate(span_duration_seconds[%ds]))", window)
		q := rapid.SampledFrom([]float64{0.01, 0.5, 0.9, 0.99}).Draw(rt, "q")
		when := time.UnixMilli(end*1000 + millis)

		check := func(query string, when time.Time) {
			got := instant(t, e, query, when)
			if len(got) != len(want) {
				rt.Fatalf("%s at %s: %d tenants, want %d", query, when, len(got), len(want))
			}
			for _, s := range got {
				h := want[s.Metric.Get(series.LabelTenant)]
				if h == nil {
					rt.Fatalf("%s: unexpected %s", query, s.Metric)
				}
				if a, b := hist.BucketIndex(s.F, h.Schema), hist.BucketIndex(h.Quantile(q), h.Schema); a != b && !onBound(s.F, h) {
					rt.Fatalf("%s of %s: %v is in bucket %d, the distribution's %v in %d", query, s.Metric, s.F, a, h.Quantile(q), b)
				}
			}
		}
		check(fmt.Sprintf("histogram_quantile(%v, %s)", q, rate), when)
		check(fmt.Sprintf("histogram_quantile(%v, sum by (tenant) (rate(span_duration_seconds[%ds] offset 7m)))", q, window), when.Add(7*time.Minute))
		check(fmt.Sprintf("histogram_quantile(%v, sum by (tenant) (rate(span_duration_seconds[%ds] @ %d.%03d)))", q, window, end, millis), at(epoch+99))
		// Without the sum the engine adds the slots up itself.
		check(fmt.Sprintf("histogram_quantile(%v, avg by (tenant) (increase(span_duration_seconds[%ds])))", q, window), when)

		for _, s := range instant(t, e, fmt.Sprintf("histogram_count(sum by (tenant) (increase(span_duration_seconds[%ds])))", window), when) {
			if h := want[s.Metric.Get(series.LabelTenant)]; s.F != float64(h.Count) {
				rt.Fatalf("count of %s: %v, want %d", s.Metric, s.F, h.Count)
			}
		}
		for _, s := range instant(t, e, "histogram_sum("+rate+")", when) {
			h := want[s.Metric.Get(series.LabelTenant)]
			if got := s.F * float64(window); math.Abs(got-h.Sum) > 1e-9*math.Abs(h.Sum) {
				rt.Fatalf("sum of %s: %v, want %v", s.Metric, got, h.Sum)
			}
		}
	})
}

// onBound says whether v is a bucket's bound but for rounding: interpolation
// may end there from either side.
func onBound(v float64, h *hist.Histogram) bool {
	k := hist.BucketIndex(v, h.Schema)
	for _, b := range []float64{hist.UpperBound(k-1, h.Schema), hist.UpperBound(k, h.Schema)} {
		if math.Abs(v-b) < 1e-12*b {
			return true
		}
	}
	return false
}

// Every step of a range query must be what an instant query at that moment is.
func TestRangeQueryIsItsInstants(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	querytest.Shop(w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	e := engineOver(st)
	for _, q := range []string{
		`histogram_quantile(0.9, sum by (service) (rate(span_duration_seconds[5m])))`,
		`sum(histogram_count(increase(span_duration_seconds{service="checkout"}[90s])))`,
		`histogram_quantile(0.9, sum(rate(span_duration_seconds[5m] offset 1m)))`,
		`max_over_time(histogram_quantile(0.9, sum(rate(span_duration_seconds[2m])))[10m:1m])`,
		`histogram_avg(sum(rate(span_duration_seconds[7m:30s])))`,
		`histogram_count(sum(increase(span_duration_seconds[10m] @ end())))`,
		`histogram_fraction(0, 0.01, sum by (tenant) (rate(span_duration_seconds[1m])))`,
	} {
		for _, step := range []time.Duration{15 * time.Second, time.Minute, 7 * time.Minute} {
			for _, phase := range []time.Duration{0, 3 * time.Second, 10 * time.Second} {
				start := at(epoch + 1200).Add(phase)
				end := start.Add(4 * step)
				pq, err := e.Range(context.Background(), nil, q, start, end, step)
				if err != nil {
					t.Fatal(err)
				}
				m, err := pq.Exec(context.Background()).Matrix()
				if err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				if len(m) == 0 {
					t.Fatalf("%s: no series", q)
				}
				for _, s := range m {
					if len(s.Floats) != 5 {
						t.Errorf("%s by %s from +%s: %d steps, want 5", q, step, phase, len(s.Floats))
					}
					for _, p := range s.Floats {
						iq := strings.ReplaceAll(q, "@ end()", fmt.Sprintf("@ %d", end.Unix()))
						for _, v := range instant(t, e, iq, time.UnixMilli(p.T)) {
							if labels.Equal(v.Metric, s.Metric) && math.Abs(v.F-p.F) > 1e-12*math.Abs(p.F) {
								t.Errorf("%s by %s at %d: %v in the range, %v alone", q, step, p.T, p.F, v.F)
							}
						}
					}
				}
				pq.Close()
			}
		}
	}
}

func TestRewrite(t *testing.T) {
	families := map[string]store.FamilyInfo{
		series.SpanDuration: {Name: series.SpanDuration, Kind: series.Distribution},
		"latency_seconds":   {Name: "latency_seconds", Kind: series.Distribution},
		"requests_total":    {Name: "requests_total", Kind: series.Counter},
		"heap_bytes":        {Name: "heap_bytes", Kind: series.Gauge},
	}
	for _, c := range []struct{ in, want string }{
		{`rate(requests_total[5m])`, `rate(requests_total[5m])`},
		{`rate(nothing[5m])`, `rate(nothing[5m])`},
		{`span_duration_seconds`, `span_duration_seconds{M="/1/0/0/0/"}`},
		{`span_duration_seconds{tenant="a"}`, `span_duration_seconds{M="/0/0/0/0/",tenant="a"}`},
		{`rate(span_duration_seconds[5m])`, `(sum_over_time(span_duration_seconds{M="/1/300000/60000/1000/"}[1ms]) / 300)`},
		{`sum(rate(span_duration_seconds[5m]))`, `sum((sum_over_time(span_duration_seconds{M="s/2/300000/60000/1000/"}[1ms]) / 300))`},
		{`sum by (operation) (increase(span_duration_seconds[1h]))`, `sum by (operation) (sum_over_time(span_duration_seconds{M="s/1/3600000/60000/1000/operation"}[1ms]))`},
		{`sum by (tenant, service) (rate(span_duration_seconds[5m]))`, `sum by (tenant, service) ((sum_over_time(span_duration_seconds{M="s/0/300000/60000/1000/tenant,service"}[1ms]) / 300))`},
		{`sum without (tenant) (rate(span_duration_seconds[5m]))`, `sum without (tenant) ((sum_over_time(span_duration_seconds{M="/0/300000/60000/1000/"}[1ms]) / 300))`},
		{`sum(rate(latency_seconds[5m]))`, `sum((sum_over_time(latency_seconds{M="s/2/300000/60000/1000/"}[1ms]) / 300))`},
		{`rate(latency_seconds[5m] offset 10s)`, `(sum_over_time(latency_seconds{M="/1/300000/60000/51000/"}[1ms] offset 10s) / 300)`},
		{`rate(latency_seconds[5m] @ 1000)`, `(sum_over_time(latency_seconds{M="/1/300000/0/1000000/"}[1ms] @ 1000.000) / 300)`},
		{`rate(latency_seconds[5m] @ end() offset 1s)`, `(sum_over_time(latency_seconds{M="/1/300000/0/3600000/"}[1ms] @ end() offset 1s) / 300)`},
		{`max_over_time(histogram_quantile(0.9, rate(latency_seconds[5m]))[1h:30s])`, `max_over_time(histogram_quantile(0.9, (sum_over_time(latency_seconds{M="/1/300000/30000/0/"}[1ms]) / 300))[1h:30s])`},
		{`rate(latency_seconds[5m:30s] offset 1m)`, `(sum_over_time(latency_seconds{M="/1/300000/60000/1000/"}[1ms] offset 1m) / 300)`},
		{`histogram_count(sum(rate(latency_seconds[5m])))`, `histogram_count(sum((sum_over_time(latency_seconds{M="ms/2/300000/60000/1000/"}[1ms]) / 300)))`},
		{`histogram_quantile(0.9, latency_seconds) / histogram_avg(latency_seconds)`, `histogram_quantile(0.9, latency_seconds{M="/1/0/0/0/"}) / histogram_avg(latency_seconds{M="m/1/0/0/0/"})`},
		{`absent(latency_seconds{a="b"})`, `absent(latency_seconds{a="b"})`},
		{`rate({__name__=~"latency.*"}[5m])`, `(sum_over_time({__name__=~"latency.*",M="/1/300000/60000/1000/"}[1ms]) / 300)`},
		{`rate({__name__=~"req.*"}[5m])`, `rate({__name__=~"req.*"}[5m])`},
		{`2 * rate(latency_seconds[5m])`, `2 * (sum_over_time(latency_seconds{M="/1/300000/60000/1000/"}[1ms]) / 300)`},
		{`avg_over_time(latency_seconds[5m])`, `avg_over_time(latency_seconds{M="/1/0/0/0/"}[5m])`},
		{`sum_over_time({a="b"}[5m])`, `sum_over_time({a="b",M="/1/0/0/0/"}[5m])`},
		{`changes(heap_bytes[5m])`, `changes(heap_bytes[5m])`},
	} {
		e := &PromEngine{parser: NewPromEngine(nil, PromOptions{}).parser}
		expr, err := e.parser.ParseExpr(c.in)
		if err != nil {
			t.Fatal(err)
		}
		r := &rewriter{families: families, start: 1000, end: 3601_000, interval: 60_000, noStep: noStep}
		out, err := r.rewrite(expr)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		want, err := e.parser.ParseExpr(strings.ReplaceAll(c.want, "M=", markerName+"="))
		if err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		if out.String() != want.String() {
			t.Errorf("%s\n got %s\nwant %s", c.in, out, want)
		}
		if _, err := e.parser.ParseExpr(out.String()); err != nil {
			t.Errorf("%s: what it became does not parse: %v", c.in, err)
		}
	}
	for _, c := range []struct{ in, want string }{
		{`irate(latency_seconds[5m])`, "irate() needs a running total, but latency_seconds holds what happened in each slot"},
		{`delta(latency_seconds[5m])`, "delta() needs a running total"},
		{`resets(sum(latency_seconds)[5m:])`, "resets() needs a running total"},
		{`idelta({__name__=~".+"}[5m])`, "idelta() needs a running total"},
		{`changes(latency_seconds[5m])`, "count_over_time"},
		{`rate({__name__=~".+"}[5m])`, "names both distributions (latency_seconds) and numbers (heap_bytes)"},
		{`rate(sum(latency_seconds)[5m:])`, "write rate(x[5m]) inside"},
		{`sum by (tenant, instance) (rate(span_duration_seconds[5m]))`, "tenant and instance of span_duration_seconds are not kept together"},
		{`sum by (tenant, peer) (rate(span_duration_seconds[5m]))`, "tenant and peer of span_duration_seconds are not kept together"},
		{`sum by (cohort, peer) (rate(span_duration_seconds[5m]))`, "cohort and peer of span_duration_seconds are not kept together"},
		{`span_duration_seconds{__tailscope_read__="x"}`, "server's own"},
	} {
		e := NewPromEngine(nil, PromOptions{})
		expr, err := e.parser.ParseExpr(c.in)
		if err != nil {
			t.Fatal(err)
		}
		r := &rewriter{families: families, interval: 60_000, noStep: noStep}
		if _, err := r.rewrite(expr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.in, err, c.want)
		}
	}
}

func TestMarkerRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := marker{
			moments: rapid.Bool().Draw(rt, "m"), sum: rapid.Bool().Draw(rt, "s"),
			view: series.View(rapid.Uint8Range(0, 2).Draw(rt, "view")), window: rapid.Int64().Draw(rt, "window"), period: rapid.Int64().Draw(rt, "period"), phase: rapid.Int64().Draw(rt, "phase"),
			by: rapid.SliceOfN(rapid.StringN(1, 10, -1), 0, 3).Draw(rt, "by"),
		}
		got, err := parseMarker(m.String())
		if err != nil {
			rt.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(m) {
			rt.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

// Windows of any length, at any moment, hold whole slots and the share of the one that they cut.
func TestWindowsHoldTheirShareOfSlots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, settle := anyStore(t, rt)
		w := querytest.NewWriter()
		s := series.Series{Family: "x_seconds", Labels: labels.FromStrings("a", "b")}
		slots := rapid.SliceOfNDistinct(rapid.Int64Range(0, 60), 1, 30, rapid.ID[int64]).Draw(rt, "slots")
		var mixed bool
		for i, k := range slots {
			h := hist.New(hist.DefaultSchema)
			if rapid.IntRange(0, 20).Draw(rt, "coarse") == 0 {
				h, mixed = hist.New(2), true
			}
			if err := h.RecordN(float64(i)-3, uint64(i+1)); err != nil {
				rt.Fatal(err)
			}
			if err := w.Merge(epoch+k*10, s, h); err != nil {
				rt.Fatal(err)
			}
		}
		if err := w.Put(context.Background(), st, 1); err != nil {
			rt.Fatal(err)
		}
		settle()
		e := engineOver(st)
		window := rapid.Int64Range(1, 700_000).Draw(rt, "window")
		step := time.Duration(rapid.Int64Range(1, 100_000).Draw(rt, "step")) * time.Millisecond
		if rapid.Bool().Draw(rt, "round") {
			window, step = ceilTo(window, 10_000), time.Duration(ceilTo(step.Milliseconds(), 10_000))*time.Millisecond
		}
		from := rapid.Int64Range(-20_000, 600_000).Draw(rt, "start")
		if rapid.Bool().Draw(rt, "aligned") {
			from = ceilTo(from, 10_000)
		}
		start := time.UnixMilli(epoch*1000 + from)
		for _, c := range []struct {
			query string
			value func(slot int) float64
		}{
			{"histogram_count(increase(x_seconds[%dms]))", func(i int) float64 { return float64(i + 1) }},
			{"histogram_count(sum(increase(x_seconds[%dms]) * 1))", func(i int) float64 { return float64(i + 1) }},
			{"histogram_sum(increase(x_seconds[%dms]))", func(i int) float64 { return float64(i+1) * (float64(i) - 3) }},
			{"histogram_fraction(-inf, +inf, increase(x_seconds[%dms])) * histogram_count(increase(x_seconds[%[1]dms]))", func(i int) float64 { return float64(i + 1) }},
		} {
			pq, err := e.Range(context.Background(), nil, fmt.Sprintf(c.query, window), start, start.Add(9*step), step)
			if err != nil {
				rt.Fatal(err)
			}
			m, err := pq.Exec(context.Background()).Matrix()
			if err != nil {
				rt.Fatal(err)
			}
			got := map[int64]float64{}
			for _, s := range m {
				for _, p := range s.Floats {
					got[p.T] = p.F
				}
			}
			pq.Close()
			for i := range 10 {
				at := start.Add(time.Duration(i) * step).UnixMilli()
				want, any := 0.0, false
				for i, k := range slots {
					// The window reaches back from the end of the last slot that has ended.
					end := (epoch + k*10 + 10) * 1000
					within := min(end, floorTo(at, 10_000)) - max(end-10_000, floorTo(at, 10_000)-window)
					if within > 0 {
						want, any = want+c.value(i)*float64(within)/10_000, true
					}
				}
				v, ok := got[at]
				if ok != any || math.Abs(v-want) > 1e-9*math.Max(1, math.Abs(want)) {
					rt.Fatalf("%s (window %d ms, mixed schemas %v) at %d: got %v, %v; want %v, %v", c.query, window, mixed, at-epoch*1000, v, ok, want, any)
				}
			}
		}
	})
}

// Steady traffic has one rate and one quantile, whatever the window, the step and
// the moment, also where slots of ten seconds are no longer kept.
func TestSteadyTrafficHasOneRate(t *testing.T) {
	ctx := context.Background()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const perSlot = 200
	h := hist.New(hist.DefaultSchema)
	for i := range perSlot {
		if err := h.Record(0.1 + float64(i)/perSlot); err != nil {
			t.Fatal(err)
		}
	}
	atMost, _, _ := h.AtMost(0.5)
	below := atMost / perSlot
	begin := epoch - epoch%3600
	w := querytest.NewWriter()
	for slot := begin; slot < begin+3600; slot += 10 {
		if err := w.Merge(slot, series.Series{Family: "x_seconds", Labels: labels.FromStrings("a", "b")}, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Put(ctx, st, 1); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, 10 * 24 * time.Hour} { // then only minutes are left
		if err := st.Maintain(ctx, at(begin+7200).Add(age)); err != nil {
			t.Fatal(err)
		}
		for _, window := range []string{"5s", "15s", "45s", "60s", "75s", "90s", "7m"} {
			for _, step := range []time.Duration{7 * time.Second, 15 * time.Second, time.Minute} {
				for query, want := range map[string]float64{
					"histogram_count(rate(x_seconds[" + window + "]))":            perSlot / 10.0,
					"histogram_quantile(0.9, rate(x_seconds[" + window + "]))":    h.Quantile(0.9),
					"histogram_avg(sum(rate(x_seconds[" + window + "])))":         h.Mean(),
					"histogram_fraction(0, 0.5, rate(x_seconds[" + window + "]))": below,
				} {
					pq, err := engineOver(st).Range(ctx, nil, query, at(begin+1215), at(begin+1215).Add(30*step), step)
					if err != nil {
						t.Fatal(err)
					}
					m, err := pq.Exec(ctx).Matrix()
					if err != nil || len(m) != 1 || len(m[0].Floats) != 31 {
						t.Fatalf("%s every %s, age %s: %v, %v", query, step, age, m, err)
					}
					for _, p := range m[0].Floats {
						if math.Abs(p.F/want-1) > 0.01 {
							t.Errorf("%s every %s, age %s, at %d: %v, want %v within 1 %%", query, step, age, p.T/1000-begin, p.F, want)
							break
						}
					}
					pq.Close()
				}
			}
		}
	}
}

// Up to now, windows hold slots of which all is stored: a rate is not low while the newest
// is on its way, at any moment, window and step. In the future there is nothing.
func TestRatesUpToNow(t *testing.T) {
	const perSlot = 200
	begin := epoch - epoch%3600
	for late := range int64(20) {
		now := begin + 1800 + late
		w := querytest.NewWriter()
		for slot := begin; slot < now; slot += 10 {
			n := perSlot
			if slot >= LastWhole(at(now)) {
				n = int(now-slot) * 7 // what has come so far of it
			}
			for i := range n {
				w.Observe(slot, series.Series{Family: "x_seconds", Labels: labels.FromStrings("a", fmt.Sprint(slot/600%2))}, 0.1+float64(i)/perSlot)
			}
		}
		st := storetest.NewTwin()
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		e := NewPromEngine(st, PromOptions{Now: func() time.Time { return at(now) }})
		for _, window := range []string{"15s", "60s", "75s", "7m"} {
			for _, step := range []time.Duration{7 * time.Second, 15 * time.Second, time.Minute} {
				q := "histogram_count(sum(rate(x_seconds[" + window + "])))"
				pq, err := e.Range(t.Context(), nil, q, at(now-600), at(now+1800), step)
				if err != nil {
					t.Fatal(err)
				}
				m, err := pq.Exec(t.Context()).Matrix()
				if err != nil || len(m) != 1 {
					t.Fatalf("%s: %v, %v", q, m, err)
				}
				for _, p := range m[0].Floats {
					if p.T <= now*1000 && math.Abs(p.F-perSlot/10) > 0.01*perSlot/10 {
						t.Errorf("%s every %s, %d s from now, slot cut after %d s: %v", q, step, p.T/1000-now, late%10, p.F)
					}
				}
				if last := m[0].Floats[len(m[0].Floats)-1].T; last < (now-int64(step/time.Second))*1000 || last > (now+430)*1000 {
					t.Errorf("%s every %s: the last is of %d s from now", q, step, last/1000-now)
				}
				pq.Close()
			}
		}
	}
}

func TestShortWindowsAreWarnedOf(t *testing.T) {
	tw := storetest.NewTwin()
	h := hist.New(hist.DefaultSchema)
	if err := h.RecordN(0.5, 100); err != nil {
		t.Fatal(err)
	}
	data, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	err = tw.Put(context.Background(), &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base,
		Series: []series.Series{{Family: "x_seconds", Labels: labels.FromStrings("a", "b")}}, Points: []store.Point{{Slot: epoch, Data: data}}})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"rate(x_seconds[5s])": 1, "rate(x_seconds[10s])": 0, "rate(x_seconds[25s])": 0} {
		res := run(t, engineOver(tw), query, at(epoch+10))
		if got := res.Warnings; len(got) != want || want > 0 && !strings.Contains(fmt.Sprint(got.AsErrors()), "shorter than the slots") {
			t.Errorf("%s: warnings %v, want %d", query, got.AsErrors(), want)
		}
	}
}

// Where only hours are left, shorter windows get their share and a warning.
func TestCoarseSlotsAreShared(t *testing.T) {
	ctx := context.Background()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	h := hist.New(hist.DefaultSchema)
	if err := h.RecordN(0.5, 3600); err != nil {
		t.Fatal(err)
	}
	data, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	hour := epoch - epoch%3600
	err = st.Put(ctx, &store.Batch{Writer: "w", Generation: 1, Resolution: series.Hour, Series: []series.Series{{Family: "x_seconds", Labels: labels.FromStrings("a", "b")}},
		Points: []store.Point{{Slot: hour, Data: data}, {Slot: hour + 3600, Data: data}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Maintain(ctx, at(hour+50*24*3600)); err != nil {
		t.Fatal(err)
	}
	e := NewPromEngine(st, PromOptions{Now: func() time.Time { return at(hour + 50*24*3600) }})
	for _, c := range []struct {
		query string
		at    int64
		want  float64
		warns bool
	}{
		{"histogram_count(rate(x_seconds[5m]))", hour + 1800, 1, true},
		{"histogram_count(increase(x_seconds[2h]))", hour + 7200, 7200, false},
		{"histogram_count(increase(x_seconds[30m]))", hour + 3600 + 900, 1800, true},
		{"histogram_count(x_seconds)", hour + 3600 + 60, 3600, true},
	} {
		res := run(t, e, c.query, at(c.at))
		v, err := res.Vector()
		if err != nil || len(v) != 1 || math.Abs(v[0].F-c.want) > 1e-9 {
			t.Errorf("%s: got %v, %v; want %v", c.query, v, err, c.want)
		}
		if got := len(res.Warnings) > 0; got != c.warns {
			t.Errorf("%s: warnings %v, want some: %v", c.query, res.Warnings, c.warns)
		}
	}
}
