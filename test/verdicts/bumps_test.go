package verdicts

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

// cached is an operation of which a share of the requests misses a cache.
func cached(misses float64) []load {
	hit := load{service: "shop", operation: "GET /cart", perSecond: 10 * (1 - misses), median: 0.005}
	miss := hit
	miss.perSecond, miss.median = 10*misses, 0.3
	return []load{hit, miss}
}

// A median that lies between hits and misses of a cache is said to do so, with their shares,
// and another figure is the headline. One that surely went from one to the other is told by
// its ratio.
func TestMedianBetweenTwoBumps(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after float64
		verdicts      []judge.Verdict
	}{
		{"more misses", 0.46, 0.54, []judge.Verdict{judge.Regression}},
		{"no more misses", 0.5, 0.5, []judge.Verdict{judge.NoEvidence, judge.Same}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				r, v := w.played(cached(c.before), cached(c.after))
				p50 := r.Measures[slices.IndexFunc(r.Measures, func(m api.CompareMeasure) bool { return m.Name == "p50" })]
				if c.before != c.after {
					return slices.Contains(c.verdicts, r.Verdict) && p50.Between == nil && strings.HasPrefix(r.Sentence, "p50 of shop is ") && strings.Contains(r.Sentence, " times as slow"), all(r.Verdict, r.Sentence)
				}
				near := func(got api.Float, want float64) bool { return math.Abs(float64(got)-want) < 0.02 }
				right := slices.Contains(c.verdicts, r.Verdict) && p50.Between != nil && near(p50.Between.A, c.before) && near(p50.Between.B, c.after) &&
					strings.Contains(p50.Sentence, " jumps between about ") && !strings.HasPrefix(r.Sentence, "P50") && !strings.HasPrefix(v.Sentence, "P50")
				return right, all(r.Verdict, r.Sentence, "|", v.Sentence, "|", p50.Sentence)
			})
		})
	}
}
