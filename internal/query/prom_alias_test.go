package query

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// aliasStore has spans of two services for ten minutes, one of them in a namespace, and a counter
// that has a label job of its own.
func aliasStore(t *testing.T) (*PromEngine, store.Store) {
	t.Helper()
	st, w := storetest.NewTwin(), querytest.NewWriter()
	span := func(slot, i int64, service, namespace, operation, kind, status string) {
		l := labels.FromStrings(series.LabelService, service, series.LabelOperation, operation, series.LabelKind, kind, series.LabelStatus, status,
			series.LabelComponent, "app", series.LabelInstance, service+"-0", series.LabelVersion, "1.2", series.LabelEnvironment, "production")
		if namespace != "" {
			l = labels.NewBuilder(l).Set(series.LabelNamespace, namespace).Labels()
		}
		w.Span(epoch+slot*10, l, 0.004*math.Exp(float64((slot*20+i)%1000)/200))
	}
	for slot := range int64(60) {
		for i := range int64(20) {
			status := "ok"
			if i == 0 {
				status = "error"
			}
			span(slot, i, "shop", "", "GET /a", "server", status)
			span(slot, i, "shop", "", "POST /b/{id}", "server", "ok")
			span(slot, i, "shop", "", "SELECT a", "client", "ok")
			span(slot, i, "cart", "web", "GET", "server", "ok")
			span(slot, i, "cart", "web", "shop.Cart/Add", "server", "ok")
		}
		w.Number((epoch+slot*10)*1000, series.Series{Family: "queue_total", Kind: series.Counter, View: series.Full, Labels: labels.FromStrings(series.LabelService, "shop", "job", "nightly")}, float64(slot))
		w.Number((epoch+slot*10)*1000, series.Series{Family: "queue_total", Kind: series.Counter, View: series.Full, Labels: labels.FromStrings(series.LabelService, "cart", series.LabelNamespace, "web")}, float64(slot))
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return engineOver(st), st
}

// Queries of published dashboards and rules are answered from spans, with the figures of the spans.
func TestAliases(t *testing.T) {
	e, _ := aliasStore(t)
	const now = epoch + 600
	answer := func(q string) string {
		t.Helper()
		res := run(t, e, q, at(now))
		if res.Err != nil {
			return res.Err.Error()
		}
		v, ok := res.Value.(promql.Vector)
		if !ok {
			return fmt.Sprint(res.Value)
		}
		var out []string
		for _, s := range v {
			out = append(out, fmt.Sprintf("%s %.6g", s.Metric, s.F))
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	for _, c := range []struct{ alias, native string }{
		// The collector's span metrics.
		{`topk(7, sum by (service_name) (rate(traces_span_metrics_calls_total{service_name=~".*", span_name=~".*"}[10m])))`,
			`label_replace(histogram_count(sum by (service) (rate(span_duration_seconds[10m]))), "service_name", "$1", "service", "(.*)")`},
		{`topk(7, sum(rate(traces_span_metrics_calls_total{status_code="STATUS_CODE_ERROR",service_name=~"shop|cart"}[10m])) by (span_name,service_name))`,
			`label_replace(label_replace(histogram_count(sum by (service, operation) (rate(span_duration_seconds{status="error"}[10m]))), "service_name", "$1", "service", "(.*)"), "span_name", "$1", "operation", "(.*)")`},
		{`sum(increase(traces_span_metrics_calls_total{span_kind="SPAN_KIND_SERVER",status_code!="STATUS_CODE_ERROR"}[5m]))`, `vector(30 * 79)`},
		{`sum(increase(calls_total{span_kind=~"SPAN_KIND_SERVER|SPAN_KIND_CLIENT"}[5m]))`, `vector(30 * 100)`},
		{`sum(increase(calls_total{span_kind="server"}[5m])) or vector(0)`, `vector(0)`},
		{`sum(rate(traces_span_metrics_duration_milliseconds_sum{service_name="shop"}[5m])) / sum(rate(traces_span_metrics_duration_milliseconds_count{service_name="shop"}[5m]))`,
			`1000 * histogram_avg(sum(rate(span_duration_seconds{service="shop"}[5m])))`},
		{`histogram_quantile(0.95, sum(rate(traces_span_metrics_duration_milliseconds_bucket{service_name=~"shop", span_name=~"GET.*"}[5m])) by (le))`,
			`1000 * histogram_quantile(0.95, sum(rate(span_duration_seconds_bucket{service="shop",operation=~"GET.*"}[5m])) by (le))`},
		{`sum(rate(duration_milliseconds_bucket{le="250"}[5m]))`, `sum(rate(span_duration_seconds_bucket{le="0.25"}[5m]))`},
		{`histogram_quantile(0.9, sum(rate(traces_spanmetrics_latency_bucket{span_kind=~"SPAN_KIND_SERVER|SPAN_KIND_CONSUMER", job="web/cart", deployment_environment=~".*"}[5m])) by (le))`,
			`histogram_quantile(0.9, sum(rate(span_duration_seconds_bucket{kind="server",service="cart"}[5m])) by (le))`},
		// Semantic conventions: the requests of HTTP alone.
		{`sum(rate(http_server_request_duration_seconds_count{job="shop",http_response_status_code=~"5.."}[5m])) / sum(rate(http_server_request_duration_seconds_count{job="shop"}[5m]))`, `vector(1/40)`},
		{`1 - sum(rate(http_server_request_duration_seconds_bucket{job="shop",le="0.5"}[5m])) / sum(rate(http_server_request_duration_seconds_count{job="shop"}[5m]))`,
			`1 - histogram_fraction(0, 0.5, sum(rate(span_duration_seconds{service="shop",kind="server"}[5m])))`},
		{`sum(increase(http_server_request_duration_seconds_count{http_route="/b/{id}",http_request_method=~"P.*"}[5m]))`, `vector(600)`},
		{`sum(increase(http_server_request_duration_seconds_count{http_route=~"/a|/b.*"}[5m]))`, `vector(1200)`},
		{`sum(increase(http_server_request_duration_seconds_count{http_route=""}[5m]))`, `vector(600)`},
		{`sum(increase(http_server_request_duration_seconds_count[5m]))`, `vector(1800)`},
		{`count(count by (http_route, http_request_method, http_response_status_code) (rate(http_server_request_duration_seconds_count[5m])))`, `vector(4)`},
		// job, by itself and of any family.
		{`sum(increase(span_duration_seconds_count{job=~"shop|web/.*"}[5m]))`, `vector(3000)`},
		{`sum(increase(span_duration_seconds_count{job!="shop"}[5m]))`, `vector(1200)`},
		{`histogram_count(sum(increase(span_duration_seconds{job="cart"}[5m]))) or vector(0)`, `vector(0)`}, // it is web/cart
		{`count by (job) (queue_total{job="nightly"})`, `label_replace(vector(1), "job", "nightly", "", "")`},
		{`count by (job) (queue_total{job=~"web/.*"})`, `label_replace(vector(1), "job", "web/cart", "", "")`},
		{`count(target_info)`, `vector(2)`},
		{`sum by (service_version) (sum by (job, instance) (rate(span_duration_seconds_count[5m])) * on (job, instance) group_left(service_version) target_info)`,
			`label_replace(sum(rate(span_duration_seconds_count[5m])), "service_version", "1.2", "", "")`},
		{`absent(calls_total{job="shop"}) or vector(7)`, `vector(7)`},
	} {
		got := answer(c.alias)
		if want := ownLabels.ReplaceAllString(answer(c.native), ""); got != want || got == "" {
			t.Errorf("%s is\n%s\nwant\n%s", c.alias, got, want)
		}
	}
	for q, want := range map[string]string{
		`target_info{job="web/cart"}`: `{__name__="target_info", deployment_environment="production", deployment_environment_name="production", environment="production", instance="cart-0", job="web/cart", service="cart", service_name="cart", service_namespace="web", service_version="1.2", version="1.2"} 1`,
		`sum by (span_kind, status_code) (increase(traces_spanmetrics_calls_total{service="shop"}[5m]))`: `{span_kind="SPAN_KIND_CLIENT", status_code="STATUS_CODE_UNSET"} 600
{span_kind="SPAN_KIND_SERVER", status_code="STATUS_CODE_ERROR"} 30
{span_kind="SPAN_KIND_SERVER", status_code="STATUS_CODE_UNSET"} 1170`,
		`sum by (http_request_method, http_route, http_response_status_code) (increase(http_server_request_duration_seconds_count{job="shop"}[5m]))`: `{http_request_method="GET", http_response_status_code="200", http_route="/a"} 570
{http_request_method="GET", http_response_status_code="500", http_route="/a"} 30
{http_request_method="POST", http_response_status_code="200", http_route="/b/{id}"} 600`,
		`http_server_request_duration_seconds_count{http_route="/a",http_response_status_code="500"}`: `{__name__="http_server_request_duration_seconds_count", component="app", environment="production", http_request_method="GET", http_response_status_code="500", http_route="/a", instance="shop-0", job="shop", service="shop", service_name="shop", version="1.2"} 1`,
		`absent(traces_span_metrics_calls_total{service_name="nobody",job="x"})`:                      `{job="x", service_name="nobody"} 1`,
		`sum by (job) (increase(span_duration_seconds_count[5m]))`: `{job="shop"} 1800
{job="web/cart"} 1200`,
	} {
		if got := answer(q); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", q, got, want)
		}
	}
}

// ownLabels matches the labels that the alias' form lacks.
var ownLabels = regexp.MustCompile(`\b(service|operation)="[^"]*"(, )?`)

// What a marker says of an alias is read as it was written.
func TestMarkerOfAlias(t *testing.T) {
	for _, c := range []classic{
		{job: true},
		{suffix: "_count", as: "calls_total", job: true},
		{suffix: "_bucket", as: "traces_spanmetrics_latency_bucket", le: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "le", "a,f1b=c")},
			filter: []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotRegexp, "job", "a,b/=%|j"), labels.MustNewMatcher(labels.MatchEqual, "http_route", "")}},
	} {
		want := marker{classic: c, by: []string{"a"}, sum: true}
		got, err := parseMarker(want.String())
		if err != nil || got.String() != want.String() || len(got.classic.filter) != len(c.filter) {
			t.Errorf("%s: got %s, %v", want, got, err)
		}
	}
	for _, bad := range []string{"s/0/0/0/0/a/,f", "s/0/0/0/0/a/,f9x=y", "s/0/0/0/0/a/,f2x=(", "s/0/0/0/0/a/,f0%25x=y"} {
		if m, err := parseMarker(bad); err == nil {
			t.Errorf("%s is read as %s", bad, m)
		}
	}
}

