// Package trials sizes simulations in tests, and draws what several of them draw.
package trials

import (
	"math/rand/v2"
	"os"
	"strconv"
)

// Of returns the number of trials of a simulation: few, unless TAILSCOPE_TRIALS asks for
// another.
func Of(few int) int {
	if n, err := strconv.Atoi(os.Getenv("TAILSCOPE_TRIALS")); err == nil && n > 0 {
		return n
	}
	return few
}

// First returns the seed of a simulation's first trial: 0, unless TAILSCOPE_SEED asks for
// another, so that constants can be tried on trials that they were not chosen on.
func First() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("TAILSCOPE_SEED"), 10, 64)
	return n
}

// Poisson returns a Poisson number, by counting arrivals.
func Poisson(r *rand.Rand, mean float64) (n int) {
	for left := r.ExpFloat64(); left < mean; left += r.ExpFloat64() {
		n++
	}
	return n
}
