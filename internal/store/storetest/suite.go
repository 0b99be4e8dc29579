package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// T0 is a moment on the hour and on the day from which tests count.
const T0 = 1_789_948_800

// Dist encodes a distribution of the values.
func Dist(values ...float64) []byte { return Sampled([]uint64{1}, values...) }

// Sampled is Dist of values that stand for several, as the weights say in turn.
func Sampled(weights []uint64, values ...float64) []byte {
	h := hist.New(hist.DefaultSchema)
	for i, v := range values {
		if err := h.RecordN(v, weights[i%len(weights)]); err != nil {
			panic(err)
		}
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// Span returns a series of span_duration_seconds with the label pairs.
func Span(view series.View, pairs ...string) series.Series {
	return series.Series{Family: series.SpanDuration, View: view, Kind: series.Distribution, Labels: labels.FromStrings(pairs...)}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// put writes one point per value list, in consecutive base slots from start.
func put(t testing.TB, st store.Store, writer string, gen uint64, s series.Series, start int64, values ...[]float64) {
	t.Helper()
	b := &store.Batch{Writer: writer, Generation: gen, Resolution: series.Base, Series: []series.Series{s}}
	for i, v := range values {
		if v != nil {
			b.Points = append(b.Points, store.Point{Slot: start + int64(i)*10, Data: Dist(v...)})
		}
	}
	check(t, st.Put(context.Background(), b))
}

func query(t testing.TB, st store.Store, q store.Query) *store.Result {
	t.Helper()
	if q.Family == "" {
		q.Family = series.SpanDuration
	}
	if q.Schema == 0 {
		q.Schema = hist.DefaultSchema
	}
	return must(st.Query(context.Background(), q))(t)
}

// total returns the count of all groups and steps.
func total(r *store.Result) (n uint64) {
	for _, g := range r.Groups {
		for _, p := range g.Points {
			if p.Hist != nil {
				n += p.Hist.Count
			}
			n += p.Number.Count
		}
	}
	return n
}

// Run runs the suite. open returns an empty store that keeps base slots for at least 48
// hours, hours for at least 400 days, traces for at least 7 days, and 15,000 samples of
// each number series, not many more; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	tests := []struct {
		name string
		fn   func(t *testing.T, st store.Store)
	}{
		{"Addresses", testAddresses},
		{"Durable", testDurable},
		{"Matchers", testMatchers},
		{"Groups", testGroups},
		{"Steps", testSteps},
		{"TopK", testTopK},
		{"Measures", testMeasures},
		{"Squares", testSquares},
		{"Kinds", testKinds},
		{"BadBatches", testBadBatches},
		{"Refusals", testRefusals},
		{"State", testState},
		{"Families", testFamilies},
		{"Labels", testLabels},
		{"Tenants", testTenants},
		{"Records", testRecords},
		{"RecordConflicts", testRecordConflicts},
		{"ConcurrentRecords", testConcurrentRecords},
		{"UpdateRecords", testUpdateRecords},
		{"OwnRecords", testOwnRecords},
		{"Marks", testMarks},
		{"Series", testSeries},
		{"Samples", testSamples},
		{"Nearest", testNearest},
		{"SampleBounds", testSampleBounds},
		{"Cancelled", testCancelled},
		{"Concurrent", testConcurrent},
		{"LateData", testLateData},
		{"OldData", testOldData},
		{"OldMonth", testOldMonth},
		{"Traces", testTraces},
		{"TraceQueries", testTraceQueries},
		{"BadTraces", testBadTraces},
		{"ConcurrentTraces", testConcurrentTraces},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := open(t)
			defer func() { check(t, st.Close()) }()
			tt.fn(t, st)
		})
	}
	t.Run("Random", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { random(t, rt, open(t)) })
	})
	t.Run("RandomRecords", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { randomRecords(rt, open(t)) })
	})
	t.Run("RandomTraces", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { randomTraces(t, rt, open(t)) })
	})
}

// A series whose tenant lies beside its labels is the one that has it among them.
func testTenants(t *testing.T, st store.Store) {
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base, Tenants: []string{"y", "", "x"}, TenantOf: []uint32{2, 0, 1, 2}}
	for i, n := range b.TenantOf {
		tenant := b.Tenants[n]
		s := Span(series.Full, "operation", fmt.Sprint("o", i/3), "service", "a", "version", "1")
		id, _ := s.ID(nil)
		if tenant != "" {
			id = id.With(series.LabelTenant, tenant)
		}
		b.Series, b.IDs = append(b.Series, s), append(b.IDs, id)
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: T0, Data: Dist(1)})
	}
	bad := *b
	bad.IDs = nil
	if err := st.Put(context.Background(), &bad); err == nil {
		t.Error("a batch with tenants and without identities was accepted")
	}
	check(t, st.Put(context.Background(), b))
	put(t, st, "w", 2, Span(series.Full, "operation", "o0", "service", "a", "tenant", "x", "version", "1"), T0, []float64{1, 2})
	r := query(t, st, store.Query{Start: T0, End: T0 + 10, Each: true})
	got := map[string]uint64{}
	for _, g := range r.Groups {
		got[g.Labels.String()] = g.Points[0].Hist.Count
	}
	equal(t, "series", got, map[string]uint64{
		`{operation="o0", service="a", tenant="x", version="1"}`: 3,
		`{operation="o0", service="a", tenant="y", version="1"}`: 1,
		`{operation="o0", service="a", version="1"}`:             1,
		`{operation="o1", service="a", tenant="x", version="1"}`: 1,
	})
	values := must(st.LabelValues(context.Background(), series.SpanDuration, series.Full, series.LabelTenant, nil, T0, T0+10))(t)
	equal(t, "tenants", values, []string{"x", "y"})
}

