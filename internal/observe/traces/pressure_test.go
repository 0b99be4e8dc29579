package traces

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
)

func TestOneIn(t *testing.T) {
	for _, tc := range []struct {
		name string
		load load
		want uint16
	}{
		{"nothing open", load{}, 1},
		{"half full", load{used: 0.5, all: 0.5, since: 2}, 1},
		{"will just fit", load{used: 0.8, all: 0.8, since: 9.5}, 1},
		{"steady, just fits", load{used: 0.93, all: 0.93, since: 11}, 1},
		{"steady, one in two open", load{used: 0.7, all: 1.4, since: 11}, 2},
		{"steady, one in four open", load{used: 0.75, all: 3, since: 11}, 4},
		{"fills up within two seconds", load{used: 0.8, all: 0.8, since: 2}, 27},
		{"fills up at once", load{used: 0.8, all: 0.8}, 187},
		{"nearly full for another reason", load{used: 0.99, all: 0.99, since: 11}, 7},
		{"full", load{used: 1, all: 1, since: 11}, maxOneIn},
	} {
		l := tc.load
		l.bound, l.wait = 1e6, 11
		l.used, l.all = l.used*1e6, l.all*1e6
		if got := l.oneIn(); got != tc.want {
			t.Errorf("%s: one in %d, want %d", tc.name, got, tc.want)
		}
	}
}

// One in n is chosen, also of ids that count up, and what is chosen at one in n is chosen
// at one in fewer.
func TestChosen(t *testing.T) {
	a, _, _ := start(t, Options{MemoryBytes: 1 << 20})
	const ids = 100_000
	for _, n := range []uint16{1, 2, 3, 7, 100} {
		found := 0
		for i := range uint64(ids) {
			id := traceID(i)
			h := a.mix(&id).Lo
			if !chosen(h, n) {
				continue
			}
			found++
			if n > 1 && !chosen(h, n-1) {
				t.Fatalf("trace %d is chosen at one in %d and not at one in %d", i, n, n-1)
			}
		}
		want := float64(ids) / float64(n)
		if sd := math.Sqrt(want * (1 - 1/float64(n))); math.Abs(float64(found)-want) > 5*sd {
			t.Errorf("one in %d of %d ids: %d, want %.0f within 5 x %.0f", n, ids, found, want, sd)
		}
	}
}

// traffic is traces of a service with three tenants, which arrive over time.
type traffic struct {
	a     *Assembler
	c     *clock
	names [3][3]Name // by tenant: the request, a statement, a call
	r     *rand.Rand
	n     uint64 // traces so far
}

func newTraffic(a *Assembler, c *clock) *traffic {
	f := &traffic{a: a, c: c, r: rand.New(rand.NewPCG(1, 2))}
	for i := range f.names {
		f.names[i] = [3]Name{
			a.Name(&Identity{Service: "shop", Operation: "GET /", Kind: "server", Component: "app", Tenant: fmt.Sprint("t", i)}),
			a.Name(&Identity{Service: "shop", Operation: "SELECT", Kind: "client", Component: "db"}),
			a.Name(&Identity{Service: "shop", Operation: "POST /pay", Kind: "client", Component: "external"}),
		}
	}
	return f
}

// send lets a second pass in which so many traces come, in ten requests of their senders:
// the spans of half of the traces in two of them.
func (f *traffic) send(t testing.TB, traces int) {
	var later []Span
	for range 10 {
		f.c.advance(100 * time.Millisecond)
		now := f.c.now().UnixNano()
		spans := later
		later = nil
		for range traces / 10 {
			f.n++
			id := traceID(f.n)
			tenant := [...]int{0, 0, 0, 0, 0, 0, 1, 1, 1, 2}[f.r.IntN(10)]
			db := int64(2e6 * math.Exp(f.r.NormFloat64()) * float64(1+tenant))
			pay := int64(0)
			if f.r.IntN(4) == 0 {
				pay = int64(30e6 * math.Exp(0.5*f.r.NormFloat64()))
			}
			app := int64(1e6 + 3e6*f.r.Float64())
			begin := now - db - pay - app
			root := Span{TraceID: id, ID: [8]byte{1}, Name: f.names[tenant][0], Start: begin, End: now}
			list := []Span{{TraceID: id, ID: [8]byte{2}, Parent: root.ID, Name: f.names[tenant][1], Start: begin, End: begin + db}}
			if pay > 0 {
				list = append(list, Span{TraceID: id, ID: [8]byte{3}, Parent: root.ID, Name: f.names[tenant][2], Start: begin + db, End: begin + db + pay})
			}
			spans = append(spans, list...)
			if f.n%2 == 0 {
				later = append(later, root)
			} else {
				spans = append(spans, root)
			}
		}
		f.a.Add(spans)
	}
	f.a.Add(later)
	f.a.tick(t, f.c)
}

