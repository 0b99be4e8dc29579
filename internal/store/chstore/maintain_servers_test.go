//go:build servers

package chstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// number returns the first number of an answer.
func number(t testing.TB, s *Store, query string) uint64 {
	t.Helper()
	r, err := s.client.read(context.Background(), s.first(), query)
	check(t, err)
	n := r.uint64()
	check(t, r.err)
	return n
}

// eventually waits for what the database does at a time of its own.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for begin := time.Now(); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatal(what)
		}
	}
}

func spanBatch(gen uint64, slots ...int64) *store.Batch {
	b := &store.Batch{Writer: "w", Generation: gen, Resolution: series.Base, Series: []series.Series{storetest.Span(series.Full, "service", "a")}}
	for _, at := range slots {
		b.Points = append(b.Points, store.Point{Slot: at, Data: storetest.Dist(1)})
	}
	return b
}

func countSpans(t testing.TB, s *Store, from, to int64) (n uint64) {
	t.Helper()
	r, err := s.Query(context.Background(), store.Query{Family: series.SpanDuration, Start: from, End: to, Schema: 5})
	check(t, err)
	for _, g := range r.Groups {
		for _, p := range g.Points {
			n += p.Hist.Count
		}
	}
	return n
}

// Sums of more nanoseconds than fit 64 bits are rolled up as seconds.
func TestSumsBeyondNanoseconds(t *testing.T) {
	ctx := context.Background()
	s, twin := open(t, on(t, nodes(t, 1))), storetest.NewTwin()
	defer s.Close()
	b := spanBatch(1)
	for at := range int64(360) {
		b.Points = append(b.Points, store.Point{Slot: storetest.T0 + 10*at, Data: storetest.Dist(1e8)})
	}
	check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
	check(t, s.Maintain(ctx, time.Unix(storetest.T0+7200, 0)))
	if rows := number(t, s, "SELECT count() FROM "+s.local("points")+" WHERE resolution = 3600"); rows != 1 {
		t.Fatalf("%d hours are made, want 1", rows)
	}
	for _, step := range []int64{0, 10, 60, 600, 3600} {
		q := store.Query{Family: series.SpanDuration, Schema: 5, Start: storetest.T0, End: storetest.T0 + 3600, Step: step}
		got, err := s.Query(ctx, q)
		check(t, err)
		want, err := twin.Query(ctx, q)
		check(t, err)
		if d := storetest.Diff(got, want); d != "" {
			t.Errorf("in steps of %d s: %s", step, d)
		}
	}
}

// Finer slots are dropped with their partition some time after they have expired, what was
// made of them stays, and in the end all goes.
func TestExpiredPartitionsGo(t *testing.T) {
	ctx := context.Background()
	o := on(t, nodes(t, 1))
	clock := time.Unix(storetest.T0, 0)
	o.Now = func() time.Time { return clock }
	s := open(t, o)
	defer s.Close()
	check(t, s.Put(ctx, spanBatch(1, storetest.T0, storetest.T0+10, storetest.T0+3600)))
	check(t, s.PutTraces(ctx, []store.Trace{{ID: store.TraceID{1}, Entries: []store.TraceEntry{{Service: "a", StartNanos: storetest.T0 * 1e9}}}}))
	rows := func(resolution int) uint64 {
		return number(t, s, fmt.Sprintf("SELECT count() FROM %s WHERE resolution = %d", s.local("points"), resolution))
	}
	for _, tt := range []struct {
		days                    int64
		base, minute, ten, hour uint64
		traces, seen            uint64
	}{
		{1, 3, 2, 2, 2, 1, 3}, {4, 0, 2, 2, 2, 1, 3}, {20, 0, 2, 2, 2, 0, 3}, {50, 0, 0, 2, 2, 0, 3}, {140, 0, 0, 0, 2, 0, 3}, {480, 0, 0, 0, 0, 0, 0},
	} {
		at := time.Unix(storetest.T0+tt.days*day, 0)
		check(t, s.Maintain(ctx, at))
		if before := rows(10); tt.days == 4 && before != 3 {
			t.Errorf("%d base slots are left right after they expired, while questions may read them", before)
		}
		clock = clock.Add(time.Hour)
		check(t, s.Maintain(ctx, at))
		got := [...]uint64{rows(10), rows(60), rows(600), rows(3600), number(t, s, "SELECT count() FROM "+s.local("traces"))}
		if want := [...]uint64{tt.base, tt.minute, tt.ten, tt.hour, tt.traces}; got != want {
			t.Errorf("after %d days there are %d rows of each resolution and traces, want %d", tt.days, got, want)
		}
		if n := countSpans(t, s, storetest.T0, storetest.T0+7200); n != tt.seen {
			t.Errorf("after %d days %d observations are seen, want %d", tt.days, n, tt.seen)
		}
	}
	if n := number(t, s, "SELECT count() FROM "+s.local("series")); n != 0 {
		t.Errorf("%d series are left when nothing of their day is", n)
	}
}

