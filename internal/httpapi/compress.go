package httpapi

import (
	"net/http"
	"net/netip"
)

// compressAfar compresses answers that leave the machine. Loopback is faster
// than any compression, which costs more than most answers themselves; a proxy
// on this machine, which names whom it asks for, gets them compressed.
func compressAfar(compressed, plain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isLocal(r) {
			plain.ServeHTTP(w, r)
			return
		}
		compressed.ServeHTTP(w, r)
	})
}

// isLocal says whether who asks is on this machine, and asks for itself.
func isLocal(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
