package httpapi

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/agg"
	"tailscope/internal/guard/check"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
)

// gauge is a prober that measures what a test says.
type gauge struct {
	mu sync.Mutex
	v  float64
}

func (g *gauge) set(v float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.v = v
}

func (g *gauge) Probe(context.Context, *spec.Source) event.Reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	return event.Reading{Value: g.v, Text: "as told"}
}

// checkedOrders begins files of checks of which nothing runs by itself while a test does.
const checkedOrders = `
checks:
  orders:
    description: orders that wait
    value: {tcp: {address: "queue:5672"}}
    every: 24h
    threshold: {must: "<", of: 10, warning: 0, critical: 100%}
    soft: 1 of 1`

const guarded = checkedOrders + `
  slow:
    each: {series: 'span_duration_seconds{service="checkout"}', by: [service, operation], within: 2h}
    value: {query: {measure: p99, series: 'span_duration_seconds{service="checkout"}', over: 10m}}
    every: 24h
    threshold: {must: "<", of: 'p99(span_duration_seconds{service=$service,operation=$operation}[-30M:-0M])', critical: 50%}
`

// guard serves the shop with an engine of checks over a store in memory.
func guard(t *testing.T) (*httptest.Server, *gauge) {
	t.Helper()
	return guardOver(t, filled(t, pebble(t)), guarded)
}

// guardOver serves a store with an engine of the checks of a file.
func guardOver(t *testing.T, st store.Store, definitions string) (*httptest.Server, *gauge) {
	t.Helper()
	g := &gauge{v: 3}
	e, stop := openChecks(t, st, definitions, t.TempDir(), g)
	t.Cleanup(stop)
	return serve(t, Options{Store: st, Checks: e}), g
}

