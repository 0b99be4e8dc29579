package choose

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"tailscope/internal/experiment/mirror/pair"
)

// Whatever a rule says, what becomes of a target that is fit for a request line
// is fit for one too: it begins with a slash and keeps its query.
func FuzzRewriteTarget(f *testing.F) {
	f.Add("^/v1/=/v2/", "/v1/x?y=1")
	f.Add("^/cart/([0-9]+)$=/users/$1/cart", "/cart/7")
	f.Add("(/)(a)?=$2$1", "http://h/a?b?c")
	f.Add(".*=", "/a")
	f.Add("(?s).=%20", "*")
	f.Fuzz(func(t *testing.T, rule, target string) {
		w, err := NewRewriter(RewriteOptions{Paths: []string{rule}})
		if err != nil {
			if w != nil || err.Error() == "" {
				t.Fatal("an error and a rewriter")
			}
			return
		}
		for i := range len(target) {
			if target[i] <= ' ' || target[i] == 0x7f || target[i] == '#' {
				return // such are refused with their request
			}
		}
		in := []byte(target)
		out := w.AppendTarget([]byte("> "), in)
		if string(in) != target {
			t.Fatalf("target %q became %q", target, in)
		}
		out = out[2:]
		prefix, path, query := split(in)
		if len(path) == 0 || path[0] != '/' {
			if !bytes.Equal(out, in) {
				t.Fatalf("%q has no path and became %q", in, out)
			}
			return
		}
		if !bytes.HasPrefix(out, prefix) || !bytes.HasSuffix(out, query) || out[len(prefix)] != '/' {
			t.Fatalf("%q became %q", in, out)
		}
		if rest := out[len(prefix) : len(out)-len(query)]; bytes.ContainsAny(rest, "? #\r\n\x00\x7f") {
			t.Fatalf("path %q of %q is none", rest, in)
		}
	})
}

// Names are valid UTF-8, bounded, and the same the second time; choosing by
// key is steady; nothing panics.
func FuzzChoose(f *testing.F) {
	f.Add("GET", "/cart/7?u=1&t=2", "a=1; sid=2", "acme")
	f.Add("POST", "http://h:1/x%2Fy?", ";;=", "")
	f.Add("", "", "", "\xff")
	f.Add("CONNECT", "a:443", "sid", "_other")
	f.Add("GET", "*", "sid=", "x")
	f.Fuzz(func(t *testing.T, method, target, cookie, header string) {
		for _, tenant := range []string{"header:X-Tenant", "query:t", "path:/([^/]*)$", "host", "cookie:sid"} {
			for _, by := range []string{"", "cookie:sid", "query:u", "tenant", "address"} {
				c := chooser(t, Options{Share: 0.5, Unsafe: true, By: by, Tenant: tenant, MaxOperations: 3,
					Operations: []string{"^GET /(a+)/=$1"}, Paths: []string{"."}})
				r := request(method, target, "Cookie", cookie, "X-Tenant", header)
				one := c.Choose(r)
				if again := c.Choose(r); again.Names != one.Names || by != "" && one.Reason == pair.Chosen && again != one {
					t.Fatalf("%+v, then %+v", one, again)
				}
				if one.Mirror != (one.Reason == pair.Chosen) {
					t.Fatalf("%+v", one)
				}
				for _, name := range []string{one.Names.Operation, one.Names.Tenant} {
					if !utf8.ValidString(name) || len(name) > 3*maxName {
						t.Fatalf("name %q", name)
					}
				}
				if one.Names.Operation == "" || strings.Contains(one.Names.Operation, "?") && !strings.Contains(method, "?") {
					t.Fatalf("operation %q of %q", one.Names.Operation, target)
				}
			}
		}
	})
}

// The pieces of a target make the target.
func FuzzSplit(f *testing.F) {
	f.Add("http://h/p?q")
	f.Add("?")
	f.Add("a://?//")
	f.Fuzz(func(t *testing.T, target string) {
		prefix, path, query := split([]byte(target))
		if got := string(prefix) + string(path) + string(query); got != target {
			t.Fatalf("%q became %q", target, got)
		}
		if bytes.IndexByte(path, '?') >= 0 || len(query) > 0 && query[0] != '?' {
			t.Fatalf("%q, %q, %q", prefix, path, query)
		}
	})
}
