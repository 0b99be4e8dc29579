package agg_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// lostTable is a data directory in memory whose store has lost the table of
// generations 1 and 2, counts generation 3 as the last that tables hold, and
// has the journals of all three.
type lostTable struct {
	t  *testing.T
	fs *vfs.MemFS
	at atomic.Int64 // nanoseconds since began; the flusher reads the time too
}

// began is when the tests begin.
var began = time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)

func (l *lostTable) now() time.Time { return time.Unix(0, began.UnixNano()+l.at.Load()).UTC() }

const lostTableSpans = 40 // of each generation

func (l *lostTable) open() (*pebblestore.Store, *agg.Aggregator) {
	l.t.Helper()
	ctx := context.Background()
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: "data/store", DamagedDir: "data/damaged", FS: l.fs, MinFreeBytes: -1})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { st.Close() })
	a, err := agg.Open(ctx, st, agg.Options{Writer: st.Writer(), Dir: "data/journal", FS: l.fs, Now: l.now, FlushInterval: time.Hour})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { a.Close(ctx) })
	return st, a
}

func (l *lostTable) send(a *agg.Aggregator) {
	l.t.Helper()
	ctx, b := context.Background(), a.NewBatch()
	for i := range lostTableSpans {
		b.Observe(a.SpanTarget(&agg.SpanIdentity{Service: "shop", Operation: fmt.Sprint("op", i%3), Tenant: fmt.Sprint("t", i%7)}),
			l.now().UnixNano(), int64(1+i)*1e6, 1)
	}
	if _, err := b.Commit(ctx); err != nil {
		l.t.Fatal(err)
	}
	if err := a.Flush(ctx); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lostTable) list(dir, suffix string) (out []string) {
	l.t.Helper()
	names, err := l.fs.List(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			out = append(out, dir+"/"+n)
		}
	}
	slices.Sort(out)
	return out
}

func (l *lostTable) read(path string) []byte {
	l.t.Helper()
	f, err := l.fs.Open(path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

func (l *lostTable) write(path string, b []byte) {
	l.t.Helper()
	f, err := l.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// make lets between happen after the table was written, and damages it.
func (l *lostTable) make(between func(*pebblestore.Store)) {
	l.t.Helper()
	ctx := context.Background()
	st, a := l.open()
	for range 2 {
		l.send(a)
		l.at.Add(int64(10 * time.Second))
	}
	if err := st.WriteTables(ctx); err != nil {
		l.t.Fatal(err)
	}
	journals := map[string][]byte{}
	for _, p := range l.list("data/journal", ".stored") {
		journals[p] = l.read(p)
	}
	tables := l.list("data/store", ".sst")
	if len(journals) != 2 || len(tables) != 1 {
		l.t.Fatalf("%d journals and %d tables, want 2 and 1", len(journals), len(tables))
	}
	between(st)
	l.send(a)
	if err := a.Close(ctx); err != nil {
		l.t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		l.t.Fatal(err)
	}
	for p, b := range journals { // killed before it could delete them
		l.write(p, b)
	}
	b := l.read(tables[0])
	b[len(b)-20] ^= 0x10
	l.write(tables[0], b)
}

func (l *lostTable) counts(st *pebblestore.Store, res series.Resolution) (n [3]uint64) {
	l.t.Helper()
	for i, v := range []series.View{series.Full, series.Marginal, series.Total} {
		r, err := st.Query(context.Background(), store.Query{Family: series.SpanDuration, View: v, Step: int64(res), Schema: 5,
			Start: l.now().Unix() - 7200, End: l.now().Unix() + 60})
		if err != nil {
			l.t.Fatal(err)
		}
		for _, g := range r.Groups {
			for _, p := range g.Points {
				n[i] += p.Hist.Count
			}
		}
	}
	return n
}

func three(n uint64) [3]uint64 { return [3]uint64{n, n, n} }

// What a lost table held and a journal still holds is put back, once.
func TestJournalsReplaceALostTable(t *testing.T) {
	l := &lostTable{t: t, fs: vfs.NewMem()}
	l.make(func(*pebblestore.Store) {})
	for start := range 2 {
		st, a := l.open()
		if d, err := st.Durable(context.Background(), st.Writer()); err != nil || d < 3 {
			t.Fatalf("generation %d lies in tables, want 3 at least: %v", d, err)
		}
		if got := l.counts(st, series.Base); got != three(3*lostTableSpans) {
			t.Errorf("start %d: the views hold %v, want %d each", start, got, 3*lostTableSpans)
		}
		var put []store.Damage
		for _, d := range a.Damage() {
			if d.Observations != 0 || d.Lost != "" {
				t.Errorf("start %d: reported as lost: %+v", start, d)
			}
			put = append(put, d)
		}
		if want := 1 - start; len(put) != want {
			t.Errorf("start %d: %d reports, want %d: %+v", start, len(put), want, put)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Where longer slots have taken in what was lost, or may have, it is put into
// its own slots alone, and the journals are kept aside.
func TestJournalsOfALostTableInLongerSlots(t *testing.T) {
	l := &lostTable{t: t, fs: vfs.NewMem()}
	l.make(func(st *pebblestore.Store) {
		l.at.Add(int64(5 * time.Minute))
		for range 3 {
			if err := st.Maintain(context.Background(), l.now()); err != nil {
				t.Fatal(err)
			}
		}
	})
	st, a := l.open()
	if got := l.counts(st, series.Base); got != three(3*lostTableSpans) {
		t.Errorf("slots of 10 s hold %v, want %d each", got, 3*lostTableSpans)
	}
	if got := l.counts(st, series.Minute); got != three(3*lostTableSpans) {
		t.Errorf("slots of a minute hold %v, want %d each: their sum was in the log", got, 3*lostTableSpans)
	}
	up, aside := 0, l.list("data/damaged", ".journal")
	for _, d := range a.Damage() {
		if strings.Contains(d.Lost, fmt.Sprintf("up to %d observations of generation ", lostTableSpans)) && d.Observations == -1 && slices.Contains(aside, d.File) {
			up++
		}
	}
	if up != 2 || len(aside) != 2 {
		t.Errorf("%d generations reported, %q set aside, want 2 and 2: %+v", up, aside, a.Damage())
	}
}

// A start that is killed after the table was dropped and before the journals
// were read leaves that to the next.
func TestLostTableIsRemembered(t *testing.T) {
	l := &lostTable{t: t, fs: vfs.NewMem()}
	l.make(func(*pebblestore.Store) {})
	st, err := pebblestore.Open(context.Background(), pebblestore.Options{Dir: "data/store", DamagedDir: "data/damaged", FS: l.fs, MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st, _ = l.open()
	if got := l.counts(st, series.Base); got != three(3*lostTableSpans) {
		t.Errorf("the views hold %v, want %d each", got, 3*lostTableSpans)
	}
}
