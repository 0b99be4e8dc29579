package otlp

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"google.golang.org/grpc/mem"
)

// readyReader reads a connection into a buffer that it takes once there is something to
// read: an idle connection holds none.
type readyReader struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool

	// Of the current read.
	size int
	pool mem.BufferPool
	buf  *[]byte
	n    int
	err  error
}

// newReadyReader returns nil if c is not a TCP connection of its own.
func newReadyReader(c net.Conn) *readyReader {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	r := &readyReader{raw: raw}
	r.step = r.try
	return r
}

// read reads up to size bytes. The caller owns the buffer if n > 0.
func (r *readyReader) read(size int, pool mem.BufferPool) (buf *[]byte, n int, err error) {
	r.size, r.pool = size, pool
	err = r.raw.Read(r.step)
	buf, n = r.buf, r.n
	if err == nil {
		err = r.err
	}
	r.pool, r.buf, r.n, r.err = nil, nil, 0, nil
	if err == nil && n == 0 {
		err = io.EOF
	}
	return buf, n, err
}

// try is called when there may be something to read, and reports whether the read is
// complete.
func (r *readyReader) try(fd uintptr) bool {
	buf := r.pool.Get(r.size)
	var n uintptr
	errno := syscall.EINTR
	for errno == syscall.EINTR {
		// The socket does not block, so that the scheduler need not know.
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(*buf))), uintptr(len(*buf)))
	}
	if errno == 0 && n > 0 {
		r.buf, r.n = buf, int(n)
		return true
	}
	r.pool.Put(buf)
	if errno != 0 && errno != syscall.EAGAIN {
		r.err = os.NewSyscallError("read", errno)
	}
	return errno != syscall.EAGAIN
}
