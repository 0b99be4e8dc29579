package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

// begin is when everything in these tests happens: 2026-03-01 12:00:00 UTC.
const begin = 1772366400

// fakeServer answers every question with what the API would, and remembers
// what was asked.
type fakeServer struct {
	*httptest.Server
	asked  []string
	empty  bool // of requests, not of other spans
	posted api.Mark
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	s := &fakeServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) answer(w http.ResponseWriter, r *http.Request) {
	line := r.Method + " " + r.URL.Path
	if v := r.URL.Query(); len(v) > 0 {
		for _, k := range labelNames(map[string]string{"match": v.Get("match"), "start": v.Get("start"), "by": v.Get("by"), "q": v.Get("q"), "at": v.Get("at"), "query": v.Get("query")}) {
			if v.Get(k) != "" {
				line += " " + k + "=" + v.Get(k)
			}
		}
		if end := v.Get("end"); end != "" && r.URL.Path == "/api/v1/marks" {
			line += " end=" + end
		}
	}
	s.asked = append(s.asked, line)
	var body any
	none := s.empty && strings.Contains(r.URL.Query().Get("match"), "kind=~")
	qs := func(v ...float64) map[string]api.Float {
		m := map[string]api.Float{}
		for i, q := range []string{"0.5", "0.95", "0.99"} {
			m[q] = api.Float(v[i])
		}
		return m
	}
	switch r.URL.Path {
	case "/api/v1/services":
		body = api.ServicesResponse{Services: []api.Service{
			{Name: "shop", Requests: 122814, Rate: 34.115, ErrorRate: 0.0013, Apdex: 0.987, Mean: 0.025, Quantiles: qs(0.0093, 0.048, 0.21), Error: 0.022,
				State: api.Worse, Why: "p99 351 ms, usually 180 … 240 ms"},
			{Name: "shop-jobs", Requests: 3, Rate: 0.0008, Apdex: api.Float(math.NaN()), Mean: 71.2, Quantiles: qs(70, 75, 75)},
		}}
	case "/api/v1/distribution":
		groups := []api.DistributionGroup{
			{Labels: api.Labels{"tenant": "acme"}, Count: 122814, Sum: 3071.2, Mean: 0.025, Min: 0.0009, Max: 1.02, Quantiles: qs(0.012, 0.047, 0.21), Error: 0.0219,
				At: []api.At{{Value: 0.2, Below: 0.98, Same: 0.01, Above: 0.01}}},
			{Labels: api.Labels{}, Count: 7, Mean: 0.0000021, Min: 0.000001, Max: 130, Quantiles: qs(0.0000015, 0.3, 100), Error: 0.0219,
				At: []api.At{{Value: 0.2, Below: 0.0001, Same: 0, Above: 0.9999}}},
		}
		if r.URL.Query().Get("by") == "" {
			groups = groups[:1]
		}
		if none {
			groups = nil
		}
		body = api.DistributionResponse{Family: "span_duration_seconds", Groups: groups}
	case "/api/v1/heatmap":
		body = heatmapFixture()
	case "/api/v1/timeline":
		nan := api.Float(math.NaN())
		body = api.TimelineResponse{Family: "span_duration_seconds", Step: 60, Times: []int64{begin, begin + 60, begin + 120}, Groups: []api.TimelineGroup{{
			Labels: api.Labels{"operation": "GET /orders"}, Count: []uint64{600, 0, 1200}, Rate: []api.Float{10, nan, 20}, Mean: []api.Float{0.02, nan, 0.004},
			ErrorRate: []api.Float{0, nan, 0.05}, Quantiles: map[string][]api.Float{"0.5": {0.01, nan, 0.003}, "0.99": {0.05, nan, 0.009}}, Error: 0.022}}}
	case "/api/v1/tenants":
		large := api.TenantCohort{Name: "very large", Tenants: 3, Requests: 10000, Share: 1, Errors: 12, Mean: 0.03, Quantiles: qs(0.02, 0.06, 0.3),
			InBands: []api.Float{0.9, 0.05, 0.03, 0.015, 0.005}, SlowShare: 0.05, NotRare: 1}
		everyone := large
		everyone.Name = "everyone"
		body = api.TenantsResponse{Total: 3, Bands: []api.Float{0.1, 1, 5, 10}, Slow: 1, Rare: 0.01, Cohorts: []api.TenantCohort{large}, Everyone: everyone, Tenants: []api.Tenant{
			{Name: "globex", Requests: 5000, Share: 0.5, Errors: 12, Mean: 0.03, Quantiles: qs(0.02, 0.06, 0.3), Cohort: "very large",
				InBands: []api.Float{0.9, 0.05, 0.03, 0.015, 0.005}, SlowShare: 0.05, SlowLow: 0.04, SlowHigh: 0.062, NotRare: true},
			{Name: "_other", Requests: 10, Share: 0.001, Mean: 0.001, Quantiles: qs(0.001, 0.001, 0.002), Cohort: "small", InBands: []api.Float{1, 0, 0, 0, 0}, SlowLow: api.Float(math.NaN()), SlowHigh: api.Float(math.NaN())},
		}}
	case "/api/v1/labels":
		body = api.LabelsResponse{Labels: []api.LabelValues{{Name: "service", Total: 2, Values: []api.LabelValue{{Value: "shop", Count: 122814}, {Value: "batch", Count: 7}}}}}
	case "/api/v1/marks":
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&s.posted)
			s.posted.ID = "m-7"
			w.WriteHeader(http.StatusCreated)
			body = s.posted
			break
		}
		body = api.MarksResponse{Marks: []api.Mark{
			{ID: "m-2", Time: begin + 1500, Name: "index added", Service: "shop", User: "demo", Description: "CREATE INDEX on orders", Link: "https://ci.example/7"},
			{ID: "m-1", Time: begin + 300, Name: "deploy 1.4", Revision: "5f1c0de"},
		}}
	case "/prometheus/api/v1/query":
		_, _ = w.Write([]byte(`{"status":"success","warnings":["look out"],"data":{"resultType":"vector","result":[
			{"metric":{"__name__":"go_goroutine_count","service":"shop"},"value":[1772366400,"42"]},
			{"metric":{"tenant":"acme"},"histogram":[1772366400,{"count":"10","sum":"1.5","buckets":[]}]}]}}`))
		return
	case "/prometheus/api/v1/query_range":
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"1:5: parse error: unclosed left parenthesis"}`))
		return
	default:
		w.WriteHeader(http.StatusBadRequest)
		body = api.Error{Error: api.ErrorDetail{Code: "invalid", Field: "match", Message: "unknown label servce; did you mean service?"}}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// heatmapFixture is half an hour with two populations, one of which goes away,
// and a slow request now and then.
func heatmapFixture() api.HeatmapResponse {
	h := api.HeatmapResponse{Range: api.Range{Start: begin, End: begin + 1800}, Family: "span_duration_seconds", Step: 30, Slot: 10, MaxCell: 900}
	for i := range 25 {
		h.Bounds = append(h.Bounds, api.Float(0.001*math.Pow(2, float64(i)/2)))
	}
	for x := range int64(60) {
		if x == 40 {
			continue // a gap: nothing came in
		}
		c := api.HeatmapColumn{Start: begin + 30*x, Count: 1400}
		add := func(row int, n uint64) {
			c.Rows, c.Counts = append(c.Rows, row), append(c.Counts, n)
			h.Count += n
		}
		add(2, 100)
		add(3, 900)
		add(4, 300+uint64(x))
		if x < 50 {
			add(10, 90)
			add(11, 40)
		}
		if x%11 == 0 {
			add(19, 1)
		}
		h.Columns = append(h.Columns, c)
	}
	return h
}

// run executes a command line and returns its streams and exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(""), &out, &err)
	return out.String(), err.String(), code
}

func TestQueryOutput(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for _, tc := range []struct{ name, args string }{
		{"services.txt", "query services"},
		{"services.csv", "query services --format csv"},
		{"distribution.txt", "query distribution --service shop --at 200ms"},
		{"distribution-by-tenant.txt", "query distribution --by tenant --at 0.2"},
		{"distribution-by-tenant.csv", "query distribution --by tenant --at 0.2 --format csv"},
		{"distribution.json", "query distribution --service shop --format json"},
		{"timeline.txt", "query timeline --by operation --step 1m"},
		{"timeline.csv", "query timeline --by operation --step 1m --format csv"},
		{"tenants.txt", "query tenants --service shop"},
		{"tenants.csv", "query tenants --service shop --not-rare --cohort very-large --slow 500ms --rare 1% --format csv"},
		{"heatmap.txt", "query heatmap --service shop --since 30m --width 80 --height 26"},
		{"heatmap-low.txt", "query heatmap --service shop --since 30m --width 70 --height 8"},
		{"heatmap-wide.txt", "query heatmap --service shop --since 30m --width 140 --height 8"},
		{"heatmap-colors.txt", "query heatmap --service shop --since 30m --width 80 --height 13 --color always"},
		{"heatmap.csv", "query heatmap --service shop --format csv"},
		{"marks.txt", "mark list"},
		{"marks.csv", "mark list --format csv"},
		{"promql.txt", "query promql go_goroutine_count"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := newFakeServer(t)
			out, stderr, code := run(t, append(strings.Fields(tc.args), "--server", srv.URL)...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			reporttest.Golden(t, tc.name, out)
		})
	}
}

func TestQueryAsks(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"query", "distribution", "--service", "shop"},
			`GET /api/v1/distribution match={service="shop",kind=~"server|consumer"} start=now-1h`},
		{[]string{"query", "distribution", "--service", `a"b`, "--kind", "all", "--since", "6h", "--by", "tenant,status"},
			`GET /api/v1/distribution by=tenant,status match={service="a\"b"} start=now-6h`},
		{[]string{"query", "distribution", "--match", `{kind="client",tenant=~"a|b"}`, "--q", "0.9", "--at", "200ms,1"},
			`GET /api/v1/distribution at=0.2,1 match={kind="client",tenant=~"a|b"} q=0.9 start=now-1h`},
		{[]string{"query", "distribution", "--match", `tenant="kindly",component!="db"`},
			`GET /api/v1/distribution match={tenant="kindly",component!="db"} start=now-1h`},
		{[]string{"query", "distribution", "--match", `tenant="kindly"`},
			`GET /api/v1/distribution match={tenant="kindly",kind=~"server|consumer"} start=now-1h`},
		{[]string{"query", "distribution", "--family", "http_server_request_duration_seconds", "--start", "2026-03-01T12:00:00Z"},
			`GET /api/v1/distribution match={} start=2026-03-01T12:00:00Z`},
		{[]string{"query", "distribution", "--end", "1772366400", "--since", "1h"},
			`GET /api/v1/distribution match={kind=~"server|consumer"} start=1772362800`},
		{[]string{"query", "services", "--environment", "production"}, `GET /api/v1/services match={environment="production"} start=now-1h`},
		{[]string{"query", "services"}, `GET /api/v1/services start=now-1h`},
		{[]string{"query", "timeline", "--environment", "production"}, `GET /api/v1/timeline match={environment="production",kind=~"server|consumer"} start=now-1h`},
		{[]string{"mark", "rm", "a/b"}, `DELETE /api/v1/marks/a/b`},
		{[]string{"mark", "show", "a/b"}, `GET /api/v1/marks/a/b`},
		{[]string{"mark", "list"}, `GET /api/v1/marks start=now-30d`},
		{[]string{"mark", "list", "--end", "now"}, `GET /api/v1/marks start=now-30d end=now`},
	} {
		srv := newFakeServer(t)
		run(t, append(tc.args, "--server", srv.URL)...)
		if len(srv.asked) == 0 || srv.asked[0] != tc.want {
			t.Errorf("%q asked\n%q, want\n%q", tc.args, srv.asked, tc.want)
		}
	}
}

