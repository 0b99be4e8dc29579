package pebblestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// allRecords are the records of a kind, with their revisions.
func allRecords(t *testing.T, s *Store, kind string) map[string]string {
	t.Helper()
	out := map[string]string{}
	check(t, s.ListRecords(context.Background(), kind, "", func(r store.Record) error {
		out[r.Key] = fmt.Sprintf("%s at %d", r.Value, r.Revision)
		return nil
	}))
	return out
}

// Records that were written are there after a crash at any moment, at their
// revisions, and no revision is given again.
func TestRecordsSurviveCrashes(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	fs := vfs.NewCrashableMem()
	want := map[string]string{}
	revisions := map[string]uint64{}
	last := uint64(0)
	for round := range 20 {
		s := open(t, Options{FS: fs})
		if got := allRecords(t, s, "k"); !maps.Equal(got, want) {
			t.Fatalf("round %d: got %v, want %v", round, got, want)
		}
		for range rng.IntN(6) {
			key := fmt.Sprint(rng.IntN(4))
			value := fmt.Sprint(rng.IntN(1e6))
			if revisions[key] > 0 && rng.IntN(3) == 0 {
				value = ""
			}
			if _, err := s.PutRecords(ctx, "k", store.RecordWrite{Key: key, Value: []byte(value), IfRevision: revisions[key] + 1}); !errors.Is(err, store.ErrConflict) {
				t.Fatalf("round %d: a wrong revision: %v", round, err)
			}
			r, err := s.PutRecords(ctx, "k", store.RecordWrite{Key: key, Value: []byte(value), IfRevision: revisions[key]})
			check(t, err)
			if r <= last {
				t.Fatalf("round %d: revision %d after %d", round, r, last)
			}
			last = r
			if value == "" {
				delete(want, key)
				delete(revisions, key)
			} else {
				want[key], revisions[key] = fmt.Sprintf("%s at %d", value, r), r
			}
			if rng.IntN(3) == 0 {
				check(t, s.Put(ctx, batch(uint64(round+1), t0, 3)))
				check(t, s.db.Flush())
			}
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		check(t, s.Close())
		if round%4 > 0 {
			fs = crashed
		}
	}
}

// What versions before records kept is moved once, whole, and nothing else is.
func TestRecordsOfOlderVersions(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewCrashableMem()
	s := open(t, Options{FS: fs})
	check(t, s.Put(ctx, batch(1, t0, 3)))
	want := map[string]int{}
	long := strings.Repeat("x", 1000)
	for i, kind := range movedKinds {
		b := &store.Batch{Writer: kind, Generation: 1, Resolution: series.Base}
		for n := range 500 + i {
			b.State = append(b.State, store.State{Key: fmt.Appendf(nil, "c%d\x00", n), Value: fmt.Append(nil, kind, n, long)})
		}
		want[kind] = len(b.State)
		check(t, s.Put(ctx, b))
	}
	oldMark := func(s *Store, id string, at time.Time, name string) {
		k := fmt.Appendf([]byte{tableMark}, "%08x%s", at.Unix(), id)
		v, err := json.Marshal(map[string]any{"id": id, "t": at.UnixNano(), "name": name, "service": "shop"})
		check(t, errors.Join(err, s.db.Set(k, v, pebble.Sync), s.db.Set(append([]byte{tableMarkID}, id...), k, pebble.Sync)))
	}
	at := time.Unix(t0, 7).UTC()
	oldMark(s, "m1", at, "deploy")
	oldMark(s, "m2", at.Add(time.Hour), "backup")
	check(t, s.Close())

	moved := func(s *Store) {
		t.Helper()
		for kind, n := range want {
			got := 0
			check(t, s.ListRecords(ctx, kind, "", func(r store.Record) error {
				if v := strings.TrimSuffix(string(r.Value), long); r.Key != "c"+v[len(kind):]+"\x00" {
					return fmt.Errorf("%q is under %q", v, r.Key)
				}
				got++
				return nil
			}))
			check(t, s.State(ctx, kind, nil, func(key, _ []byte) error { return fmt.Errorf("state %q of %s is left", key, kind) }))
			if got != n {
				t.Errorf("%d records of kind %s, want %d", got, kind, n)
			}
		}
		all, err := store.Marks(ctx, s, time.Unix(0, 0), at.Add(24*time.Hour))
		check(t, err)
		if len(all) != 2 || all[0] != (store.Mark{ID: "m1", Time: at, Name: "deploy", Service: "shop"}) || all[1].Name != "backup" {
			t.Errorf("marks %+v", all)
		}
		for _, table := range []byte{tableMark, tableMarkID} {
			check(t, s.each([]byte{table}, func(k, _ []byte) error { return fmt.Errorf("%q is left", k) }))
		}
		n := 0
		check(t, s.State(ctx, "w", nil, func(_, _ []byte) error { n++; return nil }))
		if n != 1 || count(t, s, store.Query{Start: t0, End: t0 + 60}) != 9 {
			t.Errorf("%d states of w: they stay with its points", n)
		}
	}
	// A start that is killed on its way is gone on with by the next.
	before := clone(t, fs)
	partly := 0
	for at := range int64(8) {
		mem := vfs.NewCrashableMem()
		if _, err := vfs.Clone(before, mem, "", "", vfs.CloneSync); err != nil {
			t.Fatal(err)
		}
		var killed *vfs.MemFS
		var writes atomic.Int64
		s := open(t, Options{FS: errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") && writes.Add(1) == 1+at*8 {
				killed = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(5, uint64(at)))})
			}
			return nil
		}))})
		moved(s)
		check(t, s.Close())
		if killed == nil {
			break
		}
		n := 0
		var log syncBuffer
		s = open(t, Options{FS: killed, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		moved(s)
		check(t, s.Close())
		if _, words, ok := strings.Cut(log.String(), " records="); ok {
			fmt.Sscan(words, &n)
		}
		if total := 2 + 7*500 + 21; n > 0 && n < total {
			partly++
		}
	}
	if partly == 0 {
		t.Error("no start was killed half-way")
	}

	s = open(t, Options{FS: fs})
	check(t, store.DeleteMark(ctx, s, "m2"))
	_, err := s.PutRecords(ctx, "verdicts", store.RecordWrite{Key: "c0\x00", Value: []byte("newer"), IfRevision: store.AnyRevision})
	check(t, err)
	// As a table that held the deletions of the move leaves it when it is lost.
	check(t, s.Put(ctx, &store.Batch{Writer: "verdicts", Generation: 2, Resolution: series.Base, State: []store.State{{Key: []byte("c0\x00"), Value: []byte("older")}}}))
	oldMark(s, "m1", at.Add(time.Minute), "older")
	check(t, s.Close())
	s = open(t, Options{FS: fs})
	defer s.Close()
	if r, err := s.GetRecord(ctx, "verdicts", "c0\x00"); err != nil || string(r.Value) != "newer" {
		t.Errorf("what came back has replaced what is there: %+v %v", r, err)
	}
	all, err := store.Marks(ctx, s, time.Unix(0, 0), at.Add(24*time.Hour))
	if err != nil || len(all) != 1 || all[0].Name != "deploy" {
		t.Errorf("marks %+v %v", all, err)
	}
}

