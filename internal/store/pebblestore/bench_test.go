package pebblestore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Fixtures are built once per run of the benchmarks and are large; they live
// in a directory that the last benchmark leaves behind only if it fails.

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// denseSeries is 1,000 series: 10 services, 10 operations of each, and 10 tenants.
func denseSeries(n int) []series.Series {
	var out []series.Series
	for i := range n {
		out = append(out, storetest.Span(series.Full, "service", fmt.Sprintf("service-%02d", i/100), "operation", fmt.Sprintf("GET /things/%d/{id}", i/10%10),
			"component", "app", "kind", "server", "status", "ok", "tenant", fmt.Sprintf("tenant-%04d", i%10)))
	}
	return out
}

// logNormal encodes n log-normal observations around a median, in whole nanoseconds.
func logNormal(rng *rand.Rand, h *hist.Histogram, n int, median, sigma float64) []byte {
	h.Reset(hist.DefaultSchema)
	for range n {
		ns := math.Round(median * 1e9 * math.Exp(sigma*rng.NormFloat64()))
		h.Record(ns / 1e9) // as the decoders make seconds of nanoseconds; times 1e-9 is not the same
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return b
}

type fixture struct {
	s      *Store
	dir    string
	points int
	end    int64 // of the data
	load   time.Duration
	settle time.Duration
}

var fixtures = map[string]*fixture{}

// dense is 1,000 series × 2,160 base slots (6 h) of about 200 observations.
func dense(b *testing.B) *fixture {
	return loaded(b, "dense", 6*360, func(rng *rand.Rand) func(int) *store.Batch {
		ss := denseSeries(1000)
		h := hist.New(hist.DefaultSchema)
		var pool [100][300][]byte // of each operation
		for o := range pool {
			for k := range pool[o] {
				pool[o][k] = logNormal(rng, h, 150+rng.IntN(101), 0.002*math.Exp(float64(o)/25), 0.7)
			}
		}
		return func(slot int) *store.Batch {
			batch := &store.Batch{Series: ss}
			for i := range ss {
				batch.Points = append(batch.Points, store.Point{Series: uint32(i), Data: pool[i/10%100][rng.IntN(300)]})
			}
			return batch
		}
	})
}

// sparse is 10,000 tenants by Zipf and 15 operations, 40,000 observations a
// slot, so that most points hold one to three of them; some 140,000 series in
// all. The marginals and totals without tenants are kept beside them. One slot
// a minute is filled, which is what the rollups that queries read depend on.
func sparse(b *testing.B, hours int) *fixture {
	return loaded(b, fmt.Sprint("sparse", hours), hours*60, func(rng *rand.Rand) func(int) *store.Batch {
		const tenants, operations = 10000, 15
		zipf := rand.NewZipf(rng, 1.1, 4, tenants-1)
		var ss []series.Series
		index := map[[2]int]uint32{}
		var totals []uint32
		for o := range operations {
			totals = append(totals, uint32(len(ss)))
			ss = append(ss, storetest.Span(series.Marginal, "service", "shop", "operation", fmt.Sprintf("op-%02d", o), "kind", "server", "status", "ok", "instance", "i1"))
		}
		for k := range 2 {
			totals = append(totals, uint32(len(ss)))
			ss = append(ss, storetest.Span(series.Total, "service", "shop", "kind", []string{"server", "client"}[k], "status", "ok"))
		}
		h := hist.New(hist.DefaultSchema)
		return func(slot int) *store.Batch {
			type acc struct{ values []float64 }
			full := map[uint32]*acc{}
			sums := make([]*hist.Histogram, len(totals))
			for i := range sums {
				sums[i] = hist.New(hist.DefaultSchema)
			}
			const spans = 40000
			for range spans {
				t, o := int(zipf.Uint64()), rng.IntN(operations)
				key := [2]int{t, o}
				i, ok := index[key]
				if !ok {
					i = uint32(len(ss))
					index[key] = i
					ss = append(ss, storetest.Span(series.Full, "service", "shop", "operation", fmt.Sprintf("op-%02d", o), "kind", "server", "status", "ok", "tenant", fmt.Sprintf("tenant-%05d", t)))
				}
				a := full[i]
				if a == nil {
					a = &acc{}
					full[i] = a
				}
				v := math.Round(2e6*math.Exp(float64(o)/4+0.7*rng.NormFloat64())) / 1e9
				a.values = append(a.values, v)
				sums[o].Record(v)
				sums[operations+o%2].Record(v)
			}
			batch := &store.Batch{Series: ss}
			for i, s := range sums {
				data, _ := s.AppendBinary(nil)
				batch.Points = append(batch.Points, store.Point{Series: totals[i], Data: data})
			}
			for i, a := range full {
				h.Reset(hist.DefaultSchema)
				for _, v := range a.values {
					h.Record(v)
				}
				data, _ := h.AppendBinary(nil)
				batch.Points = append(batch.Points, store.Point{Series: i, Data: data})
			}
			return batch
		}
	})
}

// loaded fills a store as time would: a Put per slot, Maintain each minute.
// Set PEBBLESTORE_BENCH_DIR to keep fixtures between runs.
func loaded(b *testing.B, name string, puts int, source func(*rand.Rand) func(int) *store.Batch) *fixture {
	if f := fixtures[name]; f != nil {
		return f
	}
	parent := os.Getenv("PEBBLESTORE_BENCH_DIR")
	if parent == "" {
		var err error
		parent, err = os.MkdirTemp("", "pebblestore-bench")
		check(b, err)
	}
	dir := parent + "/" + name
	_, err := os.Stat(dir + "/done")
	have := err == nil
	o := Options{Dir: dir, FS: vfs.Default}
	s, err := Open(context.Background(), o)
	check(b, err)
	every := int64(10) // seconds between puts
	switch {
	case name == "week":
		every = 600
	case strings.HasPrefix(name, "sparse"):
		every = 60
	}
	f := &fixture{s: s, dir: dir, end: t0 + int64(puts)*every}
	fixtures[name] = f
	if have {
		return f
	}
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(7, 7))
	next := source(rng)
	for n := range puts {
		batch := next(n)
		batch.Writer, batch.Generation, batch.Resolution = "bench", uint64(n+1), series.Base
		at := t0 + int64(n)*every
		for i := range batch.Points {
			batch.Points[i].Slot += at
		}
		f.points += len(batch.Points)
		start := cpu()
		check(b, s.Put(ctx, batch))
		f.load += cpu() - start
		if (at+every)%60 == 0 {
			start := cpu()
			check(b, s.Maintain(ctx, time.Unix(at+every+20, 0)))
			f.settle += cpu() - start
		}
	}
	start := cpu()
	check(b, s.Maintain(ctx, time.Unix(f.end+30, 0)))
	f.settle += cpu() - start
	check(b, os.WriteFile(dir+"/done", fmt.Append(nil, "points ", f.points, " put ", f.load, " maintain ", f.settle, "\n"), 0o644))
	b.Logf("%s: %d points; put %.2f CPU-s and maintain %.2f CPU-s per million points", name, f.points,
		f.load.Seconds()/float64(f.points)*1e6, f.settle.Seconds()/float64(f.points)*1e6)
	return f
}

