package http1

import "bytes"

// ParseRequest parses a request's head at the start of buf and returns its length, or 0
// if buf does not hold all of it. An error is an *[Error].
func (h *Head) ParseRequest(buf []byte) (int, error) {
	h.reset(buf)
	p := 0
	// Empty lines before a request are skipped (RFC 9112 section 2.2).
	for p < len(buf) && (buf[p] == '\r' || buf[p] == '\n') {
		if buf[p] == '\r' && p+1 < len(buf) && buf[p+1] != '\n' {
			return 0, errBareCR
		}
		p++
	}
	line, p, err := h.line(p)
	if p == 0 || err != nil {
		return 0, err
	}
	if err := h.requestLine(line); err != nil {
		return 0, err
	}
	n, err := h.fields(p, true)
	if n == 0 || err != nil {
		return 0, err
	}
	if err := h.requestFraming(); err != nil {
		return 0, err
	}
	return n, nil
}

// ParseResponse parses the head of an answer to a request of that method at the start of
// buf. It returns the head's length, or 0 if buf does not hold all of it. It unfolds
// folded lines within buf. An error is an *[Error].
func (h *Head) ParseResponse(buf []byte, method []byte) (int, error) {
	h.reset(buf)
	line, p, err := h.line(0)
	if p == 0 || err != nil {
		return 0, err
	}
	if err := h.statusLine(line); err != nil {
		return 0, err
	}
	n, err := h.fields(p, false)
	if n == 0 || err != nil {
		return 0, err
	}
	if err := h.responseFraming(method); err != nil {
		return 0, err
	}
	return n, nil
}

// Skim parses the head of an answer as ParseResponse does, for callers that forward
// nothing. Fields holds the fields that determine the answer's end, or all if all is
// true. Skim does not check names and values, leaves out folded lines and does not
// change buf. A length may be a list of one number, and chunked may follow other
// codings.
func (h *Head) Skim(buf []byte, method []byte, all bool) (int, error) {
	h.reset(buf)
	h.lax = true
	line, p, err := h.line(0)
	if p == 0 || err != nil {
		return 0, err
	}
	if err := h.statusLine(line); err != nil {
		return 0, err
	}
	for {
		line, after, err := h.line(p)
		if after == 0 || err != nil {
			return 0, err
		}
		if p = after; len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			continue
		}
		i := bytes.IndexByte(line, ':')
		if i < 1 {
			return 0, errFieldName
		}
		if k := lookUpField(line[:i]); all || (framing | 1<<Connection).Has(k) {
			h.Has |= 1 << k &^ 1
			h.Fields = append(h.Fields, Field{Name: line[:i], Value: trim(line[i+1:]), Known: k})
		}
	}
	if err := h.responseFraming(method); err != nil {
		return 0, err
	}
	return p, nil
}

// Ends reports whether buf holds the empty line that ends a head. The first seen bytes
// were examined before. It is cheaper than parsing again.
func Ends(buf []byte, seen int) bool {
	i := max(seen-3, 0)
	for {
		j := bytes.IndexByte(buf[i:], '\n')
		if j < 0 {
			return false
		}
		i += j + 1
		rest := buf[i:]
		if len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return true
		}
	}
}

// Get returns the value of the first field of that name, or nil if there is none.
func (h *Head) Get(name []byte) []byte {
	for i := range h.Fields {
		if f := &h.Fields[i]; Is(f.Name, name) {
			return f.Value
		}
	}
	return nil
}

// Find returns the first field of a known name, or nil if there is none.
func (h *Head) Find(k Known) *Field {
	if !h.Has.Has(k) {
		return nil
	}
	for i := range h.Fields {
		if h.Fields[i].Known == k {
			return &h.Fields[i]
		}
	}
	return nil
}

func (h *Head) reset(buf []byte) {
	*h = Head{buf: buf, Fields: h.Fields[:0]}
}

// line returns the line at p without its end, and where the next one starts, or 0 if the
// line has not ended.
func (h *Head) line(p int) (line []byte, after int, err error) {
	i := bytes.IndexByte(h.buf[p:], '\n')
	if i < 0 {
		return nil, 0, nil
	}
	line = h.buf[p : p+i]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	return line, p + i + 1, nil
}

