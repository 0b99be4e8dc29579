package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Every bad input is told what to write instead, and which parameter is at fault.
func TestBadInput(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		path, query  string
		status       int
		field, words string
	}{
		{"services", "start=yesterday", 400, "start", `"yesterday" is not a time; write RFC 3339`},
		{"services", "start=1778313600000", 400, "start", "if it is milliseconds, write 1778313600"},
		{"services", "start=now-6", 200, "", ""},
		{"services", "start=now-6x", 400, "start", "is not a time"},
		{"services", "start=nan", 400, "start", "is not a time"},
		{"services", "start=-5", 400, "start", "before 1970"},
		{"services", "end=4000000000000", 400, "end", "too large for Unix seconds"},
		{"services", "start=now&end=now-1h", 400, "end", "is not after start"},
		{"services", "start=now&end=now", 400, "end", "is not after start"},
		{"services", "apdex_t=-1", 400, "apdex_t", "positive number of seconds"},
		{"services", "apdex_t=fast", 400, "apdex_t", "not a number"},
		{"services", "strat=now-1h", 400, "strat", `did you mean "start"?`},
		{"services", "start=now-1h&start=now-2h", 400, "start", "given 2 times"},
		{"services", "start=%zz", 400, "", "percent-encode"},
		{"heatmap", "width=0", 400, "width", "not positive"},
		{"heatmap", "width=1", 400, "width", "not between 2 and 11000"},
		{"heatmap", "width=wide", 400, "width", "not a whole number"},
		{"heatmap", "width=20000", 400, "width", "not between"},
		{"heatmap", "rows=1", 400, "rows", "not between"},
		{"heatmap", "step=soon", 400, "step", "write seconds or a duration"},
		{"heatmap", "step=0", 400, "step", "not positive"},
		{"heatmap", "step=-5m", 400, "step", "not positive"},
		{"heatmap", "step=100ms", 400, "step", "not whole seconds"},
		{"heatmap", "step=10s&start=now-30d", 400, "step", "write 300s or more"},
		{"heatmap", "family=heap_bytes", 400, "family", "heap_bytes is a gauge, which has no heatmap; ask for its timeline"},
		{"heatmap", "family=span_duration_second", 404, "family", `did you mean "span_duration_seconds"?`},
		{"heatmap", "family=nope", 404, "family", `there is no family "nope"; write one of heap_bytes, `},
		{"distribution", "by=colour", 400, "by", "write one of component, environment, instance, "},
		{"distribution", "q=99", 400, "q", "write 0.99"},
		{"distribution", "q=0.5,half", 400, "q", `"half" is not a quantile`},
		{"distribution", "q=-0.1", 400, "q", "not between 0 and 1"},
		{"distribution", "q=nan", 400, "q", "is not a quantile"},
		{"distribution", "at=0.2,x", 400, "at", "not a number"},
		{"distribution", "at=inf", 400, "at", "not a number"},
		{"distribution", "buckets=maybe", 400, "buckets", "neither true nor false"},
		{"distribution", "limit=-1", 400, "limit", "not positive"},
		{"distribution", "by=service,,kind", 400, "by", "empty name"},
		{"distribution", "by=sevice", 400, "by", `did you mean "service"?`},
		{"distribution", "by=tenant,instance", 400, "by", "not kept together"},
		{"distribution", "match=" + url.QueryEscape(`{service=checkout}`), 400, "match", `write matchers such as {service="checkout"`},
		{"distribution", "match=" + url.QueryEscape(`{service=~"("}`), 400, "match", "is not a selection"},
		{"distribution", "match=" + url.QueryEscape(`{tennant="acme"}`), 400, "match", `no series of span_duration_seconds has the label "tennant"; did you mean "tenant"?`},
		{"distribution", "match=" + url.QueryEscape(`{tenant="a",instance="b"}`), 400, "match", "not kept together"},
		{"distribution", "match=" + url.QueryEscape(`{__name__=~"x.*"}`), 400, "match", "one family at most"},
		{"distribution", "family=heap_bytes&match=" + url.QueryEscape(`job_seconds{job="x"}`), 400, "match", "leave one of them out"},
		{"distribution", "family=job_seconds&match=" + url.QueryEscape(`{jab="x"}`), 400, "match", `did you mean "job"?`},
		{"distribution", "match=" + url.QueryEscape(`{tenant="nobody"}`), 200, "", ""},
		{"timeline", "offset=tomorrow", 400, "offset", "is not a duration"},
		{"timeline", "offset=1500ms", 400, "offset", "not whole seconds"},
		{"timeline", "offset=-1d", 200, "", ""},
		{"tenants", "sort=speed", 400, "sort", "write one of suffers, requests, errors, mean, slow, cohort, size, name, 0.5"},
		{"tenants", "cohort=huge", 400, "cohort", "write one of very large, large"},
		{"tenants", "cohort=very-large&not_rare=true&slow=300ms&rare=0.5%25&sort=slow", 200, "", ""},
		{"tenants", "slow=0", 400, "slow", "write a time such as 1s"},
		{"tenants", "rare=1", 400, "rare", "write one such as 0.01 or 1%"},
		{"tenants", "not_rare=perhaps", 400, "not_rare", "neither true nor false"},
		{"tenants", "limit=5000", 400, "limit", "not between 1 and 1000"},
		{"tenants", "offset=-1", 400, "offset", "negative"},
		{"tenants", "q=", 200, "", ""},
		{"labels", "limit=99999", 400, "limit", "not between"},
		{"nearest", "time=then", 400, "time", "is not a time"},
		{"nearest", "time=-5", 400, "time", "before 1970"},
		{"marks", "start=now&end=now-1h", 400, "end", "not after start"},
		{"status", "x=1", 400, "x", "takes no parameters"},
		{"servces", "", 404, "", `did you mean "/api/v1/services"?`},
	} {
		status, body := fetch(t, srv, "/api/v1/"+c.path+"?"+c.query)
		wantAnswer(t, c.path+"?"+c.query, status, body, c.status, c.field, c.words)
	}
}

