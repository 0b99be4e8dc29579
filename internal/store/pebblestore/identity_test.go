package pebblestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// filled is a store in memory with points in tables and in the log, and marks.
func filled(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	for g := range int64(3) {
		check(t, s.Put(context.Background(), batch(uint64(g+1), t0+g*600, 5)))
		if g < 2 {
			check(t, s.db.Flush())
		}
	}
	check(t, store.PutMark(context.Background(), s, store.Mark{ID: "a", Name: "deploy"}))
	check(t, s.Close())
	return fs
}

func files(t *testing.T, fs vfs.FS, dir, prefix, suffix string) []string {
	t.Helper()
	names, err := fs.List(dir)
	check(t, err)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) || !strings.HasSuffix(n, suffix) })
	slices.Sort(names)
	return names
}

// A directory with data and without the marker that names the list of its
// tables is refused, and nothing in it changes.
func TestNoEmptyStartOverData(t *testing.T) {
	for name, remove := range map[string][]string{
		"marker":                       {"marker.manifest"},
		"marker and manifest":          {"marker.manifest", "MANIFEST-"},
		"marker and identity":          {"marker.manifest", "IDENTITY"},
		"manifest":                     {"MANIFEST-"},
		"all but identity and format":  {"marker", "MANIFEST-", "0", "OPTIONS"},
		"marker, manifest, all tables": {"marker.manifest", "MANIFEST-", "IDENTITY", "000004.sst", "000005.sst", "000006.sst"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := filled(t)
			for _, p := range remove {
				for _, n := range files(t, fs, "data", p, "") {
					check(t, fs.Remove("data/"+n))
				}
			}
			before := files(t, fs, "data", "", "")
			_, err := Open(context.Background(), Options{Dir: "data", FS: fs})
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "tailscope doctor") {
				t.Fatalf("got %v, want ErrCorrupt and the next step", err)
			}
			if after := files(t, fs, "data", "", ""); !slices.Equal(before, after) {
				t.Errorf("files before %q\nfiles after %q", before, after)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	fs := filled(t)
	read := func(fs vfs.FS) identity {
		t.Helper()
		b, err := readWhole(fs, "data/IDENTITY")
		check(t, err)
		i, err := decodeIdentity(b)
		check(t, err)
		return i
	}
	first := read(fs)
	if first.id == 0 || first.created.IsZero() {
		t.Fatalf("got %+v", first)
	}
	// One from before is taken over, and one that was lost is written again.
	check(t, fs.Remove("data/IDENTITY"))
	check(t, open(t, Options{FS: fs}).Close())
	if i := read(fs); i.id != first.id {
		t.Errorf("got id %x, want %x", i.id, first.id)
	}
	// One that is damaged is kept aside.
	check(t, writeWhole(fs, "data/IDENTITY", []byte(strings.Replace(string(first.encode()), "id ", "id 1", 1))))
	s := open(t, Options{FS: fs})
	if d := s.Damage(); len(d) != 1 || d[0].File != "data/damaged/IDENTITY" || d[0].Lost != "" {
		t.Errorf("damage: %+v", d)
	}
	check(t, s.Close())
	// One of another store is refused.
	check(t, fs.Rename("data/IDENTITY", "old"))
	check(t, writeWhole(fs, "data/IDENTITY", newIdentity(first.created).encode()))
	if _, err := Open(context.Background(), Options{Dir: "data", FS: fs}); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "two stores") {
		t.Errorf("got %v, want a refusal", err)
	}
	// A format file that is damaged or gone is written again: the identity says the format.
	check(t, fs.Rename("old", "data/IDENTITY"))
	check(t, writeWhole(fs, "data/FORMAT", []byte("tailscope pebblestore q\n")))
	check(t, open(t, Options{FS: fs}).Close())
	check(t, fs.Remove("data/FORMAT"))
	check(t, open(t, Options{FS: fs}).Close())
	if b, err := readWhole(fs, "data/FORMAT"); err != nil || string(b) != formatContent {
		t.Errorf("got %q, %v", b, err)
	}
}

// Whatever point the creation of a store ends at, the next start goes on.
func TestCreationThatDidNotEnd(t *testing.T) {
	for _, gone := range [][]string{{"marker", "IDENTITY", "0", "OPTIONS"}, {"IDENTITY", "0", "OPTIONS"}, {"IDENTITY"}} {
		fs := vfs.NewMem()
		check(t, open(t, Options{FS: fs}).Close())
		if len(gone) == 1 {
			check(t, fs.Remove("data/IDENTITY"))
		} else {
			fs = vfs.NewMem()
			check(t, fs.MkdirAll("data", 0o700))
			check(t, writeWhole(fs, "data/FORMAT", []byte(formatContent)))
			check(t, writeWhole(fs, "data/MANIFEST-000001", nil))
		}
		s := open(t, Options{FS: fs})
		if d := s.Damage(); len(d) != 0 {
			t.Errorf("without %q: damage %+v", gone, d)
		}
		check(t, s.Close())
	}
}

// Everything in the directory is readable by its owner only, also what an
// older version left readable by everybody.
func TestOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "store")
	s := open(t, Options{FS: vfs.Default, Dir: dir})
	check(t, s.Put(context.Background(), batch(1, t0, 5)))
	check(t, s.db.Flush())
	check(t, s.Close())
	check(t, os.Chmod(dir, 0o755))
	check(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			err = os.Chmod(path, 0o644)
		}
		return err
	}))
	check(t, writeWhole(vfs.Default, filepath.Join(dir, "IDENTITY"), []byte("garbage")))
	s = open(t, Options{FS: vfs.Default, Dir: dir})
	check(t, s.Put(context.Background(), batch(2, t0, 5)))
	check(t, s.db.Flush())
	check(t, s.Close())
	seen := 0
	check(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		seen++
		return err
	}))
	if seen < 8 {
		t.Errorf("only %d files", seen)
	}
}

