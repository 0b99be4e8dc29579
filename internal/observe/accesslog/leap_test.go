package accesslog

import (
	"testing"
	"time"
)

// Lines of the right time that are read while the clock has leapt ahead are used.
func TestLinesInAClockLeap(t *testing.T) {
	const leap = 500 * 24 * time.Hour
	w := newWorld(t, t.TempDir())
	w.append(w.path, 1)
	w.start()
	w.round()
	var ahead time.Duration
	in := New(Options{Sink: w.l, Traces: w.l, State: w.st,
		Now: func() time.Time { return noon.Add(ahead) }, Leapt: func() time.Duration { return ahead }})
	w.f.closeFiles()
	w.f = newFollower(FollowOptions{Ingester: in, Watches: []Watch{w.watch}, Now: func() time.Time { return w.now }})
	if err := w.f.openNewFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ahead = range []time.Duration{leap, 0} {
		w.append(w.path, 5)
		w.rounds(3)
	}
	w.counted(1)
	if st := in.Stats(); st.Accepted != 10 {
		t.Errorf("%+v", st)
	}
}
