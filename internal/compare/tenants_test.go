package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
)

// crowd are requests of twelve tenants to four operations: the load that a case
// changes on side B.
func crowd() []load {
	var all []load
	for i, operation := range []string{"GET /cart", "GET /search", "POST /orders", "GET /item"} {
		for tenant := range 12 {
			all = append(all, load{operation: operation, tenant: fmt.Sprint("tenant-", tenant), perSlot: 1, median: 0.05 * float64(i+1)})
		}
	}
	return all
}

// sides returns a store in which half an hour of crowd is followed by another, changed
// by change, and the request that compares the two.
func sides(t *testing.T, trial int, change func(side int, all []load) []load) (store.Store, Request) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(uint64(trial), 31))
	for side := range 2 {
		from := epoch + int64(side)*1800
		send(w, rng, from, from+1800, change(side, crowd())...)
	}
	return stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)}
}

func changedRows(rows []api.CompareRow) (names []string) {
	for _, r := range rows {
		if r.Changed {
			names = append(names, r.Tenant+r.Operation)
		}
	}
	return names
}

func warningOf(r *api.CompareResponse, code string) string {
	for _, w := range r.Warnings {
		if w.Code == code {
			return w.Text
		}
	}
	return ""
}

const tenantTrials = 6

// A tenant that was always slow comes to send half of the requests: nothing became
// slower, neither as a whole nor in any row, and the mix is named.
func TestSlowTenantSendsMore(t *testing.T) {
	for trial := range tenantTrials {
		st, r := sides(t, trial, func(side int, all []load) []load {
			for _, operation := range []string{"GET /cart", "GET /search", "POST /orders", "GET /item"} {
				all = append(all, load{operation: operation, tenant: "slow", perSlot: []int{1, 12}[side], median: 0.6})
			}
			return all
		})
		out := compared(t, st, r)
		if judge.Moved(out.Verdict) {
			t.Errorf("trial %d: %s: %s", trial, out.Verdict, out.Sentence)
		}
		if raw := measureOf(t, out, "p95").Raw; raw.Verdict != judge.Slower {
			t.Errorf("trial %d: raw p95 %s, the case is none", trial, raw.Verdict)
		}
		if rows := append(changedRows(out.Operations), changedRows(out.Tenants)...); len(rows) > 1 {
			t.Errorf("trial %d: changed: %v", trial, rows)
		}
		if text := warningOf(out, "mix"); !strings.Contains(text, "above all tenant slow, from 7.7 % to 50 %") {
			t.Errorf("trial %d: mix: %q", trial, text)
		}
	}
}

// Another mix of operations changes no tenant.
func TestMixOfOperationsMoves(t *testing.T) {
	wrong := 0
	for trial := range tenantTrials {
		st, r := sides(t, trial, func(side int, all []load) []load {
			for i := range all {
				if all[i].operation == "GET /item" && side == 1 {
					all[i].perSlot = 4
				}
			}
			return all
		})
		out := compared(t, st, r)
		if judge.Moved(out.Verdict) {
			t.Errorf("trial %d: %s: %s", trial, out.Verdict, out.Sentence)
		}
		if names := changedRows(out.Tenants); len(names) > 0 {
			wrong++
			t.Logf("trial %d: changed: %v", trial, names)
		}
		if text := warningOf(out, "mix"); !strings.Contains(text, "above all GET /item, from 25 % to 57 %") {
			t.Errorf("trial %d: mix: %q", trial, text)
		}
	}
	if wrong > 1 {
		t.Errorf("tenants changed in %d of %d comparisons, none did", wrong, tenantTrials)
	}
}

// One tenant of twelve, and one with a hundredth of the requests, is said in the
// headline, and makes the verdict.
func TestOneTenantIsSlower(t *testing.T) {
	for _, c := range []struct {
		name   string
		factor float64
		light  bool
	}{{"one of twelve by 1.4", 1.4, false}, {"a hundredth of the requests by 2", 2, true}} {
		for trial := range tenantTrials {
			st, r := sides(t, trial, func(side int, all []load) []load {
				who := "tenant-3"
				if c.light {
					who = "light"
					for i := range all {
						all[i].perSlot = 2
					}
					all = append(all, load{operation: "GET /search", tenant: who, perSlot: 1, median: 0.1})
				}
				for i := range all {
					if all[i].tenant == who && side == 1 {
						all[i].median *= c.factor
					}
				}
				return all
			})
			out := compared(t, st, r)
			who := map[bool]string{true: "light", false: "tenant-3"}[c.light]
			if out.Verdict != judge.Regression || !strings.Contains(out.Sentence, " of shop for "+who+" ") {
				t.Errorf("%s, trial %d: %s: %s", c.name, trial, out.Verdict, out.Sentence)
			}
			if trial == 0 {
				t.Log(out.Sentence)
			}
		}
	}
}

