// Package ui is the web page: a Svelte application built by `make build` into
// dist and carried inside the binary, so that one file is the whole program.
//
// Handler answers four kinds of path. Files that exist are served as they are;
// those under /assets/ carry their content's hash in their name and may be
// cached for ever. A path that begins as a view of the page does (views are links, see
// src/shared/page/url.ts) gets index.html, which is never cached. Any other path is not
// found: a browser gets index.html with it, which names the nearest view. A binary built
// without Node has no index.html and says how to get one.
package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// Handler serves the page. It is safe for concurrent use and holds every file
// in memory, and compresses it once when it is first asked for.
func Handler() http.Handler {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		// Only an invalid path literal can cause this.
		panic("ui: " + err.Error())
	}
	return newHandler(sub)
}

// Built reports whether the binary carries the page.
func Built() bool {
	_, err := fs.Stat(dist, "dist/index.html")
	return err == nil
}

type file struct {
	body        []byte
	gzipped     func() []byte // compresses once; nil when compression does not pay
	contentType string
	etag        string
	immutable   bool
}

type handler struct {
	files map[string]*file // by path without the leading slash
}

func newHandler(fsys fs.FS) *handler {
	h := &handler{files: map[string]*file{}}
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		body, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil
		}
		h.files[name] = newFile(name, body)
		return nil
	})
	return h
}

func newFile(name string, body []byte) *file {
	sum := sha256.Sum256(body)
	f := &file{
		body:        body,
		contentType: contentType(name),
		etag:        `"` + hex.EncodeToString(sum[:8]) + `"`,
		immutable:   strings.HasPrefix(name, "assets/"),
	}
	// Compressing all files takes a tenth of a second, which a server that nobody looks at
	// need not spend.
	f.gzipped = sync.OnceValue(f.compress)
	return f
}

func (f *file) compress() []byte {
	if strings.HasPrefix(f.contentType, "font/") || len(f.body) <= 1024 {
		return nil
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(f.body)
	_ = w.Close()
	if b.Len() >= len(f.body)*9/10 {
		return nil
	}
	return b.Bytes()
}

// contentType does not ask the host's mime tables first: they differ between
// machines, and a script served as text/plain is refused by browsers.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	case ".json", ".webmanifest":
		return "application/json"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page answers GET and HEAD only; the API is under /api/v1", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if f, ok := h.files[name]; ok {
		f.serve(w, r, http.StatusOK)
		return
	}
	first, _, _ := strings.Cut(name, "/")
	status := http.StatusOK
	if !slices.Contains(views, first) {
		status = http.StatusNotFound
		if slices.Contains([]string{"assets", "api", "prometheus"}, first) || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Error(w, "404: there is no "+r.URL.Path+"; the page is at /, the API under /api/v1 and /prometheus, health at /healthz and /readyz", status)
			return
		}
	}
	f, ok := h.files["index.html"]
	if !ok {
		notBuilt(w)
		return
	}
	f.serve(w, r, status)
}

// views are what the paths of the page's views begin with.
var views = []string{"", "services", "tenants", "compare", "sessions", "checks", "marks", "families", "traces", "simulate", "scaling", "cluster"}

func (f *file) serve(w http.ResponseWriter, r *http.Request, status int) {
	head := w.Header()
	head.Set("Content-Type", f.contentType)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("ETag", f.etag)
	if f.immutable {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		head.Set("Cache-Control", "no-cache")
	}
	if strings.HasPrefix(f.contentType, "text/html") {
		head.Set("Content-Security-Policy",
			"default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	}
	body := f.body
	if gzipped := f.gzipped(); gzipped != nil {
		head.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			head.Set("Content-Encoding", "gzip")
			body = gzipped
		}
	}
	if status == http.StatusOK && r.Header.Get("If-None-Match") == f.etag {
		head.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}

func notBuilt(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Tailscope: page not built</title>
<body style="font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem">
<h1 style="font-size: 1.25rem">The page is not built into this binary</h1>
<p>The server is running and its API answers under <a href="/api/v1/services">/api/v1</a>.
To get the page, run <code>make build</code> in the source tree (it needs Node 20 or later)
and start <code>bin/tailscope</code> again.</p>
</body>
</html>
`))
}
