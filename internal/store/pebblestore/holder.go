package pebblestore

import (
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

// InUseError reports that another process has the store open. It wraps store.ErrLocked.
type InUseError struct {
	Dir string
	PID int // 0 if it is not known
	err error
}

func (e *InUseError) Error() string {
	by := ""
	if e.PID != 0 {
		by = fmt.Sprintf(" (pid %d)", e.PID)
	}
	return fmt.Sprintf("data directory %s: %v%s (stop the other tailscope, or give this one another directory): %v", e.Dir, store.ErrLocked, by, e.err)
}

func (e *InUseError) Unwrap() error { return store.ErrLocked }

func inUse(o *Options, err error) *InUseError {
	e := &InUseError{Dir: o.Dir, err: err}
	switch {
	case strings.Contains(err.Error(), "current process"):
		e.PID = os.Getpid() // asking the system for the holder of our own lock would release it
	case vfs.Root(o.FS) == vfs.Default:
		e.PID = lockHolder(o.FS.PathJoin(o.Dir, "LOCK"))
	}
	return e
}
