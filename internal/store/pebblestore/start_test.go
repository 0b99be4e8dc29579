package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/store"
)

// change overwrites, cuts or removes a file.
func change(t *testing.T, fs vfs.FS, path string, how func(b []byte) []byte) {
	t.Helper()
	b, err := readWhole(fs, path)
	check(t, err)
	if b = how(slices.Clone(b)); b == nil {
		check(t, fs.Remove(path))
		return
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	check(t, err)
	_, err = f.Write(b)
	check(t, errors.Join(err, f.Sync(), f.Close()))
}

func flipAt(at func(n int) int) func([]byte) []byte {
	return func(b []byte) []byte { b[at(len(b))] ^= 0x10; return b }
}

// twoTables is a store with the points of an hour in each of two tables. What
// questions ask for in the second hour is in the second table alone.
func twoTables(t *testing.T) vfs.FS {
	t.Helper()
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, store.PutMark(ctx, s, store.Mark{ID: "m", Name: "deploy"}))
	for g := range uint64(2) {
		check(t, s.Put(ctx, batch(g+1, t0+int64(g)*86400, 5)))
		check(t, s.db.Flush())
		if g == 0 { // the first goes below
			check(t, s.Compact(ctx))
		}
	}
	check(t, s.Close())
	return fs
}

// Each damage to a table costs its own range: the store starts, answers the
// rest, and says what is lost. Nothing is deleted.
func TestStartWithDamagedTable(t *testing.T) {
	for _, c := range []struct {
		name    string
		how     func([]byte) []byte
		missing bool
	}{
		{"footer flipped", flipAt(func(n int) int { return n - 20 }), false},
		{"magic flipped", flipAt(func(n int) int { return n - 3 }), false},
		{"cut short", func(b []byte) []byte { return b[:len(b)/2] }, false},
		{"empty", func(b []byte) []byte { return b[:0:0] }, false},
		{"every byte overwritten", func(b []byte) []byte { return slices.Repeat([]byte{0xa5}, len(b)) }, false},
		{"first block flipped", flipAt(func(int) int { return 20 }), false},
		{"missing", func([]byte) []byte { return nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, fs := context.Background(), twoTables(t)
			tables := files(t, fs, "data", "", ".sst")
			if len(tables) < 2 {
				t.Fatalf("%d tables, want 2", len(tables))
			}
			newest := tables[len(tables)-1]
			change(t, fs, "data/"+newest, c.how)
			damaged, _ := readWhole(fs, "data/"+newest)
			var log syncBuffer
			s := open(t, Options{FS: fs, DamagedDir: "damaged", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			defer s.Close()
			d := s.Damage()
			if len(d) != 1 || d[0].Part != "store" || d[0].Reason == "" || d[0].Found.IsZero() ||
				!strings.Contains(d[0].Lost, "slots of 10s") || d[0].Observations != -1 {
				t.Fatalf("damage: %+v", d)
			}
			if n := len(s.Damage()); n != 1 {
				t.Errorf("%d damaged files, want 1", n)
			}
			if c.missing {
				if d[0].File != "data/"+newest {
					t.Errorf("got file %s", d[0].File)
				}
			} else if b, err := readWhole(fs, "damaged/"+newest); err != nil || d[0].File != "damaged/"+newest || string(b) != string(damaged) {
				t.Errorf("the table is not as it was at %s: %v", d[0].File, err)
			} else if why, err := readWhole(fs, "damaged/"+newest+".json"); err != nil || !strings.Contains(string(why), "slots of 10s") {
				t.Errorf("beside it: %s %v", why, err)
			}
			if m := log.String(); !strings.Contains(m, "is damaged") || !strings.Contains(m, newest) {
				t.Errorf("logged:\n%s", m)
			}
			if n := count(t, s, store.Query{Start: t0, End: t0 + 3600}); n != 15 {
				t.Errorf("the intact table: got count %d, want 15", n)
			}
			if n := count(t, s, store.Query{Start: t0 + 86400, End: t0 + 86400 + 3600}); n != 0 {
				t.Errorf("the damaged table: got count %d, want 0", n)
			}
			check(t, s.Put(ctx, batch(3, t0+2*86400, 5)))
			if n := count(t, s, store.Query{Start: t0 + 2*86400, End: t0 + 2*86400 + 3600}); n != 15 {
				t.Errorf("what was put since: got count %d, want 15", n)
			}
			// The next start finds nothing more.
			check(t, s.Close())
			s = open(t, Options{FS: fs, DamagedDir: "damaged"})
			if d := s.Damage(); len(d) != 0 {
				t.Errorf("damage at the next start: %+v", d)
			}
			check(t, s.Close())
		})
	}
}

// A manifest that does not say which tables count is refused, and nothing changes.
func TestStartWithDamagedManifest(t *testing.T) {
	for name, how := range map[string]func([]byte) []byte{
		"first record":  flipAt(func(int) int { return 10 }),
		"in its middle": flipAt(func(n int) int { return n / 2 }),
		"empty":         func(b []byte) []byte { return b[:0:0] },
		"missing":       func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			fs := twoTables(t)
			change(t, fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0], how)
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

// Wherever a manifest is cut or damaged, the start is refused or everything is answered.
func TestManifestDamagedAnywhere(t *testing.T) {
	whole := twoTables(t)
	name := files(t, whole, "data", "MANIFEST-", "")[0]
	b, err := readWhole(whole, "data/"+name)
	check(t, err)
	refused, answered := 0, 0
	for at := 1; at < len(b); at += 7 {
		for _, how := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:at] },
			flipAt(func(int) int { return at }),
		} {
			fs := vfs.NewMem()
			if _, err := vfs.Clone(whole, fs, "data", "data"); err != nil {
				t.Fatal(err)
			}
			change(t, fs, "data/"+name, how)
			s, err := Open(context.Background(), Options{Dir: "data", FS: fs})
			if err != nil {
				refused++
				if after := files(t, fs, "data", "", ".sst"); len(after) != len(files(t, whole, "data", "", ".sst")) {
					t.Fatalf("at %d: refused, and tables went: %q", at, after)
				}
				continue
			}
			answered++
			if n := count(t, s, store.Query{Start: t0, End: t0 + 2*86400}); n != 30 {
				t.Fatalf("at %d of %d: count %d, want 30, damage %+v", at, len(b), n, s.Damage())
			}
			check(t, s.Close())
		}
	}
	if refused == 0 || answered == 0 {
		t.Errorf("%d refused, %d answered", refused, answered)
	}
}

