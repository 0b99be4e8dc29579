package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/trials"
)

// One tenant against everybody else, who are all that have another.
func TestOneTenantAgainstEverybodyElse(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 7))
	of := func(tenant string, perSlot int, median float64) load {
		return load{operation: "GET /cart", tenant: tenant, perSlot: perSlot, median: median}
	}
	send(w, rng, epoch, epoch+1800, of("acme", 20, 0.13), of("globex", 15, 0.1), of("initech", 5, 0.1))
	st := stored(t, w)
	sel := selection("service", "shop")
	sel.Start, sel.End = at(epoch), at(epoch+1800)
	r := compared(t, st, Request{Selection: sel, Label: series.LabelTenant, ValueA: Others, ValueB: "acme"})
	if !r.Paired || r.A.Name != "everybody else" || r.A.Requests != 3600 || r.B.Requests != 3600 {
		t.Errorf("paired %v, %s has %d requests, %s %d; want 3600 each", r.Paired, r.A.Name, r.A.Requests, r.B.Name, r.B.Requests)
	}
	p50 := measureOf(t, r, "p50")
	if f := p50.Raw; p50.Verdict != judge.Slower || !(f.Low <= 1.3 && 1.3 <= f.High) {
		t.Errorf("p50 %s, [%v, %v]; want slower by 1.3", p50.Verdict, f.Low, f.High)
	}
	for _, v := range [][2]string{{Others, Others}, {Others, ""}, {Others, "nobody"}} {
		if _, err := Compare(t.Context(), st, Request{Selection: sel, Label: series.LabelTenant, ValueA: v[0], ValueB: v[1]}); err == nil {
			t.Errorf("%q against %q is answered", v[0], v[1])
		}
	}
}

// A list says who is large, whatever they send; who is not on it is small. Who is too
// light to be a stratum of its own is in that of its cohort.
func TestCohortsOfAList(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 8))
	for _, from := range []int64{epoch, epoch + 1800} {
		send(w, rng, from, from+1800, load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.1}, load{operation: "GET /cart", tenant: "globex", perSlot: 20, median: 0.3})
		for i := range 1200 {
			at := from + int64(i%180)*10
			send(w, rng, at, at+10, load{operation: "GET /cart", tenant: fmt.Sprint("light-", i), perSlot: 1, median: 0.1})
		}
	}
	list := func(name string) (string, bool) { return series.VeryLarge, name == "acme" || name >= "light-6" }
	r := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600), CohortOf: list})
	if r.Strata != 4 || !strings.Contains(strings.Join(r.StrataBy, " "), series.LabelCohort) {
		t.Errorf("%d strata by %v, want two tenants, and a cohort on and off the list", r.Strata, r.StrataBy)
	}
	r = compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)})
	if r.Strata != 3 {
		t.Errorf("%d strata, want three: two tenants, and all others, who are small by their share", r.Strata)
	}
}

// A tenant that asks for another mix of operations than the others is neither faster nor
// slower for it, however few requests it has, and one that is slower in each is found.
func TestLightTenantOfAnotherMix(t *testing.T) {
	n := trials.Of(3)
	for _, seldom := range []float64{0, 0.9, 0.97} { // 3,240 requests of it, some 320, some 100
		for _, slower := range []float64{1, 1.4} {
			right := 0
			for trial := range n {
				w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(uint64(trial), 71))
				all := crowd()
				for i := range all {
					if l := &all[i]; l.tenant == "tenant-3" {
						if l.seldom, l.median = seldom, l.median*slower; l.operation == "GET /cart" {
							l.perSlot = 6 // the fastest one
						}
					}
				}
				send(w, rng, epoch, epoch+3600, all...)
				sel := selection("service", "shop")
				sel.Start, sel.End = at(epoch), at(epoch+3600)
				r := compared(t, stored(t, w), Request{Selection: sel, Label: series.LabelTenant, ValueA: Others, ValueB: "tenant-3"})
				byMix := func(m api.CompareMeasure) bool { return ByMix(&m) && m.Raw.P < 0.001 }
				ok := r.Verdict == judge.Regression
				if slower == 1 {
					ok = r.Verdict == judge.NoEvidence && (!slices.ContainsFunc(r.Measures, byMix) || strings.Contains(r.Sentence, "above all GET /cart"))
				}
				if ok {
					right++
				} else {
					t.Logf("seldom %g, ×%g, trial %d: %s: %s", seldom, slower, trial, r.Verdict, r.Sentence)
				}
			}
			if right < n-max(1, n/6) {
				t.Errorf("seldom %g, ×%g: %d of %d trials are right", seldom, slower, right, n)
			}
		}
	}
}

// Values of a label whose tenants, or environments, are all others are compared operation by
// operation: another mix of them is no change, and ×1.3 in each is.
func TestValuesThatShareNoTenant(t *testing.T) {
	for _, c := range []struct {
		label string
		value func(l *load, side int)
	}{
		{series.LabelVersion, func(l *load, side int) { // each tenant has one version
			l.tenant = fmt.Sprint(side, l.tenant)
			l.more = []string{series.LabelVersion, fmt.Sprint(side)}
		}},
		{series.LabelVersion, func(l *load, side int) { // each environment has one version
			l.more = []string{series.LabelVersion, fmt.Sprint(side), series.LabelEnvironment, fmt.Sprint("env-", side)}
		}},
	} {
		for _, slower := range []float64{1, 1.3} {
			w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(9, 72))
			var all []load
			for side := range 2 {
				for _, l := range crowd() {
					if c.value(&l, side); side == 1 {
						if l.median *= slower; l.operation == "GET /cart" {
							l.perSlot = 4
						}
					}
					all = append(all, l)
				}
			}
			send(w, rng, epoch, epoch+1800, all...)
			sel := selection("service", "shop")
			sel.Start, sel.End = at(epoch), at(epoch+1800)
			r := compared(t, stored(t, w), Request{Selection: sel, Label: c.label, ValueA: "0", ValueB: "1"})
			ok := r.Verdict == judge.Regression
			if slower == 1 {
				ok = (r.Verdict == judge.NoEvidence || r.Verdict == judge.Same) && strings.Contains(r.Sentence, "above all GET /cart")
			}
			if !ok {
				t.Errorf("%s, ×%g: %s: %s", c.label, slower, r.Verdict, r.Sentence)
			}
		}
	}
}
