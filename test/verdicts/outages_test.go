package verdicts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/judge"
)

// Requests that stop, nearly stop, or come in a burst are one change of their own, with its
// start and length, which changes nothing of what is said beside it: a step of 54 % half an
// hour later is found and told as what it is.
func TestOutagesAndBursts(t *testing.T) {
	const before, length, later = 40 * time.Minute, 7 * time.Minute, 40 * time.Minute
	for _, c := range []struct {
		name     string
		left     float64 // share of the requests meanwhile
		long     time.Duration
		lasts    bool
		factor   float64 // of durations, half an hour after
		sentence string
		verdict  api.Verdict
	}{
		{"stop", 0, length, false, 1.54, "no requests of shop for 7 min, then as before, ", judge.Regression},
		{"nearly stop", 0.02, length, false, 1.54, "hardly any requests of shop, ", judge.Regression},
		{"stop and stay away", 0, length, true, 1, "no requests of shop, before ", judge.Regression},
		{"stop for 40 s", 0, 40 * time.Second, false, 1, "no requests of shop for 40 s, then as before, ", judge.Regression},
		{"come five times as often for 30 s", 5, 30 * time.Second, false, 1, "the rate of shop was ", judge.Changed},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.95, func(w *world) (bool, string) {
				shop := crowd("shop", 6)
				w.send(before, append(shop, goingOn)...)
				meanwhile := []load{goingOn}
				if c.left > 0 {
					meanwhile = append(meanwhile, with(shop, func(l *load) { l.perSecond *= c.left })...)
				}
				w.send(c.long, meanwhile...)
				end := before + c.long
				if !c.lasts {
					w.send(later, append(shop, goingOn)...)
					end += later
				}
				if c.factor != 1 {
					w.send(later, append(with(shop, slow("", "", c.factor)), goingOn)...)
					end += later
				}
				w.advance(time.Minute)
				var said []string
				outage, step := false, c.factor == 1
				for _, x := range w.changesOf("", 0, end).Changes {
					said = append(said, x.Sentence)
					at := time.Duration(float64(x.Time)-float64(epoch.Unix())) * time.Second
					near := func(moment time.Duration) bool { return math.Abs((at - moment).Seconds()) <= 60 }
					switch {
					case slices.Contains(x.Found, changes.Rate):
						if outage {
							return false, strings.Join(said, " | ")
						}
						outage = strings.HasPrefix(x.Headline, c.sentence) && x.Verdict == c.verdict && math.Abs((at-before).Seconds()) <= 10 &&
							(c.lasts || math.Abs(float64(x.Shape.End-x.Shape.Start)-c.long.Seconds()) <= 20)
					case c.factor != 1 && near(before+c.long+later) && x.Verdict == judge.Regression:
						step = step || x.Operation == ""
					default:
						return false, fmt.Sprint("not asked for: ", strings.Join(said, " | "))
					}
				}
				return outage && step, strings.Join(said, " | ")
			})
		})
	}
}

// While the innermost of three services is down, nothing is said of the parts of its
// requests, whose shares and times are as they were.
func TestOutageSpoilsNoParts(t *testing.T) {
	worlds(t, 1, 0.95, func(w *world) (bool, string) {
		traffic := chain{perSecond: 4, queries: 3, query: 0.003}
		rest := traffic
		rest.perSecond = 0.05
		w.sendChain(40*time.Minute, traffic)
		w.sendChain(9*time.Minute, rest)
		w.sendChain(40*time.Minute, traffic)
		w.advance(2 * time.Minute)
		r := w.allChanges(0, 89*time.Minute)
		var said []string
		right := len(r.Changes) == len(chained)
		for _, c := range r.Changes {
			said = append(said, c.Sentence)
			right = right && slices.Equal(c.Found, []string{changes.Rate}) && strings.HasPrefix(c.Headline, "hardly any requests of ")
		}
		for _, e := range r.Events {
			said = append(said, e.Sentence)
		}
		return right && len(r.Events) == 1, strings.Join(said, " | ")
	})
}