func run(b *testing.B, f *fixture, q store.Query) {
	q.Family, q.Schema = series.SpanDuration, hist.DefaultSchema
	ctx := context.Background()
	r, err := f.s.Query(ctx, q)
	check(b, err)
	if len(r.Groups) == 0 {
		b.Fatal("no groups")
	}
	var h *hist.Histogram
	var n uint64
	start, ops := cpu(), 0
	for b.Loop() {
		ops++
		r, err = f.s.Query(ctx, q)
		check(b, err)
		for _, g := range r.Groups {
			for _, p := range g.Points {
				h = p.Hist
				if q.Measure == store.Buckets {
					h.Quantile(0.5)
					h.Quantile(0.95)
					h.Quantile(0.99)
				}
				n += h.Count
			}
		}
	}
	b.ReportMetric((cpu()-start).Seconds()*1e3/float64(ops), "CPU-ms/op")
	b.ReportMetric(float64(r.PointsRead), "points/op")
	b.ReportMetric(float64(r.Resolution), "slot-s")
}

func eq(name, value string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
}

func BenchmarkQueryDense(b *testing.B) {
	f := dense(b)
	start, end := f.end-6*3600, f.end
	for _, q := range []struct {
		name string
		q    store.Query
	}{
		{"work=merge-1000-series-6h", store.Query{Start: start, End: end}},
		{"work=merge-1000-series-6h-unaligned", store.Query{Start: start + 1230, End: end - 10}},
		{"work=by-tenant-1000-series-6h", store.Query{Start: start, End: end, By: []string{"tenant"}}},
		{"work=per-minute-100-series-6h", store.Query{Start: start, End: end, Step: 60, Matchers: eq("service", "service-03")}},
		{"work=heatmap-20s-100-series-6h", store.Query{Start: start, End: end, Step: 20, Matchers: eq("service", "service-03")}},
		{"work=base-1000-series-10min", store.Query{Start: start, End: start + 600, Step: 10}},
		{"work=moments-1000-series-6h-per-minute", store.Query{Start: start, End: end, Step: 60, Measure: store.Moments}},
	} {
		b.Run(q.name, func(b *testing.B) { run(b, f, q.q) })
	}
}

