package notify

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While the clock has leapt ahead, what waits for a receiver that is down stays,
// and it gets all of it. What is too old without the leap goes.
func TestSpoolsOutliveAClockLeap(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		refused := always(errors.New("connection refused"))
		events, results := &fake{about_: takesEvents, mood: refused}, &fake{about_: takesResults, mood: refused}
		var ahead atomic.Int64
		b := newBench(t, dir, map[string]*fake{"events": events, "results": results}, func(o *Options) {
			o.Leapt = func() time.Duration { return time.Duration(ahead.Load()) }
			o.Now = func() time.Time { return time.Now().Add(o.Leapt()) }
		})
		defer b.close()
		b.results(3, "results")
		after(25 * time.Hour)
		b.seq = 0
		b.sendEvents(5, "events")
		b.seq = 0
		b.results(5, "results")
		after(10 * time.Minute)
		ahead.Store(int64(30 * 24 * time.Hour))
		after(10 * time.Minute)
		events.set(nil)
		results.set(nil)
		after(2 * time.Minute)
		b.same("events", events.numbers(), upTo(5))
		b.same("results", results.numbers(), upTo(5))
		if n := b.n.worker("results").results.dropped["age"]; n != 3 {
			t.Errorf("%d results were too old, want 3", n)
		}
	})
}

// A start while the clock is far ahead keeps the spool of a removed receiver.
func TestOrphansOutliveAClockLeap(t *testing.T) {
	dir := t.TempDir()
	// Files get their times from the real clock.
	now, leap := time.Now(), 60*24*time.Hour
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, dir, map[string]*fake{"dead": {about_: takesEvents, mood: always(errors.New("connection refused"))}})
		b.sendEvents(3, "dead")
		after(time.Second)
		b.close()
		spool := filepath.Join(dir, "r-dead")
		start := func(leapt time.Duration) error {
			newBench(t, dir, nil, func(o *Options) {
				o.Now = func() time.Time { return now.Add(leap) }
				o.Leapt = func() time.Duration { return leapt }
			}).close()
			_, err := os.Stat(spool)
			return err
		}
		if err := start(leap); err != nil {
			t.Errorf("the spool is removed: %v", err)
		}
		if err := start(0); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the spool stays when the clock is right: %v", err)
		}
	})
}