func testAddresses(t *testing.T, st store.Store) {
	a, b := Span(series.Full, "service", "a"), Span(series.Full, "service", "b")
	count := func() uint64 { return total(query(t, st, store.Query{Start: T0, End: T0 + 60})) }
	put(t, st, "w", 1, a, T0, []float64{1})
	equal(t, "one point", count(), 1)
	put(t, st, "w", 1, a, T0, []float64{1})
	equal(t, "the same again", count(), 1)
	put(t, st, "w", 1, a, T0, []float64{1, 2, 3})
	equal(t, "the same address, another value", count(), 3)
	put(t, st, "w", 1, b, T0, []float64{1})
	equal(t, "the same generation, another series", count(), 4)
	put(t, st, "w", 1, a, T0+10, []float64{1})
	equal(t, "the same generation, another slot", count(), 5)
	put(t, st, "w", 2, a, T0, []float64{1})
	equal(t, "another generation", count(), 6)
	put(t, st, "v", 2, a, T0, []float64{1})
	equal(t, "another writer", count(), 7)
	equal(t, "flushed by w", must(st.Flushed(context.Background(), "w"))(t), 2)
	put(t, st, "w", 9, a, T0, []float64{1})
	put(t, st, "w", 5, a, T0, []float64{1})
	equal(t, "generations out of order", count(), 9)
	equal(t, "flushed by w", must(st.Flushed(context.Background(), "w"))(t), 9)
	equal(t, "flushed by nobody", must(st.Flushed(context.Background(), "nobody"))(t), 0)
	for writer, want := range map[string]uint64{"w": 9, "v": 2, "nobody": 0, "": 0} {
		equal(t, "the answer holds of "+writer, query(t, st, store.Query{Start: T0, End: T0 + 60, Writer: writer}).Flushed, want)
	}
	equal(t, "another view", total(query(t, st, store.Query{View: series.Total, Start: T0, End: T0 + 60})), 0)
}

// Durable never exceeds Flushed, and equals it once a store was asked to write its
// tables.
func testDurable(t *testing.T, st store.Store) {
	ctx := context.Background()
	a := Span(series.Full, "service", "a")
	equal(t, "durable before anything was put", must(st.Durable(ctx, "w"))(t), 0)
	for gen := uint64(1); gen <= 3; gen++ {
		put(t, st, "w", gen, a, T0, []float64{1})
		if d := must(st.Durable(ctx, "w"))(t); d > gen {
			t.Errorf("durable %d after generation %d was put", d, gen)
		}
	}
	if s, ok := st.(interface{ WriteTables(context.Context) error }); ok {
		check(t, s.WriteTables(ctx))
		equal(t, "durable once tables are written", must(st.Durable(ctx, "w"))(t), 3)
	}
	equal(t, "durable of nobody", must(st.Durable(ctx, "nobody"))(t), 0)
	equal(t, "durable of a name that begins like one that is known", must(st.Durable(ctx, "w2"))(t), 0)
}

func testMatchers(t *testing.T, st store.Store) {
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i, s := range []series.Series{
		Span(series.Full, "service", "checkout", "tenant", "acme"),
		Span(series.Full, "service", "checkout", "tenant", "globex"),
		Span(series.Full, "service", "cart", "tenant", "acme", "status", "error"),
		Span(series.Full, "service", "cart"),
		Span(series.Full),
	} {
		values := make([]float64, 1<<(2*i)) // counts tell which series were merged
		for k := range values {
			values[k] = 0.1
		}
		b.Series = append(b.Series, s)
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: T0, Data: Dist(values...)})
	}
	check(t, st.Put(context.Background(), b))
	m := func(typ labels.MatchType, name, value string) *labels.Matcher {
		return labels.MustNewMatcher(typ, name, value)
	}
	for _, tt := range []struct {
		matchers []*labels.Matcher
		want     uint64
	}{
		{nil, 1 + 4 + 16 + 64 + 256},
		{[]*labels.Matcher{m(labels.MatchEqual, "service", "checkout")}, 1 + 4},
		{[]*labels.Matcher{m(labels.MatchNotEqual, "service", "checkout")}, 16 + 64 + 256},
		{[]*labels.Matcher{m(labels.MatchEqual, "tenant", "")}, 64 + 256},
		{[]*labels.Matcher{m(labels.MatchNotEqual, "tenant", "")}, 1 + 4 + 16},
		{[]*labels.Matcher{m(labels.MatchRegexp, "tenant", "acme|globex")}, 1 + 4 + 16},
		{[]*labels.Matcher{m(labels.MatchRegexp, "tenant", "a.*")}, 1 + 16},
		{[]*labels.Matcher{m(labels.MatchRegexp, "tenant", ".*")}, 1 + 4 + 16 + 64 + 256},
		{[]*labels.Matcher{m(labels.MatchRegexp, "tenant", ".+")}, 1 + 4 + 16},
		{[]*labels.Matcher{m(labels.MatchNotRegexp, "tenant", "a.*")}, 4 + 64 + 256},
		{[]*labels.Matcher{m(labels.MatchNotRegexp, "tenant", ".*")}, 0},
		{[]*labels.Matcher{m(labels.MatchEqual, "service", "cart"), m(labels.MatchEqual, "tenant", "acme")}, 16},
		{[]*labels.Matcher{m(labels.MatchEqual, "service", "cart"), m(labels.MatchNotEqual, "status", "error")}, 64},
		{[]*labels.Matcher{m(labels.MatchEqual, "service", "nope")}, 0},
		{[]*labels.Matcher{m(labels.MatchEqual, "nope", "")}, 1 + 4 + 16 + 64 + 256},
		{[]*labels.Matcher{m(labels.MatchEqual, "nope", "x")}, 0},
		{[]*labels.Matcher{m(labels.MatchNotEqual, "nope", "x")}, 1 + 4 + 16 + 64 + 256},
	} {
		equal(t, fmt.Sprint(tt.matchers), total(query(t, st, store.Query{Matchers: tt.matchers, Start: T0, End: T0 + 10})), tt.want)
	}
}

