package route

import (
	"strings"
	"testing"
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
		if got := IsID([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(Template(nil, in)); got != want {
			t.Errorf("Template(%q) = %q, want %q", in, got, want)
		}
	}
	f("/v1/cart/7", "/v1/cart/{id}")
	f("/oauth2/token", "/oauth2/token")
	f("/api/v2beta1/x", "/api/v2beta1/x")
	f("/users/bob@example.com/x", "/users/{id}/x")
	f("/o/550e8400-e29b-41d4-a716-446655440000", "/o/{id}")
	f("/c/deadbeef01", "/c/{id}")
	f("/decade/facade", "/decade/facade")
	f("/s/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/s/{id}")
	f("/files/2024-01-31/report", "/files/{id}/report")
	f("/{id}/:x/<int:y>/*", "/{id}/:x/<int:y>/*")
	f("/a?b=secret", "/a")
	f("GET /a/1?b=c HTTP", "GET /a/{id} HTTP")
	f("worker-12", "worker-{id}")
	f("shard-3", "shard-3")
	f("job_123456_done", "job_{id}_done")
	f("HTTP/1.1", "HTTP/{id}")
	f("", "")
	f("Ünïcode/1", "Ünïcode/{id}")
}

func TestPathOf(t *testing.T) {
	for target, want := range map[string]string{
		"/a/b": "/a/b", "/a?b=/c#d": "/a", "/a;sid=1/b?c": "/a", "/a#b": "/a", "": "/", "?a": "/", "*": "*", "/x?u=http://y/z": "/x",
		"http://shop:80/a/b?c": "/a/b", "https://u:p@shop/": "/", "http://shop": "/", "http://shop?a=/b": "/", "http://shop#a": "/",
	} {
		if got := PathOf(target); got != want {
			t.Errorf("%q: got %q, want %q", target, got, want)
		}
	}
}
