package pair

import "sync/atomic"

// Budget bounds the bytes that are held for one shadow. It is safe for concurrent use
// and never exceeds its bound.
type Budget struct {
	held  atomic.Int64
	bound int64
}

// NewBudget returns a Budget of bound bytes.
func NewBudget(bound int64) *Budget { return &Budget{bound: bound} }

// Reserve takes n bytes if the bound allows it, and reports whether it did.
func (r *Budget) Reserve(n int64) bool {
	for {
		held := r.held.Load()
		if held+n > r.bound {
			return false
		}
		if r.held.CompareAndSwap(held, held+n) {
			return true
		}
	}
}

// Release gives back n reserved bytes.
func (r *Budget) Release(n int64) { r.held.Add(-n) }

// Held returns the reserved bytes, Bound their limit.
func (r *Budget) Held() int64  { return r.held.Load() }
func (r *Budget) Bound() int64 { return r.bound }
