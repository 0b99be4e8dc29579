package proxy

import (
	"io"
	"net"
	"os"
	"syscall"

	"tailscope/internal/experiment/mirror/rawsocket"
)

// wire is a TCP connection whose reads and writes bypass the scheduler, which is a
// tenth of their cost. They never wait in the kernel, as the socket does not block.
// One goroutine may read while another one writes.
type wire struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is a read or a write under way.
type transfer struct {
	p    []byte
	n    int
	err  syscall.Errno
	step func(fd uintptr) bool
}

// fast returns a connection over nc that is cheaper to use, if the system has one.
func fast(nc net.Conn) net.Conn {
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return nc
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nc
	}
	w := &wire{TCPConn: t, raw: raw}
	w.in.step, w.out.step = w.in.read, w.out.write
	return w
}

// tcp returns nc as a TCP connection, or nil.
func tcp(nc net.Conn) *net.TCPConn {
	if w, ok := nc.(*wire); ok {
		return w.TCPConn
	}
	t, _ := nc.(*net.TCPConn)
	return t
}

func (w *wire) Read(p []byte) (int, error) {
	t := &w.in
	t.p, t.n, t.err = p, 0, 0
	err := w.raw.Read(t.step)
	t.p = nil
	switch {
	case err != nil:
		return 0, err
	case t.err != 0:
		return 0, os.NewSyscallError("read", t.err)
	case t.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return t.n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	t := &w.out
	t.p, t.n, t.err = p, 0, 0
	err := w.raw.Write(t.step)
	t.p = nil
	switch {
	case err != nil:
		return t.n, err
	case t.err != 0:
		return t.n, os.NewSyscallError("write", t.err)
	}
	return t.n, nil
}

// read is called when the socket may be readable, and reports whether the transfer is
// done.
func (t *transfer) read(fd uintptr) bool {
	t.n, t.err = rawsocket.Read(fd, t.p)
	return t.err != syscall.EAGAIN
}

// write is called when the socket may take more, and reports whether all is written.
func (t *transfer) write(fd uintptr) bool {
	for t.n < len(t.p) {
		n, e := rawsocket.Write(fd, t.p[t.n:])
		switch e {
		case 0:
			t.n += n
		case syscall.EAGAIN:
			return false
		default:
			t.err = e
			return true
		}
	}
	return true
}
