//go:build servers

package faults

import (
	"testing"
	"time"

	"tailscope/internal/cluster"
)

// TestSeveral does each thing once to two servers on three shards.
func TestSeveral(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), 8
	if *seed != 0 {
		first = *seed
	}
	if *rounds != 0 {
		n = *rounds
	}
	r, err := Several(t.Context(), SeveralOptions{Seed: first, Rounds: n, Servers: 2, Shards: 3, Rate: 1000, Frozen: cluster.Dead + 2*cluster.Every, Dir: t.TempDir(), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%v\nagain with: go test -tags servers ./test/faults -run TestSeveral -seed %d", f, first)
	}
	t.Logf("seed %d: %+v", first, r)
	if r.Counts.Acknowledged == 0 || r.Rounds < n {
		t.Errorf("not everything was tried: %+v", r)
	}
}
