package route

import (
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	f := func(text, host, path, want string) {
		t.Helper()
		p, ok, err := ParsePlace(text)
		if !ok || err != nil {
			t.Fatalf("%s: %v, %v", text, ok, err)
		}
		if got := string(p.Name([]byte(host), []byte(path))); got != want {
			t.Errorf("%s of %s%s is %q, want %q", text, host, path, got, want)
		}
		if p.Host() != strings.HasPrefix(text, "host") {
			t.Errorf("%s is of the host: %v", text, p.Host())
		}
	}
	f("host", "acme.example.com:8443", "/", "acme")
	f("host", "localhost", "/", "")
	f("host", "10.0.0.1:80", "/", "")
	f("host", "[::1]:80", "/", "")
	f("host", "", "/", "")
	f("host:(.+)", "acme.com:80", "/", "acme.com")
	f("host:(.+)", "[::1]", "/", "[::1]")
	f("path:^/(?:t/([a-z]+)|u/([a-z]+))", "", "/u/acme/x", "acme")
	f("path:^/t/([a-z]+)", "", "/x", "")
	for _, none := range []string{"", "hosts", "path", "path:", "host:", "header:X"} {
		if _, ok, err := ParsePlace(none); ok || err != nil {
			t.Errorf("%q: %v, %v", none, ok, err)
		}
	}
	for text, want := range map[string]string{"path:(": "missing closing )", "host:x": "put what is the name into brackets"} {
		if _, ok, err := ParsePlace(text); !ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
	}
}