// A start that is killed may leave a manifest with a torn end and no log: Pebble
// puts the writes of the logs into tables and deletes the logs, and a compaction
// may write its edit before the next log is there.
func TestKilledStartWithoutLog(t *testing.T) {
	fs := twoTables(t)
	for _, name := range files(t, fs, "data", "", ".log") {
		check(t, fs.Remove("data/"+name))
	}
	manifests := files(t, fs, "data", "MANIFEST-", "")
	change(t, fs, "data/"+manifests[len(manifests)-1], func(b []byte) []byte {
		tables := recordsOf(t, binary.AppendUvarint([]byte{editLogNumber}, 100))
		return append(b, append(tables, recordsOf(t, make([]byte, 100))[:50]...)...)
	})
	s := open(t, Options{FS: fs})
	defer s.Close()
	if d := s.Damage(); len(d) != 0 {
		t.Errorf("damage: %+v", d)
	}
	if n := count(t, s, store.Query{Start: t0, End: t0 + 2*86400}); n != 30 {
		t.Errorf("count %d, want 30", n)
	}
}

// recordsOf is the content of a file of records.
func recordsOf(t *testing.T, payloads ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := record.NewWriter(&b)
	for _, p := range payloads {
		_, err := w.WriteRecord(p)
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

// A manifest that has lost the edit of the newest table is refused, also if the
// edit before was written when the writes of that table had been given their
// numbers already.
func TestManifestWithoutItsLastEdit(t *testing.T) {
	fs := twoTables(t)
	path := "data/" + files(t, fs, "data", "MANIFEST-", "")[0]
	m, err := readManifest(fs, path)
	check(t, err)
	tables := m.sorted()
	newest := tables[len(tables)-1]
	change(t, fs, path, func([]byte) []byte {
		edits := slices.Clone(m.edits[:len(m.edits)-1])
		edits = append(edits, binary.AppendUvarint([]byte{editLastSeq}, newest.maxSeq))
		return recordsOf(t, edits...)
	})
	check(t, fs.Remove("data/"+files(t, fs, "data", "", ".log")[0])) // Pebble keeps it to use it again
	_, err = Open(context.Background(), Options{Dir: "data", FS: fs})
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "does not list "+newest.name()) {
		t.Errorf("got %v, want ErrCorrupt for %s", err, newest.name())
	}
}

// The manifest is read as Pebble reads it.
func TestReadManifest(t *testing.T) {
	fs := twoTables(t)
	s := open(t, Options{FS: fs})
	defer s.Close()
	m, err := readManifest(fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0])
	check(t, err)
	levels, err := s.db.SSTables()
	check(t, err)
	want := 0
	for level, tables := range levels {
		for _, info := range tables {
			want++
			got := m.tables[uint64(info.FileNum)]
			if got == nil || got.level != uint64(level) || got.size != int64(info.Size) ||
				string(got.keys.from) != string(info.Smallest.UserKey) || string(got.keys.to) != string(info.Largest.UserKey) {
				t.Errorf("table %d: got %+v, want level %d %+v", info.FileNum, got, level, info)
			}
		}
	}
	if len(m.tables) != want || want < 2 || m.torn >= 0 || m.damaged || m.minLog == 0 {
		t.Errorf("got %d tables, want %d: %+v", len(m.tables), want, m)
	}
}