func BenchmarkQuerySparse(b *testing.B) {
	f := sparse(b, 7)
	end := f.end
	start := end - 6*3600
	tenant := eq("tenant", "tenant-00003")
	for _, q := range []struct {
		name string
		q    store.Query
	}{
		{"work=heatmap-20s-total-6h", store.Query{View: series.Total, Start: start, End: end, Step: 20, Matchers: eq("service", "shop")}},
		{"work=heatmap-20s-marginal-6h", store.Query{View: series.Marginal, Start: start, End: end, Step: 20, Matchers: eq("service", "shop")}},
		{"work=top-20-tenants-6h", store.Query{Start: start, End: end, By: []string{"tenant"}, TopK: 20}},
		{"work=top-20-tenants-6h-unaligned", store.Query{Start: start - 1230, End: end - 1230, By: []string{"tenant"}, TopK: 20}},
		{"work=one-tenant-per-minute-6h", store.Query{Start: start, End: end, Step: 60, Matchers: tenant}},
		{"work=service-table-6h", store.Query{View: series.Marginal, Start: start, End: end, By: []string{"service", "operation"}}},
	} {
		b.Run(q.name, func(b *testing.B) { run(b, f, q.q) })
	}
}

// BenchmarkHeatmapWeek draws a week of one service, six total series, at 1,008
// columns. The other 140,000 series of a real load are in other scopes.
func BenchmarkHeatmapWeek(b *testing.B) {
	f := loaded(b, "week", 7*24*6, func(rng *rand.Rand) func(int) *store.Batch {
		var ss []series.Series
		for i := range 6 {
			ss = append(ss, storetest.Span(series.Total, "service", "shop", "kind", []string{"server", "client"}[i%2], "status", []string{"ok", "error"}[i/2%2], "version", fmt.Sprint(i/4)))
		}
		h := hist.New(hist.DefaultSchema)
		var pool [][]byte
		for range 300 {
			pool = append(pool, logNormal(rng, h, 3000, 0.01, 1))
		}
		return func(slot int) *store.Batch {
			batch := &store.Batch{Series: ss}
			for k := range int64(60) {
				for i := range ss {
					batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: k * 10, Data: pool[rng.IntN(len(pool))]})
				}
			}
			return batch
		}
	})
	b.Run("work=ten-minutes", func(b *testing.B) {
		run(b, f, store.Query{View: series.Total, Start: t0, End: t0 + 7*24*3600, Step: 600, Matchers: eq("service", "shop")})
	})
}

