package agg

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
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
	if got := a.Stats().SlotBytes - before; got < n*(16+16) {
		t.Errorf("%d self times count %d bytes, want 32 each or more", n, got)
	}
}

// The points of a log are in order of slot, behind those of the cells, and have the bytes of
// cells of the same durations, whether the log is sorted by keys or by comparison.
func TestMemberPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCells(&slabs{}, 0)
		l := &c.members
		l.groups, l.tenants = make([]memberSeries, 3), make([]memberTenant, 5)
		l.marginals = []memberMarginal{{group: 0}, {group: 1}, {group: 2}}
		for i := range l.groups {
			l.groups[i] = memberSeries{series.ID{}.With("group", fmt.Sprint(i)), series.Series{Family: fmt.Sprint("f", i)}}
		}
		for i := range l.tenants {
			l.tenants[i] = memberTenant{fmt.Sprint("t", i), series.ID{}.With("tenant", fmt.Sprint(i))}
		}
		slots := rapid.OneOf(rapid.Just(uint32(7)), rapid.Uint32Range(5, 9), rapid.Uint32())
		nanos := rapid.OneOf(rapid.Int64Range(1e6, 2e6), rapid.Int64Range(0, 3), rapid.Int64Range(1, 1<<62))
		weights := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 3), rapid.Uint32())
		if rapid.Bool().Draw(t, "plain") {
			weights = rapid.Just(uint32(1))
		}
		type address struct{ group, tenant, slot uint32 }
		scratch := newCells(&slabs{}, 0)
		cellOf := map[address]*cell{}
		var last []address // each once
		for range rapid.IntRange(1, 600).Draw(t, "durations") {
			m := memberTime{nanos.Draw(t, "ns"), slots.Draw(t, "slot"), rapid.Uint32Range(0, 2).Draw(t, "group"), rapid.Uint32Range(0, 4).Draw(t, "tenant"), max(weights.Draw(t, "weight"), 1)}
			c.member(m)
			if got := l.whole(l.at(l.n - 1)); got != m {
				t.Fatalf("got %v, want %v", got, m)
			}
			a := address{m.marginal, m.tenant, m.slot}
			if cellOf[a] == nil {
				cellOf[a] = &cell{series: uint32(len(last)), key: m.slot << 2}
				last = append(last, a)
			}
			scratch.observe(cellOf[a], m.nanos, m.weight, scratch.tab.bucket(m.nanos))
		}
		var before []store.Point // of cells
		for range rapid.IntRange(0, 5).Draw(t, "cells") {
			before = append(before, store.Point{Series: uint32(len(before)), Slot: int64(slots.Draw(t, "slot of a cell")) * int64(series.Base), Data: []byte("cell")})
		}
		bySlot := func(x, y store.Point) int { return cmp.Compare(x.Slot, y.Slot) }
		slices.SortStableFunc(before, bySlot)
		text := func(b *store.Batch) (out string) {
			for _, p := range b.Points {
				if string(p.Data) == "cell" {
					out += fmt.Sprintf("%d cell %d\n", p.Slot, p.Series)
					continue
				}
				at := p.Series - uint32(len(before))
				out += fmt.Sprintf("%d %s %s %x %x\n", p.Slot, b.Series[at].Family, l.tenants[b.TenantOf[at]-1].name, b.IDs[at], p.Data)
			}
			return out
		}
		slices.SortFunc(last, func(x, y address) int {
			return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.slot, y.slot))
		})
		want := store.Batch{Points: slices.Clone(before)}
		var h hist.Histogram
		for i, a := range last {
			if i == 0 || a.group != last[i-1].group || a.tenant != last[i-1].tenant {
				want.Series, want.TenantOf = append(want.Series, l.groups[a.group].shared), append(want.TenantOf, 1+a.tenant)
				want.IDs = append(want.IDs, l.groups[a.group].id.Plus(l.tenants[a.tenant].label))
			}
			data, err := scratch.appendDurations(nil, cellOf[a], &h)
			if err == nil {
				want.Points = append(want.Points, store.Point{Series: uint32(len(before) + len(want.Series) - 1), Slot: int64(a.slot) * int64(series.Base), Data: data})
			}
		}
		slices.SortStableFunc(want.Points, bySlot)
		for _, by := range []string{"packed", "keyed", "compared"} {
			most := 64
			switch by {
			case "keyed":
				l.widest = math.MaxUint64
			case "compared":
				most = 0
			}
			var w builder
			got := store.Batch{Points: slices.Clone(before)}
			o := l.order(most)
			if o.keyed != (by != "compared") || o.packed != (by == "packed") {
				t.Fatalf("sorted by keys: %v, packed: %v, want %s", o.keyed, o.packed, by)
			}
			w.memberPoints(&got, o)
			for i := range got.Points { // the series of the cells are not in this batch
				if string(got.Points[i].Data) != "cell" {
					got.Points[i].Series += uint32(len(before))
				}
			}
			if g, x := text(&got), text(&want); g != x {
				t.Fatalf("%s: got\n%swant\n%s", by, g, x)
			}
		}
	})
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
				err := a.readMembers(context.Background(), a.open, series.SpanSelf, matchers, func(*matchedMember, memberTime) error { found++; return nil })
				if err != nil || (found > 0) != (of.name == "one tenant") {
					b.Fatal(found, err)
				}
			}
		})
	}
}
