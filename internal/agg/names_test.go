package agg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
)

func observe(t *testing.T, a *Aggregator, c *clock, id SpanIdentity, n int) {
	t.Helper()
	b := a.NewBatch()
	target := a.SpanTarget(&id)
	for range n {
		b.Observe(target, c.now().UnixNano(), 1e6, 1)
	}
	commit(t, b)
}

// byTenant sums the Full view by tenant.
func byTenant(t *testing.T, st *memStore) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	st.mu.Lock()
	of := map[string]string{}
	for _, s := range st.series {
		of[s.Labels.String()] = s.Labels.Get(series.LabelTenant)
	}
	st.mu.Unlock()
	for k, slots := range st.slots(t, series.SpanDuration, series.Full) {
		for _, h := range slots {
			out[of[k]] += h.Count
		}
	}
	return out
}

func TestTenantsAreNamedByWeight(t *testing.T) {
	st, c := newMemStore(), newClock() // 12:00:05
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxTenants = 3 })
	id := func(tenant string) SpanIdentity {
		return SpanIdentity{Service: "s", Operation: "op-of-" + tenant, Kind: "server", Status: "ok", Tenant: tenant}
	}
	// The first three to come are named, however light.
	for _, x := range []string{"light-1", "light-2", "heavy-1", "heavy-2", "heavy-3"} {
		n := 10
		if x[0] == 'h' {
			n = 1000
		}
		observe(t, a, c, id(x), n)
	}
	flush(t, a)
	want := map[string]uint64{"light-1": 10, "light-2": 10, "heavy-1": 1000, series.Other: 2000}
	if got := byTenant(t, st); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("first hour: %v, want %v", got, want)
	}
	if got := st.slots(t, series.SpanDuration, series.Full)[labels.FromStrings("service", "s", "kind", "server", "status", "ok", "tenant", "_other").String()]; len(got) != 1 {
		t.Errorf("folded tenants are not one series: %v", got)
	}
	if s := a.Stats(); s.FoldedTenants != 2 || s.FoldedObservations != 2000 {
		t.Errorf("folded %d tenants and %d observations, want 2 and 2000", s.FoldedTenants, s.FoldedObservations)
	}
	// The next hour names the heaviest.
	epoch := a.Epoch()
	old := a.NewBatch()
	before := a.SpanTarget(&SpanIdentity{Service: "s", Operation: "op-of-light-1", Kind: "server", Status: "ok", Tenant: "light-1"})
	c.advance(time.Hour)
	flush(t, a)
	if a.Epoch() == epoch {
		t.Error("names changed, but not the epoch")
	}
	if old.Epoch() != epoch {
		t.Error("the batch is not pinned")
	}
	old.Observe(before, c.now().Add(-time.Hour).UnixNano(), 1, 1) // of a batch begun before: still good
	commit(t, old)
	for _, x := range []string{"heavy-1", "heavy-2", "heavy-3", "light-2"} {
		observe(t, a, c, id(x), 5)
	}
	flush(t, a)
	want = map[string]uint64{"light-1": 11, "light-2": 10, "heavy-1": 1005, "heavy-2": 5, "heavy-3": 5, series.Other: 2005}
	if got := byTenant(t, st); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("second hour: %v, want %v", got, want)
	}
	if got, want := st.count(t, series.SpanDuration, series.Marginal), uint64(3041); got != want {
		t.Errorf("marginals hold %d, want %d", got, want)
	}
}

