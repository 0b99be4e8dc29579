package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// refuse answers in the primary's place, with a field that says so, and ends the
// connection.
func (c *conn) refuse(status int, why string) {
	c.writeAnswer(status, why, true)
	c.linger()
}

// writeAnswer writes an answer of the proxy's own.
func (c *conn) writeAnswer(status int, why string, last bool) {
	text := "tailscope mirror: " + why + "\n"
	b := http1.AppendStatusLine(nil, status, []byte(http.StatusText(status)))
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\n"...)
	b = http1.AppendField(b, "Tailscope-Reason", why)
	b = http1.AppendField(b, "Content-Length", strconv.Itoa(len(text)))
	if last {
		b = append(b, "Connection: close\r\n"...)
	} else if c.minor == 0 {
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if string(c.method) != "HEAD" {
		b = append(b, text...)
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(lingerFor))
	_, _ = c.nc.Write(b)
	_ = c.nc.SetWriteDeadline(time.Time{})
}

// unreached answers a request for which there is no connection to the primary. It is
// not copied, because the primary does not get it.
func (c *conn) unreached(d choose.Decision, err error) {
	c.x = c.p.o.Unreached(&d)
	now := c.p.o.Now()
	c.leg = pair.Leg{Start: now, End: now, Cause: dialCause(err)}
	c.end()
	status := http.StatusBadGateway
	if c.leg.Cause == pair.ConnectTime {
		status = http.StatusGatewayTimeout
	}
	if why := "the primary is not reached: " + plainly(err); c.whole && !c.last {
		c.writeAnswer(status, why, false)
	} else {
		c.refuse(status, why)
	}
}

// failed ends a request to which no answer came.
func (c *conn) failed(cause pair.Cause) bool {
	if c.up != nil {
		c.up.close()
	}
	var bad *http1.Error
	if c.pump.broke.Load() {
		// The client broke off its body, or sent a malformed one.
		c.joinPump()
		cause, bad = pair.ClientClosed, c.pump.bad
	}
	c.leg.End, c.leg.Cause = c.p.o.Now(), cause
	c.end()
	switch cause {
	case pair.ClientClosed:
		if bad == nil {
			return false
		}
		c.refuse(bad.Status, bad.Reason)
	case pair.TimedOut:
		c.refuse(http.StatusGatewayTimeout, fmt.Sprintf("the primary gave no answer within %v", c.p.o.PrimaryTimeout))
	case pair.BadAnswer:
		c.refuse(http.StatusBadGateway, "the answer of the primary is not HTTP/1.1")
	case pair.Reset:
		c.refuse(http.StatusBadGateway, "the primary ended the connection before it answered")
	case pair.Stopped:
		c.refuse(http.StatusBadGateway, "the mirror was stopped before the primary answered")
	default:
		c.refuse(http.StatusBadGateway, "the primary is not reached: "+cause.String())
	}
	return false
}

// whyInterrupted returns the reason why a wait for the primary was interrupted.
func (c *conn) whyInterrupted() pair.Cause {
	if c.p.ctx.Err() != nil {
		return pair.Stopped
	}
	if c.wasLost {
		return pair.ClientClosed
	}
	return pair.TimedOut
}

// breakOff ends the connection so that the client sees that its answer is incomplete.
// If the answer ends with the connection, that takes a reset.
func (c *conn) breakOff(reset bool) {
	if c.up != nil {
		c.up.close()
		c.up = nil
	}
	if t := socket(c.nc); t != nil {
		if reset {
			_ = t.SetLinger(0)
		}
		t.Close() // below TLS, which would say goodbye
	}
	c.nc.Close()
	c.joinPump()
}

func dialCause(err error) pair.Cause {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return pair.ConnectTime
	case strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		return pair.Handshake
	}
	return pair.Refused
}

// plainly returns an error in one line, with printable characters only.
func plainly(err error) string {
	var op *net.OpError
	text := err.Error()
	if errors.As(err, &op) && op.Addr != nil {
		text = op.Addr.String() + ": " + op.Err.Error()
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
}