// An answer through an alias agrees with that of the API.
func TestAliasAgreesWithDistribution(t *testing.T) {
	e, st := aliasStore(t)
	d, err := Distribution(context.Background(), st, DistributionRequest{
		Selection: Selection{Start: time.Unix(epoch, 0), End: time.Unix(epoch+600, 0), Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelKind, "server")}},
		By:        []string{series.LabelService, series.LabelOperation},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := instant(t, e, `sum by (service_name, span_name) (increase(traces_span_metrics_calls_total{span_kind="SPAN_KIND_SERVER"}[10m]))`, at(epoch+600))
	if len(v) != len(d.Groups) || len(v) != 4 {
		t.Fatalf("%d series, %d groups", len(v), len(d.Groups))
	}
	for _, g := range d.Groups {
		if !slices.ContainsFunc(v, func(s promql.Sample) bool {
			return s.Metric.Get("service_name") == g.Labels[series.LabelService] && s.Metric.Get("span_name") == g.Labels[series.LabelOperation] && s.F == float64(g.Count)
		}) {
			t.Errorf("%v has %d, and %v", g.Labels, g.Count, v)
		}
	}
}

// A metric that an application sends goes before the alias of its name.
func TestMetricGoesBeforeAlias(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	w.Span(epoch, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /a", series.LabelKind, "server", series.LabelStatus, "ok"), 1)
	w.Number((epoch)*1000, series.Series{Family: "calls_total", Kind: series.Counter, View: series.Full, Labels: labels.FromStrings(series.LabelService, "shop")}, 77)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	if v := instant(t, engineOver(st), "calls_total", at(epoch+10)); len(v) != 1 || v[0].F != 77 {
		t.Errorf("got %v, want the counter that was sent", v)
	}
}

// Look-ups know aliases by name, and jobs.
func TestAliasLookups(t *testing.T) {
	e, _ := aliasStore(t)
	q, err := e.Queryable().Querier(epoch*1000, (epoch+600)*1000)
	if err != nil {
		t.Fatal(err)
	}
	name := func(s string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, s) }
	for _, c := range []struct {
		label string
		ms    []*labels.Matcher
		want  string
	}{
		{"service_name", []*labels.Matcher{name("traces_span_metrics_calls_total")}, "cart shop"},
		{"span_name", []*labels.Matcher{name("traces_spanmetrics_latency_bucket"), labels.MustNewMatcher(labels.MatchEqual, "service_name", "cart")}, "GET shop.Cart/Add"},
		{"http_route", []*labels.Matcher{name("http_server_request_duration_seconds_count")}, "/a /b/{id}"},
		{"job", []*labels.Matcher{name("target_info")}, "shop web/cart"},
		{"job", nil, "shop web/cart"},
		{"job", []*labels.Matcher{name("span_duration_seconds_count")}, "shop web/cart"},
		{"__name__", []*labels.Matcher{name("calls_total"), labels.MustNewMatcher(labels.MatchEqual, "service_name", "cart")}, "calls_total"},
		{"le", []*labels.Matcher{name("traces_span_metrics_duration_milliseconds_bucket")}, "+Inf 10 100 1000 10000 25 250 2500 30000 5 50 500 5000 60000 75 750 7500"},
	} {
		got, _, err := q.LabelValues(context.Background(), c.label, nil, c.ms...)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("values of %s of %v: %v, %v; want %s", c.label, c.ms, got, err, c.want)
		}
	}
	names, _, err := q.LabelNames(context.Background(), nil, name("traces_span_metrics_calls_total"))
	if want := "__name__ component environment instance job service service_name service_namespace span_kind span_name status_code version"; err != nil || strings.Join(names, " ") != want {
		t.Errorf("names: %v, %v; want %s", names, err, want)
	}
	found, _, err := e.Series(context.Background(), at(epoch), at(epoch+600), [][]*labels.Matcher{{name("calls_total"), labels.MustNewMatcher(labels.MatchEqual, "job", "shop")}}, 0)
	if err != nil || len(found) != 4 {
		t.Errorf("%d series, %v: %v", len(found), err, found)
	}
}