func testGroups(t *testing.T, st store.Store) {
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i, s := range []series.Series{
		Span(series.Full, "service", "checkout", "tenant", "acme", "status", "ok"),
		Span(series.Full, "service", "checkout", "tenant", "acme", "status", "error"),
		Span(series.Full, "service", "cart", "tenant", "acme", "status", "ok"),
		Span(series.Full, "service", "cart", "status", "ok"),
	} {
		b.Series = append(b.Series, s)
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: T0, Data: Dist(0.1, 0.2)})
	}
	check(t, st.Put(context.Background(), b))
	for _, tt := range []struct {
		by   []string
		each bool
		want []string
	}{
		{nil, false, []string{"{} 8"}},
		{[]string{"service"}, false, []string{`{service="cart"} 4`, `{service="checkout"} 4`}},
		{[]string{"tenant"}, false, []string{`{} 2`, `{tenant="acme"} 6`}},
		{[]string{"tenant", "service"}, false, []string{`{service="cart"} 2`, `{service="cart", tenant="acme"} 2`, `{service="checkout", tenant="acme"} 4`}},
		{[]string{"service", "service"}, false, []string{`{service="cart"} 4`, `{service="checkout"} 4`}},
		{[]string{"nope"}, false, []string{"{} 8"}},
		{[]string{"service"}, true, []string{
			`{service="cart", status="ok"} 2`, `{service="cart", status="ok", tenant="acme"} 2`,
			`{service="checkout", status="error", tenant="acme"} 2`, `{service="checkout", status="ok", tenant="acme"} 2`,
		}},
	} {
		r := query(t, st, store.Query{Start: T0, End: T0 + 10, By: tt.by, Each: tt.each})
		var got []string
		for _, g := range r.Groups {
			got = append(got, fmt.Sprint(g.Labels, " ", g.Points[0].Hist.Count))
		}
		equal(t, fmt.Sprint("by ", tt.by, " each ", tt.each), got, tt.want)
		equal(t, "series", r.Series, 4)
	}
}

func testSteps(t *testing.T, st store.Store) {
	a := Span(series.Full, "service", "a")
	put(t, st, "w", 1, a, T0, []float64{1}, []float64{1, 1}, nil, []float64{1, 1, 1}, []float64{1, 1, 1, 1})
	for _, tt := range []struct {
		start, end, step int64
		want             string
	}{
		{T0, T0 + 50, 10, "0:1 10:2 30:3 40:4"},
		{T0, T0 + 50, 20, "0:3 20:3 40:4"},
		{T0 + 10, T0 + 50, 20, "0:2 20:7"},
		{T0, T0 + 50, 0, "0:10"},
		{T0, T0 + 50, 3600, "0:10"},
		{T0 + 1, T0 + 50, 0, "0:9"}, // slots that start in the range
		{T0, T0 + 41, 0, "0:10"},    // even if they end beyond it
		{T0, T0 + 40, 0, "0:6"},     // open above
		{T0 + 5, T0 + 45, 10, "0:2 20:3 30:4"},
		{T0 - 5, T0 + 45, 25, "0:3 25:7"},
		{T0 + 50, T0 + 100, 10, ""},
		{T0 + 50, T0 + 50, 10, ""},
		{T0 + 50, T0, 10, ""},
	} {
		r := query(t, st, store.Query{Start: tt.start, End: tt.end, Step: tt.step})
		got := ""
		for _, g := range r.Groups {
			for _, p := range g.Points {
				if got != "" {
					got += " "
				}
				got += fmt.Sprintf("%d:%d", p.Start-tt.start, p.Hist.Count)
			}
		}
		equal(t, fmt.Sprintf("start %d end %d step %d", tt.start-T0, tt.end-T0, tt.step), got, tt.want)
		equal(t, "range", [2]int64{r.Start, r.End}, [2]int64{tt.start, tt.end})
	}
}

func testTopK(t *testing.T, st store.Store) {
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i := range 50 {
		b.Series = append(b.Series, Span(series.Full, "tenant", fmt.Sprintf("t%02d", i)))
	}
	for slot := range int64(3) {
		for i := range 50 {
			values := make([]float64, i/2+1) // pairs of tenants tie
			for k := range values {
				values[k] = float64(k + 1)
			}
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: T0 + slot*10, Data: Dist(values...)})
		}
	}
	check(t, st.Put(context.Background(), b))
	for _, measure := range []store.Measure{store.Buckets, store.Moments} {
		r := query(t, st, store.Query{Start: T0, End: T0 + 30, Step: 10, By: []string{"tenant"}, TopK: 3, Measure: measure})
		var got []string
		for _, g := range r.Groups {
			got = append(got, fmt.Sprint(g.Labels.Get("tenant"), " ", len(g.Points), " ", g.Points[0].Hist.Count))
		}
		equal(t, "top 3", got, []string{"t48 3 25", "t49 3 25", "t46 3 24"})
	}
	r := query(t, st, store.Query{Start: T0, End: T0 + 30, By: []string{"tenant"}, TopK: 500})
	equal(t, "more than there are", len(r.Groups), 50)
}

