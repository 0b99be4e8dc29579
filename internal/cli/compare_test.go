package cli

import (
	"math"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

// compareFixture is a mark after which one operation is faster and failures
// are more, with a measure of every verdict.
func compareFixture() *api.CompareResponse {
	nan := api.Float(math.NaN())
	figure := func(a, b, effect, low, high api.Float, verdict api.Verdict) api.CompareFigure {
		return api.CompareFigure{A: a, B: b, Effect: effect, Low: low, High: high, P: 0.001, Verdict: verdict, Error: 0.0219, Needed: nan, NeededSeconds: nan}
	}
	measure := func(name, scale string, raw, like api.CompareFigure, change api.Way) api.CompareMeasure {
		return api.CompareMeasure{Name: name, Scale: scale, Raw: raw, Like: &like, Verdict: like.Verdict, Change: change, Adjusted: 0.002, Sentence: "a sentence"}
	}
	wide := figure(0.0613, 0.0622, 1.0147, 0.91, 1.13, "no evidence")
	wide.Needed, wide.NeededSeconds = 3.2, 11520
	short := figure(0.9, 0.8, 0.889, nan, nan, "too little data")
	short.Short, short.Needed, short.NeededSeconds = "too few observations beyond this figure", 2.5, 9000
	r := &api.CompareResponse{
		Family: "span_duration_seconds", Of: "shop", Slot: 10, Level: 0.95, Within: 0.05, Verdict: "mixed", Strata: 2, StrataBy: []string{"service", "operation"}, Covered: 1,
		Sentence: "p99 of shop is 38 % faster (95 % interval 33 … 42 %)",
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
		out := api.CompareRow{Operation: operation, Tenant: tenant, RequestsA: 12000, RequestsB: 11000, MeanA: 0.12, MeanB: 0.1, Adjusted: 0.001, Changed: changed}
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
	r.Unit = "seconds"
	r.Whole = &api.CompareWhole{Test: "energy", P: 0.001, Resamples: 1000, Block: 12, Verdict: "different", Sentence: "the distributions differ (p < 0.001), most at 120 ms: 34 % of A and 51 % of B take no longer"}
	return r
}

// curveFixture is the same up to p50, and 20 % faster in the tail, which the
// greatest quantile cannot be sure of.
func curveFixture() *api.CompareCurve {
	c := &api.CompareCurve{LikeForLike: true}
	for i := range 60 {
		p := -math.Expm1(math.Log1p(-0.01) + (math.Log1p(-0.999)-math.Log1p(-0.01))*float64(i)/59)
		ratio := 1.0
		if p > 0.5 {
			ratio = 1 - 0.2*math.Min(1, (p-0.5)/0.4)
		}
		half := 0.02 + 0.0004/(1-p)
		low, high := ratio*math.Exp(-half), ratio*math.Exp(half)
		if i == 59 {
			high = math.NaN()
		}
		c.Ps, c.Ratio = append(c.Ps, api.Float(p)), append(c.Ratio, api.Float(ratio))
		c.Low, c.High = append(c.Low, api.Float(low)), append(c.High, api.Float(high))
		a := math.Log1p(-p) * -0.02
		c.QuantilesA, c.QuantilesB = append(c.QuantilesA, api.Float(a)), append(c.QuantilesB, api.Float(a*ratio))
	}
	return c
}

func TestCompareOutput(t *testing.T) {
	for file, format := range map[string]string{"compare.txt": "text", "compare.md": "markdown", "compare.json": "json"} {
		srv, asked := answering(t, compareFixture())
		out, stderr, code := run(t, "compare", "--service", "shop", "--mark", "5f1c0de", "--within", "5%", "--format", format, "--server", srv.URL)
		if code != exitRegression || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", format, code, stderr)
		}
		reporttest.Golden(t, file, out)
		if want := `GET /api/v1/compare limit=10&mark=5f1c0de&match={service="shop"}&within=0.05`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
}

// The ratio at every quantile as a picture, of a comparison that is watched.
func TestCompareCurve(t *testing.T) {
	for file, format := range map[string]string{"compare-curve.txt": "text", "compare-curve.md": "markdown"} {
		r := compareFixture()
		r.Curve, r.Live, r.Whole, r.Operations, r.Tenants, r.Measures = curveFixture(), true, nil, nil, nil, r.Measures[:3]
		srv, asked := answering(t, r)
		out, stderr, _ := run(t, "compare", "--mark", "5f1c0de", "--curve", "--set", "live=true", "--set", "width=70", "--format", format, "--server", srv.URL)
		if stderr != "" {
			t.Fatal(stderr)
		}
		reporttest.Golden(t, file, out)
		if want := `GET /api/v1/compare include=curve&limit=10&live=true&mark=5f1c0de`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
	if lines := report.RatioPicture(&api.CompareCurve{}, 80); lines != nil {
		t.Errorf("a picture of nothing: %q", lines)
	}
}

// Sides of several windows.
func TestCompareWindows(t *testing.T) {
	r := compareFixture()
	r.Mark, r.Whole, r.Operations, r.Tenants, r.Warnings, r.Measures = nil, nil, nil, nil, nil, r.Measures[:2]
	nights := func(first int64) (all []api.Range) {
		for i := range int64(5) {
			all = append(all, api.Range{Start: first + 86400*i, End: first + 86400*i + 28800})
		}
		return all
	}
	for i, s := range []*api.CompareSide{&r.A, &r.B} {
		s.Name, s.Windows = []string{"A", "B"}[i], nights(1778277600+604800*int64(i))
		s.Range = api.Range{Start: s.Windows[0].Start, End: s.Windows[4].End}
	}
	srv, asked := answering(t, r)
	out, stderr, _ := run(t, "compare", "--a", "daily 22:00-06:00 last 5 before 1778904000", "--b", "daily 22:00-06:00  last 5", "--server", srv.URL)
	if stderr != "" {
		t.Fatal(stderr)
	}
	reporttest.Golden(t, "compare-windows.txt", out)
	if want := `GET /api/v1/compare a=daily 22%3A00-06%3A00 last 5 before 1778904000&b=daily 22%3A00-06%3A00 last 5&limit=10`; strings.ReplaceAll(unescape((*asked)[0]), "+", " ") != want {
		t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
	}
}

// What is not a duration is written in its own unit.
func TestCompareUnits(t *testing.T) {
	r := compareFixture()
	r.Family, r.Per, r.Unit, r.Whole, r.Operations, r.Tenants, r.Warnings = "net_bytes_total", "request", "bytes", nil, nil, nil, nil
	r.Sentence, r.Verdict = "net_bytes_total of shop per request is 12 % higher (95 % interval 8 … 16 %)", "regression"
	r.Measures = r.Measures[2:3]
	m := &r.Measures[0]
	m.Name, m.Verdict, m.Like = "per_request", "higher", nil
	r.A.Days = []api.Range{{Start: 1778313600}, {Start: 1777708800}, {Start: 1777104000}}
	r.Operations = []api.CompareRow{{Operation: `{device="eth0"}`, RequestsA: 12, RequestsB: 13, Measures: r.Measures}, {Operation: `{device="lo"}`, RequestsA: 12, RequestsB: 13, Measures: r.Measures}}
	m.Raw.A, m.Raw.B, m.Raw.Effect, m.Raw.Low, m.Raw.High, m.Raw.Error = 2048, 2293.8, 1.12, 1.08, 1.16, 0
	srv, asked := answering(t, r)
	out, _, code := run(t, "compare", "--family", "net_bytes_total", "--set", "per=request", "--b", "1778317200..1778320800", "--days", "3", "--set", "tz=Europe/Berlin", "--server", srv.URL)
	if code != exitRegression {
		t.Errorf("exit code %d", code)
	}
	reporttest.Golden(t, "compare-bytes.txt", out)
	if want := `GET /api/v1/compare b=1778317200/1778320800&days=3&family=net_bytes_total&limit=10&per=request&tz=Europe/Berlin`; unescape((*asked)[0]) != want {
		t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
	}
}

// The exit code is the verdict; what went wrong is never taken for one.
func TestCompareExitCodes(t *testing.T) {
	for verdict, want := range map[api.Verdict]int{
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
		"--mark x --server http://127.0.0.1:1":       "cannot reach the server",
		"--frobnicate":                               "unknown flag",
		"here":                                       "takes no arguments",
		"--a now-1h..now":                            "two sides",
		"--a 1.0 --b 1.1":                            "write START..END",
		"--a now-1h..soon --b now-1h..now":           "not a moment",
		"--mark x --label version":                   "leave --a, --b, --label, --days and --set like out",
		"--mark x --format html":                     "write one of text, json, markdown",
		"--mark x --within 5":                        "write 5%",
		"--mark x --limit 0":                         "write 1 or more",
		"--mark x --days 3":                          "leave --a, --b, --label, --days and --set like out",
		"--set like=day --a now-1h..now":             "write --b START..END",
		"--b now-1h..now --days -1":                  "write 1 or more",
		"--mark x --for 30m":                         "--for and --set every belong to --watch",
		"--mark x --watch --for soon":                "--for",
		"--a now-2h..now-1h --b now-1h..now --watch": "nothing to watch",
		"--a now-2h..now-1h,now-4h --b now-1h..now":  "is not a window",
		"--a now-2h..now-1h --b now-40m..now-20m,now-10m..now --watch --for 5m": "leave --watch out",
	} {
		if _, stderr, code := run(t, append([]string{"compare"}, strings.Fields(args)...)...); code != exitNoAnswer || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; want 3, %s", args, code, stderr, want)
		}
	}
}

// What is wrong with a window is said in the syntax of the command line, and its flag once.
// Earlier days are those of the same weekday, which the command says where they have no
// requests.
func TestCompareSaysWhichDays(t *testing.T) {
	r := compareFixture()
	r.Verdict, r.A.Requests = "too little data", 0
	srv, _ := answering(t, r)
	for like, want := range map[string]bool{"": true, "day": false} {
		args := []string{"compare", "--b", "1778317200..1778320800", "--days", "1", "--server", srv.URL}
		if like != "" {
			args = append(args, "--set", "like="+like)
		}
		_, errOut, code := run(t, args...)
		if got := strings.Contains(errOut, "--set like=day takes the days before"); got != want || code != exitTooLittle {
			t.Errorf("like=%s: exit code %d, %q", like, code, errOut)
		}
	}
}

func TestCompareRefusesWindows(t *testing.T) {
	for a, want := range map[string]string{
		"daily 22:00-06:00 last 99": "--a: 99 windows are not between 1 and 60; write one such as daily",
		"daily 22:00-06:00 lst 5":   `--a: "daily 22:00-06:00 lst 5" is not a window that repeats; write one such as daily 22:00-06:00 last 5`,
		"nightly":                   "windows that repeat are written as 'daily 22:00-06:00 last 5'",
		"now-1h..now-2h":            `--a "now-1h..now-2h" ends before it begins: write START..END, such as now-2h..now-1h`,
	} {
		if _, stderr, code := run(t, "compare", "--a", a, "--b", "now-1h..now"); code != exitNoAnswer || !strings.Contains(stderr, want) || strings.Contains(stderr, "start/end") {
			t.Errorf("%s: exit code %d, %s; want 3, %s", a, code, stderr, want)
		}
	}
}

func TestCompareAsks(t *testing.T) {
	for args, want := range map[string]string{
		"--a 1778313600..1778317200 --b 1778317200..1778320800":                                             "a=1778313600/1778317200&b=1778317200/1778320800&limit=10",
		"--service shop --label version --a 1.0 --b 1.1 --set start=1778313600 --set end=1778317200":        `a=1.0&b=1.1&end=1778317200&label=version&limit=10&match={service="shop"}&start=1778313600`,
		"--mark x --set settle=30s --set window=2h --set level=99% --measures p50,p99 --tenant a --limit 3": `level=0.99&limit=3&mark=x&match={tenant="a"}&measures=p50,p99&settle=30s&window=2h`,
		"--mark x --set allow=p99=increase:3%,errors=0.1%":                                                  `allow=p99=increase%3A3%25,errors=0.1%25&limit=10&mark=x`,
		"--mark x --set environment=staging --set cohort=small":                                             `limit=10&mark=x&match={environment="staging",cohort="small"}`,
		"--a 1778313600..1778317200,1778400000..1778403600 --b 1778486400..1778490000":                      "a=1778313600/1778317200,1778400000/1778403600&b=1778486400/1778490000&limit=10",
		"--mark x --set settle=0 --set window=1d":                                                           `limit=10&mark=x&settle=0s&window=24h`,
	} {
		srv, asked := answering(t, compareFixture())
		run(t, append([]string{"compare", "--server", srv.URL}, strings.Fields(args)...)...)
		if got := unescape(strings.Join(*asked, "; ")); got != "GET /api/v1/compare "+want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// What of a range has no flag here is named by its key, in messages and in help.
func TestCompareNamesKeysOfItsRange(t *testing.T) {
	_, stderr, code := run(t, "compare", "--set", "start=now-1h", "--since", "2h", "--label", "version", "--a", "1", "--b", "2")
	if want := "--set start and --since both say where to begin"; code != exitNoAnswer || !strings.Contains(stderr, want) {
		t.Errorf("code %d, %s; want %q", code, stderr, want)
	}
	_, stderr, _ = run(t, "compare", "--set", "end=soon", "--label", "version", "--a", "1", "--b", "2")
	if want := "--set end "; !strings.Contains(stderr, want) {
		t.Errorf("%s; want %q", stderr, want)
	}
	if help, _, _ := run(t, "compare", "--help"); strings.Contains(help, "--end") || !strings.Contains(help, "look from --set end,") {
		t.Errorf("the help names a flag that there is not:\n%s", help)
	}
}
