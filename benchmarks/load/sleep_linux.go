package load

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SleepCost returns what a sleep of d costs a thread that does nothing else, user and
// system time, as the mean of n: what nobody can be below who sends each request at
// its time and sleeps in between. On a virtual machine it may be most of the cost,
// for the host is asked to set every timer and to deliver it.
func SleepCost(d time.Duration, n int) (time.Duration, error) {
	type result struct {
		cost time.Duration
		err  error
	}
	ended := make(chan result)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			ended <- result{err: fmt.Errorf("timer slack: %w", err)}
			return
		}
		var before, after unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_THREAD, &before)
		ts := unix.NsecToTimespec(d.Nanoseconds())
		for i := 0; i < n && err == nil; i++ {
			if err = unix.Nanosleep(&ts, nil); err == syscall.EINTR {
				err = nil
			}
		}
		if err == nil {
			err = unix.Getrusage(unix.RUSAGE_THREAD, &after)
		}
		cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		ended <- result{time.Duration(cpu) / time.Duration(n), err}
	}()
	r := <-ended
	return r.cost, r.err
}
