package verdicts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// What changes six minutes after a deploy is one of its effects if it began in the service
// that was deployed. What began in a service that it calls is told, and not held against it;
// neither takes back what the deploy surely did at once.
func TestLateChangeOfACalledService(t *testing.T) {
	before := chain{perSecond: 6, queries: 2, query: 0.004, own: map[string]float64{"checkout": 0.02}}
	for _, c := range []struct {
		name             string
		atOnce, later    float64 // seconds of checkout by itself
		query, failed    float64 // later
		want             api.Verdict
		called           []string
		first, says, not string
	}{
		{"fix, then payments", 0.01, 0.01, 0.03, 0, judge.Improvement, []string{"payments"}, "faster", "not counted, as it began in payments: since", "late effect"},
		{"nothing, then payments", 0.02, 0.02, 0.03, 0, judge.NoEvidence, []string{"payments"}, "No evidence of change until", "not counted, as it began in payments: since", "late effect"},
		{"nothing, then itself", 0.02, 0.06, 0.004, 0, judge.Regression, nil, "No evidence of change until", ": a late effect of the mark, or a change that nobody marked", "not counted"},
		{"fix, then itself", 0.01, 0.06, 0.004, 0, judge.Mixed, nil, "faster", ": a late effect of the mark, or a change that nobody marked", "not counted"},
		{"nothing, then payments and itself", 0.02, 0.05, 0.02, 0, judge.Regression, nil, "No evidence of change until", ": a late effect of the mark, or a change that nobody marked", "not counted"},
		{"nothing, then payments fail", 0.02, 0.02, 0.004, 0.1, judge.Regression, nil, "No evidence of change until", ": a late effect of the mark, or a change that nobody marked", "not counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 1, func(w *world) (bool, string) {
				w.sendChain(time.Hour, before)
				id := w.mark("deploy", "checkout")
				after := before
				after.own = map[string]float64{"checkout": c.atOnce}
				w.sendChain(6*time.Minute, after)
				after.own, after.query = map[string]float64{"checkout": c.later}, c.query
				after.failed = c.failed
				w.sendChain(60*time.Minute, after)
				w.advance(2 * time.Minute)
				s := w.storyOf("checkout", id)
				if s.Then == nil {
					return false, s.Sentence
				}
				return s.Verdict == c.want && slices.Equal(s.Then.Called, c.called) && s.Then.Verdict == judge.Regression &&
					strings.Contains(s.Sentence, c.first) && strings.Contains(s.Sentence, c.says) && !strings.Contains(s.Sentence, c.not), all(s.Verdict, s.Sentence, s.Then.Called)
			})
		})
	}
}

// The deploy of a service that the marked one calls, within the time after, is named beside
// the verdict; that of one which has nothing to do with it is not.
func TestDeployOfACalledService(t *testing.T) {
	w := newWorld(t, 1601)
	c := chain{perSecond: 4, queries: 2, query: 0.004}
	w.sendChain(time.Hour, c)
	id := w.mark("deploy", "checkout")
	w.sendChain(20*time.Minute, c)
	w.mark("rollout", "payments")
	w.mark("new tables", "elsewhere")
	w.sendChain(50*time.Minute, c)
	s := w.storyOf("checkout", id)
	if got, want := warning(s.Warnings, "near"), `what is said may be of the mark "rollout" of payments, which checkout calls, at 11:20 UTC, within the time after`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A mark that did nothing is not blamed for what the next one, five minutes later, did.
func TestMarkShortlyBeforeAnother(t *testing.T) {
	loads := crowd("shop", 6)
	worlds(t, 1, 1, func(w *world) (bool, string) {
		w.send(time.Hour, loads...)
		nothing := w.mark("nothing", "shop")
		w.send(5*time.Minute, loads...)
		deploy := w.mark("deploy", "shop")
		w.send(70*time.Minute, with(loads, slow("", "", 1.5))...)
		a, b := w.storyOf("shop", nothing), w.storyOf("shop", deploy)
		return !judge.Moved(a.Verdict) && a.Then == nil && b.Verdict == judge.Regression, all(a.Verdict, a.Sentence, b.Verdict, b.Sentence)
	})
}
