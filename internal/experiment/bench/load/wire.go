package load

import "strconv"

// AppendHTTP1 appends r in HTTP/1.1 (RFC 9112, section 3): with host as its field
// Host if it does not have one, and with Content-Length if it has a body or its
// method implies one. Header fields are written as they are. Fields of a connection
// (Content-Length, Transfer-Encoding) are left to this function.
func AppendHTTP1(dst []byte, r *Request, host string) []byte {
	method, path := r.Method, r.Path
	if method == "" {
		method = "GET"
	}
	if path == "" {
		path = "/"
	}
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	named := false
	for i := range r.Header {
		named = named || nameIs(r.Header[i].Name, "host")
	}
	if !named {
		dst = appendField(dst, "Host", host)
	}
	for i := range r.Header {
		f := &r.Header[i]
		if nameIs(f.Name, "content-length") || nameIs(f.Name, "transfer-encoding") {
			continue
		}
		dst = appendField(dst, f.Name, f.Value)
	}
	if len(r.Body) > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	return append(dst, r.Body...)
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// appendWire appends a rendered request, or renders it. With closing it asks the
// target to close the connection after the answer.
func appendWire(dst []byte, r *Request, host string, closing bool) []byte {
	if !closing {
		if r.Wire != nil {
			return append(dst, r.Wire...)
		}
		return AppendHTTP1(dst, r, host)
	}
	at := len(dst)
	dst = appendWire(dst, r, host, false)
	for i := at; i < len(dst); i++ {
		if dst[i] == '\n' {
			const field = "Connection: close\r\n"
			dst = append(dst, field...)
			copy(dst[i+1+len(field):], dst[i+1:])
			copy(dst[i+1:], field)
			return dst
		}
	}
	return dst
}

// nameIs reports whether a name equals lower, whatever the case of its letters.
func nameIs(name, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
