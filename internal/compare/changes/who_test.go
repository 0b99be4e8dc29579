package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
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

// A tenant that became slow in one operation of many is named beside that operation, and one
// of 70 tenants that all became slower is not named for having the most requests.
func TestWhoIsATenant(t *testing.T) {
	send := func(seed uint64, tenants int, slow func(operation, tenant int) float64) store.Store {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 9))
		for sec := int64(0); sec < 4200; sec += 10 {
			for range 40 {
				operation, tenant := rng.IntN(6), int(float64(tenants)*math.Pow(rng.Float64(), 2))
				median := 0.02 * float64(operation+1)
				if sec >= 2400 {
					median *= slow(operation, tenant)
				}
				w.Span(epoch+sec, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, fmt.Sprintf("GET /%d", operation), series.LabelTenant, fmt.Sprintf("t%02d", tenant),
					series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app"), median*math.Exp(0.4*rng.NormFloat64()))
			}
		}
		return put(t, storetest.NewTwin(), w)
	}
	const trials = 2
	t.Run("of an operation", func(t *testing.T) {
		for seed := range uint64(trials) {
			st := send(seed, 10, func(operation, tenant int) float64 {
				if operation == 2 && tenant == 0 {
					return 2
				}
				return 1
			})
			said, named := []string{}, false
			for _, c := range found(t, NewFinder(st), asked(0, 4200)).Changes {
				if c.Who != nil {
					said = append(said, c.Sentence+": "+c.Who.Sentence)
					named = named || slices.Equal(c.Who.Tenants, []string{"t00"})
				}
			}
			if t.Log(said); !named {
				t.Errorf("seed %d: %q, want t00", seed, said)
			}
		}
	})
	t.Run("all", func(t *testing.T) {
		for seed := range uint64(trials) {
			c := of(found(t, NewFinder(send(seed, 70, func(int, int) float64 { return 1.25 })), asked(0, 4200)), "")
			if c == nil || c.Who == nil {
				t.Fatalf("seed %d: %+v", seed, c)
			}
			if t.Log(c.Who.Sentence); !strings.HasPrefix(c.Who.Sentence, "all ") {
				t.Errorf("seed %d: %s", seed, c.Who.Sentence)
			}
		}
	})
}

// A cohort is dropped for its tenants only where most of them surely did not move.
func TestCohortOfACutList(t *testing.T) {
	tenants := []api.CompareRow{
		{Tenant: "a", Cohort: series.Small, RequestsA: 50, RequestsB: 50, Changed: true, Measures: []api.CompareMeasure{{Name: "p50", Verdict: judge.Slower}}},
		{Tenant: "b", Cohort: series.Small, RequestsA: 50, RequestsB: 50},
		{Tenant: "c", Cohort: series.Large, RequestsA: 900, RequestsB: 900},
	}
	for _, c := range []struct {
		tenants int // of the cohort
		want    bool
	}{{2, true}, {3, false}, {4, false}, {0, false}} {
		if got := ofSingleTenants(tenants, &api.CompareRow{Cohort: series.Small, Tenants: c.tenants}, []string{Durations}); got != c.want {
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
