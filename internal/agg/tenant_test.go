package agg

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// observeMember observes a span of an identity by its target without the tenant.
func observeMember(a *Aggregator, b *Batch, id SpanIdentity, end, nanos int64, weight uint32) {
	tenant := id.Tenant
	id.Tenant = ""
	one := []Member{{Target: a.SpanTarget(&id), Tenant: tenant}}
	a.Fold(one)
	b.ObserveTenant(one[0].Target, tenant, one[0].Folded, end, nanos, weight)
}

// Spans observed with their tenants give the same points as those whose targets were resolved
// with them, also where both come to one series, within a bound on tenants, and after a crash.
func TestObserveTenant(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type side struct {
			a   *Aggregator
			st  *memStore
			dir string
		}
		c := newClock()
		var sides [3]side // by targets, by tenants, by either
		start := func(i int) {
			sides[i].a = open(t, sides[i].st, c, sides[i].dir, func(o *Options) { o.MaxTenants = 3 })
		}
		for i := range sides {
			sides[i] = side{st: newMemStore(), dir: t.TempDir()}
			start(i)
		}
		durations := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(1e5, 1e8), rapid.Int64Range(0, 1<<61))
		weights := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 9), rapid.Uint32Range(1<<31, 1<<32-1))
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			var batches [3]*Batch
			for i := range batches {
				batches[i] = sides[i].a.NewBatch()
			}
			for range rapid.IntRange(0, 30).Draw(rt, "spans") {
				id := SpanIdentity{Service: fmt.Sprint("s", rapid.IntRange(0, 1).Draw(rt, "service")), Operation: fmt.Sprint("o", rapid.IntRange(0, 2).Draw(rt, "operation")),
					Component: "app", Kind: rapid.SampledFrom([]string{"server", "client"}).Draw(rt, "kind"), Status: "ok", Environment: rapid.SampledFrom([]string{"", "prod"}).Draw(rt, "environment"),
					Instance: fmt.Sprint("i", rapid.IntRange(0, 1).Draw(rt, "instance")), Tenant: rapid.SampledFrom([]string{"", "a", "b", "c", "d", series.Other}).Draw(rt, "tenant")}
				end, ns, weight := c.now().UnixNano()-rapid.Int64Range(0, 3).Draw(rt, "slot")*slotNanos, durations.Draw(rt, "ns"), weights.Draw(rt, "weight")
				either := rapid.Bool().Draw(rt, "either")
				for i, b := range batches {
					if a := sides[i].a; i == 0 || i == 2 && either {
						b.Observe(a.SpanTarget(&id), end, ns, weight)
					} else {
						observeMember(a, b, id, end, ns, weight)
					}
				}
			}
			for i, b := range batches {
				if r := commit(t, b); r.Total() != 0 {
					rt.Fatal(i, r)
				}
			}
			for _, tenant := range []string{"a", "b", "c", "d"} {
				want := sides[0].a.Cohort("s0", tenant)
				for _, s := range sides[1:] {
					if got := s.a.Cohort("s0", tenant); got != want {
						rt.Errorf("tenant %s is %s, want %s", tenant, got, want)
					}
				}
			}
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				for i := range sides {
					flush(t, sides[i].a)
				}
			case 1:
				for i := range sides {
					crash(sides[i].a)
					start(i)
				}
			}
		}
		for i := range sides {
			flush(t, sides[i].a)
		}
		sameSlots(t, rt, sides[1].st, sides[0].st, series.SpanDuration)
		sameSlots(t, rt, sides[2].st, sides[0].st, series.SpanDuration)
	})
}

