package pebblestore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

var epoch = time.Unix(0, 0)

// logged is a store of which eight generations, marks and records lie in the
// log alone, and where each of them lies in it. old writes records as versions
// before records did.
func logged(t *testing.T, old bool) (fs vfs.FS, log string, ends []int64) {
	t.Helper()
	ctx := context.Background()
	fs = vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	check(t, s.db.Flush())
	for g := uint64(2); g < 10; g++ {
		check(t, s.Put(ctx, batch(g, t0+int64(g)*600, 5)))
		check(t, store.PutMark(ctx, s, store.Mark{ID: fmt.Sprint("m", g), Name: "deploy"}))
		if old {
			check(t, s.Put(ctx, &store.Batch{Writer: "verdicts", Generation: g - 1, Resolution: series.Base,
				State: []store.State{{Key: fmt.Append(nil, g), Value: []byte("v")}}}))
			continue
		}
		_, err := s.PutRecords(ctx, "verdicts", store.RecordWrite{Key: fmt.Sprint(g), Value: []byte("v")})
		check(t, err)
	}
	check(t, s.Close())
	logs := files(t, fs, "data", "", ".log")
	log = logs[len(logs)-1]
	num, _ := logNumber(log)
	b, err := readWhole(fs, "data/"+log)
	check(t, err)
	rs := readRecords(b, uint32(num))
	if len(rs.list) < 24 || rs.damage != nil || rs.tail >= 0 {
		t.Fatalf("the log %s: %d records, damage %v, tail %d", log, len(rs.list), rs.damage, rs.tail)
	}
	for _, r := range rs.list[len(rs.list)-24:] {
		ends = append(ends, r.end)
	}
	return fs, log, ends
}

// What is damaged in Pebble's log differs from its torn end, is kept aside, named,
// and costs no more than it must.
func TestDamagedLog(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint("old=", old), func(t *testing.T) { testDamagedLog(t, old) })
	}
}

