package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// tenants is 70 minutes of a service with 3 very large tenants, 8 medium ones and 300
// small ones; the slow ones take 1.6 times as long from 2,400 s on.
func tenants(t testing.TB, seed uint64, slow func(cohort string, i int) bool) store.Store {
	t.Helper()
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 7))
	for sec := int64(0); sec < 4200; sec += 10 {
		for _, c := range []struct {
			cohort string
			n      int
			each   float64 // requests a slot
		}{{series.VeryLarge, 3, 30}, {series.Medium, 8, 0.9}, {series.Small, 300, 0.05}} {
			for i := range c.n {
				requests := int(c.each)
				if rng.Float64() < c.each-math.Floor(c.each) {
					requests++
				}
				median := 0.05
				if sec >= 2400 && slow(c.cohort, i) {
					median *= 1.6
				}
				l := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelTenant, fmt.Sprintf("%s %d", c.cohort, i),
					series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app")
				for range requests {
					w.Span(epoch+sec, l, median*math.Exp(0.4*rng.NormFloat64()))
				}
			}
		}
	}
	return put(t, storetest.NewTwin(), w)
}

// A change names the cohort where that is what moved: not where everybody did, and not
// where it was one of its tenants.
func TestWhoIsACohort(t *testing.T) {
	for _, c := range []struct {
		name    string
		slow    func(cohort string, i int) bool
		cohorts []string
	}{
		{"the small ones", func(cohort string, _ int) bool { return cohort == series.Small }, []string{series.Small}},
		{"the very large ones", func(cohort string, _ int) bool { return cohort == series.VeryLarge }, []string{series.VeryLarge}},
		{"one very large tenant", func(cohort string, i int) bool { return cohort == series.VeryLarge && i == 1 }, nil},
		{"everybody", func(string, int) bool { return true }, nil},
	} {
		const trials = 4
		right, last := 0, ""
		for seed := range uint64(trials) {
			change := of(found(t, NewFinder(tenants(t, seed, c.slow)), asked(0, 4200)), "")
			if change == nil || change.Who == nil {
				last = "nobody"
				continue
			}
			if last = change.Who.Sentence; slices.Equal(change.Who.Cohorts, c.cohorts) && change.Who.CohortsJudged == 3 {
				right++
			}
		}
		t.Logf("%s: %d of %d: %s", c.name, right, trials, last)
		if right < trials {
			t.Errorf("%s: named in %d of %d: %s", c.name, right, trials, last)
		}
	}
}

// A cohort is dropped for its tenants only where most of them surely did not move.
func TestCohortOfACutList(t *testing.T) {
	tenants := []api.CompareRow{
		{Tenant: "a", Cohort: series.Small, RequestsA: 50, RequestsB: 50, Changed: true},
		{Tenant: "b", Cohort: series.Small, RequestsA: 50, RequestsB: 50},
		{Tenant: "c", Cohort: series.Large, RequestsA: 900, RequestsB: 900},
	}
	for _, c := range []struct {
		tenants int // of the cohort
		want    bool
	}{{2, true}, {3, false}, {4, false}, {0, false}} {
		if got := ofSingleTenants(tenants, api.CompareRow{Cohort: series.Small, Tenants: c.tenants}); got != c.want {
			t.Errorf("2 of %d tenants listed: %v, want %v", c.tenants, got, c.want)
		}
	}
}

// BenchmarkWho finds a change that one cohort makes, with who moved.
func BenchmarkWho(b *testing.B) {
	st := tenants(b, 1, func(cohort string, _ int) bool { return cohort == series.VeryLarge })
	for b.Loop() {
		if c := of(found(b, NewFinder(st), asked(0, 4200)), ""); c == nil || c.Who == nil {
			b.Fatal("no change, or nobody who moved")
		}
	}
}