// More spans than a slab of the log holds give the same points as those whose targets were
// resolved with their tenants, and a question in between finds all of them.
func TestSlabsOfTenants(t *testing.T) {
	c := newClock()
	var stores [2]*memStore
	var aggs [2]*Aggregator
	for i := range aggs {
		stores[i] = newMemStore()
		aggs[i] = open(t, stores[i], c, t.TempDir())
	}
	ns, accepted := durations(1<<12), uint64(0)
	for n := 0; n < 2*memberSlab+500; {
		var batches [2]*Batch
		for i := range batches {
			batches[i] = aggs[i].NewBatch()
		}
		for range 700 {
			id := SpanIdentity{Service: "s", Operation: fmt.Sprint("o", n%7), Kind: "server", Status: "ok", Instance: fmt.Sprint("i", n%3), Tenant: fmt.Sprint("t", n%101)}
			end, weight := c.now().UnixNano()-int64(n%2)*slotNanos, uint32(1)
			if n%997 == 0 {
				weight = 3
			}
			d := ns[n%len(ns)] * int64(1+n%1500/1499*100_000) // some are rare
			batches[0].Observe(aggs[0].SpanTarget(&id), end, d, weight)
			observeMember(aggs[1], batches[1], id, end, d, weight)
			accepted += uint64(weight)
			n++
		}
		for _, b := range batches {
			commit(t, b)
		}
		q := store.Query{Family: series.SpanDuration, View: series.Marginal, Start: c.now().Unix() - 600, End: c.now().Unix() + 600}
		for i, a := range aggs {
			open, err := a.unstored(t.Context(), &q)
			if err != nil || len(open) != 1 || len(open[0].groups) != 1 {
				t.Fatal(i, len(open), err)
			}
			for _, g := range open[0].groups {
				if got := g.points[q.Start].hist.Count; got != accepted {
					t.Fatalf("side %d: a question finds %d spans, want %d", i, got, accepted)
				}
			}
		}
	}
	for _, a := range aggs {
		flush(t, a)
	}
	views(t, stores[1], accepted)
	for _, view := range []series.View{series.Full, series.Marginal, series.Total} {
		got, want := stores[1].slots(t, series.SpanDuration, view), stores[0].slots(t, series.SpanDuration, view)
		if len(got) != len(want) {
			t.Fatalf("view %d: %d series, want %d", view, len(got), len(want))
		}
		for k, slots := range want {
			for at, h := range slots {
				x, err := h.AppendBinary(nil)
				if err != nil || got[k][at] == nil {
					t.Fatal(k, at, err)
				}
				if g, err := got[k][at].AppendBinary(nil); err != nil || string(g) != string(x) {
					t.Errorf("%s %d: got %x, want %x (%v)", k, at, g, x, err)
				}
			}
		}
	}
}

// Weights that are summed first come to the sketches once each, also when the table is full.
func TestWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRegistry(&Options{MaxTenants: 1000, MemoryBytes: 1})
		want := map[[2]uint64][2]uint64{}
		for range rapid.IntRange(0, 900).Draw(t, "weights") {
			_, n := r.service(fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "service")))
			h := uint64(rapid.IntRange(0, 400).Draw(t, "tenant"))
			spans, requests := uint64(rapid.IntRange(0, 3).Draw(t, "spans")), uint64(rapid.IntRange(0, 3).Draw(t, "requests"))
			r.weigh(n, h, spans, requests)
			k := [2]uint64{uint64(n), h}
			want[k] = [2]uint64{want[k][0] + spans + requests, want[k][1] + requests}
			if rapid.IntRange(0, 200).Draw(t, "look") == 0 {
				r.countWeights()
			}
		}
		r.countWeights()
		if len(r.weights.slots) > leastWeights {
			t.Errorf("%d slots, at most %d are allowed", len(r.weights.slots), leastWeights)
		}
		got := map[[2]uint64][2]uint64{}
		var totals, wantTotals uint64
		for n, s := range r.services {
			if s == nil {
				continue
			}
			totals += s.tenants.total + s.tenants.totalRequests
			for _, c := range s.tenants.sketch.heap {
				got[[2]uint64{uint64(n), c.key}] = [2]uint64{c.count}
			}
			for _, c := range s.tenants.requests.heap {
				k := [2]uint64{uint64(n), c.key}
				got[k] = [2]uint64{got[k][0], c.count}
			}
		}
		for k, w := range want {
			wantTotals += w[0] + w[1]
			if k[1] != 0 && got[k] != w {
				t.Errorf("tenant %v weighs %v, want %v", k, got[k], w)
			}
		}
		if totals != wantTotals {
			t.Errorf("all weigh %d, want %d", totals, wantTotals)
		}
	})
}

