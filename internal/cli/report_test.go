package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

// answering is a server that answers every question with one body, and
// remembers what was asked.
func answering(t *testing.T, body any) (srv *httptest.Server, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+strings.ReplaceAll(r.URL.Query().Encode(), "+", " ")+" "+b.String()))
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

// slaFixture is three weeks of Berlin, the second of an hour less: the data
// begin in the first, and the last is not over.
func slaFixture() *api.SLAResponse {
	nan := api.Float(math.NaN())
	qs := func(a, b, c api.Float) map[string]api.Float {
		return map[string]api.Float{"0.5": a, "0.95": b, "0.99": c}
	}
	r := &api.SLAResponse{Service: "shop", Period: "week", Zone: "Europe/Berlin", T: 0.5, Objective: 0.99, Under: 0.5}
	a := api.SLAPeriod{Range: api.Range{Start: 1773615600, End: 1774220400}, Name: "2026-W12", Partial: true, Covered: 3600, Requests: 360, Rate: 0.1,
		Apdex: 0.9986, ApdexLow: 0.9986, ApdexHigh: 0.9986, Satisfied: 0.9972, Tolerating: 0.0028, Frustrated: 0, Thin: true, Mean: 0.0213,
		Quantiles: qs(0.0104, 0.0612, 0.2101), Error: 0.022, Good: 0.9972, GoodLow: 0.9972, GoodHigh: 0.9972, Met: "yes"}
	a.Trend.Rate, a.Trend.Apdex, a.Trend.P95 = nan, nan, nan
	b := api.SLAPeriod{Range: api.Range{Start: 1774220400, End: 1774821600}, Name: "2026-W13", Covered: 601200, Requests: 723844810, Rate: 1204,
		Apdex: 0.94, ApdexLow: 0.9352, ApdexHigh: 0.9418, Satisfied: 0.899, Tolerating: 0.082, Frustrated: 0.019, Mean: 0.0413,
		Quantiles: qs(0.0121, 0.5038, 1.21), Error: 0.022, Errors: 868613, ErrorRate: 0.0012, Good: 0.98999, GoodLow: 0.981, GoodHigh: 0.9931, Met: "unknown",
		Worst: &api.SLATenant{Name: "globex|eu", Requests: 5120034, Apdex: 0.41, P95: 2.9}}
	b.Trend.Rate, b.Trend.Apdex, b.Trend.P95 = 12040, -0.0586, 8.232
	c := api.SLAPeriod{Range: api.Range{Start: 1774821600, End: 1775426400}, Name: "2026-W14", Partial: true, Covered: 259200, Requests: 205286400, Rate: 792,
		Apdex: 0.71, ApdexLow: 0.7021, ApdexHigh: 0.7198, Satisfied: 0.55, Tolerating: 0.32, Frustrated: 0.13, Mean: 0.9,
		Quantiles: qs(0.4402, 3.1, 9.02), Error: 0.022, Errors: 0, ErrorRate: 0, Good: 0.55, GoodLow: 0.53, GoodHigh: 0.56, Met: "no",
		Worst: &api.SLATenant{Name: "<initech>", Requests: 120034, Apdex: 0.02, P95: 12}}
	c.Trend.Rate, c.Trend.Apdex, c.Trend.P95, c.Trend.Saturated = 0.6578, -0.23, 6.15, true
	all := b
	all.Range = api.Range{Start: a.Start, End: c.End}
	all.Name, all.Partial, all.Requests, all.Rate, all.Worst, all.Met = "all", true, 929131570, 1075, nil, "no"
	all.Trend.Rate, all.Trend.Apdex, all.Trend.P95 = nan, nan, nan
	r.Rows, r.All = []api.SLAPeriod{a, b, c}, all
	r.Notes = []string{"a note of the server"}
	return r
}

// A date is the whole of that day, where the report has its days.
func TestReportEnd(t *testing.T) {
	for args, want := range map[string]string{
		"--end 2026-10-25 --tz Europe/Berlin":           "end=1792969200 Europe/Berlin",
		"--end 2026-10-25":                              "end=1792972800 UTC",
		"--end 2026-10-25T12:00:00Z --tz Europe/Berlin": "end=1792929600 Europe/Berlin",
	} {
		srv, asked := answering(t, slaFixture())
		if _, stderr, code := run(t, append(strings.Fields("report sla --service shop --server "+srv.URL), strings.Fields(args)...)...); code != exitOK {
			t.Fatalf("%s: %s", args, stderr)
		}
		end, zone, _ := strings.Cut(want, " ")
		if got := strings.Join(*asked, "; "); !strings.Contains(got, end+"&") || !strings.HasSuffix(got, "tz="+url.QueryEscape(zone)) {
			t.Errorf("%s asks %s, want %s", args, got, want)
		}
	}
}