func TestNoRequestsFallsBackToAllSpans(t *testing.T) {
	srv := newFakeServer(t)
	srv.empty = true
	out, stderr, code := run(t, "query", "distribution", "--service", "jobs", "--server", srv.URL)
	if code != exitOK || !strings.Contains(out, "122,814") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if want := "tailscope: there are no requests, so these are spans of every kind\n"; stderr != want {
		t.Errorf("got %q, want %q", stderr, want)
	}
}

func TestMarkAdd(t *testing.T) {
	srv := newFakeServer(t)
	out, _, code := run(t, "mark", "add", "deploy 1.4", "--service", "shop", "--revision", "5f1c0de", "--at", "2026-03-01T12:00:00Z",
		"--user", "ada", "--description", "the index on orders", "--link", "https://ci.example/7", "--server", srv.URL)
	if code != exitOK || out != "m-7\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	if want := (api.Mark{ID: "m-7", Name: "deploy 1.4", Service: "shop", Revision: "5f1c0de", Time: begin,
		User: "ada", Description: "the index on orders", Link: "https://ci.example/7"}); srv.posted != want {
		t.Errorf("posted %+v, want %+v", srv.posted, want)
	}
}

// A service that sent nothing is often misspelt: the mark is kept, and a line says so.
func TestMarkAddOfNobody(t *testing.T) {
	srv := newFakeServer(t)
	for service, want := range map[string]string{
		"shop": "", "": "",
		"shpo": "tailscope: no spans of service \"shpo\" were ever received; did you mean \"shop\"?\n",
		"zzz":  "tailscope: no spans of service \"zzz\" were ever received; known are batch, shop\n",
	} {
		out, stderr, code := run(t, "mark", "add", "deploy", "--service", service, "--server", srv.URL)
		if code != exitOK || out != "m-7\n" || stderr != want {
			t.Errorf("service %q: exit code %d, %q, %q, want %q", service, code, out, stderr, want)
		}
	}
}

