package agg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

func someSpans(t *testing.T, a *Aggregator, c *clock, n int) {
	t.Helper()
	b := a.NewBatch()
	for i := range n {
		b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint("op", i%3), Tenant: fmt.Sprint("t", i%5), Instance: "x"}),
			c.now().UnixNano()-int64(i%4)*slotNanos, int64(i)*1e6, uint32(1+i%2))
	}
	commit(t, b)
}

const weightOf10 = 15 // of someSpans(10)

func views(t *testing.T, st *memStore, want uint64) {
	t.Helper()
	for _, v := range []series.View{series.Full, series.Marginal, series.Total} {
		if got := st.count(t, series.SpanDuration, v); got != want {
			t.Errorf("view %d holds %d, want %d", v, got, want)
		}
	}
}

func TestCrashBeforePut(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	someSpans(t, a, c, 10)
	flush(t, a)
	someSpans(t, a, c, 10)
	someSpans(t, a, c, 10)
	crash(a)
	views(t, st, weightOf10)
	if n, observations, err := CountJournals(context.Background(), vfs.Default, dir); n != 1 || observations != 20 || err != nil {
		t.Errorf("%d journals with %d observations, %v, want 1 with 20", n, observations, err)
	}
	var log bytes.Buffer
	a = open(t, st, c, dir, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	views(t, st, 3*weightOf10)
	if n, _, _ := journalFiles(vfs.Default, dir); len(n) != 0 {
		t.Errorf("journals left: %v", n)
	}
	if got := a.Stats().Replayed; got != 20 {
		t.Errorf("replayed %d, want 20", got)
	}
	if want := "journals=1 observations=20 took="; strings.Count(log.String(), want) != 1 {
		t.Errorf("the log is\n%s\nwant one line with %q", log.String(), want)
	}
}

// The store has the generation, but the program dies, or thinks Put failed,
// before it deletes the journal.
func TestCrashAfterPut(t *testing.T) {
	for _, retried := range []bool{false, true} {
		t.Run(fmt.Sprint("retried=", retried), func(t *testing.T) {
			st, c, dir := newMemStore(), newClock(), t.TempDir()
			a := open(t, st, c, dir)
			someSpans(t, a, c, 10)
			st.after = errors.New("connection lost after commit")
			if err := a.Flush(context.Background()); err == nil {
				t.Fatal("flush succeeded")
			}
			if retried {
				someSpans(t, a, c, 10)
				if err := a.Flush(context.Background()); err == nil {
					t.Fatal("flush succeeded")
				}
				st.after = nil
				st.flushed["local"] = 0
				flush(t, a)
				views(t, st, 2*weightOf10)
				return
			}
			if n, _, _ := journalFiles(vfs.Default, dir); len(n) != 1 {
				t.Fatalf("journals %v", n)
			}
			st.after = nil
			crash(a)
			open(t, st, c, dir)
			views(t, st, weightOf10)
			if n, _, _ := journalFiles(vfs.Default, dir); len(n) != 0 {
				t.Errorf("journals left: %v", n)
			}
		})
	}
}

func TestPutIsRetriedInOrder(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, t.TempDir())
	st.refuse(fmt.Errorf("disk: %w", store.ErrFull))
	for range 3 {
		someSpans(t, a, c, 10)
		if err := a.Flush(context.Background()); !errors.Is(err, store.ErrFull) {
			t.Fatal(err)
		}
	}
	if s := a.Stats(); s.Pending != 3 || s.FlushErrors != 3 {
		t.Errorf("%+v", s)
	}
	st.refuse(nil)
	flush(t, a)
	views(t, st, 3*weightOf10)
	if st.puts != 3 {
		t.Errorf("%d puts, want 3", st.puts)
	}
}

