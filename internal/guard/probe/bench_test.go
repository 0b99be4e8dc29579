package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"tailscope/internal/guard/check/spec"
)

// BenchmarkProbe tells what one run costs, the server's side of loopback included.
func BenchmarkProbe(b *testing.B) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"n":1}`) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(plain.Config.Handler)
	defer secure.Close()
	for _, c := range []struct {
		name string
		s    spec.Source
	}{
		{"http", spec.Source{HTTP: &spec.HTTP{URL: plain.URL, Measure: "json", JSON: "n"}}},
		{"https", spec.Source{HTTP: &spec.HTTP{URL: secure.URL, Insecure: true, Measure: "json", JSON: "n"}}},
		{"tcp", spec.Source{TCP: &spec.TCP{Address: plain.Listener.Addr().String()}}},
		{"tls", spec.Source{TLS: &spec.TLS{Address: secure.Listener.Addr().String()}}},
		{"command", spec.Source{Command: &spec.Command{Args: []string{"/bin/echo", "OK | a=1"}}}},
		{"sqlite", spec.Source{SQL: &spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: database(b)}, Query: "SELECT sum(n) FROM orders"}}},
	} {
		b.Run("source="+c.name, func(b *testing.B) {
			p := New(Options{})
			b.ReportAllocs()
			for b.Loop() {
				if r := p.Probe(b.Context(), &c.s); r.Null {
					b.Fatal(r.Err)
				}
			}
			if err := p.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
