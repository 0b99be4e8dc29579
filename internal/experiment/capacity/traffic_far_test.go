package capacity

import (
	"testing"
	"time"

	"tailscope/api"
	"tailscope/hist"
)

// Sights of a session elsewhere are counted by operation. Operations that are not
// counted apart have no name, and all add up to the total.
func TestBetween(t *testing.T) {
	times := func(seconds ...float64) []byte {
		h := hist.New(hist.DefaultSchema)
		for _, s := range seconds {
			if err := h.Record(s); err != nil {
				t.Fatal(err)
			}
		}
		b, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := api.MirrorSight{Ended: 2, Latency: times(1, 1), Operations: map[string]api.MirrorSight{"GET /cart": {Ended: 1, Latency: times(1)}}}
	now := api.MirrorSight{
		Begun: 6, Ended: 5, Errors: 1, Lost: 1, UnderWay: 4, Waiting: 2, Oldest: 0.5, Latency: times(1, 1, 0.1, 0.2, 0.3), Failed: times(2),
		Operations: map[string]api.MirrorSight{
			"GET /cart":  {Begun: 2, Ended: 3, Errors: 1, UnderWay: 3, Waiting: 2, Oldest: 0.2, Latency: times(1, 0.1, 0.2), Failed: times(2)},
			"GET /never": {},
		},
	}
	got, err := between(&before, &now)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ ended, errors, latencies, failed, under uint64 }{
		"GET /cart": {2, 1, 2, 1, 3}, "GET /never": {}, "": {1, 0, 1, 0, 1},
	} {
		s, u := got.Seen[name], got.Under[name]
		if s == nil || s.Ended != want.ended || s.Errors != want.errors || s.Latency.Count != want.latencies || s.Failed.Count != want.failed || u.N != want.under {
			t.Errorf("%q: %+v, under way %+v, want %+v", name, s, u, want)
		}
	}
	all, under := got.All(), got.AllUnder()
	if all.Begun != 6 || all.Ended != 3 || all.Errors != 1 || all.Lost != 1 || all.Latency.Count != 3 || under.N != 4 || under.Waits != 2 || under.Oldest != 500*time.Millisecond {
		t.Errorf("all: %+v, under way %+v", all, under)
	}
	// Nothing may have become less.
	if _, err := between(&now, &before); err == nil {
		t.Error("a distribution that shrank")
	}
}
