package load

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// poll is an epoll(7) instance that one thread waits on. Waits are as exact as the
// kernel's timers, to the nanosecond; wake ends one from another goroutine.
type poll struct {
	fd, waker int
	old       bool // the kernel has no epoll_pwait2(2): before Linux 5.11
	ts        unix.Timespec
	events    [256]unix.EpollEvent
}

// short is the longest sleep that the runtime does not learn of. Giving its processor
// away and asking for one again costs more than such a sleep, and its signals end the
// sleep.
const short = 2 * time.Millisecond

// wakeID is Fd in the waker's event.
const wakeID = -1

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	waker, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	p := &poll{fd: fd, waker: waker}
	if err := p.control(unix.EPOLL_CTL_ADD, waker, unix.EPOLLIN, wakeID, 0); err != nil {
		p.close()
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return p, nil
}

func (p *poll) control(op, fd int, events uint32, id, generation int32) error {
	e := unix.EpollEvent{Events: events, Fd: id, Pad: generation}
	return unix.EpollCtl(p.fd, op, fd, &e)
}

// wait waits for events until d has passed; they are valid until the next call. With
// d = 0 it only polls. The timer slack of a thread that sleeps is 1 ns (prepare).
func (p *poll) wait(d time.Duration) ([]unix.EpollEvent, error) {
	var n uintptr
	var errno syscall.Errno
	events := unsafe.Pointer(&p.events[0])
	switch {
	case d <= 0:
		n, _, errno = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(events), uintptr(len(p.events)), 0, 0, 0)
	case p.old:
		return p.waitOld(d)
	case d <= short:
		p.ts = unix.NsecToTimespec(int64(d))
		n, _, errno = syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(events), uintptr(len(p.events)), uintptr(unsafe.Pointer(&p.ts)), 0, 0)
	default:
		p.ts = unix.NsecToTimespec(int64(d))
		n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(events), uintptr(len(p.events)), uintptr(unsafe.Pointer(&p.ts)), 0, 0)
	}
	switch errno {
	case 0:
		return p.events[:n], nil
	case unix.EINTR:
		return nil, nil
	case unix.ENOSYS, unix.EPERM: // EPERM is what filters of system calls say
		if !p.old && d > 0 {
			p.old = true
			return p.waitOld(d)
		}
	}
	return nil, fmt.Errorf("epoll: %w", errno)
}

// waitOld sleeps in ppoll(2), for kernels without epoll_pwait2(2).
func (p *poll) waitOld(d time.Duration) ([]unix.EpollEvent, error) {
	p.ts = unix.NsecToTimespec(int64(d))
	fds := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], &p.ts, nil)
	if err != nil && err != unix.EINTR {
		return nil, fmt.Errorf("ppoll: %w", err)
	}
	if n <= 0 {
		return nil, nil
	}
	return p.wait(0)
}

// wake ends a wait, now or when it begins. Any goroutine may call it before close.
func (p *poll) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.waker, one[:]) // it fails if it is woken already
}

func (p *poll) close() {
	_ = unix.Close(p.waker)
	_ = unix.Close(p.fd)
}

// prepare locks the calling goroutine to its thread and makes its sleeps exact: by
// default the kernel adds up to 50 µs. The thread ends with the goroutine, because
// nobody unlocks it.
func prepare() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// threadCPU returns the CPU time of the calling thread, user and system.
func threadCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// threadWait returns how long the calling thread was ready to run and had no core, or 0 if
// the kernel does not count it; see delays of package session.
func threadWait() time.Duration {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	t, err := fs.Thread(os.Getpid(), unix.Gettid())
	if err != nil {
		return 0
	}
	s, err := t.Schedstat()
	if err != nil {
		return 0
	}
	return time.Duration(s.WaitingNanoseconds)
}

// nap sleeps whatever happens on the connections.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// send does not block, since its socket does not, so the runtime is not involved.
func send(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}
