package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/store"
)

// recordsOf lists records as key=value.
func recordsOf(t rapid.TB, st store.Records, kind, prefix string) (out []string) {
	t.Helper()
	err := st.ListRecords(context.Background(), kind, prefix, func(r store.Record) error {
		if r.Revision == 0 || r.Revision == store.AnyRevision {
			t.Errorf("record %q has revision %d", r.Key, r.Revision)
		}
		out = append(out, r.Key+"="+string(r.Value))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// anyway returns unconditional writes of pairs of key and value.
func anyway(pairs ...string) (out []store.RecordWrite) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, store.RecordWrite{Key: pairs[i], Value: []byte(pairs[i+1]), IfRevision: store.AnyRevision})
	}
	return out
}

func testRecords(t *testing.T, st store.Store) {
	ctx := context.Background()
	put := func(kind string, pairs ...string) uint64 {
		t.Helper()
		return must(st.PutRecords(ctx, kind, anyway(pairs...)...))(t)
	}
	equal(t, "nothing yet", recordsOf(t, st, "k", ""), nil)
	first := put("k", "b/2", "x", "a", "1", "b/1", "y", "\xff", "z", "b", "w", "a\x00c", "v")
	put("kk", "a", "other")
	equal(t, "all, in order", recordsOf(t, st, "k", ""), []string{"a=1", "a\x00c=v", "b=w", "b/1=y", "b/2=x", "\xff=z"})
	equal(t, "prefix", recordsOf(t, st, "k", "b/"), []string{"b/1=y", "b/2=x"})
	equal(t, "the last prefix there is", recordsOf(t, st, "k", "\xff"), []string{"\xff=z"})
	equal(t, "another kind", recordsOf(t, st, "kk", ""), []string{"a=other"})
	equal(t, "no kind of this name", recordsOf(t, st, "K", ""), nil)
	equal(t, "one", must(st.GetRecord(ctx, "k", "a"))(t), store.Record{Key: "a", Value: []byte("1"), Revision: first})
	if _, err := st.GetRecord(ctx, "k", "b/"); !errors.Is(err, store.ErrNoRecord) {
		t.Errorf("a key that is not there: got error %v, want ErrNoRecord", err)
	}
	second := put("k", "b/1", "", "a", "2", "b/2", "x2", "b/2", "x3", "nope", "")
	if second <= first {
		t.Errorf("revision %d after %d", second, first)
	}
	equal(t, "after changes and deletions", recordsOf(t, st, "k", ""), []string{"a=2", "a\x00c=v", "b=w", "b/2=x3", "\xff=z"})
	equal(t, "written", must(st.GetRecord(ctx, "k", "a"))(t).Revision, second)
	equal(t, "not written", must(st.GetRecord(ctx, "k", "b"))(t).Revision, first)

	stop, calls := errors.New("stop"), 0
	if err := st.ListRecords(ctx, "k", "", func(store.Record) error { calls++; return stop }); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("got error %v after %d calls, want that of yield", err, calls)
	}
	check(t, st.ListRecords(ctx, "k", "", func(r store.Record) error { // what lists may write, and sees what was there
		_, err := st.PutRecords(ctx, "k", anyway(r.Key, "", "zz"+r.Key, "n")...)
		return err
	}))
	equal(t, "replaced while listing", len(recordsOf(t, st, "k", "zz")), 5)
	equal(t, "and no others", len(recordsOf(t, st, "k", "")), 5)

	value := []byte("mine")
	check(t, second1(st.PutRecords(ctx, "own", store.RecordWrite{Key: "a", Value: value})))
	value[0] = 'M'
	got := must(st.GetRecord(ctx, "own", "a"))(t)
	equal(t, "the caller's slice changed", string(got.Value), "mine")
	got.Value[0] = 'F'
	equal(t, "the answer changed", recordsOf(t, st, "own", ""), []string{"a=mine"})

	for name, w := range map[string]struct{ kind, key string }{"no kind": {"", "a"}, "no key": {"k", ""}, "a zero byte": {"k\x00", "a"}} {
		if _, err := st.PutRecords(ctx, w.kind, anyway("good", "1", w.key, "1")...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	equal(t, "nothing of what is refused", recordsOf(t, st, "k", "good"), nil)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_, err := st.GetRecord(ctx, "own", "a")
	_, put1 := st.PutRecords(ctx, "own", anyway("b", "1")...)
	for i, err := range []error{err, put1, st.ListRecords(ctx, "own", "", func(store.Record) error { return nil })} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: got error %v, want context.Canceled", i, err)
		}
	}
}

