package capacity

import (
	"math"
	"testing"

	"tailscope/internal/experiment/mirror/pair"
)

// Of a session's answers those of the candidate are listened to, once a search is on.
func TestTold(t *testing.T) {
	answer := func(queue string) []pair.Field {
		return []pair.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "server-timing", Value: "db;dur=3, queue;dur=" + queue}}
	}
	told := &Told{}
	told.Hear(1, answer("900"))
	q := told.of(1)
	told.Hear(1, answer("20"))
	told.Hear(0, answer("700"))
	told.Hear(1, answer("40"))
	told.Hear(1, nil)
	m := &measured{}
	m.tell(q)
	if m.answers != 2 || math.Abs(m.told-0.06) > 1e-9 || m.by == nil || m.by.String() != "Server-Timing;queue" {
		t.Errorf("%d answers told of %v s by %v", m.answers, m.told, m.by)
	}
	m.tell(nil)
	if m.answers != 2 {
		t.Error("nobody told of more")
	}
}