// Points whose labels lie in a lost table count on, new series do not take
// their place, and writing goes on on the same day.
func TestLabelsInALostTable(t *testing.T) {
	ctx := context.Background()
	for name, last := range map[string]bool{"newer labels follow": false, "none follow": true} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := open(t, Options{FS: fs})
			put := func(g uint64) { check(t, s.Put(ctx, batch(g, t0+int64(g)*300, 5))) }
			put(1)
			check(t, s.db.Flush())
			check(t, s.Compact(ctx))
			put(2) // a new tenant
			check(t, s.db.Flush())
			lost := files(t, fs, "data", "", ".sst")
			if !last {
				put(3) // another
			}
			put(7) // the tenant of 2 again, in the log
			check(t, s.Close())
			change(t, fs, "data/"+lost[len(lost)-1], func([]byte) []byte { return nil })
			s = open(t, Options{FS: fs})
			defer s.Close()
			if d := s.Damage(); len(d) != 1 {
				t.Fatalf("damage: %+v", d)
			}
			want := uint64(30)
			if !last {
				want += 15
			}
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != want {
				t.Errorf("count %d, want %d", n, want)
			}
			put(8)
			put(9)
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != want+30 {
				t.Errorf("count %d with two generations more, want %d", n, want+30)
			}
			for _, tenant := range []string{"t3", "t4"} {
				m := labels.MustNewMatcher(labels.MatchEqual, "tenant", tenant)
				most := uint64(10)
				if tenant == "t3" && !last {
					most = 20
				}
				if n := count(t, s, store.Query{Start: t0, End: t0 + 86400, Matchers: []*labels.Matcher{m}}); n != most {
					t.Errorf("tenant %s: count %d, want %d: it has taken another's points", tenant, n, most)
				}
			}
			check(t, s.Maintain(ctx, time.Unix(t0+2*86400, 0)))
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != want+30 {
				t.Errorf("count %d after compaction, want %d", n, want+30)
			}
		})
	}
}

// Files that say nothing of the data cost nothing.
func TestOptionsAndFormatMarker(t *testing.T) {
	fs := twoTables(t)
	options := files(t, fs, "data", "OPTIONS-", "")
	change(t, fs, "data/"+options[len(options)-1], func([]byte) []byte { return []byte("[Options\ncomparer=other\n") })
	check(t, fs.Remove("data/"+files(t, fs, "data", "marker.format-version", "")[0]))
	s := open(t, Options{FS: fs})
	defer s.Close()
	if d := s.Damage(); len(d) != 2 || d[0].Lost != "" || d[1].Lost != "" {
		t.Errorf("damage: %+v", d)
	}
	if n := count(t, s, store.Query{Start: t0, End: t0 + 2*86400}); n != 30 {
		t.Errorf("count %d, want 30", n)
	}
}