func TestNamedTenantsSurviveARestart(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	small := func(o *Options) { o.MaxTenants = 2 }
	a := open(t, st, c, dir, small)
	for _, x := range []string{"a", "b", "c"} {
		observe(t, a, c, SpanIdentity{Service: "s", Tenant: x}, 1)
	}
	if err := a.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	a = open(t, st, c, dir, small)
	for _, x := range []string{"c", "b", "a"} {
		observe(t, a, c, SpanIdentity{Service: "s", Tenant: x}, 1)
	}
	flush(t, a)
	want := map[string]uint64{"a": 2, "b": 2, series.Other: 2}
	if got := byTenant(t, st); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Every key heavier than a counter's share is among the counters, and no count
// is too low.
func TestSpaceSavingFindsTheHeavy(t *testing.T) {
	s := spaceSaving{cap: 100}
	truth := map[uint64]uint64{}
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.2, 1, 100_000)
	total := uint64(0)
	for range 200_000 {
		k := z.Uint64() + 1
		n := uint64(rand.IntN(3) + 1)
		s.add(k, n)
		truth[k] += n
		total += n
	}
	if !sort.SliceIsSorted(s.heap, func(i, j int) bool { return s.heap[i].count < s.heap[j].count }) {
		for i := range s.heap { // a heap, if not sorted
			if i > 0 && s.heap[(i-1)/2].count > s.heap[i].count {
				t.Fatal("not a heap")
			}
		}
	}
	top := s.top(20)
	for k, n := range truth {
		i, ok := s.index[k]
		if n > total/100 && !ok {
			t.Errorf("key %d of %d is missing", k, n)
		}
		if ok && s.heap[i].count < n {
			t.Errorf("key %d counts %d, less than the true %d", k, s.heap[i].count, n)
		}
		if n > total/50 && !slices.Contains(top, k) {
			t.Errorf("key %d of %d is not at the top", k, n)
		}
	}
}

func TestValuesAreBounded(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MaxOperations, o.MaxInstances, o.MaxValues = 3, 2, 2 })
	for i := range 10 {
		n := fmt.Sprint(i)
		observe(t, a, c, SpanIdentity{Service: "s", Operation: n, Instance: n, Version: n, Variant: n,
			Extra: []labels.Label{{Name: "region", Value: n}}}, 1)
	}
	flush(t, a)
	distinct := map[string]map[string]bool{}
	for _, s := range st.series {
		s.Labels.Range(func(l labels.Label) {
			if distinct[l.Name] == nil {
				distinct[l.Name] = map[string]bool{}
			}
			distinct[l.Name][l.Value] = true
		})
	}
	for name, want := range map[string]int{"operation": 4, "instance": 3, "version": 3, "variant": 3, "region": 3} {
		if got := distinct[name]; len(got) != want || !got[series.Other] {
			t.Errorf("%s has %v, want %d with _other", name, got, want)
		}
	}
	views(t, st, 10)
	if s := a.Stats(); s.FoldedOperations != 7 || s.FoldedValues != 4*8 {
		t.Errorf("folded %d operations and %d values, want 7 and 32", s.FoldedOperations, s.FoldedValues)
	}
	// An hour later only values that something still uses hold their place.
	c.advance(time.Hour)
	flush(t, a)
	c.advance(time.Hour)
	flush(t, a)
	for i := range 3 {
		observe(t, a, c, SpanIdentity{Service: "s", Operation: fmt.Sprint("new", i)}, 1)
	}
	if s := a.Stats(); s.FoldedOperations != 7 {
		t.Errorf("new operations found no room: %d folded", s.FoldedOperations)
	}
}

