package agg

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// nullStore takes everything.
type nullStore struct {
	store.Store
	points, bytes int
	last          uint64
}

func (n *nullStore) Put(_ context.Context, b *store.Batch) error {
	n.points += len(b.Points)
	for i := range b.Points {
		n.bytes += len(b.Points[i].Data)
	}
	n.last = b.Generation
	return nil
}
func (n *nullStore) Flushed(context.Context, string) (uint64, error) { return n.last, nil }
func (n *nullStore) Durable(context.Context, string) (uint64, error) { return n.last, nil }
func (n *nullStore) State(context.Context, string, []byte, func(key, value []byte) error) error {
	return nil
}

// load is spans of tenants by Zipf over a few dozen operations: draws of
// (tenant, operation) until the wanted number of distinct series was seen.
type load struct {
	ids   []SpanIdentity
	draws []uint32 // indices into ids, as traffic comes
}

func newLoad(distinct, draws int) *load {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 4, 9_999)
	l := &load{}
	index := map[[2]uint32]uint32{}
	kinds := []string{"server", "client", "client", "client"}
	for len(l.draws) < draws || len(l.ids) < distinct {
		k := [2]uint32{uint32(z.Uint64()), uint32(r.IntN(40))}
		n, ok := index[k]
		if !ok {
			if len(l.ids) >= distinct {
				continue
			}
			n = uint32(len(l.ids))
			index[k] = n
			l.ids = append(l.ids, SpanIdentity{Service: "checkout", Operation: fmt.Sprintf("GET /api/v1/resource-%d/{id}", k[1]), Component: "app",
				Kind: kinds[k[1]%4], Status: "ok", Tenant: fmt.Sprintf("tenant-%05d", k[0]), Version: "1.4.2", Instance: fmt.Sprint("pod-", k[0]%8)})
		}
		l.draws = append(l.draws, n)
	}
	return l
}

func durations(n int) []int64 {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(math.Exp(r.NormFloat64()*0.7) * 25e6)
	}
	return out
}

// BenchmarkCommit is Observe and Commit, the journal's write included, of
// batches of 200 spans into both views; a flush every million spans is outside
// of the clock.
func BenchmarkCommit(b *testing.B) {
	for _, distinct := range []int{1_000, 146_000} {
		b.Run(fmt.Sprint("series=", distinct), func(b *testing.B) { benchmarkCommit(b, distinct, nil) })
	}
	// A quarter of the spans are requests.
	b.Run("series=1000/seconds", func(b *testing.B) { benchmarkCommit(b, 1_000, seconds.New(seconds.Options{})) })
}

func benchmarkCommit(b *testing.B, distinct int, ring *seconds.Ring) {
	a, targets, l, ns := prepare(b, distinct, 1_000_000, ring)
	const batch = 200
	end := time.Now().UnixNano()
	i := 0
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		if ring != nil {
			ring.Run(ctx)
		}
	}()
	defer func() { cancel(); <-done }()
	b.ReportAllocs()
	cpu := cpuTime()
	for b.Loop() {
		bt := a.NewBatch()
		for range batch {
			bt.Observe(targets[l.draws[i%len(l.draws)]], end, ns[i%len(ns)], 1)
			i++
		}
		if _, err := bt.Commit(context.Background()); err != nil {
			b.Fatal(err)
		}
		if i%1_000_000 == 0 {
			b.StopTimer()
			cpu -= cpuTime()
			a.Flush(context.Background())
			cpu += cpuTime()
			b.StartTimer()
		}
	}
	b.ReportMetric(float64((cpuTime()-cpu).Nanoseconds())/float64(i), "cpu-ns/span")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i), "ns/span")
	b.ReportMetric(float64(a.Stats().JournalBytes)/float64(i), "journal-B/span")
}

func prepare(b testing.TB, distinct, draws int, ring *seconds.Ring) (*Aggregator, []Target, *load, []int64) {
	a, err := Open(context.Background(), &nullStore{}, Options{Writer: "local", Dir: b.TempDir(), FlushInterval: time.Hour, MemoryBytes: 2 << 30, Seconds: ring})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { a.Close(context.Background()) })
	l := newLoad(distinct, draws)
	targets := make([]Target, len(l.ids))
	for i := range l.ids {
		targets[i] = a.SpanTarget(&l.ids[i])
	}
	return a, targets, l, durations(1 << 16)
}

