//go:build servers

package server

import (
	"testing"
	"time"

	"tailscope/test/program"
)

// Two services send to two servers of one store, and where time goes is told as if both had
// sent to one.
func TestTracesOfServersOnClickHouse(t *testing.T) {
	c, err := program.StartClickHouse(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	first, second := testConfig(t.TempDir()), testConfig(t.TempDir())
	first.Store, second.Store = c.Address("tailscope"), c.Address("tailscope")
	a, b := start(t, first), start(t, second)
	both := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not after a minute", what)
			}
		}
	}
	both("each knows the other", func() bool {
		return metric(t, a, "tailscope_forward_servers") == 1 && metric(t, b, "tailscope_forward_servers") == 1
	})
	const n = 40
	shopOn(t, a, b, time.Now().Add(-time.Minute).Truncate(time.Millisecond), n)
	both("all spans are added to traces", func() bool {
		return metric(t, a, "tailscope_trace_spans_total")+metric(t, b, "tailscope_trace_spans_total") == 5*n
	})
	for i, s := range []*Server{a, b} {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sent, dropped := metric(t, s, "tailscope_forward_spans_sent_total"), metric(t, s, "tailscope_forward_spans_dropped_total"); sent == 0 || dropped != 0 {
			t.Errorf("server %d sent %v spans and dropped %v", i, sent, dropped)
		}
		if got := metric(t, s, "tailscope_traces_incomplete_total"); got != 0 {
			t.Errorf("server %d has put together %v traces in part", i, got)
		}
	}
	checkParts(t, a, n)
	checkParts(t, b, n)
}
