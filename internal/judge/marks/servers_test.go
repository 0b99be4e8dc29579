package marks

import (
	"context"
	"testing"

	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Of two servers on one store one judges; the other answers what that found, and goes on
// from there when the work comes to it.
func TestTwoServersOfOneStore(t *testing.T) {
	const moment = 1000
	st := storetest.NewTwin()
	send(t, st, 1, 2000, moment, operation{service: "shop", name: "GET /orders", median: 0.1, ratio: 0.6})
	a, b, holder := newWorld(t, st), newWorld(t, st), "a"
	for name, w := range map[string]*world{"a": a, "b": b} {
		w.judge.o.Once = func(ctx context.Context, do func(context.Context) error) (bool, error) {
			if holder != name {
				return false, nil
			}
			return true, do(ctx)
		}
	}
	m := mark("index", moment+3, "shop")
	a.put(m)
	b.put(m)
	a.round(moment + 20 + 200 + ripe)
	b.round(moment + 20 + 200 + ripe)
	if v, judged := b.judge.Brief(m), b.judge.Stats().Early; v.State != Early || v.Verdict != judge.Improvement || judged != 0 {
		t.Errorf("the other server judged %d marks itself and says %+v", judged, v)
	}
	holder = "b"
	b.round(moment + 20 + 3600 + ripe)
	a.round(moment + 20 + 3600 + ripe)
	for name, w := range map[string]*world{"a": a, "b": b} {
		if v := w.full(m); v.State != Final || v.Verdict != judge.Improvement {
			t.Errorf("%s says in the end %+v", name, v)
		}
	}
	if a, b := a.judge.Stats(), b.judge.Stats(); a.Final != 0 || b.Final != 1 {
		t.Errorf("final verdicts made: %d by the first, %d by the second, want 0 and 1", a.Final, b.Final)
	}
	if err := store.DeleteMark(t.Context(), st, m.ID); err != nil {
		t.Fatal(err)
	}
	b.round(moment + 20 + 3610 + ripe)
	a.round(moment + 20 + 3610 + ripe)
	if v := a.judge.Brief(m); v.State != Waiting {
		t.Errorf("of a mark that is gone the other server says %+v", v)
	}
}
