package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
)

// logLines are n lines of the recommended format that end at a time: a request
// of 100 ms, of which 60 ms are an upstream's, after 20 ms in a queue.
func logLines(end time.Time, from, n int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		ms := end.UnixMilli()
		fmt.Fprintf(&b, `10.0.0.9 - - [%s] "GET /cart/%d?x=1 HTTP/1.1" 200 512 "-" "curl/8" %d.%03d 0.100 "10.0.0.1:8080" "0.060" "0.002" "0.050" "200" "backend" "acme.example.com" "t=%d.%03d" "%032x" "-"`+"\n",
			end.Format("02/Jan/2006:15:04:05 -0700"), i, ms/1000, ms%1000, (ms-120)/1000, (ms-120)%1000, i+1)
	}
	return b.String()
}

// near fails the test unless got is want within a millisecond per request.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A log alone gives distributions, the breakdown, and slow requests.
func TestImportedLogToAnswers(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	c := &client.Client{Address: s.Addr()}
	const n = 1000
	lines := logLines(time.Now().Add(-time.Minute), 0, n)
	params := url.Values{"service": {"shop"}, "tenant": {"host"}}
	out, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(lines+"nonsense\n"))
	if err != nil {
		t.Fatal(err)
	}
	if out.Accepted != n || out.Lines != n+1 || out.Refused["other_format"] != 1 || out.Format != "tailscope" {
		t.Errorf("got %+v", out)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sel := api.Selection{Match: `{service="shop"}`, Start: "now-1h", End: "now+1m"}
	requests := api.Requests{Match: sel.Match, Start: sel.Start, End: sel.End}
	d, err := c.Distribution(t.Context(), api.DistributionRequest{Selection: sel, By: []string{"operation", "kind", "component", "tenant"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 2 {
		t.Fatalf("got %+v", d.Groups)
	}
	for _, g := range d.Groups {
		want, name := 0.1*n, "GET /cart/{id}"
		if g.Labels["kind"] == "client" {
			want, name = 0.06*n, "GET backend"
		}
		if g.Count != n || g.Labels["operation"] != name || g.Labels["tenant"] != "acme" {
			t.Errorf("got %+v", g)
		}
		near(t, name, float64(g.Sum), want)
	}
	b, err := c.Breakdown(t.Context(), api.BreakdownRequest{Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	if b.Total != n {
		t.Errorf("%d requests were broken down, want %d", b.Total, n)
	}
	parts := map[string]float64{}
	for _, p := range b.Components {
		parts[p.Component] = float64(p.Seconds)
	}
	near(t, "app", parts["app"], 0.04*n)
	near(t, "external", parts["external"], 0.06*n)
	near(t, "queue", parts["queue"], 0.02*n)
	traces, err := c.Traces(t.Context(), api.TracesRequest{Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	if len(traces.Traces) == 0 {
		t.Fatal("no request was kept")
	}
	if r := traces.Traces[0]; r.Operation != "GET /cart/{id}" || r.Tenant != "acme" || math.Abs(float64(r.Duration)-0.1) > 1e-9 {
		t.Errorf("kept %+v", r)
	}
	whole, err := c.Trace(t.Context(), traces.Traces[0].TraceID)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole.Spans) != 2 || whole.Spans[1].Instance != "10.0.0.1:8080" || !strings.HasPrefix(whole.Spans[0].Detail, "/cart/") {
		t.Errorf("got %+v", whole.Spans)
	}

	// The same file again is refused, by this server and the next on its data.
	stop(t, s)
	s = start(t, cfg)
	c.Address = s.Addr()
	_, err = c.ImportAccessLog(t.Context(), params, strings.NewReader(lines+"nonsense\n"))
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != "conflict" {
		t.Errorf("got %v, want that it was imported before", err)
	}
	if got := metric(t, s, "tailscope_access_log_lines_total"); got != 0 {
		t.Errorf("%v lines counted, want 0", got)
	}
}

// What is a month old is found in coarser slots.
func TestOldLogIsFound(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	c := &client.Client{Address: s.Addr()}
	const n = 500
	old := time.Now().Add(-30 * 24 * time.Hour)
	if _, err := c.ImportAccessLog(t.Context(), url.Values{"service": {"shop"}}, strings.NewReader(logLines(old, 0, n))); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := c.Distribution(t.Context(), api.DistributionRequest{Selection: api.Selection{
		Match: `{service="shop",kind="server"}`, Start: "now-31d", End: "now-29d",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Groups) != 1 || d.Groups[0].Count != n {
		t.Errorf("got %+v, want %d requests", d.Groups, n)
	}
}

func TestImportIsRefused(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	c := &client.Client{Address: s.Addr()}
	for _, tc := range []struct{ query, body, want string }{
		{"", "x", "service: a name is needed"},
		{"service=a&servce=b", "x", `there is no parameter "servce"`},
		{"service=a&format=$status", "x", "there is no $msec"},
		{"service=a", "hello\n", "no known format"},
		{"service=a&since=yesterday", "x", `"yesterday" is not a time`},
		{"service=a&again=yes", "x", "neither true nor false"},
		{"service=a&tenant=x", "x", "is not one of host"},
	} {
		params, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.ImportAccessLog(t.Context(), params, strings.NewReader(tc.body))
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != 400 || refused.Code != "invalid" || !strings.Contains(refused.Message, tc.want) {
			t.Errorf("%s: got %v, want %q", tc.query, err, tc.want)
		}
	}
	if status, body := get(t, "http://"+s.Addr()+"/api/v1/import/access-log"); status != 405 || !strings.Contains(body, "takes POST") {
		t.Errorf("GET answers %d %s", status, body)
	}
}

// An import under way does not keep a server from stopping, and goes on with
// the next one.
func TestImportGoesOnAfterRestart(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s := start(t, cfg)
	c := &client.Client{Address: s.Addr()}
	const n = 30_000
	lines := logLines(time.Now().Add(-time.Minute), 0, n)
	r, w := io.Pipe()
	half := len(lines)/2 + 17
	ended := make(chan error, 1)
	params := url.Values{"service": {"shop"}, "tenant": {"host"}}
	go func() {
		_, err := c.ImportAccessLog(t.Context(), params, r)
		ended <- err
	}()
	if _, err := io.WriteString(w, lines[:half]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); metric(t, s, "tailscope_access_log_lines_total") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no lines were taken")
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop(t, s) // though the sender neither goes on nor ends
	w.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-ended; err == nil {
		t.Fatal("the import broke off, and says nothing")
	}
	s = start(t, cfg)
	c.Address = s.Addr()
	out, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if out.ResumedAt == 0 || out.Accepted >= n {
		t.Errorf("it began anew: %+v", out)
	}
	wantRequests(t, s, n)
}

func wantRequests(t *testing.T, s *Server, n uint64) {
	t.Helper()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &client.Client{Address: s.Addr()}
	d, err := c.Distribution(t.Context(), api.DistributionRequest{Selection: api.Selection{
		Match: `{service="shop",kind="server"}`, Start: "now-1h", End: "now+1m",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got api.Float
	for _, g := range d.Groups {
		got += api.Float(g.Count)
	}
	if uint64(got) != n {
		t.Errorf("%v requests, want %d", got, n)
	}
}

// A followed log is read on after a restart, through a rotation meanwhile.
func TestFollowedLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	path := filepath.Join(t.TempDir(), "access.log")
	cfg.AccessLogs = []config.AccessLog{{Path: path, Service: "shop", Tenant: "host"}}
	add := func(path string, from, n int) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(logLines(time.Now().Add(-time.Minute), from, n)); err != nil {
			t.Fatal(err)
		}
	}
	await := func(s *Server, lines float64) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); metric(t, s, "tailscope_access_log_lines_total") < lines; {
			if time.Now().After(deadline) {
				t.Fatalf("%v lines were read, want %v", metric(t, s, "tailscope_access_log_lines_total"), lines)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	add(path, 0, 100) // was there before
	s := start(t, cfg)
	add(path, 100, 50)
	await(s, 50)
	stop(t, s)
	add(path, 150, 7)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add(path, 157, 9)
	s = start(t, cfg)
	await(s, 16)
	wantRequests(t, s, 66)

	cfg.AccessLogs[0].Format = "$status"
	cfg.Data = t.TempDir()
	if _, err := Start(t.Context(), Settings{Config: cfg}); err == nil || !strings.Contains(err.Error(), "access_logs[0]: format: there is no $msec") {
		t.Errorf("got %v, want an error that names the entry", err)
	}
}

// combinedLines are n lines of nginx's default format, one in five failed.
func combinedLines(end time.Time, n int) string {
	var b strings.Builder
	for i := range n {
		status := 200
		if i%5 == 0 {
			status = 502
		}
		fmt.Fprintf(&b, `10.0.0.9 - - [%s] "GET /t/acme/cart/%d HTTP/1.1" %d %d "-" "curl/8"`+"\n", end.Format("02/Jan/2006:15:04:05 -0700"), i, status, 1000+i)
	}
	return b.String()
}

// The default format gives rate, errors and sizes per route, whatever the
// order in which files are imported, and over a restart.
func TestLogWithoutDurations(t *testing.T) {
	cfg := testConfig(t.TempDir())
	path := filepath.Join(t.TempDir(), "access.log")
	now := time.Now().Truncate(time.Second)
	if err := os.WriteFile(path, []byte(combinedLines(now.Add(-2*time.Minute), 250)), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.AccessLogs = []config.AccessLog{{Path: path, Service: "shop", Tenant: "path:^/t/([a-z]+)/", Whole: true}}
	s := start(t, cfg)
	c := &client.Client{Address: s.Addr()}
	params := url.Values{"service": {"shop"}, "tenant": {"path:^/t/([a-z]+)/"}}
	for deadline := time.Now().Add(30 * time.Second); metric(t, s, "tailscope_access_log_lines_total") < 250; {
		if time.Now().After(deadline) {
			t.Fatal("the log is not followed")
		}
		time.Sleep(20 * time.Millisecond)
	}
	// The newer of two older files comes first.
	for _, old := range []struct {
		before time.Duration
		n      int
	}{{30 * time.Minute, 500}, {50 * time.Minute, 100}} {
		out, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(combinedLines(now.Add(-old.before), old.n)))
		if err != nil {
			t.Fatal(err)
		}
		if int(out.Untimed) != old.n || !strings.Contains(out.Notice, "log_format tailscope") {
			t.Errorf("got %+v", out)
		}
	}
	is := func(query string, at time.Time, want, within float64) {
		t.Helper()
		q := url.Values{"query": {query}, "time": {fmt.Sprint(at.Unix())}}
		var got struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		_, body := get(t, "http://"+s.Addr()+"/prometheus/api/v1/query?"+q.Encode())
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Data.Result) != 1 {
			t.Fatalf("%s: %v, %s", query, err, body)
		}
		if v, err := strconv.ParseFloat(fmt.Sprint(got.Data.Result[0].Value[1]), 64); err != nil || math.Abs(v-want) > within {
			t.Errorf("%s: got %v, want %v", query, v, want)
		}
	}
	want := func(n, failed float64) {
		t.Helper()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []time.Duration{10 * time.Second, time.Minute} {
			tl, err := c.Timeline(t.Context(), api.TimelineRequest{
				Selection: api.Selection{Family: "access_log_requests_total", Match: `{service="shop"}`, Start: "now-2h", End: "now+1m"},
				Grid:      api.Grid{Step: step}, By: []string{"operation", "tenant", "status"},
			})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, g := range tl.Groups {
				if g.Labels["operation"] != "GET /t/{name}/cart/{id}" && g.Labels["operation"] != "GET /t/acme/cart/{id}" || g.Labels["tenant"] != "acme" {
					t.Errorf("got %v", g.Labels)
				}
				for _, v := range g.Value {
					if v == v {
						got[g.Labels["status"]] += float64(v) * float64(tl.Step)
					}
				}
			}
			if math.Abs(got["ok"]-(n-failed)) > 1e-6 || math.Abs(got["error"]-failed) > 1e-6 {
				t.Errorf("step %s: got %v, want %v, of them %v failed", step, got, n, failed)
			}
		}
		d, err := c.Distribution(t.Context(), api.DistributionRequest{Selection: api.Selection{
			Family: "access_log_response_bytes", Match: `{service="shop"}`, Start: "now-2h", End: "now+1m"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Groups) != 1 || float64(d.Groups[0].Count) != n || d.Groups[0].Min < 1000 {
			t.Errorf("got %+v, want %v sizes", d.Groups, n)
		}
		is(`histogram_count(sum(increase(access_log_response_bytes{service="shop"}[2h])))`, now.Add(time.Minute), n, 0)
	}
	want(850, 170)
	stop(t, s)
	s = start(t, cfg)
	c.Address = s.Addr()
	want(850, 170)
	if _, err := c.ImportAccessLog(t.Context(), params, strings.NewReader(combinedLines(now.Add(-time.Minute), 150))); err != nil {
		t.Fatal(err)
	}
	want(1000, 200)
	if n := metric(t, s, "tailscope_access_log_lines_total"); n != 150 {
		t.Errorf("%v lines after the restart, want 150", n)
	}

	// PromQL's increase of a total, which extrapolates to the ends of the window.
	var steady strings.Builder
	for i := range 1800 {
		steady.WriteString(combinedLines(now.Add(time.Duration(i-1860)*time.Second), 1))
	}
	if _, err := c.ImportAccessLog(t.Context(), url.Values{"service": {"steady"}}, strings.NewReader(steady.String())); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(`sum(increase(access_log_requests_total{service="steady",status="error"}[10m]))`, now.Add(-5*time.Minute), 600, 1)
	is(`histogram_count(sum(increase(access_log_response_bytes{service="steady"}[10m])))`, now.Add(-5*time.Minute).Truncate(10*time.Second), 600, 0)
}