func wantAnswer(t *testing.T, what string, status int, body string, wantStatus int, field, words string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("%s: status %d, want %d: %s", what, status, wantStatus, body)
		return
	}
	if wantStatus < 300 {
		return
	}
	var e api.Error
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Errorf("%s: %v in %s", what, err, body)
		return
	}
	if e.Error.Code == "" || e.Error.Field != field || !strings.Contains(e.Error.Message, words) {
		t.Errorf("%s: got code %q, field %q, message %q; want field %q and %q", what, e.Error.Code, e.Error.Field, e.Error.Message, field, words)
	}
}

func send(t *testing.T, srv *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := srv.Client().Do(req)
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

func TestMarks(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		method, path, body string
		status             int
		field, words       string
	}{
		{"POST", "/api/v1/marks", `{`, 400, "body", "is not JSON"},
		{"POST", "/api/v1/marks", ``, 400, "body", "is not JSON"},
		{"POST", "/api/v1/marks", `{"name":"a"} {}`, 400, "body", "goes on"},
		{"POST", "/api/v1/marks", `{"name":" "}`, 400, "name", "needs a name"},
		{"POST", "/api/v1/marks", `{"nam":"x"}`, 400, "nam", `did you mean "name"?`},
		{"POST", "/api/v1/marks", `{"name":7}`, 400, "name", "write a string"},
		{"POST", "/api/v1/marks", `{"name":"a","time":"whenever"}`, 400, "time", "is not a time"},
		{"POST", "/api/v1/marks", `{"name":"a","time":-4}`, 400, "time", "before 1970"},
		{"POST", "/api/v1/marks", `{"name":"a","time":"2300-01-01T00:00:00Z"}`, 400, "time", "too far away"},
		{"POST", "/api/v1/marks", `{"name":"a","time":"2031-01-01T00:00:00Z"}`, 400, "time", "2031-01-01T00:00:00Z has not come yet"},
		{"POST", "/api/v1/marks", `{"name":"a","time":"now+6m"}`, 400, "time", "name the moment when it comes"},
		{"POST", "/api/v1/marks", `{"name":"a","id":"7"}`, 400, "id", "leave it out"},
		{"POST", "/api/v1/marks", `{"name":"a","link":"javascript:alert(1)"}`, 400, "link", "https://"},
		{"POST", "/api/v1/marks", `{"name":"` + strings.Repeat("x", 5000) + `"}`, 400, "name", "longer than 4096"},
		{"POST", "/api/v1/marks", strings.Repeat(" ", 1<<20+1), 413, "body", "larger than 1 MB"},
		{"PUT", "/api/v1/marks", `{"name":"a"}`, 405, "", "takes GET or POST, not PUT"},
		{"PUT", "/api/v1/marks/7", ``, 405, "", "takes DELETE or GET, not PUT"},
		{"GET", "/api/v1/marks/7", ``, 404, "id", "there is no mark \"7\""},
		{"POST", "/api/v1/services", ``, 405, "", "takes GET"},
		{"DELETE", "/api/v1/marks/none", ``, 204, "", ""},
	} {
		status, body := send(t, srv, c.method, c.path, c.body)
		wantAnswer(t, c.method+" "+c.path+" "+c.body[:min(len(c.body), 40)], status, body, c.status, c.field, c.words)
	}

	post := func(body string) api.Mark {
		t.Helper()
		status, got := send(t, srv, "POST", "/api/v1/marks", body)
		var m api.Mark
		if err := json.Unmarshal([]byte(got), &m); err != nil || status != http.StatusCreated || m.ID == "" {
			t.Fatalf("status %d, %s", status, got)
		}
		return m
	}
	deploy := post(`{"name":"deploy","service":"checkout","time":"now-10m","revision":"abc","user":"kim","description":"index","link":"https://x/1"}`)
	if want := float64(now.Unix() - 600); float64(deploy.Time) != want {
		t.Errorf("time %v, want %v", deploy.Time, want)
	}
	ahead := post(`{"name":"of a clock that is fast","time":"now+4m"}`)
	if status, got := send(t, srv, "DELETE", "/api/v1/marks/"+ahead.ID, ""); status != 204 {
		t.Errorf("status %d, %s", status, got)
	}
	nightly := post(`{"name":"nightly"}`)
	if float64(nightly.Time) != float64(now.Unix()) {
		t.Errorf("time %v, want now", nightly.Time)
	}
	list := func(params ...string) string {
		t.Helper()
		status, got := fetch(t, srv, "/api/v1/marks", params...)
		var r api.MarksResponse
		if err := json.Unmarshal([]byte(got), &r); err != nil || status != 200 {
			t.Fatalf("status %d, %s", status, got)
		}
		var names []string
		for _, m := range r.Marks {
			names = append(names, m.Name)
		}
		return strings.Join(names, " ")
	}
	if got := list(); got != "deploy nightly" {
		t.Errorf("all marks: %s", got)
	}
	if got := list("service", "batch"); got != "nightly" {
		t.Errorf("marks of batch: %s; want those that concern every service", got)
	}
	if got := list("end", "now-1m"); got != "deploy" {
		t.Errorf("marks until a minute ago: %s", got)
	}
	if status, got := send(t, srv, "DELETE", "/api/v1/marks/"+deploy.ID, ""); status != 204 {
		t.Errorf("delete: %d %s", status, got)
	}
	if got := list(); got != "nightly" {
		t.Errorf("after deletion: %s", got)
	}
}