// Nothing is left out while open traces fit. Beyond that whole traces are, so that none is
// closed early; once less comes nothing is.
func TestPressureLeavesTracesOut(t *testing.T) {
	const second = 100 // traces of a second that fit, with a half more
	a, s, c := start(t, Options{MemoryBytes: 1 << 20})
	f := newTraffic(a, c)
	for range 40 {
		f.send(t, second)
	}
	if st := a.Stats(); st.LeftOutTraces != 0 || st.OneIn != 1 {
		t.Errorf("while everything fits: %+v", st)
	}
	most := 0
	for i := range 60 {
		f.send(t, 10*second)
		if i >= 30 {
			most = max(most, a.Stats().OneIn)
		}
	}
	st := a.Stats()
	if st.LeftOutTraces == 0 || st.LeftOutSpans < 2*st.LeftOutTraces || most < 4 || most > 12 {
		t.Errorf("with ten times as many, one in %d: %+v", most, st)
	}
	if open := float64(st.OpenSpans) / 2.25 / second / 11; open < 0.9 {
		t.Errorf("only %.2f of the traces that fit are open", open)
	}
	for range 40 {
		f.send(t, second)
	}
	if now := a.Stats(); now.OneIn != 1 {
		t.Errorf("once few come again one in %d", now.OneIn)
	}
	left := a.Stats().LeftOutTraces
	f.send(t, second)
	st = a.Stats()
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st.LeftOutTraces != left || st.ClosedEarly+st.NoSpace+st.Late+st.Orphans+st.Rootless != 0 {
		t.Errorf("%+v", st)
	}
	// Those put together count for all.
	if got, want := float64(s.count(series.BreakdownRequests)), float64(f.n); math.Abs(got-want) > 0.05*want {
		t.Errorf("%.0f requests, want about %.0f", got, want)
	}
}

// A trace that began while others were left out keeps its fate.
func TestFateLasts(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 1 << 20})
	names := someNames(a)
	sh := a.shards[0]
	sh.oneIn, sh.adapted = 4, c.now().UnixNano()
	const n = 400
	for i := range uint64(n) {
		a.Add(fill(names, i, 3, true)[1:])
	}
	st := a.Stats()
	if st.LeftOutTraces == 0 || st.LeftOutTraces == n || st.LeftOutSpans != 2*st.LeftOutTraces {
		t.Fatalf("%+v", st)
	}
	c.advance(5 * time.Second)
	for i := range uint64(n) {
		a.Add(fill(names, i, 3, true)[:1])
	}
	c.advance(20 * time.Second)
	a.tick(t, c)
	if now := a.Stats(); now.OneIn != 1 || now.LeftOutTraces != st.LeftOutTraces || now.Closed+now.LeftOutTraces != n || now.Incomplete != 0 {
		t.Errorf("%+v", now)
	}
}

// merged returns the distributions of the sink, whatever their slots.
func (s *sink) merged() map[string]*hist.Histogram {
	all := map[string]*hist.Histogram{}
	for k, h := range s.hists {
		name, _, _ := strings.Cut(k, " @")
		if all[name] == nil {
			all[name] = hist.New(hist.DefaultSchema)
		}
		must(all[name].Merge(h))
	}
	return all
}

