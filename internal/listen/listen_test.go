package listen

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	n := Names{Own: []string{"tail.example.com", "web1"}, Allowed: []string{"Proxy.example.net."}}
	for host, want := range map[string]bool{
		"":                      true,
		"127.0.0.1:7099":        true,
		"10.1.2.3":              true,
		"[::1]:7099":            true,
		"[fe80::1%eth0]:7099":   true,
		"localhost:7099":        true,
		"LOCALHOST.":            true,
		"a.localhost:7099":      true,
		"tail.example.com:7099": true,
		"TAIL.example.com.":     true,
		"web1:7099":             true,
		"proxy.example.net":     true,

		"evil":                       false,
		"evil:7099":                  false,
		"evil.example.com":           false,
		"tail.example.com.evil:7099": false,
		"127.0.0.1.evil.example":     false,
		"notlocalhost":               false,
		"2130706433":                 false,
		"0x7f.1":                     false,
	} {
		if got := n.host(host); got != want {
			t.Errorf("host %q: got %v, want %v", host, got, want)
		}
	}
	all := Names{Allowed: []string{Any}}
	if !all.host("evil") || !all.origin("http://evil", "127.0.0.1") || all.origin("null", "127.0.0.1") {
		t.Error("* does not allow every name, or allows a page that hides its own")
	}
}

func TestCheck(t *testing.T) {
	g := Guard{
		Names: Names{Own: []string{"web1"}, Allowed: []string{"ci.example.com"}},
		Tool:  func(r *http.Request) bool { return r.Header.Get("Content-Type") == "application/x-protobuf" },
	}
	const protobuf = "Content-Type: application/x-protobuf"
	for _, tc := range []struct {
		name, method, host string
		headers            []string
		status             int
	}{
		{"a program", "POST", "127.0.0.1:7099", nil, 0},
		{"a program by name", "GET", "web1:7099", nil, 0},
		{"another name", "GET", "evil:7099", nil, 421},
		{"rebound", "POST", "evil:7099", []string{"Origin: http://evil:7099", "Sec-Fetch-Site: same-origin"}, 421},
		{"a sender by another name", "POST", "collector:4318", []string{protobuf}, 0},
		{"rebound as a sender", "POST", "evil:4318", []string{protobuf, "Origin: http://evil:4318"}, 421},
		{"rebound as a sender, origin hidden", "POST", "evil:4318", []string{protobuf, "Sec-Fetch-Site: same-origin"}, 421},
		{"its own page", "POST", "127.0.0.1:7099", []string{"Origin: http://127.0.0.1:7099", "Sec-Fetch-Site: same-origin"}, 0},
		{"its own page on port 80", "POST", "web1", []string{"Origin: http://web1"}, 0},
		{"its own page, the port written", "POST", "web1:80", []string{"Origin: http://web1"}, 0},
		{"its own page behind TLS", "POST", "web1", []string{"Origin: https://web1"}, 0},
		{"another port", "POST", "127.0.0.1:7099", []string{"Origin: http://127.0.0.1:3000"}, 403},
		{"another name of this machine", "POST", "127.0.0.1:7099", []string{"Origin: http://web1:7099"}, 403},
		{"an allowed page", "POST", "127.0.0.1:7099", []string{"Origin: https://ci.example.com"}, 0},
		{"another site", "POST", "127.0.0.1:7099", []string{"Origin: http://evil"}, 403},
		{"another site reads", "GET", "127.0.0.1:7099", []string{"Origin: http://evil"}, 403},
		{"two origins", "POST", "127.0.0.1:7099", []string{"Origin: http://127.0.0.1:7099", "Origin: http://evil"}, 403},
		{"a hidden origin", "POST", "127.0.0.1:7099", []string{"Origin: null"}, 403},
		{"an empty origin", "POST", "127.0.0.1:7099", []string{"Origin: "}, 403},
		{"a form of another site", "POST", "127.0.0.1:7099", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403},
		{"an image", "GET", "127.0.0.1:7099", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{"another program of this machine", "GET", "127.0.0.1:7099", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"}, 403},
		{"a frame", "GET", "127.0.0.1:7099", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{"a link", "GET", "127.0.0.1:7099", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 0},
		{"typed", "GET", "127.0.0.1:7099", []string{"Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 0},
	} {
		called := false
		h := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		r := httptest.NewRequest(tc.method, "/", nil)
		r.Host = tc.host
		for _, f := range tc.headers {
			name, value, _ := strings.Cut(f, ": ")
			r.Header.Add(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		status := w.Code
		if called {
			status = 0
		}
		if status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, status, w.Body, tc.status)
		}
		if tc.status == 421 && !strings.Contains(w.Body.String(), `host "`+hostname(tc.host)+`" is not one of this server's names: add it to allowed_hosts`) {
			t.Errorf("%s: it says %s", tc.name, w.Body)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "same-origin", "Content-Security-Policy": Policy,
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", tc.name, name, got, want)
			}
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other origins may read", tc.name)
		}
	}
}