// A browser lets any page post text and forms to any address; JSON it asks about.
func TestBodiesAreJSON(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		contentType, body string
		status            int
	}{
		{"text/plain", `{"name":"x"}`, 415},
		{"application/x-www-form-urlencoded", `{"name":"x"}`, 415},
		{"multipart/form-data; boundary=x", `{"name":"x"}`, 415},
		{"", `{"name":"x"}`, 415},
		{"application/json; application/json", `{"name":"x"}`, 415},
		{"application/json", `{"name":"x"}`, 201},
		{"Application/JSON; charset=utf-8", `{"name":"x"}`, 201},
		{"", ``, 400}, // an empty body is told what to write
	} {
		r, err := http.NewRequest(http.MethodPost, srv.URL+"/api/v1/marks", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.status || c.status == 415 && !strings.Contains(string(body), `"field":"body"`) {
			t.Errorf("content type %q: got %s %s, want %d", c.contentType, resp.Status, body, c.status)
		}
	}
}

// Who is refused before the API is asked is told so in the words of what was asked.
func TestRefuse(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/marks":            `{"error":{"code":"invalid","message":"go away"}}` + "\n",
		"/prometheus/api/v1/query": `{"status":"error","errorType":"bad_data","error":"go away"}`,
		"/metrics":                 "go away\n",
	} {
		w := httptest.NewRecorder()
		Refuse(w, httptest.NewRequest("POST", path, nil), 403, "go away")
		if w.Code != 403 || w.Body.String() != want {
			t.Errorf("%s: got %d %q, want 403 %q", path, w.Code, w.Body, want)
		}
	}
}

