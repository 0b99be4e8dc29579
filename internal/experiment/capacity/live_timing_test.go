package capacity

import (
	"math"
	"testing"

	"tailscope/internal/experiment/mirror/pair"
)

// Of a session's answers those of the candidate are listened to, once a search is on.
func TestAnswerTimings(t *testing.T) {
	answer := func(queue string) []pair.Field {
		return []pair.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "server-timing", Value: "db;dur=3, queue;dur=" + queue}}
	}
	report := &AnswerTimings{}
	report.Record(1, answer("900"))
	q := report.listenTo(1)
	report.Record(1, answer("20"))
	report.Record(0, answer("700"))
	report.Record(1, answer("40"))
	report.Record(1, nil)
	m := &measured{}
	m.addTimings(q)
	if m.answers != 2 || math.Abs(m.queued-0.06) > 1e-9 || m.by == nil || m.by.String() != "Server-Timing;queue" {
		t.Errorf("%d answers told of %v s by %v", m.answers, m.queued, m.by)
	}
	m.addTimings(nil)
	if m.answers != 2 {
		t.Error("nobody told of more")
	}
}
