package verdicts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// Two selections of one time are compared operation by operation: another mix makes neither
// slower or faster, and is named; what is slower in each of its operations, or in one, is said,
// with the exit code.
func TestSelectionsOfOneTime(t *testing.T) {
	fast := func(l *load) { // the fastest operation is asked for more often
		if l.operation == "GET /cart" {
			l.perSecond *= 6
		}
	}
	cases := []struct {
		name    string
		changes []func(*load)
		verdict judge.Verdict
		mix     bool
		slower  string // what the sentence names
	}{
		{"equal", nil, judge.NoEvidence, false, ""},
		{"another mix", []func(*load){fast}, judge.NoEvidence, true, ""},
		{"slower", []func(*load){slow("", "", 1.3)}, judge.Regression, false, " slower"},
		{"slower, of another mix", []func(*load){fast, slow("", "", 1.3)}, judge.Regression, false, " slower"},
		{"one operation slower, of another mix", []func(*load){fast, slow("GET /search", "", 1.5)}, judge.Regression, false, "GET /search"},
	}
	in := func(side string, loads []load) []load {
		return with(loads, func(l *load) {
			l.resource = []string{"deployment.environment.name", "env-" + side, "service.version", side}
		})
	}
	// Each returns the traffic of side A and that of side B, before it is changed.
	kinds := []struct {
		name   string
		asked  [][3]string // label, A, B
		before func() (a, b []load)
	}{
		{"a tenant and the others", [][3]string{{"tenant", "*", "acme"}}, func() (a, b []load) {
			for _, operation := range operations {
				b = append(b, load{service: "shop", operation: operation, tenant: "acme", perSecond: 0.1})
			}
			for i := range b {
				b[i].median = 0.05 * float64(i+1) // as in a crowd
			}
			return crowd("shop", 9), b
		}},
		{"environments and versions", [][3]string{{"environment", "env-1", "env-2"}, {"version", "1", "2"}}, func() (a, b []load) {
			return in("1", crowd("shop", 5)), in("2", crowd("shop", 5))
		}},
		{"cohorts", [][3]string{{"cohort", "very-large", "medium"}}, func() (a, b []load) {
			return crowd("shop", 9), with(crowd("shop", 0.5), func(l *load) { l.tenant = "smaller-" + l.tenant })
		}},
	}
	for _, kind := range kinds {
		for _, c := range cases {
			t.Run(kind.name+": "+c.name, func(t *testing.T) {
				worlds(t, 1, 0.75, func(w *world) (bool, string) {
					a, b := kind.before()
					for _, change := range c.changes {
						b = with(b, change)
					}
					w.send(time.Hour, append(a, b...)...)
					w.advance(time.Minute)
					right, said := true, []string{}
					for _, asked := range kind.asked {
						r, code := w.compareLabel(asked[0], asked[1], asked[2])
						named := strings.Contains(r.Sentence, "he mix of ") && strings.Contains(r.Sentence, "above all GET /cart")
						ok := (r.Verdict == c.verdict || c.verdict == judge.NoEvidence && r.Verdict == judge.Same) && named == c.mix && strings.Contains(r.Sentence, c.slower) && (code == 1) == (c.verdict == judge.Regression)
						if c.verdict == judge.NoEvidence {
							ok = ok && len(changed(r.Operations)) == 0
						}
						right = right && ok
						said = append(said, fmt.Sprintf("%s: %s, exit code %d: %s | %s | %v", asked[0], r.Verdict, code, r.Sentence, warning(r.Warnings, "mix"), changed(r.Operations)))
					}
					return right, strings.Join(said, " || ")
				})
			})
		}
	}
}

// compareLabel compares two values of a label over the last hour, and returns the exit code of
// the command line as well.
func (w *world) compareLabel(label, a, b string) (*api.CompareResponse, int) {
	w.t.Helper()
	sel := ofService("shop")
	sel.Start, sel.End = unix(epoch), unix(epoch.Add(time.Hour))
	r, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: sel, Label: label, A: a, B: b})
	if err != nil {
		w.t.Fatal(err)
	}
	code, _ := w.tailscope("compare", "--service", "shop", "--label", label, "--a", a, "--b", b, "--since", "61m")
	return r, code
}
