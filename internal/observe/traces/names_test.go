package traces

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	a, _, _ := start(t, Options{})
	id := Identity{Service: "s", Operation: "o", Kind: "server", Component: "app"}
	first := a.Name(&id)
	if first == 0 || a.Name(&id) != first {
		t.Error("an identity has one number")
	}
	other := id
	other.Tenant = "t"
	if a.Name(&other) == first {
		t.Error("another identity has another")
	}
	if a.Text("") != 0 || a.TextBytes(nil) != 0 {
		t.Error("no statement is 0")
	}
	if x := a.Text("select ?"); x == 0 || a.TextBytes([]byte("select ?")) != x {
		t.Error("a statement has one number")
	}
	long := strings.Repeat("x", 2*maxText)
	if a.Text(long) != a.Text(long[:maxText]) {
		t.Error("long statements are cut")
	}
}

// At the bound identities fold and statements are left out; both are counted.
func TestNamesAreBounded(t *testing.T) {
	a, _, _ := start(t, Options{MemoryBytes: 1 << 20})
	for i := range 5000 {
		a.Name(&Identity{Service: fmt.Sprint("s", i%50), Operation: fmt.Sprint("o", i), Tenant: fmt.Sprint("t", i), Kind: "server", Component: "app"})
		a.Text(fmt.Sprint("select ", i))
	}
	st := a.Stats()
	if st.FoldedNames == 0 || st.LeftOutTexts == 0 {
		t.Errorf("%+v", st)
	}
	if got := a.names.size(); got > 1<<17+4*commonCost {
		t.Errorf("%d bytes of names", got)
	}
	last := a.Name(&Identity{Service: "new", Operation: "o", Tenant: "t", Kind: "server", Component: "app"})
	if got := a.names.list[last.common()].id; got.Service != "_other" || got.Kind != "server" {
		t.Errorf("folded into %+v", got)
	}
}

// A tenant of an identity that is known takes no memory, so that nothing folds however
// many pairs there are.
func TestNamesOfManyTenants(t *testing.T) {
	a, _, _ := start(t, Options{MemoryBytes: 50 << 20})
	tenants := make([]string, 10_000)
	for i := range tenants {
		tenants[i] = fmt.Sprintf("tenant-%05d", i)
	}
	var before int64
	for service := range 8 {
		for route := range 30 {
			for instance := range 4 {
				id := Identity{Service: fmt.Sprint("service-", service), Operation: fmt.Sprint("GET /api/v1/resource-", route), Instance: fmt.Sprint("pod-", instance),
					Component: "app", Kind: "server", Version: "1.4.2", Environment: "production"}
				for i := range tenants {
					if testing.Short() && i%100 != service {
						continue
					}
					id.Tenant = tenants[i]
					k := a.Name(&id)
					if got := a.names.list[k.common()].identity(a.names.tenants[k.tenant()]); got != id {
						t.Fatalf("%+v is %+v", id, got)
					}
				}
				if service+route+instance == 0 {
					before = a.names.size()
				}
			}
		}
	}
	const each = 1200 // bytes of an identity without its tenant
	if st := a.Stats(); st.FoldedNames > 0 || a.names.size() > before+8*30*4*each {
		t.Errorf("%d folded, %d bytes, %d of them for the tenants", st.FoldedNames, a.names.size(), before)
	}
}

// Names that no trace has used are reused, after the epoch has changed for those who
// hold their numbers; names in use stay.
func TestNamesAreGivenUp(t *testing.T) {
	a, s, c := start(t, Options{MemoryBytes: 1 << 20})
	id := Identity{Service: "s", Operation: "busy", Kind: "server", Component: "app"}
	busy := a.Name(&id)
	for i := 0; a.Stats().FoldedNames == 0; i++ {
		a.Name(&Identity{Service: "s", Operation: fmt.Sprint("o", i), Kind: "server", Component: "app"})
		a.Text(fmt.Sprint("select ", i))
	}
	full, epoch := a.names.size(), a.Epoch()
	n := byte(0)
	run := func(d time.Duration) {
		for range d / time.Minute {
			c.advance(time.Minute)
			n++
			a.AddWhole([]Span{{TraceID: [16]byte{n}, ID: [8]byte{1}, Name: busy, Start: ms(0), End: ms(1)}})
			a.tick(t, c)
		}
	}
	run(12 * time.Minute)
	if a.Epoch() == epoch {
		t.Fatal("the epoch did not change")
	}
	if got := a.names.size(); got != full {
		t.Errorf("freed at once: %d bytes of %d", got, full)
	}
	run(15 * time.Minute)
	if got := a.names.size(); got > 10*commonCost {
		t.Errorf("%d bytes of names are left of %d", got, full)
	}
	if a.Name(&id) != busy {
		t.Error("a name in use was given up")
	}
	fresh := a.Name(&Identity{Service: "u", Operation: "fresh", Kind: "server", Component: "app"})
	a.AddWhole([]Span{{TraceID: [16]byte{255}, ID: [8]byte{1}, Name: fresh, Start: ms(0), End: ms(1)}})
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := s.dump(`breakdown_self{cohort="large", component="app", operation="fresh", part_operation="fresh", part_service="u", service="u"}`); got == "" {
		t.Errorf("a reused number is known by its old name:\n%s", s.dump("breakdown_self"))
	}
	if a.Name(&Identity{Service: "s", Operation: "o0", Kind: "server", Component: "app"}) == 0 {
		t.Error("no room for an old name")
	}
}

// BenchmarkNames numbers identities of 10,000 tenants in 36 operations: those that are
// new, and those that have a number.
func BenchmarkNames(b *testing.B) {
	const each = 36 * 10_000
	var ids [36]Identity
	for i := range ids {
		ids[i] = Identity{Service: fmt.Sprint("service", i%3), Operation: fmt.Sprint("GET /api/resource-", i/3), Component: "app", Kind: "server", Version: "1.4.2", Instance: "one", Environment: "production"}
	}
	tenants := make([]string, each/len(ids))
	for i := range tenants {
		tenants[i] = fmt.Sprintf("tenant-%05d", i)
	}
	all := func(n *names) {
		for _, t := range tenants {
			for i := range ids {
				id := ids[i]
				id.Tenant = t
				n.name(&id, time.Now)
			}
		}
	}
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			all(newNames(1 << 30))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/name")
	})
	b.Run("known", func(b *testing.B) {
		n := newNames(1 << 30)
		all(n)
		for b.Loop() {
			all(n)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/name")
	})
}
