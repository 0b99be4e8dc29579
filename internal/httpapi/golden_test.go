package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// question has its answer in testdata.
type question struct {
	name, path string
	params     []string
}

// goldenSet is data and questions about them.
type goldenSet struct {
	name    string
	options Options
	// fill puts the data into a store. dir is the server's directory beside the store. It returns
	// the ids that were given, each after the word that stands for it in questions and in testdata.
	fill func(t *testing.T, st store.Store, dir string) (ids []string)
	// open, if not nil, adds the parts of a server that was started after fill.
	open      func(t *testing.T, o *Options, dir string)
	render    func(*testing.T, string) string
	questions []question
}

var goldenSets = []goldenSet{
	{
		name:    "shop",
		options: Options{Status: api.StatusResponse{Version: "1.2.3", OTLPGRPC: "127.0.0.1:4317", FlushSeconds: 11}, StatusWait: time.Minute},
		fill:    func(t *testing.T, st store.Store, _ string) []string { filled(t, st); return nil },
		render:  indent,
		questions: []question{
			{"status", "/api/v1/status", nil},
			{"cluster", "/api/v1/cluster", nil},
			{"families", "/api/v1/families", nil},
			{"services", "/api/v1/services", []string{"start", "now-1h", "step", "20m"}},
			{"distribution", "/api/v1/distribution", []string{"start", "now-1h", "match", `{service="checkout",kind="server"}`, "by", "operation,status", "q", "0.5,0.999", "at", "0.04,0.2"}},
			{"distribution-buckets", "/api/v1/distribution", []string{"start", "now-60s", "match", `{tenant="umbrella"}`, "buckets", "true"}},
			{"distribution-explicit", "/api/v1/distribution", []string{"start", "now-1h", "family", "job_seconds", "buckets", "true", "at", "0.25,0.4"}},
			{"distribution-empty", "/api/v1/distribution", []string{"start", "now-10h", "end", "now-9h"}},
			{"heatmap", "/api/v1/heatmap", []string{"start", "now-5m", "match", `{service="checkout"}`, "step", "60s", "rows", "16"}},
			{"heatmap-explicit", "/api/v1/heatmap", []string{"start", "now-1h", "family", "job_seconds", "width", "100"}},
			{"timeline", "/api/v1/timeline", []string{"start", "now-30m", "by", "service", "width", "4", "q", "0.99"}},
			{"timeline-offset", "/api/v1/timeline", []string{"start", "now", "end", "now+30m", "offset", "30m", "step", "10m", "q", "0.5"}},
			{"timeline-gauge", "/api/v1/timeline", []string{"start", "now-5m", "match", "heap_bytes", "step", "60"}},
			{"timeline-counter", "/api/v1/timeline", []string{"start", "now-40m", "family", "orders_total", "step", "5m", "by", "pod"}},
			{"labels", "/api/v1/labels", []string{"start", "now-1h", "match", `{service="checkout"}`}},
			{"tenants", "/api/v1/tenants", []string{"start", "now-1h", "sort", "0.99", "limit", "2"}},
			{"tenants-search", "/api/v1/tenants", []string{"start", "now-1h", "search", "IT", "q", "0.9"}},
			{"nearest", "/api/v1/nearest", []string{"time", "now", "match", `{service="batch"}`}},
			{"nearest-gauge", "/api/v1/nearest", []string{"time", "now-10m", "family", "heap_bytes"}},
			{"marks", "/api/v1/marks", nil},
			{"prom-instant", "/prometheus/api/v1/query", []string{"query", `sum by (service) (rate(span_duration_seconds[1m]))`}},
			{"prom-range", "/prometheus/api/v1/query_range", []string{"query", `histogram_quantile(0.9, sum by (tenant) (rate(span_duration_seconds{kind="server"}[10m])))`, "start", "1778315400", "end", "1778317200", "step", "600"}},
			{"prom-counter", "/prometheus/api/v1/query", []string{"query", `sum(rate(orders_total[5m]))`}},
			{"prom-explicit", "/prometheus/api/v1/query", []string{"query", `increase(job_seconds[1h])`}},
			{"prom-string", "/prometheus/api/v1/query", []string{"query", `"a\"b"`}},
			{"prom-classic", "/prometheus/api/v1/query", []string{"query", `sum by (le) (rate(span_duration_seconds_bucket[5m]))`}},
			{"prom-series", "/prometheus/api/v1/series", []string{"match[]", `span_duration_seconds{service="batch"}`, "match[]", "heap_bytes"}},
			{"prom-labels", "/prometheus/api/v1/labels", nil},
			{"prom-values", "/prometheus/api/v1/label/tenant/values", nil},
			{"prom-names", "/prometheus/api/v1/label/__name__/values", nil},
			{"prom-metadata", "/prometheus/api/v1/metadata", nil},
			{"prom-metadata-limit", "/prometheus/api/v1/metadata", []string{"limit", "2"}},
			{"prom-format", "/prometheus/api/v1/format_query", []string{"query", "sum(rate(x[5m]))by(a)"}},
		},
	},
	{
		name:   "orders",
		fill:   func(t *testing.T, st store.Store, _ string) []string { fillOrders(t, st); return nil },
		render: rounded,
		questions: []question{
			{"breakdown", "/api/v1/breakdown", []string{"start", "now-30m", "step", "15m", "match", `{service="shop",operation="GET /orders"}`, "q", "0.5,0.99", "limit", "2"}},
			{"breakdown-band", "/api/v1/breakdown", []string{"start", "now-30m", "step", "30m", "match", `{service="shop"}`, "low", "0.15", "high", "300ms", "q", "0.9", "limit", "1"}},
			{"breakdown-tenant", "/api/v1/breakdown", []string{"start", "now-30m", "step", "30m", "match", `{service="shop",tenant="globex"}`, "q", "0.9"}},
			{"breakdown-empty", "/api/v1/breakdown", []string{"start", "now-30m", "step", "30m", "match", `{service="job"}`}},
			{"operations", "/api/v1/operations", []string{"start", "now-30m", "step", "15m", "limit", "3", "sort", "p99", "q", "0.99"}},
			{"operations-db", "/api/v1/operations", []string{"start", "now-30m", "step", "30m", "component", "db", "search", "orders"}},
			{"callers", "/api/v1/callers", []string{"start", "now-30m", "service", "stock", "component", "db", "operation", "UPDATE stock"}},
			{"families-service", "/api/v1/families", []string{"service", "stock"}},
		},
	},
	{
		name:    "traces",
		options: Options{TraceLink: "https://traces.example/{trace_id}?from=tailscope"},
		fill:    func(t *testing.T, st store.Store, _ string) []string { fillTraces(t, st); return nil },
		render:  indent,
		questions: []question{
			{"traces", "/api/v1/traces", []string{"start", "now-1h"}},
			{"traces-where", "/api/v1/traces", []string{"start", "now-1h", "where", "true"}},
			{"traces-failed", "/api/v1/traces", []string{"start", "now-1h", "match", `{service=~"shop|payments",status="error"}`, "why", "failed,slow", "max", "50ms"}},
			{"traces-nearest", "/api/v1/traces", []string{"sort", "nearest", "at", "0.08", "time", "now-11m", "step", "60s", "limit", "1", "match", `{service="shop"}`}},
			{"trace", "/api/v1/traces/" + checkoutTrace, nil},
			{"prom-exemplars", "/prometheus/api/v1/query_exemplars", []string{"query", `histogram_quantile(0.99, sum(rate(span_duration_seconds{service="shop",status!="error"}[5m])))`, "start", "1778313600", "end", "1778317200"}},
		},
	},
	{
		name:    "kept",
		options: Options{Timeout: patient},
		fill:    fillKept,
		open:    openKept,
		render:  rounded,
		questions: []question{
			{"kept-marks", "/api/v1/marks", []string{"service", "shop"}},
			{"mark", "/api/v1/marks/DEPLOY", nil},
			{"mark-early", "/api/v1/marks/SWITCH", nil},
			{"kept-services", "/api/v1/services", []string{"start", "now-1h", "step", "20m"}},
			{"compare", "/api/v1/compare", []string{"match", `{service="shop"}`, "a", "now-60m/now-21m", "b", "now-20m/now", "include", "curve,heat", "width", "12", "rows", "8"}},
			{"compare-mark", "/api/v1/compare", []string{"match", `{service="shop"}`, "mark", "DEPLOY"}},
			{"compare-label", "/api/v1/compare", []string{"match", `{service="shop"}`, "start", "now-1h", "label", "operation", "a", "GET /cart", "b", "GET /report", "measures", "p50,p99"}},
			{"explain", "/api/v1/explain", []string{"match", `{service="shop"}`, "start", "now-1h", "from", "now-15m", "low", "0.3"}},
			{"explain-rest", "/api/v1/explain", []string{"match", `{service="shop"}`, "start", "now-1h", "from", "now-15m", "low", "0.3", "against", "rest", "limit", "5"}},
			{"changes", "/api/v1/changes", []string{"match", `{service="shop"}`, "start", "now-1h"}},
			{"changes-dismissed", "/api/v1/changes", []string{"start", "now-1h", "status", "dismissed"}},
			{"scaling", "/api/v1/scaling", []string{"match", `{service="solr"}`, "start", "now-1h"}},
			{"leaves", "/api/v1/leaves", []string{"match", `{service="solr"}`, "start", "now-1h", "step", "600"}},
			{"apdex-targets", "/api/v1/apdex-targets", nil},
			{"apdex", "/api/v1/apdex", []string{"start", "now-1h", "step", "20m", "by", "operation"}},
			{"sla", "/api/v1/sla", []string{"match", `{service="shop"}`, "period", "day", "count", "2", "tz", "Europe/Berlin", "objective", "0.99", "under", "1"}},
			{"sessions", "/api/v1/sessions", nil},
			{"session", "/api/v1/sessions/x-1", nil},
			{"session-verdict", "/api/v1/sessions/x-1/verdict", []string{"measures", "ratio,p50,p99"}},
			{"checks", "/api/v1/checks", nil},
			{"check", "/api/v1/check", []string{"id", "orders", "start", "now-1h", "end", "now+1m", "step", "60"}},
			{"check-each", "/api/v1/check", []string{"id", checkedCart, "start", "now-1h", "end", "now+1m", "step", "60"}},
			{"incidents", "/api/v1/incidents", []string{"start", "now-1h"}},
			{"maintenance", "/api/v1/maintenance", nil},
		},
	},
}

