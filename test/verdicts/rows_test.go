package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
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

// failing returns a crowd in which one request of a hundred fails, and three of ten of a tenant.
func failing(tenant string) []load {
	return with(crowd("shop", 10), func(l *load) {
		if l.failed = 0.01; l.tenant == tenant {
			l.failed = 0.3
		}
	})
}

// Errors of one tenant are said to be of that tenant, by a comparison and by a mark.
func TestErrorsOfOneTenant(t *testing.T) {
	trials(t, 1, func(w *world) (bool, string) {
		r, v := w.played(failing(""), failing("tenant-4"))
		ok := slices.Contains(changed(r.Tenants), "tenant-4")
		for _, said := range []string{r.Sentence, v.Sentence} {
			ok = ok && strings.HasPrefix(said, "The share of errors of shop is 2.") && strings.Contains(said, "the share of errors of shop for tenant-4 is ")
		}
		return ok, all(r.Sentence, "|", v.Sentence)
	})
}

// Errors of one tenant that begin as those of another end leave the service as it was, and
// both tenants are named.
func TestErrorsMoveToAnotherTenant(t *testing.T) {
	trials(t, 1, func(w *world) (bool, string) {
		r, v := w.played(failing("tenant-5"), failing("tenant-4"))
		ok := r.Verdict == judge.Mixed && v.Verdict == judge.Mixed
		for _, said := range []string{r.Sentence, v.Sentence} {
			ok = ok && strings.Contains(strings.ToLower(said), "the share of errors of shop for tenant-4 is ") && strings.Contains(said, " points higher")
		}
		return ok && strings.Contains(r.Sentence, "but the share of errors of shop for tenant-5 is "), all(r.Sentence, "|", v.Sentence)
	})
}

// Errors that are as many as before are not news of any tenant or operation.
func TestSteadyErrorsAreNoNews(t *testing.T) {
	trials(t, 1, func(w *world) (bool, string) {
		r, v := w.played(failing("tenant-4"), failing("tenant-4"))
		return !judge.Moved(r.Verdict) && !judge.Moved(v.Verdict) && len(changed(r.Tenants)) == 0, all(r.Sentence, "|", v.Sentence, "|", changed(r.Tenants))
	})
}

// A rectangle that holds no request is said to be empty.
func TestEmptyRectangle(t *testing.T) {
	w := newWorld(t, 1)
	w.send(40*time.Minute, crowd("shop", 4)...)
	of, low := ofService("shop"), 100.0
	of.Start, of.End = unix(epoch), unix(epoch.Add(40*time.Minute))
	r, err := w.Explain(t.Context(), api.ExplainRequest{Selection: of, From: unix(epoch.Add(20 * time.Minute)), Low: &low})
	if err != nil {
		t.Fatal(err)
	}
	if r.Inside != 0 || !strings.HasPrefix(r.Sentence, "the rectangle is empty") {
		t.Errorf("%d requests are inside, and it says %q", r.Inside, r.Sentence)
	}
}
