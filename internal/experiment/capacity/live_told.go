package capacity

import (
	"sync/atomic"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/mirror/pair"
)

// Told listens to what answers to copies say of their time: Hear is for
// mirror.Options.Heard of the session that a search is going to be on. The zero value
// is ready, and hears nothing before the search begins.
type Told struct {
	shadow atomic.Int64 // plus 1; 0: nobody listens
	q      queueing
}

// of has what one shadow answers be listened to.
func (t *Told) of(shadow int) *queueing {
	t.q.timings = usualTimings
	t.shadow.Store(int64(shadow) + 1)
	return &t.q
}

// Hear takes an answer's.
func (t *Told) Hear(shadow int, fields []pair.Field) {
	if t.shadow.Load() != int64(shadow)+1 || !t.q.listens() {
		return
	}
	header := make([]load.Field, len(fields))
	for i, f := range fields {
		header[i] = load.Field{Name: f.Name, Value: f.Value}
	}
	t.q.hear(header)
}