// patient is a deadline that a search for changes meets on a busy machine too: what it has no
// time for it leaves out.
const patient = 5 * time.Minute

// checkedCart is a check of keptChecks that is made for a series.
const checkedCart = `slow{operation="GET /cart", service="shop"}`

const keptChecks = checkedOrders + `
  slow:
    each: {series: 'span_duration_seconds{service="shop"}', by: [service, operation], within: 2h}
    value: {query: {measure: p99, series: 'span_duration_seconds{service="shop"}', over: 10m}}
    every: 24h
    threshold: {must: "<", of: 'p99(span_duration_seconds{service=$service,operation=$operation}[-60M:-30M])', warning: 20%, critical: 50%}
    soft: 1 of 1
maintenance:
  - {name: nightly, cron: "0 1 * * *", duration: 30m, checks: [slow]}
`

// fillKept puts, as users and a running server do, all of which the store keeps records: marks
// and their verdicts, decisions about changes, Apdex targets, sessions, and states, incidents
// and maintenance of checks. The shop becomes slower at the first mark, and solr is loaded
// more and less.
func fillKept(t *testing.T, st store.Store, dir string) []string {
	t.Helper()
	w := querytest.NewWriter()
	slowed(w)
	session := legstest.Steady
	session.Slots, session.Slower = 60, 1.1
	session.Fill(t, w, "x-1")
	for slot := range int64(360) {
		for i := range 5 + 4*(slot/6%12) {
			seconds := 0.05 * (1 + 0.02*float64(slot/6%12) + 0.001*float64(i))
			w.Span(querytest.Epoch+slot*10, labels.FromStrings(series.LabelService, "solr", series.LabelOperation, []string{"select", "facet"}[i%2], series.LabelKind, "server",
				series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelTenant, "acme"), seconds)
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}

	g := &gauge{v: 3}
	checks, stop := openChecks(t, st, keptChecks, dir, g)
	defer stop()
	clock := now.Add(-time.Minute)
	judge := marks.New(marks.Options{Around: marks.Around{Store: st}, Now: func() time.Time { return clock }})
	srv := serve(t, Options{Store: st, Timeout: patient, Checks: checks, Verdicts: judge})
	post := func(method, path string, body any, want int) string {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := send(t, srv, method, "/api/v1"+path, string(b))
		if status != want {
			t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
		}
		return answer
	}
	at := func(second int64) api.Float { return api.Float(querytest.Epoch + second) }
	mark := func(second int64, name string) string {
		t.Helper()
		b := map[string]any{"name": name, "service": "shop", "revision": "abc", "user": "ann", "time": at(second)}
		return decodeJSON[api.Mark](t, post("POST", "/marks", b, 201)).ID
	}
	ids := []string{"DEPLOY", mark(2400, "deploy 2"), "SWITCH", mark(3300, "switch")}
	for range 2 { // seen, and then judged
		if err := judge.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock = now
	}

	post("PUT", "/apdex-targets", api.ApdexTarget{Service: "shop", T: 0.3}, 200)
	post("PUT", "/apdex-targets", api.ApdexTarget{Service: "shop", Operation: "GET /report", T: 2}, 200)

	_, answer := fetch(t, srv, "/api/v1/changes", "match", `{service="shop"}`, "start", "now-1h")
	found := decodeJSON[api.ChangesResponse](t, answer).Changes
	if len(found) == 0 {
		t.Fatal("the shop did not change:", answer)
	}
	c := found[len(found)-1]
	post("POST", "/changes", api.ChangeDecision{
		ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Environment: c.Environment, Operation: c.Operation, Family: c.Family, Part: c.Part, OfFew: c.OfFew,
		Status: "dismissed",
	}, 200)

	report := api.SessionReport{Kind: "mirror", Name: "new cache", Service: "shop", Start: at(0), Mirror: legstest.State()}
	report.Ended = true
	post("PUT", "/sessions/x-1", report, 200)
	latency := api.BenchLatency{Count: 100, Quantiles: map[string]api.Float{"0.99": 0.0381}, Bounds: []api.Float{0.01, 0.02, 0.04}, Counts: []uint64{60, 40}}
	load := &api.BenchResult{Format: 1, Name: "search", Target: "http://127.0.0.1:8983", Service: "solr", Start: at(600), End: at(660), Plan: api.BenchPlan{Arrivals: "poisson"}, Latency: latency, Valid: true, Headline: "p99 38.1 ms at 500 requests/s"}
	post("PUT", "/sessions/b-1", api.SessionReport{Kind: "bench", Name: load.Name, Service: load.Service, Start: load.Start, Ended: true, Bench: load}, 200)

	each := "id=" + url.QueryEscape(checkedCart)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the engine looks for series as soon as it runs
		if status, answer := fetch(t, srv, "/api/v1/check?"+each); status == http.StatusOK {
			break
		} else if time.Now().After(end) {
			t.Fatal(answer)
		}
	}
	for _, v := range []float64{3, 12} {
		g.set(v)
		post("POST", "/check/run?id=orders", nil, 200)
	}
	post("POST", "/check/run?"+each, nil, 200)
	post("POST", "/check/acknowledge?id=orders", api.Ack{User: "ann", Comment: "on it", Until: at(7200)}, 200)
	incident := decodeJSON[api.Incident](t, post("POST", "/incidents", api.MarkedIncident{Name: "disk full", Service: "shop", Start: at(1200), End: at(1800)}, 201))
	window := decodeJSON[api.Maintenance](t, post("POST", "/maintenance", api.Maintenance{Name: "upgrade", Checks: []string{"orders"}, End: at(4200), User: "ann"}, 201))
	ids = append(ids, "DISK", incident.ID, "UPGRADE", window.ID)
	_, answer = fetch(t, srv, "/api/v1/incidents", "kind", "check")
	for _, i := range decodeJSON[api.IncidentsResponse](t, answer).Incidents {
		ids = append(ids, "INCIDENT("+i.Check+")", i.ID)
	}
	return ids
}

