package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/store"
)

// lived is a store that was put to, compacted, rolled up and deleted from, with
// some of it in tables of several levels and some in the log alone.
func lived(t *testing.T) vfs.FS {
	t.Helper()
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	for g := uint64(1); g <= 12; g++ {
		check(t, s.Put(ctx, batch(g, t0+int64(g)*300, 5)))
		check(t, store.PutMark(ctx, s, store.Mark{ID: fmt.Sprint("m", g), Time: time.Unix(t0, 0), Name: "deploy"}))
		check(t, s.PutTraces(ctx, []store.Trace{keptTrace(int(g), t0+int64(g)*300, time.Second)}))
		switch g {
		case 3, 6:
			check(t, s.db.Flush())
		case 8:
			check(t, s.Maintain(ctx, time.Unix(t0+int64(g)*300+3600, 0)))
			check(t, store.DeleteMark(ctx, s, "m2"))
			check(t, s.db.Flush())
		}
	}
	check(t, s.Close())
	return fs
}

// dump lists every key and value of a store.
func dump(t *testing.T, fs vfs.FS) map[string]string {
	t.Helper()
	s := open(t, Options{FS: fs})
	defer s.Close()
	out := map[string]string{}
	check(t, s.each([]byte{0}, func(k, v []byte) error { out[string(k)] = string(v); return nil }))
	for prefix := byte(1); prefix < 0x40; prefix++ {
		check(t, s.each([]byte{prefix}, func(k, v []byte) error { out[string(k)] = string(v); return nil }))
	}
	return out
}

func clone(t *testing.T, from vfs.FS) vfs.FS {
	t.Helper()
	to := vfs.NewMem()
	if _, err := vfs.Clone(from, to, "data", "data"); err != nil {
		t.Fatal(err)
	}
	return to
}

// A store whose manifest or marker is lost is put in order with every key it
// had, and none that was deleted.
func TestRepairLostManifest(t *testing.T) {
	ctx := context.Background()
	whole := lived(t)
	want := dump(t, clone(t, whole))
	for name, how := range map[string]func(fs vfs.FS, manifest string){
		"marker gone":   func(fs vfs.FS, _ string) { check(t, fs.Remove("data/"+files(t, fs, "data", "marker.manifest", "")[0])) },
		"manifest gone": func(fs vfs.FS, m string) { check(t, fs.Remove(m)) },
		"flipped":       func(fs vfs.FS, m string) { change(t, fs, m, flipAt(func(n int) int { return n / 2 })) },
		"all lists gone": func(fs vfs.FS, m string) {
			for _, p := range []string{"marker", "MANIFEST", "OPTIONS"} {
				for _, n := range files(t, fs, "data", p, "") {
					check(t, fs.Remove("data/"+n))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := clone(t, whole)
			how(fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0])
			o := Options{Dir: "data", FS: fs, DamagedDir: "damaged", MemtableBytes: 1 << 20}
			before := files(t, fs, "data", "", "")
			r, err := Examine(ctx, o)
			check(t, err)
			if r.Starts || len(r.Findings) == 0 || r.Findings[0].Repair == "" || r.ID == "" {
				t.Fatalf("examined: %+v", r)
			}
			if after := files(t, fs, "data", "", ""); strings.Join(before, " ") != strings.Join(after, " ") {
				t.Errorf("examining changed the files:\n%q\n%q", before, after)
			}
			r, err = Repair(ctx, o)
			check(t, err)
			if !r.Starts || len(r.Findings) != 0 {
				t.Errorf("after the repair: %+v", r)
			}
			got := dump(t, fs)
			for k, v := range want {
				if g, ok := got[k]; !ok || g != v {
					t.Errorf("key %x: got %x, want %x", k, g, v)
				}
			}
			for k := range got {
				if _, ok := want[k]; !ok {
					t.Errorf("key %x was deleted and is back", k)
				}
			}
		})
	}
}

