package capacity

import (
	"sync/atomic"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/mirror/pair"
)

// AnswerTimings reads the queueing times in answers to copies. Record is the
// mirror.Options.OnHeader of the session that a search will use. The zero value is
// ready, and records nothing before the search begins.
type AnswerTimings struct {
	shadow atomic.Int64 // plus 1; 0: none
	q      queueing
}

// listenTo records the answers of one shadow.
func (t *AnswerTimings) listenTo(shadow int) *queueing {
	t.q.timings = usualTimings
	t.shadow.Store(int64(shadow) + 1)
	return &t.q
}

// Record reads the header of an answer of a shadow.
func (t *AnswerTimings) Record(shadow int, fields []pair.Field) {
	if t.shadow.Load() != int64(shadow)+1 || !t.q.listens() {
		return
	}
	header := make([]load.Field, len(fields))
	for i, f := range fields {
		header[i] = load.Field{Name: f.Name, Value: f.Value}
	}
	t.q.record(header)
}