func testMeasures(t *testing.T, st store.Store) {
	a := Span(series.Full, "service", "a")
	put(t, st, "w", 1, a, T0, []float64{0.5, 2}, []float64{0.25, 8})
	for _, schema := range []int8{5, 3, 0, -2} {
		r := must(st.Query(context.Background(), store.Query{Family: series.SpanDuration, Start: T0, End: T0 + 20, Schema: schema}))(t)
		h := r.Groups[0].Points[0].Hist
		want := hist.New(schema)
		for _, v := range []float64{0.5, 2, 0.25, 8} {
			check(t, want.Record(v))
		}
		if d := DiffHist(h, want); d != "" {
			t.Errorf("schema %d: %s", schema, d)
		}
		check(t, h.Validate())
	}
	h := query(t, st, store.Query{Start: T0, End: T0 + 20, Measure: store.Moments}).Groups[0].Points[0].Hist
	equal(t, "moments", [4]float64{float64(h.Count), h.Sum, h.Min, h.Max}, [4]float64{4, 10.75, 0.25, 8})
	equal(t, "buckets of moments", len(h.Positive.Counts), 0)
}

// testSquares rolls up the squares of weights with their observations.
func testSquares(t *testing.T, st store.Store) {
	a, b := Span(series.Full, "service", "a", "tenant", "x"), Span(series.Full, "service", "a", "tenant", "y")
	now := int64(T0 + 40*24*3600)
	counts, squares := map[int64]uint64{}, map[int64]float64{} // by hour
	for i := range int64(720) {
		weights := [...][]uint64{{1}, {8}, {32, 1, 1}, {1, 1000}}[i%4]
		values := make([]float64, 1+i%5)
		for k := range values {
			values[k] = float64(i*7+int64(k)*31%1000+1) / 1000
			w := weights[k%len(weights)]
			counts[i/360] += w
			squares[i/360] += float64(w * w)
		}
		batch := &store.Batch{Writer: "w", Generation: uint64(i) + 1, Resolution: series.Base, Series: []series.Series{[]series.Series{a, b}[i%2]},
			Points: []store.Point{{Slot: T0 + 10*i, Data: Sampled(weights, values...)}}}
		check(t, st.Put(context.Background(), batch))
	}
	looks := func(when string) {
		t.Helper()
		for _, measure := range []store.Measure{store.Buckets, store.Moments} {
			for _, step := range []int64{10, 60, 600, 3600} {
				gotCount, gotSquares := map[int64]uint64{}, map[int64]float64{}
				for _, g := range query(t, st, store.Query{Start: T0, End: T0 + 7200, Step: step, Measure: measure}).Groups {
					for _, p := range g.Points {
						hour := (p.Start - T0) / 3600
						gotCount[hour] += p.Hist.Count
						if gotSquares[hour] += p.Hist.Squares; !p.Hist.Weighted {
							gotSquares[hour] += float64(p.Hist.Count)
						}
					}
				}
				equal(t, fmt.Sprintf("%s, step %d, measure %d: counts", when, step, measure), gotCount, counts)
				equal(t, fmt.Sprintf("%s, step %d, measure %d: squares", when, step, measure), gotSquares, squares)
			}
		}
	}
	looks("as put")
	check(t, st.Maintain(context.Background(), time.Unix(T0+3*3600, 0)))
	looks("rolled up")
	check(t, st.Maintain(context.Background(), time.Unix(now, 0)))
	h := query(t, st, store.Query{Start: T0, End: T0 + 7200}).Groups[0].Points[0].Hist
	n := float64(counts[0] + counts[1])
	equal(t, "effective number of both hours, 40 days later", h.Effective(), n/(squares[0]+squares[1])*n)
}

func testKinds(t *testing.T, st store.Store) {
	// One name, three kinds, same labels: none is read as another.
	ls := labels.FromStrings("service", "a")
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{
		{Family: "m", Kind: series.Distribution, Labels: ls}, {Family: "m", Kind: series.Gauge, Labels: ls}, {Family: "m", Kind: series.Counter, Labels: ls}}}
	n := series.Number{Count: 2, Sum: 5, Min: 2, Max: 3, Last: 3, LastTimeMillis: T0*1000 + 5}
	late := series.Number{Count: 1, Sum: 7, Min: 7, Max: 7, Last: 7, LastTimeMillis: T0*1000 + 15}
	b.Points = []store.Point{
		{Series: 0, Slot: T0, Data: Dist(1, 2)},
		{Series: 1, Slot: T0, Data: store.AppendNumber(nil, n)},
		{Series: 1, Slot: T0 + 10, Data: store.AppendNumber(nil, late)},
		{Series: 2, Slot: T0, Data: store.AppendNumber(nil, late)},
	}
	check(t, st.Put(context.Background(), b))
	r := query(t, st, store.Query{Family: "m", Start: T0, End: T0 + 60})
	if len(r.Groups) != 3 {
		t.Fatalf("got %d groups, want one per kind", len(r.Groups))
	}
	equal(t, "kinds", [3]series.Kind{r.Groups[0].Kind, r.Groups[1].Kind, r.Groups[2].Kind}, [3]series.Kind{series.Distribution, series.Gauge, series.Counter})
	equal(t, "distribution", r.Groups[0].Points[0].Hist.Count, 2)
	equal(t, "gauge", r.Groups[1].Points[0].Number, series.Number{Count: 3, Sum: 12, Min: 2, Max: 7, Last: 7, LastTimeMillis: T0*1000 + 15})
	equal(t, "counter", r.Groups[2].Points[0].Number, late)
}

