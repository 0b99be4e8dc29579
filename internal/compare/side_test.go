package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/internal/query/querytest"
)

// The rate of a side is that of the time in which any service has requests; a side that is
// rare, or stops while others go on, was measured all the time.
func TestRateOfTheMeasuredTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int64 // of 3600 s
		every    int64
		others   bool // another operation goes on
		want     float64
		gaps     bool
	}{
		{"all the time", 0, 3600, 10, false, 0.6, false},
		{"the data begin", 3400, 3600, 10, false, 0.6, true},
		{"the data end", 0, 1800, 10, false, 0.6, true},
		{"rare", 300, 3600, 60, false, 6 * 55. / 3600, false},
		{"the data begin, and are rare", 1800, 3600, 60, false, 6 * 30. / 1800, true},
		{"begins while others go on", 3000, 3600, 10, true, 0.1, true},
		{"stops while others go on", 0, 1800, 10, true, 0.3, true},
		{"rare among others", 300, 3600, 60, true, 6 * 55. / 3600, false},
	} {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(17, 1))
		for slot := epoch; slot < epoch+2*3600; slot += 10 {
			if in := slot - epoch; in >= 3600 || c.from <= in && in < c.to && (in-c.from)%c.every == 0 {
				send(w, rng, slot, slot+10, load{operation: "GET /cart", perSlot: 6, median: 0.1})
			}
			if c.others {
				send(w, rng, slot, slot+10, load{operation: "GET /search", perSlot: 1, median: 0.1})
			}
		}
		r := compared(t, stored(t, w), Request{Selection: selection("service", "shop", "operation", "GET /cart"), A: window(0, 3600), B: window(3600, 2*3600)})
		if got := float64(r.A.Rate); math.Abs(got-c.want) > 1e-9 || warned(r, "gaps") != c.gaps {
			t.Errorf("%s: %v/s, want %v; %v", c.name, got, c.want, r.Warnings)
		}
	}
}
