package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// A new writer gets neither the records nor the number of one whose name is lost.
func TestNumbersOfLostWriters(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	put := func(name string) {
		check(t, s.Put(ctx, &store.Batch{Writer: name, Generation: 1, Resolution: series.Base, State: []store.State{{Key: []byte(name), Value: []byte(name)}}}))
	}
	put("checks")
	put("verdicts")
	check(t, s.Put(ctx, batch(1, t0, 5)))
	for _, lost := range []string{"checks", "verdicts"} {
		check(t, s.db.Delete(append([]byte{tableWriter}, lost...), pebble.Sync))
	}
	check(t, errors.Join(oweMend(fs, "data"), s.Close()))
	s = open(t, Options{FS: fs})
	for _, name := range []string{"experiments", "settings", "verdicts", "checks"} {
		put(name)
	}
	check(t, s.Close())
	s = open(t, Options{FS: fs})
	defer s.Close()
	for name, want := range map[string]string{"w": "last", "experiments": "experiments", "settings": "settings", "verdicts": "verdicts", "checks": "checks"} {
		check(t, s.State(ctx, name, nil, func(k, v []byte) error {
			if string(k) != want {
				t.Errorf("writer %s has the record %q, want its own", name, k)
			}
			return nil
		}))
	}
	if n := countAll(t, s); n != 15 {
		t.Errorf("count %d, want 15", n)
	}
}

// Chunks that are back are deleted only if the run that took them in is there.
func TestChunksOfALostRunStay(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	chunks := map[string][]byte{}
	check(t, s.each([]byte{tablePoints}, func(k, v []byte) error {
		if len(k) == chunkKeyLen {
			chunks[string(k)] = bytes.Clone(v)
		}
		return nil
	}))
	check(t, s.Maintain(ctx, time.Unix(t0, 0).Add(2*time.Hour)))
	ask := func() uint64 { return count(t, s, store.Query{Start: t0, End: t0 + 600, Step: 10}) }
	if n := ask(); n != 15 {
		t.Fatalf("count %d, want 15", n)
	}
	// The table that held the deletion of the chunks, the directory and the blocks is
	// lost; the one with the record of what they took in is there.
	wb := s.db.NewBatch()
	check(t, s.each(tierPrefix(nil, 0), func(k, v []byte) error {
		if c := k[scopePrefixLen]; c == classDirectory || c == classBlock {
			return wb.Delete(bytes.Clone(k), nil)
		}
		return nil
	}))
	for k, v := range chunks {
		check(t, wb.Set([]byte(k), v, nil))
	}
	check(t, errors.Join(wb.Commit(pebble.Sync), oweMend(fs, "data"), s.Close()))
	s = open(t, Options{FS: fs})
	defer s.Close()
	if n := ask(); n != 15 {
		t.Errorf("count %d, want 15: the chunks are all there is", n)
	}
	check(t, s.Maintain(ctx, time.Unix(t0, 0).Add(3*time.Hour)))
	if n := ask(); n != 15 {
		t.Errorf("count %d once it is compacted, want 15", n)
	}
}
