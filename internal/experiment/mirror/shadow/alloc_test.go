//go:build !race

package shadow

import (
	"strings"
	"testing"
)

// TestNoAllocations: a copy on a connection that stands costs no memory.
func TestNoAllocations(t *testing.T) {
	l := benchSender(t, quickServer(t, 1024))
	e := &countingEnder{free: make(chan struct{}, 1)}
	fields := realFields()
	for _, body := range []string{"", strings.Repeat("x", 2048)} {
		run := func() {
			p := NewPayload()
			p.Method = append(p.Method, "GET"...)
			p.Target = append(p.Target, "/items/42"...)
			p.Host = append(p.Host, "example.com"...)
			p.Fields = append(p.Fields, fields...)
			if body != "" {
				p.Body, p.HasBody = append(p.Body, body...), true
			}
			l.Offer(Copy{Payload: p, To: e, Copies: 1, Write: body != ""})
			p.Release()
			<-e.free
		}
		for range 100 {
			run()
		}
		// The pools of payloads and buffers are emptied by every collection.
		if n := testing.AllocsPerRun(2000, run); n >= 0.5 {
			t.Errorf("%v allocations for a copy with a body of %d bytes", n, len(body))
		}
	}
	if e.wrong > 0 {
		t.Errorf("%d copies went wrong", e.wrong)
	}
}
