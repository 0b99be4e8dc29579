package faults

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	seed   = flag.Uint64("seed", 0, "seed of the first round; 0 takes the fixed ones and one by the clock")
	rounds = flag.Int("rounds", 0, "how many rounds; 0 is a few")
)

// TestVirtual runs a few rounds with fixed seeds and a few with new ones.
// go test ./test/faults -run TestVirtual -seed N -rounds 1 runs one again.
func TestVirtual(t *testing.T) {
	run := func(seed uint64, rounds int) {
		t.Helper()
		r := Virtual(t.Context(), Options{Seed: seed, Rounds: rounds})
		for _, f := range r.Failures {
			t.Errorf("%v\nagain with: go test ./test/faults -run TestVirtual -seed %d -rounds 1", f, f.Seed)
		}
		t.Logf("seeds %d to %d: %d restarts, %+v", seed, seed+uint64(rounds)-1, r.Restarts, r.Counts)
		if r.Counts.Acknowledged == 0 || r.Restarts < rounds {
			t.Errorf("nothing was tried: %+v", r)
		}
	}
	if *seed != 0 || *rounds != 0 {
		run(*seed, max(*rounds, 1))
		return
	}
	run(1, 10)
	run(uint64(time.Now().UnixNano()), 10)
}

// TestDamage runs rounds with damaged files of every kind. Where the start is
// refused, doctor repairs.
func TestDamage(t *testing.T) {
	o := Options{Seed: 20_000, Rounds: 150, Damage: true}
	if *seed != 0 || *rounds != 0 {
		o.Seed, o.Rounds = *seed, max(*rounds, 1)
	}
	r := Virtual(t.Context(), o)
	for _, f := range r.Failures {
		t.Errorf("%v\nagain with: go test ./test/faults -run TestDamage -seed %d -rounds 1", f, f.Seed)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Damage)) {
		t.Logf("%s: %+v", name, *r.Damage[name])
	}
	for _, kind := range []string{"table", "manifest", "marker", "store's log", "options", "journal", "journal kept"} {
		of := func(name string) bool { return strings.HasPrefix(name, kind+" ") }
		if *rounds == 0 && *seed == 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(r.Damage)), of) {
			t.Errorf("no %s was damaged", kind)
		}
	}
	if len(r.Damage) == 0 {
		t.Error("nothing was damaged")
	}
}
