//go:build !race

// The race detector takes memory of its own.

package proxy

import (
	"io"
	"net"
	"runtime"
	"testing"
)

// A client that keeps its connection and asks nothing takes little memory.
func TestIdleClientsAreSmall(t *testing.T) {
	w := start(t, answering(nil, "HTTP/1.1 200 OK|Content-Length: 2||ok", false))
	used := func() uint64 {
		runtime.GC()
		runtime.GC() // pools are emptied by the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const clients, most = 400, 14 << 10
	conns := make([]net.Conn, clients)
	before := used()
	for i := range conns {
		conns[i] = w.dial()
		var rest []byte
		io.WriteString(conns[i], crlf("GET / HTTP/1.1|Host: a||"))
		if _, _, err := message(conns[i], &rest, "GET"); err != nil {
			t.Fatal(err)
		}
	}
	if each := int64(used()-before) / clients; each > most {
		t.Errorf("%d bytes for each, want at most %d", each, most)
	}
}