// A service's environments are never one series, not even of folded tenants; peers are
// beside instances on marginals alone. A journal says the same.
func TestPlaceAndPeer(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir, func(o *Options) { o.MaxTenants, o.MaxValues = 1, 2 })
	send := func() {
		for i, environment := range []string{"production", "staging", "ci-1", "ci-2"} {
			for _, tenant := range []string{"a", "b"} {
				observe(t, a, c, SpanIdentity{Service: "s", Operation: "get", Tenant: tenant, Environment: environment, Namespace: "shop",
					K8sNamespace: "web", Workload: "w", System: "mysql", Peer: fmt.Sprint("db", i/2)}, 1)
			}
		}
	}
	send()
	place := `, k8s_namespace="web", k8s_workload="w", operation="get", `
	want := map[series.View]string{series.Full: "", series.Marginal: "", series.Total: ""}
	for i, environment := range []string{series.Other, "production", "staging"} {
		n, peer := uint64(1), "db0"
		if i == 0 {
			n, peer = 2, "db1"
		}
		end := `service="s", service_namespace="shop", system="mysql"`
		want[series.Full] += fmt.Sprintf("{environment=%q%s%s, tenant=\"a\"} %d\n{environment=%[1]q, service=\"s\", tenant=\"_other\"} %[4]d\n", environment, place, end, n)
		want[series.Marginal] += fmt.Sprintf("{environment=%q%speer=%q, %s} %d\n", environment, place, peer, end, 2*n)
		want[series.Total] += fmt.Sprintf("{environment=%q, k8s_namespace=\"web\", k8s_workload=\"w\", %s} %d\n", environment, end, 2*n)
	}
	check := func() {
		t.Helper()
		for view, want := range want {
			var lines []string
			for name, slots := range st.slots(t, series.SpanDuration, view) {
				for _, h := range slots {
					lines = append(lines, fmt.Sprintf("%s %d\n", name, h.Count))
				}
			}
			slices.Sort(lines)
			if got := strings.Join(lines, ""); got != want {
				t.Errorf("view %d is\n%swant\n%s", view, got, want)
			}
		}
	}
	flush(t, a)
	check()
	st, dir = newMemStore(), t.TempDir()
	a = open(t, st, c, dir, func(o *Options) { o.MaxTenants, o.MaxValues = 1, 2 })
	send()
	crash(a)
	a = open(t, st, c, dir)
	flush(t, a)
	check()
}

func TestIdleSeriesLeaveMemory(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	for i := range 100 {
		observe(t, a, c, SpanIdentity{Service: "s", Tenant: fmt.Sprint(i), Operation: fmt.Sprint(i % 7)}, 1)
	}
	flush(t, a)
	epoch, full := a.Epoch(), a.Stats().ActiveSeries
	if full != 100+7+1 {
		t.Fatalf("%d series", full)
	}
	held := a.NewBatch() // keeps what it may refer to
	target := a.SpanTarget(&SpanIdentity{Service: "s", Tenant: "5", Operation: "5"})
	for range 12 {
		c.advance(time.Minute)
		observe(t, a, c, SpanIdentity{Service: "s", Tenant: "1", Operation: "1"}, 1)
		flush(t, a)
	}
	if a.Epoch() == epoch {
		t.Error("targets were dropped, but the epoch is the same")
	}
	if got := a.Stats().ActiveSeries; got != full {
		t.Errorf("a batch under way holds %d series, want %d", got, full)
	}
	held.Observe(target, c.now().Add(-12*time.Minute).UnixNano(), 1, 1)
	commit(t, held)
	for range 3 {
		c.advance(time.Minute)
		flush(t, a)
	}
	if got := a.Stats().ActiveSeries; got > 8 {
		t.Errorf("%d series are left", got)
	}
	views(t, st, 113)
	// A target from then is refused with a reason, not counted elsewhere.
	b := a.NewBatch()
	b.Observe(target, c.now().UnixNano(), 1, 1)
	if _, err := b.Commit(context.Background()); err == nil {
		t.Error("a stale target was accepted")
	}
	// And numbers are reused.
	for i := range 100 {
		observe(t, a, c, SpanIdentity{Service: "s2", Tenant: fmt.Sprint(i)}, 1)
	}
	flush(t, a)
	views(t, st, 213)
	if n := a.reg.targets.n; n > 110 {
		t.Errorf("%d target entries for 100 targets", n)
	}
}

