package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// world draws requests of a service before and after a moment. Their operations differ in
// how long they take, one is always slow; one tenant is always slow; traffic of each
// tenant and operation, and how long requests take, come and go with the correlation phi
// of neighbouring slots.
type world struct {
	phi          float64
	slots        int // before, and as many after
	perSlot      float64
	wander       float64                  // standard deviation of what requests of a slot take in common, as a logarithm
	slower       func(r *request) float64 // from the moment on
	before, then []float64                // shares of tenants
}

type request struct{ operation, tenant, instance, backend, version string }

var (
	typical = map[string]float64{"GET /cart": 0.04, "GET /search": 0.12, "POST /order": 0.2, "GET /item": 0.02, "GET /report": 0.9}
	offered = []string{"GET /cart", "GET /search", "POST /order", "GET /item", "GET /report"}
	payers  = []string{"acme", "globex", "initech", "umbrella", "hooli", "always"}
	even    = []float64{0.2, 0.2, 0.2, 0.15, 0.15, 0.1}
)

func (w *world) walk(rng *rand.Rand, sd float64) []float64 {
	x, out := sd*rng.NormFloat64(), make([]float64, 2*w.slots)
	for i := range out {
		out[i] = math.Exp(x)
		x = w.phi*x + sd*math.Sqrt(1-w.phi*w.phi)*rng.NormFloat64()
	}
	return out
}

// send writes the requests of a trial.
func (w *world) send(t testing.TB, seed uint64) store.Store {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 18))
	out := querytest.NewWriter()
	all := map[request]labels.Labels{}
	common := w.walk(rng, w.wander)
	byOperation, byTenant := map[string][]float64{}, map[string][]float64{}
	for _, o := range offered {
		byOperation[o] = w.walk(rng, 0.3)
	}
	for _, x := range payers {
		byTenant[x] = w.walk(rng, 0.3)
	}
	for slot := range 2 * w.slots {
		after := slot >= w.slots
		shares := w.before
		if after {
			shares = w.then
		}
		for _, o := range offered {
			for i, tenant := range payers {
				for range trials.Poisson(rng, w.perSlot*shares[i]/float64(len(offered))*byOperation[o][slot]*byTenant[tenant][slot]) {
					r := request{o, tenant, fmt.Sprint("pod-", rng.IntN(4)), fmt.Sprint("db-", rng.IntN(3)), "1"}
					seconds := typical[o] * common[slot] * math.Exp(0.5*rng.NormFloat64())
					if tenant == "always" {
						seconds *= 4
					}
					if after && w.slower != nil {
						seconds *= w.slower(&r)
					}
					l, ok := all[r]
					if !ok {
						l = labels.FromStrings(series.LabelService, "shop", series.LabelOperation, r.operation, series.LabelTenant, r.tenant, series.LabelStatus, "ok",
							series.LabelInstance, r.instance, series.LabelKind, "server", series.LabelComponent, "app", "backend", r.backend, series.LabelVersion, r.version)
						all[r] = l
					}
					out.Span(epoch+int64(slot)*10, l, seconds)
				}
			}
		}
	}
	st := storetest.NewTwin()
	if err := out.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

// ask asks about everything beyond 300 ms after the moment.
func (w *world) ask() Request {
	return Request{
		Selection: query.Selection{
			Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, "shop")},
			Start:    time.Unix(epoch, 0), End: time.Unix(epoch+int64(w.slots)*20, 0),
		},
		From: time.Unix(epoch+int64(w.slots)*10, 0), Low: 0.3, High: inf,
	}
}

func times(factor float64, of func(r *request) bool) func(*request) float64 {
	return func(r *request) float64 {
		if of(r) {
			return factor
		}
		return 1
	}
}

func isAcme(r *request) bool { return r.tenant == "acme" }

