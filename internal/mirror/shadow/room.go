package shadow

import "sync/atomic"

// room is a bound on the bytes that are held for one lane.
type room struct {
	held  atomic.Int64
	bound int64
}

// take asks for n bytes, and says whether there was room for them.
func (r *room) take(n int64) bool {
	if r.held.Add(n) > r.bound {
		r.held.Add(-n)
		return false
	}
	return true
}

func (r *room) give(n int64) { r.held.Add(-n) }