// Prometheus' API answers errors in Prometheus' words and with its statuses.
func TestPrometheusErrors(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct {
		path, query string
		status      int
		kind, words string
	}{
		{"query", "query=sum(", 400, "bad_data", `invalid parameter "query": 1:5: parse error`},
		{"query", "", 400, "bad_data", "no expression found"},
		{"query", "query=up&time=then", 400, "bad_data", `invalid parameter "time"`},
		{"query", "query=up&timeout=x", 400, "bad_data", `invalid parameter "timeout"`},
		{"query", "query=up&limit=-1", 400, "bad_data", "limit must be non-negative"},
		{"query", "query=up&lookback_delta=x", 400, "bad_data", "lookback_delta"},
		{"query", "query=" + url.QueryEscape("irate(span_duration_seconds[5m])"), 400, "bad_data", "irate() needs a running total"},
		{"query", "query=" + url.QueryEscape("sum by (tenant, instance)(rate(span_duration_seconds[5m]))"), 400, "bad_data", "not kept together"},
		{"query", "query=" + url.QueryEscape("heap_bytes + on(x) heap_bytes"), 422, "execution", "many-to-many"},
		{"query_range", "query=up&start=2&end=1&step=1", 400, "bad_data", "end timestamp must not be before start time"},
		{"query_range", "query=up&start=1&end=2&step=0", 400, "bad_data", "zero or negative query resolution"},
		{"query_range", "query=up&start=0&end=100000&step=1", 400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries: the range has 100,001; write step=10s or a shorter range"},
		{"query_range", "query=up&start=1&end=2", 400, "bad_data", `invalid parameter "step"`},
		{"query_range", "query=up&end=2&step=1", 400, "bad_data", `invalid parameter "start"`},
		{"series", "", 400, "bad_data", "no match[] parameter provided"},
		{"series", "match[]=" + url.QueryEscape(`{a=""}`), 400, "bad_data", "at least one non-empty matcher"},
		{"series", "match[]=" + url.QueryEscape(`{a=`), 400, "bad_data", `invalid parameter "match[]"`},
		{"labels", "start=x", 400, "bad_data", "invalid time value for 'start'"},
		{"label/%FF/values", "", 400, "bad_data", "invalid label name"},
		{"format_query", "query=(", 400, "bad_data", "parse error"},
		{"nothing", "", 404, "not_found", "the query API is under /prometheus/api/v1/"},
	} {
		status, body := fetch(t, srv, "/prometheus/api/v1/"+c.path+"?"+c.query)
		var e struct{ Status, ErrorType, Error string }
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Errorf("%s?%s: %v in %s", c.path, c.query, err, body)
			continue
		}
		if status != c.status || e.Status != "error" || e.ErrorType != c.kind || !strings.Contains(e.Error, c.words) {
			t.Errorf("%s?%s: got %d %s %q; want %d %s %q", c.path, c.query, status, e.ErrorType, e.Error, c.status, c.kind, c.words)
		}
	}
}

func TestPrometheusForms(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct{ path, form string }{
		{"query", "query=vector(1)"}, {"query_range", "query=vector(1)&start=0&end=10&step=10"},
		{"series", "match[]=heap_bytes"}, {"labels", "match[]=heap_bytes"}, {"format_query", "query=a%2Bb"},
	} {
		res, err := srv.Client().Post(srv.URL+"/prometheus/api/v1/"+c.path, "application/x-www-form-urlencoded", strings.NewReader(c.form))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || !strings.HasPrefix(string(b), `{"status":"success","data":`) || len(b) < 34 {
			t.Errorf("%s %s: %d %s", c.path, c.form, res.StatusCode, b)
		}
	}
}

// slow is a store whose questions wait until they are let go.
type slow struct {
	store.Store
	entered chan struct{}
	release chan struct{}
}

