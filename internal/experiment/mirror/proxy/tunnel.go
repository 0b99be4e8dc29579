package proxy

import (
	"io"
	"net"

	"tailscope/internal/http1"
)

// tunnel passes bytes in both directions, after the primary has agreed to
// another protocol (101) or to a tunnel (CONNECT). An end in one direction is
// passed on, an error ends both.
func (c *conn) tunnel() {
	a := &c.answer
	c.joinPump()
	c.leg.End = c.lastAt
	c.end()
	if c.enter(busy) {
		return
	}
	out := http1.AppendStatusLine(c.out[:0], a.Status, a.Reason)
	out = a.AppendFields(out, http1.Of(http1.KeepAlive, http1.ProxyConnection, http1.TransferEncoding))
	out = append(append(out, "\r\n"...), c.back[c.br:c.bw]...)
	up := c.up.nc
	if _, err := c.nc.Write(out); err != nil {
		return
	}
	if c.r < c.w {
		if _, err := up.Write(c.in[c.r:c.w]); err != nil {
			return
		}
	}
	c.release()
	c.in = nil
	stop := make(chan struct{})
	c.p.wg.Go(func() {
		select {
		case <-c.p.ctx.Done():
			c.nc.Close()
			up.Close()
		case <-stop:
		}
	})
	defer close(stop)
	done := make(chan struct{})
	c.p.wg.Go(func() {
		defer close(done)
		pass(up, c.nc)
	})
	pass(c.nc, up)
	<-done
}

// pass copies until from ends, and passes the end on.
func pass(to, from net.Conn) {
	// Between two sockets the kernel copies.
	var w io.Writer = to
	var r io.Reader = from
	if t := tcp(to); t != nil {
		w = t
	}
	if t := tcp(from); t != nil {
		r = t
	}
	_, err := io.Copy(w, r)
	if h, ok := to.(closeWriter); ok && err == nil {
		if h.CloseWrite() == nil {
			return
		}
	}
	to.Close()
	from.Close()
}
