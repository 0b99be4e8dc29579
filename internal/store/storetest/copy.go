package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// CopyHours is the time that Everything fills, from T0 on: longer than base slots are kept.
const CopyHours = 60

// Writers of Everything.
const (
	CopiedServer = "0123456789abcdef"
	copiedAgent  = "agent-fedcba9876543210"
)

// copied draws what Everything puts.
type copied struct {
	rng      *rand.Rand
	series   []series.Series
	explicit *hist.Histogram
}

func newCopied() *copied {
	c := &copied{rng: rand.New(rand.NewPCG(21, 21))}
	for i := range 4 {
		ls := []string{"service", fmt.Sprintf("svc-%d", i), "operation", fmt.Sprintf("GET /%d", i)}
		c.series = append(c.series, Span(series.Total, "service", ls[1]), Span(series.Full, append(ls, "tenant", fmt.Sprintf("t-%d", i))...))
		b := Span(series.Full, ls...)
		b.Family = series.BreakdownRequests
		c.series = append(c.series, b)
	}
	foreign := Span(series.Full, "job", "proxy")
	foreign.Family = "http_request_seconds"
	counter := gauge("q", "fast")
	counter.Family, counter.Kind = "requests_total", series.Counter
	c.series = append(c.series, foreign, gauge("q", "fast"), gauge("q", "slow"), counter)
	var err error
	if c.explicit, err = hist.NewExplicit([]float64{0.1, 0.5, 1, 5}); err != nil {
		panic(err)
	}
	return c
}

// point draws a point whose sums are exact, so that their order does not matter.
func (c *copied) point(s *series.Series, slot int64) []byte {
	if s.Kind != series.Distribution {
		v := float64(c.rng.IntN(1000))
		return store.AppendNumber(nil, series.Number{Count: 2, Sum: v + 3, Min: min(v, 3), Max: max(v, 3), Last: v, LastTimeMillis: slot*1000 + 9000})
	}
	h := hist.New(hist.DefaultSchema)
	if s.Family == "http_request_seconds" {
		h = c.explicit.Clone()
	}
	for range 1 + c.rng.IntN(30) {
		n := uint64(1)
		if s.View == series.Total {
			n = 1 + c.rng.Uint64N(3) // sampled
		}
		if err := h.RecordNanos(int64(c.rng.ExpFloat64()*3e8), n); err != nil {
			panic(err)
		}
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// batch draws the points of slots, and samples of each second and of the first slot.
func (c *copied) batch(writer string, generation uint64, slots ...int64) *store.Batch {
	b := &store.Batch{Writer: writer, Generation: generation, Resolution: series.Base, Series: c.series,
		Families: []store.FamilyInfo{{Name: "queue", Kind: series.Gauge, IntervalSeconds: 15}},
		State:    []store.State{{Key: []byte("last"), Value: fmt.Append(nil, generation)}, {Key: fmt.Appendf(nil, "of/%d", generation%7), Value: []byte{0, byte(generation)}}}}
	for _, slot := range slots {
		for i := range c.series {
			if c.rng.IntN(4) > 0 {
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: slot, Data: c.point(&c.series[i], slot)})
			}
		}
	}
	for i := range c.series {
		if s := &c.series[i]; s.Kind != series.Distribution {
			ss := store.Samples{Series: uint32(i)}
			n := 20
			if s.Labels.Get("q") == "slow" {
				n = 1
			}
			for k := range n {
				ss.Samples = append(ss.Samples, series.Sample{TimeMillis: slots[0]*1000 + int64(k)*1000, Value: float64(generation) + float64(k)/3})
			}
			b.Samples = append(b.Samples, ss)
		}
	}
	return b
}

