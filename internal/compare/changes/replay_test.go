package changes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/trials"
)

// What happens to a service with few requests is listed within minutes, and stays listed: who
// looks once a minute, while it lasts and when it is over, sees it in each look after the first.
func TestFewRequestsAreListedSoon(t *testing.T) {
	trials := trials.Of(1)
	const slots, at, minutes = 6 * 360, 4 * 360, 20
	for _, c := range []struct {
		rate         float64 // requests a second
		what         string
		failed, slow func(int) float64
		soon         int // minutes
	}{
		{1, Errors, from(at, 0.01, 0.1), nil, 5},
		{0.2, Errors, from(at, 0, 1), nil, 2},
		{0.2, Errors, during(at, at+60, 0, 1), nil, 2},
		{0.05, Errors, from(at, 0.01, 0.5), nil, 8},
		{0.2, Durations, always(0.01), from(at, 1, 5), 3},
	} {
		t.Run(fmt.Sprintf("%s at %v/s", c.what, c.rate), func(t *testing.T) {
			for i := range trials {
				finder := NewFinder(flow(t, rand.New(rand.NewPCG(71, uint64(i))), slots, series.Base, 0.5, traffic{"shop", "GET /cart", always(10 * c.rate), c.failed, c.slow}))
				first, vanished := 0, 0
				for minute := 1; minute <= minutes; minute++ {
					now := int64(10*at + 60*minute)
					r := asked(now-6*3600, now)
					r.Now = moment(now)
					listed := slices.ContainsFunc(found(t, finder, r).Changes, func(x api.Change) bool {
						return slices.Contains(x.Found, c.what) && x.High >= api.Float(epoch+10*at-60) && x.Low <= api.Float(epoch+10*at+60)
					})
					switch {
					case listed && first == 0:
						first = minute
					case !listed && first > 0:
						vanished++
					}
				}
				if first == 0 || first > c.soon || vanished > 0 {
					t.Errorf("trial %d: listed after %d min, want %d at most, and not in %d looks after it", i, first, c.soon, vanished)
				}
			}
		})
	}
}
