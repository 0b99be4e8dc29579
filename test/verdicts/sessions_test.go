package verdicts

import (
	"fmt"
	"testing"
	"time"

	"tailscope/internal/judge"
)

// visits are twelve tenants that are always there, and of sixty others ten at a time, each for
// a session of ten minutes. A visitor has one operation, and
// its own duration; slower is a factor of all durations.
func (w *world) visits(length time.Duration, slower float64) {
	w.t.Helper()
	for ; length > 0; length -= 10 * time.Minute {
		l := crowd("shop", 1.5)
		for range 10 {
			k := w.rng.IntN(60)
			l = append(l, load{service: "shop", operation: operations[k%4], tenant: fmt.Sprint("visitor-", k), perSecond: 0.05, median: 0.05 * float64(1+k%5)})
		}
		w.send(10*time.Minute, with(l, slow("", "", slower))...)
	}
}

// Tenants that come for sessions do not change a service: who is there is drawn anew every
// ten minutes.
func TestNothingChangedInSessions(t *testing.T) {
	worlds(t, 4, 0.75, func(w *world) (bool, string) {
		w.visits(80*time.Minute, 1)
		w.advance(time.Minute)
		r := w.compare("shop", window{0, 40 * time.Minute}, window{40 * time.Minute, 80 * time.Minute})
		return !judge.Moved(r.Verdict), r.Sentence
	})
}

// What makes everything slower is found beside such sessions.
func TestSlowerInSessions(t *testing.T) {
	trials(t, 1, func(w *world) (bool, string) {
		w.visits(40*time.Minute, 1)
		w.visits(40*time.Minute, 1.25)
		w.advance(time.Minute)
		r := w.compare("shop", window{0, 40 * time.Minute}, window{40 * time.Minute, 80 * time.Minute})
		return r.Verdict == judge.Regression, r.Sentence
	})
}
