package check

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Everything breaks at once, and is well again: each of it is told once, the
// store is written once a second, and nothing piles up.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		var b strings.Builder
		b.WriteString("receivers:\n  log: {file: {path: events.log}}\nchecks:\n")
		for i := range n {
			fmt.Fprintf(&b, "  c%d: {every: 10s, value: {tcp: {address: \"all:80\"}}, threshold: {must: \"<\", of: 1, critical: 0}, receivers: [log]}\n", i)
		}
		w := newWorld(t, b.String())
		w.probe.set("all:80", 0.5)
		time.Sleep(20 * time.Second)
		w.probe.set("all:80", 2)
		time.Sleep(45 * time.Second)
		w.probe.set("all:80", 0.5)
		time.Sleep(16 * time.Second)
		s := w.Stats()
		if s.ByState["OK"] != n || s.Incidents != n || s.EventsSent != 2*n || s.EventsHeld != 0 || s.PersistErrors != 0 {
			t.Errorf("%+v", s)
		}
		if s.Runs < 7*n || s.Skipped > 0 || s.Refused > 0 || s.LagSeconds > 0.1 {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		if len(w.owed)+len(w.dirty)+len(w.records) > 0 || len(w.Engine.open) > 0 {
			t.Errorf("left: %d events, %d conditions, %d records, %d open", len(w.owed), len(w.dirty), len(w.records), len(w.Engine.open))
		}
		w.mu.Unlock()
		seen := map[string]int{}
		for _, v := range w.notes.events {
			seen[fmt.Sprint(v.Incident, " ", v.Kind)]++
		}
		if len(seen) != 2*n {
			t.Errorf("%d different events, want %d", len(seen), 2*n)
		}
		w.stop()
	})
}
