//go:build unix

package shadow

import "syscall"

// direct says that sockets are read and written by these functions, which never
// wait. Elsewhere they are read and written as net.Conn does it.
const direct = true

func readSocket(fd uintptr, p []byte) (int, error)  { return syscall.Read(int(fd), p) }
func writeSocket(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

// socketEnded reports whether the other side has ended a connection that is not in
// use. Anything that it sent is no better.
func socketEnded(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN && err != syscall.EINTR
}
