package httpapi

import (
	"testing"

	"tailscope/internal/observe/traces"
)

// A request shows the time in a queue that the breakdown counts, and none that
// it takes for a wrong clock.
func TestTraceQueueIsThatOfTheBreakdown(t *testing.T) {
	const start = int64(1_772_366_400e9)
	for _, tc := range []struct {
		queued int64
		want   float64
	}{
		{0, 0}, {start - 5e6, 0.005}, {start - traces.MaxQueue, 3600}, {start - traces.MaxQueue - 1, 0}, {start, 0}, {start + 5e6, 0},
	} {
		tr := &traces.Trace{Complete: true, Spans: []traces.TraceSpan{{Start: start, End: start + 1e9, Queued: tc.queued, Weight: 1,
			Identity: traces.Identity{Service: "shop", Kind: "server"}}}}
		tr.Spans[0].ID[0] = 1
		got := traceResponse(tr, traces.Analyse(tr))
		if len(got.Spans) != 1 || float64(got.Spans[0].Queue) != tc.want {
			t.Errorf("queued %d ns before: got %+v, want %v s", start-tc.queued, got.Spans, tc.want)
		}
	}
}
