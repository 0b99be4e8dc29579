package choose

import (
	"fmt"
	"math"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"tailscope/internal/experiment/mirror/pair"
)

// fields is a Header of field lines in turn.
type fields []string

func (f *fields) Lookup(name string, i int) ([]byte, bool) {
	for j := 0; j+1 < len(*f); j += 2 {
		if strings.EqualFold((*f)[j], name) {
			if i == 0 {
				return bytesOf((*f)[j+1]), true
			}
			i--
		}
	}
	return nil, false
}

func request(method, target string, header ...string) *Request {
	h := fields(header)
	return &Request{Method: []byte(method), Target: []byte(target), Host: []byte("shop.example:8080"),
		Client: netip.MustParseAddr("10.0.0.1"), Header: &h}
}

func chooser(t testing.TB, o Options) *Chooser {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFilters(t *testing.T) {
	f := func(o Options, r *Request, want pair.Reason) {
		t.Helper()
		o.Share = 1
		if d := chooser(t, o).Choose(r); d.Reason != want || d.Mirror != (want == pair.Chosen) {
			t.Errorf("%s %s: %v, mirror %v, want %v", r.Method, r.Target, d.Reason, d.Mirror, want)
		}
	}
	for _, safe := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		f(Options{}, request(safe, "/"), pair.Chosen)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "PROPFIND", "get", "X"} {
		f(Options{}, request(method, "/"), pair.Unsafe)
		f(Options{Unsafe: true}, request(method, "/"), pair.Chosen)
	}
	f(Options{Unsafe: true}, request("CONNECT", "a:443"), pair.Connect)
	f(Options{Methods: []string{"HEAD"}}, request("GET", "/"), pair.Method)
	f(Options{Methods: []string{"HEAD", "POST"}, Unsafe: true}, request("POST", "/"), pair.Chosen)
	f(Options{Methods: []string{"HEAD", "POST"}, Unsafe: true}, request("DELETE", "/"), pair.Method)

	paths := Options{Paths: []string{"^/a/", "b$"}}
	f(paths, request("GET", "/a/x"), pair.Chosen)
	f(paths, request("GET", "/x/b"), pair.Chosen)
	f(paths, request("GET", "/x/b?y"), pair.Chosen)
	f(paths, request("GET", "http://h/x/b?y"), pair.Chosen)
	f(paths, request("GET", "/x?b"), pair.Path)
	f(paths, request("GET", "http://b"), pair.Path)

	headers := Options{Headers: []string{"X-Beta: ^(on|yes)$", "accept:json"}}
	f(headers, request("GET", "/", "x-beta", "on", "Accept", "application/json"), pair.Chosen)
	f(headers, request("GET", "/", "x-beta", "off", "x-beta", "yes", "Accept", "application/json"), pair.Chosen)
	f(headers, request("GET", "/", "x-beta", "one", "Accept", "application/json"), pair.Header)
	f(headers, request("GET", "/", "x-beta", "on"), pair.Header)

	f(Options{Paused: true}, request("GET", "/"), pair.Paused)
}

func TestWrite(t *testing.T) {
	c := chooser(t, Options{Share: 1})
	if c.Choose(request("GET", "/")).Write || !c.Choose(request("POST", "/")).Write {
		t.Error("GET is a write, or POST is none")
	}
}

func TestShareWhileRunning(t *testing.T) {
	c := chooser(t, Options{Share: 1})
	f := func(share float64, paused bool, low, high int) {
		t.Helper()
		if err := c.SetShare(share); err != nil {
			t.Fatal(err)
		}
		c.SetPaused(paused)
		in := 0
		for range 10_000 {
			if c.Choose(request("GET", "/")).Mirror {
				in++
			}
		}
		if in < low || in > high || c.Share() != share || c.Paused() != paused {
			t.Errorf("%d of 10000 at a share of %v, want %d to %d", in, share, low, high)
		}
	}
	f(1, false, 10_000, 10_000)
	f(0.25, false, 2250, 2750) // more than five standard deviations
	f(0, false, 0, 0)
	f(1, true, 0, 0)
	for _, share := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if err := c.SetShare(share); err == nil || !strings.Contains(err.Error(), "from 0 to 1") {
			t.Errorf("share %v: error %v", share, err)
		}
	}
	if c.Share() != 1 {
		t.Errorf("share %v after refusals, want 1", c.Share())
	}
}

