package check

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/agg"
)

func TestEachFindsWhatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `
checks:
  slow:
    every: 10s
    each: {series: 'span_duration_seconds{service="shop"}', by: [operation]}
    value: p99(span_duration_seconds{service="shop", operation="$operation"}[-1H:-0M])
`)
		w.traffic(3*time.Minute, map[string]float64{"GET /a": 0.1})
		w.expect(w.list(`check="slow"`), `slow{operation="GET /a"} OK 0.1`)
		b := w.agg.NewBatch()
		id := agg.SpanIdentity{Service: "shop", Operation: "GET /late", Component: "app", Kind: "server", Status: "ok"}
		b.Observe(w.agg.SpanTarget(&id), time.Now().Add(-20*time.Minute).UnixNano(), 2e8, 1)
		if _, err := b.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.traffic(7*time.Minute, map[string]float64{"GET /a": 0.1})
		w.expect(w.list(`check="slow"`), "slow{operation=\"GET /a\"} OK 0.1\nslow{operation=\"GET /late\"} OK 0.2")
		w.stop()
	})
}
