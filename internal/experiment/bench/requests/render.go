package requests

import (
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"tailscope/internal/experiment/bench/load"
)

// agent is the default User-Agent.
const agent = "tailscope-bench"

// appendRequest appends a request in HTTP/1.1 (RFC 9112). A field Host takes the
// place of host.
func appendRequest(dst []byte, method, target, host string, fields []load.Field, body []byte) []byte {
	dst = append(append(append(dst, method...), ' '), target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if !has(fields, "Host") {
		dst = appendField(dst, "Host", host)
	}
	for _, f := range fields {
		dst = appendField(dst, f.Name, f.Value)
	}
	dst = appendLength(dst, method, len(body))
	return append(append(dst, "\r\n"...), body...)
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(append(append(dst, name...), ": "...), value...)
	return append(dst, "\r\n"...)
}

// appendLength appends Content-Length if there is a body or the method usually has
// one (RFC 9110, section 8.6).
func appendLength(dst []byte, method string, n int) []byte {
	if n == 0 && method != "POST" && method != "PUT" && method != "PATCH" {
		return dst
	}
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(n), 10)
	return append(dst, "\r\n"...)
}

func has(fields []load.Field, name string) bool {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

func valueOfField(fields []load.Field, name string) string {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func validName(name string) bool { return httpguts.ValidHeaderFieldName(name) }

// ours reports whether the engine sets a field.
func ours(name string) (hint string, is bool) {
	switch strings.ToLower(name) {
	case "content-length", "transfer-encoding":
		return "leave it out: it follows from the body", true
	case "connection", "keep-alive", "proxy-connection", "upgrade", "te", "trailer":
		return "leave it out: connections are kept open, unless keep-alive is switched off", true
	case "expect":
		return "leave it out: bodies are sent at once", true
	}
	return "", false
}

// badTarget says which part of a path and query cannot stand on a request line.
func badTarget(target string) (text, hint string) {
	if !strings.HasPrefix(target, "/") {
		return "the path " + strconv.Quote(target) + " does not begin with /", "write METHOD /path, such as GET /select?q=x"
	}
	for i := range len(target) {
		switch c := target[i]; {
		case c == '#':
			return "# begins a fragment, which is never sent", "write %23 for a # that is meant as such"
		case c <= ' ' || c >= 0x7f:
			return strconv.Quote(target[i:i+1]) + " cannot stand in a path or query as it is", "write " + string(appendTarget(nil, target))
		}
	}
	return "", ""
}

// appendTarget escapes as %XX the bytes that cannot stand in a target.
func appendTarget(dst []byte, target string) []byte {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}
