package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// carts fills an hour of a cart in production, at 20 ms, and in staging, at 900 ms.
// whale has 60 % of production's requests, mouse a little of both; the last
// half hour of whale is twice as slow.
func carts(t *testing.T, w *querytest.Writer) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for at := int64(querytest.Epoch); at < querytest.Epoch+3600; at += 10 {
		for i := range 50 {
			tenant, seconds := fmt.Sprint("t", i%20), 0.02
			if i < 30 {
				if tenant = "whale"; at >= querytest.Epoch+1800 {
					seconds = 0.04
				}
			}
			span := func(environment, tenant, system, peer string, seconds float64) {
				kind, operation, component := "server", "GET /cart", "app"
				if system != "" {
					kind, operation, component = "client", "get x", "db"
				}
				w.Span(at, labels.FromStrings("service", "cart", "operation", operation, "component", component, "kind", kind, "status", "ok",
					"environment", environment, "tenant", tenant, "instance", "i", "system", system, "peer", peer), seconds*(0.9+0.2*rng.Float64()))
			}
			span("production", tenant, "", "", seconds)
			if i%5 == 0 {
				span("staging", "mouse", "", "", 0.9)
				span("production", "", "riak", fmt.Sprint("riak-", i/5%2), 0.003)
				span("production", "", "mysql", "db:3306", 0.001)
			}
		}
	}
}

func cartServer(t *testing.T) func(path string, params ...string) (int, string) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	carts(t, w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, Options{Store: st})
	return func(path string, params ...string) (int, string) {
		if path != "/api/v1/sla" {
			params = append(params, "start", "now-1h")
		}
		return fetch(t, srv, path, append(params, "end", "now")...)
	}
}