// A planted cause is named first, and two are among the first three.
func TestBecameSlow(t *testing.T) {
	n, first := trials.Of(20), trials.First()
	for _, c := range []struct {
		name   string
		slower func(*request) float64
		want   []string
	}{
		{"tenant ×1.4", times(1.4, isAcme), []string{"tenant acme"}},
		{"tenant ×2", times(2, isAcme), []string{"tenant acme"}},
		{"tenant ×3", times(3, isAcme), []string{"tenant acme"}},
		{"operation", times(2, func(r *request) bool { return r.operation == "GET /search" }), []string{"operation GET /search"}},
		{"the always slow operation", times(2, func(r *request) bool { return r.operation == "GET /report" }), []string{"operation GET /report"}},
		{"instance", times(2, func(r *request) bool { return r.instance == "pod-2" }), []string{"instance pod-2"}},
		{"backend", times(2, func(r *request) bool { return r.backend == "db-1" }), []string{"backend db-1"}},
		{"pair", times(3, func(r *request) bool { return isAcme(r) && r.operation == "GET /search" }), []string{"operation GET /search with tenant acme"}},
		{"tenant and operation", func(r *request) float64 {
			return times(2, isAcme)(r) * times(2, func(r *request) bool { return r.operation == "POST /order" })(r)
		}, []string{"tenant acme", "operation POST /order"}},
		{"tenant and instance", func(r *request) float64 {
			return times(2, isAcme)(r) * times(2, func(r *request) bool { return r.instance == "pod-2" })(r)
		}, []string{"tenant acme", "instance pod-2"}},
		{"two tenants", func(r *request) float64 {
			return times(2, isAcme)(r) * times(1.6, func(r *request) bool { return r.tenant == "hooli" })(r)
		}, []string{"tenant acme", "tenant hooli"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{phi: 0.6, slots: 40, perSlot: 90, wander: 0.05, slower: c.slower, before: even, then: even}
			good, others := 0, map[string]int{}
			for trial := range n {
				got := said(explained(t, w.send(t, first+uint64(trial)), w.ask()))
				all := true
				for _, want := range c.want {
					at := -1
					for i, x := range got[:min(len(got), 2*len(c.want)-1)] {
						if x == want {
							at = i
						}
					}
					all = all && at >= 0
				}
				if all {
					good++
				}
				for _, x := range got {
					others[x]++
				}
			}
			t.Logf("named as wanted in %d of %d: %v", good, n, others)
			if 100*good < 95*n {
				t.Errorf("named %s in %d of %d", strings.Join(c.want, ", "), good, n)
			}
		})
	}
}

// Without a cause nothing is named, also when an always slow tenant sends more.
func TestNothingBecameSlow(t *testing.T) {
	n, first := trials.Of(20), trials.First()
	for _, c := range []struct {
		name   string
		phi    float64
		slots  int
		wander float64
		then   []float64
		low    float64
	}{
		{"steady", 0, 40, 0, even, 0.3},
		{"bursts", 0.6, 40, 0.05, even, 0.3},
		{"long bursts", 0.9, 40, 0.05, even, 0.3},
		{"five minutes", 0.6, 30, 0.05, even, 0.3},
		{"the mix moves", 0.6, 40, 0.05, []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.5}, 0.3},
		{"all wander", 0.6, 40, 0.2, even, 0.3},
		{"all wander long", 0.9, 40, 0.2, even, 0.3},
		{"without bounds", 0.6, 40, 0.05, even, -inf},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{phi: c.phi, slots: c.slots, perSlot: 60, wander: c.wander, before: even, then: c.then}
			named, what := 0, map[string]int{}
			for trial := range n {
				wanted := w.ask()
				wanted.Low = c.low
				r := explained(t, w.send(t, 1000+first+uint64(trial)), wanted)
				if len(r.Items) > 0 {
					named++
				} else if !strings.Contains(r.Sentence, "slower here") {
					t.Errorf("%+v", r)
				}
				for _, x := range said(r) {
					what[x]++
				}
			}
			t.Logf("something named in %d of %d: %v", named, n, what)
			if most := 0.05*float64(n) + 2*math.Sqrt(0.05*float64(n)); float64(named) > most {
				t.Errorf("something named in %d of %d", named, n)
			}
		})
	}
}