// A list of marks of a service that sent nothing is an error that names the nearest.
func TestMarkListOfNobody(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := any(api.MarksResponse{Marks: []api.Mark{}})
		if r.URL.Path == "/api/v1/labels" {
			body = api.LabelsResponse{Labels: []api.LabelValues{{Name: "service", Total: 1, Values: []api.LabelValue{{Value: "shop"}}}}}
		}
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(srv.Close)
	for service, want := range map[string]string{"shop": "", "": "", "shopp": "tailscope: no spans of service \"shopp\" were ever received; did you mean \"shop\"?\n"} {
		if _, stderr, code := run(t, "mark", "list", "--service", service, "--server", srv.URL); stderr != want || (code != exitOK) != (want != "") {
			t.Errorf("service %q: exit code %d, %q, want %q", service, code, stderr, want)
		}
	}
}

// What goes wrong is said in lower case, with the next step, and the exit code
// tells wrong use from failure.
func TestErrors(t *testing.T) {
	srv := newFakeServer(t)
	bad := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(bad, []byte("lisen: :1\nlimits:\n  memory: much\n  tenants: 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"sreve", exitUsage, "tailscope: unknown command \"sreve\"\nhint: did you mean tailscope serve?\n"},
		{"serve --set retention.10x=4d", exitUsage, "tailscope: invalid argument \"retention.10x=4d\" for \"--set\" flag: unknown key retention.10x: did you mean retention.10s?\nhint: tailscope serve --help lists the flags\n"},
		{"serve --set retention.10s", exitUsage, "tailscope: invalid argument \"retention.10s\" for \"--set\" flag: \"retention.10s\" has no value: write key=value\nhint: tailscope serve --help lists the flags\n"},
		{"serve --lissten :1", exitUsage, "tailscope: unknown flag: --lissten\nhint: tailscope serve --help lists the flags\n"},
		{"serve --ingest-flush soon", exitUsage, "tailscope: invalid argument \"soon\" for \"--ingest-flush\" flag: \"soon\" is not a duration: write one such as 500ms, 10s, 48h or 35d\nhint: tailscope serve --help lists the flags\n"},
		{"serve --config " + bad, exitUsage, "tailscope: " + bad + ":1:1: unknown key lisen in the file: did you mean listen?\ntailscope: " + bad + ":3:11: limits.memory: \"much\" is not a size: write one such as 256MiB, 10GB or 0\ntailscope: limits.tenants: 0 is too little: at least 1\nhint: docs/configuration.md lists every setting\n"},
		{"serve --listen nowhere", exitUsage, "tailscope: listen: \"nowhere\" is not an address: write host:port, such as 127.0.0.1:7099 or :7099 for every interface\nhint: docs/configuration.md lists every setting\n"},
		{"serve now", exitUsage, "tailscope: tailscope serve takes no arguments, got \"now\"\nhint: tailscope serve --help shows how it is used\n"},
		{"mark add --server " + srv.URL, exitUsage, "tailscope: tailscope mark add needs a name\nhint: write tailscope mark add NAME [flags]\n"},
		{"mark deploy", exitUsage, "tailscope: unknown command \"deploy\"\nhint: to name this moment, write tailscope mark add \"deploy\"\n"},
		{"mark delete 5f1c0de5f1c0de11", exitUsage, "tailscope: unknown command \"delete\"\nhint: to remove a mark, write tailscope mark rm 5f1c0de5f1c0de11\n"},
		{"mark add x --at yesterday --server " + srv.URL, exitUsage, "tailscope: --at \"yesterday\" is not a moment: write RFC 3339, Unix seconds, 2006-01-02 15:04, now or now-6h\n"},
		{"query distribution --format xml", exitUsage, "tailscope: --format xml: write one of table, json, csv\n"},
		{"query distribution --since soon --server " + srv.URL, exitUsage, "tailscope: --since \"soon\" is not a duration: write one such as 500ms, 10s, 48h or 35d\n"},
		{"query distribution --kind sever", exitUsage, "tailscope: --kind sever: write one of all, requests, server, client, producer, consumer, internal\n"},
		{"query distribution --since 1h --start 5", exitUsage, "tailscope: --start and --since both say where to begin: write one of them\n"},
		{"query distribution --at fast --server " + srv.URL, exitUsage, "tailscope: --at \"fast\": write values such as 200ms or 0.2\n"},
		{"query services --server 127.0.0.1:1", exitFailed, "tailscope: cannot reach the server at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused\nhint: start one with tailscope serve, or name another with --server or TAILSCOPE_SERVER\n"},
		{"query promql sum( --since 5m --server " + srv.URL, exitFailed, "tailscope: 1:5: parse error: unclosed left parenthesis\n"},
		{"agent --to http://a:1 --set store=clickhouse://b:8123/c", exitUsage, "tailscope: store: an agent stores nothing in ClickHouse\nhint: give the address to the server\n"},
		{"demo --rate 0", exitUsage, "tailscope: --rate and --orders must be positive\n"},
		{"demo --otlp-http= ", exitUsage, "tailscope: the demo needs both --otlp-grpc and --otlp-http: the shop sends spans by one and metrics by the other\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			out, stderr, code := run(t, strings.Fields(tc.args)...)
			if code != tc.code || stderr != tc.want || out != "" {
				t.Errorf("exit code %d, stdout %q, stderr\n%s\nwant %d,\n%s", code, out, stderr, tc.code, tc.want)
			}
		})
	}
}