// openChecks runs an engine of the checks of a file over a store, with a data directory, until
// stop.
func openChecks(t *testing.T, st store.Store, definitions, dir string, g *gauge) (e *check.Engine, stop func()) {
	t.Helper()
	clock := func() time.Time { return now }
	a, err := agg.Open(t.Context(), st, agg.Options{Writer: "local", Dir: filepath.Join(dir, "journal"), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "checks.yaml")
	if err := os.WriteFile(path, []byte(definitions), 0o600); err != nil {
		t.Fatal(err)
	}
	file, problems := spec.Read([]string{path}, spec.Options{})
	for _, p := range problems {
		t.Fatal(p)
	}
	if e, err = check.Open(t.Context(), check.Options{Store: st, Agg: a, Prober: g, File: *file, Now: clock}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	return e, func() {
		cancel()
		<-done
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// ask sends a request that must be answered by status with a T, or with nothing.
func ask[T any](t *testing.T, srv *httptest.Server, method, path, body string, status int) T {
	t.Helper()
	var out T
	got, text := send(t, srv, method, "/api/v1"+path, body)
	if got != status {
		t.Fatalf("%s %s: status %d: %s", method, path, got, text)
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return out
}

func TestChecksAnswer(t *testing.T) {
	srv, g := guard(t)
	for _, c := range badChecks {
		status, body := send(t, srv, c.method, "/api/v1"+strings.ReplaceAll(c.path, "{", "%7B"), c.body)
		wantAnswer(t, c.method+" "+c.path+" "+c.body[:min(len(c.body), 60)], status, body, c.status, c.field, c.words)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		field, words       string
	}{
		{"GET", "/checks?state=poor", "", 400, "state", "write OK, WARNING"},
		{"GET", "/check?id=ordres", "", 404, "id", `did you mean "orders"?`},
		{"POST", "/check/run?id=ordres", "", 404, "id", "did you mean"},
		{"POST", "/check/acknowledge?id=orders", `{"user":"ann"}`, 400, "id", "no open incident"},
		{"DELETE", "/check/acknowledge?id=orders&user=ann", "", 400, "id", "not acknowledged"},
		{"POST", "/checks/evaluate", `{"expression":"avg(x[-24])"}`, 400, "expression", "unit"},
		{"POST", "/checks/evaluate", `{"expression":"1","check":"ordres"}`, 404, "check", "did you mean"},
		{"POST", "/checks/evaluate", `{"expression":"1","null":"none"}`, 400, "null", "strict"},
		{"POST", "/checks/backtest", `{"check":"orders","threshold":{"must":"~","of":"1"}}`, 400, "threshold.must", ""},
		{"POST", "/checks/backtest", `{"value":"1+","threshold":{"must":"<","of":"1"}}`, 400, "value", ""},
		{"DELETE", "/incidents/7", "", 404, "id", "no incident"},
		{"DELETE", "/maintenance/7", "", 404, "id", ""},
		{"POST", "/maintenance", `{"name":"x","end":1778400000,"checks":["ordres"]}`, 400, "checks", "did you mean"},
	} {
		status, body := send(t, srv, c.method, "/api/v1"+c.path, c.body)
		wantAnswer(t, c.method+" "+c.path+" "+c.body, status, body, c.status, c.field, c.words)
	}

	if c := ask[api.Check](t, srv, "POST", "/check/run?id=orders", "", 200); c.State != "OK" || c.Value != 3 || c.Text != "as told" {
		t.Errorf("a run: %+v", c)
	}
	g.set(12)
	if c := ask[api.Check](t, srv, "POST", "/check/run?id=orders", "", 200); c.State != "WARNING" || c.Incident == nil || c.Bands.HighCritical != 20 {
		t.Errorf("a bad run: %+v", c)
	}
	bad := ask[api.ChecksResponse](t, srv, "GET", "/checks?state=bad&q=WAIT&match="+url.QueryEscape(`{check="orders"}`), "", 200)
	if bad.Total != 1 || len(bad.Checks) != 1 || bad.Checks[0].ID != "orders" || bad.Counts["WARNING"] != 1 {
		t.Errorf("bad checks: %+v", bad)
	}
	if by := ask[api.ChecksResponse](t, srv, "GET", "/checks?match=orders", "", 200); by.Total != 1 {
		t.Errorf("by name: %+v", by)
	}
	c := ask[api.Check](t, srv, "POST", "/check/acknowledge?id=orders", `{"user":"ann","comment":"on it"}`, 200)
	if c.Incident == nil || c.Incident.Acked == nil || c.Incident.Acked.User != "ann" || !strings.Contains(c.Quiet, "ann") {
		t.Errorf("acknowledged: %+v, %+v", c, c.Incident)
	}
	if c := ask[api.Check](t, srv, "DELETE", "/check/acknowledge?id=orders&user=ann", "", 200); c.Incident == nil || c.Incident.Acked != nil || c.Quiet != "" {
		t.Errorf("taken back: %+v", c)
	}
	one := ask[api.CheckResponse](t, srv, "GET", "/check?id=orders&start=now-1h&end=now%2B1m", "", 200)
	if one.Check.State != "WARNING" || !strings.Contains(one.File, "checks.yaml:3") || len(one.Incidents) != 1 {
		t.Errorf("one check: %+v", one)
	}

	found := ask[api.IncidentsResponse](t, srv, "GET", "/incidents?open=true&check=orders&kind=check", "", 200)
	if len(found.Incidents) != 1 || found.Incidents[0].Worst != "WARNING" {
		t.Errorf("incidents: %+v", found)
	}
	start := float64(now.Unix())
	body, err := json.Marshal(api.MarkedIncident{Name: "disk full", Service: "checkout", Start: api.Float(start - 1200), End: api.Float(start - 600)})
	if err != nil {
		t.Fatal(err)
	}
	marked := ask[api.Incident](t, srv, "POST", "/incidents", string(body), 201)
	if marked.ID == "" || marked.Kind != "marked" || marked.Name != "disk full" {
		t.Errorf("marked: %+v", marked)
	}
	if all := ask[api.IncidentsResponse](t, srv, "GET", "/incidents?start=now-1h&limit=1", "", 200); len(all.Incidents) != 1 {
		t.Errorf("limited: %+v", all)
	}

	body, err = json.Marshal(api.Maintenance{Name: "upgrade", Checks: []string{"orders"}, End: api.Float(start + 600), User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	m := ask[api.Maintenance](t, srv, "POST", "/maintenance", string(body), 201)
	if m.ID == "" || !m.Active || float64(m.Start) != start {
		t.Errorf("maintenance: %+v", m)
	}
	if all := ask[api.ChecksResponse](t, srv, "GET", "/checks?q=orders", "", 200); len(all.Checks) == 0 || all.Checks[0].Quiet != "maintenance upgrade" {
		t.Errorf("in maintenance: %+v", all)
	}
	asDescribed(t, srv, map[string]string{"checks": "", "check": "id=orders&end=now%2B1m", "incidents": "", "maintenance": ""})
	ask[struct{}](t, srv, "DELETE", "/maintenance/"+m.ID, "", 204)
	if all := ask[api.ChecksResponse](t, srv, "GET", "/checks?q=orders", "", 200); all.Checks[0].Quiet != "" {
		t.Errorf("after maintenance: %+v", all)
	}

	ask[struct{}](t, srv, "DELETE", "/incidents/"+marked.ID, "", 204)
	status, text := send(t, srv, "DELETE", "/api/v1/incidents/"+found.Incidents[0].ID, "")
	wantAnswer(t, "forget a check's", status, text, 400, "id", "only marked ones")
}

// Ids with quotes, slashes and braces come through, and so do questions of the
// past of what they name.
func TestChecksOfEach(t *testing.T) {
	srv, _ := guard(t)
	var list api.ChecksResponse
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if list = ask[api.ChecksResponse](t, srv, "GET", "/checks?match=slow", "", 200); list.Total > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond) // the engine looks for series as soon as it runs
	}
	if list.Total == 0 {
		t.Fatal("no series is guarded")
	}
	c := list.Checks[0]
	if !strings.HasPrefix(c.ID, `slow{operation="`) || !strings.Contains(c.ID, "/") || c.Labels["service"] != "checkout" {
		t.Fatalf("the check is %+v", c)
	}
	id := "?id=" + url.QueryEscape(c.ID)
	if one := ask[api.CheckResponse](t, srv, "GET", "/check"+id, "", 200); one.Check.ID != c.ID || len(one.ThresholdSteps) == 0 {
		t.Errorf("one check: %+v", one)
	}
	if ran := ask[api.Check](t, srv, "POST", "/check/run"+id, "", 200); ran.State != "OK" || !(ran.Value > 0) || !(ran.Bands.Threshold > 0) {
		t.Errorf("a run: %+v", ran)
	}
	status, text := send(t, srv, "GET", "/api/v1/check?id=slow", "")
	wantAnswer(t, "the definition", status, text, 404, "id", "name one, such as slow{")

	body, err := json.Marshal(api.CheckEvaluate{
		Expression: `p99(span_duration_seconds{service="checkout"}[-30M:-0M]) * 2`, Check: c.ID,
		Start: api.Float(now.Unix() - 1800), End: api.Float(now.Unix()), Step: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := ask[api.CheckEvaluateResponse](t, srv, "POST", "/checks/evaluate", string(body), 200)
	if !(e.Value > 0) || len(e.Steps) < 3 || len(e.Points) < 30 || e.Truncated {
		t.Errorf("evaluated: %v, %d steps, %d points", e.Value, len(e.Steps), len(e.Points))
	}

	body, err = json.Marshal(api.CheckBacktest{
		Check: c.ID, Threshold: &api.CheckThreshold{Must: "<", Of: "0.001", Critical: "0"},
		Start: api.Float(now.Unix() - 3600), Every: 60, States: &api.CheckStates{Bad: "2 of 2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := ask[api.CheckBacktestResponse](t, srv, "POST", "/checks/backtest", string(body), 200)
	if b.Runs < 50 || len(b.Alarms) == 0 || b.Before == nil || b.Before.Alarms > len(b.Alarms) {
		t.Errorf("backtest: %+v", b)
	}
}

// A check that takes production and staging together says so in its list.
func TestChecksOfEnvironments(t *testing.T) {
	st, w := pebble(t), querytest.NewWriter()
	carts(t, w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	srv, _ := guardOver(t, st, `
checks:
  all: {every: 24h, value: {query: {measure: p99, series: 'span_duration_seconds{service="cart",kind="server"}'}}}
  computed: {every: 24h, value: 'p99(span_duration_seconds{service="cart",kind="server"}[-5M:-0M])'}
  production: {every: 24h, value: {query: {measure: p99, series: 'span_duration_seconds{service="cart",environment="production"}'}}}
  outside: {every: 24h, value: {tcp: {address: "cart:5672"}}}
  each:
    every: 24h
    each: {series: 'span_duration_seconds{service="cart"}', by: [service, environment], within: 2h}
    value: {query: {measure: p99, series: 'span_duration_seconds{service="cart"}'}}
  operations:
    every: 24h
    each: {series: 'span_duration_seconds{service="cart",kind="server"}', by: [operation], within: 2h}
    value: {query: {measure: p99, series: 'span_duration_seconds{service="cart",kind="server"}'}}
`)
	const text = `2 environments are taken together: production (83 %), staging (17 %); name one: environment="production"`
	want := map[string]string{
		"all": text, "computed": text, "production": "", "outside": "", `operations{operation="GET /cart"}`: text,
		`each{environment="production", service="cart"}`: "", `each{environment="staging", service="cart"}`: "",
	}
	for _, c := range ask[api.ChecksResponse](t, srv, "GET", "/checks", "", 200).Checks {
		expected, known := want[c.ID]
		if got := strings.Join(c.Warnings, "; "); !known || got != expected {
			t.Errorf("%s warns %q, want %q", c.ID, got, expected)
		}
		delete(want, c.ID)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	if got := ask[api.CheckResponse](t, srv, "GET", "/check?id=all", "", 200).Check.Warnings; len(got) != 1 || got[0] != text {
		t.Errorf("one check warns %q, want %q", got, text)
	}
}
