//go:build servers

package httpapi

import (
	"testing"

	"go.uber.org/goleak"

	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/test/program"
)

// ClickHouse answers every question as the other stores do, on one node and on three.
func init() {
	// Servers are started by a thread that lives as long as they may.
	lasting = append(lasting, goleak.IgnoreAnyFunction("tailscope/test/program.init.func1.1"))
	for _, of := range []struct {
		name   string
		shards int
	}{{"clickhouse", 1}, {"clickhouse-shards", 3}} {
		open := func(t *testing.T) store.Store { return clickHouse(t, of.shards) }
		goldenStores = append(goldenStores, goldenStore{of.name, open, false}, goldenStore{of.name + "-settled", open, true})
	}
}

func clickHouse(t *testing.T, shards int) store.Store {
	t.Helper()
	c, err := program.StartClickHouse(t.Context(), shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	st, err := chstore.Open(t.Context(), chstore.Options{Address: c.Address("ts")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// The goldens are asked of ClickHouse only here: what has no real server asks the others.
func TestGoldenOfClickHouse(t *testing.T) {
	TestGolden(t)
	TestBreakdownGolden(t)
}
