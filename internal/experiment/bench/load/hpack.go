package load

import "strconv"

// appendBlock appends a request's header block (RFC 7541). No field enters the
// dynamic table, so that a block is the same on every connection and can be made
// before it is known on which it goes.
func appendBlock(b []byte, r *Request, o *Options) []byte {
	switch r.Method {
	case "", "GET":
		b = append(b, 0x80|2)
	case "POST":
		b = append(b, 0x80|3)
	default:
		b = appendText(append(b, 2), r.Method)
	}
	if o.TLS != nil {
		b = append(b, 0x80|7)
	} else {
		b = append(b, 0x80|6)
	}
	host := o.Host
	for i := range r.Header {
		if nameIs(r.Header[i].Name, "host") {
			host = r.Header[i].Value
		}
	}
	b = appendText(append(b, 1), host)
	if r.Path == "/" || r.Path == "" {
		b = append(b, 0x80|4)
	} else {
		b = appendText(append(b, 4), r.Path)
	}
	for i := range r.Header {
		f := &r.Header[i]
		if !ofConnection(f.Name) {
			b = appendLower(append(b, 0), f.Name)
			b = appendText(b, f.Value)
		}
	}
	if len(r.Body) > 0 || r.Method == "POST" || r.Method == "PUT" || r.Method == "PATCH" {
		b = append(b, 0x0f, 28-15) // content-length, of the static table
		var digits [20]byte
		n := strconv.AppendInt(digits[:0], int64(len(r.Body)), 10)
		b = append(appendInt(b, 0, 7, len(n)), n...)
	}
	return b
}

// ofConnection reports whether a field belongs to an HTTP/1.1 connection and not to
// HTTP/2 (RFC 9113, section 8.2.2), or is made here.
func ofConnection(name string) bool {
	switch len(name) {
	case 4:
		return nameIs(name, "host")
	case 7:
		return nameIs(name, "upgrade")
	case 10:
		return nameIs(name, "connection") || nameIs(name, "keep-alive")
	case 14:
		return nameIs(name, "content-length")
	case 16:
		return nameIs(name, "proxy-connection")
	case 17:
		return nameIs(name, "transfer-encoding")
	}
	return false
}

func appendText(b []byte, s string) []byte { return append(appendInt(b, 0, 7, len(s)), s...) }

func appendLower(b []byte, s string) []byte {
	b = appendInt(b, 0, 7, len(s))
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// appendInt appends an integer with a prefix of bits bits (RFC 7541 section 5.1).
func appendInt(b []byte, flags byte, bits uint, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(b, flags|byte(n))
	}
	b = append(b, flags|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}
