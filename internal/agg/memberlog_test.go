package agg

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// logMembers commits n self times of tenants in nine groups.
func logMembers(t testing.TB, a *Aggregator, n, tenants int, end int64) {
	const batch = 2000
	for i := 0; i < n; i += batch {
		b := a.NewDerivedBatch()
		var groups []int
		for k := range 9 {
			groups = append(groups, b.Group(a.SelfGroup(&SpanIdentity{Service: fmt.Sprint("s", k/3), Operation: "GET /", Kind: "server", Status: "ok", Component: fmt.Sprint("c", k%3)})))
		}
		for j := range batch {
			b.ObserveMember(groups[(i/batch+j)%9], fmt.Sprint("t", (i+j)*7919%tenants), end, int64(1e6+j), 1)
		}
		if _, err := b.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// The memory that sorting the log takes counts before it is taken.
func TestMembersCountTheirSort(t *testing.T) {
	c := newClock()
	a := open(t, newMemStore(), c, t.TempDir(), func(o *Options) { o.MaxTenants = 1000 })
	const n = 20_000
	before := a.Stats().SlotBytes
	logMembers(t, a, n, 50, c.now().UnixNano())
	if got := a.Stats().SlotBytes - before; got < n*(24+16) {
		t.Errorf("%d self times count %d bytes, want 40 each or more", n, got)
	}
}

// Points are in order of slot, and within a slot in the order in which they were.
func TestMergeBySlot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var w builder
	for range 200 {
		n, cells := r.IntN(60), 0
		var b store.Batch
		for i := range n {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: int64(r.IntN(5)) * 10})
		}
		if n > 0 {
			cells = r.IntN(n)
		}
		bySlot := func(x, y store.Point) int { return cmp.Compare(x.Slot, y.Slot) }
		slices.SortStableFunc(b.Points[:cells], bySlot)
		want := slices.Clone(b.Points)
		slices.SortStableFunc(want, bySlot)
		w.mergeBySlot(&b, cells)
		if !slices.EqualFunc(b.Points, want, func(x, y store.Point) bool { return x.Series == y.Series && x.Slot == y.Slot }) {
			t.Fatalf("got  %v\nwant %v", b.Points, want)
		}
	}
}

// BenchmarkReadMembers measures one question of one tenant's self times beside 300,000.
func BenchmarkReadMembers(b *testing.B) {
	c := newClock()
	a := open(b, newMemStore(), c, b.TempDir(), func(o *Options) { o.MaxTenants = 100_000 })
	logMembers(b, a, 300_000, 10_000, c.now().UnixNano())
	for _, of := range []struct{ name, service, tenant string }{
		{"one tenant", "s1", "t7"}, {"no such service", "s9", "t7"}, {"no such tenant", "s1", "nobody"},
	} {
		b.Run(of.name, func(b *testing.B) {
			matchers := []*labels.Matcher{
				labels.MustNewMatcher(labels.MatchEqual, series.LabelService, of.service), labels.MustNewMatcher(labels.MatchEqual, series.LabelTenant, of.tenant),
			}
			for b.Loop() {
				found := 0
				err := a.readMembers(context.Background(), a.open, series.SpanSelf, matchers, func(*matchedMember, *memberTime) error { found++; return nil })
				if err != nil || (found > 0) != (of.name == "one tenant") {
					b.Fatal(found, err)
				}
			}
		})
	}
}
