package pebblestore

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// retry slows Pebble down where it would retry a failure at once, such as writing a
// table on a full disk: each failure in a row doubles the pause before the next table is
// begun, up to retryMost. It logs a failure at most every sayEvery.
type retry struct {
	log *slog.Logger
	end chan struct{} // closed with the store
	// hopeless receives the error of the hopelessRow-th failure to write in a row.
	hopeless chan error

	mu    sync.Mutex
	row   int // failures to write since the last success
	pause time.Duration
	said  time.Time
	left  int // failures that were not logged
}

const (
	retryLeast = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	sayEvery   = 10 * time.Second

	hopelessRow = 5 // within a second
)

// failed is called by Pebble, which holds locks.
func (r *retry) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = min(max(2*r.pause, retryLeast), retryMost)
	// Damage in a compaction does not delay tables made of the log.
	if !pebble.IsCorruptionError(err) {
		if r.row++; r.row == hopelessRow {
			select {
			case r.hopeless <- err:
			default:
			}
		}
	}
	if now := time.Now(); now.Sub(r.said) >= sayEvery {
		r.log.Error("pebble: background work failed, retrying", "error", oneLine("%v", []any{err}), "not_logged_before", r.left)
		r.said, r.left = now, 0
	} else {
		r.left++
	}
}

func (r *retry) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause, r.row = 0, 0
}

// begin resets the failures: the database is opened anew.
func (r *retry) begin() {
	r.succeeded()
	select {
	case <-r.hopeless:
	default:
	}
}

func (r *retry) wait() {
	r.mu.Lock()
	pause := r.pause
	r.mu.Unlock()
	if pause == 0 {
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.end:
	}
}

// pacedFS waits before it creates a table. Pebble does that without holding locks.
type pacedFS struct {
	vfs.FS
	retry *retry
}

func (p pacedFS) Unwrap() vfs.FS { return p.FS }

func (p pacedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		p.retry.wait()
	}
	return p.FS.Create(name, c)
}
