//go:build !race

package pair

import (
	"runtime/debug"
	"testing"
)

// Under -race pools forget on purpose, so the test is skipped.
func TestNoAllocation(t *testing.T) {
	b, _, c := testLedger(t, Options{})
	copies := []uint8{1, 1}
	exchange(b, copies, c.nanos)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pool
	n := testing.AllocsPerRun(1000, func() {
		exchange(b, copies, c.nanos)
		b.Skip(Names{"GET /cart/{id}", "acme"}, Share).EndPrimary(answer(c, 200, 1))
	})
	if n != 0 {
		t.Errorf("%v allocations an exchange, want none", n)
	}
}
