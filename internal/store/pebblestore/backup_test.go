package pebblestore

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// A backup that is made while a store is written to, flushed and compacted
// holds what was acknowledged before it began, whole, and a second one copies
// only what is new.
func TestBackupUnderLoad(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	put := func(g uint64) {
		check(t, s.Put(ctx, batch(g, t0+int64(g)*300, 5)))
	}
	g := uint64(0)
	for g < 5 {
		g++
		put(g)
	}
	check(t, s.db.Flush())
	done, stop := make(chan uint64), make(chan struct{})
	go func() {
		n := g
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			n++
			put(n)
			if n%4 == 0 {
				_ = s.db.Flush()
			}
			if n%40 == 0 {
				_ = s.Compact(ctx)
			}
		}
	}()
	var have []BackupFile
	backUp := func(run int) []BackupFile {
		files, err := Backup(ctx, fs, "data", BackupTo{Dir: "kept", Part: "store", Run: fmt.Sprint("run", run), Have: have})
		check(t, err)
		return files
	}
	for round := range 5 {
		acknowledged, err := s.Flushed(ctx, "w")
		check(t, err)
		before := have
		have = backUp(round)
		for _, f := range slices.Concat(before, have) { // the backup before is whole too
			got, err := Sum(fs, "kept/"+f.Path())
			if err != nil || got.SHA256 != f.SHA256 || !maps.Equal(got.Keys, f.Keys) {
				t.Fatalf("%s: got %+v %v, listed %+v", f.Name, got, err, f)
			}
		}
		back := vfs.NewMem()
		check(t, back.MkdirAll("store", 0o700))
		for _, f := range have {
			if _, err := vfs.Clone(fs, back, "kept/"+f.Path(), f.Name); err != nil {
				t.Fatal(err)
			}
		}
		r := open(t, Options{FS: back, Dir: "store"})
		flushed, err := r.Flushed(ctx, "w")
		check(t, err)
		if flushed < acknowledged {
			t.Errorf("round %d: the backup has generation %d, %d was acknowledged before it", round, flushed, acknowledged)
		}
		if n := count(t, r, store.Query{Start: t0, End: t0 + 86400*30}); n != 15*flushed {
			t.Errorf("round %d: count %d with %d generations", round, n, flushed)
		}
		if d := r.Damage(); len(d) != 0 {
			t.Errorf("round %d: damage %+v", round, d)
		}
		check(t, r.Close())
	}
	close(stop)
	<-done
	check(t, s.Close())

	// At rest: the second backup copies no table, and a damaged one is named.
	have = backUp(5)
	var table BackupFile
	for _, f := range have {
		if f.Keys != nil {
			table = f
		}
	}
	path := "kept/" + table.Path()
	before, err := fs.Stat(path)
	check(t, err)
	backUp(6)
	if after, err := fs.Stat(path); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("table %s was copied again", table.Name)
	}
	change(t, fs, path, flipAt(func(n int) int { return n / 2 }))
	if got, err := Sum(fs, path); got.SHA256 == table.SHA256 || err != nil && !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a flipped byte: %+v %v", got, err)
	}

	// A table that another one has taken the name of stays beside it.
	change(t, fs, path, flipAt(func(n int) int { return n - 1 }))
	damaged, err := Sum(fs, path)
	if err == nil {
		t.Fatal("a table without its magic decodes")
	}
	for _, f := range backUp(7) {
		if f.Name == table.Name && (f.Path() == table.Path() || f.SHA256 != table.SHA256) {
			t.Errorf("%+v took the place of %+v", f, table)
		}
	}
	if got, _ := Sum(fs, path); got.SHA256 != damaged.SHA256 {
		t.Error("a file of the backup before was changed")
	}
	if _, err := Backup(ctx, fs, "nothing", BackupTo{Dir: "kept2", Part: "store", Run: "run"}); err == nil {
		t.Error("a directory without a store was backed up")
	}
}

func TestIdentify(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, s.Close())
	id, err := Identify(fs, "data")
	if err != nil || len(id) != 16 {
		t.Errorf("got %q %v", id, err)
	}
	if err := NeverOpened(fs, "data"); !errors.Is(err, ErrOpened) {
		t.Errorf("a store that was open: %v", err)
	}
	check(t, fs.Remove("data/"+identityFile))
	if id, err := Identify(fs, "data"); id != "" || err != nil {
		t.Errorf("without an identity: %q %v", id, err)
	}
	if _, err := Identify(fs, "none"); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	check(t, fs.Remove("data/"+files(t, fs, "data", "marker.manifest.", "")[0]))
	if _, err := Identify(fs, "data"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("without a marker: %v", err)
	}
}

// A table of a store that is numbered anew is not taken for one of the backup before, however
// alike the two are, and leaves that as it is.
func TestBackupAnew(t *testing.T) {
	ctx, fs := t.Context(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	check(t, s.db.Flush())
	check(t, s.Close())
	var have []BackupFile
	for run, want := range []bool{false, true} {
		to := BackupTo{Dir: "kept", Part: "store", Run: fmt.Sprint("run", run), Have: have, Anew: want}
		files, err := Backup(ctx, fs, "data", to)
		check(t, err)
		tables := 0
		for _, f := range files {
			if f.Keys == nil {
				continue
			}
			tables++
			if got := f.Path() != f.Name; got != want {
				t.Errorf("run %d: %s lies at %s", run, f.Name, f.Path())
			}
			if sum, err := Sum(fs, "kept/"+f.Path()); err != nil || sum.SHA256 != f.SHA256 {
				t.Errorf("run %d: %s: %v", run, f.Path(), err)
			}
		}
		if tables == 0 {
			t.Fatal("the backup has no table")
		}
		have = files
	}
}