// BenchmarkDisk reports what a compacted base point takes on disk, everything
// that is kept for it included but the rollups, and what the rollups take.
func BenchmarkDisk(b *testing.B) {
	for _, name := range []string{"dense", "sparse"} {
		b.Run("load="+name, func(b *testing.B) {
			var f *fixture
			if name == "dense" {
				f = dense(b)
			} else {
				f = sparse(b, 7)
			}
			s := f.s
			ctx := context.Background()
			check(b, s.Maintain(ctx, time.Unix(f.end+3600, 0)))
			check(b, s.db.Flush())
			check(b, s.db.Compact(ctx, []byte{0}, []byte{0xff}, true))
			used := func(from, to []byte) float64 {
				n, err := s.db.EstimateDiskUsage(from, to)
				check(b, err)
				return float64(n)
			}
			r := store.Query{Family: series.SpanDuration, Schema: 5, Start: f.end - 6*3600, End: f.end, Step: 10, Measure: store.Moments}
			points := 0
			for v := range series.Total + 1 {
				r.View = v
				res, err := s.Query(ctx, r)
				check(b, err)
				points += res.PointsRead
			}
			share := 6 * 3600 / float64(f.end-t0)
			for b.Loop() {
				runtime.Gosched()
			}
			base := used(tierPrefix(nil, 0), tierPrefix(nil, 1)) * share
			b.ReportMetric(base/float64(points), "B/point")
			b.ReportMetric((base+used([]byte{tableIndex}, []byte{tableIndex + 1}))/float64(points), "B/point-with-index")
			b.ReportMetric(used(tierPrefix(nil, 1), tierPrefix(nil, 4))*share/float64(points), "B/point-for-rollups")
			b.ReportMetric(float64(points), "points")
		})
	}
}

// BenchmarkSettle compacts an hour of the dense load, again and again.
func BenchmarkSettle(b *testing.B) {
	ctx := context.Background()
	ss := denseSeries(1000)
	rng := rand.New(rand.NewPCG(7, 7))
	h := hist.New(hist.DefaultSchema)
	s := open(b, Options{MemtableBytes: 16 << 20})
	defer s.Close()
	points := 0
	for slot := range int64(360) {
		batch := &store.Batch{Writer: "w", Generation: uint64(slot + 1), Resolution: series.Base, Series: ss}
		for i := range ss {
			median := 0.002 * math.Exp(float64(i/10%100)/25)
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: t0 + slot*10, Data: logNormal(rng, h, 200, median, 0.7)})
		}
		points += len(batch.Points)
		check(b, s.Put(ctx, batch))
	}
	id := scopeID{partID{0, t0}, makeScope(s.families[series.SpanDuration].number, series.Full)}
	start := cpu()
	n := 0
	for b.Loop() {
		w := &compactor{s: s, id: id, wb: s.db.NewBatch(), merger: s.newMerger(), dir: &directory{starts: []uint32{0}}}
		var err error
		w.u, err = s.units.get(t0, id.scope)
		check(b, err)
		snap := s.db.NewSnapshot()
		w.scanner, err = s.newScanner(ctx, snap)
		check(b, err)
		check(b, w.run(ctx))
		w.scanner.close()
		snap.Close()
		w.wb.Close()
		n++
	}
	b.ReportMetric((cpu()-start).Seconds()/float64(n*points)*1e6, "CPU-s/Mpoint")
}

// BenchmarkPut stores a slot of 23,500 points, most of one to three observations.
func BenchmarkPut(b *testing.B) {
	ctx := context.Background()
	s := open(b, Options{Dir: b.TempDir(), FS: vfs.Default})
	defer s.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	h := hist.New(hist.DefaultSchema)
	batch := &store.Batch{Writer: "w", Resolution: series.Base}
	for i := range 60000 {
		batch.Series = append(batch.Series, storetest.Span(series.Full, "service", "shop", "operation", fmt.Sprintf("GET /things/%02d/{id}", i%15),
			"component", "app", "kind", "server", "status", "ok", "tenant", fmt.Sprintf("tenant-%05d", i/15)))
	}
	var pool [][]byte
	for range 5000 {
		pool = append(pool, logNormal(rng, h, 1+rng.IntN(3), 0.01, 1))
	}
	const points = 23500
	start, n := cpu(), 0
	for b.Loop() {
		b.StopTimer()
		batch.Generation++
		batch.Points = batch.Points[:0]
		first := rng.IntN(3)
		for i := range points {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i*5/2 + first), Slot: t0 + int64(batch.Generation)*10, Data: pool[rng.IntN(len(pool))]})
		}
		b.StartTimer()
		check(b, s.Put(ctx, batch))
		n += points
	}
	b.ReportMetric((cpu()-start).Seconds()/float64(n)*1e6, "CPU-s/Mpoint")
}
