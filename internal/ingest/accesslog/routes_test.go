package accesslog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIsID(t *testing.T) {
	for text, want := range map[string]bool{
		"1": true, "4711": true, "4711.pdf": true, "2026-03-01": true, "123-456": true,
		"9a1d8c9e-8c2b-4f5a-9a53-3a2f3c1d4e5f": true, "deadbeefdeadbeef": true, "5f3a9c1e": true, "4bf92f3577b34da6a3ce929d0e0e4736": true,
		"a.b@example.com": true, "a%40example.com": true, "eyJhbGciOiJIUzI1NiIsInR5cCI6": true, "dQw4w9WgXcQxYz12": true,
		"ord_8812345": true, strings.Repeat("x", 65): true,
		"cart": false, "v1": false, "v2beta1": false, "oauth2": false, "s3": false, "mp3": false, "api": false, "deadbeef": false, "facade": false,
		"checkout-summary": false, "index.html": false, "user_settings": false, "ab-testing-dashboard-v2": false, "": false, "utf8": false,
		"getUserPreferencesForAccount": false,
	} {
		if got := isID([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func route(r *router, method, path string, status int, rules ...rule) string {
	return r.of(&record{method: []byte(method), path: []byte(path), status: status}, rules).name
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
		{"GET", "/1/2/3/4/5/6/7/8/9/10/11/12", "GET " + strings.Repeat("/{id}", maxSegments)},
		{"", "", "invalid request"},
	} {
		if got := route(r, tc.method, tc.path, 200); got != tc.want {
			t.Errorf("%s %s: got %s, want %s", tc.method, tc.path, got, tc.want)
		}
	}
	if got := route(r, "GET", "/wp-login.php", 404); got != "GET {not found}" {
		t.Errorf("an unknown path that is not found: got %s", got)
	}
	if got := route(r, "GET", "/cart/1", 404); got != "GET /cart/{id}" {
		t.Errorf("a known path that is not found: got %s", got)
	}
}

func TestRules(t *testing.T) {
	var rules []rule
	for _, text := range []string{`^/shop/([a-z]+)/=/shop/$1`, `^/old=/legacy`, `^/a=b/=/x`} {
		r, err := parseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	r := newRouter()
	for path, want := range map[string]string{
		"/shop/de/cart": "GET /shop/de", "/old/thing/7": "GET /legacy", "/a=b/c": "GET /x", "/other/7": "GET /other/{id}", "/shop/DE/": "GET /shop/DE",
	} {
		if got := route(r, "GET", path, 200, rules...); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	for i := range maxRules + 10 {
		route(r, "GET", "/shop/"+letters(i)+"/", 200, rules...)
	}
	if got := route(r, "GET", "/shop/onemore/", 200, rules...); got != "GET _other" {
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
		route(r, "GET", "/users/"+letters(i)+"/photo", 200)
		route(r, "GET", "/users/me/photo", 200)
		route(r, "GET", fmt.Sprintf("/api/word%s", letters(i%60)), 200)
	}
	for path, want := range map[string]string{
		"/users/somebody/photo":  "GET /users/{name}/photo",
		"/users/me/photo":        "GET /users/me/photo",
		"/api/word" + letters(7): "GET /api/word" + letters(7),
	} {
		if got := route(r, "GET", path, 200); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}

	again := newRouter()
	again.restore(r.variables())
	for path, want := range map[string]string{
		"/users/somebody/photo": "GET /users/{name}/photo", "/users/me/photo": "GET /users/me/photo",
	} {
		if got := route(again, "GET", path, 200); got != want {
			t.Errorf("after a restart: %s: got %s, want %s", path, got, want)
		}
	}
	if a, b := r.variables(), again.variables(); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("variables after a restart: %v, want %v", b, a)
	}
}

// Whatever is asked for, the tree stays within its bounds, the numbers of its
// nodes are right, and a variable stays one.
func TestTreeIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRouter()
		seed := rapid.Uint64().Draw(t, "seed")
		shape := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 6).Draw(t, "distinct values by depth")
		rng := rand.New(rand.NewPCG(seed, 0))
		var known []string
		for i := range 3000 {
			var path strings.Builder
			for _, n := range shape {
				path.WriteString("/" + letters(rng.IntN(n)))
			}
			name := route(r, "GET", path.String(), 200)
			if i%100 == 0 {
				known = append(known, path.String())
			}
			if len(name) == 0 {
				t.Fatal("a route without a name")
			}
		}
		if got := size(r.root); got != r.nodes {
			t.Fatalf("%d nodes are counted, %d are there", r.nodes, got)
		}
		if r.nodes > maxNodes+maxSegments*2 {
			t.Fatalf("%d nodes", r.nodes)
		}
		// Nothing was learned since: each path has one name.
		before := make([]string, len(known))
		for i, p := range known {
			before[i] = route(r, "GET", p, 404)
		}
		for i, p := range known {
			if got := route(r, "GET", p, 404); got != before[i] {
				t.Fatalf("%s: got %s, then %s", p, before[i], got)
			}
		}
		for _, v := range r.variables() {
			n := r.root
			for _, s := range v.Path {
				n = r.child(n, s)
			}
			if n.vars == nil {
				t.Fatalf("%v is a variable no more", v.Path)
			}
		}
	})
}

func TestTreeDoesNotGrowWithoutEnd(t *testing.T) {
	r := newRouter()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		// Words that come three times, so that they look like routes for long.
		route(r, "GET", "/"+letters(rng.IntN(150))+"/"+letters(rng.IntN(150))+"/"+letters(rng.IntN(150)), 200)
	}
	if r.nodes > maxNodes+100 {
		t.Errorf("%d nodes, want at most about %d", r.nodes, maxNodes)
	}
	if n := len(r.operations); n > 2*maxNodes {
		t.Errorf("%d operations", n)
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
		if got := string(rule.of(&record{host: []byte(tc.host), path: []byte(tc.path)})); got != tc.want {
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
			first, rest = item(rest)
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
