package compare

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkCompare judges two halves of a day of 1,000 series: 100 operations
// for each of ten tenants, of which three are large and seven very large. Slots
// are of a minute, each with about 40 requests, and settled.
func BenchmarkCompare(b *testing.B) {
	st, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	pool := func(requests int) (out [][]byte) {
		for range 100 {
			h := hist.New(hist.DefaultSchema)
			for range requests {
				if err := h.RecordNanos(int64(1e7*math.Exp(0.7*rng.NormFloat64())), 1); err != nil {
					b.Fatal(err)
				}
			}
			data, err := h.AppendBinary(nil)
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, data)
		}
		return out
	}
	few, many, whole := pool(8), pool(55), pool(400)
	var all []series.Series
	var of [][][]byte
	for op := range 100 {
		l := labels.FromStrings("service", "shop", "operation", fmt.Sprintf("GET /things/%d", op), "component", "app", "kind", "server", "status", "ok")
		for i := range 10 {
			all = append(all, series.Series{Family: series.SpanDuration, View: series.Full, Labels: labels.NewBuilder(l).Set("tenant", fmt.Sprint("tenant-", i)).Labels()})
			if of = append(of, many); i < 3 {
				of[len(of)-1] = few
			}
		}
		all, of = append(all, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: labels.NewBuilder(l).Set("instance", "i").Labels()}), append(of, whole)
	}
	all, of = append(all, series.Series{Family: series.SpanDuration, View: series.Total, Labels: labels.FromStrings("service", "shop", "component", "app", "kind", "server", "status", "ok")}), append(of, whole)
	generation := uint64(0)
	for slot := epoch; slot < epoch+86400; slot += 60 {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.Minute, Series: all}
		for i := range all {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: of[i][rng.IntN(100)]})
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Maintain(b.Context(), at(epoch+2*86400)); err != nil {
		b.Fatal(err)
	}
	r := Request{Selection: selection("service", "shop"), A: window(0, 43200), B: window(43200, 86400)}
	b.ResetTimer()
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		out, err := Compare(b.Context(), st, r)
		if err != nil || out.Slot != 60 || len(out.StrataBy) != 4 || out.A.Slots != 720 {
			b.Fatalf("%v, slots of %d s, strata by %v", err, out.Slot, out.StrataBy)
		}
	}
	b.ReportMetric(float64(spent(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

// BenchmarkCompareTenants judges two halves of a day of 200,000 requests of one operation and
// 10,000 tenants, of which two hundred are judged by themselves. Slots are of a minute, and
// settled.
func BenchmarkCompareTenants(b *testing.B) {
	st, err := pebblestore.Open(b.Context(), pebblestore.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	rng := rand.New(rand.NewPCG(7, 7))
	tenants := rand.NewZipf(rng, 1.33, 8, 9999)
	l := labels.NewBuilder(labels.FromStrings("service", "shop", "operation", "GET /session", "component", "app", "kind", "server", "status", "ok"))
	for minute := range int64(1440) {
		batch := &store.Batch{Writer: "bench", Generation: uint64(minute + 1), Resolution: series.Minute}
		add := func(view series.View, of labels.Labels, durations []int64) {
			h := hist.New(hist.DefaultSchema)
			for _, d := range durations {
				if err := h.RecordNanos(d, 1); err != nil {
					b.Fatal(err)
				}
			}
			data, err := h.AppendBinary(nil)
			if err != nil {
				b.Fatal(err)
			}
			batch.Points = append(batch.Points, store.Point{Series: uint32(len(batch.Series)), Slot: epoch + 60*minute, Data: data})
			batch.Series = append(batch.Series, series.Series{Family: series.SpanDuration, View: view, Labels: of})
		}
		var all []int64
		of := map[string][]int64{}
		for range 139 {
			name, d := fmt.Sprintf("tenant-%05d", tenants.Uint64()), int64(3e6*math.Exp(0.7*rng.NormFloat64()))
			of[name], all = append(of[name], d), append(all, d)
		}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			add(series.Full, l.Set("tenant", name).Labels(), of[name])
		}
		add(series.Marginal, l.Del("tenant").Set("instance", "i").Labels(), all)
		add(series.Total, labels.FromStrings("service", "shop", "component", "app", "kind", "server", "status", "ok"), all)
		l.Del("instance")
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Maintain(b.Context(), at(epoch+2*86400)); err != nil {
		b.Fatal(err)
	}
	r := Request{Selection: selection("service", "shop"), A: window(0, 43200), B: window(43200, 86400)}
	b.ResetTimer()
	b.ReportAllocs()
	before := spent(b)
	for b.Loop() {
		out, err := Compare(b.Context(), st, r)
		if err != nil || out.Slot != 60 || len(out.StrataBy) != 4 || len(out.Tenants) != defaultLimit {
			b.Fatalf("%v, slots of %d s, strata by %v, %d tenants", err, out.Slot, out.StrataBy, len(out.Tenants))
		}
	}
	b.ReportMetric(float64(spent(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

// spent is the time that the processors gave this process, in nanoseconds:
// what else runs does not count in it.
func spent(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
