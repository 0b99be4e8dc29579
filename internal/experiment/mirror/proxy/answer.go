package proxy

import (
	"io"

	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/http1"
)

// readAnswer reads until the head of the final answer is in c.answer, and passes on
// interim answers. heard reports whether any byte of the primary arrived.
func (c *conn) readAnswer() (cause pair.Cause, heard bool) {
	c.br, c.bw = 0, 0
	seen, first := 0, int64(0)
	for {
		buf := c.back[c.br:c.bw]
		if len(buf) > 0 && (seen == 0 || http1.Ends(buf, seen)) {
			n, err := c.answer.ParseResponse(buf, c.method)
			if err != nil {
				return pair.BadAnswer, true
			}
			if n > 0 {
				c.br += n
				a := &c.answer
				if a.Status/100 != 1 || a.Status == 101 {
					if a.Status == 101 && !c.upgrade {
						return pair.BadAnswer, true
					}
					c.leg.FirstByte, c.leg.Status = first, a.Status
					return pair.None, true
				}
				if cause := c.informational(); cause != pair.None {
					return cause, true
				}
				seen, first = 0, c.lastAt
				continue
			}
		}
		seen = len(buf)
		if c.bw == len(c.back) {
			if seen >= maxAnswer {
				return pair.BadAnswer, true
			}
			if c.br > 0 {
				c.bw, c.br = copy(c.back, buf), 0
			} else {
				c.back = append(c.back, make([]byte, len(c.back))...)
			}
		}
		n, err := c.up.nc.Read(c.back[c.bw:])
		if n == 0 && err != nil {
			return pair.Reset, heard
		}
		c.lastAt = c.p.o.Now()
		if heard = true; seen == 0 {
			first = c.lastAt
		}
		c.bw += n
	}
}

// informational passes on an answer that is not the final one. HTTP/1.0 has none.
func (c *conn) informational() pair.Cause {
	if c.minor == 0 {
		return pair.None
	}
	a := &c.answer
	if a.Status == 100 {
		c.expect = false
	}
	c.out = http1.AppendStatusLine(c.out[:0], a.Status, a.Reason)
	c.out = append(a.AppendFields(c.out, http1.HopByHop), "\r\n"...)
	if _, err := c.nc.Write(c.out); err != nil {
		return pair.ClientClosed
	}
	if c.enter(waiting) {
		return pair.TimedOut
	}
	return pair.None
}

// relay passes the answer on whose head is in c.answer, and reports whether the
// client's connection goes on.
func (c *conn) relay() bool {
	a := &c.answer
	c.got.Reset(a)
	// HTTP/1.0 knows no chunks: the body ends with the connection.
	bare := a.Framing == http1.Chunked && c.minor == 0
	last := c.last || bare || a.Framing == http1.UntilClose || c.p.draining.Load()
	// A client without 100 Continue may never send its body, or may.
	last = last || c.expect && !c.whole || c.pump.active && a.Close
	c.out = c.appendAnswer(c.out[:0], bare, last)
	if c.x.Keep() {
		c.leg.Answer = pair.AnswerOf(a, c.p.o.KeepLimit)
	}
	send, cause := c.piece(c.back[c.br:c.bw], bare)
	c.out = append(c.out, send...)
	send = c.out
	var buf *[bigBytes]byte
	for {
		done := cause == pair.None && c.got.Done()
		if c.enter(sending) {
			c.spoiled = true
		}
		if done {
			c.giveBack()
		}
		if cause == pair.None || len(send) > 0 {
			if _, err := c.nc.Write(send); err != nil && !done {
				cause = pair.ClientClosed
			} else if err != nil {
				last = true
			}
		}
		if done || cause != pair.None {
			break
		}
		if c.enter(relaying) {
			c.spoiled = true
			cause = pair.ClientClosed
			break
		}
		if buf == nil {
			buf = big.Get().(*[bigBytes]byte)
			defer big.Put(buf)
		}
		n, err := c.up.nc.Read(buf[:])
		if n > 0 {
			c.lastAt = c.p.o.Now()
			send, cause = c.piece(buf[:n], bare)
			continue
		}
		c.lastAt = c.p.o.Now()
		if err == io.EOF && c.got.AtEOF() {
			break
		}
		if cause = pair.Reset; c.enter(busy) {
			c.spoiled, cause = true, c.whyInterrupted()
		} else if c.pump.broke.Load() {
			cause = pair.ClientClosed
		}
		break
	}
	c.leg.End, c.leg.Bytes, c.leg.Cause = c.lastAt, c.got.Bytes, cause
	if cause != pair.None {
		c.end()
		c.breakOff(bare || a.Framing == http1.UntilClose)
		return false
	}
	c.end()
	if last {
		if c.pump.active || c.r < c.w {
			c.linger()
		}
		return false
	}
	if c.pump.active {
		c.enter(joining)
		c.joinPump()
		if c.enter(busy) {
			return false
		}
		c.spoiled = c.spoiled || c.pump.deaf
		c.giveBack()
	}
	if p := &c.pump; p.clientClosed || p.bad != nil {
		c.linger() // where the next request begins is not known
		return false
	}
	return true
}