// Whatever byte the journal ends at, what was whole is replayed.
func TestTornTail(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	var ends []int64
	for range 3 {
		someSpans(t, a, c, 10)
		ends = append(ends, a.open.journal.size)
	}
	path := a.open.journal.path
	crash(a)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A cut between two frames leaves nothing torn.
	clean := []int64{0, journalHeader}
	for at := int64(journalHeader); at < int64(len(whole)); clean = append(clean, at) {
		at += frameHeader + int64(binary.LittleEndian.Uint32(whole[at:]))
	}
	cuts := []int64{0, 5, journalHeader, ends[0], ends[1], ends[2]}
	cuts = append(cuts, clean...)
	for range 40 {
		cuts = append(cuts, rand.Int64N(int64(len(whole))))
	}
	for _, cut := range cuts {
		for _, tail := range []string{"", "zeros", "flipped"} {
			dir, st := t.TempDir(), newMemStore()
			b := append([]byte(nil), whole[:cut]...)
			switch tail {
			case "zeros":
				b = append(b, make([]byte, 300)...)
			case "flipped":
				if cut < ends[2] {
					continue
				}
				b[len(b)-1] ^= 0x40 // of a frame that is all there: not a torn write
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := Open(context.Background(), st, Options{Writer: "local", Dir: dir, Now: c.now})
			if err != nil {
				t.Fatalf("cut at %d, tail %q: %v", cut, tail, err)
			}
			want := uint64(0)
			for i, e := range ends {
				if cut >= e && !(tail == "flipped" && i == 2) {
					want += weightOf10
				}
			}
			views(t, st, want)
			if got, torn := a.Stats().TornTails > 0, tail != "flipped" && int64(len(b)) != journalHeader && (len(b) > int(cut) || !slices.Contains(clean, cut)); got != torn {
				t.Errorf("cut at %d, tail %q: torn %v, want %v", cut, tail, got, torn)
			}
			if d := a.Damage(); tail != "flipped" && len(d) != 0 || tail == "flipped" && (len(d) != 1 || d[0].Observations != 10) {
				t.Errorf("cut at %d, tail %q: damage %+v", cut, tail, d)
			}
			if err := a.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNewerJournalIsRefused(t *testing.T) {
	dir := t.TempDir()
	h := header{generation: 1}.append(nil)
	h[7] = 9
	if err := os.WriteFile(journalPath(dir, 1), append(h, 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), newMemStore(), Options{Writer: "local", Dir: dir})
	if !errors.Is(err, store.ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
}

// A journal that cannot be written refuses the batch, and nothing of it is
// kept; definitions that were not written are written with the next.
func TestJournalWriteFails(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	observe(t, a, c, SpanIdentity{Service: "s", Tenant: "first"}, 1)
	j := a.open.journal
	j.f.Close()
	b := a.NewBatch()
	target := a.SpanTarget(&SpanIdentity{Service: "s", Tenant: "new"})
	b.Observe(target, c.now().UnixNano(), 1, 1)
	if _, err := b.Commit(context.Background()); !errors.Is(err, ErrOverloaded) {
		t.Fatalf("got %v", err)
	}
	var err error
	if j.f, err = vfs.Default.OpenReadWrite(j.path, category); err != nil {
		t.Fatal(err)
	}
	observe(t, a, c, SpanIdentity{Service: "s", Tenant: "new"}, 5)
	crash(a)
	open(t, st, c, dir)
	views(t, st, 6)
}

// A journal that could be neither begun nor removed is begun by the next batch.
func TestJournalIsBegunAgain(t *testing.T) {
	st, c, mem := newMemStore(), newClock(), vfs.NewMem()
	var fails atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fails.Load() && (op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpRemove) {
			return errorfs.ErrInjected
		}
		return nil
	}))
	a := open(t, st, c, "data/journal", on(fs))
	fails.Store(true)
	b := a.NewBatch()
	b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Tenant: "t"}), c.now().UnixNano(), 1, 1)
	if _, err := b.Commit(context.Background()); err == nil {
		t.Fatal("a batch that cannot be journalled is accepted")
	}
	fails.Store(false)
	observe(t, a, c, SpanIdentity{Service: "s", Tenant: "t"}, 5)
	crash(a)
	open(t, st, c, "data/journal", on(mem))
	views(t, st, 5)
}