func testBadBatches(t *testing.T, st store.Store) {
	a := Span(series.Full, "service", "a")
	for name, b := range map[string]*store.Batch{
		"no writer":       {Generation: 1, Resolution: series.Base},
		"no generation":   {Writer: "w", Resolution: series.Base},
		"unaligned slot":  {Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{a}, Points: []store.Point{{Slot: T0 + 3, Data: Dist(1)}}},
		"unknown series":  {Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{a}, Points: []store.Point{{Series: 1, Slot: T0, Data: Dist(1)}}},
		"good and broken": {Writer: "w", Generation: 1, Resolution: series.Base, Series: []series.Series{a}, Points: []store.Point{{Slot: T0, Data: Dist(1)}, {Series: 7, Slot: T0 + 10, Data: Dist(1)}}},
	} {
		if err := st.Put(context.Background(), b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	equal(t, "nothing was stored", total(query(t, st, store.Query{Start: T0, End: T0 + 60})), 0)
	equal(t, "flushed", must(st.Flushed(context.Background(), "w"))(t), 0)
}

func testRefusals(t *testing.T, st store.Store) {
	for i := range 3 {
		put(t, st, "w", uint64(i+1), Span(series.Full, "tenant", fmt.Sprint(i)), T0, []float64{1})
	}
	_, err := st.Query(context.Background(), store.Query{Family: series.SpanDuration, Start: T0, End: T0 + 10, Schema: 5, MaxSeries: 2})
	if !errors.Is(err, store.ErrTooMany) {
		t.Errorf("three series, two allowed: got error %v, want ErrTooMany", err)
	}
	equal(t, "three allowed", total(query(t, st, store.Query{Start: T0, End: T0 + 10, MaxSeries: 3})), 3)
	equal(t, "unknown family", len(query(t, st, store.Query{Family: "nope", Start: T0, End: T0 + 10}).Groups), 0)
}

func testState(t *testing.T, st store.Store) {
	ctx := context.Background()
	rec := func(kv ...string) (out []store.State) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, store.State{Key: []byte(kv[i]), Value: []byte(kv[i+1])})
		}
		return out
	}
	read := func(writer, prefix string) (out []string) {
		check(t, st.State(ctx, writer, []byte(prefix), func(k, v []byte) error {
			out = append(out, string(k)+"="+string(v))
			return nil
		}))
		return out
	}
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 1, State: rec("b/2", "x", "a", "1", "b/1", "y", "\xff", "z")}))
	check(t, st.Put(ctx, &store.Batch{Writer: "v", Generation: 1, State: rec("a", "other")}))
	equal(t, "all", read("w", ""), []string{"a=1", "b/1=y", "b/2=x", "\xff=z"})
	equal(t, "prefix", read("w", "b/"), []string{"b/1=y", "b/2=x"})
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 2, State: rec("b/1", "", "a", "2")}))
	equal(t, "after a change and a deletion", read("w", ""), []string{"a=2", "b/2=x", "\xff=z"})
	equal(t, "another writer", read("v", ""), []string{"a=other"})
	equal(t, "nobody", read("nobody", ""), nil)
	stop := errors.New("stop")
	if err := st.State(ctx, "w", nil, func(k, v []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got error %v, want the callback's", err)
	}
}

func testFamilies(t *testing.T, st store.Store) {
	ctx := context.Background()
	put(t, st, "w", 1, Span(series.Full, "service", "a"), T0, []float64{1})
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 2, Families: []store.FamilyInfo{{Name: "queue", Kind: series.Gauge, IntervalSeconds: 60}}}))
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 3, Families: []store.FamilyInfo{{Name: "queue", Kind: series.Gauge, IntervalSeconds: 15}}}))
	equal(t, "families", must(st.Families(ctx))(t), []store.FamilyInfo{
		{Name: "queue", Kind: series.Gauge, IntervalSeconds: 60}, {Name: series.SpanDuration, Kind: series.Distribution}})
}

func testLabels(t *testing.T, st store.Store) {
	ctx := context.Background()
	put(t, st, "w", 1, Span(series.Full, "service", "a", "tenant", "x"), T0, []float64{1})
	put(t, st, "w", 2, Span(series.Full, "service", "b", "status", "ok"), T0+24*3600, []float64{1})
	put(t, st, "w", 3, Span(series.Total, "service", "c"), T0, []float64{1})
	a := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "service", "a")}
	names := func(v series.View, ms []*labels.Matcher, from, to int64) []string {
		return must(st.LabelNames(ctx, series.SpanDuration, v, ms, from, to))(t)
	}
	values := func(v series.View, name string, ms []*labels.Matcher, from, to int64) []string {
		return must(st.LabelValues(ctx, series.SpanDuration, v, name, ms, from, to))(t)
	}
	equal(t, "names", names(series.Full, nil, T0, T0+2*24*3600), []string{"service", "status", "tenant"})
	equal(t, "names on the first day", names(series.Full, nil, T0, T0+3600), []string{"service", "tenant"})
	equal(t, "names of a", names(series.Full, a, T0, T0+2*24*3600), []string{"service", "tenant"})
	equal(t, "names of totals", names(series.Total, nil, T0, T0+3600), []string{"service"})
	equal(t, "values", values(series.Full, "service", nil, T0, T0+2*24*3600), []string{"a", "b"})
	equal(t, "values on the second day", values(series.Full, "service", nil, T0+24*3600, T0+25*3600), []string{"b"})
	equal(t, "values of all time", values(series.Full, "service", nil, 0, 1<<40), []string{"a", "b"})
	equal(t, "tenants of a", values(series.Full, "tenant", a, T0, T0+10), []string{"x"})
	equal(t, "values of totals", values(series.Total, "service", nil, T0, T0+10), []string{"c"})
	equal(t, "unknown label", len(values(series.Full, "nope", nil, T0, T0+10)), 0)
	equal(t, "before", len(names(series.Full, nil, T0-48*3600, T0-24*3600)), 0)
}

