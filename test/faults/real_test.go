//go:build servers

package faults

import (
	"testing"
	"time"
)

// TestReal runs a few rounds with the program itself.
func TestReal(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), 10
	if *seed != 0 {
		first = *seed
	}
	if *rounds != 0 {
		n = *rounds
	}
	r, err := Real(t.Context(), RealOptions{Seed: first, Rounds: n, Dir: t.TempDir(), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%v\nagain with: go test -tags servers ./test/faults -run TestReal -seed %d", f, first)
	}
	t.Logf("seed %d: %d restarts, %+v, %v", first, r.Restarts, r.Counts, r.Met)
	if r.Counts.Acknowledged == 0 || r.Restarts < n {
		t.Errorf("nothing was tried: %+v", r)
	}
}
