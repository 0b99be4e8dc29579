package query

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query/querytest"
	"tailscope/internal/store/storetest"
)

// The first slot with spans is told to ten seconds, wherever in the range it is.
func TestFirst(t *testing.T) {
	const epoch = querytest.Epoch
	w := querytest.NewWriter()
	for _, at := range []int64{1230, 1250, 9000} {
		w.Span(epoch+at, labels.FromStrings("service", "shop", "kind", "client", "status", "ok"), 0.01)
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want int64 }{{0, 10_000, 1230}, {1232, 10_000, 1230}, {1800, 9005, 9000}, {0, 1200, -1}, {9600, 10_000, -1}} {
		got, err := First(t.Context(), st, time.Unix(epoch+c.from, 0), time.Unix(epoch+c.to, 0))
		if err != nil || (got == nil) != (c.want < 0) || got != nil && *got != epoch+c.want {
			t.Errorf("from %d to %d: got %v, %v; want %d", c.from, c.to, got, err, c.want)
		}
	}
}
