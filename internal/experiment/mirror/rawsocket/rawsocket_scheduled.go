//go:build unix && (!linux || race)

package rawsocket

import "syscall"

// Direct reports whether this system has the functions.
const Direct = true

// Read reads what has arrived into p. It returns EAGAIN if that is nothing, and 0 and 0
// if the other side has ended its sending.
func Read(fd uintptr, p []byte) (int, syscall.Errno) {
	return repeat(func() (int, error) { return syscall.Read(int(fd), p) })
}

// Write writes as much of p as the socket takes. It returns EAGAIN if that is nothing.
func Write(fd uintptr, p []byte) (int, syscall.Errno) {
	return repeat(func() (int, error) { return syscall.Write(int(fd), p) })
}

// Peek returns what Read would, and takes nothing.
func Peek(fd uintptr) (int, syscall.Errno) {
	var b [1]byte
	return repeat(func() (int, error) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n, err
	})
}

// repeat calls do until no signal interrupts it.
func repeat(do func() (int, error)) (int, syscall.Errno) {
	for {
		n, err := do()
		if err == nil {
			return n, 0
		}
		if e, ok := err.(syscall.Errno); !ok {
			return 0, syscall.EINVAL
		} else if e != syscall.EINTR {
			return 0, e
		}
	}
}
