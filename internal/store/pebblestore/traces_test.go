package pebblestore

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

func keptTrace(n int, at int64, duration time.Duration) store.Trace {
	t := store.Trace{ID: store.TraceID{byte(n >> 16), byte(n >> 8), byte(n)}, Data: fmt.Appendf(nil, "the spans of %d", n)}
	t.Entries = []store.TraceEntry{
		{Span: [8]byte{1}, Service: "shop", Operation: fmt.Sprint("GET /", n%7), Tenant: "acme", Why: store.WhySlow, StartNanos: at * 1e9, DurationNanos: int64(duration)},
		{Span: [8]byte{2}, Service: "stock", Operation: "take", StartNanos: at*1e9 + 1e6, DurationNanos: int64(duration / 2)},
	}
	return t
}

func traceHits(t testing.TB, s *Store, q store.TraceQuery) []store.TraceHit {
	t.Helper()
	if q.EndNanos == 0 {
		q.EndNanos = 1<<63 - 1
	}
	hits, err := s.Traces(context.Background(), q)
	check(t, err)
	return hits
}

// Traces go by the hour: when they are old, and the oldest first when they are
// too many bytes.
func TestTraceRetention(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs, TraceAge: 48 * time.Hour})
	for h := range int64(72) {
		check(t, s.PutTraces(ctx, []store.Trace{keptTrace(int(h), t0+h*3600, time.Second)}))
	}
	check(t, s.Maintain(ctx, time.Unix(t0+72*3600+60, 0)))
	st := s.Stats()
	if st.Traces != 48 || st.TracesKept != 72 || st.TracesExpired != 24 || st.TracesEvicted != 0 {
		t.Errorf("after two of three days: %+v", st)
	}
	if n := len(traceHits(t, s, store.TraceQuery{Limit: 1000})); n != 96 {
		t.Errorf("%d requests are found, want 96", n)
	}
	for h, want := range map[int]error{23: store.ErrNoTrace, 24: nil} {
		if _, err := s.Trace(ctx, keptTrace(h, 0, 0).ID); !errors.Is(err, want) {
			t.Errorf("trace of hour %d: got %v, want %v", h, err, want)
		}
	}
	// What has expired is not kept again, nor what comes from a clock far ahead.
	check(t, s.PutTraces(ctx, []store.Trace{keptTrace(500, t0, time.Second), keptTrace(501, t0+1000*3600, time.Second)}))
	if st := s.Stats(); st.Traces != 48 || st.TracesLate != 2 {
		t.Errorf("after traces out of range: %+v", st)
	}
	size := s.Stats().TraceBytes
	check(t, s.Close())

	s = open(t, Options{FS: fs, TraceAge: 48 * time.Hour, TraceBytes: size / 2})
	defer s.Close()
	if st := s.Stats(); st.Traces != 48 || st.TraceBytes != size {
		t.Errorf("after opening again: %d traces of %d bytes, want 48 of %d", st.Traces, st.TraceBytes, size)
	}
	check(t, s.Maintain(ctx, time.Unix(t0+72*3600+60, 0)))
	if st := s.Stats(); st.Traces != 24 || st.TracesEvicted != 24 || st.TraceBytes > size/2 {
		t.Errorf("with half of the bytes: %+v", st)
	}
	check(t, s.PutTraces(ctx, []store.Trace{keptTrace(500, t0+25*3600, time.Second)}))
	hits := traceHits(t, s, store.TraceQuery{Order: store.Newest, Limit: 1000})
	if n := len(hits); n != 48 || hits[n-1].StartNanos != (t0+48*3600)*1e9 {
		t.Errorf("the oldest of %d requests is of %d", n, hits[n-1].StartNanos)
	}
	check(t, s.Maintain(ctx, time.Unix(t0+1000*3600, 0)))
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableTrace}, UpperBound: []byte{tableTraceEnd}})
	check(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		if it.Key()[0] != tableTraceID { // which goes by the day
			t.Errorf("key %x is left", it.Key())
		}
	}
	check(t, it.Close())
	if st := s.Stats(); st.Traces != 0 || st.TraceBytes != 0 {
		t.Errorf("after everything has expired: %+v", st)
	}
}

