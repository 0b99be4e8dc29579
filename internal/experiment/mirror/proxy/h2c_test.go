package proxy

import (
	"io"
	"strings"
	"testing"
)

// The offer to go on in HTTP/2, which some clients make with every request, goes
// no further: the request is like any other, and copied.
func TestOfferOfHTTP2(t *testing.T) {
	var got []string
	w := start(t, answering(&got, "HTTP/1.1 200 OK|Content-Length: 2||ok", false))
	nc := w.dial()
	var rest []byte
	io.WriteString(nc, crlf("GET / HTTP/1.1|Host: a|Connection: Upgrade, HTTP2-Settings|Upgrade: h2c|HTTP2-Settings: AAMAAABkAAQ||"))
	if _, body, err := message(nc, &rest, "GET"); err != nil || string(body) != "ok" {
		t.Fatalf("%q, %v", body, err)
	}
	if len(got) != 1 || strings.Contains(got[0], "Upgrade") || strings.Contains(got[0], "HTTP2-Settings") {
		t.Errorf("the primary got %q", got)
	}
	if n := len(w.sender.seen()); n != 1 {
		t.Errorf("%d copies, skipped %v", n, w.ledger.Stats().Skipped)
	}
}
