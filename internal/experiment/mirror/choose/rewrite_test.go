package choose

import (
	"strings"
	"testing"
)

func rewriter(t testing.TB, o RewriteOptions) *Rewriter {
	t.Helper()
	w, err := NewRewriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRewriteTarget(t *testing.T) {
	f := func(want, target string, rules ...string) {
		t.Helper()
		w := rewriter(t, RewriteOptions{Paths: rules})
		if got := string(w.AppendTarget([]byte("GET "), []byte(target))); got != "GET "+want {
			t.Errorf("%s by %q is %s, want GET %s", target, rules, got, want)
		}
		if w.Target() != (len(rules) > 0) {
			t.Errorf("rewrites is %v with %d rules", w.Target(), len(rules))
		}
	}
	f("/v1/x?a=/v1/", "/v1/x?a=/v1/")
	f("/v2/x?a=/v1/", "/v1/x?a=/v1/", "^/v1/=/v2/")
	f("/x", "/v1/x", "^/v1=")
	f("/", "/v1", "^/v1=")
	f("/x", "/v1/x", "^/v1/=")
	f("/users/7/cart", "/cart/7", "^/cart/([0-9]+)$=/users/$1/cart")
	f("/users/a=b/cart", "/cart/a=b", "^/cart/(.*)$=/users/$1/cart")
	f("/c", "/a", "a=b", "b=c")
	f("/a$1", "/b", "b=a$$1")
	f("http://h/v2/x?q", "http://h/v1/x?q", "^/v1/=/v2/")
	f("http://h?q", "http://h?q", "^=/v2")
	f("*", "*", ".=x")
	f("/a//b?", "/a//b?", "^/v1/=/v2/")
	var none *Rewriter
	if none.Target() || none.Host() || none.Fields() || string(none.AppendTarget(nil, []byte("/x?y"))) != "/x?y" ||
		string(none.AppendHost(nil, []byte("h"))) != "h" || string(none.AppendFields(nil, []byte("A: b\r\n"))) != "A: b\r\n" {
		t.Error("no rewriter changes something")
	}
}

func TestRewriteFields(t *testing.T) {
	w := rewriter(t, RewriteOptions{Host: "candidate.example:8080", Set: []string{"X-Copy: 1", "Authorization:Bearer x:y ", "X-Empty:"}, Drop: []string{"Cookie", "x-debug"}})
	if got := string(w.AppendHost([]byte("h "), []byte("shop"))); got != "h candidate.example:8080" {
		t.Errorf("host %s", got)
	}
	const in = "X-A: 1\r\ncookie: a\r\nCOOKIE: b\r\nCookie2: c\r\nX-Debug: d\r\nauthorization: e\r\nx-empty: f\r\nX-A: Cookie: 2\r\n"
	const want = "> X-A: 1\r\nCookie2: c\r\nX-A: Cookie: 2\r\nX-Copy: 1\r\nAuthorization: Bearer x:y\r\nX-Empty: \r\n"
	if got := string(w.AppendFields([]byte("> "), []byte(in))); got != want {
		t.Errorf("fields are\n%swant\n%s", got, want)
	}
	if !w.Host() || !w.Fields() || w.Target() {
		t.Error("it is not known what is rewritten")
	}
}

func TestRewriteErrorsSayWhatToWrite(t *testing.T) {
	f := func(o RewriteOptions, want string) {
		t.Helper()
		if w, err := NewRewriter(o); err == nil || w != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v does not say %q", o, err, want)
		}
	}
	f(RewriteOptions{Paths: []string{"/v1"}}, `rewrite: "/v1" is not REGEX=REPLACEMENT, such as ^/v1/=/v2/`)
	f(RewriteOptions{Paths: []string{"=/v1"}}, "is not REGEX=REPLACEMENT")
	f(RewriteOptions{Paths: []string{"(=x"}}, "missing closing )")
	f(RewriteOptions{Paths: []string{"/a=/b?c"}}, "write them as %3F")
	f(RewriteOptions{Paths: []string{"/a=/b c"}}, "%20")
	f(RewriteOptions{Paths: []string{"/a=/b\r\nX: 1"}}, "control character")
	f(RewriteOptions{Paths: []string{"/(a)=/$2"}}, "group")
	f(RewriteOptions{Paths: []string{"/(a)=/$1x"}}, "write ${1}x")
	f(RewriteOptions{Host: "a b"}, "write NAME or NAME:PORT")
	f(RewriteOptions{Host: "http://a"}, "write NAME or NAME:PORT")
	f(RewriteOptions{Host: "a\r\nX: 1"}, "write NAME or NAME:PORT")
	f(RewriteOptions{Set: []string{"X-Copy"}}, "is not NAME: VALUE, such as X-Copy: 1")
	f(RewriteOptions{Set: []string{"X: a\nb"}}, "is not NAME: VALUE")
	f(RewriteOptions{Set: []string{"Host: a"}}, "mirror.host")
	f(RewriteOptions{Set: []string{"content-length: 1"}}, "cannot be changed")
	f(RewriteOptions{Drop: []string{"Transfer-Encoding"}}, "cannot be changed")
	f(RewriteOptions{Drop: []string{"tailscope-mirror"}}, "cannot be changed")
	f(RewriteOptions{Drop: []string{"a b"}}, "write a name such as Cookie")
}
