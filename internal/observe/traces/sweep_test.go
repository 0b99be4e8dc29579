package traces

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/series"
)

// The Assembler's own sweeps close traces and hand over, ten seconds after the
// root came and five later at most.
func TestSweepsOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink()
		a, err := New(Options{Sink: s})
		if err != nil {
			t.Fatal(err)
		}
		a.Add(script(t, a, 1, checkout))
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if st := a.Stats(); st.Closed != 0 {
			t.Errorf("after 9.5 s: %+v", st)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if st := a.Stats(); st.Closed != 1 {
			t.Errorf("after 10.5 s: %+v", st)
		}
		if got := s.count(""); got != 0 {
			t.Errorf("%d observations before the cut, want none", got)
		}
		s.cut(context.Background())
		if got := s.count("self"); got != 5 {
			t.Errorf("%d observations, want 5", got)
		}
		if got := s.count(series.BreakdownRequests); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// Closing hands over what is open, once the sink takes it.
func TestCloseHandsOver(t *testing.T) {
	s := newSink()
	a, err := New(Options{Sink: s, Now: (&clock{t: epoch0}).now})
	if err != nil {
		t.Fatal(err)
	}
	a.Add(script(t, a, 1, checkout))
	s.fail = 1
	if err := a.Close(context.Background()); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want what the sink said", err)
	}
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if got := s.count(series.BreakdownRequests); got != 2 {
		t.Errorf("%d requests, want 2", got)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("an assembler without a sink")
	}
}

// A steady state makes no garbage: nothing is allocated per span.
func TestNoGarbage(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	c := &clock{t: epoch0}
	a, err := New(Options{Sink: nothing{}, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(context.Background())
	names := someNames(a)
	const traces, spans = 200, 10
	var all [][]Span
	for i := range uint64(traces) {
		all = append(all, fill(names, i, spans, true))
	}
	turn := byte(0)
	work := func() {
		turn++
		for _, x := range all {
			for i := range x {
				x[i].TraceID[1] = turn
			}
			a.Add(x)
		}
		c.advance(11 * time.Second)
		a.tick(t, c)
	}
	for range 20 {
		work()
	}
	// A few for the sweep and its batches, none for the 2,000 spans.
	if got := testing.AllocsPerRun(50, work); got > 60 {
		t.Errorf("%.0f allocations for %d spans", got, traces*spans)
	}
}