// The newest of an hour are found among many times as many, which lie by their
// durations.
func TestNewestOfMany(t *testing.T) {
	s := open(t, Options{})
	defer s.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	var traces []store.Trace
	for n := range 3000 {
		x := keptTrace(n, t0+rng.Int64N(2*3600), time.Duration(rng.Int64N(1e10)))
		x.Entries[0].Failed = n%5 == 0
		traces = append(traces, x)
	}
	check(t, s.PutTraces(context.Background(), traces))
	all := traceHits(t, s, store.TraceQuery{Order: store.Newest, Limit: 10_000})
	if len(all) != 6000 || !slices.IsSortedFunc(all, func(a, b store.TraceHit) int { return newestFirst(&a, &b) }) {
		t.Fatalf("%d requests, or out of order", len(all))
	}
	for _, limit := range []int{1, 10, 700, 2999, 3001, 5999, 6000} {
		if got := traceHits(t, s, store.TraceQuery{Order: store.Newest, Limit: limit}); !slices.Equal(got, all[:limit]) {
			t.Errorf("the newest %d differ from the first of all", limit)
		}
	}
}

// What a trace that is replaced took is given back, also when it moves.
func TestTraceBytesAreExact(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		check(t, s.PutTraces(ctx, []store.Trace{keptTrace(rng.IntN(20), t0+rng.Int64N(100)*1800, time.Duration(rng.Int64N(1e10)))}))
	}
	var traces, size int64
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableTrace}, UpperBound: []byte{tableTracePart}})
	check(t, err)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if it.Key()[0] == tableTrace {
			traces++
		}
		size += int64(len(it.Key()) + len(it.Value()))
	}
	if st := s.Stats(); st.Traces != traces || st.TraceBytes != size || traces != 20 {
		t.Errorf("got %d traces of %d bytes, there are %d of %d", st.Traces, st.TraceBytes, traces, size)
	}
}

// Kept traces survive a process that is killed, as this test is when it runs
// itself.
func TestTracesSurviveAKill(t *testing.T) {
	ctx := context.Background()
	if dir := os.Getenv("PEBBLESTORE_KILLED_DIR"); dir != "" {
		s := open(t, Options{FS: vfs.Default, Dir: dir})
		for n := range 100 {
			check(t, s.PutTraces(ctx, []store.Trace{keptTrace(n%60, t0+int64(n)*600, time.Second)}))
		}
		check(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestTracesSurviveAKill$")
	cmd.Env = append(os.Environ(), "PEBBLESTORE_KILLED_DIR="+dir)
	var exit *exec.ExitError
	if out, err := cmd.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v, %s", err, out)
	}
	s := open(t, Options{FS: vfs.Default, Dir: dir})
	defer s.Close()
	if st := s.Stats(); st.Traces != 60 {
		t.Errorf("got %d traces, want 60", st.Traces)
	}
	if n := len(traceHits(t, s, store.TraceQuery{Limit: 1000})); n != 120 {
		t.Errorf("%d requests are found, want 120", n)
	}
}

// The slowest of a week are found from the heads of its hours' lists.
func TestTraceQueriesLookAtFew(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	const hours, perHour = 168, 100
	for h := range hours {
		var traces []store.Trace
		for i := range perHour {
			traces = append(traces, keptTrace(h*perHour+i, t0+int64(h)*3600+int64(i)*30, time.Duration(rng.ExpFloat64()*1e9)))
		}
		check(t, s.PutTraces(ctx, traces))
	}
	for name, tt := range map[string]struct {
		q    store.TraceQuery
		most int
	}{
		"slowest of a service":    {store.TraceQuery{Service: "shop", Limit: 20}, 600},
		"slowest of an operation": {store.TraceQuery{Service: "shop", Operation: "GET /3", Limit: 20}, 600},
		"newest of a service":     {store.TraceQuery{Service: "shop", Limit: 20, Order: store.Newest}, perHour + 2},
		"a cell of a heatmap": {store.TraceQuery{Service: "shop", StartNanos: (t0 + 90000) * 1e9, EndNanos: (t0 + 90600) * 1e9,
			MinNanos: 1e9, MaxNanos: 1.5e9}, perHour / 4},
	} {
		if tt.q.EndNanos == 0 {
			tt.q.EndNanos = 1<<63 - 1
		}
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableTraceEntry}, UpperBound: []byte{tableTraceEntry + 1}})
		check(t, err)
		f := newTraceFinder(it, tt.q)
		check(t, f.run(ctx))
		check(t, it.Close())
		if len(f.found) == 0 || f.rows > tt.most {
			t.Errorf("%s: found %d, looked at %d requests, want at most %d", name, len(f.found), f.rows, tt.most)
		}
	}
}

