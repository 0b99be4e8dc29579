package load

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A receiver reads from sockets, with the time at which the kernel received the data
// (SO_TIMESTAMPNS, socket(7)). An answer ends when it arrived, not when its loop read
// it. So a generator that is late, or that leaves answers until it has something to
// send, measures no worse.
type receiver struct {
	start   time.Time
	buf     []byte
	message unix.Msghdr
	vector  unix.Iovec
	control [64]byte

	skew    time.Duration // what added to a kernel's time, of the clock on the wall, gives ours
	checked time.Duration // when skew was found
}

func newReceiver() *receiver {
	r := &receiver{buf: make([]byte, 64<<10), checked: -never}
	r.vector.Base = &r.buf[0]
	r.vector.SetLen(len(r.buf))
	r.message.Iov = &r.vector
	r.message.SetIovlen(1)
	r.message.Control = &r.control[0]
	return r
}

// receive reads what has arrived into buf and never waits. at is the arrival of the
// last of it, or 0 if the kernel does not say.
func (r *receiver) receive(fd int) (n int, at time.Duration, errno syscall.Errno) {
	r.message.SetControllen(len(r.control))
	got, _, errno := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.message)), 0)
	if errno != 0 || got == 0 {
		return 0, 0, errno
	}
	const head, stamp = unix.SizeofCmsghdr, int(unsafe.Sizeof(unix.Timespec{}))
	if int(r.message.Controllen) >= head+stamp {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&r.control[0]))
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && int(h.Len) >= head+stamp {
			at = time.Duration((*unix.Timespec)(unsafe.Pointer(&r.control[head])).Nano()) + r.skew
		}
	}
	return int(got), at, 0
}

// stamped asks the kernel for the times of a connection's data.
func stamped(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) }

// check compares the loop's clock with the wall clock, now and then, since the latter
// is set and slewed. A comparison that was interrupted is repeated the next time.
func (r *receiver) check(now time.Duration) {
	const often, exact = 10 * time.Millisecond, time.Microsecond
	if now-r.checked < often && r.checked > -never {
		return
	}
	for range 3 {
		before := time.Since(r.start)
		t := time.Now()
		after := t.Sub(r.start) // t's reading of the monotonic clock, which comes second
		if after-before <= exact || r.checked == -never {
			r.skew = before + (after-before)/2 - time.Duration(t.UnixNano())
			if after-before <= exact {
				r.checked = now
				return
			}
		}
	}
}
