//go:build servers

package chstore

import (
	"context"
	"errors"
	"math/rand/v2"
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
	lateNode := s.shards[1][1]
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