// Bytes that do not decode are named corrupt by whoever meets them.
func TestCorruptTraces(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	tr := keptTrace(1, t0, time.Second)
	part := tracePartOf(tr.Entries[0].StartNanos)
	entry := traceEntryKey(nil, listOf("", ""), tr.ID, &tr.Entries[0])
	for name, key := range map[string][]byte{
		"body": traceKey(nil, part, tr.ID), "place": traceIDKey(nil, dayOf(part), tr.ID), "request": entry, "a longer key": append(bytes.Clone(entry), 1),
	} {
		check(t, s.db.DeleteRange([]byte{tableTrace}, []byte{tableTraceEnd}, nil))
		check(t, s.PutTraces(ctx, []store.Trace{tr}))
		check(t, s.db.Set(key, []byte{traceFormat, 200, 200}, nil))
		_, one := s.Trace(ctx, tr.ID)
		_, list := s.Traces(ctx, store.TraceQuery{EndNanos: 1<<63 - 1})
		err := one
		if key[0] == tableTraceEntry {
			err = list
		} else {
			corrupt(t, s.PutTraces(ctx, []store.Trace{tr}))
		}
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
		check(t, s.db.Delete(key, nil))
	}
}

func TestTraceGolden(t *testing.T) {
	e := store.TraceEntry{Span: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Service: "shop", Operation: "GET /", Tenant: "acme", Failed: true,
		Why: store.WhyFailed, StartNanos: t0*1e9 + 5, DurationNanos: 1_500_000}
	tr := store.Trace{ID: store.TraceID{0xaa, 15: 0xbb}, Entries: []store.TraceEntry{e}, Data: []byte("data")}
	part := tracePartOf(e.StartNanos)
	for _, tt := range []struct {
		what, want string
		got        []byte
	}{
		{"body key", goldenBodyKey, traceKey(nil, part, tr.ID)},
		{"body", goldenBody, appendTrace(nil, &tr, tr.Entries)},
		{"id key", goldenIDKey, traceIDKey(nil, dayOf(part), tr.ID)},
		{"request key", goldenRequestKey, traceEntryKey(nil, listOf("shop", "GET /"), tr.ID, &e)},
		{"request", goldenRequest, appendNames(nil, &e)},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.what, got, tt.want)
		}
	}
}

const (
	goldenBodyKey    = "30802d8550aa0000000000000000000000000000bb"
	goldenBody       = "01010102030405060708828a8098e2e6bc96d731e0c65b0473686f7005474554202f0461636d650464617461"
	goldenIDKey      = "31802d8550aa0000000000000000000000000000bb"
	goldenRequestKey = "32802d85503a7abf103b257970017fffffffffe91c9f6728d30cc9dcfffaaa0000000000000000000000000000bb0102030405060708"
	goldenRequest    = "01020473686f7005474554202f0461636d65"
)

func FuzzTrace(f *testing.F) {
	tr := keptTrace(1, t0, time.Second)
	f.Add(appendTrace(nil, &tr, tr.Entries))
	f.Add(appendNames(nil, &tr.Entries[0]))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := readNames(b)
		corrupt(t, err)
		got, err := decodeTrace(b)
		corrupt(t, err)
		if err != nil {
			return
		}
		if len(got.Entries) == 0 || len(got.Entries) > store.MaxTraceEntries {
			t.Fatalf("accepted %d requests", len(got.Entries))
		}
		again, err := decodeTrace(appendTrace(nil, &got, got.Entries))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("%v came back as %v, %v", got, again, err)
		}
	})
}
