package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/store"
)

// A repair that cannot read a table for another reason than damage says so, and
// makes nothing of what it has read.
func TestRepairSaysWhatItCannotRead(t *testing.T) {
	ctx := context.Background()
	whole := lived(t)
	want := len(dump(t, clone(t, whole)))
	failed := 0
	for at := int64(0); ; at++ {
		fs := clone(t, whole)
		change(t, fs, "data/"+files(t, fs, "data", "MANIFEST-", "")[0], flipAt(func(n int) int { return n / 2 }))
		var n atomic.Int64
		faulty := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.HasPrefix(op.Path, "data/0") && strings.HasSuffix(op.Path, ".sst") && op.Kind.ReadOrWrite() == errorfs.OpIsRead && n.Add(1)-1 == at {
				return errors.New("not now")
			}
			return nil
		}))
		_, err := Repair(ctx, Options{Dir: "data", FS: faulty, DamagedDir: "damaged", MemtableBytes: 1 << 20})
		if n.Load() <= at {
			break
		}
		if err != nil {
			failed++
			continue
		}
		if got := len(dump(t, fs)); got < want {
			t.Fatalf("read %d failed, the repair says that all is well, and %d of %d keys are there", at, got, want)
		}
	}
	if failed < 5 {
		t.Errorf("%d repairs failed", failed)
	}
}

// What the disk does not give of a table is found by doctor and left out by a repair.
func TestRepairBadSector(t *testing.T) {
	ctx := context.Background()
	for _, where := range []string{"block", "index"} {
		fs := twoTables(t)
		tables := files(t, fs, "data", "", ".sst")
		name := "data/" + tables[len(tables)-1]
		faulty := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Path == name && op.Kind == errorfs.OpFileReadAt && (where == "index" || op.Offset < 40) {
				return syscall.EIO
			}
			return nil
		}))
		o := Options{Dir: "data", FS: faulty, DamagedDir: "damaged", MemtableBytes: 1 << 20}
		r, err := Examine(ctx, o)
		if err != nil {
			t.Errorf("%s: examining: %v", where, err)
			continue
		}
		if len(r.Findings) != 1 || r.Findings[0].File != name || r.Starts == (where == "index") {
			t.Errorf("%s: examined: %+v", where, r)
		}
		if r, err = Repair(ctx, o); err != nil || len(r.Findings) > 0 || !r.Starts {
			t.Errorf("%s: after the repair: %+v %v", where, r, err)
		}
	}
}

// Logs that tables have made redundant bring nothing back that was deleted since.
func TestRepairReadsNoOldLogs(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, store.PutMark(ctx, s, store.Mark{ID: "gone", Time: time.Unix(t0, 0), Name: "deploy"}))
	for i := range 3000 {
		check(t, store.PutMark(ctx, s, store.Mark{ID: fmt.Sprint("m", i), Time: time.Unix(int64(i), 0), Name: fmt.Sprintf("%x", uint64(i)*0x9e3779b97f4a7c15)}))
	}
	check(t, s.db.Flush())
	check(t, store.DeleteMark(ctx, s, "gone"))
	check(t, s.db.Flush())
	check(t, s.Compact(ctx))
	check(t, s.Close())
	tables := files(t, fs, "data", "", ".sst")
	change(t, fs, "data/"+tables[len(tables)-1], flipAt(func(n int) int { return n / 2 }))
	r, err := Repair(ctx, Options{Dir: "data", FS: fs, DamagedDir: "damaged", MemtableBytes: 1 << 20})
	check(t, err)
	if len(r.Findings) > 0 {
		t.Errorf("after the repair: %+v", r.Findings)
	}
	s = open(t, Options{FS: fs, DamagedDir: "damaged"})
	defer s.Close()
	all, err := store.Marks(ctx, s, time.Unix(t0-1, 0), time.Unix(t0+1, 0))
	check(t, err)
	if len(all) > 0 {
		t.Errorf("the mark that was deleted is back: %+v", all)
	}
}