// A block that is damaged costs what is in it; the repair keeps everything before and behind.
func TestRepairDamagedBlock(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	putManyMarks(t, s)
	check(t, errors.Join(s.db.Flush(), s.Close()))
	for _, n := range append(files(t, fs, "data", "", ".log"), logsFile) { // they hold it too
		check(t, fs.Remove("data/"+n))
	}
	tables := files(t, fs, "data", "", ".sst")
	change(t, fs, "data/"+tables[len(tables)-1], flipAt(func(n int) int { return n / 3 }))
	o := Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20}
	r, err := Examine(ctx, o)
	check(t, err)
	if len(r.Findings) != 1 || !r.Starts || !strings.Contains(r.Findings[0].Reason, "checksum") {
		t.Fatalf("examined: %+v", r)
	}
	r, err = Repair(ctx, o)
	check(t, err)
	if len(r.Findings) != 0 {
		t.Errorf("after the repair: %+v", r)
	}
	s = open(t, Options{FS: fs})
	defer s.Close()
	all, err := store.Marks(ctx, s, time.Unix(-1, 0), time.Unix(5000, 0))
	check(t, err)
	if len(all) < 2500 || len(all) == 4000 || all[len(all)-1].ID != "m3999" || all[0].ID != "m0" {
		t.Errorf("%d marks of 4000, from %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
	}
	if kept := files(t, fs, "data/damaged", "", ".sst"); len(kept) == 0 {
		t.Error("the damaged table was not kept")
	}
}

// An identity file of another store is found where a start is refused, and repaired.
func TestRepairForeignIdentity(t *testing.T) {
	ctx := context.Background()
	for name, fs := range map[string]vfs.FS{"id in the log": filled(t), "id in a table": twoTables(t)} {
		own, err := readWhole(fs, "data/"+identityFile)
		check(t, err)
		check(t, writeWhole(fs, "data/"+identityFile, newIdentity(time.Unix(0, 0)).encode()))
		o := Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20}
		r, err := Examine(ctx, o)
		check(t, err)
		if r.Starts || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Reason, "another store") || r.Findings[0].Repair == "" {
			t.Errorf("%s: examined %+v", name, r)
		}
		r, err = Repair(ctx, o)
		check(t, err)
		i, err := decodeIdentity(own)
		check(t, err)
		if !r.Starts || len(r.Findings) != 0 || r.ID != fmt.Sprintf("%016x", i.id) {
			t.Errorf("%s: after the repair %+v, want id %016x", name, r, i.id)
		}
	}
}

// A repair that is interrupted at any write is refused by a start, and ended by the next repair.
func TestRepairInterrupted(t *testing.T) {
	ctx := context.Background()
	whole := lived(t)
	want := dump(t, clone(t, whole))
	check(t, whole.Remove("data/"+files(t, whole, "data", "MANIFEST-", "")[0]))
	for after := 1; after < 60; after++ {
		fs := clone(t, whole)
		stop := errorsAfter(fs, after)
		_, err := Repair(ctx, Options{Dir: "data", FS: stop, DamagedDir: "damaged", MemtableBytes: 1 << 20})
		if err == nil {
			break
		}
		if s, err := Open(ctx, Options{Dir: "data", FS: fs, DamagedDir: "damaged"}); err == nil {
			check(t, s.Close())
		} else if !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("after %d: %v", after, err)
		}
		if _, err := Repair(ctx, Options{Dir: "data", FS: fs, DamagedDir: "damaged", MemtableBytes: 1 << 20}); err != nil {
			t.Fatalf("after %d: second repair: %v", after, err)
		}
		if got := dump(t, fs); len(got) != len(want) {
			t.Fatalf("after %d: %d keys, want %d", after, len(got), len(want))
		}
	}
}

// errorsAfter fails every rename that a repair makes in the directory, from the
// nth on. Pebble's own would end the process.
func errorsAfter(fs vfs.FS, n int) vfs.FS {
	var seen atomic.Int64
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		name := fs.PathBase(op.Path)
		if op.Kind == errorfs.OpRename && (isPebbles(name) || strings.HasPrefix(name, rebuiltMark)) && seen.Add(1) >= int64(n) {
			return errors.New("injected")
		}
		return nil
	}))
}