// With most traces left out the distributions of parts and tenants are those of all traces:
// counts and sums are right on average, and the intervals of quantiles hold the truth.
func TestPressureIsUnbiased(t *testing.T) {
	run := func(seed uint64, memory int64) (map[string]*hist.Histogram, Stats) {
		a, s, c := start(t, Options{MemoryBytes: memory})
		a.seed = [2]uint64{seed * 0x9e3779b97f4a7c15, seed * 0xd1b54a32d192ed03}
		f := newTraffic(a, c)
		for i := range 45 {
			f.send(t, [...]int{100, 900, 400}[i/15])
		}
		must(a.Flush(context.Background()))
		return s.merged(), a.Stats()
	}
	truth, _ := run(1, 256<<20)
	const seeds = 25
	type sums struct{ n, sum, nn, sumsum float64 }
	by := map[string]*sums{}
	intervals, missed := 0, 0
	for seed := range uint64(seeds) {
		got, st := run(seed+1, 1<<20)
		if st.ClosedEarly+st.Incomplete+st.NoSpace != 0 || st.LeftOutTraces < st.Closed/2 {
			t.Fatalf("%+v", st)
		}
		for name, h := range got {
			if by[name] == nil {
				by[name] = &sums{}
			}
			x := by[name]
			n := float64(h.Count)
			x.n, x.nn = x.n+n, x.nn+n*n
			x.sum, x.sumsum = x.sum+h.Sum, x.sumsum+h.Sum*h.Sum
			if !strings.HasPrefix(name, "self ") || h.Effective() < 100 {
				continue
			}
			for _, q := range []float64{0.5, 0.9, 0.95} {
				intervals++
				// The share below the true quantile is q, within its interval.
				if at := share(h, truth[name].Quantile(q)); math.Abs(at-share(truth[name], truth[name].Quantile(q))) > 2.58*math.Sqrt(q*(1-q)/h.Effective()) {
					missed++
				}
			}
		}
	}
	far := 0
	for name, h := range truth {
		x := by[name]
		if x == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		for _, m := range []struct{ want, sum, squares float64 }{{float64(h.Count), x.n, x.nn}, {h.Sum, x.sum, x.sumsum}} {
			mean := m.sum / seeds
			sd := math.Sqrt(max(m.squares/seeds-mean*mean, 0) / (seeds - 1))
			if z := math.Abs(mean-m.want) / sd; z > 5 {
				t.Errorf("%s: %v on average, want %v within 5 x %v", name, mean, m.want, sd)
			} else if z > 2 {
				far++
			}
			if mean < 0.9*m.want || mean > 1.1*m.want {
				t.Errorf("%s: %v on average, want about %v", name, mean, m.want)
			}
		}
	}
	t.Logf("%d series, %d of their means beyond two standard errors; %d of %d intervals of 99 %% miss", len(truth), far, missed, intervals)
	if 10*far > 2*len(truth) || 100*missed > 3*intervals || intervals < 10*seeds {
		t.Error("too many")
	}
}

// share returns the share of h in the buckets up to that of v.
func share(h *hist.Histogram, v float64) float64 {
	n := h.ZeroCount
	for i, c := range h.Positive.Counts {
		if h.Positive.Offset+int32(i) <= hist.BucketIndex(v, h.Schema) {
			n += c
		}
	}
	return float64(n) / float64(h.Count)
}

// BenchmarkPressure measures spans that are left out.
func BenchmarkPressure(b *testing.B) {
	a, err := New(Options{Sink: nothing{}, MemoryBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close(context.Background())
	name := a.Name(&Identity{Service: "shop", Operation: "GET /", Kind: "server", Component: "app"})
	for _, sh := range a.shards {
		sh.oneIn = maxOneIn
		sh.adapted = math.MaxInt64
	}
	spans := make([]Span, 500)
	n := uint64(0)
	for b.Loop() {
		for i := range spans {
			if i%5 == 0 {
				n++
			}
			spans[i] = Span{ID: [8]byte{byte(i)}, Name: name, Start: 1, End: 2}
			binary.LittleEndian.PutUint64(spans[i].TraceID[:], n)
		}
		a.Add(spans)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(spans)), "ns/span")
}
