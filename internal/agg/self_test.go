package agg

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

// selfTarget resolves the series of span_self_seconds of a request and its component.
func selfTarget(a *Aggregator, id *SpanIdentity) Target {
	return a.spanTarget(series.SpanSelf, id)
}

// Time spent is kept in the views that durations are kept in, with the same
// names folded.
func TestSelfTargets(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants, o.MaxOperations = 1, 1 })
	request := SpanIdentity{Service: "shop", Operation: "GET /", Component: "app", Kind: "server", Status: "ok", Tenant: "acme", Version: "2", Instance: "i-1"}
	other := request
	other.Tenant, other.Operation = "globex", "GET /late"

	b := a.NewBatch()
	for _, id := range []*SpanIdentity{&request, &other} {
		b.Observe(a.SpanTarget(id), c.now().UnixNano(), 9e6, 1)
		self := *id
		self.Component = "db"
		b.Observe(selfTarget(a, &self), c.now().UnixNano(), 7e6, 1)
	}
	commit(t, b)
	flush(t, a)

	want := map[series.View]map[string]uint64{
		series.Full: {
			`{component="db", kind="server", operation="GET /", service="shop", status="ok", tenant="acme", version="2"}`: 1,
			`{kind="server", service="shop", status="ok", tenant="_other"}`:                                               1,
		},
		series.Marginal: {
			`{component="db", instance="i-1", kind="server", operation="GET /", service="shop", status="ok", version="2"}`:  1,
			`{component="db", instance="i-1", kind="server", operation="_other", service="shop", status="ok", version="2"}`: 1,
		},
		series.Total: {
			`{component="db", kind="server", service="shop", status="ok", version="2"}`: 2,
		},
	}
	for view, w := range want {
		got := map[string]uint64{}
		for name, slots := range st.slots(t, series.SpanSelf, view) {
			for _, h := range slots {
				got[name] += h.Count
				if h.Sum != 0.007*float64(h.Count) {
					t.Errorf("view %d %s: sum %v of %d observations of 7 ms", view, name, h.Sum, h.Count)
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(w) {
			t.Errorf("view %d: got %v, want %v", view, got, w)
		}
	}
}

func TestNamed(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants, o.MaxOperations, o.MaxInstances = 1, 2, 1 })
	id := func(operation, tenant, instance string) SpanIdentity {
		return SpanIdentity{Service: "shop", Operation: operation, Component: "app", Kind: "server", Status: "ok", Tenant: tenant, Version: "2", Instance: instance,
			Extra: []labels.Label{{Name: "region", Value: "eu"}}}
	}
	b := a.NewBatch()
	defer b.Discard()
	for _, x := range []struct{ in, want SpanIdentity }{
		{id("GET /", "acme", "i-1"), id("GET /", "acme", "i-1")},
		{id("GET /", "globex", "i-2"), id("GET /", series.Other, series.Other)},
		{id("GET /cart", "", "i-1"), id("GET /cart", "", "i-1")},
		{id("GET /late", "globex", "i-1"), id(series.Other, series.Other, "i-1")},
		{id("GET /late", "acme", "i-1"), id(series.Other, "acme", "i-1")},
		{id("GET /", "acme", "i-1"), id("GET /", "acme", "i-1")},
	} {
		want := a.SpanTarget(&x.in)
		for range 2 {
			got := x.in
			if n := a.NamedTarget(&got); n != want || fmt.Sprint(got) != fmt.Sprint(x.want) {
				t.Errorf("%v: got %v, target %d; want %v, %d", x.in, got, n, x.want, want)
			}
			a.reg.clearGroups() // then its series has to say
		}
	}
}

func TestCohort(t *testing.T) {
	st, c := newMemStore(), newClock() // 12:00:05
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants = 4 })
	spans := func(tenant string, n int) {
		observe(t, a, c, SpanIdentity{Service: "shop", Operation: "o", Kind: "server", Status: "ok", Tenant: tenant}, n)
	}
	cohorts := func() string {
		s := ""
		for _, tenant := range []string{"a", "b", "c", "d", series.Other, "unknown"} {
			s += fmt.Sprintf("%s %s, ", tenant, a.Cohort("shop", tenant))
		}
		return s
	}
	check := func(when, want string) {
		t.Helper()
		if got := cohorts(); got != want {
			t.Errorf("%s: %s\nwant %s", when, got, want)
		}
	}
	if got := a.Cohort("nobody", "a"); got != series.Small {
		t.Errorf("tenant of an unknown service is %q", got)
	}
	if got := a.Cohort("shop", ""); got != "" {
		t.Errorf("no tenant is of cohort %q", got)
	}
	spans("a", 9400)
	spans("b", 500)
	spans("c", 90)
	spans("d", 9)
	spans("", 1)
	first := "a very large, b very large, c medium, d small, _other small, unknown small, "
	check("asked before any flush", first)

	spans("c", 5000)
	flush(t, a)
	check("half as much again", first)
	spans("c", 10000)
	c.advance(time.Minute)
	flush(t, a)
	settled := "a very large, b large, c very large, d small, _other small, unknown small, "
	check("more than twice as much", settled)

	// In the hours that follow only their turn counts.
	c.advance(time.Hour)
	flush(t, a)
	spans("d", 20000)
	c.advance(time.Minute)
	flush(t, a)
	check("within the hour", settled)
	c.advance(time.Hour)
	flush(t, a)
	check("in the next", "a very large, b medium, c very large, d very large, _other small, unknown small, ")

	// A restart remembers the named ones' weight.
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants = 4 })
	check("after a restart", "a very large, b medium, c very large, d very large, _other small, unknown small, ")
}

// What a request does within the service makes its tenant no larger.
func TestCohortIsByRequests(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	for _, x := range []struct {
		service, kind, tenant string
		n                     int
	}{
		{"shop", "server", "often", 990}, {"shop", "server", "seldom", 10}, {"shop", "client", "seldom", 5000},
		{"cron", "internal", "often", 10}, {"cron", "client", "seldom", 990},
	} {
		observe(t, a, c, SpanIdentity{Service: x.service, Operation: "o", Kind: x.kind, Status: "ok", Tenant: x.tenant}, x.n)
	}
	for _, x := range []struct{ service, tenant, want string }{
		{"shop", "often", series.VeryLarge}, {"shop", "seldom", series.Large},
		{"cron", "often", series.Large}, {"cron", "seldom", series.VeryLarge},
	} {
		if got := a.Cohort(x.service, x.tenant); got != x.want {
			t.Errorf("%s of %s is %s, want %s", x.tenant, x.service, got, x.want)
		}
	}
}

// A month late is in time where hours are kept for a year.
func TestOldObservations(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.Retention = 400 * 24 * time.Hour })
	id := SpanIdentity{Service: "s", Operation: "o", Kind: "server", Status: "ok"}
	b := a.NewBatch()
	target := a.SpanTarget(&id)
	for _, age := range []time.Duration{0, 30 * 24 * time.Hour, 400 * 24 * time.Hour, 401 * 24 * time.Hour} {
		b.Observe(target, c.now().Add(-age).UnixNano(), 1e6, 1)
	}
	rejects, err := b.Commit(t.Context())
	if err != nil || rejects.TooOld != 1 || rejects.Total() != 1 {
		t.Fatalf("commit: %+v, %v, want one too old", rejects, err)
	}
	flush(t, a)
	for name, slots := range st.slots(t, series.SpanDuration, series.Full) {
		if len(slots) != 3 {
			t.Errorf("%s has %d slots, want 3", name, len(slots))
		}
	}
}