func TestReportSLA(t *testing.T) {
	const args = "report sla --service shop --period week --count 3 --tz Europe/Berlin --objective 99% --under 500ms"
	for file, format := range map[string]string{"sla.txt": "text", "sla.md": "markdown", "sla.csv": "csv"} {
		srv, asked := answering(t, slaFixture())
		out, stderr, code := run(t, append(strings.Fields(args), "--format", format, "--server", srv.URL)...)
		if code != exitOK {
			t.Fatalf("%s: %s", format, stderr)
		}
		reporttest.Golden(t, file, out)
		if want := `GET /api/v1/sla count=3&match={service="shop"}&objective=0.99&period=week&tz=Europe/Berlin&under=0.5`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.SLA(slaFixture(), zone, time.Unix(1775080800, 0)).Write(&b, report.HTML); err != nil {
		t.Fatal(err)
	}
	reporttest.Golden(t, "sla.html", b.String())
	for _, foreign := range []string{"src=", "href=", "@import", "url(", "<initech>", "ZgotmplZ"} {
		if strings.Contains(b.String(), foreign) {
			t.Errorf("the page holds %s", foreign)
		}
	}
}

// unescape makes a query string readable.
func unescape(s string) string {
	return strings.NewReplacer("%7B", "{", "%7D", "}", "%22", `"`, "%2F", "/", "%3D", "=", "%2C", ",", "%7E", "~", "%7C", "|").Replace(s)
}

func TestReportSLAToFile(t *testing.T) {
	srv, _ := answering(t, slaFixture())
	file := filepath.Join(t.TempDir(), "shop.html")
	out, stderr, code := run(t, "report", "sla", "--service", "shop", "--format", "html", "--output", file, "--server", srv.URL)
	if code != exitOK || out != "" {
		t.Fatalf("%d %s %s", code, out, stderr)
	}
	page, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(page, []byte("<!doctype html>")) || !bytes.HasSuffix(page, []byte("</html>\n")) {
		t.Errorf("%v: %.80s", err, page)
	}
}

func TestReportSLAErrors(t *testing.T) {
	srv, asked := answering(t, &api.SLAResponse{Zone: "UTC"})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "tailscope: a report is of one service\nhint: name it with --service; tailscope query services lists them\n"},
		{"--service a --objective 99%", exitUsage, "tailscope: --objective and --under belong together: write --objective 99% --under 500ms\n"},
		{"--service a --under 1s --objective 99", exitUsage, "tailscope: --objective \"99\" is more than everything: write 99%\n"},
		{"--service a --under 1s --objective most", exitUsage, "tailscope: --objective \"most\" is not a share: write one between 0% and 100%, such as 99%\n"},
		{"--service a --under soon --objective 99%", exitUsage, "tailscope: --under \"soon\" is not a time: write one such as 500ms or 0.5\n"},
		{"--service a --t -1", exitUsage, "tailscope: --t \"-1\" is not a time: write one such as 500ms or 0.5\n"},
		{"--service a --format pdf", exitUsage, "tailscope: --format pdf: write one of text, markdown, html, csv, json\n"},
		{"--service a --output /nowhere/at/all --format csv", exitFailed, "tailscope: write the report: open /nowhere/at/all: no such file or directory\n"},
		{"--service a", exitFailed, "tailscope: a has no requests in those periods\nhint: tailscope query services --since 30d shows what there is; a larger --count looks further back\n"},
	} {
		out, stderr, code := run(t, append([]string{"report", "sla", "--server", srv.URL}, strings.Fields(c.args)...)...)
		if code != c.code || stderr != c.want || out != "" {
			t.Errorf("%s: %d %q, want %d %q", c.args, code, stderr, c.code, c.want)
		}
	}
	if len(*asked) != 2 {
		t.Errorf("asked %d times", len(*asked))
	}
}