// After a flood of names the memory that they took comes back, so that the
// bound does not stay reached.
func TestMemoryComesBack(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MemoryBytes = 16 << 20 })
	var refused error
	for i := 0; refused == nil && i < 100; i++ {
		b := a.NewBatch()
		for k := range 5000 {
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint(i), Instance: fmt.Sprint(k)}), c.now().UnixNano(), 1e6, 1)
		}
		_, refused = b.Commit(context.Background())
	}
	if !errors.Is(refused, ErrOverloaded) {
		t.Fatalf("got %v", refused)
	}
	for range 4 {
		c.advance(time.Minute)
		flush(t, a)
	}
	// Of the bound, not of what was taken when it was refused: the flusher may
	// have made room before one can look.
	if left := a.Stats().MemoryBytes; a.Overloaded() || left > a.o.MemoryBytes/4 {
		t.Errorf("%d bytes of %d are left, overloaded %v", left, a.o.MemoryBytes, a.Overloaded())
	}
	views(t, st, st.count(t, series.SpanDuration, series.Full))
	observe(t, a, c, SpanIdentity{Service: "s", Tenant: "again"}, 1)
}

// What was folded leaves no series behind, but is remembered too.
func TestFoldedNamesLeaveMemory(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MemoryBytes, o.FlushInterval = 16<<20, time.Hour })
	b := a.NewBatch() // one request, so that nothing makes room meanwhile
	for k := range 100_000 {
		b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint(k)}), c.now().UnixNano(), 1e6, 1)
	}
	if _, err := b.Commit(context.Background()); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("got %v", err)
	}
	for range 4 {
		c.advance(time.Minute)
		flush(t, a)
	}
	if a.Overloaded() {
		t.Errorf("still overloaded: %+v", a.Stats())
	}
	observe(t, a, c, SpanIdentity{Service: "s", Operation: "again"}, 1)
}

func TestMemoryIsBounded(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir(), func(o *Options) { o.MemoryBytes = 4 << 20 })
	st.refuse(errors.New("store is away"))
	sent := uint64(0)
	var refused error
	for i := 0; refused == nil; i++ {
		b := a.NewBatch()
		for k := range 100 {
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Tenant: fmt.Sprint(i*100 + k)}), c.now().UnixNano(), 1e6, 1)
		}
		if _, refused = b.Commit(context.Background()); refused == nil {
			sent += 100
		}
		a.Flush(context.Background())
		if i > 10_000 {
			t.Fatal("no bound")
		}
	}
	if !errors.Is(refused, ErrOverloaded) || !a.Overloaded() {
		t.Fatalf("got %v", refused)
	}
	s := a.Stats()
	if s.MemoryBytes > 5<<20 || s.Overloads != 1 || s.FoldedTenants == 0 {
		t.Errorf("%+v", s)
	}
	st.refuse(nil)
	flush(t, a)
	views(t, st, sent)
	for range 3 { // what is idle makes room
		c.advance(time.Minute)
		flush(t, a)
	}
	if a.Overloaded() {
		t.Errorf("still overloaded: %+v", a.Stats())
	}
	observe(t, a, c, SpanIdentity{Service: "s", Tenant: "again"}, 1)
}

// Series that differ in their tenant alone share the memory of their labels.
func TestTenantsShareLabels(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	resolve := func(from, to int) int64 {
		for i := from; i < to; i++ {
			a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint("GET /a/long/route/", i%10), Component: "app", Kind: "server", Status: "ok", Version: "1.2.3", Tenant: fmt.Sprint("tenant-", i/10)})
		}
		return a.reg.labelBytes
	}
	before := resolve(0, 1000)
	if more := float64(resolve(1000, 11_000)-before) / 10_000; more > 10 {
		t.Errorf("%.1f bytes of labels a series, at most 10 are expected", more)
	}
	if n := len(a.reg.tenantOf); n != 1100 {
		t.Errorf("%d names of tenants, want 1100", n)
	}
	c.advance(2 * a.o.IdleAfter)
	for range 3 {
		flush(t, a)
		c.advance(2 * a.o.IdleAfter)
	}
	if a.reg.labelBytes != 0 || len(a.reg.tenantOf) != 0 || a.reg.byID.Len() != 0 {
		t.Errorf("%d bytes of labels, %d tenants and %d series are left of idle ones", a.reg.labelBytes, len(a.reg.tenantOf), a.reg.byID.Len())
	}
}
