package notify

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/guard/check/event"
)

// A spool that cannot be written makes events wait and be handed over again:
// those whose spools took them do not get them twice.
func TestOneSpoolFails(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		bad, well := &fake{about_: takesEvents}, &fake{about_: takesEvents}
		b := newBench(t, dir, map[string]*fake{"bad": bad, "well": well})
		defer b.close()
		q := b.n.worker("bad").events
		q.mu.Lock()
		g := q.spool.segments[len(q.spool.segments)-1]
		_ = g.file.Close()
		q.mu.Unlock()
		e := []event.Event{someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)}
		if err := b.n.Events(t.Context(), []string{"bad", "well"}, e); err == nil {
			t.Fatal("it was taken")
		}
		after(0)
		b.same("well", well.numbers(), []int{1})
		e = append(e, someEvent("i", 2, event.Resolved, event.Critical, event.OK, t0))
		if err := b.n.Events(t.Context(), []string{"bad", "well"}, e); err != nil {
			t.Fatal(err)
		}
		after(0)
		b.same("well", well.numbers(), []int{1, 2})
		b.same("bad", bad.numbers(), []int{1, 2})
	})
}

// What a spool took in a turn that is over is dropped, and is handed over again.
func TestTakenInAnEarlierTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, well := &fake{about_: takesEvents}, &fake{about_: takesEvents}
		well.set(always(errors.New("down")))
		b := newBench(t, t.TempDir(), map[string]*fake{"bad": bad, "well": well}, func(o *Options) { o.Shared = true })
		defer b.close()
		e := []event.Event{someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)}
		take := func(turn context.Context) {
			if err := b.n.Take(turn, nil, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		turn, end := context.WithCancel(t.Context())
		take(turn)
		q := b.n.worker("bad").events
		q.mu.Lock()
		_ = q.spool.segments[len(q.spool.segments)-1].file.Close()
		q.mu.Unlock()
		if err := b.n.Events(t.Context(), []string{"bad", "well"}, e); err == nil {
			t.Fatal("it was taken")
		}
		after(0)
		end()
		well.set(nil)
		take(t.Context())
		if err := b.n.Events(t.Context(), []string{"bad", "well"}, e); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		b.same("well", well.numbers(), []int{1})
		b.same("bad", bad.numbers(), []int{1})
	})
}

// A spool that cannot be begun anew does not keep a server from its turn.
func TestTurnOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents}
		b := newBench(t, t.TempDir(), map[string]*fake{"r": f}, func(o *Options) { o.Shared = true })
		defer b.close()
		q := b.n.worker("r").events
		q.mu.Lock()
		next := q.spool.path(q.spool.segments[len(q.spool.segments)-1].id + 1)
		q.mu.Unlock()
		if err := os.Mkdir(next, 0o700); err != nil { // is not a file
			t.Fatal(err)
		}
		if err := b.n.Take(t.Context(), nil, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		b.sendEvents(1, "r")
		after(time.Second)
		b.same("what it could still write", f.numbers(), upTo(1))
		if got := b.log.text(); !strings.Contains(got, "the spool cannot be written") {
			t.Errorf("the log says %q", got)
		}
	})
}