// Errors rise a thousandfold while nearly all of the mix changes: errors come first,
// and nothing is claimed of the few requests that both sides share.
func TestNothingIsClaimedOfASliver(t *testing.T) {
	for trial := range tenantTrials {
		st, r := sides(t, trial, func(side int, _ []load) []load {
			shared := load{operation: "GET /cart", tenant: "acme", perSlot: 1, median: []float64{1, 0.05}[side]}
			if side == 0 {
				return []load{shared, {operation: "GET /old", tenant: "acme", perSlot: 24, median: 0.1}}
			}
			return []load{shared, {operation: "GET /new", tenant: "acme", perSlot: 24, median: 0.1, failed: 0.4}}
		})
		out := compared(t, st, r)
		if !(out.Verdict == judge.Regression || out.Verdict == judge.Mixed) || !strings.HasPrefix(out.Sentence, "the share of errors of shop is ") {
			t.Errorf("trial %d: %s: %s", trial, out.Verdict, out.Sentence)
		}
		if m := measureOf(t, out, "p99"); m.Verdict != judge.TooLittle || !strings.Contains(m.Sentence, "only 4 % of the requests can be compared like for like") {
			t.Errorf("trial %d: p99: %s: %s", trial, m.Verdict, m.Sentence)
		}
	}
}

// Without a change the verdict, which lists add to, is right in most comparisons.
func TestVerdictsWithoutAChange(t *testing.T) {
	const trials, most = 20, 3
	wrong := 0
	for trial := range trials {
		st, r := sides(t, 1000+trial, func(_ int, all []load) []load { return all })
		if out := compared(t, st, r); judge.Moved(out.Verdict) {
			wrong++
			t.Log(out.Sentence)
		}
	}
	if wrong > most {
		t.Errorf("%d of %d comparisons claim a change, want at most %d", wrong, trials, most)
	}
}

// A tenant that goes from a quick operation to a slow one changes neither, and two
// sides without a common operation say nothing of times.
func TestNothingInCommon(t *testing.T) {
	st, r := sides(t, 3, func(side int, all []load) []load {
		return append(all, load{operation: []string{"GET /cart", "POST /reports"}[side], tenant: "globex", perSlot: 8, median: []float64{0.05, 0.6}[side]})
	})
	if out := compared(t, st, r); judge.Moved(out.Verdict) {
		t.Errorf("a tenant asks for something else: %s: %s", out.Verdict, out.Sentence)
	}
	st, r = sides(t, 4, func(side int, _ []load) []load {
		return []load{{operation: []string{"GET /old", "GET /new"}[side], tenant: "acme", perSlot: 20, median: []float64{0.05, 0.6}[side]}}
	})
	out := compared(t, st, r)
	if m := measureOf(t, out, "p99"); judge.Moved(out.Verdict) || m.Verdict != judge.TooLittle || !math.IsNaN(float64(m.Judged().Needed)) {
		t.Errorf("nothing in common: %s: %s", out.Verdict, out.Sentence)
	}
}

// The verdict is that of all rows, however few are asked for, and a mixed one says both.
func TestVerdictIsOfAllRows(t *testing.T) {
	st, r := sides(t, 5, func(side int, all []load) []load {
		for i := range all {
			all[i].perSlot = 3
			if side == 1 && all[i].tenant == "tenant-3" {
				all[i].median *= 2
			} else if side == 1 {
				all[i].median *= 0.7
			}
		}
		return all
	})
	for _, limit := range []int{1, 20} {
		r.Limit = limit
		out := compared(t, st, r)
		if out.Verdict != judge.Mixed || !strings.Contains(out.Sentence, "; but ") || !strings.Contains(out.Sentence, " of shop for tenant-3 ") || len(out.Tenants) > limit {
			t.Errorf("limit %d: %s: %s", limit, out.Verdict, out.Sentence)
		}
	}
}

// What is rare on a side that is short has not gone.
func TestShortSide(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(6, 31))
	all := crowd()
	for i := range all {
		all[i].perSlot = 6
	}
	send(w, rng, epoch, epoch+7200, all...)
	send(w, rng, epoch+7200, epoch+7350, all...)
	out := compared(t, stored(t, w), Request{A: window(0, 7200), B: window(7200, 7350), Measures: []string{"p50"}})
	if text := warningOf(out, "coverage"); text != "" || out.Covered < 0.99 {
		t.Errorf("covered %v: %s", out.Covered, text)
	}
}
