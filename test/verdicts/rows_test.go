package verdicts

import (
	"fmt"
	"strings"
	"testing"

	"tailscope/internal/judge"
)

// An operation that a slower one replaces is a mix that moved. It is not compared with the
// one that came in its place, neither of the service nor of any of its tenants.
func TestReplacedOperation(t *testing.T) {
	for _, perSecond := range []float64{3, 10} {
		t.Run(fmt.Sprint("rate=", perSecond), func(t *testing.T) {
			trials(t, 1, func(w *world) (bool, string) {
				first := crowd("shop", perSecond)
				r, v := w.played(first, with(first, func(l *load) {
					if l.operation == "GET /cart" {
						l.operation, l.median = "GET /report", 0.4
					}
				}))
				mix := warning(r.Warnings, "mix")
				named := strings.Contains(mix, "GET /cart") || strings.Contains(mix, "GET /report")
				return !judge.Moved(r.Verdict) && !judge.Moved(v.Verdict) && named, all(r.Sentence, "|", v.Sentence, "|", mix)
			})
		})
	}
}
