package listen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// serve answers requests on a bounded listener of the loopback.
func serve(t *testing.T, max int, h http.Handler) *Listener {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bound(raw, max)
	g := Guard{}
	srv := &http.Server{Handler: g.Handler(h), ConnContext: ConnContext}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if st := l.Stats(); st.Open != 0 {
			t.Errorf("%d connections left", st.Open)
		}
	})
	return l
}

func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request and returns the answer's status, 0 if there is none.
func ask(c net.Conn, path string) int {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func waitOpen(t *testing.T, l *Listener, n int) {
	t.Helper()
	for range 500 {
		if l.Stats().Open == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d connections are open, want %d", l.Stats().Open, n)
}

// A newcomer takes the place of the connection that was idle for longest, and
// never of one that is worked on.
func TestBound(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 8)
	l := serve(t, 4, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			held <- struct{}{}
			<-hold
		}
	}))
	busy := dial(t, l)
	answer := make(chan int, 1)
	go func() { answer <- ask(busy, "/hold") }()
	<-held
	idle, silent, kept := dial(t, l), dial(t, l), dial(t, l)
	waitOpen(t, l, 4)
	fmt.Fprint(silent, "GET / HTTP/1.1\r\nHo") // the head, drop by drop
	if ask(idle, "/") != 200 || ask(kept, "/") != 200 {
		t.Fatal("not answered")
	}
	if got := ask(dial(t, l), "/"); got != 200 { // in the place of silent
		t.Errorf("the first newcomer: %d", got)
	}
	if got := ask(dial(t, l), "/"); got != 200 { // in the place of idle
		t.Errorf("the second newcomer: %d", got)
	}
	if ask(idle, "/") != 0 || ask(silent, "/") != 0 {
		t.Error("those idle for longest are still answered")
	}
	if ask(kept, "/") != 200 {
		t.Error("one that had been asked more recently is gone")
	}
	close(hold)
	if got := <-answer; got != 200 {
		t.Errorf("the one worked on: %d", got)
	}
	if st := l.Stats(); st.Open != 4 || st.Evicted != 2 || st.Refused != 0 {
		t.Errorf("got %+v", st)
	}
}

// When all have something to do the newcomer is closed.
func TestBoundOfBusy(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{}, 2)
	l := serve(t, 2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { held <- struct{}{}; <-hold }))
	answers := make(chan int, 2)
	for range 2 {
		c := dial(t, l)
		go func() { answers <- ask(c, "/") }()
		<-held
	}
	if got := ask(dial(t, l), "/"); got != 0 {
		t.Errorf("the newcomer is answered %d", got)
	}
	close(hold)
	for range 2 {
		if got := <-answers; got != 200 {
			t.Errorf("one worked on: %d", got)
		}
	}
	if st := l.Stats(); st.Refused != 1 || st.Evicted != 0 {
		t.Errorf("got %+v", st)
	}
}