func testSeries(t *testing.T, st store.Store) {
	ctx := context.Background()
	list := func(family string, v series.View, ms []*labels.Matcher, from, to int64) (out []string) {
		for _, s := range must(st.Series(ctx, family, v, ms, from, to))(t) {
			if s.Family != family || s.View != v {
				t.Errorf("series of %s in view %v: want %s, %v", s.Family, s.View, family, v)
			}
			out = append(out, fmt.Sprint(s.Labels, " ", s.Kind))
		}
		slices.Sort(out)
		return out
	}
	const day, all = 24 * 3600, 1 << 40
	put(t, st, "w", 1, Span(series.Full, "service", "a"), T0, []float64{1})
	put(t, st, "w", 2, Span(series.Full, "service", "a"), T0+day, []float64{1})
	put(t, st, "w", 3, Span(series.Total, "service", "c"), T0, []float64{1})
	equal(t, "no numbers yet", len(list("queue", series.Full, nil, 0, all)), 0)
	counter := gauge("q", "b")
	counter.Kind = series.Counter
	sample := series.Sample{TimeMillis: T0 * 1000, Value: 1}
	putSamples(t, st, 4, gauge("q", "a"), sample)
	putSamples(t, st, 5, gauge("q", "a"), series.Sample{TimeMillis: (T0 + day) * 1000, Value: 1})
	putSamples(t, st, 6, gauge("q", "b"), sample)
	putSamples(t, st, 7, counter, sample)
	check(t, st.Put(ctx, &store.Batch{Writer: "w", Generation: 8, Resolution: series.Base, Series: []series.Series{gauge("q", "points")},
		Points: []store.Point{{Slot: T0 + day, Data: store.AppendNumber(nil, series.Number{Count: 1})}}}))
	for range 2 {
		equal(t, "each once", list(series.SpanDuration, series.Full, nil, 0, all), []string{`{service="a"} 0`})
		equal(t, "of totals", list(series.SpanDuration, series.Total, nil, 0, all), []string{`{service="c"} 0`})
		equal(t, "numbers", list("queue", series.Full, nil, 0, all), []string{`{q="a"} 1`, `{q="b"} 1`, `{q="b"} 2`, `{q="points"} 1`})
		equal(t, "that match", list("queue", series.Full, equals("q", "a"), 0, all), []string{`{q="a"} 1`})
		equal(t, "of the second day", list("queue", series.Full, nil, T0+day, T0+day+1), []string{`{q="a"} 1`, `{q="points"} 1`})
		equal(t, "of the day before", len(list("queue", series.Full, nil, T0-day, T0)), 0)
		check(t, st.Maintain(ctx, time.Unix(T0+day+7200, 0)))
	}
	if _, err := st.Series(ctx, "", series.Full, nil, 0, all); err == nil {
		t.Error("series of no family: want an error")
	}
}

func equals(name, value string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, name, value)}
}

func testMarks(t *testing.T, st store.Store) {
	ctx := context.Background()
	at := func(s int) time.Time { return time.Unix(T0+int64(s), 5).UTC() }
	m := store.Mark{ID: "1", Time: at(10), Name: "deploy", Service: "a", Environment: "staging", Revision: "r1", User: "u", Description: "d", Link: "https://example.com"}
	check(t, store.PutMark(ctx, st, m))
	check(t, store.PutMark(ctx, st, store.Mark{ID: "2", Time: at(5), Name: "backup"}))
	check(t, store.PutMark(ctx, st, store.Mark{ID: "3", Time: at(20), Name: "end"}))
	names := func(from, to int) (out []string) {
		for _, m := range must(store.Marks(ctx, st, at(from), at(to)))(t) {
			out = append(out, m.Name)
		}
		return out
	}
	equal(t, "in order of time", names(0, 100), []string{"backup", "deploy", "end"})
	equal(t, "closed below, open above", names(5, 20), []string{"backup", "deploy"})
	equal(t, "whole", must(store.Marks(ctx, st, at(10), at(11)))(t), []store.Mark{m})
	m.Time, m.Name = at(30), "moved"
	check(t, store.PutMark(ctx, st, m))
	equal(t, "replaced", names(0, 100), []string{"backup", "end", "moved"})
	check(t, store.DeleteMark(ctx, st, "2"))
	check(t, store.DeleteMark(ctx, st, "2"))
	equal(t, "deleted", names(0, 100), []string{"end", "moved"})
}

func gauge(pairs ...string) series.Series {
	return series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings(pairs...)}
}

func putSamples(t testing.TB, st store.Store, gen uint64, s series.Series, ss ...series.Sample) {
	t.Helper()
	check(t, st.Put(context.Background(), &store.Batch{Writer: "w", Generation: gen, Series: []series.Series{s}, Samples: []store.Samples{{Samples: ss}}}))
}