// Everything puts into an empty store something of all that a store holds, and has it rolled
// up and expired in part. To drop samples it needs a bound of some hundred for each series.
func Everything(t testing.TB, st store.Store) {
	ctx := context.Background()
	c := newCopied()
	for i := range int64(CopyHours) {
		at := T0 + i*3600
		check(t, st.Put(ctx, c.batch(CopiedServer, uint64(i+1), at, at+10, at+50, at+60, at+1800, at+3590)))
		if i%12 == 11 {
			check(t, st.Maintain(ctx, time.Unix(at+3600+1200, 0)))
		}
	}
	check(t, st.Put(ctx, c.batch(copiedAgent, 4097, T0+30*3600, T0+50*3600+20))) // late
	check(t, st.Put(ctx, c.batch(CopiedServer, CopyHours+1, T0+(CopyHours+1)*3600)))
	for i := range 5 {
		at := time.Unix(T0+int64(i)*3600, 0).UTC()
		check(t, store.PutMark(ctx, st, store.Mark{ID: fmt.Sprint("m", i), Time: at, Name: "rollout"}))
		must(st.PutRecords(ctx, "verdicts", store.RecordWrite{Key: fmt.Sprint("v/", i), Value: []byte{0, byte(i), 0xff}, IfRevision: store.AnyRevision}))(t)
	}
	must(st.PutRecords(ctx, "verdicts", store.RecordWrite{Key: "v/3", IfRevision: store.AnyRevision}))(t)
	var traces []store.Trace
	for i := range 150 {
		e := request(1, fmt.Sprint("svc-", i%3), "GET /", int64(CopyHours)*3600-int64(i)*60, int64(c.rng.IntN(5000)))
		f := request(2, "db", "SELECT", int64(CopyHours)*3600-int64(i)*60+7200*int64(i%2), 5)
		f.Failed = i%4 == 0
		traces = append(traces, store.Trace{ID: store.TraceID{byte(i), 9, byte(i)}, Entries: []store.TraceEntry{e, f}, Data: bytes.Repeat([]byte{byte(i)}, 100+i)})
	}
	check(t, st.PutTraces(ctx, traces))
	traces[7].Data = []byte("replaced")
	check(t, st.PutTraces(ctx, traces[7:8]))
}

// GoOn puts into a store that was filled by Everything, or into a copy of it, what its
// writers put next, and has it rolled up.
func GoOn(t testing.TB, st store.Store) {
	ctx := context.Background()
	c := newCopied()
	const next = T0 + (CopyHours+2)*3600
	check(t, st.Put(ctx, c.batch(CopiedServer, CopyHours+2, next, next+10, T0+59*3600+30)))
	check(t, st.Put(ctx, c.batch(copiedAgent, 4098, next)))
	check(t, st.Maintain(ctx, time.Unix(next+4*3600, 0)))
}