// A key is always in or always out; a greater share only adds keys; and the
// share of keys that are in is that asked for.
func TestByKey(t *testing.T) {
	for _, f := range []struct {
		by, tenant string
		request    func(key int) *Request
	}{
		{"header:X-User", "", func(k int) *Request { return request("GET", "/", "x-user", fmt.Sprint("u", k)) }},
		{"cookie:sid", "", func(k int) *Request { return request("GET", "/", "Cookie", fmt.Sprintf("a=1; sid=%d; b", k)) }},
		{"query:user", "", func(k int) *Request { return request("GET", fmt.Sprintf("/?x=1&user=%d&y", k)) }},
		{"tenant", `path:^/t/([^/]+)`, func(k int) *Request { return request("GET", fmt.Sprintf("/t/%d/x", k)) }},
		{"address", "", func(k int) *Request {
			r := request("GET", "/")
			r.Client = netip.AddrFrom4([4]byte{10, 0, byte(k >> 8), byte(k)})
			return r
		}},
	} {
		c := chooser(t, Options{By: f.by, Tenant: f.tenant, MaxTenants: 10})
		was := map[int]bool{}
		for _, share := range []float64{0, 0.1, 0.5, 0.9, 1} {
			if err := c.SetShare(share); err != nil {
				t.Fatal(err)
			}
			in := 0
			for key := range 2000 {
				d := c.Choose(f.request(key))
				if again := c.Choose(f.request(key)); again.Mirror != d.Mirror || again.Key != d.Key {
					t.Fatalf("%s: key %d is in and out", f.by, key)
				}
				if was[key] && !d.Mirror {
					t.Fatalf("%s: a share of %v lost key %d", f.by, share, key)
				}
				if was[key] = d.Mirror; d.Mirror {
					in++
				}
			}
			if got := float64(in) / 2000; math.Abs(got-share) > 0.04 {
				t.Errorf("%s: %v of keys are in at a share of %v", f.by, got, share)
			}
		}
		r := &Request{Method: []byte("GET"), Target: []byte("/"), Header: &fields{}}
		if c.Choose(r).Mirror != true {
			t.Errorf("%s: a request without key is out at a share of 1", f.by)
		}
		_ = c.SetShare(0.999999)
		if d := c.Choose(r); d.Mirror || d.Reason != pair.Share {
			t.Errorf("%s: a request without key is in at a share below 1", f.by)
		}
	}
	// The hash is of the format: who was in stays in after an update.
	if got := chooser(t, Options{Share: 1, By: "header:X"}).Choose(request("GET", "/", "X", "42")).Key; got != hashOf42 {
		t.Errorf("the hash of 42 is now %#x, was %#x", got, uint64(hashOf42))
	}
}

const hashOf42 = 0x1217cb28c0ef2191

