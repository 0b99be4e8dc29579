//go:build !race

package choose

import "testing"

var costly = []struct {
	name    string
	options Options
	request *Request
}{
	{"plain", Options{Share: 0.5}, request("GET", "/cart/8123/items?x=1")},
	{"rule", Options{Share: 1, Operations: []string{"^GET /shop/[a-z]+$=GET /shop/{name}"}}, request("GET", "/shop/shoes")},
	{"group", Options{Share: 1, Operations: []string{"^[A-Z]+ /(v[0-9]+)/=api $1"}, Tenant: "path:^/v[0-9]+/([a-z]+)"}, request("GET", "/v2/acme/x")},
	{"header", Options{Share: 0.5, By: "header:X-User", Tenant: "header:X-Tenant", Headers: []string{"Accept: json"}, Paths: []string{"^/cart"}},
		request("GET", "/cart/1", "Accept", "application/json", "X-Tenant", "acme", "X-User", "u1")},
	{"cookie", Options{Share: 0.5, By: "cookie:sid", Tenant: `host:^([^.]+)\.`}, request("GET", "/cart/1", "Cookie", "a=1; sid=99")},
	{"query", Options{Share: 0.5, By: "query:u", Tenant: "query:t"}, request("GET", "/cart/1?u=1&t=a%20b")},
	{"address", Options{Share: 0.5, By: "address"}, request("GET", "/cart/1")},
}

func TestNoAllocation(t *testing.T) {
	for _, f := range costly {
		c := chooser(t, f.options)
		c.Choose(f.request)
		if n := testing.AllocsPerRun(200, func() { c.Choose(f.request) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", f.name, n)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	for _, f := range costly {
		b.Run("by="+f.name, func(b *testing.B) {
			c := chooser(b, f.options)
			b.ReportAllocs()
			for b.Loop() {
				c.Choose(f.request)
			}
		})
	}
}
