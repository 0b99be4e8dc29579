// Package querytest makes the data that tests of questions are asked over.
package querytest

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Epoch is a round hour at which test data begins, in Unix seconds.
const Epoch = int64(1_778_313_600) // 2026-05-09T08:00:00Z

// Writer collects points and puts them as one batch per resolution.
type Writer struct {
	Weight uint64 // how many spans each span stands for; 0 means 1

	index  map[string]uint32
	list   []series.Series
	cells  map[cell]*hist.Histogram
	number map[cell]series.Number
	raw    map[uint32][]series.Sample
	infos  []store.FamilyInfo
	views  map[string][]uint32 // the series of a span, by family and labels
	key    []byte
}

type cell struct {
	series uint32
	slot   int64
}

// NewWriter returns an empty one.
func NewWriter() *Writer {
	return &Writer{index: map[string]uint32{}, cells: map[cell]*hist.Histogram{}, number: map[cell]series.Number{}, raw: map[uint32][]series.Sample{}, views: map[string][]uint32{}}
}

func (w *Writer) series(s series.Series) uint32 {
	key := string(s.AppendKey(nil))
	i, ok := w.index[key]
	if !ok {
		i = uint32(len(w.list))
		w.index[key] = i
		w.list = append(w.list, s)
	}
	return i
}

// Family declares a family.
func (w *Writer) Family(f store.FamilyInfo) { w.infos = append(w.infos, f) }

// Span counts a span in all its views. l holds all its labels.
func (w *Writer) Span(at int64, l labels.Labels, seconds float64) {
	w.span(series.SpanDuration, at, l, seconds)
}

func drop(l labels.Labels, names ...string) labels.Labels {
	return labels.NewBuilder(l).Del(names...).Labels()
}

// Observe counts one value of a distribution.
func (w *Writer) Observe(at int64, s series.Series, v float64) {
	h := w.at(at, s)
	if h.Record(v) != nil {
		panic("test data is finite")
	}
}

// Merge adds a whole histogram to the slot that holds at.
func (w *Writer) Merge(at int64, s series.Series, h *hist.Histogram) error {
	c := cell{w.series(s), series.Base.Slot(at)}
	if w.cells[c] == nil {
		w.cells[c] = h.Clone()
		return nil
	}
	return w.cells[c].Merge(h)
}

func (w *Writer) at(at int64, s series.Series) *hist.Histogram {
	return w.cell(w.series(s), at)
}

func (w *Writer) cell(of uint32, at int64) *hist.Histogram {
	c := cell{of, series.Base.Slot(at)}
	if w.cells[c] == nil {
		w.cells[c] = hist.New(hist.DefaultSchema)
	}
	return w.cells[c]
}

// Number adds a sample of a gauge or counter.
func (w *Writer) Number(millis int64, s series.Series, v float64) {
	i := w.series(s)
	c := cell{i, series.Base.Slot(millis / 1000)}
	n := w.number[c]
	n.Merge(series.Number{Count: 1, Sum: v, Min: v, Max: v, Last: v, LastTimeMillis: millis})
	w.number[c] = n
	w.raw[i] = append(w.raw[i], series.Sample{TimeMillis: millis, Value: v})
}

// Put writes everything to st as one generation.
func (w *Writer) Put(ctx context.Context, st store.Store, generation uint64) error {
	b := &store.Batch{Writer: "test", Generation: generation, Resolution: series.Base, Series: w.list, Families: w.infos}
	for c, h := range w.cells {
		data, err := h.AppendBinary(nil)
		if err != nil {
			return err
		}
		b.Points = append(b.Points, store.Point{Series: c.series, Slot: c.slot, Data: data})
	}
	for c, n := range w.number {
		b.Points = append(b.Points, store.Point{Series: c.series, Slot: c.slot, Data: store.AppendNumber(nil, n)})
	}
	// A batch wants its points by slot, then in order of series.
	order := make([]int, len(w.list))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool { return lessSeries(&w.list[order[i]], &w.list[order[j]]) })
	rank := make([]int, len(order))
	for r, i := range order {
		rank[i] = r
	}
	sort.Slice(b.Points, func(i, j int) bool {
		if b.Points[i].Slot != b.Points[j].Slot {
			return b.Points[i].Slot < b.Points[j].Slot
		}
		return rank[b.Points[i].Series] < rank[b.Points[j].Series]
	})
	for i := range w.list {
		if s := w.raw[uint32(i)]; len(s) > 0 {
			sort.SliceStable(s, func(i, j int) bool { return s[i].TimeMillis < s[j].TimeMillis })
			b.Samples = append(b.Samples, store.Samples{Series: uint32(i), Samples: s})
		}
	}
	return st.Put(ctx, b)
}

func lessSeries(a, b *series.Series) bool {
	if a.Family != b.Family {
		return a.Family < b.Family
	}
	if a.View != b.View {
		return a.View < b.View
	}
	return labels.Compare(a.Labels, b.Labels) < 0
}

// Shop fills w with an hour of a small shop from Epoch: two services, a client
// kind, failures, tenants of unequal size and two populations of durations.
// Every value is drawn from a fixed seed. It returns how many spans each of
// (service, kind) got.
func Shop(w *Writer) map[[2]string]int {
	rng := rand.New(rand.NewPCG(1, 2))
	counts := map[[2]string]int{}
	tenants := []string{"acme", "globex", "initech", "umbrella"}
	for slot := Epoch; slot < Epoch+3600; slot += 10 {
		for i := range 12 {
			service, op, kind := "checkout", "GET /cart/{id}", "server"
			switch i % 4 {
			case 1:
				op = "POST /order"
			case 2:
				op, kind = "SELECT orders", "client"
			case 3:
				service, op, kind = "batch", "nightly", "internal"
			}
			d := 0.008 * math.Exp(0.2*rng.NormFloat64())
			if rng.IntN(10) == 0 {
				d = 0.045 * math.Exp(0.1*rng.NormFloat64())
			}
			status := "ok"
			if rng.IntN(50) == 0 {
				status = "error"
			}
			l := labels.FromStrings(series.LabelService, service, series.LabelOperation, op, series.LabelKind, kind, series.LabelStatus, status,
				series.LabelComponent, "app", series.LabelTenant, tenants[min(rng.IntN(4), rng.IntN(4))], series.LabelInstance, "pod-"+string(rune('a'+i%3)))
			w.Span(slot+int64(i%10), l, d)
			counts[[2]string{service, kind}]++
		}
	}
	return counts
}

// Kind returns the kind a family was written with so far.
func (w *Writer) Kind(family string) (series.Kind, bool) {
	for _, s := range w.list {
		if s.Family == family {
			return s.Kind, true
		}
	}
	return 0, false
}
