//go:build servers && campaign

package faults

import (
	"testing"
	"time"

	"tailscope/internal/cluster"
)

// TestSeveral does each thing once to two servers on three shards, but for those that wait long:
// starts of a copy of a server are in TestServersOnClickHouse, and all of them in the benchmark.
func TestSeveral(t *testing.T) {
	kinds := []string{shardAway, answerLost, killFlushing, frozen, nodeFull}
	first, n := uint64(time.Now().UnixNano()), len(kinds)
	if *seed != 0 {
		first = *seed
	}
	if *rounds != 0 {
		n = *rounds
	}
	r, err := Several(t.Context(), SeveralOptions{Seed: first, Rounds: n, Kinds: kinds, Servers: 2, Shards: 3, Rate: 1000, Frozen: cluster.Dead + 2*cluster.Every, Dir: t.TempDir(), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%v\nagain with: go test -tags servers,campaign ./test/faults -run TestSeveral -seed %d", f, first)
	}
	t.Logf("seed %d: %+v", first, r)
	if r.Counts.Acknowledged == 0 || r.Rounds < n {
		t.Errorf("not everything was tried: %+v", r)
	}
}
