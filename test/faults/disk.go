package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// plan says what goes wrong at which call that changes a file. Calls are
// counted from 1; 0 is never.
type plan struct {
	crashAt int64 // the machine or the process ends in this call, a write torn
	failAt  int64 // this call fails,
	failFor int64 // and so many after it
	room    int64 // bytes until the disk is full; negative: no end
}

// disk is a file system in memory that goes wrong as planned. It counts the
// calls that change files.
type disk struct {
	vfs.FS // of mem, with errors injected
	mem    *vfs.MemFS

	mu      sync.Mutex
	plan    plan
	calls   int64
	crashed bool
	tear    *rand.Rand

	fatal func()                   // called where the product would end the process; does not return
	crash func()                   // called once, in the call that crashes
	syncs func(path string) func() // called before a file or directory is synced; what it returns, after
}

func newDisk(mem *vfs.MemFS, tear *rand.Rand) *disk {
	d := &disk{mem: mem, tear: tear, plan: plan{room: -1}}
	d.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind.ReadOrWrite() == errorfs.OpIsRead, op.Kind == errorfs.OpFileClose:
			return nil
		case op.Kind == errorfs.OpFileWrite, op.Kind == errorfs.OpFileWriteAt:
			return nil // counted where they can be torn
		}
		_, err := d.step(0)
		switch {
		case err == errCrash:
			d.crash()
			return nil
		case err != nil && endsStore(op.Path):
			d.fatal()
		}
		return err
	}))
	return d
}

// set replaces the plan; calls are counted from now on.
func (d *disk) set(p plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.calls = p, 0
}

// step counts a call that writes n bytes and says how many of them go through.
func (d *disk) step(n int) (int, error) {
	d.mu.Lock()
	d.calls++
	p, call := &d.plan, d.calls
	if call == p.crashAt && !d.crashed {
		d.crashed = true
		part := 0
		if n > 0 {
			part = d.tear.IntN(n + 1)
		}
		d.mu.Unlock()
		return part, errCrash
	}
	defer d.mu.Unlock()
	if p.failAt > 0 && call >= p.failAt && call <= p.failAt+p.failFor {
		part := 0
		if n > 0 {
			part = d.tear.IntN(n)
		}
		return part, &os.PathError{Op: "write", Path: "disk", Err: syscall.EIO}
	}
	if p.room >= 0 && n > 0 {
		if int64(n) > p.room {
			part := int(p.room)
			p.room = 0
			return part, &os.PathError{Op: "write", Path: "disk", Err: syscall.ENOSPC}
		}
		p.room -= int64(n)
	}
	return n, nil
}

// errCrash is never seen by the product: the call goes on as if nothing were,
// on a disk that nobody looks at any more.
var errCrash = errors.New("crash")

func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plan.room < 0 {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return vfs.DiskUsage{AvailBytes: uint64(d.plan.room), TotalBytes: 1 << 40, UsedBytes: 1<<40 - uint64(d.plan.room)}, nil
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

func (d *disk) wrap(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d, path: path}, nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return d.wrap(name, f, err)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, o...)
	return d.wrap(name, f, err)
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return d.wrap(name, f, err)
}

func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, c)
	return d.wrap(to, f, err)
}

// endsStore reports whether an error of this call ends the process: Pebble
// panics, from goroutines of its own, when its log cannot be written or begun.
func endsStore(path string) bool {
	if strings.HasSuffix(path, ".log") {
		return true
	}
	if strings.Contains(path, "LOGS") { // the store's own, beside the log
		return false
	}
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".rotateWAL") {
			return true
		}
		if !more {
			return false
		}
	}
}

// diskFile tears writes and reports syncs.
type diskFile struct {
	vfs.File
	d    *disk
	path string

	mu     sync.RWMutex
	closed bool
}

// Close and Sync may meet, as they may on files of the machine.
func (f *diskFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	return f.File.Close()
}

func (f *diskFile) Write(b []byte) (int, error) {
	return f.write(b, func(from, to int) (int, error) { return f.File.Write(b[from:to]) })
}

func (f *diskFile) WriteAt(b []byte, off int64) (int, error) {
	return f.write(b, func(from, to int) (int, error) { return f.File.WriteAt(b[from:to], off+int64(from)) })
}

func (f *diskFile) write(b []byte, put func(from, to int) (int, error)) (int, error) {
	part, err := f.d.step(len(b))
	if part < len(b) && part > 0 {
		if n, err := put(0, part); err != nil {
			return n, err
		}
	}
	switch {
	case err == errCrash && part < len(b):
		f.d.crash()
		n, err := put(part, len(b))
		return part + n, err
	case err == errCrash:
		n, err := put(0, part)
		f.d.crash()
		return n, err
	case err != nil:
		if endsStore(f.path) {
			f.d.fatal()
		}
		return part, err
	}
	return put(0, len(b))
}

func (f *diskFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *diskFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *diskFile) sync(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return os.ErrClosed
	}
	done := f.d.syncs(f.path)
	err := do()
	if err == nil {
		done()
	}
	return err
}
