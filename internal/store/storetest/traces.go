package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/store"
)

const second = int64(1e9)

// request returns an entry that starts so many seconds after T0.
func request(span byte, service, operation string, start, millis int64) store.TraceEntry {
	return store.TraceEntry{Span: [8]byte{span}, Service: service, Operation: operation, Tenant: "acme", Why: store.WhySlow,
		StartNanos: (T0 + start) * second, DurationNanos: millis * 1e6}
}

func trace(id byte, data string, entries ...store.TraceEntry) store.Trace {
	return store.Trace{ID: store.TraceID{id}, Entries: entries, Data: []byte(data)}
}

// hits names requests by the first bytes of their trace and span.
func hits(hs []store.TraceHit) string {
	var names []string
	for _, h := range hs {
		names = append(names, fmt.Sprintf("%d/%d", h.ID[0], h.Span[0]))
	}
	return strings.Join(names, " ")
}

func testTraces(t *testing.T, st store.Store) {
	ctx := context.Background()
	a, b := request(1, "shop", "GET /", 10, 300), request(2, "stock", "take", 11, 200)
	b.Failed, b.Why, b.Tenant = true, store.WhyFailed|store.WhyExemplar, ""
	first := trace(7, "first", a, b, b)
	check(t, st.PutTraces(ctx, []store.Trace{first}))
	all := func() []store.TraceHit {
		return must(st.Traces(ctx, store.TraceQuery{StartNanos: T0 * second, EndNanos: (T0 + 90000) * second}))(t)
	}
	want := first
	want.Entries = first.Entries[:2]
	equal(t, "trace", *must(st.Trace(ctx, first.ID))(t), want)
	equal(t, "hits", all(), []store.TraceHit{{ID: first.ID, TraceEntry: a}, {ID: first.ID, TraceEntry: b}})
	if _, err := st.Trace(ctx, store.TraceID{8}); !errors.Is(err, store.ErrNoTrace) {
		t.Errorf("a trace not kept: got %v, want ErrNoTrace", err)
	}
	// The same id again replaces it, wherever in time it was.
	for i, start := range []int64{10, 3000, 4000, 86400, 20} {
		next := trace(7, fmt.Sprint("again ", i), request(byte(i), "shop", "GET /", start, 100), request(9, "pay", "charge", start+1, 50))
		check(t, st.PutTraces(ctx, []store.Trace{next}))
		equal(t, "replaced", *must(st.Trace(ctx, next.ID))(t), next)
		equal(t, "hits after replacing", hits(all()), fmt.Sprintf("7/%d 7/9", i))
		check(t, st.Maintain(ctx, time.Unix(T0+90000, 0)))
	}
	// In one call the last of an id stays.
	check(t, st.PutTraces(ctx, []store.Trace{trace(8, "x", request(1, "s", "o", 5, 1)), trace(8, "y", request(2, "s", "o", 5, 2))}))
	equal(t, "the last of an id", string(must(st.Trace(ctx, store.TraceID{8}))(t).Data), "y")
	equal(t, "its requests", hits(all()), "7/4 7/9 8/2")
	check(t, st.PutTraces(ctx, nil))
	if len(must(st.Trace(ctx, store.TraceID{8}))(t).Entries) != 1 {
		t.Error("the replaced requests are still there")
	}
}