// A lost table that held the last revision has no revision given twice.
func TestRevisionInALostTable(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	var last uint64
	for i := range 5 {
		var err error
		last, err = s.PutRecords(ctx, "k", store.RecordWrite{Key: fmt.Sprint(i), Value: []byte("v")})
		check(t, err)
	}
	check(t, errors.Join(s.db.Delete(metaKey(metaRevision, 0), pebble.Sync), s.Close(), oweMend(fs, "data")))
	s = open(t, Options{FS: fs})
	defer s.Close()
	r, err := s.PutRecords(ctx, "k", store.RecordWrite{Key: "4", Value: []byte("w"), IfRevision: last})
	if err != nil || r <= last {
		t.Errorf("revision %d %v after %d", r, err, last)
	}
}

// A full disk refuses records, not the deletions of them.
func TestRecordsOnAFullDisk(t *testing.T) {
	ctx := context.Background()
	var full atomic.Bool
	s := open(t, Options{FS: &spaceFS{FS: vfs.NewMem(), full: &full}, MinFreeBytes: 1 << 20})
	defer s.Close()
	check(t, store.PutMark(ctx, s, store.Mark{ID: "a", Name: "deploy"}))
	full.Store(true)
	if err := store.PutMark(ctx, s, store.Mark{ID: "b", Name: "deploy"}); !errors.Is(err, store.ErrFull) {
		t.Errorf("got error %v, want ErrFull", err)
	}
	check(t, store.DeleteMark(ctx, s, "a"))
	if got := allRecords(t, s, store.KindMarks); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// What a lost range of records held is said by kind, and that older ones may be back.
func TestWordsOfRecords(t *testing.T) {
	for _, c := range []struct {
		from, to []byte
		want     string
	}{
		{recordKey("checks", "c1"), recordKey("checks", "t9"), "states and incidents of checks"},
		{recordKey("checks", "c1"), recordKey("marks", "1"), "states and incidents of checks, reports of experiments, experiments, marks"},
		{recordKey("settings", "c1"), []byte{tablePoints}, "settings, verdicts of marks, labels of series"},
		{recordKey("a", "b"), recordKey("a", "c"), "records"},
	} {
		r := keyRange{c.from, c.to}
		if got := r.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if !strings.Contains(r.back(), "may be back") {
			t.Errorf("%q: what may be back is not said", r.String())
		}
	}
	if back := (keyRange{[]byte{tableIndex}, []byte{tablePoints}}).back(); back != "" {
		t.Errorf("labels: %q", back)
	}
}

// The bytes of records and marks, as docs/formats.md describes them.
func TestRecordGolden(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	for range 200 {
		_, err := s.PutRecords(ctx, "k", store.RecordWrite{Key: "key", Value: []byte("value"), IfRevision: store.AnyRevision})
		check(t, err)
	}
	check(t, store.PutMark(ctx, s, store.Mark{ID: "6f0c", Time: time.Unix(t0, 7), Name: "deploy", Service: "shop"}))
	var got []string
	check(t, s.each([]byte{tableRecord}, func(k, v []byte) error {
		got = append(got, fmt.Sprintf("%x %x", k, v))
		return nil
	}))
	check(t, s.each(metaKey(metaRevision, 0), func(k, v []byte) error {
		got = append(got, fmt.Sprintf("%x %x", k, v))
		return nil
	}))
	want := []string{
		"076b006b6579 c80176616c7565",
		"076d61726b730036663063 c90118d72cf3362300077b226e616d65223a226465706c6f79222c2273657276696365223a2273686f70227d",
		"017600 00000000000000c9",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A server goes on with the records that it kept before stores were shared.
func TestOwnRecordsOfBefore(t *testing.T) {
	ctx := context.Background()
	o := Options{FS: vfs.NewMem()}
	s := open(t, o)
	_, err := s.PutRecords(ctx, "checks", store.RecordWrite{Key: "c1", Value: []byte("state")})
	check(t, errors.Join(err, s.Close()))
	for range 2 {
		s = open(t, o)
		own, err := store.OwnRecords(ctx, s, s.Writer())
		check(t, err)
		if r, err := own.GetRecord(ctx, "checks", "c1"); err != nil || string(r.Value) != "state" {
			t.Errorf("got %q, %v", r.Value, err)
		}
		check(t, s.Close())
	}
}
