package query

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// crowd is an hour of tenants: acme sends nine of ten requests, of which one in
// fifty is slow; globex some, never slow; five-slow five, all slow at once; and
// bursty many, all slow ones in one minute.
func crowd(t *testing.T) *storetest.Twin {
	t.Helper()
	st := storetest.NewTwin()
	w := querytest.NewWriter()
	put := func(at int64, tenant, status string, seconds float64) {
		w.Span(querytest.Epoch+at, labels.FromStrings("service", "shop", "operation", "GET /", "component", "app", "kind", "server", "status", status, "tenant", tenant), seconds)
	}
	for i := range int64(3600) {
		for k := range int64(5) {
			d := 0.05
			if (i*5+k)%50 == 7 {
				d = 2
			}
			put(i, "acme", "ok", d)
		}
		if i%5 == 0 {
			put(i, "globex", map[bool]string{true: "error", false: "ok"}[i%100 == 0], 0.5)
		}
		if i%9 == 0 {
			d := 0.05
			if i >= 1800 && i < 1860 {
				d = 20
			}
			put(i, "bursty", "ok", d)
		}
		if i < 5 {
			put(i, "five-slow", "ok", 3)
		}
		put(i, "", "ok", 7) // on nobody's behalf
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

var crowdRange = Selection{Start: time.Unix(querytest.Epoch, 0), End: time.Unix(querytest.Epoch+3600, 0)}

func TestTenants(t *testing.T) {
	st := crowd(t)
	qs := []Quantile{{"0.5", 0.5}, {"0.99", 0.99}}
	out, err := Tenants(t.Context(), st, TenantsRequest{Selection: crowdRange, Quantiles: qs})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]api.Tenant{}
	for _, x := range out.Tenants {
		by[x.Name] = x
	}
	near := func(what string, got api.Float, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	acme, five, bursty := by["acme"], by["five-slow"], by["bursty"]
	if out.Total != 4 || acme.Requests != 18000 || by["globex"].Errors != 36 || acme.Cohort != series.VeryLarge || five.Cohort != series.Small {
		t.Errorf("got %+v", out.Tenants)
	}
	near("acme's share of slow requests", acme.SlowShare, 0.02)
	near("acme's instant requests", acme.InBands[0], 0.98)
	near("acme's patience", acme.InBands[2], 0.02)
	near("bursty's lost", bursty.InBands[4], float64(7)/400)
	if !acme.NotRare || !(acme.SlowLow > 0.01 && acme.SlowLow < 0.02 && acme.SlowHigh > 0.02) {
		t.Errorf("acme's slow requests: %v [%v, %v], not rare %v; they are", acme.SlowShare, acme.SlowLow, acme.SlowHigh, acme.NotRare)
	}
	if five.NotRare || !math.IsNaN(float64(five.SlowLow)) || five.SlowShare != 1 {
		t.Errorf("five requests are no evidence: %+v", five)
	}
	if bursty.NotRare || bursty.SlowLow > 0.01 {
		t.Errorf("all of bursty's slow requests came in a minute: %v [%v, %v]", bursty.SlowShare, bursty.SlowLow, bursty.SlowHigh)
	}
	sum, requests := 0, uint64(0)
	for _, c := range out.Cohorts {
		sum += c.Tenants
		requests += c.Requests
	}
	if e := out.Everyone; sum != 4 || e.Tenants != 4 || requests != e.Requests || e.Requests != 18000+720+400+5 || e.NotRare != 1 || out.CohortsBy != series.CohortsByShare {
		t.Errorf("cohorts %+v, everyone %+v", out.Cohorts, e)
	}
}

// A range that is far longer than what there is in it says as much of it.
func TestTenantsOfALongRange(t *testing.T) {
	st := crowd(t)
	for _, days := range []time.Duration{1, 30, 10_000} {
		long := Selection{Start: crowdRange.End.Add(-days * 24 * time.Hour), End: crowdRange.End.Add(time.Hour)}
		out, err := Tenants(t.Context(), st, TenantsRequest{Selection: long, NotRare: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Tenants) != 1 || out.Tenants[0].Name != "acme" || !(out.Tenants[0].SlowLow < 0.02 && out.Tenants[0].SlowHigh > 0.02) {
			t.Errorf("of %d days: %+v; acme's slow requests are not rare", days, out.Tenants)
		}
	}
}

// tiers answers from the coarsest slots that a step allows, as a store with roll-ups does.
type tiers struct{ *storetest.Twin }

func (s tiers) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	res, err := s.Twin.Query(ctx, q)
	for _, r := range []series.Resolution{series.Minute, series.TenMin, series.Hour} {
		if res != nil && q.Step%int64(r) == 0 {
			res.Resolution = r
		}
	}
	return res, err
}

// Empty time before and after the data does not change who has slow requests that are
// not rare, nor an interval; nor does who else is asked for.
func TestEmptyTimeChangesNoInterval(t *testing.T) {
	twin := crowd(t)
	for _, st := range []store.Store{twin, tiers{twin}} {
		var want map[string]string
		for _, empty := range []time.Duration{0, 20 * time.Minute, time.Hour, 5 * time.Hour, 23 * time.Hour, 40 * 24 * time.Hour} {
			for _, search := range []string{"", "acme"} {
				out, err := Tenants(t.Context(), st, TenantsRequest{Selection: Selection{Start: crowdRange.Start.Add(-empty), End: crowdRange.End.Add(empty / 10)}, Search: search})
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for _, x := range out.Tenants {
					got[x.Name] = fmt.Sprint(x.SlowShare, x.SlowLow, x.SlowHigh, x.NotRare)
				}
				if want == nil {
					want = got
				}
				for name, v := range got {
					if v != want[name] {
						t.Errorf("%s with %s of empty time, of %q: got %s, want %s", name, empty, search, v, want[name])
					}
				}
			}
		}
	}
}

func TestTenantsFiltersAndOrders(t *testing.T) {
	st := crowd(t)
	list, err := series.NewTenantList([]series.ListedTenant{{Name: "globex", Size: 90}, {Name: "acme", Size: 2}, {Name: "bursty", Size: 8}}, series.CohortSizes{})
	if err != nil {
		t.Fatal(err)
	}
	qs := []Quantile{{"0.99", 0.99}}
	cache := NewTenantCache(1 << 20)
	now := time.Unix(querytest.Epoch+4000, 0)
	for _, c := range []struct {
		r    TenantsRequest
		want string
	}{
		{TenantsRequest{}, "[globex acme bursty five-slow]"}, // one in twenty of globex' fails
		{TenantsRequest{Sort: "suffers", Search: "s"}, "[bursty five-slow]"},
		{TenantsRequest{Sort: "requests"}, "[acme globex bursty five-slow]"},
		{TenantsRequest{Sort: "-requests"}, "[five-slow bursty globex acme]"},
		{TenantsRequest{Sort: "name"}, "[acme bursty five-slow globex]"},
		{TenantsRequest{Sort: "-name"}, "[globex five-slow bursty acme]"},
		{TenantsRequest{Sort: "slow"}, "[five-slow acme bursty globex]"},
		{TenantsRequest{Sort: "0.99"}, "[bursty five-slow acme globex]"},
		{TenantsRequest{Sort: "cohort"}, "[acme globex bursty five-slow]"},
		{TenantsRequest{Sort: "size", List: list}, "[globex bursty acme five-slow]"},
		{TenantsRequest{Cohort: "very-large"}, "[acme]"},
		{TenantsRequest{Cohort: series.Large}, "[globex bursty]"},
		{TenantsRequest{NotRare: true}, "[acme]"},
		{TenantsRequest{NotRare: true, Slow: 0.3}, "[globex acme]"},
		{TenantsRequest{NotRare: true, Rare: 0.05}, "[]"},
		{TenantsRequest{Search: "ST"}, "[bursty]"},
		{TenantsRequest{Offset: 1, Limit: 2}, "[acme bursty]"},
		{TenantsRequest{Offset: 9}, "[]"},
	} {
		for _, kept := range []*TenantCache{nil, cache} {
			r := c.r
			r.Selection, r.Quantiles, r.Now, r.Cache = crowdRange, qs, now, kept
			if r.List != nil {
				r.Cache = nil // a list is the server's, one for all questions
			}
			out, err := Tenants(t.Context(), st, r)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{}
			for _, x := range out.Tenants {
				names = append(names, x.Name)
			}
			if got := fmt.Sprint(names); got != c.want {
				t.Errorf("%+v: got %s, want %s", c.r, got, c.want)
			}
		}
	}
}

// A summary answers for a minute of the questions' time, then is read again.
func TestTenantsAreKeptForAMinute(t *testing.T) {
	st := &spy{Store: crowd(t)}
	cache := NewTenantCache(1 << 20)
	now := time.Unix(querytest.Epoch+4000, 0)
	reads := func(later time.Duration, search string) int {
		st.queries = nil
		if _, err := Tenants(t.Context(), st, TenantsRequest{Selection: crowdRange, Search: search, Now: now.Add(later), Cache: cache}); err != nil {
			t.Fatal(err)
		}
		return len(st.queries)
	}
	if n := reads(0, ""); n == 0 {
		t.Error("the first question read nothing")
	}
	if n := reads(59*time.Second, "acme"); n != 0 {
		t.Errorf("a search read %d times", n)
	}
	if n := reads(61*time.Second, ""); n == 0 {
		t.Error("what was read is used after a minute")
	}
	if cache.held <= 0 || cache.held > cache.most || len(cache.byKey) != 1 {
		t.Errorf("%d bytes are held in %d summaries", cache.held, len(cache.byKey))
	}
	small := NewTenantCache(10)
	if _, err := Tenants(t.Context(), st, TenantsRequest{Selection: crowdRange, Now: now, Cache: small}); err != nil || small.held != 0 || len(small.byKey) != 0 {
		t.Errorf("beyond its bound %d bytes are kept, %v", small.held, err)
	}
}
