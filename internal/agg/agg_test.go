package agg

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// ChildEnv names a data directory to the child process of TestKill, and
// ChildMain is what it runs.
const ChildEnv = "TAILSCOPE_AGG_CHILD"

var ChildMain func(dir string)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ChildEnv); dir != "" {
		ChildMain(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func TestOneSpanIsInEveryViewOnce(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	b := a.NewBatch()
	id := &SpanIdentity{Service: "shop", Operation: "GET /cart", Component: "app", Kind: "server", Status: "ok", Tenant: "acme",
		Version: "1.2", Variant: "control", Instance: "i-1", Extra: []labels.Label{{Name: "region", Value: "eu"}}}
	end := c.now().UnixNano()
	b.Observe(a.SpanTarget(id), end, 25_000_000, 1)
	if r := commit(t, b); r != (Rejects{}) {
		t.Fatal(r)
	}
	flush(t, a)
	for view, want := range map[series.View]string{
		series.Full:     `{component="app", kind="server", operation="GET /cart", region="eu", service="shop", status="ok", tenant="acme", variant="control", version="1.2"}`,
		series.Marginal: `{component="app", instance="i-1", kind="server", operation="GET /cart", region="eu", service="shop", status="ok", variant="control", version="1.2"}`,
		series.Total:    `{component="app", kind="server", region="eu", service="shop", status="ok", variant="control", version="1.2"}`,
	} {
		got := st.slots(t, series.SpanDuration, view)
		h := got[want][series.Base.Slot(c.now().Unix())]
		if len(got) != 1 || h == nil {
			t.Fatalf("view %d: got %v, want %s", view, got, want)
		}
		if h.Count != 1 || h.Sum != 0.025 || h.Min != 0.025 || h.Max != 0.025 {
			t.Errorf("view %d: %+v", view, h)
		}
	}
	if f := st.infos[series.SpanDuration]; f.Kind != series.Distribution {
		t.Errorf("family: %+v", f)
	}
}

// What is stored equals what a naive twin makes of what was sent, whatever the
// order, the slots, the weights and the flushes.
func TestStoredEqualsSent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, c := newMemStore(), newClock()
		a := open(t, st, c, t.TempDir())
		want := map[string]map[int64]*hist.Histogram{}
		total := hist.New(cellSchema)
		now := c.now().UnixNano()
		for range rapid.IntRange(1, 6).Draw(rt, "batches") {
			b := a.NewBatch()
			for range rapid.IntRange(0, 40).Draw(rt, "spans") {
				tenant := fmt.Sprint("t", rapid.IntRange(0, 3).Draw(rt, "tenant"))
				op := fmt.Sprint("op", rapid.IntRange(0, 2).Draw(rt, "op"))
				ns := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(1e5, 1e8), rapid.Int64Range(0, 1<<62)).Draw(rt, "ns")
				w := rapid.OneOf(rapid.Just(uint32(1)), rapid.Uint32Range(1, 9), rapid.Uint32Range(1<<31, 1<<32-1)).Draw(rt, "weight")
				slot := rapid.Int64Range(0, 4).Draw(rt, "slot")
				id := &SpanIdentity{Service: "s", Operation: op, Tenant: tenant, Instance: fmt.Sprint(ns % 2)}
				end := now - slot*slotNanos
				b.Observe(a.SpanTarget(id), end, ns, w)
				k := labels.FromStrings("service", "s", "operation", op, "tenant", tenant).String()
				if want[k] == nil {
					want[k] = map[int64]*hist.Histogram{}
				}
				at := series.Base.Slot(end / 1e9)
				if want[k][at] == nil {
					want[k][at] = hist.New(cellSchema)
				}
				for _, h := range []*hist.Histogram{want[k][at], total} {
					if err := h.RecordNanos(ns, uint64(w)); err != nil {
						rt.Fatal(err)
					}
				}
			}
			if r := commit(t, b); r.Total() != 0 {
				rt.Fatal(r)
			}
			if rapid.Bool().Draw(rt, "flush") {
				flush(t, a)
			}
		}
		flush(t, a)
		got := st.slots(t, series.SpanDuration, series.Full)
		if len(got) != len(want) {
			rt.Fatalf("%d series, want %d", len(got), len(want))
		}
		for k, slots := range want {
			if len(got[k]) != len(slots) {
				rt.Fatalf("%s: %d slots, want %d", k, len(got[k]), len(slots))
			}
			for at, h := range slots {
				equal(rt, fmt.Sprint(k, at), got[k][at], h)
			}
		}
		for _, view := range []series.View{series.Marginal, series.Total} {
			sum := hist.New(cellSchema)
			for _, slots := range st.slots(t, series.SpanDuration, view) {
				for _, h := range slots {
					if err := sum.Merge(h); err != nil {
						rt.Fatal(err)
					}
				}
			}
			equal(rt, fmt.Sprint("view ", view), sum, total)
		}
		a.Close(context.Background())
	})
}

func equal(t interface {
	Helper()
	Fatalf(string, ...any)
}, what string, got, want *hist.Histogram) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s: missing", what)
	}
	if got.Count == 0 && want.Count == 0 {
		return
	}
	relative := func(a, b float64) bool { return a == b || (a-b)/b < 1e-12 && (b-a)/b < 1e-12 }
	if got.Count != want.Count || got.ZeroCount != want.ZeroCount || got.Min != want.Min || got.Max != want.Max ||
		got.Weighted != want.Weighted || !relative(got.Squares, want.Squares) || !relative(got.Sum, want.Sum) {
		t.Fatalf("%s: got %+v\nwant %+v", what, got, want)
	}
	if g, w := bucketList(got), bucketList(want); !slices.Equal(g, w) {
		t.Fatalf("%s: got buckets %v\nwant %v", what, g, w)
	}
}