func second1[T any](_ T, err error) error { return err }

func testRecordConflicts(t *testing.T, st store.Store) {
	ctx := context.Background()
	put := func(key, value string, revision uint64) (uint64, error) {
		return st.PutRecords(ctx, "k", store.RecordWrite{Key: key, Value: []byte(value), IfRevision: revision})
	}
	refused := func(what string, _ uint64, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: got error %v, want ErrConflict", what, err)
		}
	}
	refuse := func(what, key, value string, revision uint64) {
		t.Helper()
		r, err := put(key, value, revision)
		refused(what, r, err)
	}
	refuse("a revision of what is not there", "a", "1", 7)
	refuse("the same, to delete", "a", "", 7)
	first := must(put("a", "1", 0))(t)
	refuse("create what is there", "a", "2", 0)
	refuse("delete it as if it were not there", "a", "", 0)
	refuse("a revision that never was", "a", "2", first+1)
	equal(t, "unchanged", must(st.GetRecord(ctx, "k", "a"))(t), store.Record{Key: "a", Value: []byte("1"), Revision: first})
	second := must(put("a", "2", first))(t)
	refuse("an old revision", "a", "3", first)
	refuse("the same, to delete", "a", "", first)
	third := must(put("a", "2", second))(t)
	if first >= second || second >= third {
		t.Errorf("revisions %d, %d and %d do not rise", first, second, third)
	}
	must(put("a", "", third))(t)
	refuse("delete it again", "a", "", third)
	refuse("write what was deleted", "a", "4", third)
	again := must(put("a", "5", 0))(t)
	if again <= third {
		t.Errorf("revision %d of what was deleted at %d", again, third)
	}
	refuse("a revision from before the deletion", "a", "6", first)
	must(put("none", "", 0))(t) // it says that there is none

	b := must(put("b", "1", 0))(t)
	r, err := st.PutRecords(ctx, "k", store.RecordWrite{Key: "a", Value: []byte("7"), IfRevision: again},
		store.RecordWrite{Key: "b", IfRevision: b + 1}, store.RecordWrite{Key: "c", Value: []byte("1"), IfRevision: store.AnyRevision})
	refused("one of three", r, err)
	equal(t, "all or none", recordsOf(t, st, "k", ""), []string{"a=5", "b=1"})
	check(t, second1(st.PutRecords(ctx, "k", store.RecordWrite{Key: "a", Value: []byte("7"), IfRevision: again},
		store.RecordWrite{Key: "b", IfRevision: b}, store.RecordWrite{Key: "c", Value: []byte("1")})))
	equal(t, "all", recordsOf(t, st, "k", ""), []string{"a=7", "c=1"})
}

// testConcurrentRecords has writers race for each revision of one record, beside flushes
// and writes of others: each is won once.
func testConcurrentRecords(t *testing.T, st store.Store) {
	ctx := context.Background()
	const writers, rounds = 6, 25
	revision := must(st.PutRecords(ctx, "k", store.RecordWrite{Key: "a", Value: []byte("0")}))(t)
	for round := range rounds {
		var won atomic.Int32
		var next atomic.Uint64
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				value := fmt.Sprint(round, " ", w)
				if _, err := st.PutRecords(ctx, "k", anyway(fmt.Sprint("own", w), value)...); err != nil {
					t.Error(err)
				}
				r, err := st.PutRecords(ctx, "k", store.RecordWrite{Key: "a", Value: []byte(value), IfRevision: revision},
					store.RecordWrite{Key: "beside", Value: []byte(value), IfRevision: store.AnyRevision})
				switch {
				case err == nil:
					won.Add(1)
					next.Store(r)
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
				}
			})
		}
		wg.Go(func() { put(t, st, "w", uint64(round+1), Span(0, "service", "a"), T0, []float64{1}) })
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d writers won, want one", round, won.Load())
		}
		a, beside := must(st.GetRecord(ctx, "k", "a"))(t), must(st.GetRecord(ctx, "k", "beside"))(t)
		if revision = next.Load(); a.Revision != revision || beside.Revision != revision || string(a.Value) != string(beside.Value) {
			t.Fatalf("round %d: %+v and %+v, want both of revision %d", round, a, beside, revision)
		}
	}
}

