package query

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// classicStore has spans of two routes for ten minutes, and a histogram of explicit bounds.
func classicStore(t *testing.T) *PromEngine {
	t.Helper()
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for slot := range int64(60) {
		for i := range int64(20) {
			for _, route := range []string{"/a", "/b"} {
				l := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET "+route, series.LabelKind, "server")
				w.Span(epoch+slot*10, l, 0.004*math.Exp(float64((slot*20+i)%1000)/200))
			}
		}
		h := &hist.Histogram{Schema: hist.Explicit, Bounds: []float64{1, 3, 9}, Count: 10, Sum: 31, Min: 0.5, Max: 12}
		h.Positive = hist.Buckets{Counts: []uint64{4, 3, 2, 1}}
		own := series.Series{Family: "own_seconds", View: series.Full, Labels: labels.FromStrings(series.LabelService, "shop")}
		if err := w.Merge(epoch+slot*10, own, h); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range int64(60) {
		h := &hist.Histogram{Schema: 3, Count: 10, Sum: 4, Min: 0, Max: 1, ZeroCount: 6, ZeroThreshold: hist.DefaultZeroThreshold}
		h.Positive = hist.Buckets{Offset: 0, Counts: []uint64{4}}
		if err := w.Merge(epoch+slot*10, series.Series{Family: "zero", View: series.Full, Labels: labels.FromStrings(series.LabelService, "shop")}, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return engineOver(st)
}

// What asks for a classic histogram is answered from the distribution: as many as are in it,
// and quantiles within the classic bucket that holds the distribution's own.
func TestClassicHistograms(t *testing.T) {
	e := classicStore(t)
	const now = epoch + 600
	one := func(q string) float64 {
		t.Helper()
		v := instant(t, e, q, at(now))
		if len(v) != 1 {
			t.Fatalf("%s: %d series: %v", q, len(v), v)
		}
		return v[0].F
	}
	for _, c := range []struct{ classic, native string }{
		{`sum(rate(span_duration_seconds_count[5m]))`, `histogram_count(sum(rate(span_duration_seconds[5m])))`},
		{`sum(increase(span_duration_seconds_count{operation="GET /a"}[1m15s]))`, `histogram_count(sum(increase(span_duration_seconds{operation="GET /a"}[1m15s])))`},
		{`sum(rate(span_duration_seconds_sum[5m])) / sum(rate(span_duration_seconds_count[5m]))`, `histogram_avg(sum(rate(span_duration_seconds[5m])))`},
		{`sum(rate(span_duration_seconds_bucket{le="+Inf"}[5m]))`, `histogram_count(sum(rate(span_duration_seconds[5m])))`},
		{`sum(rate(span_duration_seconds_bucket{le="0.1"}[5m])) / sum(rate(span_duration_seconds_count[5m]))`, `histogram_fraction(0, 0.1, sum(rate(span_duration_seconds[5m])))`},
		{`sum(rate(span_duration_seconds_bucket{le="0.3"}[5m])) / sum(rate(span_duration_seconds_count[5m]))`, `histogram_fraction(0, 0.3, sum(rate(span_duration_seconds[5m])))`},
		{`count(count by (le) (rate(span_duration_seconds_bucket[5m])))`, `vector(17)`},
		{`count(rate(span_duration_seconds_bucket{le=~"0.1|0.25|[+]Inf"}[5m]))`, `vector(6)`},
		{`sum(rate(span_duration_seconds_bucket{le="1.0"}[5m]))`, `sum(rate(span_duration_seconds_bucket{le="1"}[5m]))`},
		{`histogram_quantile(0.5, sum by (le) (rate(own_seconds_bucket[5m])))`, `vector(1 + 2 * (5 - 4) / 3)`},
		{`sum(increase(own_seconds_bucket{le="3"}[5m]))`, `vector(7 * 30)`},
		{`sum(span_duration_seconds_count)`, `vector(40)`},
		{`count(count by (le) (rate(span_duration_seconds_bucket{le=~"0.1,5|0.3|2"}[5m])))`, `vector(2)`},
		{`count(count by (le) (span_duration_seconds_bucket{le!~"a,b/%"}))`, `vector(17)`},
		{`count(count by (le) (span_duration_seconds_bucket{le=~"0.1|1.0|5"}))`, `vector(3)`},
		{`count(span_duration_seconds_bucket{le="NaN"}) or vector(0)`, `vector(0)`},
		{`sum(increase(zero_bucket{le="0"}[5m]))`, `vector(30 * 6)`},
		{`sum by (le) (own_seconds_bucket{le="9"})`, `vector(9)`},
		{`sum(irate(span_duration_seconds_count[5m]))`, `histogram_count(sum(rate(span_duration_seconds[1m])))`},
		{`sum(irate(span_duration_seconds_bucket{le="0.1"}[20s]))`, `sum(rate(span_duration_seconds_bucket{le="0.1"}[20s]))`},
	} {
		if got, want := one(c.classic), one("sum(vector(0) + on() "+c.native+")"); !(math.Abs(got-want) <= 1e-9*math.Abs(want)) {
			t.Errorf("%s is %v, %s is %v", c.classic, got, c.native, want)
		}
	}
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
		got := one(fmt.Sprintf("histogram_quantile(%v, sum by (le) (rate(span_duration_seconds_bucket[5m])))", q))
		want := one(fmt.Sprintf("histogram_quantile(%v, sum(rate(span_duration_seconds[5m])))", q))
		low := 0.0
		for _, high := range boundsOfSeconds {
			if want <= high {
				if got < low || got > high {
					t.Errorf("quantile %v is %v, the distribution's is %v, in (%v, %v]", q, got, want, low, high)
				}
				break
			}
			low = high
		}
	}
	// By any labels, never falling with le, and as said: interpolated here, exact there.
	by := map[string]float64{}
	res := run(t, e, `sort_by_label(sum by (operation, le) (rate(span_duration_seconds_bucket[5m])), "operation", "le")`, at(now))
	if v, ok := res.Value.(promql.Vector); !ok || len(v) != 2*17 {
		t.Fatalf("got %v, %v", res.Value, res.Err)
	} else {
		for _, bound := range append(boundsOfSeconds, math.Inf(1)) {
			for _, s := range v {
				if s.Metric.Get("le") == fmt.Sprint(bound) {
					if key := s.Metric.Get("operation"); s.F < by[key] {
						t.Errorf("%v falls to %v from %v", s.Metric, s.F, by[key])
					} else {
						by[key] = s.F
					}
				}
			}
		}
	}
	if !strings.Contains(fmt.Sprint(res.Warnings), "interpolated") {
		t.Errorf("notes are %v", res.Warnings)
	}
	if res := run(t, e, `rate(own_seconds_bucket[5m])`, at(now)); res.Err != nil || len(res.Warnings) != 0 {
		t.Errorf("explicit bounds: %v, %v", res.Err, res.Warnings)
	}
}

// Look-ups know the classic names too.
func TestClassicLookups(t *testing.T) {
	e := classicStore(t)
	name := func(s string) []*labels.Matcher {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, s)}
	}
	for selector, want := range map[string]int{"span_duration_seconds_bucket": 2 * 17, "span_duration_seconds_count": 2, "own_seconds_sum": 1, "own_seconds_max": 0} {
		got, _, err := e.Series(context.Background(), at(epoch), at(epoch+600), [][]*labels.Matcher{name(selector)}, 0)
		if err != nil || len(got) != want {
			t.Errorf("%s: %d series, %v; want %d", selector, len(got), err, want)
		}
		if len(got) > 0 && got[0].Get(labels.MetricName) != selector {
			t.Errorf("%s is named %s", selector, got[0].Get(labels.MetricName))
		}
	}
	q, err := e.Queryable().Querier(epoch*1000, (epoch+600)*1000)
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := q.LabelValues(context.Background(), "le", nil, name("span_duration_seconds_bucket")...)
	if err != nil || len(values) != 17 || values[0] != "+Inf" {
		t.Errorf("values of le: %v, %v", values, err)
	}
	names, _, err := q.LabelNames(context.Background(), nil, name("span_duration_seconds_bucket")...)
	if err != nil || !strings.Contains(strings.Join(names, " "), "kind le operation") {
		t.Errorf("names: %v, %v", names, err)
	}
}
