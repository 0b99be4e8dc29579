//go:build unix

package shadow

import "syscall"

// direct reports that sockets are read and written by these functions, which never
// wait. Other systems use net.Conn.
const direct = true

func readSocket(fd uintptr, p []byte) (int, error)  { return syscall.Read(int(fd), p) }
func writeSocket(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }

// socketEnded reports whether the other side has ended an idle connection. Anything
// that it sent counts as such.
func socketEnded(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err != syscall.EAGAIN && err != syscall.EINTR
}
