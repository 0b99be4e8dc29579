//go:build servers

package chstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/test/program"
)

// Servers are started by a thread that lives as long as they may.
func init() {
	lasting = append(lasting, goleak.IgnoreAnyFunction("tailscope/test/program.init.func1.1"))
}

// databases numbers the databases of this process.
var databases atomic.Int64

// current has the tests run on today's ClickHouse in place of the oldest that is supported.
var current = os.Getenv("TAILSCOPE_TEST_CLICKHOUSE") == "current"

// nodes runs ClickHouse with so many shards while the test lasts.
func nodes(t testing.TB, shards int) *program.ClickHouse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	start := program.StartClickHouse
	if current {
		start = program.StartCurrentClickHouse
	}
	c, err := start(ctx, shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, n := range c.Nodes {
			if u, err := n.Usage(); err == nil {
				t.Logf("%s took %v of user time, %v of system time", n.HTTP, u.User, u.System)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// on returns options of a store in a database of its own, which goes with the test.
func on(t testing.TB, c *program.ClickHouse) Options {
	t.Helper()
	o := Options{Address: c.Address(fmt.Sprintf("ts_%d_%d", os.Getpid(), databases.Add(1)))}
	t.Cleanup(func() {
		if err := dropDatabase(context.Background(), o); err != nil {
			t.Error(err)
		}
	})
	return o
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fewer lets random tests play less: every store is a database of its own.
func fewer(t *testing.T, checks string) {
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	if before != f.DefValue {
		return // who runs the test wants so many
	}
	if current {
		checks = "4" // a small statement costs it ten times as much
	}
	if err := f.Value.Set(checks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

func TestStore(t *testing.T) {
	fewer(t, "15")
	c := nodes(t, 1)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, on(t, c)) })
}

// dropDatabase deletes the database of an address with all that is in it, on all nodes.
func dropDatabase(ctx context.Context, o Options) error {
	s, err := openWith(ctx, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range s.nodes() {
		errs = append(errs, s.client.exec(ctx, n, "DROP DATABASE IF EXISTS "+s.address.database))
	}
	return errors.Join(append(errs, s.Close())...)
}
