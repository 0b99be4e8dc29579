package pebblestore

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// On a disk without a byte left the flush is tried again now and then, not all
// the time, the log says so once, and Maintain does not wait for it.
func TestFullDiskIsTriedNowAndThen(t *testing.T) {
	ctx := context.Background()
	var full atomic.Bool
	var tried atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !full.Load() || !strings.HasSuffix(op.Path, ".sst") || op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		if op.Kind == errorfs.OpCreate {
			tried.Add(1)
			return nil
		}
		if op.Kind == errorfs.OpFileWrite {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	var log syncBuffer
	disk := &spaceFS{FS: fs, full: &full}
	s := open(t, Options{FS: disk, MinFreeBytes: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	full.Store(true)
	if _, err := s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // Pebble's own goroutines do it
	if n := tried.Load(); n < 2 || n > 8 {
		t.Errorf("tried %d times within a second, want a few", n)
	}
	if n := strings.Count(log.String(), "ERROR"); n != 1 {
		t.Errorf("%d lines in the log, want 1:\n%s", n, log.String())
	}
	began := time.Now()
	check(t, s.Maintain(ctx, time.Unix(t0+3600, 0)))
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("Maintain took %v", took)
	}
	full.Store(false)
	check(t, s.WriteTables(ctx))
	check(t, s.Maintain(ctx, time.Unix(t0+3600, 0)))
	began = time.Now()
	check(t, s.Close())
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %v", took)
	}
}

// spaceFS has no space left when it is full.
type spaceFS struct {
	vfs.FS
	full *atomic.Bool
}

func (s *spaceFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if s.full.Load() {
		return vfs.DiskUsage{TotalBytes: 1 << 30, UsedBytes: 1 << 30}, nil
	}
	return vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 1 << 30}, nil
}

func (s *spaceFS) Unwrap() vfs.FS { return s.FS }
