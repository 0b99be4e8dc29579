package http1

import "bytes"

const framing Mask = 1<<TransferEncoding | 1<<ContentLength

// connection reads the fields about the connection: whether it stays open, what is
// upgraded, which fields are not forwarded.
func (h *Head) connection() {
	h.Close = h.Minor == 0
	if !h.Has.Has(Connection) {
		return
	}
	var upgrade, closes, keeps bool
	for i := range h.Fields {
		if h.Fields[i].Known != Connection {
			continue
		}
		for rest := h.Fields[i].Value; rest != nil; {
			var option []byte
			switch option, rest = cutElement(rest); {
			case equalFold(option, "close"):
				closes = true
			case equalFold(option, "keep-alive"):
				keeps = true
			case equalFold(option, "upgrade"):
				upgrade = true
			default:
				h.name(option)
			}
		}
	}
	h.Close = closes || h.Minor == 0 && !keeps
	if upgrade {
		if f := h.Find(Upgrade); f != nil {
			h.Upgrade = f.Value
		}
	}
}

// name marks the fields that a Connection option names. Fields that change the message's
// meaning stay (RFC 9110 section 7.6.1: a sender must not name them).
func (h *Head) name(option []byte) {
	switch k := lookUpField(option); k {
	case Host, ContentLength, TransferEncoding, XForwardedFor, XForwardedHost, XForwardedProto:
		return
	}
	for i := range h.Fields {
		if f := &h.Fields[i]; Is(f.Name, option) {
			f.Named, h.named = true, true
		}
	}
}

// lengths parses the Content-Length fields; found is false if there are none. Equal
// repetitions count as one, and only the first is forwarded.
func (h *Head) lengths() (n int64, found bool, err error) {
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Known != ContentLength {
			continue
		}
		v, ok := parseNumber(f.Value)
		if !ok && h.lax {
			v, ok = parseRepeatedNumber(f.Value)
		}
		if !ok {
			return 0, true, errLength
		}
		if found {
			if v != n {
				return 0, true, errLengths
			}
			f.Named, h.named = true, true
		}
		n, found = v, true
	}
	return n, found, nil
}

// chunked returns an error if chunked is not the only transfer coding.
func (h *Head) chunked() error {
	one := false
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Known != TransferEncoding {
			continue
		}
		if one || !equalFold(f.Value, "chunked") {
			return errCoding
		}
		one = true
	}
	return nil
}

// chunkedLast reports whether chunked is the last of the transfer codings.
func (h *Head) chunkedLast() (last bool) {
	for i := range h.Fields {
		f := &h.Fields[i]
		if f.Known != TransferEncoding {
			continue
		}
		for rest := f.Value; rest != nil; {
			var coding []byte
			coding, rest = cutElement(rest)
			last = equalFold(coding, "chunked")
		}
	}
	return last
}

func (h *Head) requestFraming() error {
	h.connection()
	if equalFold(h.Upgrade, "h2c") {
		// An offer of h2c may be ignored (RFC 9113 section 3.1), and is void without
		// HTTP2-Settings, which is not forwarded.
		h.Upgrade = nil
	}
	if err := h.host(); err != nil {
		return err
	}
	if f := h.Find(Expect); f != nil {
		h.Expect = equalFold(f.Value, "100-continue") && h.Minor > 0
	}
	if f := h.Find(TE); f != nil {
		for rest := f.Value; rest != nil && !h.Trailers; {
			var coding []byte
			coding, rest = cutElement(rest)
			h.Trailers = equalFold(coding, "trailers")
		}
	}
	if h.Has&framing == 0 {
		return nil
	}
	if h.Has.Has(TransferEncoding) {
		if h.Has.Has(ContentLength) {
			return errLengthTE
		}
		if h.Minor == 0 {
			return errCoding10
		}
		h.Framing = Chunked
		return h.chunked()
	}
	n, _, err := h.lengths()
	h.Framing, h.Length = Length, n
	return err
}

func (h *Head) host() error {
	n := 0
	for i := range h.Fields {
		if f := &h.Fields[i]; f.Known == Host {
			h.Host = f.Value
			n++
		}
	}
	if n > 1 || n == 0 && h.Minor > 0 {
		return errHost
	}
	if h.Target[0] != '/' {
		if authority := authority(h.Target); authority != nil {
			h.Host = authority
		}
	}
	for _, c := range h.Host {
		if c <= ' ' || c == 0x7f || c == ',' || c == '/' || c == '\\' || c == '@' {
			return errHostValue
		}
	}
	return nil
}

// OriginForm returns the path and query of a target in absolute form, and any other
// target unchanged (RFC 9112 section 3.2).
func OriginForm(target []byte) []byte {
	a := authority(target)
	if a == nil {
		return target
	}
	i := bytes.IndexByte(target, ':')
	if rest := target[i+3+len(a):]; len(rest) == 0 || rest[0] != '/' {
		return append([]byte("/"), rest...)
	} else {
		return rest
	}
}

// authority returns the authority of a target in absolute form, or nil for any other
// form.
func authority(target []byte) []byte {
	i := bytes.IndexByte(target, ':')
	if i < 1 || !bytes.HasPrefix(target[i:], []byte("://")) {
		return nil
	}
	for _, c := range target[:i] {
		if !token[c] {
			return nil
		}
	}
	target = target[i+3:]
	if i := bytes.IndexAny(target, "/?#"); i >= 0 {
		target = target[:i]
	}
	return target
}

func (h *Head) responseFraming(method []byte) error {
	h.connection()
	switch {
	case h.Status == 101 || string(method) == "CONNECT" && h.Status/100 == 2:
		h.Framing = Tunnel
		return nil
	case h.Status/100 == 1 || h.Status == 204 || h.Status == 304 || string(method) == "HEAD":
		_, _, err := h.lengths()
		return err
	case h.Has.Has(TransferEncoding):
		if h.lax {
			if h.Framing = Chunked; !h.chunkedLast() {
				h.Framing, h.Close = UntilClose, true
			}
			return nil
		}
		if h.Minor == 0 {
			return errCoding10
		}
		// Transfer-Encoding overrides the length (RFC 9112 section 6.3), which is
		// removed.
		for i := range h.Fields {
			if f := &h.Fields[i]; f.Known == ContentLength {
				f.Named, h.named = true, true
			}
		}
		h.Framing = Chunked
		return h.chunked()
	}
	n, found, err := h.lengths()
	if found {
		h.Framing, h.Length = Length, n
		return err
	}
	h.Framing, h.Close = UntilClose, true
	return nil
}
