package check

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/agg"
	"tailscope/internal/query"
	"tailscope/internal/store/storetest"
)

// What tenants of one size are told, and what PromQL comes to: all requests of the
// large take 2 s, of the small one a quarter of the answers fail at once.
func TestCohortsAndPromQL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}
		w.o.Prom = query.NewPromEngine(w.store, query.PromOptions{})
		w.open(`
templates:
  all: {every: 10s}
checks:
  above: {template: all, value: {query: {measure: above, t: 1, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: very large}}}
  below: {template: all, value: {query: {measure: below, t: 1, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: medium}}}
  errors: {template: all, value: {query: {measure: errors, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: medium}}}
  fine: {template: all, value: {query: {measure: errors, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: very large}}}
  mean: {template: all, value: {query: {measure: mean, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: very large}}}
  none: {template: all, value: {query: {measure: mean, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: large}}}
  rate: {template: all, value: {query: {measure: rate, series: 'span_duration_seconds{service="shop"}', over: 1m, cohort: very large}}}
  scalar: {template: all, value: {promql: '2 * 3'}}
  vector: {template: all, value: {promql: 'max(check_value{check=~"scalar|rate"}) * 2'}}
  many: {template: all, value: {promql: 'check_value{check=~"scalar|rate"}'}}
`)
		for i := range 240 {
			b := w.agg.NewBatch()
			for tenant, n := range map[string]uint32{"acme": 992, "tiny": 8} {
				id := agg.SpanIdentity{Service: "shop", Operation: "GET /", Component: "app", Kind: "server", Status: "ok", Tenant: tenant}
				seconds := 2.0
				if tenant == "tiny" {
					if seconds = 0.1; i%4 == 0 {
						id.Status = "error"
					}
				}
				b.Observe(w.agg.SpanTarget(&id), time.Now().UnixNano(), int64(seconds*1e9), n)
			}
			if _, err := b.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		w.expect(w.list(`check=~".+"`), `many UNKNOWN NaN
none UNKNOWN NaN
above OK 1
below OK 1
errors OK 0.25
fine OK 0
mean OK 2
rate OK 9.9e+02
scalar OK 6
vector OK 2e+03`)
		w.stop()
	})
}
