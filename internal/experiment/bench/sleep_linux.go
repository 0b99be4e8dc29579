package bench

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// maxNap bounds one sleep, so that a cancelled run ends soon.
const maxNap = 20 * time.Millisecond

// threadSleeper locks the calling goroutine to its thread and returns a sleep
// that wakes by the kernel's timer: the runtime's own wakes up to a
// millisecond late, because its timers wait for the network poller. The sleep
// may return early; release unlocks the thread.
func threadSleeper() (sleep func(context.Context, time.Duration), release func()) {
	runtime.LockOSThread()
	return func(ctx context.Context, d time.Duration) {
		ts := unix.NsecToTimespec(int64(min(d, maxNap)))
		_ = unix.Nanosleep(&ts, nil) // an interrupted nap is a short one
	}, runtime.UnlockOSThread
}
