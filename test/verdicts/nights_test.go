package verdicts

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// Five nights against the five before them, each with a level of its own: without a change
// there is none, and of the five after those, in which everything takes 1.3 times as long,
// it is said, by the command line too. Of two nights too little is known.
func TestNightsAgainstNights(t *testing.T) {
	const night, nights = 20 * time.Minute, 5
	trials(t, 0.95, func(w *world) (bool, string) {
		for i := range 3 * nights {
			level := math.Exp(0.03 * w.rng.NormFloat64())
			if i >= 2*nights {
				level *= 1.3
			}
			w.send(night, with(crowd("shop", 3), slow("", "", level))...)
			w.advance(24*time.Hour - night)
		}
		day := func(n int) int64 { return epoch.Add(time.Duration(24*n)*time.Hour - time.Hour).Unix() }
		side := func(count, before int) string {
			return fmt.Sprintf("daily 10:00-10:20 last %d before %d", count, day(before))
		}
		ask := func(a, b string) *api.CompareResponse {
			r, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: ofService("shop"), A: a, B: b})
			if err != nil {
				w.t.Fatal(err)
			}
			if len(r.A.Windows) == 0 || r.A.Requests == 0 || r.B.Requests == 0 {
				w.t.Fatalf("sides %+v and %+v", r.A, r.B)
			}
			return r
		}
		same, slower, few := ask(side(5, 5), side(5, 10)), ask(side(5, 10), fmt.Sprintf("daily 10:00-10:20 first 5 after %d", day(10))), ask(side(5, 10), side(2, 15))
		code, output := w.tailscope("compare", "--service", "shop", "--a", side(5, 10), "--b", "daily 10:00-10:20 last 5")
		return !judge.Moved(same.Verdict) && slower.Verdict == judge.Regression && few.Verdict == judge.TooLittle && code == 1,
			all(same.Sentence, "|", slower.Sentence, "|", few.Sentence, "|", code, strings.SplitN(output, "\n", 2)[0])
	})
}