func testDamagedLog(t *testing.T, old bool) {
	// Records 3k, 3k+1 and 3k+2 are generation k+2, a mark and a verdict.
	for _, c := range []struct {
		name           string
		record         int
		cut            bool
		killed         bool   // the log was not closed
		flushed        uint64 // of w
		marks, records int
		said           string
	}{
		{"a generation in the middle", 9, false, false, 4, 8, 8, `generations 6 to 9 of writer "w"`},
		{"the first generation", 0, false, false, 1, 8, 8, `generations 3 to 9 of writer "w"`},
		{"a mark", 10, false, false, 5, 7, 8, `generations 6 to 9 of writer "w"`},
		{"the last generation", 21, false, false, 8, 8, 8, "kept"},
		{"the last record", 23, false, false, 9, 8, 7, "gone"},
		{"its end cut off", 12, true, false, 5, 4, 4, ""},
		{"the last mark of a killed process", 22, false, true, 9, 7, 7, "up to the last marks"},
		{"the last record of a killed process", 23, false, true, 9, 8, 7, "up to the last marks, kept traces and records"},
		{"the last generation of a killed process", 21, false, true, 8, 7, 7, "points of generation 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			fs, name, ends := logged(t, old)
			change(t, fs, "data/"+name, func(b []byte) []byte {
				if c.cut {
					return b[:ends[c.record]-5]
				}
				b[ends[c.record]-5] ^= 4
				if c.killed {
					b = b[:ends[c.record]]
				}
				return b
			})
			damaged, err := readWhole(fs, "data/"+name)
			check(t, err)
			found, err := Examine(ctx, Options{Dir: "data", FS: fs})
			check(t, err)
			var log syncBuffer
			s := open(t, Options{FS: fs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			defer s.Close()
			if g, err := s.Flushed(ctx, "w"); err != nil || g != c.flushed {
				t.Errorf("flushed %d %v, want %d", g, err, c.flushed)
			}
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != 15*c.flushed {
				t.Errorf("count %d, want %d", n, 15*c.flushed)
			}
			all, err := store.Marks(ctx, s, epoch.AddDate(-9000, 0, 0), epoch.AddDate(9000, 0, 0))
			check(t, err)
			if len(all) != c.marks {
				t.Errorf("%d marks, want %d", len(all), c.marks)
			}
			records := 0
			check(t, s.ListRecords(ctx, "verdicts", "", func(store.Record) error { records++; return nil }))
			if records != c.records {
				t.Errorf("%d records, want %d", records, c.records)
			}
			d := s.Damage()
			if c.said == "" {
				if len(d) != 0 {
					t.Errorf("damage %+v, want none: it looks like a log that was being written", d)
				}
				return
			}
			if len(d) != 1 || !strings.Contains(d[0].Reason, "do not check") || !strings.Contains(d[0].Reason+d[0].Lost, c.said) {
				t.Fatalf("damage: %+v", d)
			}
			if covered := strings.HasPrefix(c.said, "points"); covered != (d[0].Lost == "" && d[0].Observations == 0) {
				t.Errorf("what is lost: %q, %d observations", d[0].Lost, d[0].Observations)
			}
			if c.killed && len(found.Findings) == 0 {
				t.Error("doctor finds nothing")
			} else if c.killed && (!strings.HasSuffix(found.Findings[0].File, name) || found.Findings[0].Lost != d[0].Lost) {
				t.Errorf("doctor: %+v", found.Findings)
			}
			if b, err := readWhole(fs, d[0].File); err != nil || string(b) != string(damaged) {
				t.Errorf("the log is not as it was at %s: %v", d[0].File, err)
			}
			if !strings.Contains(log.String(), name) {
				t.Errorf("logged:\n%s", log.String())
			}
			// What was left out is put again, and counts once.
			for g := c.flushed + 1; g < 10; g++ {
				check(t, s.Put(ctx, batch(g, t0+int64(g)*600, 5)))
			}
			if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != 15*9 {
				t.Errorf("count %d with everything put again, want %d", n, 15*9)
			}
		})
	}
}

// The reader of logs tells damage from a torn end wherever a byte changes.
func TestReadRecords(t *testing.T) {
	fs, name, ends := logged(t, false)
	num, _ := logNumber(name)
	b, err := readWhole(fs, "data/"+name)
	check(t, err)
	whole := len(readRecords(b, uint32(num)).list)
	for at := int64(0); at < ends[len(ends)-1]; at += 97 {
		c := append([]byte(nil), b...)
		c[at] ^= 0x40
		rs := readRecords(c, uint32(num))
		if len(rs.damage) != 1 || rs.damage[0][0] > at || rs.damage[0][1] <= at || len(rs.list) != whole-1 {
			t.Fatalf("byte %d flipped: damage %v, tail %d, %d records of %d", at, rs.damage, rs.tail, len(rs.list), whole)
		}
		// Cut off, everything whole is read, and nothing is damage.
		rs = readRecords(b[:at], uint32(num))
		if rs.damage != nil {
			t.Fatalf("cut at %d: damage %v", at, rs.damage)
		}
	}
}

// The moment of the clock is written again every minute: losing it costs nothing, and
// a write of it alone stands alone.
func TestLogDamageOfTheMoment(t *testing.T) {
	s := open(t, Options{FS: vfs.NewMem()})
	defer func() { check(t, s.Close()) }()
	wb := s.db.NewBatch()
	defer wb.Close()
	check(t, wb.Set(metaKey(metaClock, 0), metaTime(t0), nil))
	if got := coveredWrite(wb.Repr()); !strings.Contains(got, "the moment of the last maintenance") {
		t.Errorf("a damaged moment held %q", got)
	}
	sv := newSalvage(nil)
	if !sv.keep(wb.Repr(), true) {
		t.Error("a moment behind the damage is left out")
	}
	if got, want := sv.words(0, true), "nothing is known to be missing; of the writes behind it 1 that stand alone are kept"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