// openKept starts what answers from the records of fillKept.
func openKept(t *testing.T, o *Options, dir string) {
	t.Helper()
	checks, stop := openChecks(t, o.Store, keptChecks, dir, &gauge{v: 3})
	t.Cleanup(stop)
	o.Checks = checks
	o.Verdicts = marks.New(marks.Options{Around: marks.Around{Store: o.Store}, Now: func() time.Time { return now }})
	if err := o.Verdicts.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type (
	opens  func(*testing.T) store.Store
	copies func(*testing.T, store.Store) store.Store
)

// goldenStore is a store that answers as testdata says.
type goldenStore struct {
	name string
	// begin starts what the stores of all sets share, and returns what opens an empty one and,
	// if not nil, what makes the copy that is asked in its place.
	begin   func(t *testing.T) (opens, copies)
	settled bool // rolled up and compacted before it is asked
}

var goldenStores = []goldenStore{
	{name: "twin", begin: apart(func(*testing.T) store.Store { return storetest.NewTwin() })},
	{name: "pebble", begin: apart(func(t *testing.T) store.Store { return pebble(t) })},
	{name: "settled", begin: apart(func(t *testing.T) store.Store { return pebble(t) }), settled: true},
}

// apart is a goldenStore's begin where stores share nothing.
func apart(open opens) func(*testing.T) (opens, copies) {
	return func(*testing.T) (opens, copies) { return open, nil }
}

// TestGolden compares whole answers with testdata; UPDATE=1 rewrites them. The
// naive store and the real ones must answer alike, fresh and rolled up.
func TestGolden(t *testing.T) {
	for _, of := range goldenStores {
		t.Run(of.name, func(t *testing.T) {
			open, copied := of.begin(t)
			for _, set := range goldenSets {
				t.Run(set.name, func(t *testing.T) {
					st, dir := open(t), t.TempDir()
					ids := set.fill(t, st, dir)
					if of.settled {
						if err := st.Maintain(context.Background(), now.Add(3*time.Hour)); err != nil {
							t.Fatal(err)
						}
					}
					if copied != nil {
						st = copied(t, st)
					}
					set.ask(t, st, dir, ids)
				})
			}
		})
	}
}

// ask asks a store that fill has filled.
func (set *goldenSet) ask(t *testing.T, st store.Store, dir string, ids []string) {
	t.Helper()
	o := set.options
	o.Store = st
	if set.open != nil {
		set.open(t, &o, dir)
	}
	words := make([]string, len(ids))
	for i := range ids {
		words[i] = ids[i^1]
	}
	named, worded := strings.NewReplacer(ids...), strings.NewReplacer(append(words, dir, "DIR")...)
	srv := serve(t, o)
	doc := readDocument(t, srv)
	for _, c := range set.questions {
		t.Run(c.name, func(t *testing.T) {
			params := make([]string, len(c.params))
			for i, p := range c.params {
				params[i] = named.Replace(p)
			}
			status, got := fetch(t, srv, named.Replace(c.path), params...)
			if status != http.StatusOK {
				t.Fatalf("status %d: %s", status, got)
			}
			golden(t, c.name+".json", set.render(t, worded.Replace(got)))
			if strings.HasPrefix(c.path, "/api/v1/") {
				doc.checkAnswer(t, c.path, got)
			}
		})
	}
}

// Every question of the API is asked of all stores.
func TestEveryPathHasAGolden(t *testing.T) {
	doc := readDocument(t, serve(t, Options{Store: storetest.NewTwin()}))
	asked, names := map[string]bool{}, map[string]bool{}
	for _, set := range goldenSets {
		for _, c := range set.questions {
			asked[doc.template(c.path)] = true
			if names[c.name] {
				t.Errorf("%s is the name of two questions", c.name)
			}
			names[c.name] = true
		}
	}
	for path, operations := range doc.Paths {
		if _, get := operations["get"]; get && !asked[path] {
			t.Errorf("GET %s has no golden: add a question to goldenSets, so that all stores are known to answer it alike", path)
		}
	}
}

// coarsest is the one field that depends on what has been rolled up.
var coarsest = regexp.MustCompile(`(?m)^ "slot": \d+`)

func indent(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return coarsest.ReplaceAllString(string(b), ` "slot": 10`) + "\n"
}

// fraction is a number of an indented answer that is not whole.
var fraction = regexp.MustCompile(`(?m)(^ *|": )(-?\d+\.\d+(?:e[-+]?\d+)?)(,?)$`)

// rounded is indent for sums that stores may add up in any order.
func rounded(t *testing.T, s string) string {
	t.Helper()
	return fraction.ReplaceAllStringFunc(indent(t, s), func(line string) string {
		parts := fraction.FindStringSubmatch(line)
		f, err := strconv.ParseFloat(parts[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		return parts[1] + strconv.FormatFloat(f, 'g', 10, 64) + parts[3]
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; UPDATE=1 go test rewrites it\ngot:\n%s", path, firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %s\nwant %s", i+1, g[i], w[i])
		}
	}
	return "one is longer"
}
