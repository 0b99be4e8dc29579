package load

import (
	"fmt"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream returns the stream of an answer's frame, or nil if nobody waits for it any
// more.
func (c *conn2) stream(id uint32) (*stream, error) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if id == 0 || id%2 == 0 || id >= c.next {
		return nil, fmt.Errorf("%w: a frame of stream %d, which was not opened", errFrame, id)
	}
	return c.streams[id], nil
}

// headers reads a header block, its continuations too.
func (c *conn2) headers(f frame) error {
	p, err := unpad(f)
	if err != nil {
		return err
	}
	if f.flags&http2.FlagHeadersPriority != 0 {
		if len(p) < 5 {
			return fmt.Errorf("%w: a priority of %d bytes", errFrame, len(p))
		}
		p = p[5:]
	}
	size, last := f.size, f
	if f.flags&http2.FlagHeadersEndHeaders == 0 {
		c.block = append(c.block[:0], p...)
		for last.flags&http2.FlagHeadersEndHeaders == 0 {
			if last, err = c.readFrame(); err != nil {
				return err
			}
			if last.kind != http2.FrameContinuation || last.id != f.id || len(c.block)+len(last.payload) > maxBlock {
				return fmt.Errorf("%w: a header block without an end", errFrame)
			}
			c.block = append(c.block, last.payload...)
			size += last.size
		}
		p = c.block
	}
	st, err := c.stream(f.id)
	if err != nil {
		return err
	}
	c.current, c.status = st, 0
	// The block is decoded even if nobody waits for it: the table belongs to the
	// whole connection.
	_, err = c.hpack.Write(p)
	if err == nil {
		err = c.hpack.Close()
	}
	c.current = nil
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if st == nil {
		return nil
	}
	st.answer.bytes += int64(size)
	if st.answer.first == 0 {
		st.answer.first = c.group.dispatcher.now()
	}
	if st.answer.status == 0 { // not a trailer
		switch {
		case c.status < 100 || c.status > 999:
			return fmt.Errorf("%w: an answer without a status", errFrame)
		case c.status < 200:
			st.header = st.header[:0]
		default:
			st.answer.status = c.status
		}
	}
	if f.flags&http2.FlagDataEndStream != 0 {
		c.complete(st)
	}
	return nil
}

// field handles a field of the block that is being decoded.
func (c *conn2) field(f hpack.HeaderField) {
	st := c.current
	switch {
	case st == nil:
	case f.Name == ":status":
		c.status, _ = strconv.Atoi(f.Value)
	case st.wants.header && st.answer.status == 0:
		st.header = append(st.header, Field{Name: f.Name, Value: f.Value})
	}
}

func (c *conn2) data(f frame) error {
	p, err := unpad(f)
	if err != nil {
		return err
	}
	if c.grown += int64(len(f.payload)); c.grown > refillWindowBelow {
		c.group.mu.Lock()
		c.out = appendWindow(c.out, 0, uint32(c.grown))
		c.group.mu.Unlock()
		c.grown = 0
	}
	st, err := c.stream(f.id)
	if st == nil {
		return err
	}
	if st.answer.status == 0 {
		return fmt.Errorf("%w: a body without a header", errFrame)
	}
	st.answer.bytes += int64(f.size)
	if st.wants.body {
		st.kept = append(st.kept, p[:min(len(p), max(0, c.group.s.o.BodyLimit-len(st.kept)))]...)
	}
	if f.flags&http2.FlagDataEndStream != 0 {
		c.complete(st)
	}
	return nil
}

// unpad returns a frame's payload without its padding.
func unpad(f frame) ([]byte, error) {
	p := f.payload
	if f.flags&http2.FlagDataPadded == 0 {
		return p, nil
	}
	if len(p) < 1 || int(p[0]) >= len(p) {
		return nil, fmt.Errorf("%w: more padding than frame", errFrame)
	}
	return p[1 : len(p)-int(p[0])], nil
}

// complete accounts for a whole answer, and sends the next request.
func (c *conn2) complete(st *stream) {
	g := c.group
	g.mu.Lock()
	if st.state != flying || c.streams[st.id] != st { // given up meanwhile
		g.mu.Unlock()
		return
	}
	if len(st.left) > 0 { // answered before all was said
		c.reset(st.id, http2.ErrCodeNo)
	}
	c.removeStream(st)
	st.state = idle
	g.pump()
	g.mu.Unlock()
	st.answer.end = g.dispatcher.now()
	if st.answer.status == 0 {
		st.answer.cause = NotHTTP
	} else if k := g.s.o.Checker; k != nil {
		st.answer.check = k.Check(st.line.o.Query, st.answer.status, st.header, st.kept)
	}
	if g.dispatcher.done(st.line, st.answer, true) {
		st.submit(false)
	}
}
