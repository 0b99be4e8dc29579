package pair

import "sync/atomic"

// Room is a bound on the bytes that are held for one shadow. It is safe for
// concurrent use and is never above its bound, not for a moment.
type Room struct {
	held  atomic.Int64
	bound int64
}

// NewRoom returns a Room for so many bytes.
func NewRoom(bound int64) *Room { return &Room{bound: bound} }

// Take asks for n bytes, and says whether there was room for them.
func (r *Room) Take(n int64) bool {
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

// Give gives n bytes back that were taken.
func (r *Room) Give(n int64) { r.held.Add(-n) }

// Held is how many bytes are taken now, and Bound how many may be.
func (r *Room) Held() int64  { return r.held.Load() }
func (r *Room) Bound() int64 { return r.bound }
