package pebblestore

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// Chunks that come back with the deletion of a lost table count once, and a
// watermark that is set back makes no rollup of what came late alone.
func TestLostDeletionDoublesNothing(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{FS: vfs.NewMem()})
	defer s.Close()
	check(t, s.Put(ctx, batch(1, t0, 5)))
	check(t, s.Put(ctx, batch(2, t0+600, 5)))
	maintain := func(after time.Duration) { check(t, s.Maintain(ctx, time.Unix(t0, 0).Add(after))) }
	maintain(5 * time.Minute)
	old := map[string][]byte{}
	keep := func(prefix []byte) {
		check(t, s.each(prefix, func(k, v []byte) error {
			if k[0] == tableMeta || len(k) == chunkKeyLen {
				old[string(k)] = bytes.Clone(v)
			}
			return nil
		}))
	}
	keep([]byte{tableMeta})
	keep([]byte{tablePoints})
	maintain(48 * time.Hour)
	// Late, so that a slot that has been rolled up has a chunk again.
	check(t, s.Put(ctx, batch(3, t0, 5)))
	ask := func() (n [2]uint64) {
		for i, step := range []int64{10, 3600} {
			n[i] = count(t, s, store.Query{Start: t0, End: t0 + 2*86400, Step: step})
		}
		return n
	}
	want := ask()
	if want != [2]uint64{45, 45} {
		t.Fatalf("count %v, want 45", want)
	}
	wb := s.db.NewBatch()
	for k, v := range old {
		check(t, wb.Set([]byte(k), v, nil))
	}
	check(t, wb.Commit(pebble.Sync))
	check(t, s.load())
	if got := ask(); got == want {
		t.Fatalf("count %v with old chunks back: this tests nothing", got)
	}
	check(t, s.mend(ctx))
	if got := ask(); got != want {
		t.Errorf("mended: count %v, want %v", got, want)
	}
	s.freshRead = false
	maintain(49 * time.Hour)
	if got := ask(); got != want {
		t.Errorf("mended and maintained: count %v, want %v", got, want)
	}
}