func testSamples(t *testing.T, st store.Store) {
	ctx := context.Background()
	const t0 = T0 * 1000
	a, b := gauge("q", "a"), gauge("q", "b")
	var as []series.Sample
	for i := range 3000 { // three hours, one every 3.6 s, in batches
		as = append(as, series.Sample{TimeMillis: t0 + int64(i)*3600, Value: float64(i) / 7})
	}
	for i := 0; i < len(as); i += 500 {
		putSamples(t, st, uint64(i+1), a, as[i:i+500]...)
	}
	putSamples(t, st, 1001, a, as[1000:1500]...) // a repeated generation
	putSamples(t, st, 9000, b, series.Sample{TimeMillis: t0, Value: -1})
	get := func(from, to int64, ms ...*labels.Matcher) []store.SampleSeries {
		return must(st.Samples(ctx, store.SampleQuery{Family: "queue", Matchers: ms, StartMillis: from, EndMillis: to}))(t)
	}
	equal(t, "all", get(0, t0*2), []store.SampleSeries{{Labels: a.Labels, Kind: series.Gauge, Samples: as}, {Labels: b.Labels, Kind: series.Gauge, Samples: []series.Sample{{TimeMillis: t0, Value: -1}}}})
	equal(t, "closed at both ends", get(t0+3600, t0+2*3600, labels.MustNewMatcher(labels.MatchEqual, "q", "a")),
		[]store.SampleSeries{{Labels: a.Labels, Kind: series.Gauge, Samples: as[1:3]}})
	check(t, st.Maintain(ctx, time.Unix(T0+10*3600, 0)))
	equal(t, "after compaction", get(0, t0*2)[0].Samples, as)
	putSamples(t, st, 9001, a, series.Sample{TimeMillis: t0 + 1, Value: 5})
	equal(t, "late", get(t0, t0+3600)[0].Samples, []series.Sample{as[0], {TimeMillis: t0 + 1, Value: 5}, as[1]})
	_, err := st.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: 0, EndMillis: t0 * 2, MaxSeries: 1})
	if !errors.Is(err, store.ErrTooMany) {
		t.Errorf("two series, one allowed: got %v, want ErrTooMany", err)
	}
}

func testNearest(t *testing.T, st store.Store) {
	const t0 = T0 * 1000
	const hour = 3600_000
	a, b := gauge("q", "a"), gauge("q", "b")
	sample := func(t int64) series.Sample { return series.Sample{TimeMillis: t, Value: float64(t % 1000)} }
	putSamples(t, st, 1, a, sample(t0), sample(t0+1000), sample(t0+3000), sample(t0+5*hour), sample(t0+30*hour))
	putSamples(t, st, 2, b, sample(t0+hour-1), sample(t0+hour+1))
	near := func(at int64) (out []int64) {
		for _, s := range must(st.Nearest(context.Background(), "queue", nil, at))(t) {
			if len(s.Samples) != 1 {
				t.Errorf("got %d samples, want one", len(s.Samples))
			}
			out = append(out, s.Samples[0].TimeMillis-t0)
		}
		return out
	}
	for range 2 {
		for _, tt := range []struct{ at, a, b int64 }{
			{0, 0, hour - 1},
			{-1000 * hour, 0, hour - 1},
			{499, 0, hour - 1},
			{500, 0, hour - 1}, // a tie: the earlier
			{501, 1000, hour - 1},
			{2000, 1000, hour - 1}, // a tie
			{2001, 3000, hour - 1},
			{hour, 3000, hour - 1}, // a tie across hours
			{hour + 1, 3000, hour + 1},
			{4 * hour, 5 * hour, hour + 1},
			{17*hour + hour/2, 5 * hour, hour + 1}, // a tie across days
			{18 * hour, 30 * hour, hour + 1},
			{900 * hour, 30 * hour, hour + 1},
		} {
			equal(t, fmt.Sprint("nearest to ", tt.at), near(t0+tt.at), []int64{tt.a, tt.b})
		}
		check(t, st.Maintain(context.Background(), time.Unix(T0+40*3600, 0)))
	}
	equal(t, "unknown family", len(must(st.Nearest(context.Background(), "nope", nil, t0))(t)), 0)
}

func testCancelled(t *testing.T, st store.Store) {
	put(t, st, "w", 1, Span(series.Full, "service", "a"), T0, []float64{1})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := st.Query(ctx, store.Query{Family: series.SpanDuration, Start: T0, End: T0 + 10, Schema: 5})
	put2 := st.Put(ctx, &store.Batch{Writer: "w", Generation: 2})
	_, samples := st.Samples(ctx, store.SampleQuery{Family: "x"})
	maintain := st.Maintain(ctx, time.Unix(T0+86400, 0))
	for i, err := range []error{err, put2, samples, maintain} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: got error %v, want context.Canceled", i, err)
		}
	}
}

