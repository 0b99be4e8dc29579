package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

// compareFixture is a mark after which one operation is faster and failures
// are more, with a measure of every verdict.
func compareFixture() *api.CompareResponse {
	nan := api.Float(math.NaN())
	figure := func(a, b, effect, low, high api.Float, verdict string) api.CompareFigure {
		return api.CompareFigure{A: a, B: b, Effect: effect, Low: low, High: high, P: 0.001, Verdict: verdict, Error: 0.0219, Needed: nan, NeededSeconds: nan}
	}
	measure := func(name, scale string, raw, like api.CompareFigure, change string) api.CompareMeasure {
		return api.CompareMeasure{Name: name, Scale: scale, Raw: raw, Like: &like, Verdict: like.Verdict, Change: change, Adjusted: 0.002, Sentence: "a sentence"}
	}
	wide := figure(0.0613, 0.0622, 1.0147, 0.91, 1.13, "no evidence")
	wide.Needed, wide.NeededSeconds = 3.2, 11520
	short := figure(0.9, 0.8, 0.889, nan, nan, "too little data")
	short.Short, short.Needed, short.NeededSeconds = "too few observations beyond this figure", 2.5, 9000
	r := &api.CompareResponse{
		Family: "span_duration_seconds", Of: "shop", Slot: 10, Level: 0.95, Within: 0.05, Verdict: "mixed", Strata: 2, StrataBy: []string{"service", "operation"}, Covered: 1,
		Sentence: "p99 of shop is 38 % faster (95 % interval 33–42 %)",
		A:        api.CompareSide{Range: api.Range{Start: 1778313600, End: 1778317200}, Name: "before the index", Slots: 360, Requests: 122814, Errors: 122, Rate: 34.115},
		B:        api.CompareSide{Range: api.Range{Start: 1778317220, End: 1778320820}, Name: "after the index", Slots: 360, Requests: 121004, Errors: 1210, Rate: 33.612},
		Mark:     &api.Mark{ID: "5f1c0de", Name: "the index", Time: 1778317203},
		Measures: []api.CompareMeasure{
			measure("p50", "ratio", figure(0.012, 0.0121, 1.01, 0.98, 1.03, "same"), figure(0.012, 0.0121, 1.008, 0.98, 1.03, "same"), ""),
			measure("p95", "ratio", wide, wide, ""),
			measure("p99", "ratio", figure(0.51, 0.33, 0.647, 0.6, 0.69, "faster"), figure(0.51, 0.316, 0.62, 0.58, 0.67, "faster"), "better"),
			measure("p99.9", "ratio", short, short, ""),
			measure("errors", "difference", figure(0.001, 0.01, 0.009, 0.008, 0.0101, "higher"), figure(0.001, 0.01, 0.009, 0.008, 0.0101, "higher"), "worse"),
			measure("apdex", "difference", figure(0.94, 0.95, 0.01, 0.004, 0.016, "higher"), figure(0.94, 0.95, 0.01, 0.004, 0.016, "higher"), "better"),
		},
		Warnings: []api.CompareWarning{{Code: "errors", Text: "the error ratio went from 0.1 % to 1 %"}},
	}
	for i := range r.Measures { // what is a share has no bucket
		if r.Measures[i].Scale == "difference" {
			r.Measures[i].Raw.Error, r.Measures[i].Like.Error = 0, 0
		}
	}
	row := func(operation, tenant string, f api.CompareFigure, changed bool) api.CompareRow {
		out := api.CompareRow{Operation: operation, Tenant: tenant, RequestsA: 12000, RequestsB: 11000, Adjusted: 0.001, Changed: changed}
		for _, name := range []string{"p50", "p95", "p99"} {
			m := api.CompareMeasure{Name: name, Scale: "ratio", Raw: f, Verdict: f.Verdict, Adjusted: 0.001}
			if changed {
				m.Change = "better"
			}
			out.Measures = append(out.Measures, m)
		}
		return out
	}
	r.Operations = []api.CompareRow{row("GET /search", "", figure(0.5, 0.3, 0.6, 0.55, 0.66, "faster"), true), row("GET /cart|{id}", "", wide, false)}
	r.Tenants = []api.CompareRow{row("", "<acme>", wide, false)}
	return r
}

func TestCompareOutput(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	for file, format := range map[string]string{"compare.txt": "text", "compare.md": "markdown", "compare.json": "json"} {
		srv, asked := answering(t, compareFixture())
		out, stderr, code := run(t, "compare", "--service", "shop", "--mark", "5f1c0de", "--within", "5%", "--format", format, "--server", srv.URL)
		if code != exitRegression || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", format, code, stderr)
		}
		golden(t, file, out)
		if want := `GET /api/v1/compare limit=10&mark=5f1c0de&match={service="shop"}&within=0.05`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
}

// The exit code is the verdict; what went wrong is never taken for one.
func TestCompareExitCodes(t *testing.T) {
	for verdict, want := range map[string]int{
		"regression": 1, "mixed": 1, "too little data": 2, "improvement": 0, "same": 0, "no evidence": 0,
	} {
		r := compareFixture()
		r.Verdict = verdict
		srv, _ := answering(t, r)
		if _, stderr, code := run(t, "compare", "--a", "1778313600..1778317200", "--b", "1778317200..1778320800", "--server", srv.URL); code != want || stderr != "" {
			t.Errorf("%s: exit code %d, want %d; %s", verdict, code, want, stderr)
		}
	}
	for args, want := range map[string]string{
		"--mark x --server http://127.0.0.1:1": "cannot reach the server",
		"--frobnicate":                         "unknown flag",
		"here":                                 "takes no arguments",
		"--a now-1h..now":                      "two sides",
		"--a 1.0 --b 1.1":                      "write START..END",
		"--a now-1h..soon --b now-1h..now":     "no moment",
		"--mark x --label version":             "leave --a, --b and --label out",
		"--mark x --format html":               "write one of text, json, markdown",
		"--mark x --within 5":                  "write 5%",
		"--mark x --limit 0":                   "write 1 or more",
	} {
		if _, stderr, code := run(t, append([]string{"compare"}, strings.Fields(args)...)...); code != exitNoAnswer || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; want 3, %s", args, code, stderr, want)
		}
	}
}

func TestCompareAsks(t *testing.T) {
	for args, want := range map[string]string{
		"--a 1778313600..1778317200 --b 1778317200..1778320800":                                 "a=1778313600/1778317200&b=1778317200/1778320800&limit=10",
		"--service shop --label version --a 1.0 --b 1.1 --start 1778313600 --end 1778317200":    `a=1.0&b=1.1&end=1778317200&label=version&limit=10&match={service="shop"}&start=1778313600`,
		"--mark x --settle 30s --window 2h --level 99% --measures p50,p99 --tenant a --limit 3": `level=0.99&limit=3&mark=x&match={tenant="a"}&measures=p50,p99&settle=30s&window=2h`,
	} {
		srv, asked := answering(t, compareFixture())
		run(t, append([]string{"compare", "--server", srv.URL}, strings.Fields(args)...)...)
		if got := unescape(strings.Join(*asked, "; ")); got != "GET /api/v1/compare "+want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}
