package changes

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// BenchmarkDay searches a day in slots of a minute, of 50 operations of which two
// changed at noon, and of 1,000 of which 50 are searched.
func BenchmarkDay(b *testing.B) {
	for _, operations := range []int{50, 1000} {
		b.Run(fmt.Sprint(operations), func(b *testing.B) { benchmarkDay(b, operations) })
	}
}

// BenchmarkHours asks for six hours of 50 operations in slots of ten seconds: for the first time,
// and once a minute, when only the newest windows are searched.
func BenchmarkHours(b *testing.B) {
	const seconds = 10 * 3600
	st := pebble(b, b.TempDir())
	defer st.Close()
	fill(b, st, series.Base, seconds, heavy)
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("warm=%v", warm), func(b *testing.B) {
			f := NewFinder(st)
			for i := 0; b.Loop(); i++ {
				if !warm {
					f = NewFinder(st)
				}
				end := int64(seconds - 3600 + 60*(i%60))
				if out := found(b, f, asked(end-6*3600, end, "service", "shop")); out.Slot != 10 || of(out, "GET /000") == nil {
					b.Fatalf("slots of %d s, found %d", out.Slot, len(out.Changes))
				}
			}
		})
	}
}

func benchmarkDay(b *testing.B, operations int) {
	st := pebble(b, b.TempDir())
	defer st.Close()
	fill(b, st, series.Minute, 86400, operations)
	r := asked(0, 86400, "service", "shop")
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		out := found(b, NewFinder(st), r)
		if out.Searched != heavy+1 || out.Slot != 60 || of(out, "GET /000") == nil || of(out, "GET /001") == nil {
			b.Fatalf("searched %d in slots of %d s, found %d", out.Searched, out.Slot, len(out.Changes))
		}
		b.ReportMetric(float64(len(out.Changes)), "changes")
	}
}

// Many operations take little more memory than those that are searched: the
// store answers no more than it is allowed to, which all of them would exceed.
func TestManyOperationsAreReadTogether(t *testing.T) {
	const half, operations = 43200, 300
	st, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: t.TempDir(), AnswerBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	fill(t, st, series.Minute, half, operations)
	r := asked(0, half, "service", "shop")
	if _, err := query.Requests(t.Context(), st, query.RequestsRequest{Selection: query.Selection{Family: series.SpanDuration, Matchers: r.Matchers, Start: r.Start, End: r.End},
		Grid: query.Grid{Step: 60}, By: []string{series.LabelOperation}}); !errors.Is(err, store.ErrTooMany) {
		t.Fatalf("got %v, want that all operations are too many", err)
	}
	out := found(t, NewFinder(st), r)
	if out.Searched != heavy+1 || out.Slot != 60 || of(out, "GET /000") == nil || of(out, "GET /001") == nil {
		t.Errorf("searched %d in slots of %d s, found %+v", out.Searched, out.Slot, out.Changes)
	}
	if want := fmt.Sprintf("%d operations with fewer requests were not searched", operations-heavy); len(out.Notes) != 1 || !strings.HasPrefix(out.Notes[0], want) {
		t.Errorf("notes %q, want %q", out.Notes, want)
	}
}

// heavy operations have twice the requests of all others.
const heavy = 50

// BenchmarkTenants searches a day of ten services with three operations and 1,000 tenants
// each, of which half change at some time of the day, within the memory of one question.
func BenchmarkTenants(b *testing.B) {
	st := pebble(b, b.TempDir())
	defer st.Close()
	fillTenants(b, st, 86400)
	memory := store.NewMemory(1 << 30)
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		question := memory.Question(256 << 20)
		out, err := NewFinder(st).Find(store.WithBudget(b.Context(), question), asked(0, 86400))
		if err != nil {
			b.Fatal(err)
		}
		question.Close()
		b.ReportMetric(float64(len(out.Changes)), "changes")
		b.ReportMetric(float64(memory.Peak()>>20), "peak-MiB")
	}
}

// fillTenants writes requests of tenants in slots of a minute: of each operation, those of a
// few tenants in each.
func fillTenants(b testing.TB, st store.Store, seconds int64) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	const services, operations, tenants, at = 10, 3, 1000, 40
	var all []series.Series
	of := func(view series.View, service, operation int, more ...string) {
		all = append(all, series.Series{Family: series.SpanDuration, View: view, Labels: labels.FromStrings(append(more, "service", fmt.Sprint("service-", service),
			"operation", fmt.Sprintf("GET /%d", operation), "component", "app", "kind", "server", "status", "ok")...)})
	}
	for s := range services {
		for o := range operations {
			of(series.Marginal, s, o, "instance", "i")
			for t := range tenants {
				of(series.Full, s, o, "tenant", fmt.Sprintf("tenant-%03d", t))
			}
		}
	}
	generation := uint64(0)
	var data []byte
	for slot := int64(0); slot < seconds; slot += 60 {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: series.Minute, Series: all}
		for s := range services {
			factor := 1.0
			if s%2 == 0 && slot > seconds*int64(s+1)/(services+1) {
				factor = 1.4
			}
			for o := range operations {
				first := uint32((s*operations + o) * (tenants + 1))
				whole := hist.New(hist.DefaultSchema)
				put := func(series uint32, h *hist.Histogram) {
					from := len(data)
					var err error
					if data, err = h.AppendBinary(data); err != nil {
						b.Fatal(err)
					}
					batch.Points = append(batch.Points, store.Point{Series: series, Slot: epoch + slot, Data: data[from:]})
				}
				begin := rng.IntN(tenants)
				for k := range at {
					h := hist.New(hist.DefaultSchema)
					for range 4 {
						if err := h.Record(factor * 0.05 * math.Exp(0.5*rng.NormFloat64())); err != nil {
							b.Fatal(err)
						}
					}
					if err := whole.Merge(h); err != nil {
						b.Fatal(err)
					}
					put(first+1+uint32((begin+k*tenants/at)%tenants), h)
				}
				put(first, whole)
			}
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		data = nil
	}
}

// fill writes operations in slots of a length; the first two change half-way.
func fill(b testing.TB, st store.Store, long series.Resolution, seconds int64, operations int) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	pool := func(median float64, requests int) (out [][]byte) {
		for range 100 {
			h := hist.New(hist.DefaultSchema)
			wander := 0.05 * rng.NormFloat64()
			for range requests {
				if err := h.Record(median * math.Exp(wander+0.6*rng.NormFloat64())); err != nil {
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
	quick, slow, rest := pool(0.05, 200), pool(0.07, 200), pool(0.05, 100)
	var all []series.Series
	for o := range operations {
		all = append(all, series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: labels.FromStrings("service", "shop",
			"operation", fmt.Sprintf("GET /%03d", o), "component", "app", "kind", "server", "status", "ok", "instance", "i")})
	}
	generation := uint64(0)
	for slot := int64(0); slot < seconds; slot += int64(long) {
		generation++
		batch := &store.Batch{Writer: "bench", Generation: generation, Resolution: long, Series: all}
		for i := range all {
			from := quick
			if i < 2 && slot >= seconds/2 {
				from = slow
			}
			if i >= heavy {
				from = rest
			}
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: epoch + slot, Data: from[rng.IntN(len(from))]})
		}
		if err := st.Put(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
