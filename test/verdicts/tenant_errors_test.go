package verdicts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// A tenant whose requests begin to fail about when a rollout makes all requests slower is told
// by itself, at its own moment and with its own share of errors, and the rollout's line is of
// durations. Errors that the rollout brings to all are told of all.
func TestErrorsOfATenantNearARollout(t *testing.T) {
	const m, first, length = time.Minute, 55 * time.Minute, 110 * time.Minute // first is the first step
	type play struct {
		name  string
		steps int
		at    time.Duration // after the first step, when requests fail
		whose string        // a tenant, "all", or nobody's
	}
	var plays []play
	for steps := 1; steps <= 2; steps++ {
		last := time.Duration(steps-1) * 4 * m
		offsets := []time.Duration{-8 * m, -5 * m, -2 * m, 0, last + 2*m, last + 5*m, last + 8*m}
		if steps == 2 {
			offsets = append(offsets, 2*m, 4*m)
		}
		for _, at := range offsets {
			plays = append(plays, play{fmt.Sprintf("%d steps, errors after %v", steps, at), steps, at, "tenant-2"})
		}
		plays = append(plays, play{fmt.Sprintf("%d steps, errors of all", steps), steps, 0, "all"},
			play{fmt.Sprintf("%d steps, no errors", steps), steps, 0, ""})
	}
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			worlds(t, 1, 1, func(w *world) (bool, string) {
				w.sendTenantErrors(length, first, p.steps, p.at, p.whose)
				w.advance(2 * m)
				r := w.allChanges(0, length)
				near := func(c *api.Change, at time.Duration) bool {
					return math.Abs(float64(c.Time)-float64(epoch.Add(at).Unix())) <= 30
				}
				ofErrors, ofDurations, right := 0, 0, true
				var said []string
				for _, c := range r.Changes {
					if c.Under != "" || math.Abs(float64(c.Time)-float64(epoch.Add(first).Unix())) > 900 { // else found by chance
						continue
					}
					line := c.Sentence
					if c.Who != nil {
						line += " (" + c.Who.Sentence + ")"
					}
					said = append(said, fmt.Sprint(c.Verdict, ": ", line))
					right = right && c.Verdict == judge.Regression
					if !strings.Contains(line, "errors") {
						ofDurations++
						first := near(&c, first) || p.whose == "all" // else of a later step alone
						right = right && first && strings.Contains(line, "all 12 judged tenants moved")
						continue
					}
					ofErrors++
					whose := "all 12 judged tenants moved"
					if p.whose != "all" {
						whose = "for " + p.whose
					}
					right = right && near(&c, first+p.at) && strings.Contains(line, whose)
				}
				switch p.whose {
				case "all":
					right = right && ofErrors == 1
				case "":
					right = right && ofErrors == 0 && ofDurations == 1
				default:
					right = right && ofErrors == 1 && ofDurations == 1
				}
				return right, strings.Join(said, " | ")
			})
		})
	}
}

// sendTenantErrors sends a service that takes 1.6 times as long after a rollout, in so many steps
// four minutes apart, and of which a tenant's requests, or all, begin to fail.
func (w *world) sendTenantErrors(length, first time.Duration, steps int, fail time.Duration, whose string) {
	w.t.Helper()
	stepAt := func(i int) time.Duration { return first + time.Duration(i)*4*time.Minute }
	moments := []time.Duration{first + fail, length}
	for i := range steps {
		moments = append(moments, stepAt(i))
	}
	slices.Sort(moments)
	for _, until := range moments {
		now := w.clock().Sub(epoch)
		var loads []load
		for i := range 2 {
			for _, l := range crowd("shop", 6) {
				l.resource, l.failed = []string{"service.instance.id", fmt.Sprint("shop-", i)}, 0.002
				if now >= stepAt(min(i, steps-1)) {
					l.median *= 1.6
				}
				switch {
				case now < first+fail:
				case whose == "all":
					l.failed = 0.05
				case whose == l.tenant:
					l.failed = 0.3
				}
				loads = append(loads, l)
			}
		}
		w.send(until-now, loads...)
	}
}
