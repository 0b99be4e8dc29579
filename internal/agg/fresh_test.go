package agg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

// freshServer is an aggregator over a real store, and what is asked of both.
type freshServer struct {
	a         *agg.Aggregator
	st, fresh store.Store
}

func openFresh(t testing.TB) *freshServer {
	t.Helper()
	ctx, fs := context.Background(), vfs.NewMem()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "store", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	// The flusher does nothing on its own within a test.
	a, err := agg.Open(ctx, st, agg.Options{Writer: st.Writer(), Dir: "journal", FS: fs, FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return &freshServer{a, st, a.Fresh(st)}
}

func (s *freshServer) close(t testing.TB) {
	if err := errors.Join(s.a.Close(context.Background()), s.st.Close()); err != nil {
		t.Error(err)
	}
}

func answer(t interface{ Fatalf(string, ...any) }, st store.Store, q store.Query) *store.Result {
	res, err := st.Query(context.Background(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return res
}

func countOf(res *store.Result) (n uint64) {
	for _, g := range res.Groups {
		for _, p := range g.Points {
			if p.Hist != nil {
				n += p.Hist.Count
			}
			n += p.Number.Count
		}
	}
	return n
}

// Whatever is committed, and whenever it is flushed, the fresh answers are those that the
// store gives once everything is flushed.
func TestFreshAnswersAreThoseOfTheStoreLater(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := openFresh(t)
		defer s.close(t)
		ctx, now := context.Background(), time.Now()
		number := rapid.IntRange(0, 3)
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			b := s.a.NewBatch()
			for range rapid.IntRange(0, 30).Draw(rt, "spans") {
				id := agg.SpanIdentity{Service: fmt.Sprint("s", number.Draw(rt, "service")), Operation: fmt.Sprint("o", number.Draw(rt, "operation")),
					Kind: "server", Status: "ok", Tenant: fmt.Sprint("t", number.Draw(rt, "tenant")), Instance: fmt.Sprint("i", number.Draw(rt, "instance"))}
				at := now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(rt, "ago")) * time.Second)
				tenant := ""
				if rapid.Bool().Draw(rt, "apart") {
					tenant, id.Tenant = id.Tenant, ""
				}
				b.ObserveTenant(s.a.SpanTarget(&id), tenant, false, at.UnixNano(), rapid.Int64Range(0, 1e12).Draw(rt, "ns"), rapid.Uint32Range(1, 3).Draw(rt, "weight"))
			}
			for range rapid.IntRange(0, 5).Draw(rt, "numbers") {
				l := labels.FromStrings("service", fmt.Sprint("s", number.Draw(rt, "service")))
				b.Number(s.a.MetricTarget(series.Series{Family: "queue", Kind: series.Gauge, Labels: l}), now.Add(-time.Duration(number.Draw(rt, "ago"))*time.Second).UnixNano(), float64(number.Draw(rt, "value")))
				h := hist.New(hist.DefaultSchema)
				if err := h.Record(float64(1 + number.Draw(rt, "size"))); err != nil {
					rt.Fatal(err)
				}
				b.Distribution(s.a.MetricTarget(series.Series{Family: "size", Kind: series.Distribution, Labels: l}), now.UnixNano(), h)
			}
			if r, err := b.Commit(ctx); err != nil || r.Total() > 0 {
				rt.Fatal(r, err)
			}
			d := s.a.NewDerivedBatch()
			for range rapid.IntRange(0, 30).Draw(rt, "self times") {
				id := agg.SpanIdentity{Service: fmt.Sprint("s", number.Draw(rt, "service")), Component: fmt.Sprint("c", number.Draw(rt, "component")), Kind: "server"}
				at := now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(rt, "ago")) * time.Second)
				d.ObserveMember(d.Group(s.a.SelfGroup(&id)), fmt.Sprint("t", number.Draw(rt, "tenant")), at.UnixNano(), rapid.Int64Range(0, 1e12).Draw(rt, "ns"), rapid.Uint32Range(1, 3).Draw(rt, "weight"))
			}
			if r, err := d.Commit(ctx); err != nil || r.Total() > 0 {
				rt.Fatal(r, err)
			}
			if rapid.Bool().Draw(rt, "flush") {
				if err := s.a.Flush(ctx); err != nil {
					rt.Fatal(err)
				}
			}
		}
		start, end := series.Base.Slot(now.Unix())-100, series.Base.Slot(now.Unix())+20
		service := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "service", "s[12]")}
		var questions []store.Query
		for _, q := range []store.Query{
			{Family: series.SpanDuration, View: series.Total},
			{Family: series.SpanDuration, View: series.Total, By: []string{"service", "status"}, Step: 10},
			{Family: series.SpanDuration, View: series.Marginal, By: []string{"operation", "instance"}, Step: 20, Matchers: service},
			{Family: series.SpanDuration, View: series.Full, Each: true, Step: 10},
			{Family: series.SpanDuration, View: series.Full, By: []string{"tenant"}, TopK: 4},
			{Family: series.SpanSelf, View: series.Full, Each: true, Step: 10},
			{Family: series.SpanSelf, View: series.Full, By: []string{"tenant", "component"}, Matchers: append(service, labels.MustNewMatcher(labels.MatchNotEqual, "tenant", "t1"))},
			{Family: series.SpanSelf, View: series.Total, By: []string{"component"}, Step: 10},
			{Family: "queue", View: series.Full, Each: true, Step: 10},
			{Family: "size", View: series.Full, By: []string{"service"}, Matchers: service},
			{Family: "absent", View: series.Full},
		} {
			q.Start, q.End, q.Schema = start, end, hist.MaxSchema
			questions = append(questions, q)
			q.Measure = store.Moments
			questions = append(questions, q)
		}
		type told struct {
			results  []*store.Result
			families []store.FamilyInfo
			names    []string
			values   []string
			series   int
			samples  []store.SampleSeries
		}
		ask := func(st store.Store) (out told) {
			var err error
			must := func() {
				if err != nil {
					rt.Fatal(err)
				}
			}
			for _, q := range questions {
				out.results = append(out.results, answer(rt, st, q))
			}
			out.families, err = st.Families(ctx)
			must()
			out.names, err = st.LabelNames(ctx, "", series.Marginal, nil, start, end)
			must()
			out.values, err = st.LabelValues(ctx, series.SpanDuration, series.Full, "tenant", service, start, end)
			must()
			list, err := st.Series(ctx, series.SpanDuration, series.Total, nil, start, end)
			must()
			out.series = len(list)
			out.samples, err = st.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: start * 1000, EndMillis: end * 1000})
			must()
			return out
		}
		got := ask(s.fresh)
		if err := s.a.Flush(ctx); err != nil {
			rt.Fatal(err)
		}
		want, after := ask(s.st), ask(s.fresh)
		for _, got := range []told{got, after} {
			for i, q := range questions {
				if d := storetest.Diff(got.results[i], want.results[i]); d != "" {
					rt.Errorf("%+v: %s", q, d)
				}
			}
			if fmt.Sprint(got.families, got.names, got.values, got.series, got.samples) != fmt.Sprint(want.families, want.names, want.values, want.series, want.samples) {
				rt.Errorf("lists\n%v, want\n%v", got, want)
			}
		}
	})
}