// SameAnswers asks both stores, which hold what Everything has put, the same questions. The
// answers must be equal to the bit.
func SameAnswers(t testing.TB, got, want store.Store) {
	t.Helper()
	ctx := context.Background()
	same := func(what string, ask func(st store.Store) (any, error)) {
		t.Helper()
		w, err := ask(want)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		g, err := ask(got)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if a, b := fmt.Sprint(g), fmt.Sprint(w); a != b {
			n := 0
			for n < min(len(a), len(b)) && a[n] == b[n] {
				n++
			}
			from := max(0, n-200)
			t.Errorf("%s: got …%.400s, want …%.400s", what, a[from:], b[from:])
		}
	}
	families := must(want.Families(ctx))(t)
	same("families", func(st store.Store) (any, error) {
		all, err := st.Families(ctx)
		for i := range all {
			all[i].Dropped = store.SamplesDropped{}
		}
		return all, err
	})
	const end = T0 + (CopyHours+8)*3600
	for _, f := range families {
		views := []series.View{series.Full}
		if f.Name == series.SpanDuration {
			views = append(views, series.Total)
		}
		for _, v := range views {
			on := fmt.Sprintf("%s in view %d", f.Name, v)
			same("series of "+on, func(st store.Store) (any, error) {
				all, err := st.Series(ctx, f.Name, v, nil, T0, end)
				slices.SortFunc(all, func(a, b series.Series) int { return labels.Compare(a.Labels, b.Labels) })
				return all, err
			})
			same("labels of "+on, func(st store.Store) (any, error) { return st.LabelNames(ctx, f.Name, v, nil, T0, end) })
			same("services of "+on, func(st store.Store) (any, error) {
				return st.LabelValues(ctx, f.Name, v, "service", nil, T0+50*3600, end)
			})
			for _, q := range []store.Query{
				{Start: T0, End: end, Each: true},
				{Start: T0, End: end, Step: 3600, By: []string{"service"}},
				{Start: T0 + 3*3600, End: T0 + 20*3600, Step: 600, Each: true}, // base slots have expired of some
				{Start: T0 + 48*3600, End: end, Step: 60, Each: true},
				{Start: T0 + 49*3600 + 10, End: T0 + 56*3600 + 40, Step: 10, By: []string{"service", "q"}},
				{Start: T0 + 17, End: T0 + 57*3600 + 5, TopK: 2, By: []string{"operation"}},
				{Start: T0 + 30*3600, End: T0 + 31*3600, Step: 60, Each: true, Measure: store.Moments},
			} {
				q.Family, q.View, q.Schema, q.Writer = f.Name, v, hist.DefaultSchema, CopiedServer
				same(fmt.Sprintf("%s, [%d, %d) by %d s", on, q.Start-T0, q.End-T0, q.Step), func(st store.Store) (any, error) { return answer(ctx, st, q) })
			}
		}
		if f.Kind == series.Distribution {
			continue
		}
		same("samples of "+f.Name, func(st store.Store) (any, error) {
			return st.Samples(ctx, store.SampleQuery{Family: f.Name, StartMillis: T0 * 1000, EndMillis: end * 1000})
		})
		same("where samples of "+f.Name+" begin", func(st store.Store) (any, error) {
			all, err := st.Samples(ctx, store.SampleQuery{Family: f.Name, StartMillis: T0 * 1000, EndMillis: end * 1000, Dropped: true})
			var ends []int64
			for _, s := range all {
				for _, d := range s.Dropped[max(0, len(s.Dropped)-1):] {
					ends = append(ends, d.End)
				}
			}
			return ends, err
		})
		same("nearest of "+f.Name, func(st store.Store) (any, error) { return st.Nearest(ctx, f.Name, nil, (T0+55*3600)*1000) })
	}
	for _, order := range []store.TraceOrder{store.Slowest, store.Newest} {
		same("requests", func(st store.Store) (any, error) {
			return st.Traces(ctx, store.TraceQuery{StartNanos: T0 * second, EndNanos: end * second, Order: order, Limit: 1000})
		})
	}
	for i := 0; i < 150; i += 7 {
		same("trace", func(st store.Store) (any, error) { return st.Trace(ctx, store.TraceID{byte(i), 9, byte(i)}) })
	}
	for _, w := range []string{CopiedServer, copiedAgent} {
		same("generation of "+w, func(st store.Store) (any, error) { return st.Flushed(ctx, w) })
		same("state of "+w, func(st store.Store) (any, error) {
			var all []string
			err := st.State(ctx, w, nil, func(k, v []byte) error { all = append(all, fmt.Sprintf("%s=%x", k, v)); return nil })
			return all, err
		})
	}
	for _, kind := range []string{store.KindMarks, "verdicts"} {
		same(kind, func(st store.Store) (any, error) {
			var all []string
			err := st.ListRecords(ctx, kind, "", func(r store.Record) error { all = append(all, fmt.Sprintf("%s=%x", r.Key, r.Value)); return nil })
			return all, err
		})
	}
}

// answer returns an answer in a form that is equal if the answers are.
func answer(ctx context.Context, st store.Store, q store.Query) (any, error) {
	r, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	out := []string{fmt.Sprintf("[%d, %d) of %d, generation %d", r.Start-T0, r.End-T0, r.Resolution, r.Flushed)}
	for _, g := range r.Groups {
		for _, p := range g.Points {
			value := fmt.Sprintf("%+v", p.Number)
			if p.Hist != nil && q.Measure == store.Moments {
				value = fmt.Sprintf("%d %.9f %v %v", p.Hist.Count, p.Hist.Sum, p.Hist.Min, p.Hist.Max) // sums are floats there
			} else if p.Hist != nil {
				b, err := p.Hist.AppendBinary(nil)
				if err != nil {
					return nil, err
				}
				value = fmt.Sprintf("%x", b)
			}
			out = append(out, fmt.Sprintf("%s %d at %d: %s", g.Labels, g.Kind, p.Start-T0, value))
		}
	}
	if q.TopK > 0 {
		slices.Sort(out[1:])
	}
	return out, nil
}

// FailingTarget is a target of a copy whose Put fails after so many.
type FailingTarget struct {
	store.CopyTarget
	Puts int
}

// Put fails once Puts are done.
func (f *FailingTarget) Put(ctx context.Context, b *store.Batch) error {
	if f.Puts--; f.Puts < 0 {
		return fmt.Errorf("generation %d of %s: %w", b.Generation, b.Writer, store.ErrFull)
	}
	return f.CopyTarget.Put(ctx, b)
}
