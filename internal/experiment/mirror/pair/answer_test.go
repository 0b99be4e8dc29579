package pair

import (
	"fmt"
	"testing"

	"tailscope/internal/http1"
)

func TestAnswerOf(t *testing.T) {
	buf := []byte("HTTP/1.1 201 Made\r\nServer: x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nset-cookie: a=1\r\nEmpty:\r\nset-cookie: b=2\r\nContent-Length: 10\r\n\r\n")
	var h http1.Head
	if _, err := h.ParseResponse(buf, []byte("GET")); err != nil {
		t.Fatal(err)
	}
	a := AnswerOf(&h, 4)
	clear(buf)
	a.Add([]byte("abc"), 4)
	if got := fmt.Sprintf("%d %q %s %v", a.Status, a.Header, a.Body, a.Cut); got != `201 [{"Server" "x"} {"set-cookie" "a=1"} {"Empty" ""} {"set-cookie" "b=2"} {"Content-Length" "10"}] abc false` {
		t.Error(got)
	}
	a.Add([]byte("def"), 4)
	a.Add([]byte("g"), 4)
	if string(a.Body) != "abcd" || !a.Cut || cap(a.Body) != 4 {
		t.Errorf("%s, cut %v, room for %d", a.Body, a.Cut, cap(a.Body))
	}
}
