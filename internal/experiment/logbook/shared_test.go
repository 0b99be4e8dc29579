package logbook

import (
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store/storetest"
)

// Two servers share a store: what reports to one is changed by the other, and neither
// replaces what the other has written.
func TestServersShareALogBook(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	a, b := New(Options{Store: st, Now: c.read}), New(Options{Store: st, Now: c.read})
	if _, err := b.List(ctx, ListRequest{End: c.now}); err != nil { // b has read when there was nothing
		t.Fatal(err)
	}
	tell := func(r *Registry) *api.MirrorChange {
		t.Helper()
		c.forward(time.Second)
		reply, err := r.Report(ctx, "a1", report(epoch))
		if err != nil {
			t.Fatal(err)
		}
		return reply.Change
	}
	tell(a)
	if x, err := b.Get(ctx, "a1"); err != nil || x.State != Running {
		t.Fatalf("at the other server %+v, %v", x, err)
	}
	share, paused := api.Float(0.25), true
	if _, err := b.Change(ctx, "a1", api.MirrorChange{Share: &share}); err != nil {
		t.Fatal(err)
	}
	got, err := a.Change(ctx, "a1", api.MirrorChange{Paused: &paused})
	if err != nil || got.Number != 2 || got.Share == nil || *got.Share != share || got.Paused == nil {
		t.Fatalf("a change after one at the other server is %+v, %v; want both, under number 2", got, err)
	}
	share = 0.5
	if _, err := b.Change(ctx, "a1", api.MirrorChange{Share: &share}); err != nil {
		t.Fatal(err)
	}
	var told *api.MirrorChange
	for range 11 { // until it is written the next time
		told = tell(a)
	}
	if told == nil || told.Number != 3 || *told.Share != 0.5 || told.Paused == nil {
		t.Errorf("the session is told %+v, want the change at the other server", told)
	}
	fails(t, "forget it at the other server", b.Forget(ctx, "a1"), query.CodeInvalid, "id")
	c.forward(20 * time.Second)
	if x, err := b.Get(ctx, "a1"); err != nil || x.State != Lost || x.Change == nil || x.Change.Number != 3 {
		t.Errorf("after a silence %+v, %v", x, err)
	}
	// It reports to the other server from now on, and ends there.
	tell(b)
	last := report(epoch)
	last.Ended = true
	if _, err := b.Report(ctx, "a1", last); err != nil {
		t.Fatal(err)
	}
	if x, err := a.Get(ctx, "a1"); err != nil || x.State != Ended {
		t.Errorf("at the first server %+v, %v; want its end", x, err)
	}
	if err := a.Forget(ctx, "a1"); err != nil {
		t.Fatal(err)
	}
	if _, err := st.GetRecord(ctx, recordKind, "a1"); err == nil {
		t.Error("it is still kept")
	}
}
