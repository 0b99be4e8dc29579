package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// threeLogs is a store that was killed with generations 1 to 3 of one writer,
// and marks, in a log each, and nothing in tables.
func threeLogs(t *testing.T) vfs.FS {
	t.Helper()
	ctx, mem := context.Background(), vfs.NewCrashableMem()
	s := open(t, Options{FS: mem, MemtableBytes: 64 << 20})
	var logs []string
	for g := uint64(1); g <= 3; g++ {
		check(t, s.Put(ctx, batch(g, t0+int64(g)*600, 5)))
		check(t, store.PutMark(ctx, s, store.Mark{ID: fmt.Sprint("m", g), Name: "deploy"}))
		all := files(t, mem, "data", "", ".log")
		logs = append(logs, all[len(all)-1])
		if g == 3 {
			break
		}
		// The log is put by, as if it were not in tables yet.
		b, err := readWhole(mem, "data/"+logs[g-1])
		check(t, err)
		check(t, s.db.Flush())
		check(t, mem.MkdirAll("by", 0o700))
		check(t, writeWhole(mem, "by/"+logs[g-1], b))
	}
	fs := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	check(t, s.Close())
	for _, n := range logs[:2] {
		b, err := readWhole(mem, "by/"+n)
		check(t, err)
		check(t, writeWhole(fs, "data/"+n, b))
	}
	// The manifest is as it was before the flushes, and so are the tables.
	change(t, fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0], func(b []byte) []byte {
		return b[:readRecords(b, 0).list[0].end]
	})
	for _, n := range files(t, fs, "data", "", ".sst") {
		check(t, fs.Remove("data/"+n))
	}
	return fs
}