// The name under which a directory's server writes stays what it is, whatever is
// lost of the identity, and doctor knows the same one.
func TestOwnWriter(t *testing.T) {
	w := func(points bool) *writer { return &writer{points: points} }
	for _, c := range []struct {
		name    string
		writers map[string]*writer
		want    string
	}{
		{"new", nil, "00000000000000ab"},
		{"its own", map[string]*writer{"00000000000000ab": w(true), "00000000000000cd": w(true)}, "00000000000000ab"},
		{"an older version's", map[string]*writer{"local": w(true), "checks": w(false)}, "local"},
		{"an older version's, which did not say whether of points", map[string]*writer{"local": w(false)}, "local"},
		{"records of an older version alone", map[string]*writer{"checks": w(false)}, "00000000000000ab"},
		{"the id was made anew", map[string]*writer{"00000000000000cd": w(true), "bench": w(true)}, "00000000000000cd"},
		{"others", map[string]*writer{"bench": w(true), "00000000000000xy": w(true)}, "00000000000000ab"},
	} {
		if got := ownWriter(0xab, c.writers); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}

	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	name := s.Writer()
	b := batch(1, t0, 3)
	b.Writer = name
	check(t, s.Put(ctx, b))
	check(t, s.db.Delete(metaIdentity, pebble.Sync))
	check(t, s.Close())
	same := func(what string) {
		t.Helper()
		r, err := OpenWriters(ctx, Options{Dir: "data", FS: fs})
		check(t, err)
		if r.Own() != name {
			t.Errorf("%s: doctor says %q, want %q", what, r.Own(), name)
		}
		check(t, r.Close())
		s := open(t, Options{FS: fs})
		if s.Writer() != name {
			t.Errorf("%s: %q, want %q", what, s.Writer(), name)
		}
		check(t, s.db.Delete(metaIdentity, pebble.Sync))
		check(t, s.Close())
	}
	same("the tables lost the id")
	check(t, fs.Remove("data/"+identityFile))
	same("the tables and the file lost the id")
	same("once there is a new id")
}
