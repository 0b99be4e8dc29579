package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
)

// With ten thousand tenants another mix of them is not another speed either;
// only those that are not small are read by name.
func TestCohortsOfManyTenants(t *testing.T) {
	const tenants, slots = 10_000, 60
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(13, 5))
	for side, whale := range []int{16, 64} {
		for slot := range slots {
			var all []load
			for i := range tenants / slots {
				all = append(all, load{operation: "GET /cart", tenant: fmt.Sprint("small-", i*slots+slot), perSlot: 1, median: 0.03, failed: 0.1})
			}
			all = append(all, load{operation: "GET /cart", tenant: "whale", perSlot: whale, median: 0.3}, load{operation: "GET /cart", perSlot: 2, median: 0.03})
			from := epoch + int64(side*slots+slot)*10
			send(w, rng, from, from+10, all...)
		}
	}
	r := Request{A: window(0, slots*10), B: window(slots*10, 2*slots*10), Measures: []string{"p50", judge.Mean, judge.ErrorShare}}
	st := stored(t, w)
	out := compared(t, st, r)
	if out.Strata != 2 || out.Covered != 1 || out.StrataBy[2] != series.LabelCohort {
		t.Fatalf("%d strata by %v, covered %v", out.Strata, out.StrataBy, out.Covered)
	}
	if mean := measureOf(t, out, judge.Mean); mean.Raw.Verdict != judge.Slower || mean.Change != "" {
		t.Errorf("mean: raw %s, like for like %s", mean.Raw.Verdict, mean.Verdict)
	}

	if err := r.check(); err != nil {
		t.Fatal(err)
	}
	c := &comparison{Request: r, st: st, out: &api.CompareResponse{}}
	for _, step := range []func(context.Context) error{c.settleFamily, c.sides, c.cohorts} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range []struct{ all, fine *side }{{c.a, c.fineA}, {c.b, c.fineB}} {
		large := s.fine.strata[operation{"shop", "GET /cart", series.VeryLarge, "whale", ""}]
		small := s.fine.strata[operation{"shop", "GET /cart", series.Small, "", ""}]
		if n := uint64([]int{16, 64}[i] * slots); large.seen.Count != n || large.errors != 0 {
			t.Errorf("side %d: %d requests of the whale, %d failed; want %d", i, large.seen.Count, large.errors, n)
		}
		if n := uint64(tenants/slots*slots + 2*slots); small.seen.Count != n || small.errors < n/20 {
			t.Errorf("side %d: %d small requests, %d failed; want %d", i, small.seen.Count, small.errors, n)
		}
		n, failed := s.all.total()
		if m, of := s.fine.total(); n != m || failed != of {
			t.Errorf("side %d: %d requests in cohorts, %d failed; want %d and %d", i, m, of, n, failed)
		}
		for slot, h := range small.good {
			if count(h)+count(small.failed[slot]) != tenants/slots+2 || !(h.Mean() < 0.06) {
				t.Fatalf("side %d, slot %d: %d requests, mean %v", i, slot, count(h), h.Mean())
			}
		}
	}
}

// A cohort of a list that is too long to be read by name is small.
func TestMembersAreBounded(t *testing.T) {
	c := &comparison{tenantCounts: [2]map[string]hist.Moment{{}, {}}, tenantTotals: [2]uint64{3 * mostCohortTenants, 3 * mostCohortTenants}}
	for i := range 3 * mostCohortTenants {
		c.tenantCounts[0][fmt.Sprint(i)], c.tenantCounts[1][fmt.Sprint(i)] = hist.Moment{Count: 1}, hist.Moment{Count: 1}
	}
	c.CohortOf = func(name string) (string, bool) {
		switch {
		case len(name) < 2:
			return series.VeryLarge, true
		case name > "2":
			return series.Large, true
		}
		return series.Small, true
	}
	if m := c.members(c.tenantShares(), nil); len(m) != 1 || len(m[series.VeryLarge]) != 10 {
		t.Errorf("%d cohorts, %d very large", len(m), len(m[series.VeryLarge]))
	}
	c.CohortOf = func(name string) (string, bool) {
		return map[bool]string{true: series.Large, false: series.Small}[name > "2"], true
	}
	if m := c.members(c.tenantShares(), nil); m != nil {
		t.Errorf("%d cohorts", len(m))
	}
}

// What has not all of another side is not less by it.
func TestLess(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(13, 6))
	send(w, rng, epoch, epoch+300, load{operation: "GET /cart", tenant: "a", perSlot: 3, median: 0.1}, load{operation: "GET /cart", tenant: "b", perSlot: 2, median: 0.2}, load{operation: "GET /new", tenant: "b", perSlot: 2, median: 0.2})
	st := stored(t, w)
	read := func(pairs ...string) *side {
		c := &comparison{Request: Request{Selection: selection(pairs...)}, st: st}
		c.Family = series.SpanDuration
		s, err := c.read(t.Context(), span{epoch, epoch + 300}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := read()
	if !all.less(read("tenant", "b")) {
		t.Fatal("everybody is not more than b")
	}
	if n, _ := all.total(); n != 90 || all.strata[operation{service: "shop", operation: "GET /new"}].seen.Count != 0 {
		t.Errorf("%d requests are left, want 90 of a", n)
	}
	if all.less(read("tenant", "b")) {
		t.Error("b was taken away twice")
	}
}