func (h *Head) requestLine(line []byte) error {
	i := bytes.IndexByte(line, ' ')
	j := bytes.LastIndexByte(line, ' ')
	if i < 1 || j == i {
		return errRequestLine
	}
	h.Method, h.Target = line[:i], line[i+1:j]
	if !Token(h.Method) {
		return errMethod
	}
	if len(h.Target) == 0 || !Visible(h.Target) {
		return errTarget
	}
	minor, err := parseVersion(line[j+1:])
	h.Minor = minor
	return err
}

func (h *Head) statusLine(line []byte) error {
	if len(line) < 12 || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return errStatusLine
	}
	minor, err := parseVersion(line[:8])
	if err != nil {
		return errStatusLine
	}
	status, ok := parseNumber(line[9:12])
	if !ok || status < 100 {
		return errStatusLine
	}
	if len(line) > 13 {
		h.Reason = line[13:]
		if hasControl(h.Reason) {
			return errStatusLine
		}
	}
	h.Minor, h.Status = minor, int(status)
	return nil
}

// parseVersion parses HTTP/1.x. Minor versions above 1 count as 1 (RFC 9110 section 6.2).
func parseVersion(p []byte) (minor int, err error) {
	if len(p) != 8 || string(p[:5]) != "HTTP/" || p[6] != '.' ||
		p[5] < '0' || p[5] > '9' || p[7] < '0' || p[7] > '9' {
		return 0, errRequestLine
	}
	if p[5] != '1' {
		return 0, errVersion
	}
	if p[7] == '0' {
		return 0, nil
	}
	return 1, nil
}

// fields parses field lines from p to the empty line and returns the end of that.
func (h *Head) fields(p int, strict bool) (int, error) {
	for {
		line, after, err := h.line(p)
		if after == 0 || err != nil {
			return 0, err
		}
		if len(line) == 0 {
			return after, nil
		}
		f := Field{start: uint32(p), end: uint32(after), odd: after-p-len(line) != 2}
		if line[0] == ' ' || line[0] == '\t' {
			if strict || len(h.Fields) == 0 {
				return 0, errFold
			}
			if hasControl(line) {
				return 0, errFieldValue
			}
			h.unfold(p, line)
			p = after
			continue
		}
		i := 0
		for i < len(line) && token[line[i]] {
			i++
		}
		f.Name = line[:i]
		if !strict {
			// A proxy removes white space before the colon (RFC 9112 section 5.1).
			for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
				i++
				f.odd = true
			}
		}
		if len(f.Name) == 0 || i == len(line) || line[i] != ':' {
			return 0, errFieldName
		}
		f.Value = trim(line[i+1:])
		if hasControl(f.Value) {
			if bytes.IndexByte(f.Value, '\r') >= 0 {
				return 0, errBareCR
			}
			if strict || bytes.IndexByte(f.Value, 0) >= 0 {
				return 0, errFieldValue
			}
		}
		f.Known = lookUpField(f.Name)
		h.Has |= 1 << f.Known &^ 1
		h.Fields = append(h.Fields, f)
		p = after
	}
}

// unfold joins a folded line, which starts at p, to the field before it: the
// line end becomes spaces (RFC 9112 section 5.2).
func (h *Head) unfold(p int, line []byte) {
	f := &h.Fields[len(h.Fields)-1]
	for i := p - 1; i >= 0 && (h.buf[i] == '\n' || h.buf[i] == '\r'); i-- {
		h.buf[i] = ' '
	}
	if len(f.Value) == 0 {
		f.Value = trim(line)
	} else {
		// The value's slice has capacity up to the end of the buffer.
		from := cap(h.buf) - cap(f.Value)
		f.Value = trim(h.buf[from : p+len(line)])
	}
	f.odd = true
}

// TrailerFields parses trailer field lines as [Body.Trailer] returns them, and appends
// them to dst. The fields point into lines.
func TrailerFields(dst []Field, lines []byte) ([]Field, error) {
	h := Head{buf: lines, Fields: dst}
	for p := 0; p < len(lines); {
		line, after, _ := h.line(p)
		if after == 0 {
			return dst, errTrailer
		}
		i := bytes.IndexByte(line, ':')
		if i < 1 {
			return dst, errTrailer
		}
		h.Fields = append(h.Fields, Field{Name: line[:i], Value: trim(line[i+1:]), Known: lookUpField(line[:i]),
			start: uint32(p), end: uint32(after)})
		p = after
	}
	return h.Fields, nil
}
