package choose

import (
	"net/http"
	"net/netip"
	"unsafe"
)

// HTTPHeader makes the header of a net/http request a Header.
type HTTPHeader http.Header

// Lookup implements Header.
func (h HTTPHeader) Lookup(name string, i int) (value []byte, ok bool) {
	values := h[http.CanonicalHeaderKey(name)]
	if i >= len(values) {
		return nil, false
	}
	return bytesOf(values[i]), true
}

// FromHTTP describes a request that a net/http server has read.
func FromHTTP(r *http.Request) Request {
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI()
	}
	c := Request{Method: bytesOf(r.Method), Target: bytesOf(target), Host: bytesOf(r.Host), Header: HTTPHeader(r.Header)}
	if addr, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Client = addr.Addr()
	}
	return c
}

// bytesOf returns the bytes of s, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
