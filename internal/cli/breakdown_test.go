package cli

import (
	"math"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

func breakdownFixture() *api.BreakdownResponse {
	qs := func(a, b, c api.Float) map[string]api.Float {
		return map[string]api.Float{"0.5": a, "0.95": b, "0.99": c}
	}
	r := &api.BreakdownResponse{Total: 122814, Seconds: 3070.35, Note: "a note of the server", Components: []api.BreakdownComponent{
		{Component: "app", Seconds: 1842.21, Share: 0.6, CriticalShare: 0.55, Quantiles: qs(0.01, 0.03, 0.05),
			Services: []api.ComponentService{{Service: "shop", Seconds: 1500, Share: 0.4885, CriticalShare: 0.5}, {Service: "stock", Seconds: 342.21, Share: 0.1115, CriticalShare: 0.05}}},
		{Component: "db", Seconds: 1197.4365, Share: 0.39, CriticalShare: 0.449, Quantiles: qs(0.005, 0.02, 0.2)},
		{Component: "cache", Seconds: 30.7, Share: 0.01, CriticalShare: 0.001},
		{Component: "messaging"},
		{Component: "queue", Seconds: 12.3, Share: 0.004, CriticalShare: 0},
	}}
	r.Parts = []api.BreakdownPart{
		{Service: "shop", Component: "app", Operation: "GET /cart/{id}", Seconds: 1842.21, Share: 0.6, CriticalShare: 0.55, Calls: 122814, PerRequest: 1, Requests: 122814, Mean: 0.025,
			Quantiles: qs(0.012, 0.047, 0.21), Band: &api.PartIn{Seconds: 0.05}, Typical: &api.PartIn{Seconds: 0.007}},
		{Service: "shop", Component: "db", Operation: "SELECT orders", Seconds: 1197.4, Share: 0.39, Calls: 1473768, PerRequest: 12, Requests: 122814, Repeated: 122814, NPlusOne: true, Mean: 0.0008,
			Quantiles: qs(0.0007, 0.002, 0.02), Band: &api.PartIn{Seconds: 0.15}},
		{Service: "stock", Component: "app", Operation: "Reserve", Seconds: 3, Share: 0.001, PerRequest: 0.02, Mean: 0.001, Quantiles: qs(0.001, 0.002, 0.003)},
	}
	r.Backends = []api.Backend{
		{Component: "db", System: "riak", Peer: "riak-1:8087", Calls: 245628, Errors: 12281, Seconds: 982.5, Share: 0.8, PerRequest: 2, Mean: 0.004, Quantiles: qs(0.003, 0.009, 0.02)},
		{Component: "db", System: "riak", Peer: "riak-2:8087", Calls: 245628, Seconds: 245.6, Share: 0.2, PerRequest: 2, Mean: 0.001, Quantiles: qs(0.001, 0.002, 0.003)},
	}
	b := &api.Band{Low: 0.061, High: api.Float(math.NaN()), Above: 0.95, Requests: 6140, Mean: 0.2}
	b.Typical.High, b.Typical.Requests, b.Typical.Mean = 0.0121, 61407, 0.009
	b.Components = []api.BandComponent{
		{Component: "app", Band: api.PartIn{Seconds: 0.05, Share: 0.25}, Typical: api.PartIn{Seconds: 0.007, Share: 0.777}},
		{Component: "db", Band: api.PartIn{Seconds: 0.15, Share: 0.75}, Typical: api.PartIn{Seconds: 0.002, Share: 0.222}},
		{Component: "cache", Band: api.PartIn{Seconds: 0.0001, Share: 0.0005}, Typical: api.PartIn{Seconds: 0.0002, Share: 0.02}},
		{Component: "messaging"},
	}
	r.Band = b
	r.FanOuts = []api.FanOut{{Service: "shop", Component: "external", Operation: "GET shard", Instances: []api.FanOutInstance{{Instance: "shard-3", Share: 0.61}, {Instance: "shard-1", Share: 0.2}, {Instance: "shard-2", Share: 0.19}}}}
	r.Skews = []api.Skew{{Service: "stock", Peer: "shop", Direction: "behind", Calls: 1204, Median: 0.0042},
		{Service: "shop", Peer: "queue", Direction: "behind", Calls: 31, Median: 2.5}}
	return r
}

func operationsFixture() *api.OperationsResponse {
	r := &api.OperationsResponse{Total: 3, Seconds: 100}
	r.Rows = []api.Operation{
		{Service: "shop", Operation: "SELECT orders", Component: "db", Kind: "client", Verb: "find", Calls: 147376, Rate: 409.4, Errors: 12, ErrorRate: 0.00008, Seconds: 61, Share: 0.61, Mean: 0.00041,
			Quantiles: map[string]api.Float{"0.5": 0.0003, "0.95": 0.001, "0.99": 0.02}, NPlusOne: true},
		{Service: "shop", Operation: "INSERT orders", Component: "db", Kind: "client", Verb: "save", Calls: 12, Rate: 0.0033, Seconds: 39, Share: 0.39, Mean: 3.25,
			Quantiles: map[string]api.Float{"0.5": 3, "0.95": 4, "0.99": 4}},
	}
	r.Verbs = []api.Verb{{Verb: "find", Share: 0.61}, {Verb: "save", Share: 0.39}}
	return r
}

func tracesFixture() *api.TracesResponse {
	return &api.TracesResponse{Traces: []api.TraceRow{
		{TraceID: "5b8efff798038103d269b633813fc60c", SpanID: "eee19b7ec3c1b174", Service: "shop", Operation: "GET /cart/{id}", Tenant: "acme", Why: []string{"slow", "exemplar"}, Start: begin + 0.25, Duration: 1.21},
		{TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", Service: "shop", Operation: "POST /orders", Failed: true, Why: []string{"failed"}, Start: begin + 61.5, Duration: 0.0305},
	}}
}

func traceFixture() *api.TraceResponse {
	span := func(id string, parent, depth int, service, operation, component string, start, duration, self api.Float, path ...float64) api.TraceSpan {
		return api.TraceSpan{SpanID: id, Parent: parent, Depth: depth, Service: service, Operation: operation, Component: component, Kind: "client", Start: start, Duration: duration, Self: self, Path: path}
	}
	r := &api.TraceResponse{TraceID: "5b8efff798038103d269b633813fc60c", Start: begin + 0.25, Duration: 1, Complete: false, LeftOut: 3, Link: "https://traces.example/5b8efff798038103d269b633813fc60c"}
	r.Spans = []api.TraceSpan{
		span("01", -1, 0, "shop", "GET /cart/{id}", "app", 0, 1, 0.2, 0, 0.1, 0.9, 1),
		span("02", 0, 1, "shop", "SELECT carts", "db", 0.1, 0.4, 0.4, 0.1, 0.5),
		span("03", 0, 1, "shop", "GET stock", "external", 0.3, 0.6, 0.1),
		span("04", 2, 2, "stock", "GET /stock/{sku} of a warehouse with a name that is much too long for any terminal", "app", 0.4, 0.5, 0.3, 0.5, 0.9),
		span("05", 0, 1, "shop", "cart viewed", "messaging", 0.95, 0.2, 0),
	}
	r.Spans[0].Tenant, r.Spans[0].Kind, r.Spans[0].Queue = "acme", "server", 0.05
	r.Spans[1].Text = "SELECT * FROM carts WHERE id = ?"
	r.Spans[2].Failed = true
	r.Spans[3].Shifted = 0.0042
	r.Spans[4].Async = true
	r.Components = []api.TraceComponent{{Component: "app", Self: 0.5}, {Component: "db", Self: 0.4}, {Component: "external", Self: 0.1}, {Component: "cache"}}
	return r
}

func apdexFixture() *api.ApdexResponse {
	return &api.ApdexResponse{Rows: []api.ApdexRow{
		{Service: "shop", T: 0.5, From: "default", Apdex: 0.94, Low: 0.9352, High: 0.9548, Satisfied: 900, Tolerating: 80, Frustrated: 20, Requests: 1000, Rate: 16.7},
		{Service: "shop-jobs", T: 2, From: "service", Apdex: 0.5, Low: 0.5, High: 0.5, Satisfied: 1, Tolerating: 0, Frustrated: 1, Requests: 2, Rate: 0.03, Thin: true},
	}}
}

func TestRequestQuestions(t *testing.T) {
	breakdown, operations, traces, trace, apdex := breakdownFixture(), operationsFixture(), tracesFixture(), traceFixture(), apdexFixture()
	for _, c := range []struct {
		file, args string
		body       any
		asked      string
	}{
		{"breakdown.txt", "query breakdown --service shop --limit 2", breakdown,
			`GET /api/v1/breakdown end=now&limit=2&match={service="shop"}&start=now-1h`},
		{"breakdown.csv", "query breakdown --service shop --format csv --above 0.99", breakdown,
			`GET /api/v1/breakdown above=0.99&end=now&limit=25&match={service="shop"}&start=now-1h`},
		{"", "query breakdown --match {service=\"shop\"} --low 200ms --high 1s --q 0.9 --format json", breakdown,
			`GET /api/v1/breakdown end=now&high=1s&limit=25&low=200ms&match={service="shop"}&q=0.9&start=now-1h`},
		{"operations.txt", "query operations --component db --sort p99 --tenant acme", operations,
			`GET /api/v1/operations component=db&end=now&limit=25&match={tenant="acme"}&sort=p99&start=now-1h`},
		{"operations.csv", "query operations --kind client,producer --search ord --limit 2 --format csv", operations,
			`GET /api/v1/operations end=now&kind=client,producer&limit=2&search=ord&start=now-1h`},
		{"traces.txt", "query traces --service shop --min 500ms --why slow,failed --sort newest", traces,
			`GET /api/v1/traces end=now&limit=25&match={service="shop"}&min=500ms&sort=newest&start=now-1h&why=slow,failed`},
		{"traces.csv", "query traces --max 2 --since 6h --format csv", traces,
			`GET /api/v1/traces end=now&limit=25&max=2s&start=now-6h`},
		{"trace.txt", "query traces 5B8EFFF798038103d269b633813fc60c --width 90", trace, `GET /api/v1/traces/5b8efff798038103d269b633813fc60c`},
		{"trace-text.txt", "query traces 5b8efff798038103d269b633813fc60c --width 140 --text", trace, `GET /api/v1/traces/5b8efff798038103d269b633813fc60c`},
		{"trace.csv", "query traces 5b8efff798038103d269b633813fc60c --format csv", trace, `GET /api/v1/traces/5b8efff798038103d269b633813fc60c`},
		{"apdex.txt", "apdex", apdex, `GET /api/v1/apdex end=now&start=now-1h&width=120`},
		{"apdex.csv", "apdex --service shop --by operation --t 300ms --format csv", apdex,
			`GET /api/v1/apdex by=operation&end=now&match={service="shop"}&start=now-1h&t=0.3&width=120`},
		{"apdex-targets.txt", "apdex targets", &api.ApdexTargetsResponse{Default: 0.5, Targets: []api.ApdexTarget{{Service: "shop", T: 0.3}, {Service: "shop", Operation: "POST /orders", T: 2}}},
			`GET /api/v1/apdex-targets`},
		{"", "apdex set shop 300ms --operation /x", nil, `PUT /api/v1/apdex-targets  {"service":"shop","operation":"/x","t":0.3}`},
		{"", "apdex rm shop --operation /x", nil, `DELETE /api/v1/apdex-targets operation=/x&service=shop`},
		{"", "query timeline --service shop --family process_cpu_time_seconds_total --per request --overlay like --tz Europe/Berlin --step 1m --format json",
			&api.TimelineResponse{Groups: []api.TimelineGroup{{}}},
			`GET /api/v1/timeline end=now&family=process_cpu_time_seconds_total&match={service="shop"}&overlay=like&per=request&start=now-1h&step=1m&tz=Europe/Berlin`},
		{"", "query timeline --kind all --step 60 --slide 0 --offset -1d --format json", &api.TimelineResponse{Groups: []api.TimelineGroup{{}}},
			`GET /api/v1/timeline end=now&match={}&offset=-24h&start=now-1h&step=1m`},
		{"", "query timeline --kind all --step 1.5h --slide 1d --offset 1w2d --format json", &api.TimelineResponse{Groups: []api.TimelineGroup{{}}},
			`GET /api/v1/timeline end=now&match={}&offset=216h&slide=24h&start=now-1h&step=1h30m`},
		{"", "query tenants --kind all --slow 0.5 --rare 1% --format json", &api.TenantsResponse{Cohorts: []api.TenantCohort{{}}},
			`GET /api/v1/tenants end=now&limit=25&match={}&rare=0.01&slow=500ms&start=now-1h`},
	} {
		t.Run(c.args, func(t *testing.T) {
			srv, asked := answering(t, c.body)
			out, stderr, code := run(t, append(strings.Fields(c.args), "--server", srv.URL)...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			if got := unescape((*asked)[0]); got != c.asked {
				t.Errorf("asked %s\nwant  %s", got, c.asked)
			}
			if c.file != "" {
				reporttest.Golden(t, c.file, out)
			}
		})
	}
}

func TestRequestQuestionErrors(t *testing.T) {
	srv, _ := answering(t, map[string]any{})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"query breakdown", exitUsage, "tailscope: a breakdown is of one service's requests\nhint: name it with --service; tailscope query services lists them\n"},
		{"query breakdown --service a --low fast", exitUsage, "tailscope: --low \"fast\" is not a time: write one such as 500ms or 0.5\n"},
		{"query breakdown --service a --limit -1", exitUsage, "tailscope: --limit -1: write 0 or more\n"},
		{"query timeline --step 0", exitUsage, "tailscope: --step \"0\" is not a time: write one such as 500ms or 0.5\n"},
		{"query timeline --step 1e-10", exitUsage, "tailscope: --step \"1e-10\" is not a time: write one such as 500ms or 0.5\n"},
		{"query timeline --offset soon", exitUsage, "tailscope: --offset \"soon\" is not a time: write one such as 500ms or 0.5\n"},
		{"query heatmap --step 1e99", exitUsage, "tailscope: --step \"1e99\" is not a time: write one such as 500ms or 0.5\n"},
		{"query tenants --rare 2", exitUsage, "tailscope: --rare \"2\" is more than everything: write 2%\n"},
		{"query breakdown --service a", exitFailed, "tailscope: no request was taken apart in that range\nhint: tailscope query services --since 1h shows what there is; a wider --since may help\n"},
		{"query operations", exitFailed, "tailscope: no operation matches in that range\nhint: tailscope query services --since 1h shows what there is; a wider --since may help\n"},
		{"query traces", exitFailed, "tailscope: no trace of such a request is kept\nhint: tailscope query services --since 1h shows what there is; a wider --since may help\n"},
		{"query traces a b", exitUsage, "tailscope: tailscope query traces needs the id of a trace, or none\nhint: write tailscope query traces [ID] [flags]\n"},
		{"apdex", exitFailed, "tailscope: no request came in that range\nhint: tailscope query services --since 1h shows what there is; a wider --since may help\n"},
		{"apdex --by tenant", exitUsage, "tailscope: --by tenant: write operation, or leave it out\n"},
		{"apdex sett a 1s", exitUsage, "tailscope: unknown command \"sett\"\nhint: tailscope apdex --help lists set, rm and targets\n"},
		{"apdex set a", exitUsage, "tailscope: tailscope apdex set needs a service and a time, such as 300ms\nhint: write tailscope apdex set SERVICE TIME [flags]\n"},
		{"apdex set a soon", exitUsage, "tailscope: \"soon\" is not a time: write one such as 500ms or 0.5\n"},
	} {
		args := strings.Fields(c.args)
		if c.code == exitFailed {
			args = append(args, "--server", srv.URL)
		}
		out, stderr, code := run(t, args...)
		if code != c.code || stderr != c.want || out != "" {
			t.Errorf("%s: %d %q %q, want %d %q", c.args, code, out, stderr, c.code, c.want)
		}
	}
}

// A bar is as long as its share, to an eighth of a character, and never vanishes.
func TestBar(t *testing.T) {
	for _, c := range []struct {
		share api.Float
		want  string
	}{
		{0, ""}, {api.Float(math.NaN()), ""}, {0.0001, "▏"}, {0.5, "█████"}, {0.55, "█████▌"}, {1, "██████████"}, {1.5, "██████████"}, {0.0125, "▏"}, {0.9875, "█████████▉"},
	} {
		if got := report.Bar(c.share, 10); got != c.want {
			t.Errorf("%v: got %q, want %q", c.share, got, c.want)
		}
	}
}
