package changes

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// orders is slots of requests of a shop, which call a database calls times on average and
// a cache once; both take a time that varies by request and, by phi, from slot to slot.
func orders(t *testing.T, rng *rand.Rand, slots int, phi float64, calls, slow func(slot int) float64) store.Store {
	t.Helper()
	w := querytest.NewWriter()
	span := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /orders", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app")
	var wander [2]float64
	for slot := range slots {
		for i := range wander {
			wander[i] = phi*wander[i] + 0.1*math.Sqrt(1-phi*phi)*rng.NormFloat64()
		}
		at := epoch + 10*int64(slot)
		for range 20 {
			n := 1 + trials.Poisson(rng, calls(slot)-1)
			took := func(seconds, wander float64) time.Duration {
				return time.Duration(1e9 * seconds * math.Exp(wander+0.5*rng.NormFloat64()))
			}
			db, cache := took(0.002*float64(n)*slow(slot), wander[0]), took(0.001, wander[1])
			w.Request(querytest.Request{At: at, Service: "shop", Operation: "GET /orders", Cohort: series.Small, Duration: db + cache, Parts: []querytest.Part{
				{Service: "shop", Component: series.ComponentDB, Operation: "SELECT orders", Self: db, Critical: db, Calls: n},
				{Service: "shop", Component: series.ComponentCache, Operation: "GET", Self: cache, Critical: cache, Calls: 1},
			}})
			w.Span(at, span, (50*time.Millisecond + db + cache).Seconds())
		}
	}
	return put(t, storetest.NewTwin(), w)
}

func innerOf(r *api.ChangesResponse, operation string) (out []api.Change) {
	for _, c := range r.Changes {
		if c.Part != nil && c.Part.Operation == operation {
			out = append(out, c)
		}
	}
	return out
}

// A service that calls its database 9 times a request, which did so twice, is found by
// that, and one whose database takes twice as long by the time; the cache did not change.
func TestCallsPerRequest(t *testing.T) {
	const slots, at = 240, 150
	trials := trials.Of(5)
	for _, c := range []struct {
		name, found, headline, change string
		calls, slow                   func(int) float64
	}{
		{"calls", Calls, "calls of SELECT orders (db) per request of shop ", "more calls of SELECT orders (db)", from(at, 2, 9), always(1)},
		{"time", Time, "time in SELECT orders (db) per request of shop ", "more time in SELECT orders (db)", always(2), from(at, 1, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			right, others := 0, 0
			for i := range trials {
				r := found(t, NewFinder(orders(t, rand.New(rand.NewPCG(41, uint64(i))), slots, 0.5, c.calls, c.slow)), asked(0, 10*slots))
				if r.Searched != 2+2 {
					t.Errorf("%d series were searched, want the service, its operation, and two parts", r.Searched)
				}
				for _, x := range innerOf(r, "SELECT orders") {
					if math.Abs(float64(x.Time)-float64(epoch+10*at)) > 50 || !slices.Contains(x.Found, c.found) {
						others++
						continue
					}
					right++
					if !strings.HasPrefix(x.Headline, c.headline) || !strings.HasPrefix(x.Name, c.change) || x.Verdict != "regression" {
						t.Errorf("%s: %s; %s", x.Verdict, x.Headline, x.Name)
					}
					if i == 0 {
						t.Log(x.Sentence)
					}
				}
				others += len(innerOf(r, "GET"))
			}
			t.Logf("%d trials: %d found within five slots, %d others", trials, right, others)
			if right < trials || others > 1 {
				t.Errorf("%d trials: %d found within five slots, %d others", trials, right, others)
			}
		})
	}
}

// What is called as often as before, and takes as long, has no change.
func TestPartsWithoutAChange(t *testing.T) {
	trials := trials.Of(4)
	for _, phi := range []float64{0, 0.5, 0.9} {
		alarms := 0
		for i := range trials {
			r := found(t, NewFinder(orders(t, rand.New(rand.NewPCG(42+uint64(100*phi), uint64(i))), 360, phi, always(2), always(1))), asked(0, 3600))
			if slices.ContainsFunc(r.Changes, func(c api.Change) bool { return c.Part != nil }) {
				alarms++
			}
		}
		t.Logf("%d hours, correlation %v: %d with a change of a part", trials, phi, alarms)
		if float64(alarms) > 0.05*float64(trials)+2.5*math.Sqrt(0.05*float64(trials)) {
			t.Errorf("%d hours, correlation %v: %d with a change of a part", trials, phi, alarms)
		}
	}
}

// The parts of a service are searched however many another service has.
func TestPartsOfEachService(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(43, 1))
	for slot := range 240 {
		at := epoch + 10*int64(slot)
		var parts []querytest.Part
		for i := range mostPartsRead + 10 {
			parts = append(parts, querytest.Part{Service: "bulk", Component: series.ComponentDB, Operation: fmt.Sprint("SELECT ", i), Self: time.Second, Critical: time.Second, Calls: 20})
		}
		w.Request(querytest.Request{At: at, Service: "bulk", Operation: "GET /", Cohort: series.Small, Duration: 110 * time.Second, Parts: parts})
		for range 4 {
			n, db := 1+trials.Poisson(rng, from(150, 1, 8)(slot)), time.Millisecond
			w.Request(querytest.Request{At: at, Service: "shop", Operation: "GET /orders", Cohort: series.Small, Duration: db, Parts: []querytest.Part{
				{Service: "shop", Component: series.ComponentDB, Operation: "SELECT orders", Self: db, Critical: db, Calls: n},
			}})
		}
	}
	r := found(t, NewFinder(put(t, storetest.NewTwin(), w)), asked(0, 2400))
	if got := innerOf(r, "SELECT orders"); len(got) != 1 || !slices.Contains(got[0].Found, Calls) {
		t.Errorf("searched %d, found %+v", r.Searched, got)
	}
}

// crowded is a store in which the parts of all services together are too many for one question.
type crowded struct {
	store.Store
	refused bool
}

func (c *crowded) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if q.Family == series.BreakdownSelf && !slices.ContainsFunc(q.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelService }) {
		c.refused = true
		return nil, fmt.Errorf("query %s: %w", q.Family, store.ErrTooMany)
	}
	return c.Store.Query(ctx, q)
}

// The parts of services are read of each by itself where those of all take too much memory.
func TestPartsOfManyServices(t *testing.T) {
	st := &crowded{Store: orders(t, rand.New(rand.NewPCG(44, 1)), 240, 0.5, from(150, 2, 9), always(1))}
	r := found(t, NewFinder(st), asked(0, 2400))
	if got := innerOf(r, "SELECT orders"); !st.refused || r.Searched != 2+2 || len(got) != 1 || !slices.Contains(got[0].Found, Calls) {
		t.Errorf("refused %v, searched %d, found %+v", st.refused, r.Searched, got)
	}
}
