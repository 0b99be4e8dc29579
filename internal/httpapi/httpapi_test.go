package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

var now = time.Unix(querytest.Epoch+3600, 0).UTC()

// lasting are goroutines that outlive the tests.
var lasting = []goleak.Option{goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1")}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, lasting...)
}

// pebble opens a store in memory.
func pebble(t testing.TB) *pebblestore.Store {
	t.Helper()
	return openPebble(t, pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
}

func openPebble(t testing.TB, o pebblestore.Options) *pebblestore.Store {
	t.Helper()
	st, err := pebblestore.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// serve answers the API at now.
func serve(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return now }
	}
	srv := httptest.NewServer(New(o))
	t.Cleanup(srv.Close)
	return srv
}

// filled puts the shop's hour, and a gauge and a counter, into a store.
func filled(t testing.TB, st store.Store) store.Store {
	t.Helper()
	w := querytest.NewWriter()
	querytest.Shop(w)
	w.Family(store.FamilyInfo{Name: "heap_bytes", Kind: series.Gauge, IntervalSeconds: 30})
	w.Family(store.FamilyInfo{Name: "orders_total", Kind: series.Counter, IntervalSeconds: 30})
	for i := range int64(120) {
		at := (querytest.Epoch + i*30) * 1000
		for _, pod := range []string{"a", "b"} {
			l := labels.FromStrings("pod", pod)
			w.Number(at, series.Series{Family: "heap_bytes", Kind: series.Gauge, Labels: l}, float64(1000+i))
			// The counter of pod b begins again in the middle.
			total := float64(3 * i)
			if pod == "b" && i >= 60 {
				total = float64(3 * (i - 60))
			}
			w.Number(at, series.Series{Family: "orders_total", Kind: series.Counter, Labels: l}, total)
		}
	}
	for i, v := range []float64{0.1, 0.2, 0.3, 1} {
		h, err := hist.NewExplicit([]float64{0.1, 0.25, 0.5, 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.RecordN(v, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		if err := w.Merge(querytest.Epoch+int64(i)*60, series.Series{Family: "job_seconds", Labels: labels.FromStrings("job", "x")}, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

func shop(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	o.Store = filled(t, storetest.NewTwin())
	return serve(t, o)
}

func fetch(t *testing.T, srv *httptest.Server, path string, params ...string) (int, string) {
	t.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		q.Add(params[i], params[i+1])
	}
	target := srv.URL + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	res, err := srv.Client().Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// questions are asked over the shop's hour.
var questions = []question{
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
	{"prom-format", "/prometheus/api/v1/format_query", []string{"query", "sum(rate(x[5m]))by(a)"}},
}

// TestGolden compares whole answers with testdata; UPDATE=1 rewrites them. The
// naive store and the real one must answer alike, fresh and rolled up.
func TestGolden(t *testing.T) {
	o := Options{Status: api.StatusResponse{Version: "1.2.3", OTLPGRPC: "127.0.0.1:4317", FlushSeconds: 11}}
	goldens(t, o, func(st store.Store) { filled(t, st) }, indent, questions)
}

// question has its answer in testdata.
type question struct {
	name, path string
	params     []string
}

// goldenStore is a store that answers as testdata says.
type goldenStore struct {
	name    string
	open    func(t *testing.T) store.Store
	settled bool // rolled up and compacted before it is asked
	// copied, if set, makes the copy that is asked in its place.
	copied func(t *testing.T, from store.Store) store.Store
}

var goldenStores = []goldenStore{
	{name: "twin", open: func(*testing.T) store.Store { return storetest.NewTwin() }},
	{name: "pebble", open: func(t *testing.T) store.Store { return pebble(t) }},
	{name: "settled", open: func(t *testing.T) store.Store { return pebble(t) }, settled: true},
}

func goldens(t *testing.T, o Options, fill func(store.Store), render func(*testing.T, string) string, questions []question) {
	t.Helper()
	for _, of := range goldenStores {
		t.Run(of.name, func(t *testing.T) {
			o.Store = of.open(t)
			fill(o.Store)
			if of.settled {
				if err := o.Store.Maintain(context.Background(), now.Add(3*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			if of.copied != nil {
				o.Store = of.copied(t, o.Store)
			}
			srv := serve(t, o)
			doc := readDocument(t, srv)
			for _, c := range questions {
				t.Run(c.name, func(t *testing.T) {
					status, got := fetch(t, srv, c.path, c.params...)
					if status != http.StatusOK {
						t.Fatalf("status %d: %s", status, got)
					}
					golden(t, c.name+".json", render(t, got))
					if strings.HasPrefix(c.path, "/api/v1/") {
						doc.checkAnswer(t, c.path, got)
					}
				})
			}
		})
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
			return "line " + g[i] + "\nwant " + w[i]
		}
	}
	return "one is longer"
}

// A range that is longer than its data has one rate, whichever answer it stands in.
func TestRateIsOfTheMeasuredTime(t *testing.T) {
	srv := shop(t, Options{})
	const match = `{service="checkout"}`
	body := func(path string, pairs ...string) string {
		code, body := fetch(t, srv, path, append([]string{"start", "now-6h"}, pairs...)...)
		if code != 200 {
			t.Fatal(path, body)
		}
		return body
	}
	list := decodeJSON[api.ServicesResponse](t, body("/api/v1/services", "match", match)).Services
	whole := decodeJSON[api.DistributionResponse](t, body("/api/v1/distribution", "match", `{service="checkout",kind="server"}`))
	scores := decodeJSON[api.ApdexResponse](t, body("/api/v1/apdex", "match", match)).Rows
	if len(list) != 1 || len(whole.Groups) != 1 || len(scores) != 1 {
		t.Fatalf("%d services, %d groups, %d scores", len(list), len(whole.Groups), len(scores))
	}
	if by := decodeJSON[api.DistributionResponse](t, body("/api/v1/distribution", "match", match, "by", "operation")); by.Measured != 0 {
		t.Errorf("groups are measured in %g", by.Measured)
	}
	if long := float64(whole.End - whole.Start); !(float64(whole.Measured) < long/2) {
		t.Fatalf("an hour of data in %g seconds was measured in %g", long, whole.Measured)
	}
	want := float64(whole.Groups[0].Count) / float64(whole.Measured)
	for name, got := range map[string]api.Float{"list": list[0].Rate, "Apdex": scores[0].Rate} {
		if math.Abs(float64(got)/want-1) > 0.001 {
			t.Errorf("%s: %g requests/s, the distribution's are %g", name, got, want)
		}
	}
}