func testConcurrent(t *testing.T, st store.Store) {
	const writers, gens = 4, 30
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for g := range uint64(gens) {
				b := &store.Batch{Writer: fmt.Sprint("w", w), Generation: g + 1, Resolution: series.Base}
				for i := range 20 {
					b.Series = append(b.Series, Span(series.Full, "tenant", fmt.Sprint(int(g)*3+i), "service", "s"))
					b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: T0 + int64(g)*10, Data: Dist(0.1)})
				}
				if err := st.Put(context.Background(), b); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	var readers sync.WaitGroup
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			last := uint64(0)
			for {
				r, err := st.Query(context.Background(), store.Query{Family: series.SpanDuration, Start: T0, End: T0 + 3600, Schema: 5, By: []string{"tenant"}, Step: 60})
				if err != nil {
					t.Error(err)
					return
				}
				n := total(r)
				if n < last {
					t.Errorf("count fell from %d to %d", last, n)
				}
				last = n
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	readers.Add(1)
	go func() {
		defer readers.Done()
		for i := int64(0); ; i++ {
			if err := st.Maintain(context.Background(), time.Unix(T0+i*20, 0)); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	wg.Wait()
	close(stop)
	readers.Wait()
	equal(t, "count", total(query(t, st, store.Query{Start: T0, End: T0 + 3600})), writers*gens*20)
}

func testLateData(t *testing.T, st store.Store) {
	ctx := context.Background()
	a := Span(series.Full, "service", "a")
	late := func(gen uint64, start int64) {
		put(t, st, "w", gen, a, start, []float64{1})
	}
	count := func(step int64) uint64 {
		return total(query(t, st, store.Query{Start: T0, End: T0 + 12*3600, Step: step}))
	}
	gen := uint64(0)
	want := uint64(0)
	for _, now := range []int64{0, 30, 90, 700, 3700, 5000, 9000, 30 * 3600, 31 * 3600} {
		check(t, st.Maintain(ctx, time.Unix(T0+now, 0)))
		for _, slot := range []int64{0, 10, 60, 3590, 3600, 7200} {
			gen++
			want++
			late(gen, T0+slot)
			late(gen, T0+slot) // a retry
			for _, step := range []int64{0, 10, 60, 600, 3600, 7200} {
				if got := count(step); got != want {
					t.Fatalf("at %d s, slot %d, step %d: got count %d, want %d", now, slot, step, got, want)
				}
			}
		}
		// Retries of everything, after all that has been rolled up or compacted.
		check(t, st.Maintain(ctx, time.Unix(T0+now, 0)))
		for g := gen; g > gen-6; g-- {
			late(g, T0+[]int64{0, 10, 60, 3590, 3600, 7200}[(g-1)%6])
		}
		equal(t, "after retries", count(0), want)
		equal(t, "after retries, by 10 s", count(10), want)
	}
}

// random plays random batches, retries, maintenance and queries against the
// store and its twin.
func random(t *testing.T, rt *rapid.T, st store.Store) {
	ctx := context.Background()
	twin := NewTwin()
	defer func() {
		if err := st.Close(); err != nil {
			rt.Fatal(err)
		}
	}()
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
	var all []series.Series
	for i := range 12 {
		s := Span(series.View(i%3), "service", fmt.Sprint("s", i%2), "operation", fmt.Sprint("o", i%5))
		if i%3 == 0 {
			s.Labels = labels.FromStrings("service", fmt.Sprint("s", i%2), "operation", fmt.Sprint("o", i%5), "tenant", fmt.Sprint("t", i))
		}
		all = append(all, s)
	}
	now := int64(T0 + 1000)
	type sent struct{ b *store.Batch }
	var history []sent
	gens := map[string]uint64{}
	for range rapid.IntRange(1, 25).Draw(rt, "operations") {
		switch op := rapid.IntRange(0, 9).Draw(rt, "operation"); {
		case op < 4: // put, some of it late
			w := rapid.SampledFrom([]string{"w", "v"}).Draw(rt, "writer")
			gens[w]++
			b := &store.Batch{Writer: w, Generation: gens[w], Resolution: series.Base, Series: all}
			back := rapid.SampledFrom([]int64{30, 30, 300, 4000, 9000}).Draw(rt, "back")
			seen := map[[2]int64]bool{}
			for range rng.IntN(120) {
				slot := series.Base.Slot(now - rng.Int64N(back))
				i := rng.IntN(len(all))
				if slot < T0 || seen[[2]int64{slot, int64(i)}] {
					continue
				}
				seen[[2]int64{slot, int64(i)}] = true
				values := make([]float64, 1+rng.IntN(6))
				for k := range values {
					values[k] = float64(rng.IntN(1e9)) * 1e-9
				}
				weights := []uint64{1}
				if rng.IntN(3) == 0 {
					weights = []uint64{uint64(1 + rng.IntN(100)), 1, 32}
				}
				b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: slot, Data: Sampled(weights, values...)})
			}
			slices.SortStableFunc(b.Points, func(x, y store.Point) int { return int(x.Slot - y.Slot) })
			if err := errors.Join(st.Put(ctx, b), twin.Put(ctx, b)); err != nil {
				rt.Fatal(err)
			}
			history = append(history, sent{b})
		case op == 4 && len(history) > 0: // a retry
			b := history[rapid.IntRange(0, len(history)-1).Draw(rt, "retried")].b
			if err := errors.Join(st.Put(ctx, b), twin.Put(ctx, b)); err != nil {
				rt.Fatal(err)
			}
		case op == 5:
			now += rapid.SampledFrom([]int64{10, 60, 700, 3600, 8000}).Draw(rt, "passed")
			fallthrough
		case op == 6:
			if err := st.Maintain(ctx, time.Unix(now, 0)); err != nil {
				rt.Fatal(err)
			}
		default:
			q := store.Query{Family: series.SpanDuration, View: series.View(rng.IntN(3)), Schema: int8(rng.IntN(8) - 1),
				Start: T0 + rng.Int64N(9000) - 100, Step: []int64{0, 0, 10, 20, 60, 70, 600, 3600}[rng.IntN(8)],
				By:   [][]string{nil, {"service"}, {"operation", "service"}, {"tenant"}}[rng.IntN(4)],
				Each: rng.IntN(6) == 0, TopK: []int{0, 0, 0, 2}[rng.IntN(4)], Measure: store.Measure(rng.IntN(2))}
			if rng.IntN(2) == 0 {
				q.Start -= q.Start % 60
			}
			q.End = q.Start + rng.Int64N(12000)
			if rng.IntN(2) == 0 {
				q.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchType(rng.IntN(2)), "operation", "o1")}
			}
			got, err := st.Query(ctx, q)
			if err != nil {
				rt.Fatal(err)
			}
			want, err := twin.Query(ctx, q)
			if err != nil {
				rt.Fatal(err)
			}
			if d := Diff(got, want); d != "" {
				rt.Fatalf("query %+v at %d: %s", q, now-T0, d)
			}
		}
	}
}
