package http1

import "strconv"

// AppendFields appends the field lines of h to dst in their order and case, except those
// in drop and those that the Connection field names. It does not append the empty line
// that ends a head.
func (h *Head) AppendFields(dst []byte, drop Mask) []byte {
	// Adjacent lines that are kept are copied in one piece.
	var from, to uint32
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Named || drop.Has(f.Known) || f.odd {
			if dst = append(dst, h.buf[from:to]...); f.odd && !f.Named && !drop.Has(f.Known) {
				dst = AppendField(dst, f.Name, f.Value)
			}
			from, to = f.end, f.end
			continue
		}
		if to != f.start {
			dst = append(dst, h.buf[from:to]...)
			from = f.start
		}
		to = f.end
	}
	return append(dst, h.buf[from:to]...)
}

// AppendField appends one field line.
func AppendField[N, V []byte | string](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendRequestLine appends a request line of HTTP/1.1.
func AppendRequestLine(dst, method, target []byte) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	return append(dst, " HTTP/1.1\r\n"...)
}

// AppendStatusLine appends a status line of HTTP/1.1.
func AppendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// AppendChunk appends p as one chunk. An empty p appends nothing, as an empty
// chunk would end the body.
func AppendChunk(dst, p []byte) []byte {
	if len(p) == 0 {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(len(p)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, p...)
	return append(dst, "\r\n"...)
}

// AppendEnd appends the chunk that ends a body. Trailer holds field lines with
// their line ends, and may be empty.
func AppendEnd(dst, trailer []byte) []byte {
	dst = append(dst, "0\r\n"...)
	dst = append(dst, trailer...)
	return append(dst, "\r\n"...)
}
