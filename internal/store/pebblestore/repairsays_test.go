package pebblestore

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// What a damaged block held is said by family and time: by doctor, and by the
// start that leaves a table out.
func TestDamageSaysWhatItHeld(t *testing.T) {
	ctx, whole := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: whole})
	for g := range uint64(8) { // many blocks, in tables that hold no names
		check(t, s.Put(ctx, batch(g+1, t0+int64(g)*600, 3000)))
	}
	check(t, s.db.Flush())
	check(t, s.Close())
	tables := files(t, whole, "data", "", ".sst")
	name := tables[len(tables)-1]
	blocks := blockOffsets(t, whole, "data/"+name)
	if len(blocks) < 4 {
		t.Fatalf("%d blocks, want 4 at least", len(blocks))
	}
	fs := clone(t, whole)
	change(t, fs, "data/"+name, flipAt(func(int) int { return blocks[len(blocks)-2] + 40 }))
	o := Options{Dir: "data", FS: fs, DamagedDir: "damaged"}
	r, err := Examine(ctx, o)
	check(t, err)
	if len(r.Findings) != 1 || r.Findings[0].From.IsZero() || r.Findings[0].To.Sub(r.Findings[0].From).Hours() > 2 {
		t.Fatalf("findings: %+v", r.Findings)
	}
	for _, want := range []string{"1 damaged blocks: slots of 10s from 20", " until 20", "span_duration_seconds", "keys of the table are kept"} {
		if !strings.Contains(r.Findings[0].Lost, want) {
			t.Errorf("doctor says %q, not %q", r.Findings[0].Lost, want)
		}
	}
}

// A format file with a bit flipped, or gone, is found and written again by what
// the identity and the tables say, also if the identity is damaged too.
func TestRepairFormat(t *testing.T) {
	ctx := context.Background()
	whole := lived(t)
	want := dump(t, clone(t, whole))
	flip := func(at int) func([]byte) []byte { return flipAt(func(n int) int { return (at + n) % n }) }
	for _, c := range []struct {
		name             string
		format, identity func([]byte) []byte
		starts           bool
	}{
		{"another digit", func(b []byte) []byte { b[len(b)-2] = '3'; return b }, nil, false},
		{"a letter", flip(3), nil, true},
		{"gone", func([]byte) []byte { return nil }, nil, true},
		{"a letter, and the identity", flip(3), flip(20), false},
		{"gone, and the identity too", func([]byte) []byte { return nil }, func([]byte) []byte { return nil }, false},
		{"the identity alone", nil, flip(20), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := clone(t, whole)
			id, err := readWhole(fs, "data/"+identityFile)
			check(t, err)
			if c.format != nil {
				change(t, fs, "data/"+formatFile, c.format)
			}
			if c.identity != nil {
				change(t, fs, "data/"+identityFile, c.identity)
			}
			o := Options{Dir: "data", FS: fs, DamagedDir: "damaged"}
			r, err := Examine(ctx, o)
			check(t, err)
			if len(r.Findings) == 0 || r.Starts != c.starts {
				t.Errorf("starts %v, want %v; findings %+v", r.Starts, c.starts, r.Findings)
			}
			if s, err := Open(ctx, Options{Dir: "data", FS: clone(t, fs), DamagedDir: "damaged"}); (err == nil) != c.starts {
				t.Errorf("a start ends with %v", err)
			} else if err == nil {
				check(t, s.Close())
			}
			if r, err = Repair(ctx, o); err != nil || len(r.Findings) > 0 {
				t.Fatalf("repaired: %+v %v", r, err)
			}
			got, err := readWhole(fs, "data/"+identityFile)
			if err != nil || strings.Fields(string(got))[4] != strings.Fields(string(id))[4] {
				t.Errorf("identity %s %v, was %s", got, err, id)
			}
			if got := dump(t, fs); len(got) != len(want) {
				t.Errorf("%d keys, want %d", len(got), len(want))
			}
		})
	}
	fs := vfs.NewMem() // what is not known to be a store is still refused
	check(t, fs.MkdirAll("data", 0o700))
	check(t, writeWhole(fs, "data/"+formatFile, []byte("tailscope pebblestore 9\n")))
	if _, err := Examine(ctx, Options{Dir: "data", FS: fs}); err == nil || !strings.Contains(err.Error(), store.ErrVersion.Error()) {
		t.Errorf("a directory of another version: %v", err)
	}
}
