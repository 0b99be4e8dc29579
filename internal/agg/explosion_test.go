package agg_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// TestExplosion brings many distinct values of each kind of name: what is
// refused meanwhile is refused for seconds, and stopping takes at most ten.
// EXPLOSION says how many, a million for the whole of it.
func TestExplosion(t *testing.T) {
	n := 3_000
	if s := os.Getenv("EXPLOSION"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, dir := context.Background(), t.TempDir()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	a, err := agg.Open(ctx, st, agg.Options{Writer: st.Writer(), Dir: filepath.Join(dir, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	span := func(change func(id *agg.SpanIdentity, v string)) func(b *agg.Batch, v string) {
		return func(b *agg.Batch, v string) {
			id := agg.SpanIdentity{Service: "s", Operation: "o", Kind: "server", Status: "ok"}
			change(&id, v)
			b.Observe(a.SpanTarget(&id), time.Now().UnixNano(), 1e6, 1)
		}
	}
	metric := func(family string) func(b *agg.Batch, v string) {
		return func(b *agg.Batch, v string) {
			b.Number(a.MetricTarget(series.Series{Family: family + v, Kind: series.Gauge, Labels: labels.FromStrings("service", "s")}), time.Now().UnixNano(), 1)
		}
	}
	for _, kind := range []struct {
		name string
		send func(b *agg.Batch, v string)
	}{
		{"tenants", span(func(id *agg.SpanIdentity, v string) { id.Tenant = v })},
		{"operations", span(func(id *agg.SpanIdentity, v string) { id.Operation = v })},
		{"versions", span(func(id *agg.SpanIdentity, v string) { id.Version = v })},
		{"instances", span(func(id *agg.SpanIdentity, v string) { id.Instance = v })},
		{"extra labels", span(func(id *agg.SpanIdentity, v string) { id.Extra = []labels.Label{{Name: "extra", Value: v}} })},
		{"components", span(func(id *agg.SpanIdentity, v string) { id.Component = v })},
		{"services", span(func(id *agg.SpanIdentity, v string) { id.Service = v })},
		{"all at once", span(func(id *agg.SpanIdentity, v string) {
			*id = agg.SpanIdentity{Service: v, Operation: v, Kind: "server", Tenant: v, Version: v, Variant: v, Instance: v, Component: v}
		})},
		{"names of metrics", metric("family")},
	} {
		began := time.Now()
		var refused time.Duration
		for i := 0; i < n; {
			b := a.NewBatch()
			for k := range 500 {
				kind.send(b, strconv.Itoa(i+k))
			}
			switch _, err := b.Commit(ctx); {
			case err == nil:
				i += 500
			case errors.Is(err, agg.ErrOverloaded):
				time.Sleep(50 * time.Millisecond)
				if refused += 50 * time.Millisecond; refused > time.Minute {
					t.Fatalf("%s: refused for more than a minute", kind.name)
				}
			default:
				t.Fatal(err)
			}
		}
		s := a.Stats()
		t.Logf("%s: %v, refused for %v, %d series, %d MiB", kind.name, time.Since(began).Round(time.Millisecond), refused, s.ActiveSeries, s.MemoryBytes>>20)
	}
	accepted := a.Stats().Observations
	began := time.Now()
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Log("closed in", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
	if accepted < uint64(8*n) {
		t.Errorf("%d accepted, want at least %d", accepted, 8*n)
	}
}
