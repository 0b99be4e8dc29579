//go:build linux && !race

package rawsocket

import (
	"syscall"
	"unsafe"
)

// Direct reports whether this system has the functions.
const Direct = true

// Read reads what has arrived into p. It returns EAGAIN if that is nothing, and 0 and 0
// if the other side has ended its sending.
func Read(fd uintptr, p []byte) (int, syscall.Errno) {
	return transfer(syscall.SYS_READ, fd, p, 0)
}

// Write writes as much of p as the socket takes. It returns EAGAIN if that is nothing.
func Write(fd uintptr, p []byte) (int, syscall.Errno) {
	return transfer(syscall.SYS_WRITE, fd, p, 0)
}

// Peek returns what Read would, and takes nothing.
func Peek(fd uintptr) (int, syscall.Errno) {
	var b [1]byte
	return transfer(syscall.SYS_RECVFROM, fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
}

// transfer makes a system call of a socket, a buffer and flags until no signal interrupts it.
// Read and write have no flags, and ignore them.
func transfer(call, fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		switch e {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, e
		}
	}
}