func read[T any](t *testing.T, code int, body string) (out T) {
	t.Helper()
	if code != 200 {
		t.Fatalf("%d: %s", code, body)
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// What names something that nobody ever sent is refused, with the nearest name that somebody
// did, by every question that would else find too little data.
func TestNamesThatNobodySent(t *testing.T) {
	ask := cartServer(t)
	const environments = `/api/v1/labels?names=environment and tailscope query distribution --by environment list those there are`
	for _, c := range []struct{ match, says string }{
		{`{service="cat"}`, `there is no service "cat"; did you mean "cart"? /api/v1/labels?names=service and tailscope query services list`},
		{`{service="cart",environment="prod"}`, `there is no environment "prod" of cart; did you mean "production"? ` + environments},
		{`{environment="qa",service="cart"}`, `there is no environment "qa" of cart; write one of production, staging; ` + environments},
		{`{service="cart",operation="GET /crat"}`, `there is no operation "GET /crat" of cart; did you mean "GET /cart"?`},
		{`{service="cart",tenant="wale"}`, `there is no tenant "wale" of cart; did you mean "whale"? /api/v1/labels?names=tenant and tailscope query tenants list`},
		{`{service="cart",version="1.0"}`, `there is no version "1.0" of cart; nothing of it has the label version: leave it out`},
	} {
		for path, more := range map[string][]string{
			"compare": {"a", "now-60m/now-30m", "b", "now-30m/now"}, "explain": {"low", "0.1"}, "scaling": nil, "breakdown": nil, "heatmap": nil,
		} {
			code, body := ask("/api/v1/"+path, append([]string{"match", c.match}, more...)...)
			if e := decodeJSON[api.Error](t, body).Error; code != 404 || e.Code != "not_found" || e.Field != "match" || !strings.HasPrefix(e.Message, c.says) {
				t.Errorf("%s of %s: got %d %+v, want 404 %s", path, c.match, code, e, c.says)
			}
		}
	}
	// Names that are known, and have nothing together, are no mistake.
	code, body := ask("/api/v1/compare", "match", `{service="cart",environment="staging",tenant="whale"}`, "a", "now-60m/now-30m", "b", "now-30m/now")
	if r := read[api.CompareResponse](t, code, body); r.Verdict != "too little data" {
		t.Errorf("got %s", body)
	}
}

// Lists are judged by the measures that were asked for.
func TestRowsHaveTheMeasuresAskedFor(t *testing.T) {
	ask := cartServer(t)
	code, body := ask("/api/v1/compare", "match", `{service="cart",environment="production"}`, "a", "now-60m/now-30m", "b", "now-30m/now", "measures", "p99,errors")
	r := read[api.CompareResponse](t, code, body)
	if len(r.Operations)+len(r.Tenants) == 0 {
		t.Fatal(body)
	}
	for _, row := range append(r.Operations, r.Tenants...) {
		if m := row.Measures; len(m) != 2 || m[0].Name != "p99" || m[1].Name != "errors" {
			t.Errorf("%s%s has %+v", row.Operation, row.Tenant, m)
		}
	}
}

// Production and staging are two rows, and what takes them together says so.
func TestEnvironments(t *testing.T) {
	ask := cartServer(t)
	code, body := ask("/api/v1/services")
	services := read[api.ServicesResponse](t, code, body).Services
	if len(services) != 2 || services[0].Environment != "production" || services[1].Environment != "staging" {
		t.Fatalf("services %+v", services)
	}
	for i, want := range []float64{0.022, 0.9} {
		if got := float64(services[i].Quantiles["0.5"]); got < want*0.8 || got > want*1.8 || services[i].Requests != []uint64{18000, 3600}[i] {
			t.Errorf("%s: p50 %g of %d requests, want about %g", services[i].Environment, got, services[i].Requests, want)
		}
	}
	const text = `2 environments are taken together: production (83 %), staging (17 %); name one: environment=\"production\"`
	for path, params := range map[string][]string{
		"heatmap": nil, "timeline": {"by", "operation"}, "distribution": nil, "tenants": nil, "operations": nil, "explain": {"low", "0.5"}, "sla": nil,
	} {
		code, body := ask("/api/v1/"+path, append(params, "match", `{service="cart",kind="server"}`)...)
		if code != 200 || !strings.Contains(body, text) {
			t.Errorf("%s: %d, %s lacks %s", path, code, body[:min(len(body), 300)], text)
		}
		for _, alone := range []string{`{service="cart",kind="server",environment="staging"}`, `{service="cart",kind="server",tenant="whale"}`} {
			if code, body := ask("/api/v1/"+path, append(params, "match", alone)...); code != 200 || strings.Contains(body, "together") {
				t.Errorf("%s of %s: %d, %s", path, alone, code, body)
			}
		}
	}
	if code, body := ask("/api/v1/timeline", "by", "environment", "match", `{service="cart"}`); code != 200 || strings.Contains(body, "together") {
		t.Errorf("by environment: %d, %s", code, body)
	}
	half := querytest.Epoch + 1800
	sides := []string{"a", fmt.Sprintf("%d/%d", half-1800, half), "b", fmt.Sprintf("%d/%d", half, half+1800)}
	compared := func(match string, params ...string) string {
		code, body := ask("/api/v1/compare", append(params, "match", match)...)
		out := ""
		for _, w := range read[api.CompareResponse](t, code, body).Warnings {
			if w.Code == "environments" {
				out += w.Text
			}
		}
		return out
	}
	if got, want := compared(`{service="cart",kind="server"}`, sides...), strings.ReplaceAll(text, `\"`, `"`); got != want {
		t.Errorf("compare warns %q, want %q", got, want)
	}
	if got := compared(`{service="cart",kind="server",environment="production"}`, sides...); got != "" {
		t.Errorf("compare of production warns %q", got)
	}
	if got := compared(`{service="cart",kind="server"}`, "label", "environment", "a", "production", "b", "staging"); got != "" {
		t.Errorf("compare by environment warns %q", got)
	}
	code, body = ask("/api/v1/scaling", "match", `{service="cart",kind="server"}`)
	if r := read[api.ScalingResponse](t, code, body); len(r.Warnings) == 0 || !strings.HasPrefix(r.Warnings[len(r.Warnings)-1].Text, "2 environments are taken together") {
		t.Errorf("scaling warns %+v", r.Warnings)
	}
	code, body = ask("/api/v1/labels", "match", `{service="cart"}`, "names", "environment,peer")
	for _, l := range read[api.LabelsResponse](t, code, body).Labels {
		if want := map[string]uint64{"environment": 0, "peer": 21600}[l.Name]; l.Without != want {
			t.Errorf("%d observations are without %s, want %d", l.Without, l.Name, want)
		}
	}
	code, body = ask("/api/v1/apdex", "match", `{service="cart"}`)
	if rows := read[api.ApdexResponse](t, code, body).Rows; len(rows) != 2 || rows[0].Environment != "production" || rows[0].Apdex != 1 || rows[1].Apdex != 0.5 {
		t.Errorf("apdex %+v", rows)
	}
}

// Which database, and which node of it.
func TestBackends(t *testing.T) {
	ask := cartServer(t)
	code, body := ask("/api/v1/distribution", "match", `{service="cart",kind="client"}`, "by", "system,peer")
	got := ""
	for _, g := range read[api.DistributionResponse](t, code, body).Groups {
		got += fmt.Sprintf("%s %s %d %.3f\n", g.Labels["system"], g.Labels["peer"], g.Count, float64(g.Mean))
	}
	if want := "mysql db:3306 3600 0.001\nriak riak-0 1800 0.003\nriak riak-1 1800 0.003\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	code, body = ask("/api/v1/operations", "match", `{service="cart",kind="client"}`)
	if rows := read[api.OperationsResponse](t, code, body).Rows; len(rows) != 2 || rows[0].System != "riak" || rows[1].System != "mysql" {
		t.Errorf("operations %+v", rows)
	}
	code, body = ask("/api/v1/breakdown", "match", `{service="cart",environment="production"}`, "q", "0.5")
	backends, share := read[api.BreakdownResponse](t, code, body).Backends, 0.0
	got = ""
	for _, b := range backends {
		got += fmt.Sprintf("%s %s %d %.1f %.3f, ", b.System, b.Peer, b.Calls, float64(b.Seconds), float64(b.Quantiles["0.5"]))
		share += float64(b.Share)
	}
	if want := "riak riak-1 1800 5.4 0.003, riak riak-0 1800 5.4 0.003, mysql db:3306 3600 3.6 0.001, "; got != want || math.Abs(share-1) > 1e-9 || backends[0].Component != "db" {
		t.Errorf("backends %s whose shares are %g, want %s", got, share, want)
	}
	for _, alone := range []string{`{service="cart",environment="staging"}`, `{service="cart",operation="GET /cart"}`} {
		code, body := ask("/api/v1/breakdown", "match", alone)
		if some := read[api.BreakdownResponse](t, code, body).Backends; len(some) > 0 {
			t.Errorf("backends of %s: %+v", alone, some)
		}
	}
	if code, body := ask("/api/v1/distribution", "match", `{tenant="whale"}`, "by", "peer"); code != 400 || !strings.Contains(body, "tenant and peer are not kept together") {
		t.Errorf("%d, %s", code, body)
	}
}

// A cohort selects as its tenants do, in every question.
func TestCohortSelects(t *testing.T) {
	ask := cartServer(t)
	const start = querytest.Epoch
	for cohort, tenants := range map[string]string{
		`cohort="very large"`: `tenant=~"whale|mouse"`, `cohort="large"`: `tenant=~"t.*"`, `cohort=~".*large"`: `tenant!=""`, `cohort="small"`: `tenant=~"nobody"`, `cohort!="very-large"`: `tenant!~"whale|mouse"`,
	} {
		for path, params := range map[string][]string{
			"/api/v1/heatmap": nil, "/api/v1/distribution": {"by", "operation"}, "/api/v1/timeline": {"by", "status", "width", "10"}, "/api/v1/services": nil,
			"/api/v1/apdex": nil, "/api/v1/operations": nil, "/api/v1/explain": {"low", "0.03"},
			"/api/v1/compare": {"a", fmt.Sprintf("%d/%d", start, start+1800), "b", fmt.Sprintf("%d/%d", start+1800, start+3600)},
		} {
			if strings.Contains(cohort, "small") && (path == "/api/v1/compare" || path == "/api/v1/explain" || path == "/api/v1/heatmap") {
				continue // neither has requests, and who is in no name is refused
			}
			code, got := ask(path, append(params, "match", `{service="cart",kind="server",`+cohort+`}`)...)
			_, want := ask(path, append(params, "match", `{service="cart",kind="server",`+tenants+`}`)...)
			if path == "/api/v1/compare" {
				if code != 200 {
					t.Errorf("compare of %s: %d, %s", cohort, code, got)
					continue
				}
				a, b := read[api.CompareResponse](t, code, got), read[api.CompareResponse](t, 200, want)
				if a.Verdict != b.Verdict || fmt.Sprint(a.A.Requests, a.B.Requests) != fmt.Sprint(b.A.Requests, b.B.Requests) || !strings.Contains(a.Of, "cohort") {
					t.Errorf("compare of %s: %s %v, %v; want %s %v, %v", cohort, a.Of, a.Verdict, a.A.Requests, b.Of, b.Verdict, b.A.Requests)
				}
				continue
			}
			if code != 200 || got != want {
				t.Errorf("%s of %s: %d\n%.600s\nwant\n%.600s", path, cohort, code, got, want)
			}
		}
		prom := func(match string) string {
			_, body := ask("/prometheus/api/v1/query", "query", `sum(histogram_count(increase(span_duration_seconds{service="cart",`+match+`}[1h])))`, "time", fmt.Sprint(start+3600))
			return body
		}
		if got, want := prom(cohort), prom(tenants); got != want {
			t.Errorf("PromQL of %s: %s, want %s", cohort, got, want)
		}
	}
	if code, body := ask("/api/v1/heatmap", "match", `{cohort="huge"}`); code != 400 || !strings.Contains(body, "very large, large") {
		t.Errorf("%d, %s", code, body)
	}
	var cohorts []string
	code, body := ask("/api/v1/timeline", "match", `{service="cart",cohort=~".*large"}`, "by", series.LabelCohort, "width", "2")
	for _, g := range read[api.TimelineResponse](t, code, body).Groups {
		cohorts = append(cohorts, g.Labels["cohort"])
	}
	if fmt.Sprint(cohorts) != "[very large large]" {
		t.Errorf("by cohort: %q", cohorts)
	}
	code, body = ask("/api/v1/tenants", "match", `{service="cart",cohort="very large"}`, "sort", "requests")
	if list := read[api.TenantsResponse](t, code, body).Tenants; len(list) != 2 || list[0].Name != "whale" || list[0].Cohort != "very large" {
		t.Errorf("tenants %+v", list)
	}
}

// A tenant that is named is in the cohort that it is in among all tenants of its service.
func TestCohortOfANamedTenant(t *testing.T) {
	ask := cartServer(t)
	const start = querytest.Epoch
	for tenant, want := range map[string][]string{`tenant="whale"`: {"very large"}, `tenant=~"t.*"`: {"large"}, `tenant=~"t.*|whale"`: {"very large", "large"}} {
		match := `{service="cart",` + tenant + `}`
		var groups, listed []string
		code, body := ask("/api/v1/timeline", "match", match, "by", series.LabelCohort, "width", "2")
		for _, g := range read[api.TimelineResponse](t, code, body).Groups {
			groups = append(groups, g.Labels["cohort"])
		}
		code, body = ask("/api/v1/tenants", "match", match)
		for _, c := range read[api.TenantsResponse](t, code, body).Cohorts {
			listed = append(listed, c.Name)
		}
		if !slices.Equal(groups, want) || !slices.Equal(listed, want) {
			t.Errorf("%s: by cohort %q, tenants %q, want %q", match, groups, listed, want)
		}
		code, body = ask("/api/v1/compare", "match", match, "a", fmt.Sprintf("%d/%d", start, start+1800), "b", fmt.Sprintf("%d/%d", start+1800, start+3600), "include", "cohorts")
		for _, row := range read[api.CompareResponse](t, code, body).Cohorts {
			if !slices.Contains(want, row.Cohort) {
				t.Errorf("compare of %s: cohort %s, want %q", match, row.Cohort, want)
			}
		}
		_, values := ask("/prometheus/api/v1/label/cohort/values", "match[]", match, "start", fmt.Sprint(start), "end", fmt.Sprint(start+3600))
		_, sums := ask("/prometheus/api/v1/query", "query", `sum by (cohort) (histogram_count(increase(span_duration_seconds`+match+`[1h])))`, "time", fmt.Sprint(start+3600))
		for _, cohort := range []string{"very large", "large", "medium", "small"} {
			if quoted, in := `"`+cohort+`"`, slices.Contains(want, cohort); strings.Contains(values, quoted) != in || strings.Contains(sums, quoted) != in {
				t.Errorf("%s: values %s, PromQL %s, want %q", match, values, sums, want)
			}
		}
	}
}

// A cohort is a label like others in PromQL: it groups, and its groups add up to the whole.
func TestPromQLByCohort(t *testing.T) {
	ask := cartServer(t)
	prom := func(query string) string {
		t.Helper()
		code, body := ask("/prometheus/api/v1/query", "query", query, "time", fmt.Sprint(querytest.Epoch+3600))
		var got struct {
			Data struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
			Error string
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 && got.Error == "" {
			t.Fatalf("%s: %d, %s (%v)", query, code, body, err)
		}
		if got.Error != "" {
			return got.Error
		}
		var out []string
		for _, r := range got.Data.Result {
			out = append(out, fmt.Sprintf("%s=%v", r.Metric["cohort"], r.Value[1]))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	of := func(cohort string) string {
		return prom(`sum(histogram_count(increase(span_duration_seconds{service="cart",kind="server",cohort="` + cohort + `"}[1h])))`)[1:]
	}
	by := "large=" + of("large") + " very large=" + of("very large")
	for query, want := range map[string]string{
		`sum by (cohort) (histogram_count(increase(span_duration_seconds{service="cart",kind="server"}[1h])))`:                                                                                  by,
		`histogram_count(sum by (cohort) (increase(span_duration_seconds{service="cart",kind="server"}[1h])))`:                                                                                  by,
		`sum by (cohort) (histogram_count(increase(span_duration_seconds{service="cart"}[1h])))`:                                                                                                "=7160 " + by,
		`sum without (operation, status, tenant, environment, service, component, kind) (histogram_count(increase(span_duration_seconds{service="cart",kind="server",cohort=~".*large"}[1h])))`: by,
		`count by (cohort) (sum by (tenant, cohort) (increase(span_duration_seconds{service="cart",kind="server"}[1h])))`:                                                                       "large=20 very large=2",
		`sum by (cohort) (histogram_count(increase(span_duration_seconds{service="cart",kind="server",cohort=~"large|huge"}[1h])))`:                                                             "large=" + of("large"),
		`sum by (cohort) (increase(span_duration_seconds{cohort="huge"}[1h]))`:                                                                                                                  `there is no cohort "huge"; write one of very large, large, medium, small`,
		`sum(increase(span_duration_seconds{cohort=~"huge.*"}[1h]))`:                                                                                                                            `no cohort matches cohort=~"huge.*"; there are very large, large, medium, small`,
	} {
		if got := prom(query); got != want {
			t.Errorf("%s\n got %s\nwant %s", query, got, want)
		}
	}
	code, body := ask("/prometheus/api/v1/label/cohort/values", "match[]", `span_duration_seconds{service="cart"}`, "start", fmt.Sprint(querytest.Epoch), "end", fmt.Sprint(querytest.Epoch+3600))
	if code != 200 || !strings.Contains(body, `["large","very large"]`) {
		t.Errorf("values of cohort: %d, %s", code, body)
	}
}

// A name that nobody sent is told with the nearest there is: lists stay empty and say so,
// pictures are refused.
func TestUnknownNames(t *testing.T) {
	ask := cartServer(t)
	lists := []string{"/api/v1/services", "/api/v1/distribution", "/api/v1/timeline", "/api/v1/operations", "/api/v1/tenants", "/api/v1/traces", "/api/v1/apdex", "/api/v1/sla", "/api/v1/changes"}
	for _, c := range []struct{ match, label, name, nearest, says string }{
		{`{service="kart"}`, "service", "kart", "cart", `there is no service "kart"; did you mean "cart"?`},
		{`{service="cart",tenant="wale"}`, "tenant", "wale", "whale", `there is no tenant "wale" of cart; did you mean "whale"?`},
		{`{service="cart",operation="zzzzzzzz"}`, "operation", "zzzzzzzz", "", `there is no operation "zzzzzzzz" of cart; write one of`},
	} {
		for _, path := range lists {
			code, body := ask(path, "match", c.match)
			var got api.Misnamed
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%s: %v in %s", path, err, body)
			}
			if i := got.Instead; code != 200 || i == nil || i.Label != c.label || i.Name != c.name || strings.Join(i.Nearest, " ") != c.nearest || !strings.HasPrefix(i.Message, c.says) {
				t.Errorf("%s of %s: %d, %+v, want %s", path, c.match, code, i, c.says)
			}
		}
		for _, path := range []string{"/api/v1/heatmap", "/api/v1/scaling"} {
			code, body := ask(path, "match", c.match)
			var got api.Error
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%s: %v in %s", path, err, body)
			}
			if i := got.Error.Instead; code != 404 || i == nil || i.Name != c.name || i.Message != got.Error.Message {
				t.Errorf("%s of %s: %d, %s", path, c.match, code, body)
			}
		}
	}
	for _, path := range lists {
		for _, match := range []string{`{service="cart"}`, `{service=~"kart|cat"}`, `{service="cart",status="error"}`} {
			if code, body := ask(path, "match", match); code == 200 && strings.Contains(body, `"instead"`) {
				t.Errorf("%s of %s: %s", path, match, body)
			}
		}
	}
}
