package shadow

import (
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/experiment/mirror/mirrortest"
	"tailscope/internal/experiment/mirror/pair"
)

// Answers that do not end are read at a pace, and end in time even if there is
// always something to read.
func TestEndlessAnswersArePaced(t *testing.T) {
	const copies, timeout = 4, 300 * time.Millisecond
	s := mirrortest.Start(t, mirrortest.Endless())
	l := testSender(t, func(o *Options) { o.AnswerLimit, o.Timeout = 1<<50, timeout }, s)
	var enders []*ender
	begun := time.Now()
	for range copies {
		enders = append(enders, offer(l, get("/"), 1))
	}
	read := int64(0)
	for _, e := range enders {
		leg := e.wait(t)[0]
		if leg.Cause != pair.TimedOut && leg.Cause != pair.Expired {
			t.Errorf("ended with %s", legText(leg))
		}
		read += leg.Bytes
	}
	took := time.Since(begun)
	if most := copies*int64(freeBytes+readBytes) + int64(took.Seconds()*paceBytes); read > most {
		t.Errorf("%d MB in %v, want at most %d MB", read>>20, took, most>>20)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := int64(1e18)
		l := &Sender{}
		l.o.Now = func() int64 { return now }
		step := int(paceStep * paceBytes / int64(time.Second))
		before := time.Now()
		for range 100 { // as fast as it may be
			l.pace(step)
			now += paceStep
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("waited for %v", took)
		}
		if ahead := l.paced.Load() - now; ahead > paceStep {
			t.Errorf("%d ns ahead", ahead)
		}
	})
}