func bucketList(h *hist.Histogram) (out []hist.Bucket) {
	for b := range h.All() {
		if b.Count > 0 {
			out = append(out, b)
		}
	}
	return out
}

func TestBucketTableAgreesWithHist(t *testing.T) {
	tab := buckets()
	check := func(ns int64) {
		t.Helper()
		if ns < 1 {
			return
		}
		if got, want := tab.find(ns), int(hist.BucketIndex(hist.Seconds(ns), cellSchema)); got != want {
			t.Fatalf("%d ns: bucket %d, want %d", ns, got, want)
		}
	}
	for ns := int64(1); ns < 100_000; ns++ {
		check(ns)
	}
	for _, u := range tab.upper {
		for d := int64(-2); d <= 2; d++ {
			if u+d > 0 {
				check(u + d)
			}
		}
	}
	for range 200_000 {
		check(rand.Int64() >> rand.IntN(62))
	}
}

func TestRefused(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	now := c.now().UnixNano()
	span := a.SpanTarget(&SpanIdentity{Service: "s"})
	gauge := a.SeriesTarget(series.Series{Family: "g", Kind: series.Gauge, Labels: labels.FromStrings("service", "s")})
	b := a.NewBatch()
	b.Observe(span, now, -1, 1)
	b.Observe(0, now, 1, 1)
	b.Observe(gauge, now, 1, 1)
	b.Number(span, now, 1)
	b.Observe(span, now+11*60e9, 1, 1)
	b.Observe(span, now-49*3600e9, 1, 1)
	b.Observe(span, now-47*3600e9, 1, 1)
	b.Observe(span, now+9*60e9, 1, 1)
	if got, want := commit(t, b), (Rejects{TooOld: 1, TooNew: 1, Invalid: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	flush(t, a)
	if n := st.count(t, series.SpanDuration, series.Full); n != 2 {
		t.Errorf("stored %d, want 2", n)
	}
	if s := a.Stats(); s.Late != 1 || s.DroppedOld != 1 || s.Observations != 2 {
		t.Errorf("stats %+v", s)
	}
	if got := a.SeriesTarget(series.Series{Family: "g", Kind: series.Counter, Labels: labels.FromStrings("service", "s")}); got != 0 {
		t.Error("a series got a target of two kinds")
	}
}

func TestNumbersKeepTheirSamples(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	s := series.Series{Family: "queue_length", Kind: series.Gauge, Labels: labels.FromStrings("service", "s")}
	id, _ := s.ID(nil)
	target := a.SeriesTarget(s)
	a.DeclareFamily(store.FamilyInfo{Name: "queue_length", Kind: series.Gauge, IntervalSeconds: 30})
	now := c.now().UnixNano()
	b := a.NewBatch()
	for i, v := range []float64{3, 9, -4} {
		b.Number(target, now-int64(2-i)*1e9, v)
	}
	b.Number(target, now-1e9, 10) // the same moment again: the last to come is kept
	commit(t, b)
	flush(t, a)
	want := map[int64]float64{now/1e6 - 2000: 3, now/1e6 - 1000: 10, now / 1e6: -4}
	if got := st.samples[id]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("samples %v, want %v", got, want)
	}
	for at, data := range st.points {
		n, err := store.DecodeNumber(data)
		if err != nil {
			t.Fatal(err)
		}
		if at.id == id && (n.Count != 4 || n.Sum != 18 || n.Min != -4 || n.Max != 10 || n.Last != -4) {
			t.Errorf("number %+v", n)
		}
	}
	if f := st.infos["queue_length"]; f.IntervalSeconds != 30 || f.Kind != series.Gauge {
		t.Errorf("family %+v", f)
	}
}

func TestDeltaNumbersRunUpAndSurvive(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	s := series.Series{Family: "hits_total", Kind: series.Counter, Labels: labels.FromStrings("service", "s")}
	id, _ := s.ID(nil)
	var want = map[int64]float64{}
	total := 0.0
	for round := range 4 {
		a := open(t, st, c, dir)
		for i := range 3 {
			c.advance(1e9)
			b := a.NewBatch()
			b.DeltaNumber(a.SeriesTarget(s), StreamID{1, 2}, c.now().UnixNano(), float64(i+1))
			commit(t, b)
			total += float64(i + 1)
			want[c.now().UnixMilli()] = total
			if i == round {
				flush(t, a)
			}
		}
		if round%2 == 0 {
			crash(a)
		} else if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	open(t, st, c, dir)
	if got := st.samples[id]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("samples %v\nwant %v", got, want)
	}
}

func TestDistributionsOfOneSlotMerge(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	s := series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")}
	now := c.now().UnixNano()
	want := hist.New(cellSchema)
	b := a.NewBatch()
	for i := range 20 { // beyond what a cell holds unmerged
		h := hist.New(cellSchema)
		for range 10 {
			v := rand.ExpFloat64()
			h.Record(v)
			want.Record(v)
		}
		b.Distribution(a.SeriesTarget(s), now, h)
		if i%7 == 0 {
			want.RecordNanos(5e6, 1)
			b.Observe(a.SeriesTarget(s), now, 5e6, 1)
		}
	}
	commit(t, b)
	flush(t, a)
	got := st.slots(t, "rpc_seconds", series.Full)[s.Labels.String()][series.Base.Slot(c.now().Unix())]
	equal(t, "merged", got, want)
}
