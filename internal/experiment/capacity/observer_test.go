package capacity

import (
	"testing"
	"time"

	"tailscope/internal/experiment/bench/load"
)

func TestObserverKnowsWhatIsUnderWay(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	p := newObserver(2, func(_, status int) bool { return status < 400 })
	a, b := p.Recorder(0, 2).(*loopObserver), p.Recorder(1, 2).(*loopObserver)
	end := func(l *loopObserver, step, query, due, sent, at, status int, cause load.Cause) {
		l.Observe(&load.Observation{Phase: step, Query: query, Due: ms(due), Sent: ms(sent), End: ms(at), Status: status, Cause: cause, Check: -1})
	}
	for _, due := range []int{0, 10, 20} {
		a.Begin(0, 0, ms(due), ms(due))
	}
	b.Begin(1, 0, ms(15), ms(18))
	end(a, 0, 0, 10, 10, 30, 200, load.Answered)
	end(b, 0, 1, 15, 18, 40, 500, load.Answered)
	a.Drop(ms(25), 0)
	g := p.takeCounts(ms(100))[0]
	if g.begun != 4 || g.ended != 2 || g.errors != 1 || g.dropped != 1 || g.waited != ms(3) || g.last != ms(20) {
		t.Errorf("%+v", g.stepCounts)
	}
	if g.under[0] != 2 || g.under[1] != 0 || g.oldest[0] < ms(95) || g.oldest[0] > ms(100) {
		t.Errorf("%v under way, %v old", g.under, g.oldest)
	}
	if q := g.queries[1]; q.ended != 1 || q.errors != 1 || q.latency.Count != 1 || q.latency.Max != 0.025 {
		t.Errorf("the other query: %+v", q)
	}
	// The next step begins while requests of the first are under way.
	a.Begin(0, 1, ms(110), ms(110))
	end(a, 0, 0, 0, 0, 120, 0, load.Timeout)
	both := p.takeCounts(ms(130))
	if g := both[0]; g.ended != 1 || g.errors != 1 || g.begun != 0 || g.under[0] != 1 {
		t.Errorf("of the first step %+v, %v under way", g.stepCounts, g.under)
	}
	if g := both[1]; g.begun != 1 || g.ended != 0 || g.under[0] != 1 {
		t.Errorf("of the second step %+v", g.stepCounts)
	}
	end(a, 0, 0, 20, 20, 140, 0, load.CutOff)
	both = p.takeCounts(ms(150))
	if g := both[0]; g.ended != 0 || g.under[0] != 0 || g.queries[0].cut != 1 {
		t.Errorf("what is cut off: %+v", g.stepCounts)
	}
	if len(a.of) != 1 || a.of[0].step != 1 {
		t.Errorf("%d steps are kept of which nothing is left", len(a.of)-1)
	}
}
