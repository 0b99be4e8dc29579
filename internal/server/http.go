package server

import (
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"slices"

	"tailscope/internal/httpapi"
	"tailscope/internal/listen"
	"tailscope/internal/observe/accesslog"
)

// routes returns the handler of the main address: the API, Prometheus' API, the page,
// and the paths for operating the server.
func (s *Server) routes(api, imports, page http.Handler) http.Handler {
	mux := s.operating()
	measured := s.metrics.measure(api)
	measured = s.arriving.Handler(measured, httpapi.Refuse)
	mux.Handle("/api/", measured)
	mux.Handle(accesslog.ImportPath, s.metrics.measure(imports))
	mux.Handle("/prometheus/", measured)
	mux.Handle("/openapi.json", measured)
	mux.Handle("/openapi.yaml", measured)
	mux.Handle("/", page)
	return s.guarded(mux)
}

// operating returns a mux with the paths for operating the program.
func (s *Server) operating() *http.ServeMux {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/-/healthy", "/prometheus/-/healthy"} { // the latter as Prometheus has it
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusOK, "ok\n")
		})
	}
	for _, path := range []string{"/readyz", "/-/ready", "/prometheus/-/ready"} {
		mux.HandleFunc("GET "+path, s.serveReady)
	}
	mux.Handle("GET /metrics", s.metrics.handler())
	return mux
}

// guarded returns h without the requests of other sites' pages.
func (s *Server) guarded(h http.Handler) http.Handler {
	g := listen.Guard{Names: s.names(), Refuse: httpapi.Refuse}
	return g.Handler(h)
}

// names returns the host names by which clients may address the server.
func (s *Server) names() listen.Names {
	var n listen.Names
	for _, addr := range []string{s.cfg.Listen, s.cfg.OTLPHTTP, s.cfg.DebugListen} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			n.Own = append(n.Own, host)
		}
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		n.Own = append(n.Own, host)
	}
	n.Allowed = s.cfg.AllowedHosts
	if u, err := url.Parse(s.cfg.PageURL); err == nil && u.Hostname() != "" {
		n.Allowed = append(slices.Clip(n.Allowed), u.Hostname())
	}
	return n
}

func writeText(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// debugHandler serves Go's profiles. It is never on the address of the page.
func debugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
