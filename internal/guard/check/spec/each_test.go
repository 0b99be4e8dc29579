package spec

import (
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"
)

const eachFile = `checks:
  a:
    every: 10s
    each: {series: 'x{job="shop"}', by: [service, operation]}
    description: of $service
    host: $service
    value: {query: {measure: p99, series: "x{a=\"$operation\", b='$operation', c=~\"^$operation/.*\", d=$service}"}}
    threshold: {must: "<", of: 'avg({check="a", operation="$operation", service=~"$service"}[0:9])', warning: 10%}
    labels: {team: of $service}
`

// A label's value is nothing but a value, whatever it holds: it comes from
// whoever sends spans.
func TestInstanceQuotes(t *testing.T) {
	f, problems := read(t, eachFile)
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	c := &f.Checks[0]
	if got := c.Value.Query.Series.Matchers[0].Value; got != "$operation" {
		t.Errorf("the definition asks for %q", got)
	}
	if c.Host != "$service" {
		t.Errorf("the definition's host is %q", c.Host)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching("[\"'`\\\\{}$,=~#()\\[\\] ab.*+|-]{0,20}"))
		op := text.Draw(rt, "operation")
		service := "s" + strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, text.Draw(rt, "service"))
		got, err := c.Instance(map[string]string{"operation": op, "service": service})
		if err != nil {
			rt.Fatalf("%q, %q: %v", op, service, err)
		}
		ms := map[string]*labels.Matcher{}
		for _, m := range got.Value.Query.Series.Matchers {
			ms[m.Name] = m
		}
		if len(ms) != 4 || ms["a"].Value != op || ms["b"].Value != op || ms["d"].Value != service {
			rt.Fatalf("operation %q: %v", op, got.Value.Query.Series.Matchers)
		}
		if !ms["c"].Matches(op+"/x") || ms["c"].Matches("other"+op+"/x") {
			rt.Fatalf("operation %q: the pattern became %s", op, ms["c"])
		}
		for _, s := range got.Threshold.Of.Expr.Selectors() {
			for _, m := range s.Matchers {
				if m.Name == "operation" && m.Value != op || m.Name == "service" && !m.Matches(service) {
					rt.Fatalf("threshold: %q became %s", op, m)
				}
			}
			if len(s.Matchers) != 3 {
				rt.Fatalf("threshold: %q became %v", op, s.Matchers)
			}
		}
		if got.Host != service || got.Labels["team"] != "of "+service {
			rt.Fatalf("host %q, labels %q", got.Host, got.Labels)
		}
	})
}

func TestInstanceInAddresses(t *testing.T) {
	f, problems := read(t, `checks:
  web:
    every: 10s
    each: {series: x, by: v}
    value: {http: {url: 'https://shop/a/$v?q=$v'}}
  host:
    every: 10s
    each: {series: x, by: v}
    value: {http: {url: 'https://$v:80/'}}
  tcp:
    every: 10s
    each: {series: x, by: v}
    value: {tcp: {address: '$v:80'}}
  command:
    every: 10s
    each: {series: x, by: v}
    value: {command: {args: [check, $v, --of=$v], env: {OF: $v}}}
`)
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	byName := map[string]*Check{}
	for i := range f.Checks {
		byName[f.Checks[i].Name] = &f.Checks[i]
	}
	for _, v := range []string{"shop", "a b", "../x", "..", "a/b?c=d&e#f", "u@evil", "-rf", "--config=/etc/passwd", "a\nb", "x:80/@", ""} {
		of := map[string]string{"v": v}
		if c, err := byName["web"].Instance(of); err == nil {
			u, err := url.Parse(c.Value.HTTP.URL)
			if err != nil || u.Host != "shop" || u.Path != "/a/"+v || u.Query().Get("q") != v || v == ".." {
				t.Errorf("%q became %s", v, c.Value.HTTP.URL)
			}
		} else if v != ".." {
			t.Errorf("%q: %v", v, err)
		}
		for _, name := range []string{"host", "tcp"} {
			if _, err := byName[name].Instance(of); (err == nil) != (v == "shop") {
				t.Errorf("%s of %q: %v", name, v, err)
			}
		}
		c, err := byName["command"].Instance(of)
		if bad := strings.HasPrefix(v, "-") || strings.Contains(v, "\n"); bad != (err != nil) {
			t.Errorf("command of %q: %v", v, err)
		} else if err == nil && (len(c.Value.Command.Args) != 3 || c.Value.Command.Args[1] != v || c.Value.Command.Args[2] != "--of="+v) {
			t.Errorf("command of %q: %q", v, c.Value.Command.Args)
		}
	}
}

func TestMacros(t *testing.T) {
	f, problems := read(t, `checks:
  edi:
    host: erp-server
    service: orders
    item: ediOrders
    aliases: {host: erp.example}
    every: 1m
    value: {command: {args: [check_tcp, -H, $$HOSTALIAS$$, "$$SERVICEALIAS$$"]}}
    threshold: {must: "<", of: "avg($$HOSTNAME$$-$$SERVICENAME$$-$$SERVICEITEMNAME$$[-10M]) + {host=\"$$HOSTNAME$$\"}[0]", warning: 1}
`)
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	c := f.Checks[0]
	if got := strings.Join(c.Value.Command.Args, " "); got != "check_tcp -H erp.example orders" {
		t.Error(got)
	}
	if got, want := c.Threshold.Of.Expr.String(), `avg(erp\-server-orders-ediOrders[-10M]) + {host="erp-server"}[0]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c.Labels["host"] != "erp-server" || c.Labels["service"] != "orders" || c.Labels["item"] != "ediOrders" {
		t.Error(c.Labels)
	}
}
