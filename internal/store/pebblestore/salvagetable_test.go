package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// putManyMarks puts marks m0 to m3999, one a second, so that one flush makes one
// table of them all, with many blocks.
func putManyMarks(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	for range 3 { // each memtable is twice the one before, up to the bound
		check(t, store.PutMark(ctx, s, store.Mark{ID: "m0", Name: "deploy"}))
		check(t, s.db.Flush())
	}
	check(t, s.Compact(ctx))
	var writes []store.RecordWrite
	for i := range 4000 {
		m := store.Mark{ID: fmt.Sprint("m", i), Time: time.Unix(int64(i), 0), Name: strings.Repeat(fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15), 4)}
		v, err := store.AppendMark(nil, m)
		check(t, err)
		writes = append(writes, store.RecordWrite{Key: m.ID, Value: v, IfRevision: store.AnyRevision})
		if len(writes) == 100 {
			_, err := s.PutRecords(ctx, store.KindMarks, writes...)
			check(t, err)
			writes = writes[:0]
		}
	}
}

// One flipped bit in a table that every start reads costs its block, not the table.
func TestDamagedBlockAtAStart(t *testing.T) {
	ctx := context.Background()
	for _, blocks := range [][]int{{0}, {0, 3}, {0, 2, 5}} {
		t.Run(fmt.Sprint(blocks), func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, Options{FS: fs})
			putManyMarks(t, s)
			check(t, s.Put(ctx, batch(1, t0, 5)))
			// A deletion of a range goes with the table.
			check(t, s.db.DeleteRange([]byte{0x70}, []byte{0x71}, pebble.Sync))
			check(t, errors.Join(s.db.Flush(), s.Close()))
			for _, n := range append(files(t, fs, "data", "", ".log"), logsFile) {
				check(t, fs.Remove("data/"+n))
			}
			tables := files(t, fs, "data", "", ".sst")
			name := tables[len(tables)-1]
			at := blockOffsets(t, fs, "data/"+name)
			if len(at) < 7 {
				t.Fatalf("%d blocks in %s", len(at), name)
			}
			for _, b := range blocks {
				change(t, fs, "data/"+name, flipAt(func(int) int { return at[b] + 40 }))
			}
			damaged, err := readWhole(fs, "data/"+name)
			check(t, err)
			s = open(t, Options{FS: fs, DamagedDir: "damaged"})
			all, err := store.Marks(ctx, s, time.Unix(-1, 0), time.Unix(5000, 0))
			check(t, err)
			if len(all) < 2500 {
				t.Errorf("%d marks of 4000", len(all))
			}
			// The names of families are in the first block.
			if n := countAll(t, s); n != 15 {
				t.Errorf("count %d, want 15: points are in blocks that are whole", n)
			}
			d := s.Damage()
			if len(d) != 1 || d[0].File != "damaged/"+name || !strings.HasPrefix(d[0].Lost, fmt.Sprintf("%d damaged blocks: ", len(blocks))) || !strings.Contains(d[0].Lost, "keys of the table are kept") {
				t.Errorf("damage: %+v", d)
			}
			if b, err := readWhole(fs, "damaged/"+name); err != nil || string(b) != string(damaged) {
				t.Errorf("the table was not kept as it was: %v", err)
			}
			check(t, s.Put(ctx, batch(2, t0+300, 5)))
			check(t, s.Compact(ctx))
			if n := countAll(t, s); n != 30 {
				t.Errorf("count %d after a compaction, want 30", n)
			}
			check(t, s.Close())
			if r, err := Examine(ctx, Options{Dir: "data", FS: fs, DamagedDir: "damaged"}); err != nil || len(r.Findings) > 0 {
				t.Errorf("examined: %+v %v", r, err)
			}
		})
	}
}

// countAll counts the observations of all families of distributions.
func countAll(t *testing.T, s *Store) (n uint64) {
	t.Helper()
	for name, f := range s.families {
		if f.kind != series.Distribution {
			continue
		}
		r, err := s.Query(context.Background(), store.Query{Family: name, Schema: 5, Start: t0, End: t0 + 3600})
		check(t, err)
		for _, g := range r.Groups {
			for _, p := range g.Points {
				n += p.Hist.Count
			}
		}
	}
	return n
}

// blockOffsets lists where the blocks of keys of a table begin.
func blockOffsets(t *testing.T, fs vfs.FS, path string) (out []int) {
	t.Helper()
	r, err := openTable(context.Background(), fs, path)
	check(t, err)
	defer r.Close()
	var l *sstable.Layout
	l, err = r.Layout()
	check(t, err)
	for _, b := range l.Data {
		out = append(out, int(b.Offset))
	}
	return out
}