func testTraceQueries(t *testing.T, st store.Store) {
	failed, tenant, exemplar := request(1, "shop", "POST /", 20, 700), request(1, "shop", "GET /", 3500, 250), request(2, "stock", "take", 3601, 40)
	failed.Failed, failed.Why = true, store.WhyFailed
	tenant.Tenant = "globex"
	exemplar.Why = store.WhyExemplar
	check(t, st.PutTraces(context.Background(), []store.Trace{
		trace(1, "", request(1, "shop", "GET /", 0, 500), request(2, "stock", "take", 0, 100)),
		trace(2, "", failed),
		trace(3, "", tenant),
		trace(4, "", request(1, "shop", "GET /", 3600, 500), exemplar),
		trace(5, "", request(1, "shop", "GET /", 90000, 1)),
	}))
	yes, no := true, false
	const end = 100000
	for _, tt := range []struct {
		q          store.TraceQuery
		start, end int64
		want       string
	}{
		{store.TraceQuery{}, 0, end, "2/1 4/1 1/1 3/1 1/2 4/2 5/1"},
		{store.TraceQuery{Order: store.Newest}, 0, end, "5/1 4/2 4/1 3/1 2/1 1/1 1/2"},
		{store.TraceQuery{Limit: 2}, 0, end, "2/1 4/1"},
		{store.TraceQuery{Limit: 2, Order: store.Newest}, 0, end, "5/1 4/2"},
		{store.TraceQuery{Service: "shop"}, 0, end, "2/1 4/1 1/1 3/1 5/1"},
		{store.TraceQuery{Service: "shop", Operation: "GET /"}, 0, end, "4/1 1/1 3/1 5/1"},
		{store.TraceQuery{Operation: "take"}, 0, end, "1/2 4/2"},
		{store.TraceQuery{Service: "shop", Operation: "take"}, 0, end, ""},
		{store.TraceQuery{Service: "sho"}, 0, end, ""},
		{store.TraceQuery{Tenant: "globex"}, 0, end, "3/1"},
		{store.TraceQuery{Failed: &yes}, 0, end, "2/1"},
		{store.TraceQuery{Failed: &no, Service: "shop"}, 0, end, "4/1 1/1 3/1 5/1"},
		{store.TraceQuery{Why: store.WhyFailed | store.WhyExemplar}, 0, end, "2/1 4/2"},
		{store.TraceQuery{}, 0, 3600, "2/1 1/1 3/1 1/2"},                            // open above
		{store.TraceQuery{}, 3600, 3602, "4/1 4/2"},                                 // closed below
		{store.TraceQuery{Service: "shop"}, 1, 3600, "2/1 3/1"},                     // within an hour
		{store.TraceQuery{Service: "shop"}, 3600, 3600, ""},                         // empty
		{store.TraceQuery{Service: "shop"}, 3601, 3600, ""},                         // turned round
		{store.TraceQuery{MinNanos: 250e6, MaxNanos: 500e6}, 0, end, "4/1 1/1 3/1"}, // closed at both ends
		{store.TraceQuery{MinNanos: 501e6}, 0, end, "2/1"},
		{store.TraceQuery{MaxNanos: 40e6}, 0, end, "4/2 5/1"},
		{store.TraceQuery{MaxNanos: 499e6, Service: "shop", Limit: 1}, 0, end, "3/1"},
		{store.TraceQuery{MaxNanos: 499e6, Order: store.Newest, Limit: 2}, 0, end, "5/1 4/2"},
	} {
		tt.q.StartNanos, tt.q.EndNanos = (T0+tt.start)*second, (T0+tt.end)*second
		equal(t, fmt.Sprintf("%+v in [%d, %d)", tt.q, tt.start, tt.end), hits(must(st.Traces(context.Background(), tt.q))(t)), tt.want)
	}
	all := must(st.Traces(context.Background(), store.TraceQuery{StartNanos: -1 << 63, EndNanos: 1<<63 - 1}))(t)
	equal(t, "all of time", hits(all), "2/1 4/1 1/1 3/1 1/2 4/2 5/1")
}

func testBadTraces(t *testing.T, st store.Store) {
	ctx := context.Background()
	good, backwards := trace(1, "", request(1, "s", "o", 0, 1)), trace(2, "", request(1, "s", "o", 0, -1))
	many := trace(2, "")
	for i := range store.MaxTraceEntries + 1 {
		many.Entries = append(many.Entries, request(byte(i), "s", "o", 0, 1))
	}
	for name, bad := range map[string]store.Trace{"no requests": trace(2, "x"), "too many": many, "backwards": backwards} {
		if err := st.PutTraces(ctx, []store.Trace{good, bad}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := st.Trace(ctx, good.ID); !errors.Is(err, store.ErrNoTrace) {
		t.Errorf("what came with a bad trace: got %v, want ErrNoTrace", err)
	}
	many.Entries = many.Entries[1:]
	check(t, st.PutTraces(ctx, []store.Trace{many}))
	equal(t, "as many as may be", len(must(st.Trace(ctx, many.ID))(t).Entries), store.MaxTraceEntries)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, list := st.Traces(cancelled, store.TraceQuery{})
	_, one := st.Trace(cancelled, many.ID)
	for i, err := range []error{st.PutTraces(cancelled, []store.Trace{good}), list, one} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: got error %v, want context.Canceled", i, err)
		}
	}
}