func (s *slow) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	s.entered <- struct{}{}
	select {
	case <-s.release:
		return s.Store.Query(ctx, q)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestBoundsAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slow{Store: storetest.NewTwin(), entered: make(chan struct{}, 10), release: make(chan struct{})}
		h := New(Options{Store: st, Now: func() time.Time { return now }, MaxConcurrent: 1, MaxWait: time.Second, Timeout: 10 * time.Second})
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w
		}
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- ask("/api/v1/services") }()
		<-st.entered

		// While one is worked on, others wait a second and are then sent away.
		if w := ask("/api/v1/heatmap"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
			t.Errorf("heatmap: got %d %v %s", w.Code, w.Header(), w.Body)
		}
		// PromQL and what analyses have turns of their own.
		for _, path := range []string{"/prometheus/api/v1/query?query=vector(1)", "/api/v1/sessions"} {
			if w := ask(path); w.Code != http.StatusOK {
				t.Errorf("%s beside the page: got %d %s", path, w.Code, w.Body)
			}
		}
		// The first runs into its deadline.
		if w := <-first; w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "took too long") {
			t.Errorf("deadline: got %d %s", w.Code, w.Body)
		}
		// Its turn was given back.
		go func() { <-st.entered; st.release <- struct{}{} }()
		if w := ask("/api/v1/services"); w.Code != http.StatusOK {
			t.Errorf("afterwards: got %d %s", w.Code, w.Body)
		}
	})
}

// broken is a store that fails, or panics.
type broken struct {
	store.Store
	err error
}

func (b *broken) Query(context.Context, store.Query) (*store.Result, error) {
	if b.err == nil {
		panic("oh no")
	}
	return nil, b.err
}

func (b *broken) Families(context.Context) ([]store.FamilyInfo, error) { return nil, b.err }

// What is wrong is told while the store is away; a store that fails otherwise is an error.
func TestStatusWhileTheStoreIsAway(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
	}{
		{fmt.Errorf("families: ClickHouse at ch1:8123: %w", store.ErrAway), 200, `"has_data":true,`},
		{nil, 200, `"has_data":false,`},
		{errors.New("block 42: checksum mismatch"), 500, "internal error"},
	} {
		srv := serve(t, Options{Store: &broken{storetest.NewTwin(), c.err}, Logger: slog.New(slog.DiscardHandler), Problems: func() []api.Problem {
			return []api.Problem{{Code: "not_stored", Text: "ch1 does not answer"}}
		}})
		status, body := fetch(t, srv, "/api/v1/status")
		if status != c.status || !strings.Contains(body, c.body) || (status == 200) != strings.Contains(body, "ch1 does not answer") {
			t.Errorf("%v: got %d %s", c.err, status, body)
		}
	}
}

