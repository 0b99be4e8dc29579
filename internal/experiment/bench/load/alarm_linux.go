package load

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes the one goroutine that waits for it, at a time or by a call. It is
// a timer of the kernel's (timerfd_create(2)) in the runtime's poller: time.Sleep
// wakes up to a millisecond late, for the poller's own time-out is in whole
// milliseconds, and a thread that sleeps by itself costs two switches of threads
// for every wake.
type alarm struct {
	file *os.File
	raw  syscall.RawConn

	mu    sync.Mutex
	fd    int // guarded by mu; -1 once closed
	woken bool
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer"), fd: fd}
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return a, nil
}

// wait returns when d has passed or wake was called, now and then sooner.
func (a *alarm) wait(d time.Duration) {
	armed, passed := false, false
	_ = a.raw.Read(func(uintptr) bool { // an error is that it was closed
		if armed {
			return true // the poller is edge-triggered: the event need not be read
		}
		armed = true
		a.mu.Lock()
		defer a.mu.Unlock()
		if passed = a.woken || a.fd < 0; !passed {
			a.set(d)
		}
		return passed
	})
	a.mu.Lock()
	a.woken = false
	a.mu.Unlock()
}

// wake ends the current wait, or the next if nobody waits.
func (a *alarm) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.woken = true
	a.set(1)
}

func (a *alarm) set(d time.Duration) {
	if a.fd < 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	_ = unix.TimerfdSettime(a.fd, 0, &spec, nil) // it fails for wrong arguments only
}

func (a *alarm) close() {
	a.mu.Lock()
	a.fd = -1
	a.mu.Unlock()
	_ = a.file.Close()
}
