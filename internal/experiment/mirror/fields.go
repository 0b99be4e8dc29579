package mirror

import (
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// markField is the field that copies carry, and passedField the one that marks the
// primary's requests. Via would serve (RFC 9110, 7.6.3), but servers answer otherwise
// where they see it: nginx no longer compresses.
const (
	markField   = "Tailscope-Mirror"
	passedField = "Tailscope-Passed"
)

// hopByHop are the fields that concern one connection (RFC 9110, 7.6.1); net/http
// makes those that the next connection needs. Trailer is among them as it is
// announced anew.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true,
	"Transfer-Encoding": true, "Upgrade": true, "Trailer": true, "Http2-Settings": true,
}

// endToEnd returns the fields that are passed on, in a map of its own with capacity
// for more. Values are shared with h and stay in their order.
func endToEnd(h http.Header, more int) http.Header {
	out := make(http.Header, len(h)+more)
	for k, v := range h {
		if !hopByHop[k] {
			out[k] = v
		}
	}
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	return out
}

// forwarded sets the X-Forwarded fields of out.
func forwarded(out http.Header, r *http.Request) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		prior := append(slices.Clone(out["X-Forwarded-For"]), host)
		out["X-Forwarded-For"] = []string{strings.Join(prior, ", ")}
	}
	if _, ok := out["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		out["X-Forwarded-Proto"] = []string{proto}
	}
	if _, ok := out["X-Forwarded-Host"]; !ok && r.Host != "" {
		out["X-Forwarded-Host"] = []string{r.Host}
	}
}

// passedHere reports whether a request has passed this session before, on its way to
// the primary or as a copy.
func passedHere(h http.Header, session string) bool {
	for _, v := range h[markField] {
		if id, _, _ := strings.Cut(v, "/"); id == session {
			return true
		}
	}
	return slices.Contains(h[passedField], session)
}

// headerHas reports whether a list of tokens, over several lines, has one.
func headerHas(lines []string, token string) bool {
	for _, l := range lines {
		for t := range strings.SplitSeq(l, ",") {
			if strings.EqualFold(textproto.TrimString(t), token) {
				return true
			}
		}
	}
	return false
}

func sortedKeys(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }
