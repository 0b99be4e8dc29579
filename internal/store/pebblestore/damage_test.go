package pebblestore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// syncBuffer is written to by Pebble's goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// flip overwrites a few bytes in the middle of every table, where points are.
func flip(t *testing.T, fs vfs.FS, dir string) (tables int) {
	t.Helper()
	names, err := fs.List(dir)
	check(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			f, err := fs.OpenReadWrite(fs.PathJoin(dir, n), vfs.WriteCategoryUnspecified)
			check(t, err)
			info, err := f.Stat()
			check(t, err)
			_, err = f.WriteAt([]byte("damaged"), info.Size()/2)
			check(t, errors.Join(err, f.Close()))
			tables++
		}
	}
	return tables
}

// A bad checksum is an error to who reads there, with a next step in the log,
// and neither ends the process nor what does not touch it.
func TestDamagedFile(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	// Points that compress well: after a bad checksum Pebble looks for the one
	// bit that may have flipped, which takes the square of a block's bytes.
	all, one := denseSeries(100), storetest.Dist(0.1, 0.2)
	for g := range int64(60) {
		b := &store.Batch{Writer: "w", Generation: uint64(g + 1), Resolution: series.Base, Series: all}
		for i := range all {
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + g*10, Data: one})
		}
		check(t, s.Put(ctx, b))
	}
	check(t, s.db.Flush())
	check(t, s.Compact(ctx))
	check(t, s.Close())
	if flip(t, fs, "data") == 0 {
		t.Fatal("there are no tables")
	}
	var log syncBuffer
	s, err := Open(ctx, Options{Dir: "data", FS: fs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	defer s.Close()
	q := store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 3600, Schema: 5, Step: 10}
	if _, err := s.Query(ctx, q); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("query: got %v, want ErrCorrupt", err)
	}
	if err := s.Maintain(ctx, time.Unix(t0+3*86400, 0)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("maintain: got %v, want ErrCorrupt", err)
	}
	later := int64(t0 + 2*86400)
	check(t, s.Put(ctx, batch(100, later, 5)))
	check(t, s.PutTraces(ctx, []store.Trace{keptTrace(1, later, time.Second)}))
	if n := count(t, s, store.Query{Start: later, End: later + 3600}); n != 15 {
		t.Errorf("what was put since: got count %d, want 15", n)
	}
	check(t, s.db.Flush())
	if err := s.Compact(ctx); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("compaction: got %v, want ErrCorrupt", err)
	}
	if n := len(s.Damage()); n != 1 {
		t.Errorf("%d damaged files, want 1", n)
	}
	if m := log.String(); strings.Count(m, "is damaged") != 1 || !strings.Contains(m, ".sst") || !strings.Contains(m, "backup") || strings.Contains(m, "stack trace") {
		t.Errorf("logged:\n%s", m)
	}
}
