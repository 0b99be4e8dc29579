//go:build servers

package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	oteltrace "go.opentelemetry.io/otel/trace"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/test/program"
)

// What servers on one cluster decide from traffic they decide alike seconds later: which tenants
// keep their names, their cohorts, and routes.
func TestServersOnClickHouseNameAlike(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	servers := make([]*Server, 2)
	for i := range servers {
		cfg := testConfig(t.TempDir())
		cfg.Store, cfg.MaxTenants = c.Address("names"), 4
		servers[i] = start(t, cfg)
	}
	serve := func(s *Server, n int, tenant string, path func(int) string) {
		t.Helper()
		exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(s.OTLPHTTP()), otlptracehttp.WithInsecure())
		if err != nil {
			t.Fatal(err)
		}
		tp, end := sdk(t, exporter), time.Now().Add(-time.Second)
		for i := range n {
			_, span := tp.Tracer("x").Start(t.Context(), "GET", oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithTimestamp(end.Add(-time.Millisecond)),
				oteltrace.WithAttributes(attribute.String("http.request.method", "GET"), attribute.String("url.path", path(i)), attribute.String("tenant.id", tenant)))
			span.End(oteltrace.WithTimestamp(end))
		}
		if err := tp.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Servers read and publish every five seconds.
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not after a minute", what)
			}
		}
	}
	checkout := agg.SpanIdentity{Service: "checkout", Kind: "server"}
	only := func(path string) func(int) string { return func(int) string { return path } }
	user := func(i int) string { return "/users/" + word(i) }

	for i := range 3 {
		serve(servers[0], 1, fmt.Sprint("t", i), only("/"))
	}
	until("the first server has published three names: the bound is near", func() bool {
		published := 0
		err := servers[0].store.ListRecords(t.Context(), "names", "checkout\x00"+servers[0].data.writer+"\x001", func(x store.Record) error {
			published = len(x.Value) / 8
			return nil
		})
		return err == nil && published == 3
	})
	serve(servers[0], 1, "t3", only("/"))
	serve(servers[1], 1, "acme", only("/")) // two give the last name at once
	serve(servers[1], 600, "acme", user)
	for _, s := range servers {
		until("all names are those of both, and so are shares", func() bool {
			list, to := []agg.Member{{Tenant: "acme"}, {Tenant: "t0"}, {Tenant: "t1"}, {Tenant: "t2"}, {Tenant: "t3"}}, s.agg.NamedTarget(&checkout)
			for i := range list {
				list[i].Target = to
			}
			s.agg.Fold(list)
			return !slices.ContainsFunc(list, func(m agg.Member) bool { return m.Folded }) && s.agg.Cohort("checkout", "acme") == series.VeryLarge
		})
	}
	somebody := 0
	until("the first server goes by what the second has learned of paths", func() bool {
		somebody++
		path := "/users/one" + word(somebody)
		serve(servers[0], 1, "acme", only(path))
		if err := servers[0].Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		return totals(t, servers[0], series.SpanDuration, "", "operation")["GET "+path] == ""
	})
	for i := range 4 {
		serve(servers[1], 1, fmt.Sprint("t", i), only("/"))
	}
	for _, s := range servers {
		serve(s, 1, "late", only("/"))
		if got := s.agg.Cohort("checkout", "acme"); got != series.VeryLarge {
			t.Errorf("acme is %s", got)
		}
	}
	for _, s := range servers {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		want := map[string]string{"acme": fmt.Sprintf("%d, %f s", 601+somebody, float64(601+somebody)/1000), "_other": "2, 0.002000 s"}
		for i := range 4 {
			want[fmt.Sprint("t", i)] = "2, 0.002000 s"
		}
		if got := totals(t, s, series.SpanDuration, "", "tenant"); !maps.Equal(got, want) {
			t.Errorf("by tenant: got  %v\nwant %v", got, want)
		}
		got := totals(t, s, series.SpanDuration, "", "operation")
		if _, ok := got["GET /users/{name}"]; !ok {
			t.Errorf("by operation: %v", got)
		}
		if code, body := get(t, "http://"+s.Addr()+"/readyz"); code != 200 || !strings.Contains(body, "ready") {
			t.Errorf("/readyz answers %d %q", code, body)
		}
	}
}