func TestNames(t *testing.T) {
	f := func(o Options, r *Request, want pair.Names) {
		t.Helper()
		c := chooser(t, o)
		for range 2 { // the second time it is known
			if got := c.Choose(r).Names; got != want {
				t.Errorf("%s %s is %+v, want %+v", r.Method, r.Target, got, want)
			}
		}
	}
	f(Options{}, request("GET", "/cart/8123/items?x=1"), pair.Names{Operation: "GET /cart/{id}/items"})
	f(Options{}, request("get", "/"), pair.Names{Operation: "_OTHER /"})
	f(Options{}, request("POST", "//a//b/"), pair.Names{Operation: "POST /a/b"})
	f(Options{}, request("GET", "/main.3fa9.css"), pair.Names{Operation: "GET {static}"})
	f(Options{}, request("GET", "http://shop/users/550e8400-e29b-41d4-a716-446655440000"), pair.Names{Operation: "GET /users/{id}"})
	f(Options{}, request("GET", "/o/2024-01-31"), pair.Names{Operation: "GET /o/{id}"})
	f(Options{}, request("GET", "/a\xff/b"), pair.Names{Operation: "GET /a\uFFFD/b"})
	rules := Options{Operations: []string{"^GET /shop/[a-z]+$=GET /shop/{name}", "^[A-Z]+ /(v[0-9]+)/=api $1", "^POST =write"}}
	f(rules, request("GET", "/shop/shoes?x"), pair.Names{Operation: "GET /shop/{name}"})
	f(rules, request("PUT", "/v2/x"), pair.Names{Operation: "api v2"})
	f(rules, request("POST", "/shop/shoes"), pair.Names{Operation: "write"})
	f(rules, request("GET", "/shop/12"), pair.Names{Operation: "GET /shop/{id}"})

	tenant := func(where string, r *Request, want string) {
		t.Helper()
		f(Options{Tenant: where}, r, pair.Names{Operation: "GET /t/{id}", Tenant: want})
	}
	tenant("header:X-Tenant", request("GET", "/t/1", "x-tenant", "acme"), "acme")
	tenant("header:X-Tenant", request("GET", "/t/1"), "")
	tenant("cookie:t", request("GET", "/t/1", "cookie", "tt=a; x=2", "Cookie", "t=acme"), "acme")
	tenant("query:t", request("GET", "/t/1?tt=1&t=a%20b%2x+c"), "a b%2x c")
	tenant("query:t", request("GET", "/t/1"), "")
	tenant("path:^/t/([^/]+)", request("GET", "/t/1"), "1")
	tenant("path:^/u/([^/]+)", request("GET", "/t/1"), "")
	tenant("path:^/([^/]+)", &Request{Method: []byte("GET"), Target: []byte("/t/1"), Header: &fields{}}, "t")
	tenant("host", request("GET", "/t/1"), "shop")
	tenant("host:(.*)", request("GET", "/t/1"), "shop.example")
	tenant(`host:^([^.]+)\.`, request("GET", "/t/1"), "shop")
	tenant(`host:^www\.(x)|^(shop)`, request("GET", "/t/1"), "shop")
	tenant("header:X-Tenant", request("GET", "/t/1", "x-tenant", strings.Repeat("x", 1000)), strings.Repeat("x", maxName))
}

// What clients make up does not take memory without bound.
func TestNamesAreBounded(t *testing.T) {
	c := chooser(t, Options{Share: 1, MaxOperations: 10, MaxTenants: 5, Tenant: "header:X-Tenant", Operations: []string{"^GET /r/(.*)$=r $1"}})
	first := c.Choose(request("GET", "/first", "X-Tenant", "first"))
	operations, tenants := map[string]bool{}, map[string]bool{}
	for i := range 8_000 {
		word := strings.Repeat(string(rune('a'+i%26)), 1+i/26%20) + string(rune('a'+i/7%23)) + string(rune('a'+i/11%19))
		for _, target := range []string{"/" + word, "/r/" + word, "/x/" + word + "/y", "/" + word + "/" + word} {
			d := c.Choose(request("GET", target, "X-Tenant", word))
			operations[d.Names.Operation], tenants[d.Names.Tenant] = true, true
		}
	}
	if len(operations) > 4*10+1 || len(tenants) > 6 || !operations["_other"] || !tenants["_other"] {
		t.Errorf("%d operations and %d tenants, want at most 40 and 5, and _other", len(operations), len(tenants))
	}
	if o, n := c.Folded(); o == 0 || n == 0 {
		t.Errorf("%d and %d folded", o, n)
	}
	if again := c.Choose(request("GET", "/first", "X-Tenant", "first")); again.Names.Tenant != first.Names.Tenant {
		t.Errorf("a known tenant became %+v", again.Names)
	}
}

// Names of things are taken together once they are many; what comes often keeps
// its name among them, and so does what lies below.
func TestVariablesAreLearned(t *testing.T) {
	c := chooser(t, Options{Share: 1})
	word := func(i int) string { return string([]rune{rune('a' + i%26), rune('a' + i/26%26), rune('a' + i/676%26)}) }
	for i := range 8_000 {
		c.Choose(request("GET", "/product/"+word(i%300)))
		c.Choose(request("GET", "/product/search"))
		c.Choose(request("GET", "/product/search/"+word(i%50)))
		c.Choose(request("POST", "/login"))
	}
	for target, want := range map[string]string{
		"/product/" + word(7): "GET /product/{name}", "/product/never-seen": "GET /product/{name}", "/product/search": "GET /product/search",
		"/product/search/" + word(7): "GET /product/search/" + word(7), "/product/7": "GET /product/{id}", "/login": "GET /login",
	} {
		for range 3 * samples {
			if got := c.Choose(request("GET", target)).Names.Operation; got != want {
				t.Fatalf("%s is %s, want %s", target, got, want)
			}
		}
	}
	if n, _ := c.Folded(); n != 0 {
		t.Errorf("%d requests folded, want none: names that are variables make room", n)
	}
}