// end ends the primary's leg. The exchange must not be used afterwards.
func (c *conn) end() {
	c.x.EndPrimary(c.leg)
	c.x = nil
	c.leg.Answer = nil
}

// giveBack gives the primary's connection back if nothing is under way on it.
func (c *conn) giveBack() {
	if c.up == nil || !c.bodySent() && c.pump.active {
		return
	}
	up := c.up
	c.up = nil
	if c.spoiled || c.pump.deaf || c.pump.clientClosed || c.pump.bad != nil || c.answer.Close || c.extra() || up.more() {
		up.close()
		return
	}
	c.p.primary.putUpstream(up)
}

// extra reports whether the primary sent more than its answer.
func (c *conn) extra() bool { return c.br < c.bw }

// piece parses bytes of the answer's body and returns those that the client gets.
func (c *conn) piece(p []byte, bare bool) ([]byte, pair.Cause) {
	kept := c.leg.Answer
	if !bare && kept == nil {
		n, err := c.got.Skip(p)
		c.took(n, len(p))
		if err != nil {
			return p[:n], pair.BadAnswer
		}
		return p[:n], pair.None
	}
	taken, plain := 0, 0
	for taken < len(p) && !c.got.Done() {
		n, data, err := c.got.Next(p[taken:])
		if kept != nil {
			kept.Add(data, c.p.o.KeepLimit)
		}
		if bare {
			plain += copy(p[plain:], data)
		}
		if taken += n; err != nil {
			return p[:0], pair.BadAnswer
		}
	}
	c.took(taken, len(p))
	if bare {
		return p[:plain], pair.None
	}
	return p[:taken], pair.None
}

// took notes whether bytes are left that do not belong to the answer.
func (c *conn) took(n, of int) {
	c.br, c.bw = 0, of-n
}

// appendAnswer appends the answer's head for the client.
func (c *conn) appendAnswer(b []byte, bare, last bool) []byte {
	a := &c.answer
	drop := http1.HopByHop
	if !bare {
		drop &^= http1.Of(http1.TransferEncoding)
	}
	b = http1.AppendStatusLine(b, a.Status, a.Reason)
	b = a.AppendFields(b, drop)
	switch {
	case a.Status == 426 && a.Upgrade != nil: // what to upgrade to, RFC 9110 section 15.5.22
		b = http1.AppendField(b, "Upgrade", a.Upgrade)
		if last {
			b = append(b, "Connection: close, Upgrade\r\n"...)
		} else {
			b = append(b, "Connection: Upgrade\r\n"...)
		}
	case last:
		b = append(b, "Connection: close\r\n"...)
	case c.minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}