// A tenant that is new while memory is short is folded, one that has a name keeps it.
func TestFoldWhileMemoryIsShort(t *testing.T) {
	a := open(t, newMemStore(), newClock(), t.TempDir())
	b := a.NewBatch()
	defer b.Discard()
	target := a.SpanTarget(&SpanIdentity{Service: "s", Operation: "o", Kind: "server", Status: "ok"})
	fold := func(want string) {
		t.Helper()
		list := []Member{{Target: target, Tenant: "known"}, {Target: target, Tenant: "new"}, {Target: target}, {Tenant: "no target"}}
		a.Fold(list)
		got := ""
		for _, m := range list {
			got += fmt.Sprint(m.Tenant, m.Folded, " ")
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	a.Fold([]Member{{Target: target, Tenant: "known"}})
	short := a.o.MemoryBytes
	a.slabs.used.Add(short)
	fold("knownfalse newtrue false no targetfalse ")
	a.slabs.used.Add(-short)
	fold("knownfalse newfalse false no targetfalse ")
}

// The tables of tenants are counted as they grow, and freed when they fill the memory: those of
// services that are gone, then the names of the lightest tenants. After a flush there is room
// again, the heaviest keep their names, and nothing accepted is lost.
func TestTablesOfTenantsFit(t *testing.T) {
	const generations, spans = 8, 200
	for _, c := range []struct {
		name              string
		services, tenants int // a generation
		gone              bool
	}{
		{"services that come once", 400, spans, true},
		{"services that stay", 40, 3000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, now := newMemStore(), newClock()
			a := open(t, st, now, t.TempDir(), func(o *Options) { o.MemoryBytes = 8 << 20 })
			accepted, refused := 0, 0
			for g := range generations {
				for round := range c.tenants / spans {
					for s := range c.services {
						name := fmt.Sprint("service-", s)
						if c.gone {
							name += fmt.Sprint("-", g)
						}
						b := a.NewBatch()
						n := spans
						for i := range spans {
							observeMember(a, b, SpanIdentity{Service: name, Operation: "o", Kind: "server", Status: "ok", Tenant: fmt.Sprint("tenant-", round*spans+i)}, b.now, 1e6, 1)
						}
						for range 5 {
							observeMember(a, b, SpanIdentity{Service: name, Operation: "o", Kind: "server", Status: "ok", Tenant: "heavy"}, b.now, 1e6, 1)
							n++
						}
						switch _, err := b.Commit(context.Background()); {
						case errors.Is(err, ErrOverloaded):
							refused++
						case err != nil:
							t.Fatal(err)
						default:
							accepted += n
						}
						if used := a.Stats().MemoryBytes; used > a.o.MemoryBytes+1<<20 {
							t.Fatalf("generation %d: %d bytes are used, at most %d are allowed", g, used, a.o.MemoryBytes)
						}
					}
				}
				now.advance(10 * time.Second)
				flush(t, a)
				flush(t, a) // what only the first one's generation held
				a.mu.Lock() // against a flush for want of memory
				sum := int64(0)
				for _, s := range a.reg.services[1:] {
					size := s.tenants.size
					s.tenants.measure()
					sum += s.tenants.size
					if size != s.tenants.size {
						t.Errorf("%s: %d bytes are counted, want %d", s.name, size, s.tenants.size)
					}
				}
				if sum != a.reg.tenantBytes {
					t.Errorf("tables take %d bytes, %d are counted", sum, a.reg.tenantBytes)
				}
				a.mu.Unlock()
				if used := a.Stats().MemoryBytes; used > a.o.MemoryBytes*7/8 {
					t.Fatalf("generation %d: %d bytes are still used after the flush, of %d", g, used, a.o.MemoryBytes)
				}
			}
			t.Logf("%d spans accepted, %d requests of %d refused", accepted, refused, generations*c.services*(c.tenants/spans))
			views(t, st, uint64(accepted))
			if !c.gone {
				a.mu.Lock()
				defer a.mu.Unlock()
				heavy := 0
				for _, s := range a.reg.services[1:] {
					if s.tenants.named.has(tenantHash("heavy")) {
						heavy++
					}
				}
				if heavy != c.services {
					t.Errorf("the heaviest tenant keeps its name in %d of %d services", heavy, c.services)
				}
			}
		})
	}
}

// Weight beyond what a target can hold is counted.
func TestWeightOfOneTarget(t *testing.T) {
	c := newClock()
	a := open(t, newMemStore(), c, t.TempDir())
	id := SpanIdentity{Service: "s", Operation: "o", Kind: "server", Status: "ok", Tenant: "t"}
	b := a.NewBatch()
	for range 3 {
		b.Observe(a.SpanTarget(&id), c.now().UnixNano(), 1e6, 1<<31-1)
	}
	commit(t, b)
	a.mu.Lock()
	a.reg.updateSketches()
	got := a.reg.services[a.reg.serviceOf["s"]].tenants.total
	a.mu.Unlock()
	if want := uint64(3 * (1<<31 - 1)); got != want {
		t.Errorf("weight %d, want %d", got, want)
	}
}
