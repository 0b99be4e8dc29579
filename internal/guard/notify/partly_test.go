package notify

import (
	"testing"
	"testing/synctest"

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
