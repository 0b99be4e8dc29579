package verdicts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// rollout is the traffic of a service of three instances, of which the first few were
// replaced by those that take twice as long.
func rollout(replaced int) (all []load) {
	for i := range 3 {
		for _, l := range crowd("shop", 4) {
			l.resource, l.failed = []string{"service.instance.id", fmt.Sprint("shop-", i)}, 0.002
			if i < replaced {
				l.median *= 2
			}
			all = append(all, l)
		}
	}
	return all
}

// sendRollout replaces the instances three minutes apart, an hour after the world began, and
// then sends what follows.
func (w *world) sendRollout(then time.Duration) {
	w.t.Helper()
	w.send(time.Hour, rollout(0)...)
	for i := range 2 {
		w.sendEvery(3*time.Minute, 3*time.Minute, rollout(i+1)...)
	}
	w.send(then, rollout(3)...)
}

// leadsAt returns the sentences of changes that lead near a moment, and whether one of them
// has all words; said is of all that lead.
func leadsAt(r *api.ChangesResponse, at time.Time, words ...string) (found bool, said []string) {
	for _, c := range r.Changes {
		if c.Under != "" {
			continue
		}
		said = append(said, fmt.Sprint(c.Verdict, ": ", c.Sentence))
		if who := c.Who; who != nil {
			said[len(said)-1] += " (" + who.Sentence + ")"
		}
		right := float64(c.Time)-float64(at.Unix()) <= 60 && float64(at.Unix())-float64(c.Time) <= 60
		for _, x := range words {
			right = right && strings.Contains(said[len(said)-1], x)
		}
		found = found || right
	}
	return found, said
}

// A tenant whose requests begin to fail a quarter of an hour after a rollout of the same
// service is told by itself, once for all its operations, however much of the rollout the range holds.
func TestErrorsAfterARollout(t *testing.T) {
	const m = time.Minute
	trials(t, 0.95, func(w *world) (bool, string) {
		w.sendRollout(15 * m)
		at := w.clock()
		w.send(time.Hour, with(rollout(3), func(l *load) {
			if l.tenant == "tenant-2" {
				l.failed = 0.15
			}
		})...)
		w.advance(2 * m)
		since := at.Sub(epoch)
		var answers []string
		right := 0
		ranges := []window{{-5 * time.Hour, time.Hour}, {-time.Hour, time.Hour}, {-14 * m, 46 * m}, {-10 * m, 40 * m}, {-12 * m, 28 * m}}
		for _, of := range ranges {
			found, said := leadsAt(w.allChanges(since+of.from, since+of.to), at, "errors of shop", "tenant-2", string(judge.Regression))
			lines := 0 // from the errors on
			for _, line := range said {
				if strings.Contains(line, "errors of ") {
					lines++
				}
			}
			if found && lines == 1 {
				right++
			}
			answers = append(answers, strings.Join(said, " | "))
		}
		return right == len(ranges), strings.Join(answers, "\n")
	})
}

// What one tenant feels six minutes after the last step of a rollout is not swallowed by it.
func TestOneTenantAfterARollout(t *testing.T) {
	trials(t, 0.95, func(w *world) (bool, string) {
		w.sendRollout(6 * time.Minute)
		at := w.clock()
		w.send(time.Hour, with(rollout(3), slow("", "tenant-2", 2))...)
		w.advance(2 * time.Minute)
		since := at.Sub(epoch)
		found, said := leadsAt(w.allChanges(0, since+time.Hour), at, "shop", "tenant-2", string(judge.Regression))
		return found, all(len(said), strings.Join(said, " | "))
	})
}
