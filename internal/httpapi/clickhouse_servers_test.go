//go:build servers

package httpapi

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"tailscope/internal/store"
	"tailscope/internal/store/chstore"
	"tailscope/internal/store/pebblestore"
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
		begin := func(t *testing.T) (opens, copies) { return databases(t, of.shards).open, nil }
		goldenStores = append(goldenStores, goldenStore{name: of.name, begin: begin}, goldenStore{name: of.name + "-settled", begin: begin, settled: true})
	}
	inMemory := func(t *testing.T) store.Store { return pebble(t) }
	goldenStores = append(goldenStores, goldenStore{name: "clickhouse-copied", settled: true, begin: func(t *testing.T) (opens, copies) {
		return inMemory, databases(t, 3).copied
	}}, goldenStore{name: "pebble-copied", settled: true, begin: func(t *testing.T) (opens, copies) {
		all := databases(t, 3)
		return inMemory, func(t *testing.T, from store.Store) store.Store { return intoDirectory(t, all.copied(t, from)) }
	}})
}

// clickHouse has a database for each store.
type clickHouse struct {
	nodes *program.ClickHouse
	n     int
}

func databases(t *testing.T, shards int) *clickHouse { return &clickHouse{nodes: nodes(t, shards)} }

func (c *clickHouse) options() chstore.Options {
	c.n++
	return chstore.Options{Address: c.nodes.Address(fmt.Sprint("ts", c.n))}
}

// open opens an empty store.
func (c *clickHouse) open(t *testing.T) store.Store {
	t.Helper()
	return openClickHouse(t, c.options())
}

// copied moves a store in a directory.
func (c *clickHouse) copied(t *testing.T, from store.Store) store.Store {
	t.Helper()
	ctx, o := t.Context(), c.options()
	to, _, err := chstore.OpenCopy(ctx, o, "a directory")
	if err == nil {
		err = errors.Join(store.Copy(ctx, from.(*pebblestore.Store), to), to.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return openClickHouse(t, o)
}

// intoDirectory moves a store in ClickHouse to a directory.
func intoDirectory(t *testing.T, from store.Store) store.Store {
	t.Helper()
	ctx := t.Context()
	content, err := from.(*chstore.Store).Content(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1, Copy: true}
	to, err := pebblestore.Open(ctx, o)
	if err == nil {
		err = errors.Join(store.Copy(ctx, content, to), to.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Copy = false
	return openPebble(t, o)
}

func nodes(t *testing.T, shards int) *program.ClickHouse {
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
	return c
}

func openClickHouse(t *testing.T, o chstore.Options) store.Store {
	t.Helper()
	st, err := chstore.Open(t.Context(), o)
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
}