// testUpdateRecords counts up from many goroutines: no increment is lost.
func testUpdateRecords(t *testing.T, st store.Store) {
	ctx := context.Background()
	const writers, times = 5, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range times {
				err := store.UpdateRecords(ctx, st, "k", "count/", func(have []store.Record) ([]store.RecordWrite, error) {
					n := 0
					if len(have) > 0 {
						n, _ = strconv.Atoi(string(have[0].Value))
					}
					return []store.RecordWrite{{Key: "count/a", Value: strconv.AppendInt(nil, int64(n+1), 10)}}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	equal(t, "counted", recordsOf(t, st, "k", ""), []string{fmt.Sprint("count/a=", writers*times)})

	stop := errors.New("stop")
	err := store.UpdateRecords(ctx, st, "k", "", func([]store.Record) ([]store.RecordWrite, error) { return nil, stop })
	if !errors.Is(err, stop) {
		t.Errorf("got error %v, want that of change", err)
	}
	check(t, store.UpdateRecords(ctx, st, "k", "", func([]store.Record) ([]store.RecordWrite, error) { return nil, nil }))
	err = store.UpdateRecords(ctx, st, "k", "other", func([]store.Record) ([]store.RecordWrite, error) {
		return []store.RecordWrite{{Key: "count/a"}}, nil
	})
	if err == nil {
		t.Error("a write outside the prefix: no error")
	}
	equal(t, "unchanged", recordsOf(t, st, "k", ""), []string{fmt.Sprint("count/a=", writers*times)})
}

// randomRecords plays random writes and reads against the store and its twin.
func randomRecords(rt *rapid.T, st store.Store) {
	ctx := context.Background()
	twin := NewTwin()
	defer func() {
		if err := st.Close(); err != nil {
			rt.Fatal(err)
		}
	}()
	kinds := rapid.SampledFrom([]string{"a", "ab", "b"})
	keys := rapid.SampledFrom([]string{"x", "x/", "x/1", "x\x00", "y", "\xff\xff"})
	for range rapid.IntRange(1, 40).Draw(rt, "operations") {
		kind := kinds.Draw(rt, "kind")
		if rapid.IntRange(0, 3).Draw(rt, "operation") == 0 {
			prefix := rapid.SampledFrom([]string{"", "x", "x/", "\xff"}).Draw(rt, "prefix")
			if got, want := strings.Join(recordsOf(rt, st, kind, prefix), " "), strings.Join(recordsOf(rt, twin, kind, prefix), " "); got != want {
				rt.Fatalf("%s of prefix %q: got %q, want %q", kind, prefix, got, want)
			}
			continue
		}
		var ours, theirs []store.RecordWrite
		for range rapid.IntRange(1, 3).Draw(rt, "writes") {
			w := store.RecordWrite{Key: keys.Draw(rt, "key"), Value: []byte(rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "value"))}
			o := w
			switch rapid.IntRange(0, 2).Draw(rt, "if") {
			case 0:
				w.IfRevision, o.IfRevision = store.AnyRevision, store.AnyRevision
			case 1: // as it is: revisions of two stores may differ
				a, errA := st.GetRecord(ctx, kind, w.Key)
				b, errB := twin.GetRecord(ctx, kind, w.Key)
				if errors.Is(errA, store.ErrNoRecord) != errors.Is(errB, store.ErrNoRecord) || string(a.Value) != string(b.Value) {
					rt.Fatalf("%s %q: got %q %v, want %q %v", kind, w.Key, a.Value, errA, b.Value, errB)
				}
				w.IfRevision, o.IfRevision = a.Revision, b.Revision
			}
			ours, theirs = append(ours, w), append(theirs, o)
		}
		_, got := st.PutRecords(ctx, kind, ours...)
		_, want := twin.PutRecords(ctx, kind, theirs...)
		if errors.Is(got, store.ErrConflict) != errors.Is(want, store.ErrConflict) || (got == nil) != (want == nil) {
			rt.Fatalf("write %+v of %s: got error %v, want %v", ours, kind, got, want)
		}
	}
}