// Many goroutines name the same requests the same.
func TestNamesConcurrently(t *testing.T) {
	c := chooser(t, Options{Share: 1, Tenant: "path:^/t/([a-z]+)", Operations: []string{"^GET /r/(.)=r $1"}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 3000 {
				tenant := string(rune('a' + i%26))
				d := c.Choose(request("GET", "/t/"+tenant+"/7"))
				if want := (pair.Names{Operation: "GET /t/" + tenant + "/{id}", Tenant: tenant}); d.Names != want {
					t.Errorf("names %+v, want %+v", d.Names, want)
					return
				}
				if d := c.Choose(request("GET", "/r/"+tenant)); d.Names.Operation != "r "+tenant {
					t.Errorf("operation %s", d.Names.Operation)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestErrorsSayWhatToWrite(t *testing.T) {
	f := func(o Options, want ...string) {
		t.Helper()
		_, err := New(o)
		if err == nil {
			t.Errorf("%+v: no error", o)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%+v: error %q does not say %q", o, err, w)
			}
		}
	}
	f(Options{Share: 25}, "share: 25 is not from 0 to 1: write 0.25")
	f(Options{By: "user"}, `by: "user" is not header:NAME, cookie:NAME`)
	f(Options{By: "path:x"}, `by: "path:x" is not header:NAME`)
	f(Options{By: "header:a b"}, `by: "header:a b" is not`)
	f(Options{By: "tenant"}, "add --tenant, such as header:X-Tenant")
	f(Options{Tenant: "X-Tenant"}, `tenant: "X-Tenant" is not header:NAME`, "such as path:^/t/([^/]+)")
	f(Options{Tenant: "path:^/t/"}, "put what is the name into brackets, as in path:^/t/([^/]+)/")
	f(Options{By: "host"}, `by: "host" is not header:NAME`)
	f(Options{Tenant: "path:("}, `tenant: "path:("`, "missing closing )")
	f(Options{Methods: []string{"POST"}}, "add --unsafe")
	f(Options{Methods: []string{"get"}}, "write GET")
	f(Options{Methods: []string{"CONNECT"}, Unsafe: true}, "tunnels")
	f(Options{Methods: []string{"G T"}}, "write one such as GET")
	f(Options{Paths: []string{"["}}, `path: "["`)
	f(Options{Headers: []string{"X-Beta"}}, "NAME: REGEX, such as X-Beta: ^(on|yes)$")
	f(Options{Headers: []string{"X: ["}}, `header: "X: ["`)
	f(Options{Operations: []string{"GET /x"}}, `operation: "GET /x" is not REGEX=NAME`, "^GET /shop/[a-z]+$=GET /shop/{name}")
	f(Options{Operations: []string{"^/x/=x"}}, "write ^[A-Z]+ /x/=x")
	f(Options{Share: 2, By: "x", Tenant: "x", Paths: []string{"("}}, "share", "by", "tenant", "path") // all at once
}

func TestFromHTTP(t *testing.T) {
	r := httptest.NewRequest("GET", "http://shop.example/t/7?u=1", nil)
	r.Header.Set("X-Tenant", "acme")
	r.Header.Add("Cookie", "a=1")
	r.Header.Add("Cookie", "sid=9")
	c := chooser(t, Options{Share: 1, Tenant: "header:x-tenant", By: "cookie:sid"})
	view := FromHTTP(r)
	d := c.Choose(&view)
	if want := (pair.Names{Operation: "GET /t/{id}", Tenant: "acme"}); !d.Mirror || d.Names != want || d.Key != hashKey([]byte("9")) {
		t.Errorf("decision %+v", d)
	}
	if view.Client.String() != "192.0.2.1" || string(view.Host) != "shop.example" {
		t.Errorf("client %v, host %s", view.Client, view.Host)
	}
}