// BenchmarkFlush is a flush, by cell, of as many series as given with one to
// three observations each, into a store that takes everything.
func BenchmarkFlush(b *testing.B) {
	for _, each := range []int{1, 3, 6, 200} {
		b.Run(fmt.Sprint("observations=", each), func(b *testing.B) {
			n := 23_500
			if each > 10 {
				n = 1000
			}
			a, targets, _, ns := prepare(b, n, n, nil)
			end := time.Now().UnixNano()
			b.ReportAllocs()
			cells := 0
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				bt := a.NewBatch()
				for i, t := range targets {
					for k := range each {
						bt.Observe(t, end, ns[(i*7+k)%len(ns)], 1)
					}
				}
				if _, err := bt.Commit(context.Background()); err != nil {
					b.Fatal(err)
				}
				cpu -= cpuTime()
				b.StartTimer()
				if err := a.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				cpu += cpuTime()
				cells += len(targets)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(cells), "ns/cell")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(cells), "cpu-ns/cell")
		})
	}
}

// BenchmarkHandOver is a batch of a thousand distributions of a thousand series and two
// slots, with their flush after every fourth, journalled and derived. An operation is one
// batch.
func BenchmarkHandOver(b *testing.B) {
	ns := durations(1 << 16)
	for _, derived := range []bool{false, true} {
		b.Run(fmt.Sprint("derived=", derived), func(b *testing.B) {
			a, err := Open(context.Background(), &nullStore{}, Options{Writer: "local", Dir: b.TempDir(), FlushInterval: time.Hour, MemoryBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			defer a.Close(context.Background())
			const rows = 1000
			var targets [rows]Target
			var hists [rows]*hist.Histogram
			for i := range targets {
				targets[i] = a.SeriesTarget(series.Series{Family: series.BreakdownSelf, Labels: labels.FromStrings("part", fmt.Sprint(i))})
				hists[i] = hist.New(hist.DefaultSchema)
				h, sum := hists[i], int64(0)
				for k := range 40 {
					sum += ns[(i*40+k)%len(ns)]
					if err := h.RecordNanos(ns[(i*40+k)%len(ns)], 1); err != nil {
						b.Fatal(err)
					}
				}
				const micros = 1000 // of the part in each request
				h.Count *= micros
				h.SetSumNanos(sum * micros)
				for k := range h.Positive.Counts {
					h.Positive.Counts[k] *= micros
				}
			}
			begin, now := a.NewBatch, time.Now().UnixNano()
			if derived {
				begin = a.NewDerivedBatch
			}
			b.ReportAllocs()
			n, cpu := 0, cpuTime()
			for b.Loop() {
				bt := begin()
				for i, t := range targets {
					bt.Distribution(t, now-int64(n%2)*slotNanos, hists[i])
				}
				if _, err := bt.Commit(context.Background()); err != nil {
					b.Fatal(err)
				}
				if n++; n%4 == 0 {
					if err := a.Flush(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(n*rows), "cpu-ns/distribution")
			b.ReportMetric(float64(a.Stats().JournalBytes)/float64(n*rows), "journal-B/distribution")
		})
	}
}

// BenchmarkResolve is the first resolution of identities, and the repeated one.
func BenchmarkResolve(b *testing.B) {
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprint("known=", known), func(b *testing.B) {
			l := newLoad(100_000, 0)
			n := 0
			var a *Aggregator
			b.ReportAllocs()
			for b.Loop() {
				if n%len(l.ids) == 0 && (!known || a == nil) {
					b.StopTimer()
					var err error
					if a != nil {
						a.Close(context.Background())
					}
					a, err = Open(context.Background(), &nullStore{}, Options{Writer: "local", Dir: b.TempDir(), FlushInterval: time.Hour, MemoryBytes: 2 << 30})
					if err != nil {
						b.Fatal(err)
					}
					if known {
						for i := range l.ids {
							a.SpanTarget(&l.ids[i])
						}
					}
					b.StartTimer()
				}
				a.SpanTarget(&l.ids[n%len(l.ids)])
				n++
			}
			a.Close(context.Background())
		})
	}
}

// BenchmarkMemory is the heap that active series take, with one to a few
// observations each in the open slot, before and after a flush.
func BenchmarkMemory(b *testing.B) {
	for _, distinct := range []int{100_000, 146_000} {
		b.Run(fmt.Sprint("series=", distinct), func(b *testing.B) {
			for b.Loop() {
				l := newLoad(distinct, 1_000_000)
				ns := durations(1 << 16)
				before := heap()
				a, err := Open(context.Background(), &nullStore{}, Options{Writer: "local", Dir: b.TempDir(), FlushInterval: time.Hour, MemoryBytes: 1 << 30})
				if err != nil {
					b.Fatal(err)
				}
				end := time.Now().UnixNano()
				for i := 0; i < len(l.draws); {
					bt := a.NewBatch()
					for range min(200, len(l.draws)-i) {
						bt.Observe(a.SpanTarget(&l.ids[l.draws[i]]), end, ns[i%len(ns)], 1)
						i++
					}
					if _, err := bt.Commit(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				open, accounted := heap()-before, a.Stats().MemoryBytes
				if err := a.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				after := heap() - before
				b.ReportMetric(float64(open)/1e6, "open-MB")
				b.ReportMetric(float64(accounted)/1e6, "accounted-MB")
				b.ReportMetric(float64(after)/1e6, "flushed-MB")
				b.ReportMetric(float64(open)/float64(distinct), "B/series")
				runtime.KeepAlive(l)
				a.Close(context.Background())
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cpuTime is the processor time the process used, which neighbours disturb
// less than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFresh asks for what is not stored yet while 146,000 series have cells: of all
// services, of an operation, and of a tenant of one operation.
func BenchmarkFresh(b *testing.B) {
	a, targets, l, ns := prepare(b, 146_000, 1, nil)
	now := time.Now()
	bt := a.NewBatch()
	for i, t := range targets {
		bt.Observe(t, now.UnixNano(), ns[i%len(ns)], 1)
		if i%1000 == 999 || i == len(targets)-1 {
			if _, err := bt.Commit(b.Context()); err != nil {
				b.Fatal(err)
			}
			bt = a.NewBatch()
		}
	}
	equal := func(name, value string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, name, value) }
	one := l.ids[0]
	for _, c := range []struct {
		name string
		q    store.Query
	}{
		{"total", store.Query{View: series.Total}},
		{"operation", store.Query{View: series.Marginal, Matchers: []*labels.Matcher{equal(series.LabelOperation, one.Operation)}}},
		{"tenant", store.Query{View: series.Full, Matchers: []*labels.Matcher{equal(series.LabelOperation, one.Operation), equal(series.LabelTenant, one.Tenant)}}},
		{"metric", store.Query{Family: "queue_depth", View: series.Full}},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := c.q
			q.Family = cmp.Or(q.Family, series.SpanDuration)
			q.Start, q.End, q.Schema = now.Unix()-600, now.Unix()+600, hist.DefaultSchema
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.unstored(b.Context(), &q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTenants is ObserveTenant and Commit of batches of 1000 spans, and the flush of half a
// million: of tenants by Zipf, and of as many series of theirs as given at most.
func BenchmarkTenants(b *testing.B) {
	for _, distinct := range []int{1_000, 146_000} {
		b.Run(fmt.Sprint("series=", distinct), func(b *testing.B) {
			a, err := Open(context.Background(), &nullStore{}, Options{Writer: "local", Dir: b.TempDir(), FlushInterval: time.Hour, MemoryBytes: 2 << 30})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { a.Close(context.Background()) })
			const batch, each = 1000, 500_000
			l, ns := newLoad(distinct, each), durations(1<<16)
			members := make([]Member, len(l.ids))
			for i := range l.ids {
				id := l.ids[i]
				id.Tenant = ""
				members[i] = Member{Target: a.SpanTarget(&id), Tenant: l.ids[i].Tenant}
			}
			a.Fold(members)
			end := time.Now().UnixNano()
			var commits, flushes time.Duration
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				cpu := cpuTime()
				for range each / batch {
					bt := a.NewBatch()
					for range batch {
						m := &members[l.draws[n%each]]
						bt.ObserveTenant(m.Target, m.Tenant, m.Folded, end, ns[n%len(ns)], 1)
						n++
					}
					if _, err := bt.Commit(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				committed := cpuTime()
				if err := a.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
				commits, flushes = commits+committed-cpu, flushes+cpuTime()-committed
			}
			b.ReportMetric(float64(commits)/float64(n), "commit-cpu-ns/span")
			b.ReportMetric(float64(flushes)/float64(n), "flush-cpu-ns/span")
		})
	}
}
