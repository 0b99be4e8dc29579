package verdicts

import (
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// What became worse and stays so is not told as over; once it is mended that is told within a
// minute, with the time from its beginning to its end, to who asks for what is known as well.
func TestWhatIsMendedIsOver(t *testing.T) {
	good := crowd("shop", 30)
	for _, c := range []struct {
		name string
		bad  func(*load)
	}{
		{"one operation slow", slow("GET /cart", "", 6)},
		{"errors", func(l *load) { l.failed = 0.08 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials(t, 0.95, func(w *world) (bool, string) {
				w.noise = noise{keeps: 0.5, deviation: 0.05}
				w.send(40*time.Minute, good...)
				began := w.clock()
				ask := func(known bool) (lasts, over []api.Change) {
					r, err := w.Changes(w.t.Context(), api.ChangesRequest{Match: `{service="shop"}`, Start: unix(epoch), End: unix(w.clock()), Known: known})
					if err != nil {
						w.t.Fatal(err)
					}
					for _, x := range r.Changes {
						switch {
						case x.Under != "" || x.Verdict != judge.Regression && x.Verdict != judge.Mixed:
						case x.Ended > 0:
							over = append(over, x)
						default:
							lasts = append(lasts, x)
						}
					}
					return lasts, over
				}
				for range 6 {
					w.sendEvery(time.Minute, 10*time.Second, with(good, c.bad)...)
					if _, over := ask(false); len(over) > 0 {
						return false, "over while it lasts: " + over[0].Sentence
					}
				}
				lasts, _ := ask(false)
				mended := w.clock()
				w.sendEvery(time.Minute, 10*time.Second, good...)
				still, over := ask(true)
				if len(lasts) == 0 || len(over) == 0 {
					return false, all(len(lasts), "lasted", len(still), "still last", len(over), "over")
				}
				x := over[0]
				near := func(at float64, of time.Time) bool { return math.Abs(at-float64(of.Unix())) <= 30 }
				w.sendEvery(time.Minute, 10*time.Second, good...) // a search anew may be led by an operation, which has fewer requests
				_, output := w.tailscope("changes", "list", "--service", "shop", "--since", "2h")
				return near(float64(x.Time), began) && near(float64(x.Ended), mended) && strings.HasSuffix(x.Sentence, " UTC, normal again since") && len(still) == 0 &&
					!strings.Contains(x.Headline, " is ") && strings.Contains(output, "normal again since"), all(x.Sentence, "|", output)
			})
		})
	}
}
