//go:build servers

package chstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/test/program"
)

// replicas runs Debian's ClickHouse with replicas of each shard while the test lasts.
func replicas(t testing.TB, shards, each int) *program.ClickHouse {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := program.StartReplicatedClickHouse(ctx, shards, each)
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

// With two shards of three replicas questions are answered with all that was acknowledged,
// whichever replica is late or dead, and nothing is acknowledged that most do not have.
func TestReplicas(t *testing.T) {
	ctx := context.Background()
	c := replicas(t, 2, 3)
	o := on(t, c)
	s, twin := open(t, o), storetest.NewTwin()
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	w := &world{twin: twin, now: storetest.T0 + 100, gens: map[string]uint64{}}
	put := func() {
		t.Helper()
		b := w.batch(rng, "w")
		check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
	}
	alike := func(when string) {
		t.Helper()
		for range 10 {
			if err := w.compare(ctx, rng, s); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	for range 5 {
		put()
	}
	w.now += 700
	check(t, s.Maintain(ctx, time.Unix(w.now, 0)))
	alike("all are there")

	// The second replica of the second shard gets nothing more, then the first one dies: the
	// third has to be asked.
	late, dies := c.Nodes[4], c.Nodes[3]
	lateNode := s.replicas(1)[1]
	if lateNode.host != late.HTTP {
		t.Fatalf("%s is the second replica, want %s", lateNode.host, late.HTTP)
	}
	for _, table := range []string{"points", "series", "samples"} {
		check(t, s.client.exec(ctx, lateNode, "SYSTEM STOP FETCHES "+s.local(table)))
	}
	for range 5 {
		put()
	}
	alike("a replica is late")
	dies.Kill()
	alike("a replica is late, another one dead")

	// One of three is not enough to store anything, and what failed is not counted.
	late.Kill()
	b := w.batch(rng, "w")
	if err := s.Put(ctx, b); !errors.Is(err, store.ErrAway) {
		t.Errorf("a generation is put on one replica of three: got %v, want ErrAway", err)
	}
	check(t, c.Restart(ctx, late)) // and fetches
	check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
	put()
	alike("the late one has caught up, and stores in place of the dead one")
	check(t, c.Restart(ctx, dies))
	put()
	alike("all are back")

	// Servers that insert at the same time wait for one another.
	other := open(t, o)
	defer other.Close()
	var g errgroup.Group
	for writer, s := range map[string]*Store{"a": s, "b": other} {
		var all []*store.Batch
		for range 3 {
			b := w.batch(rng, writer)
			check(t, twin.Put(ctx, b))
			all = append(all, b)
		}
		g.Go(func() error {
			for _, b := range all {
				if err := s.Put(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, g.Wait())
	alike("two servers put at the same time")
}

// A store opens while a replica is away, waits for most of those that are named, and uses it
// once it is back. It does not open while a whole shard or the first host is away, nor while a
// host is that needs its tables.
func TestOpenWithoutReplica(t *testing.T) {
	ctx := context.Background()
	c := replicas(t, 2, 2)
	o := on(t, c)
	refuses := func(when string, want ...string) {
		t.Helper()
		s, err := Open(ctx, o)
		if err == nil {
			t.Fatalf("%s: a store opens: %v", when, s.Close())
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", when, err, text)
			}
		}
	}
	dies := c.Nodes[3]
	dies.Kill()
	refuses("there are no tables", dies.HTTP, "leave it out of the address")
	check(t, c.Restart(ctx, dies))
	before, twin := open(t, o), storetest.NewTwin()
	rng := rand.New(rand.NewPCG(1, 2))
	w := &world{twin: twin, now: storetest.T0 + 100, gens: map[string]uint64{}}
	for range 3 {
		b := w.batch(rng, "w")
		check(t, errors.Join(before.Put(ctx, b), twin.Put(ctx, b)))
	}
	check(t, before.Close())

	dies.Kill()
	without := func(joinEvery time.Duration) *Store {
		t.Helper()
		s, err := newStore(o)
		check(t, err)
		s.joinEvery = joinEvery
		s, err = s.connect(ctx, (*Store).ensureSchema, (*Store).refuseCopy)
		check(t, err)
		return s
	}
	s, asked := without(100*time.Millisecond), without(time.Hour)
	defer s.Close()
	defer asked.Close()
	alike := func(when string) {
		t.Helper()
		for range 10 {
			if err := w.compare(ctx, rng, s); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	alike("a replica is away")
	if nodes, found := s.Health(ctx); len(nodes) != 4 || len(found) != 1 || found[0].Where != dies.HTTP || !strings.Contains(found[0].What, "does not answer") {
		t.Errorf("a replica is away: %d nodes, found %+v", len(nodes), found)
	}
	b := w.batch(rng, "w")
	if err := s.Put(ctx, b); !errors.Is(err, store.ErrAway) {
		t.Errorf("a generation is put on one replica of two: got %v, want ErrAway", err)
	}
	check(t, c.Restart(ctx, dies))
	for began := time.Now(); len(s.replicas(1)) < 2; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the replica that is back is not used")
		}
	}
	check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
	alike("it is back")
	if _, found := s.Health(ctx); len(found) > 0 {
		t.Errorf("it is back: found %+v", found)
	}

	// What lacks a table is not used before it has it.
	i := slices.IndexFunc(tables, func(t table) bool { return t.name == "samples" })
	back := s.replicas(1)[1]
	check(t, s.client.exec(ctx, back, "DROP TABLE "+s.local("samples")))
	if n := asked.joinAll(ctx); n != 1 {
		t.Errorf("%d hosts are not used while one lacks a table, want 1", n)
	}
	if _, found := asked.Health(ctx); len(found) != 1 || found[0].Where != dies.HTTP || !strings.Contains(found[0].What, "is not used: node "+dies.HTTP+" lacks the table samples_local") {
		t.Errorf("it lacks a table: found %+v", found)
	}
	check(t, s.client.exec(ctx, back, s.createTable(&tables[i])))
	if n := asked.joinAll(ctx); n != 0 {
		t.Errorf("%d hosts are not used, want none", n)
	}
	other := c.Nodes[2]
	other.Kill()
	alike("it answers in place of the other one")

	dies.Kill()
	refuses("a shard is away", "no host of shard 2", "start it, or see to the network")
	check(t, errors.Join(c.Restart(ctx, dies), c.Restart(ctx, other)))
	c.Nodes[0].Kill()
	refuses("the first host is away", c.Nodes[0].HTTP+", the first host", "start it, or see to the network")
	check(t, c.Restart(ctx, c.Nodes[0]))
}
