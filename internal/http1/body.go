package http1

// Body finds the end of a message's body in the bytes that were read. Reset it first.
type Body struct {
	framing Framing
	state   state
	name    bool
	lax     bool
	digits  uint8
	line    int32 // bytes of the line of a chunk's size, or of the trailer
	left    int64 // bytes left of the body, or of the chunk
	trailer []byte
	// Bytes counts the body's bytes so far, without chunk framing.
	Bytes int64
}

type state uint8

const (
	inData state = iota
	inSize
	inExtension
	inSizeSpace // after the size, where an extension or the line end follows
	inSizeLF
	inDataCR
	inDataLF
	inTrailerStart
	inTrailer
	inTrailerLF
	inEndLF
	done
)

const (
	maxChunkLine = 4 << 10
	maxTrailer   = 32 << 10
)

// Reset prepares b for the body of the message with head h.
func (b *Body) Reset(h *Head) { b.ResetTo(h.Framing, h.Length) }

// ResetTo prepares b for a body of framing f.
func (b *Body) ResetTo(f Framing, length int64) {
	*b = Body{framing: f, left: length, trailer: b.trailer[:0]}
	switch {
	case f == Chunked:
		b.state, b.left = inSize, 0
	case f == None, f == Length && length == 0:
		b.state = done
	}
}

// ResetLax prepares b for the body of a skimmed answer. Lines of chunks may end in a
// bare LF, and the trailer is skipped unchecked.
func (b *Body) ResetLax(h *Head) {
	b.Reset(h)
	b.lax = true
}

// Done reports whether the message is complete. A body that ends with the connection is
// never done; see [Body.AtEOF].
func (b *Body) Done() bool { return b.state == done }

// AtEOF reports whether the message is complete if the connection ends here.
func (b *Body) AtEOF() bool { return b.state == done || b.framing == UntilClose }

// Left returns how many bytes of the body are known to follow: all of them if its length
// is known, else those of the chunk.
func (b *Body) Left() int64 {
	if b.state != inData {
		return 0
	}
	return b.left
}

// Trailer returns the trailer's field lines as received, with line ends and without the
// empty line. It is valid until Reset.
func (b *Body) Trailer() []byte { return b.trailer }

// Next consumes p up to the end of the first run of the body's bytes. It returns that
// run as data, a part of p that may be empty, and the n bytes consumed. It consumes
// nothing once the message is complete; called until then, it consumes all of p. An
// error is an *[Error], after which b is invalid.
func (b *Body) Next(p []byte) (n int, data []byte, err error) {
	switch {
	case b.state == done || len(p) == 0:
		return 0, nil, nil
	case b.framing == UntilClose || b.framing == Tunnel:
		b.Bytes += int64(len(p))
		return len(p), p, nil
	case b.framing == Chunked:
		if n, err = b.frame(p); err != nil || b.state != inData {
			return n, nil, err
		}
	}
	data = p[n:]
	if int64(len(data)) > b.left {
		data = data[:b.left]
	}
	b.left -= int64(len(data))
	b.Bytes += int64(len(data))
	if b.left == 0 {
		if b.state = done; b.framing == Chunked {
			b.state = inDataCR
		}
	}
	return n + len(data), data, nil
}

// Skip consumes the bytes of p that belong to the message, and returns their number.
func (b *Body) Skip(p []byte) (n int, err error) {
	for n < len(p) && b.state != done {
		m, _, err := b.Next(p[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// frame consumes framing from the front of p until data follow or the message is
// complete (RFC 9112 section 7.1). Line ends are CR LF only.
func (b *Body) frame(p []byte) (int, error) {
	for i, c := range p {
		switch b.state {
		case inData, done:
			return i, nil
		case inSize:
			v := unhex(c)
			if v >= 0 {
				if b.digits++; b.digits > 15 {
					return i, errChunkSize
				}
				b.left = b.left<<4 | int64(v)
				continue
			}
			if b.digits == 0 {
				return i, errChunkSize
			}
			b.line = 0
			if err := b.afterSize(c); err != nil {
				return i, err
			}
		case inSizeSpace:
			if err := b.afterSize(c); err != nil {
				return i, err
			}
			if b.line++; b.line > maxChunkLine {
				return i, errChunkLine
			}
		case inExtension:
			if b.line++; b.line > maxChunkLine {
				return i, errChunkLine
			}
			switch {
			case c == '\r':
				b.state = inSizeLF
			case c == '\n' && b.lax:
				b.endSize()
			case c < ' ' && c != '\t' || c == 0x7f:
				return i, errChunkSize
			}
		case inSizeLF:
			if c != '\n' {
				return i, errChunkSize
			}
			b.endSize()
		case inDataCR:
			switch {
			case c == '\r':
				b.state = inDataLF
			case c == '\n' && b.lax:
				b.state = inSize
			default:
				return i, errChunkEnd
			}
		case inDataLF:
			if c != '\n' {
				return i, errChunkEnd
			}
			b.state = inSize
		default:
			if err := b.trailerByte(c); err != nil {
				return i, err
			}
		}
	}
	return len(p), nil
}

// afterSize consumes the byte after a size: space, an extension or the line end.
func (b *Body) afterSize(c byte) error {
	switch c {
	case '\r':
		b.state = inSizeLF
	case ';':
		b.state = inExtension
	case ' ', '\t':
		b.state = inSizeSpace
	case '\n':
		if b.lax {
			b.endSize()
			return nil
		}
		return errChunkSize
	default:
		return errChunkSize
	}
	return nil
}

// endSize ends the line of a size.
func (b *Body) endSize() {
	b.digits = 0
	if b.state = inData; b.left == 0 {
		b.state, b.line = inTrailerStart, 0
	}
}

func (b *Body) trailerByte(c byte) error {
	if b.lax {
		return b.skipTrailer(c)
	}
	switch b.state {
	case inTrailerStart:
		if c == '\r' {
			b.state = inEndLF
			return nil
		}
		if !token[c] {
			return errTrailer
		}
		b.state, b.name = inTrailer, true
	case inTrailer:
		switch {
		case b.name && c == ':':
			b.name = false
		case b.name && !token[c]:
			return errTrailer
		case c == '\r':
			b.state = inTrailerLF
		case c < ' ' && c != '\t' || c == 0x7f:
			return errTrailer
		}
	case inTrailerLF:
		if c != '\n' {
			return errTrailer
		}
		b.state = inTrailerStart
	case inEndLF:
		if c != '\n' {
			return errTrailer
		}
		b.state = done
		return nil
	}
	if len(b.trailer) == maxTrailer {
		return errTrailerLong
	}
	b.trailer = append(b.trailer, c)
	return nil
}

// skipTrailer consumes one byte of a skipped trailer, which ends with an empty line.
func (b *Body) skipTrailer(c byte) error {
	if b.line++; b.line > maxTrailer {
		return errTrailerLong
	}
	switch {
	case c == '\n' && b.state != inTrailer:
		b.state = done
	case c == '\n':
		b.state = inTrailerStart
	case c == '\r' && b.state == inTrailerStart:
		b.state = inEndLF
	default:
		b.state = inTrailer
	}
	return nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
