package ui

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestHandler(t *testing.T) {
	script := strings.Repeat("console.log('tailscope');\n", 100)
	h := newHandler(fstest.MapFS{
		"index.html":          {Data: []byte("<!doctype html><title>page</title>")},
		"assets/index-abc.js": {Data: []byte(script)},
		"favicon.svg":         {Data: []byte("<svg/>")},
		".gitkeep":            {Data: nil},
	})
	for _, tc := range []struct {
		name, method, path string
		status             int
		contentType, cache string
		body               string
	}{
		{"root", "GET", "/", 200, "text/html; charset=utf-8", "no-cache", "<title>page</title>"},
		{"a view is a link", "GET", "/services/check.out?range=6h", 200, "text/html; charset=utf-8", "no-cache", "<title>page</title>"},
		{"a service with a slash", "GET", "/services/a%2Fb", 200, "text/html; charset=utf-8", "no-cache", "<title>page</title>"},
		{"hashed asset", "GET", "/assets/index-abc.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "console.log"},
		{"asset of another build", "GET", "/assets/index-old.js", 404, "text/plain; charset=utf-8", "", "404"},
		{"unknown API path is not the page", "GET", "/api/v1/nope", 404, "text/plain; charset=utf-8", "", "404"},
		{"plain file", "GET", "/favicon.svg", 200, "image/svg+xml", "no-cache", "<svg/>"},
		{"climbing out", "GET", "/assets/../../../etc/passwd", 404, "text/plain; charset=utf-8", "", "404"},
		{"hidden files are not served", "GET", "/.gitkeep", 404, "text/plain; charset=utf-8", "", "404"},
		{"health that is asked for elsewhere", "GET", "/health", 404, "text/plain; charset=utf-8", "", "/healthz"},
		{"logs", "GET", "/loki/api/v1/push", 404, "text/plain; charset=utf-8", "", "404"},
		{"wrong method", "POST", "/", 405, "text/plain; charset=utf-8", "", "GET and HEAD"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
			if w.Code != tc.status {
				t.Errorf("status = %d, want %d", w.Code, tc.status)
			}
			if got := w.Header().Get("Content-Type"); got != tc.contentType {
				t.Errorf("content type = %q, want %q", got, tc.contentType)
			}
			if got := w.Header().Get("Cache-Control"); got != tc.cache {
				t.Errorf("cache control = %q, want %q", got, tc.cache)
			}
			if !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("body = %q, want it to contain %q", w.Body.String(), tc.body)
			}
		})
	}
}

// A browser gets the page with its 404, which names the nearest view.
func TestUnknownPathInABrowser(t *testing.T) {
	h := newHandler(fstest.MapFS{"index.html": {Data: []byte("<title>page</title>")}})
	r := httptest.NewRequest("GET", "/service/shop", nil)
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 404 || !strings.Contains(w.Body.String(), "<title>page</title>") {
		t.Errorf("%d %q, want 404 with the page", w.Code, w.Body)
	}
}

// The views are those that the page knows.
func TestViews(t *testing.T) {
	source, err := os.ReadFile("src/shared/page/url.ts")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^const paths: .*$`).FindString(string(source))
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`'/([a-z]*)`).FindAllStringSubmatch(line, -1) {
		known[m[1]] = true
	}
	if got, want := slices.Sorted(maps.Keys(known)), slices.Sorted(slices.Values(views)); !slices.Equal(got, want) {
		t.Errorf("the page has views %q, the handler %q", got, want)
	}
}

func TestHandlerCompressesAndRevalidates(t *testing.T) {
	script := strings.Repeat("console.log('tailscope');\n", 100)
	h := newHandler(fstest.MapFS{"assets/a.js": {Data: []byte(script)}})

	r := httptest.NewRequest("GET", "/assets/a.js", nil)
	r.Header.Set("Accept-Encoding", "br, gzip;q=0.8")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("content encoding = %q, want gzip", got)
	}
	zr, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(zr); err != nil || string(got) != script {
		t.Fatalf("decompressed to %d bytes (%v), want %d", len(got), err, len(script))
	}

	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("revalidation = %d with %d bytes, want 304 with none", w.Code, w.Body.Len())
	}

	r = httptest.NewRequest("GET", "/assets/a.js", nil)
	r.Header.Set("Accept-Encoding", "gzip;q=0")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Encoding") != "" || w.Body.String() != script {
		t.Error("a reader that refuses gzip got something else than the plain script")
	}
}

func TestHandlerNotBuilt(t *testing.T) {
	h := newHandler(fstest.MapFS{".gitkeep": {Data: nil}})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "make build") {
		t.Errorf("got %d %q, want 503 and a page that names make build", w.Code, w.Body.String())
	}
}