// testConcurrentTraces replaces traces at various times while others read them: a kept
// trace is found at every moment.
func testConcurrentTraces(t *testing.T, st store.Store) {
	ctx := context.Background()
	const ids, rounds = 5, 60
	put := func(id byte, round int) error {
		start := int64(id)*100 + int64(round%7)*30_000
		return st.PutTraces(ctx, []store.Trace{trace(id, fmt.Sprint(round), request(1, "shop", "GET /", start, int64(round)), request(2, "stock", "take", start+1, 1))})
	}
	for id := range byte(ids) {
		check(t, put(id, 0))
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for id := range byte(ids) {
		writers.Go(func() {
			for round := range rounds {
				if err := put(id, round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r == 0 {
					if err := st.Maintain(ctx, time.Unix(T0+3*day, 0)); err != nil {
						t.Error(err)
					}
				}
				for id := range byte(ids) {
					if _, err := st.Trace(ctx, store.TraceID{id}); err != nil {
						t.Error(err)
						return
					}
				}
				hits, err := st.Traces(ctx, store.TraceQuery{StartNanos: T0 * second, EndNanos: (T0 + 7*day) * second})
				if err != nil || len(hits) != 2*ids {
					t.Errorf("got %d requests, %v, want %d", len(hits), err, 2*ids)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// randomTraces puts, replaces and queries at random, and compares with the twin.
func randomTraces(t *testing.T, rt *rapid.T, st store.Store) {
	defer st.Close()
	ctx := context.Background()
	twin := NewTwin()
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
	name := func(n int) string { return []string{"", "a", "b", "ab"}[rng.IntN(n)] }
	const hours = 50
	for range rapid.IntRange(1, 20).Draw(rt, "operations") {
		if rapid.IntRange(0, 2).Draw(rt, "operation") == 0 {
			var traces []store.Trace
			for range rng.IntN(30) {
				tr := trace(byte(rng.IntN(60)), strings.Repeat("x", rng.IntN(50)))
				start := rng.Int64N(hours * 3600)
				for range 1 + rng.IntN(4) {
					e := request(byte(rng.IntN(8)), name(4), name(3), start+rng.Int64N(4000), rng.Int64N(20))
					e.Tenant, e.Failed, e.Why = name(2), rng.IntN(4) == 0, store.Why(rng.IntN(8))
					tr.Entries = append(tr.Entries, e)
				}
				traces = append(traces, tr)
			}
			if err := errors.Join(st.PutTraces(ctx, traces), twin.PutTraces(ctx, traces)); err != nil {
				rt.Fatal(err)
			}
			continue
		}
		if rng.IntN(5) == 0 {
			if err := st.Maintain(ctx, time.Unix(T0+hours*3600, 0)); err != nil {
				rt.Fatal(err)
			}
		}
		q := store.TraceQuery{Service: name(4), Operation: name(3), Tenant: name(2), Order: store.TraceOrder(rng.IntN(2)), Limit: []int{0, 1, 3, 10}[rng.IntN(4)]}
		q.StartNanos = (T0 + rng.Int64N(hours*3600)) * second
		q.EndNanos = q.StartNanos + rng.Int64N(hours*3600)*second
		if rng.IntN(3) == 0 {
			q.MinNanos = rng.Int64N(10) * 1e6
		}
		if rng.IntN(3) == 0 {
			q.MaxNanos = rng.Int64N(20) * 1e6
		}
		if rng.IntN(3) == 0 {
			f := rng.IntN(2) == 0
			q.Failed = &f
		}
		if rng.IntN(3) == 0 {
			q.Why = store.Why(rng.IntN(8))
		}
		got, err := st.Traces(ctx, q)
		if err != nil {
			rt.Fatal(err)
		}
		want, _ := twin.Traces(ctx, q)
		if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			rt.Fatalf("query %+v: got %v, want %v", q, hits(got), hits(want))
		}
		id := store.TraceID{byte(rng.IntN(60))}
		kept, err := st.Trace(ctx, id)
		want1, err1 := twin.Trace(ctx, id)
		if errors.Is(err, store.ErrNoTrace) != errors.Is(err1, store.ErrNoTrace) || err == nil && !reflect.DeepEqual(kept.Entries, want1.Entries) {
			rt.Fatalf("trace %x: got %v %v, want %v %v", id, kept, err, want1, err1)
		}
	}
}
