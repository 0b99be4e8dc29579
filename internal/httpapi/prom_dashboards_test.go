package httpapi

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/query/querytest"
)

// asOf is when dashboards are asked: everything before it is stored.
const asOf = querytest.Epoch + 3000

// figures asks the API for the distributions that queries of dashboards are held against.
type figures struct {
	t *testing.T
	c *client.Client
}

// before returns the distribution of what matchers select in the time before a moment; without
// requests its count is 0.
func (a figures) before(moment int64, d time.Duration, match string) api.DistributionGroup {
	a.t.Helper()
	r, err := a.c.Distribution(a.t.Context(), api.DistributionRequest{
		Selection: api.Selection{Match: match, Start: unixTime(moment - int64(d.Seconds())), End: unixTime(moment)},
		Quantiles: api.Quantiles{"0.95", "0.99"}, At: []float64{0.025, 0.05},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(r.Groups) == 0 {
		return api.DistributionGroup{}
	}
	return r.Groups[0]
}

func unixTime(sec int64) api.Time { return api.Time(fmt.Sprint(sec)) }

// failed returns the share of requests of checkout that failed.
func (a figures) failed(moment int64, d time.Duration) float64 {
	a.t.Helper()
	return float64(a.before(moment, d, `{service="checkout",kind="server",status="error"}`).Count) / float64(a.before(moment, d, checkout).Count)
}

// near is what a figure must be: between low and high, to rounding.
type near struct{ low, high float64 }

func exactly(v float64) near { return near{v, v} }

// inBucketOf returns the classic bucket that holds a quantile, which is how far a quantile of
// classic buckets may be off.
func inBucketOf(seconds float64) near {
	low := 0.0
	for _, high := range []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1} {
		if seconds <= high {
			return near{low, high}
		}
		low = high
	}
	return near{low, math.Inf(1)}
}

const (
	checkout = `{service="checkout",kind="server"}`
	requests = `http_server_request_duration_seconds_count{job="checkout"}`
	failing  = `http_server_request_duration_seconds_count{job="checkout",http_response_status_code=~"(5..|429)"}`
)

// sli returns the share of failed requests of a window, as recording rules of SLOs write it.
func sli(window string) string {
	return fmt.Sprintf("(sum(rate(%s[%s])) / (sum(rate(%s[%s])) > 0))", failing, window, requests, window)
}

// Queries in the shapes of dashboards of span metrics and of OpenTelemetry's conventions, of
// rules that Sloth and Pyrra make, and of analysis templates of Argo Rollouts and Flagger answer
// the figures of the API, which are those of the page.
func TestPublishedQueries(t *testing.T) {
	srv := shop(t, Options{})
	a := figures{t, &client.Client{Address: srv.URL}}
	pc, err := promapi.NewClient(promapi.Config{Address: srv.URL + "/prometheus", Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	prom := promv1.NewAPI(pc)

	five, half := a.before(asOf, 5*time.Minute, checkout), a.before(asOf, 30*time.Minute, checkout)
	minute := a.before(asOf, time.Minute, checkout)
	one := func(n near) map[string]near { return map[string]near{"": n} }
	above := func(g api.DistributionGroup, i int) near { // the bucket that the bound cuts is interpolated
		return near{float64(g.At[i].Above), float64(g.At[i].Above + g.At[i].Same)}
	}
	burns := func(factor float64) map[string]near {
		if short := a.failed(asOf, 5*time.Minute); short > factor && a.failed(asOf, 30*time.Minute) > factor {
			return one(exactly(short))
		}
		return nil
	}
	mean, n := 0.0, 0.0
	for at := int64(asOf - 25*60); at <= asOf; at += 300 {
		mean, n = mean+a.failed(at, 5*time.Minute), n+1
	}
	routes := map[string]near{}
	for route, operation := range map[string]string{"/cart/{id}": "GET /cart/{id}", "/order": "POST /order"} {
		routes[route] = exactly(float64(a.before(asOf, 30*time.Minute, fmt.Sprintf(`{service="checkout",kind="server",operation=%q}`, operation)).Count))
	}
	services := map[string]near{}
	for _, service := range []string{"checkout", "batch"} {
		services[service] = exactly(float64(a.before(asOf, 5*time.Minute, fmt.Sprintf(`{service=%q}`, service)).Count) / 300)
	}

	for _, c := range []struct {
		of, query string
		by        model.LabelName // what tells series of the answer apart
		want      map[string]near
	}{
		{"Grafana, Tempo's span metrics: rate", `sum(rate(traces_spanmetrics_calls_total{service="checkout",span_kind="SPAN_KIND_SERVER"}[5m]))`, "",
			one(exactly(float64(five.Count) / 300))},
		{"Grafana, Tempo's span metrics: errors", `sum(rate(traces_spanmetrics_calls_total{service="checkout",span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_ERROR"}[30m])) / sum(rate(traces_spanmetrics_calls_total{service="checkout",span_kind="SPAN_KIND_SERVER"}[30m]))`, "",
			one(exactly(a.failed(asOf, 30*time.Minute)))},
		{"Grafana, Tempo's span metrics: duration", `histogram_quantile(0.95, sum(rate(traces_spanmetrics_latency_bucket{service="checkout",span_kind="SPAN_KIND_SERVER"}[30m])) by (le))`, "",
			one(inBucketOf(float64(half.Quantiles["0.95"])))},
		{"Grafana, Tempo's span metrics: heatmap", `sum(increase(traces_spanmetrics_latency_bucket{service="checkout",span_kind="SPAN_KIND_SERVER",le="+Inf"}[5m])) by (le)`, "",
			one(exactly(float64(five.Count)))},
		{"the collector's span metrics: services", `sum by (service_name) (rate(traces_span_metrics_calls_total[5m]))`, "service_name", services},
		{"the collector's span metrics: mean", `sum(rate(traces_span_metrics_duration_milliseconds_sum{service_name="checkout",span_kind="SPAN_KIND_SERVER"}[5m])) / sum(rate(traces_span_metrics_duration_milliseconds_count{service_name="checkout",span_kind="SPAN_KIND_SERVER"}[5m]))`, "",
			one(exactly(1000 * float64(five.Mean)))},
		{"OpenTelemetry's HTTP: rate of a target", `sum(rate(` + requests + `[5m]) * on (job, instance) group_left () target_info)`, "",
			one(exactly(float64(five.Count) / 300))},
		{"OpenTelemetry's HTTP: routes", `topk(10, sum by (http_route) (increase(` + requests + `[30m])))`, "http_route", routes},
		{"OpenTelemetry's HTTP: duration", `histogram_quantile(0.99, sum by (job, le) (rate(http_server_request_duration_seconds_bucket{job=~"checkout|other"}[5m])))`, "job",
			map[string]near{"checkout": inBucketOf(float64(five.Quantiles["0.99"]))}},
		{"Sloth: errors", sli("5m"), "", one(exactly(a.failed(asOf, 5*time.Minute)))},
		{"Sloth: latency", `1 - (sum(rate(http_server_request_duration_seconds_bucket{job="checkout",le="0.025"}[5m])) / (sum(rate(` + requests + `[5m])) > 0))`, "", one(above(five, 0))},
		{"Sloth: period", "sum_over_time(" + sli("5m") + "[30m:5m]) / ignoring (sloth_window) count_over_time(" + sli("5m") + "[30m:5m])", "", one(exactly(mean / n))},
		{"Sloth: burns in both windows", fmt.Sprintf("(max(%s > (14.4 * 0.001)) without (sloth_window)) and (max(%s > (14.4 * 0.001)) without (sloth_window))", sli("5m"), sli("30m")), "", burns(14.4 * 0.001)},
		{"Sloth: does not burn", fmt.Sprintf("(max(%s > (14.4 * 0.05)) without (sloth_window)) and (max(%s > (14.4 * 0.05)) without (sloth_window))", sli("5m"), sli("30m")), "", burns(14.4 * 0.05)},
		{"Pyrra: availability", `1 - sum(increase(` + failing + `[30m]) or vector(0)) / sum(increase(` + requests + `[30m]))`, "", one(exactly(1 - a.failed(asOf, 30*time.Minute)))},
		{"Pyrra: latency", `(sum(rate(` + requests + `[5m])) - sum(rate(http_server_request_duration_seconds_bucket{job="checkout",le="0.05"}[5m]))) / sum(rate(` + requests + `[5m]))`, "", one(above(five, 1))},
		{"Pyrra: latency of native histograms", `1 - histogram_fraction(0, 0.05, sum(rate(span_duration_seconds{service="checkout",kind="server"}[5m])))`, "", one(above(five, 1))},
		{"Argo Rollouts: success", `sum(irate(http_server_request_duration_seconds_count{job="checkout",http_response_status_code!~"5.*"}[5m])) / sum(irate(` + requests + `[5m]))`, "",
			one(exactly(1 - a.failed(asOf, time.Minute)))},
		{"Argo Rollouts: latency", `histogram_quantile(0.95, sum(irate(http_server_request_duration_seconds_bucket{job="checkout"}[5m])) by (le))`, "", one(inBucketOf(float64(minute.Quantiles["0.95"])))},
		{"Flagger: duration", `histogram_quantile(0.99, sum(rate(http_server_request_duration_seconds_bucket{job="checkout",http_route=~"/.*"}[1m])) by (le))`, "", one(inBucketOf(float64(minute.Quantiles["0.99"])))},
		{"nobody", `sum(rate(traces_spanmetrics_calls_total{service="nobody"}[5m]))`, "", nil},
	} {
		v, _, err := prom.Query(t.Context(), c.query, time.Unix(asOf, 0))
		if err != nil {
			t.Errorf("%s: %s: %v", c.of, c.query, err)
			continue
		}
		vector, ok := v.(model.Vector)
		if !ok {
			t.Errorf("%s: %s is a %s", c.of, c.query, v.Type())
			continue
		}
		got := map[string]float64{}
		for _, s := range vector {
			got[string(s.Metric[c.by])] = float64(s.Value)
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(c.want))) {
			t.Errorf("%s: %s answers %v, want %v", c.of, c.query, got, c.want)
			continue
		}
		for name, want := range c.want {
			if e := 1e-9 * math.Abs(want.high); !(got[name] >= want.low-e && got[name] <= want.high+e) {
				t.Errorf("%s: %s is %v %s, the API's %v", c.of, c.query, got[name], name, want)
			}
		}
	}
	if five.Count == 0 || a.failed(asOf, 5*time.Minute) == 0 {
		t.Errorf("the figures of the API have nothing to hold against: %+v", five)
	}
}
