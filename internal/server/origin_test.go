package server

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// No listener with a page or JSON answers a page of another site, nor a page
// whose name was pointed here; programs are answered as before.
func TestOtherOrigins(t *testing.T) {
	c := testConfig(t.TempDir())
	c.DebugListen = "127.0.0.1:0"
	c.AllowedHosts = []string{"ci.example.com"}
	c.PageURL = "https://tail.example.com/"
	s := start(t, c)
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const (
		form     = "Content-Type: application/x-www-form-urlencoded"
		isJSON   = "Content-Type: application/json"
		protobuf = "Content-Type: application/x-protobuf"
	)
	page, otlp, pprof := s.Addr(), s.OTLPHTTP(), s.DebugAddr()
	for _, tc := range []struct {
		name, addr, method, path, body string
		headers                        []string
		status                         int
	}{
		{"PromQL", page, "POST", "/prometheus/api/v1/query", "query=1", []string{form, "Host: evil", "Origin: http://evil"}, 421},
		{"PromQL", page, "POST", "/prometheus/api/v1/query", "query=1", []string{form, "Origin: http://evil"}, 403},
		{"PromQL by a form", page, "POST", "/prometheus/api/v1/query", "query=1", []string{form, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"PromQL by a link", page, "GET", "/prometheus/api/v1/query?query=1", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"a question by a link", page, "GET", "//api/v1/status", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"a profile by a link", pprof, "GET", "/debug/pprof/cmdline", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"an address typed or kept", page, "GET", "/prometheus/api/v1/query?query=1", "", []string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{"PromQL as an image", page, "GET", "/prometheus/api/v1/query?query=1", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"PromQL by Grafana", page, "POST", "/prometheus/api/v1/query", "query=1", []string{form}, 200},
		{"PromQL by name", page, "POST", "/prometheus/api/v1/query", "query=1", []string{form, "Host: tail.example.com"}, 200},

		{"a mark", page, "POST", "/api/v1/marks", `{"name":"evil"}`, []string{isJSON, "Host: evil", "Origin: http://evil"}, 421},
		{"a mark", page, "POST", "/api/v1/marks", `{"name":"evil"}`, []string{isJSON, "Origin: http://evil"}, 403},
		{"a mark as text", page, "POST", "/api/v1/marks", `{"name":"evil"}`, []string{"Content-Type: text/plain"}, 415},
		{"a mark by curl", page, "POST", "/api/v1/marks", `{"name":"good"}`, []string{isJSON}, 201},
		{"a mark by the page", page, "POST", "/api/v1/marks", `{"name":"good"}`, []string{isJSON, "Origin: http://" + page, "Sec-Fetch-Site: same-origin"}, 201},
		{"a mark by the page behind a proxy", page, "POST", "/api/v1/marks", `{"name":"good"}`, []string{isJSON, "Origin: https://tail.example.com"}, 201},
		{"a mark by an allowed page", page, "POST", "/api/v1/marks", `{"name":"good"}`, []string{isJSON, "Origin: https://ci.example.com"}, 201},
		{"a lease or report of a mirror", page, "PUT", "/api/v1/sessions/m-1", `{}`, []string{isJSON, "Origin: http://evil"}, 403},
		{"an import", page, "POST", "/api/v1/import/access-log?service=evil", "GET /", []string{"Content-Type: text/plain", "Origin: http://evil"}, 403},

		{"the page", page, "GET", "/", "", []string{"Host: evil"}, 421},
		{"metrics", page, "GET", "/metrics", "", []string{"Host: evil"}, 421},
		{"metrics by the machine's name", page, "GET", "/metrics", "", []string{"Host: " + machine}, 200},
		{"health", page, "GET", "/healthz", "", []string{"Host: 10.0.0.7:7099"}, 200},
		{"readiness", page, "GET", "/readyz", "", nil, 200},
		{"openapi", page, "GET", "/openapi.json", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors", "Origin: http://evil"}, 403},

		{"spans", otlp, "POST", "/v1/traces", "{}", []string{isJSON, "Host: evil", "Origin: http://evil"}, 421},
		{"spans", otlp, "POST", "/v1/traces", "{}", []string{isJSON, "Origin: http://evil"}, 403},
		{"spans as JSON under another name", otlp, "POST", "/v1/traces", "{}", []string{isJSON, "Host: collector"}, 421},
		{"spans by a collector under another name", otlp, "POST", "/v1/traces", "", []string{protobuf, "Host: collector"}, 200},
		{"spans by a page under another name", otlp, "POST", "/v1/traces", "", []string{protobuf, "Host: evil", "Origin: http://evil"}, 421},
		{"spans by an SDK", otlp, "POST", "/v1/traces", "{}", []string{isJSON}, 200},

		{"profiles", pprof, "GET", "/debug/pprof/cmdline", "", []string{"Host: evil"}, 421},
		{"profiles", pprof, "GET", "/debug/pprof/cmdline", "", []string{"Origin: http://evil"}, 403},
		{"profiles by go tool pprof", pprof, "GET", "/debug/pprof/cmdline", "", nil, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+tc.addr+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range tc.headers {
			if name, value, _ := strings.Cut(f, ": "); name == "Host" {
				r.Host = value
			} else {
				r.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != tc.status {
			t.Errorf("%s, %s %s with %q: got %d %s, want %d", tc.name, tc.method, tc.path, tc.headers, res.StatusCode, body, tc.status)
		}
		if res.Header.Get("X-Frame-Options") != "DENY" || !strings.Contains(res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the response carries %v", tc.name, res.Header)
		}
	}
	if _, got := get(t, "http://"+page+"/api/v1/marks"); strings.Contains(got, "evil") || strings.Count(got, "good") != 4 {
		t.Errorf("the marks are %s", got)
	}
}