// The log is shortened while several servers write to it, and no write is lost.
func TestLogIsShortened(t *testing.T) {
	ctx := context.Background()
	o := on(t, nodes(t, 1))
	const servers, times = 3, 80
	var wg sync.WaitGroup
	var all []*Store
	for range servers {
		s := open(t, o)
		s.eraWrites = 60
		all = append(all, s)
		defer s.Close()
		wg.Go(func() {
			for range times {
				err := store.UpdateRecords(ctx, s, "k", "n", func(have []store.Record) ([]store.RecordWrite, error) {
					n := 0
					if len(have) > 0 {
						fmt.Sscan(string(have[0].Value), &n)
					}
					return []store.RecordWrite{{Key: "n", Value: fmt.Append(nil, n+1)}}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// The rows of a kind keep their order when parts are merged.
	check(t, all[0].client.exec(ctx, all[0].first(), "OPTIMIZE TABLE "+all[0].qualified("log")+" FINAL"))
	late := open(t, o)
	defer late.Close()
	for i, s := range append(all, late) {
		r, err := s.GetRecord(ctx, "k", "n")
		if err != nil || string(r.Value) != fmt.Sprint(servers*times) {
			t.Errorf("server %d reads %q, %v, want %d", i, r.Value, err, servers*times)
		}
	}
	eventually(t, "the rows of earlier eras are not deleted", func() bool {
		return number(t, late, "SELECT count() FROM "+late.qualified("log")+" WHERE kind = 'record/k'") < servers*times/2
	})
	again := open(t, o)
	defer again.Close()
	if r, err := again.GetRecord(ctx, "k", "n"); err != nil || string(r.Value) != fmt.Sprint(servers*times) {
		t.Errorf("after rows were deleted a server reads %q, %v", r.Value, err)
	}
}

// Rows of state that later ones replace are deleted, and only those.
func TestStateIsFolded(t *testing.T) {
	ctx := context.Background()
	s := open(t, on(t, nodes(t, 1)))
	defer s.Close()
	s.foldFrom = 30
	for gen := uint64(1); gen <= 40; gen++ {
		b := spanBatch(gen)
		b.State = []store.State{{Key: []byte("last"), Value: fmt.Append(nil, gen)}, {Key: fmt.Append(nil, gen%7), Value: fmt.Append(nil, gen)}}
		check(t, s.Put(ctx, b))
	}
	read := func() (out []string) {
		check(t, s.State(ctx, "w", nil, func(k, v []byte) error {
			out = append(out, string(k)+"="+string(v))
			return nil
		}))
		return out
	}
	const want = "[0=35 1=36 2=37 3=38 4=39 5=40 6=34 last=40]"
	if got := fmt.Sprint(read()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	eventually(t, "old rows of state are not deleted", func() bool { return number(t, s, "SELECT count() FROM "+s.qualified("state")) < 60 })
	if got := fmt.Sprint(read()); got != want {
		t.Errorf("once old rows were deleted: got %s, want %s", got, want)
	}
}

// Samples are bounded as every store promises, whatever comes late.
func TestSampleBounds(t *testing.T) {
	fewer(t, "2")
	c := nodes(t, 1)
	storetest.RunSampleBounds(t, 40, nil, func(t *testing.T) store.Store {
		o := on(t, c)
		o.SampleCount = 40
		return open(t, o)
	}, nil)
}

func TestSchema(t *testing.T) {
	ctx := context.Background()
	c := nodes(t, 1)
	o := on(t, c)
	s := open(t, o)
	check(t, s.Put(ctx, spanBatch(1, storetest.T0)))
	// Interrupted before the version was written: the next start goes on.
	check(t, s.client.exec(ctx, s.first(), "DROP TABLE "+s.qualified("versions")))
	check(t, s.client.exec(ctx, s.first(), "DROP TABLE "+s.qualified("samples")))
	check(t, s.Close())
	var wg sync.WaitGroup
	for range 3 { // several at once
		wg.Go(func() {
			s, err := Open(ctx, o)
			if err != nil {
				t.Error(err)
				return
			}
			if n := countSpans(t, s, storetest.T0, storetest.T0+10); n != 1 {
				t.Errorf("%d observations are there, want 1", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	s = open(t, o)
	versions := func(v uint32) {
		check(t, s.client.exec(ctx, s.first(), "ALTER TABLE "+s.qualified("versions")+" DROP PARTITION tuple()"))
		check(t, s.client.insert(ctx, s.first(), s.qualified("versions"), "(version, layout)", appendString(appendUint32(nil, v), s.layout())))
	}
	check(t, s.Put(ctx, spanBatch(1, storetest.T0)))
	versions(1)
	if _, err := OpenExisting(ctx, o); !errors.Is(err, store.ErrVersion) {
		t.Errorf("what exists, of an earlier version: got %v, want ErrVersion", err)
	}
	check(t, s.Close())
	s = open(t, o)
	defer s.Close()
	if v := number(t, s, "SELECT toUInt64(max(version)) FROM "+s.qualified("versions")); v != schemaVersion || countSpans(t, s, storetest.T0, storetest.T0+60) != 1 {
		t.Errorf("tables of version 1 are opened: they are of version %d, with %d spans, want %d and 1", v, countSpans(t, s, storetest.T0, storetest.T0+60), schemaVersion)
	}
	check(t, s.client.exec(ctx, s.first(), "DROP TABLE "+s.qualified("samples")))
	if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "lacks the table samples") {
		t.Errorf("a table is missing: got %v", err)
	}
	row := appendString(appendUint32(nil, schemaVersion+1), s.layout())
	check(t, s.client.insert(ctx, s.first(), s.qualified("versions"), "(version, layout)", row))
	if _, err := Open(ctx, o); !errors.Is(err, store.ErrVersion) {
		t.Errorf("tables of a newer version: got %v, want ErrVersion", err)
	}
	if _, err := OpenExisting(ctx, o); !errors.Is(err, store.ErrVersion) {
		t.Errorf("what exists, of a newer version: got %v, want ErrVersion", err)
	}
	row = appendString(appendUint32(nil, schemaVersion+2), "cluster x, 5 shards")
	check(t, s.client.insert(ctx, s.first(), s.qualified("versions"), "(version, layout)", row))
	if _, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), `made for "cluster x, 5 shards"`) {
		t.Errorf("tables of another cluster: got %v", err)
	}
	if _, err := Open(ctx, Options{Address: o.Address + "?cluster=nope"}); err == nil || !strings.Contains(err.Error(), "knows no cluster nope") {
		t.Errorf("a cluster that is not there: got %v", err)
	}
}

// The condition on rows says what has says.
func TestVisibleNumbers(t *testing.T) {
	s := open(t, on(t, nodes(t, 1)))
	defer s.Close()
	v := visibility{Last: map[uint32]uint32{0: 2, 1: 9, 3: 1 << 31}, Replaced: []putNumber{numberOf(1, 7)}}
	v.Folded = v.Folded.union(allOf(4, 4), allOf(5, 6))
	v.Aborted = v.Aborted.with(numberOf(0, 1), numberOf(1, 2), numberOf(1, 3), numberOf(1, 4), numberOf(3, 1), numberOf(5, 11), numberOf(5, 12))
	var all, want []putNumber
	for e := range uint32(8) {
		for i := range uint32(12) {
			n := numberOf(e, i+1) // 0 is not given
			if all = append(all, n); v.has(n) {
				want = append(want, n)
			}
		}
	}
	r, err := s.client.read(t.Context(), s.first(), "SELECT put FROM (SELECT arrayJoin(CAST(["+list(all)+"], 'Array(UInt64)')) AS put) WHERE "+v.rows(true)+" ORDER BY put")
	check(t, err)
	var got []putNumber
	for r.next() {
		got = append(got, r.uint64())
	}
	if check(t, r.err); len(want) != 1+5+11+12+10+12 || !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}
