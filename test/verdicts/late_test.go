package verdicts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// What begins minutes after a mark is told by what then changed, and does not repeat what the mark
// did at once. That by chance no request fails in the minutes before errors begin is not told as
// an effect.
func TestLateChangeBesideTheEffectOfAMark(t *testing.T) {
	const m = time.Minute
	loads := with(crowd("shop", 12), func(l *load) { l.failed = 0.002 })
	failing := func(tenant string, share float64) func(*load) {
		return func(l *load) {
			if tenant == "" || l.tenant == tenant {
				l.failed = share
			}
		}
	}
	for _, c := range []struct {
		name       string
		atOnce     float64     // how many times as slow
		later      func(*load) // for 25 minutes, from 4.5 minutes after the mark on
		late       bool        // there is a late effect
		want       api.Verdict
		first      string   // the sentence begins with, up to the late change
		says, nots []string // of the late effect
	}{
		{"rollout, then errors of a tenant", 1.3, failing("tenant-2", 0.3), true, judge.Regression, "slower", []string{"errors", "tenant-2"}, []string{"slower"}},
		{"rollout, then errors of all", 1.3, failing("", 0.03), true, judge.Regression, "slower", []string{"errors"}, []string{"slower", "tenant-"}},
		{"rollout, then a slow tenant", 1.3, slow("", "tenant-2", 3), true, judge.Regression, "slower", []string{"compared with the time between the mark and then, ", "tenant-2"}, []string{"errors", "all 12"}},
		{"nothing, then errors of a tenant", 1, failing("tenant-2", 0.3), true, judge.Regression, "No evidence of change until", []string{"errors", "tenant-2"}, []string{"slower"}},
		{"nothing", 1, nil, false, judge.NoEvidence, "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 0.8, func(w *world) (bool, string) {
				w.send(60*m, loads...)
				id := w.mark("deploy", "shop")
				slower := with(loads, slow("", "", c.atOnce))
				until := slower
				if slices.Contains(c.says, "errors") {
					until = with(slower, failing("", 0))
				}
				w.send(270*time.Second, until...)
				during := slower
				if c.later != nil {
					during = with(slower, c.later)
				}
				w.send(25*m, during...)
				early, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: ofService("shop"), Mark: id})
				if err != nil {
					w.t.Fatal(err)
				}
				w.send(40*m, slower...)
				s := w.story(id)
				first, late, _ := strings.Cut(s.Sentence, "; since ")
				holds := func(word string) bool { return strings.Contains(late, word) }
				right := s.Verdict == c.want && early.Verdict == c.want && (s.Then != nil) == c.late && strings.Contains(first, c.first)
				for _, word := range c.says {
					right = right && holds(word)
				}
				return right && !slices.ContainsFunc(c.nots, holds), all(early.Verdict, early.Sentence, "|", s.Verdict, s.Sentence)
			})
		})
	}
}