func TestPrintConfigCanBeReadBack(t *testing.T) {
	out, stderr, code := run(t, "serve", "--print-config", "--listen", ":8080", "--set", "retention.10s=3d", "--labels-extra", "cloud.region=region")
	if code != exitOK {
		t.Fatal(stderr)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	again, stderr, code := run(t, "serve", "--print-config", "--config", file)
	if code != exitOK || again != out {
		t.Errorf("exit code %d, %s\ngot\n%s\nwant\n%s", code, stderr, again, out)
	}
	if !strings.Contains(out, `listen: ":8080"`) || !strings.Contains(out, "10s: 3d") || !strings.Contains(out, "extra: [cloud.region=region]") {
		t.Errorf("got\n%s", out)
	}
}

// A flag's value is named by what it is, whatever is quoted in its text.
func TestHelpNamesValues(t *testing.T) {
	out, _, code := run(t, "serve", "--help")
	for _, want := range []string{"--limits-memory size", "--set key=value", "--labels-extra list"} {
		if !strings.Contains(out, want) {
			t.Errorf("exit code %d, help lacks %q:\n%s", code, want, out)
		}
	}
}

// What belongs in a file is not a flag.
func TestServeHasFewFlags(t *testing.T) {
	n := 1 // --help
	newServe(streams{}).LocalFlags().VisitAll(func(*pflag.Flag) { n++ })
	if n > 21 {
		t.Errorf("%d flags, want 21 at most: the others are given by --set", n)
	}
}

// A terminal shows no Markdown: help says where to read on in words.
func TestHelpHasNoMarkdown(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, text := range []string{c.Short, c.Long, c.LocalFlags().FlagUsages()} {
			if strings.Contains(text, "](") || strings.Contains(text, "`") {
				t.Errorf("%s --help has Markdown:\n%s", c.CommandPath(), text)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(streams{}))
	if out, _, _ := run(t, "serve", "--help"); !strings.Contains(strings.Join(strings.Fields(out), " "), "see Memory in docs/configuration.md.") {
		t.Errorf("help of --limits-memory does not say where memory is documented:\n%s", out)
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	out, _, code := run(t, "--help")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, name := range []string{"serve", "demo", "query", "apdex", "report", "mark", "version"} {
		if !strings.Contains(out, "\n  "+name) {
			t.Errorf("help does not name %s:\n%s", name, out)
		}
	}
}