// A log that is missing as a whole is named, and no generation behind it counts
// as stored.
func TestMissingLog(t *testing.T) {
	for _, c := range []struct {
		name    string
		without []int // logs that are removed
		unknown bool  // and the file of logs too
		flushed uint64
		marks   int
		said    string
	}{
		{"none", nil, false, 3, 3, ""},
		{"the first", []int{0}, false, 0, 2, `generations 2 to 3 of writer "w"`},
		{"the middle one", []int{1}, false, 1, 2, `generations 3 to 3 of writer "w"`},
		{"the last", []int{2}, false, 2, 2, "gone"},
		{"all", []int{0, 1, 2}, false, 0, 0, "gone"},
		{"the first, not listed", []int{0}, true, 0, 2, `generations 2 to 3 of writer "w"`},
		{"the middle one, not listed", []int{1}, true, 1, 2, `generations 3 to 3 of writer "w"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, fs := context.Background(), threeLogs(t)
			logs := files(t, fs, "data", "", ".log")
			for _, i := range c.without {
				check(t, fs.Remove("data/"+logs[i]))
			}
			if c.unknown {
				check(t, fs.Remove("data/"+logsFile))
			}
			r, err := Examine(ctx, Options{Dir: "data", FS: fs})
			check(t, err)
			if (len(r.Findings) > 0) != (c.said != "") {
				t.Errorf("examined: %+v", r.Findings)
			}
			s := open(t, Options{FS: fs})
			defer s.Close()
			if g, err := s.Flushed(ctx, "w"); err != nil || g != c.flushed {
				t.Errorf("flushed %d %v, want %d", g, err, c.flushed)
			}
			marks, err := store.Marks(ctx, s, epoch.AddDate(-9000, 0, 0), epoch.AddDate(9000, 0, 0))
			check(t, err)
			if len(marks) != c.marks {
				t.Errorf("%d marks, want %d", len(marks), c.marks)
			}
			d := s.Damage()
			if c.said == "" && len(d) != 0 || c.said != "" && (len(d) != 1 || !strings.Contains(d[0].Lost, c.said)) {
				t.Fatalf("damage: %+v, want %q", d, c.said)
			}
			if c.said != "" && !c.unknown && !strings.Contains(d[0].File, logs[c.without[0]]) {
				t.Errorf("damage of %s, want %s", d[0].File, logs[c.without[0]])
			}
		})
	}
}

// A manifest that has lost an edit is known by the log whose writes the edit
// had put into a table, whatever Pebble has left of the numbers of these.
func TestLostEditOfZeroedTable(t *testing.T) {
	for _, listed := range []bool{true, false} {
		ctx, mem := context.Background(), vfs.NewCrashableMem()
		s := open(t, Options{FS: mem})
		for g := range uint64(2) {
			check(t, s.Put(ctx, batch(g+1, t0+int64(g)*600, 5)))
			check(t, s.db.Flush())
		}
		check(t, s.Compact(ctx))
		check(t, s.Put(ctx, batch(3, t0+1200, 5)))
		fs := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		check(t, s.Close())
		if !listed {
			check(t, fs.Remove("data/"+logsFile))
		}
		tables := files(t, fs, "data", "", ".sst")
		table := tables[len(tables)-1]
		if n, err := highestSeq(fs, "data/"+table); err != nil || n != 0 {
			t.Fatalf("the table's writes have numbers up to %d, %v: this tests nothing", n, err)
		}
		change(t, fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0], func(b []byte) []byte {
			return b[:readRecords(b, 0).list[0].end+20]
		})
		before := files(t, fs, "data", "", "")
		if _, err := Open(ctx, Options{Dir: "data", FS: fs}); err == nil || !strings.Contains(err.Error(), table) {
			t.Errorf("listed %v: opened with %v, want a refusal that names %s", listed, err, table)
		}
		if after := files(t, fs, "data", "", ""); !slices.Equal(before, after) {
			t.Errorf("the refusal changed the files:\n%q\n%q", before, after)
		}
		r, err := Repair(ctx, Options{Dir: "data", FS: fs})
		check(t, err)
		if len(r.Findings) != 0 {
			t.Errorf("after the repair: %+v", r.Findings)
		}
		s = open(t, Options{FS: fs})
		if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != 45 {
			t.Errorf("listed %v: count %d after the repair, want 45", listed, n)
		}
		check(t, s.Close())
	}
}

// A manifest that has lost edits which say nothing of tables loses nothing: Pebble
// shows what the tables hold, new writes do not take the numbers of old ones, and
// a log without writes that is no longer there is not missed.
func TestManifestCutBehindItsTables(t *testing.T) {
	for _, cut := range []int64{0, 9} { // at the end of an edit, and in one
		ctx, mem := context.Background(), vfs.NewCrashableMem()
		s := open(t, Options{FS: mem})
		check(t, s.Put(ctx, batch(1, t0, 5)))
		check(t, s.Close())
		mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		check(t, open(t, Options{FS: mem}).Close()) // makes a table of the log, and a log without writes
		s = open(t, Options{FS: mem})
		for g := range uint64(3) {
			check(t, s.Put(ctx, batch(g+2, t0+int64(g+1)*600, 5)))
		}
		fs := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
		check(t, s.Close())
		manifests := files(t, fs, "data", "MANIFEST-", "")
		path := "data/" + manifests[len(manifests)-1]
		change(t, fs, path, func(b []byte) []byte { return b[:readRecords(b, 0).list[0].end+cut] })
		if m, err := readManifest(fs, path); err != nil || !m.lostLastSeq() {
			t.Fatalf("%v: the cut manifest lists no writes beyond the last that it names: this tests nothing", err)
		}
		for restart, want := range []int{1, 0} {
			r, err := Examine(ctx, Options{Dir: "data", FS: fs})
			check(t, err)
			if len(r.Findings) != want || !r.Starts {
				t.Errorf("cut %d, restart %d: examined %+v", cut, restart, r)
			}
			s = open(t, Options{FS: fs})
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != 60 {
				t.Errorf("cut %d, restart %d: count %d, want 60", cut, restart, n)
			}
			if g, err := s.Flushed(ctx, "w"); err != nil || g != 4 {
				t.Errorf("cut %d, restart %d: flushed %d %v, want 4", cut, restart, g, err)
			}
			d := s.Damage()
			if len(d) != want || want > 0 && (!strings.Contains(d[0].Reason, "made whole") || d[0].Lost != "" || d[0].Observations != 0) {
				t.Errorf("cut %d, restart %d: damage %+v", cut, restart, d)
			}
			check(t, s.Close())
		}
	}
}

// What the last process wrote and nobody synced is on the disk before a start
// makes a table of it.
func TestStartSyncsLogs(t *testing.T) {
	ctx, mem := context.Background(), vfs.NewCrashableMem()
	s := open(t, Options{FS: mem})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	num := binary.BigEndian.AppendUint64(nil, 7)
	check(t, s.db.Set([]byte("\x7funsynced"), num, pebble.NoSync))
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	check(t, s.Close())
	log := files(t, killed, "data", "", ".log")[0]
	var content []byte
	o := Options{Dir: "data", FS: killed}
	check(t, o.ensureDefaults())
	logs, err := readLogs(killed, "data", []string{log}, 0)
	check(t, err)
	check(t, syncLogs(killed, "data", logs))
	lost := killed.CrashClone(vfs.CrashCloneCfg{})
	content, err = readWhole(lost, "data/"+log)
	check(t, err)
	if want, err := readWhole(killed, "data/"+log); err != nil || string(content) != string(want) {
		t.Errorf("a loss of power leaves %d bytes of the log, want %d, %v", len(content), len(want), err)
	}
}
