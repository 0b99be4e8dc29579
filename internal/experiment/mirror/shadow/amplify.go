package shadow

import (
	"math"
	"sync"
	"sync/atomic"
)

// amplify decides how many copies each request gets, so that the first n requests get
// floor(n*factor) together.
type amplify struct {
	bits atomic.Uint64 // of the factor
	mu   sync.Mutex
	part float64 // of a copy that is due, [0, 1)
}

func (a *amplify) factor() float64 { return math.Float64frombits(a.bits.Load()) }

func (a *amplify) set(f float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bits.Store(math.Float64bits(f))
	a.part = 0
}

func (a *amplify) next() int {
	f := a.factor()
	whole := math.Floor(f)
	if whole == f {
		return int(whole)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.part += f - whole
	// Steps like 0.1 do not add up to 1 exactly.
	if a.part >= 1-1e-9 {
		a.part = max(0, a.part-1)
		return int(whole) + 1
	}
	return int(whole)
}
