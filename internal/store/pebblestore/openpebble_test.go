package pebblestore

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/store"
)

// killed is a store whose points are all in the log.
func killed(t *testing.T) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	for g := range uint64(3) {
		check(t, s.Put(context.Background(), batch(g+1, t0+int64(g)*300, 5)))
	}
	left := clone(t, fs)
	check(t, s.Close())
	return left
}

// A start on a disk without room ends, says that there is none, and loses nothing.
func TestStartOnAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		says   bool // the file system says how much is free
		cancel bool
		want   error
	}{
		"free space is known":     {true, false, store.ErrFull},
		"free space is not known": {false, false, store.ErrFull},
		"it is stopped":           {false, true, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			inner := killed(t)
			before := files(t, inner, "data", "", "")
			var full atomic.Bool
			full.Store(true)
			var fs vfs.FS = errorfs.Wrap(inner, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if full.Load() && strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpFileWrite {
					return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
				}
				return nil
			}))
			if c.says {
				fs = &spaceFS{FS: fs, full: &full}
			}
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if c.cancel {
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
			}
			defer cancel()
			began := time.Now()
			_, err := Open(ctx, Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if c.says {
				if after := files(t, inner, "data", "", ""); len(after) > len(before)+1 { // the lock
					t.Errorf("files before %q\nfiles after %q", before, after)
				}
			}
			// With room again everything is there.
			full.Store(false)
			for errors.Is(err, store.ErrLocked) || began.After(time.Now().Add(-10*time.Second)) {
				var s *Store
				if s, err = Open(context.Background(), Options{Dir: "data", FS: fs, MemtableBytes: 1 << 20}); err == nil {
					if n := count(t, s, store.Query{Start: t0, End: t0 + 86400}); n != 45 {
						t.Errorf("count %d, want 45", n)
					}
					check(t, s.Close())
					return
				}
				time.Sleep(20 * time.Millisecond) // until the start that was given up has ended
			}
			t.Errorf("with room again: %v", err)
		})
	}
}

// lockFails is a file system on which nothing can be locked.
type lockFails struct {
	vfs.FS
	err error
}

func (l lockFails) Lock(string) (io.Closer, error) { return nil, l.err }
func (l lockFails) Unwrap() vfs.FS                 { return l.FS }

// Only a lock that another process has is one; a store that cannot be written
// to can be examined.
func TestWhyADirectoryCannotBeLocked(t *testing.T) {
	for _, c := range []struct {
		err           error
		locked, reads bool
	}{
		{syscall.EAGAIN, true, false},
		{&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EROFS}, false, true},
		{&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}, false, false},
		{&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EIO}, false, false},
	} {
		o := Options{Dir: "data", FS: lockFails{filled(t), c.err}}
		if _, err := Open(context.Background(), o); err == nil || errors.Is(err, store.ErrLocked) != c.locked {
			t.Errorf("%v: start: %v", c.err, err)
		}
		r, err := Examine(context.Background(), o)
		if (err == nil) != c.reads || errors.Is(err, store.ErrLocked) != c.locked {
			t.Errorf("%v: examine: %v", c.err, err)
		}
		if c.reads && (r.ID == "" || len(r.Findings) > 0) {
			t.Errorf("%v: examined %+v", c.err, r)
		}
		if _, err := Repair(context.Background(), o); err == nil || errors.Is(err, store.ErrLocked) != c.locked {
			t.Errorf("%v: repair: %v", c.err, err)
		}
	}
}

// twoDisks refuses to move files from one directory to another.
type twoDisks struct{ vfs.FS }

func (d twoDisks) Rename(from, to string) error {
	if d.PathDir(from) != d.PathDir(to) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
	}
	return d.FS.Rename(from, to)
}
func (d twoDisks) Unwrap() vfs.FS { return d.FS }

// A damaged table is put aside also if damaged/ is on another disk.
func TestDamagedOnAnotherDisk(t *testing.T) {
	fs := twoTables(t)
	tables := files(t, fs, "data", "", ".sst")
	newest := tables[len(tables)-1]
	change(t, fs, "data/"+newest, flipAt(func(n int) int { return n - 20 }))
	damaged, err := readWhole(fs, "data/"+newest)
	check(t, err)
	s := open(t, Options{FS: twoDisks{fs}, DamagedDir: "damaged"})
	defer s.Close()
	if d := s.Damage(); len(d) != 1 || d[0].File != "damaged/"+newest || !strings.Contains(d[0].Reason, newest) {
		t.Errorf("damage: %+v", d)
	}
	if b, err := readWhole(fs, "damaged/"+newest); err != nil || string(b) != string(damaged) {
		t.Errorf("the table is not as it was: %v", err)
	}
	if n := count(t, s, store.Query{Start: t0, End: t0 + 3600}); n != 15 {
		t.Errorf("the intact table: got count %d, want 15", n)
	}
}