func TestServerFaults(t *testing.T) {
	var log strings.Builder
	for _, c := range []struct {
		err    error
		status int
		body   string
		logged string
	}{
		{errors.New("block 42: checksum mismatch"), 500, "internal error; the server's log says more", "block 42"},
		{nil, 500, "internal error; the server's log says more", "oh no"},
		{fmt.Errorf("%w: block 42", store.ErrFull), 503, "no space left to write", "block 42"},
		{fmt.Errorf("query: shard 3: ClickHouse at ch3:8123: %w", store.ErrAway), 503, "shard 3: ClickHouse at ch3:8123", ""},
		{fmt.Errorf("1,000,000 series: %w", store.ErrTooMany), 422, "add a label to match", ""},
	} {
		log.Reset()
		srv := serve(t, Options{Store: &broken{storetest.NewTwin(), c.err}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		status, body := fetch(t, srv, "/api/v1/services")
		if status != c.status || !strings.Contains(body, c.body) || strings.Contains(body, "block 42") || strings.Contains(body, "oh no") {
			t.Errorf("%v: got %d %s", c.err, status, body)
		}
		if !strings.Contains(log.String(), c.logged) || c.logged == "" && log.Len() > 0 {
			t.Errorf("%v: logged %q", c.err, log.String())
		}
	}
}

func TestGzip(t *testing.T) {
	srv := shop(t, Options{})
	for _, c := range []struct{ forwarded, want string }{
		{"", ""}, // loopback is faster than compression
		{"203.0.113.7", "gzip"},
	} {
		req, err := http.NewRequest("GET", srv.URL+"/api/v1/heatmap?start=now-1h", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		if c.forwarded != "" {
			req.Header.Set("X-Forwarded-For", c.forwarded)
		}
		res, err := srv.Client().Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Header.Get("Content-Encoding") != c.want || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("forwarded for %q: headers %v, want encoding %q", c.forwarded, res.Header, c.want)
		}
	}
}

func TestIsLocal(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:5000": true, "[::1]:5000": true, "[::ffff:127.0.0.1]:5000": true,
		"192.0.2.1:5000": false, "[2001:db8::1]:5000": false, "@": false, "": false,
	} {
		if got := isLocal(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%q: got %v, want %v", addr, got, want)
		}
	}
}

func TestOpenAPI(t *testing.T) {
	srv := shop(t, Options{})
	status, body := fetch(t, srv, "/openapi.json")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ Parameters []struct{ Name string } }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || status != 200 {
		t.Fatalf("status %d: %v", status, err)
	}
	for _, p := range []string{"services", "distribution", "heatmap", "timeline", "labels", "tenants", "nearest", "families", "status", "marks"} {
		if doc.Paths["/api/v1/"+p] == nil {
			t.Errorf("%s is missing", p)
		}
	}
	for name := range doc.Components.Schemas {
		if strings.HasPrefix(name, humaPrefix) {
			t.Errorf("schema %s describes what is never answered", name)
		}
	}
	var names []string
	for _, p := range doc.Paths["/api/v1/heatmap"]["get"].Parameters {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "family match start end step width rows" {
		t.Errorf("heatmap takes %s", got)
	}
	if strings.Contains(body, "$schema") {
		t.Error("a default hook was at work")
	}
}

// Times are read as they are written everywhere.
func TestTimes(t *testing.T) {
	epoch := time.Unix(querytest.Epoch, 0)
	for _, c := range []struct {
		in   string
		want time.Time
	}{
		{"", epoch}, {"now", now}, {"now-6h", now.Add(-6 * time.Hour)}, {"now+90s", now.Add(90 * time.Second)}, {"now 1h", now.Add(time.Hour)},
		{"now-1d", now.Add(-24 * time.Hour)}, {"now-1w", now.Add(-7 * 24 * time.Hour)}, {"now-1h30m", now.Add(-90 * time.Minute)},
		{"1778313600", epoch}, {"1778313600.25", epoch.Add(250 * time.Millisecond)}, {"1.7783136e9", epoch},
		{"2026-05-09T08:00:00Z", epoch}, {"2026-05-09T10:00:00+02:00", epoch}, {"2026-05-09T10:00:00 02:00", epoch},
	} {
		got, err := Time(c.in).Parse("t", now, epoch)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%q: got %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"now", "now-6h", "now+1d", "1778313600.5", "2026-05-09T08:00:00Z", "1e18", "-1", "now-", "now--1h", "nan", "inf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Time(s).Parse("start", now, now)
		if err != nil {
			return
		}
		if y := got.Year(); y < -40_000_000 || y > 40_000_000 {
			t.Errorf("%q is %v", s, got)
		}
		if got.Unix() >= 0 && got.Nanosecond()%1e6 == 0 && got.Year() < 5000 { // what is printed is read back
			again, err := Time(got.UTC().Format(time.RFC3339Nano)).Parse("start", now, now)
			if err != nil || !again.Equal(got) {
				t.Errorf("%q is %v, read back as %v, %v", s, got, again, err)
			}
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"60", "1.5h", "1d", "1w2d", "-5m", "1e300", "0x10", "1y1y", "5", "5 m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Duration(s).Parse("step")
		if err != nil {
			return
		}
		if d > 36500*24*time.Hour || d < -36500*24*time.Hour {
			t.Errorf("%q is %v", s, d)
		}
		if s = strings.TrimSpace(s); s != "" && !strings.HasPrefix(s, "-") {
			if n, err := Duration("-" + s).Parse("step"); err != nil || n != -d {
				t.Errorf("minus %q is %v, %v; want %v", s, n, err, -d)
			}
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{`{service="checkout",tenant=~"a|b"}`, `x{a!="b"}`, `{}`, ``, `{"utf.8"="x"}`, `{a=~"("}`, `{__name__="x"}`, `{a="b"`, "{a=`b`}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		family, ms, err := Selector(s).Parse("match")
		if err != nil {
			return
		}
		// What was read says the same when written and read again.
		parts := make([]string, 0, len(ms)+1)
		for _, m := range ms {
			parts = append(parts, m.String())
		}
		text := "{" + strings.Join(parts, ",") + "}"
		again, ms2, err := Selector(text).Parse("match")
		if err != nil || again != "" || len(ms2) != len(ms) {
			t.Fatalf("%q became %q: %q, %v, %v", s, text, again, ms2, err)
		}
		for i := range ms {
			if ms[i].String() != ms2[i].String() {
				t.Fatalf("%q: %v became %v", s, ms[i], ms2[i])
			}
		}
		_ = family
	})
}