// While generations are cut and stored, an answer holds at least what was acknowledged
// before it was asked, and at most what was sent by its end.
func TestFreshAnswersDuringFlushes(t *testing.T) {
	s := openFresh(t)
	defer s.close(t)
	ctx, stop := context.WithCancel(context.Background())
	var sent, acknowledged atomic.Uint64
	var running sync.WaitGroup
	for w := range 2 {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				b := s.a.NewBatch()
				for i := range 20 { // some series are new in each generation
					id := agg.SpanIdentity{Service: "s", Operation: fmt.Sprint("o", i%5), Kind: "server", Status: "ok", Tenant: fmt.Sprint("t", w, (n/50+i)%2000)}
					tenant := id.Tenant
					if id.Tenant = ""; i%7 == 0 {
						id.Tenant, tenant = tenant, ""
					}
					b.ObserveTenant(s.a.SpanTarget(&id), tenant, false, time.Now().UnixNano(), int64(i), 1)
				}
				sent.Add(20)
				if _, err := b.Commit(context.Background()); err != nil {
					t.Error(err)
					return
				}
				acknowledged.Add(20)
			}
		})
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if err := s.a.Flush(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	q := store.Query{Family: series.SpanDuration, Start: time.Now().Unix() - 100, End: time.Now().Unix() + 1000, Schema: hist.MaxSchema}
	asked := 0
	for began := time.Now(); time.Since(began) < 2*time.Second; asked++ {
		q.View = []series.View{series.Total, series.Marginal, series.Full}[asked%3]
		least := acknowledged.Load()
		n := countOf(answer(t, s.fresh, q))
		if most := sent.Load(); n < least || n > most {
			t.Fatalf("view %d: %d spans, want %d to %d", q.View, n, least, most)
		}
	}
	stop()
	running.Wait()
	t.Logf("%d answers, %d spans, %d generations", asked, sent.Load(), s.a.Stats().Generations)
	if n := countOf(answer(t, s.fresh, q)); n != sent.Load() {
		t.Errorf("%d spans, want %d", n, sent.Load())
	}
}

// flushing is a store that has what is open flushed just before it is asked.
type flushing struct {
	store.Store
	flush func(context.Context) error
}

func (f flushing) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if err := f.flush(ctx); err != nil {
		return nil, err
	}
	return f.Store.Query(ctx, q)
}

// A generation that is stored between the two reads of an answer is counted once.
func TestFreshAnswerAroundACut(t *testing.T) {
	s := openFresh(t)
	defer s.close(t)
	fresh := s.a.Fresh(flushing{s.st, s.a.Flush})
	q := store.Query{Family: series.SpanDuration, View: series.Total, Start: time.Now().Unix() - 100, End: time.Now().Unix() + 100, Schema: hist.MaxSchema}
	for n := range uint64(20) {
		b := s.a.NewBatch()
		b.Observe(s.a.SpanTarget(&agg.SpanIdentity{Service: "s", Operation: "o", Kind: "server", Status: "ok"}), time.Now().UnixNano(), 1e6, 1)
		if _, err := b.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := countOf(answer(t, fresh, q)); got != n+1 {
			t.Fatalf("%d spans, want %d", got, n+1)
		}
	}
}
