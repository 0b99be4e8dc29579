package accesslog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tailscope/internal/route"
)

func routed(r *router, method, path string, status int, rules ...route.Rule) string {
	return r.operationOf(&record{method: []byte(method), path: []byte(path), status: status}, rules).name
}

func TestRoutes(t *testing.T) {
	r := newRouter()
	for _, tc := range []struct{ method, path, want string }{
		{"GET", "/", "GET /"},
		{"GET", "//", "GET /"},
		{"GET", "/cart/4711", "GET /cart/{id}"},
		{"GET", "/cart/4712/", "GET /cart/{id}"},
		{"POST", "/cart/4711/items/9", "POST /cart/{id}/items/{id}"},
		{"GET", "/users/9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f/photo", "GET /users/{id}/photo"},
		{"GET", "/assets/app.8f3e.js", "GET {static}"},
		{"HEAD", "/favicon.ico", "HEAD {static}"},
		{"GET", "/report.pdf", "GET /report.pdf"},
		{"BREW", "/pot", "_OTHER /pot"},
		{"GET", "/1/2/3/4/5/6/7/8/9/10/11/12", "GET " + strings.Repeat("/{id}", route.MaxSegments)},
		{"", "", "invalid request"},
	} {
		if got := routed(r, tc.method, tc.path, 200); got != tc.want {
			t.Errorf("%s %s: got %s, want %s", tc.method, tc.path, got, tc.want)
		}
	}
	if got := routed(r, "GET", "/wp-login.php", 404); got != "GET {not found}" {
		t.Errorf("an unknown path that is not found: got %s", got)
	}
	if got := routed(r, "GET", "/cart/1", 404); got != "GET /cart/{id}" {
		t.Errorf("a known path that is not found: got %s", got)
	}
}

func TestRules(t *testing.T) {
	var rules []route.Rule
	for _, text := range []string{`^/shop/([a-z]+)/=/shop/$1`, `^/old=/legacy`, `^/a=b/=/x`} {
		r, err := route.ParseRule(text, "")
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	r := newRouter()
	for path, want := range map[string]string{
		"/shop/de/cart": "GET /shop/de", "/old/thing/7": "GET /legacy", "/a=b/c": "GET /x", "/other/7": "GET /other/{id}", "/shop/DE/": "GET /shop/DE",
	} {
		if got := routed(r, "GET", path, 200, rules...); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for i := range maxRules + 10 {
		routed(r, "GET", "/shop/"+letters(i)+"/", 200, rules...)
	}
	if got := routed(r, "GET", "/shop/onemore/", 200, rules...); got != "GET _other" {
		t.Errorf("a group that takes any value: got %s", got)
	}
}

// letters writes a number as a word without digits.
func letters(i int) string {
	s := ""
	for ; i > 0; i /= 26 {
		s += string(rune('a' + i%26))
	}
	return "u" + s
}

// Names that hardly ever come again are a variable; words that do are routes.
func TestVariablesAreLearned(t *testing.T) {
	r := newRouter()
	for i := range 2000 {
		routed(r, "GET", "/users/"+letters(i)+"/photo", 200)
		routed(r, "GET", "/users/me/photo", 200)
		routed(r, "GET", fmt.Sprintf("/api/word%s", letters(i%60)), 200)
	}
	for path, want := range map[string]string{
		"/users/somebody/photo":  "GET /users/{name}/photo",
		"/users/me/photo":        "GET /users/me/photo",
		"/api/word" + letters(7): "GET /api/word" + letters(7),
	} {
		if got := routed(r, "GET", path, 200); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}

	again := newRouter()
	again.routes.Restore(r.routes.Variables())
	for path, want := range map[string]string{
		"/users/somebody/photo": "GET /users/{name}/photo", "/users/me/photo": "GET /users/me/photo",
	} {
		if got := routed(again, "GET", path, 200); got != want {
			t.Errorf("after a restart: %s: got %s, want %s", path, got, want)
		}
	}
	if a, b := r.routes.Variables(), again.routes.Variables(); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("variables after a restart: %v, want %v", b, a)
	}
}

func TestTenant(t *testing.T) {
	for _, tc := range []struct{ from, host, path, want string }{
		{"host", "acme.example.com", "/", "acme"},
		{"host", "acme.example.com:8443", "/", "acme"},
		{"host", "localhost", "/", ""},
		{"host", "10.0.0.1:80", "/", ""},
		{"host", "[::1]:80", "/", ""},
		{`host:^www\.([a-z]+)\.`, "www.acme.com", "/", "acme"},
		{`host:^www\.([a-z]+)\.`, "acme.com", "/", ""},
		{`path:^/t/([^/]+)/`, "x", "/t/acme/cart", "acme"},
		{`path:^/t/([^/]+)/`, "x", "/cart", ""},
		{"", "acme.example.com", "/t/x/", ""},
	} {
		rule, err := parseTenant(tc.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(rule.tenantOf(&record{host: []byte(tc.host), path: []byte(tc.path)})); got != tc.want {
			t.Errorf("%s of %s%s: got %q, want %q", tc.from, tc.host, tc.path, got, tc.want)
		}
	}
	for _, bad := range []string{"hosts", "path", "path:", "path:x", "host:(", "field:"} {
		if _, err := parseTenant(bad); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

func TestListsAreParted(t *testing.T) {
	for list, want := range map[string][]string{
		"": {""}, "0.1": {"0.1"}, "0.1, 0.2": {"0.1", "0.2"}, "0.1 : 0.2": {"0.1", "0.2"}, "0.1, 0.2 : -": {"0.1", "0.2", "-"},
		"unix:/a:b, [::1]:80": {"unix:/a:b", "[::1]:80"},
	} {
		var got []string
		rest := []byte(list)
		for {
			var first []byte
			first, rest = cutItem(rest)
			got = append(got, string(first))
			if len(rest) == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
