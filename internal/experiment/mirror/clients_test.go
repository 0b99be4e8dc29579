package mirror

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"tailscope/internal/listen"
)

// However many clients connect, no more than Clients are; those that asked
// nothing give way, those that wait for an answer never do, and all of it is
// counted.
func TestClientsAreBounded(t *testing.T) {
	for _, from := range protocols {
		for _, to := range []string{"h1", "h2c"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				hold, held := make(chan struct{}), make(chan struct{}, 4)
				primary := newBackend(t, to, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/hold" {
						held <- struct{}{}
						<-hold
					}
				}))
				s := newSession(t, from, primary.URL, func(o *Options) { o.Clients = 4; away(o) })
				addr := s.Addr().String()
				ask := func(path string) error {
					r, err := newClient(t, from, addr).Get(schemeOf(from) + "://localhost" + path)
					if err == nil {
						_, err = io.Copy(io.Discard, r.Body)
						r.Body.Close()
					}
					return err
				}
				answers := make(chan error, 4)
				// busy is refused while a connection that was answered is not idle yet.
				busy := func() {
					t.Helper()
					for tries := 1; ; tries++ {
						go func() { answers <- ask("/hold") }()
						select {
						case <-held:
							return
						case err := <-answers:
							if tries == 1000 {
								t.Fatalf("not served: %v, clients %+v", err, s.Clients())
							}
						}
					}
				}
				busy()
				for range 6 { // idle
					c, err := net.Dial("tcp", addr)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
				}
				want := func(what string, want listen.ConnStats) {
					t.Helper()
					waitFor(t, func() bool { return s.Clients() == want }, func() any { return []any{what, s.Clients(), want} })
				}
				want("idle", listen.ConnStats{Open: 4, Max: 4, Evicted: 3})
				if err := ask("/"); err != nil {
					t.Errorf("a newcomer: %v", err)
				}
				want("in the place of one that was idle", listen.ConnStats{Open: 4, Max: 4, Evicted: 4})
				for range 3 {
					busy()
				}
				if err := ask("/"); err == nil {
					t.Error("a fifth is answered while four are served")
				}
				if c := s.Clients(); c.Evicted != 7 || c.Refused == 0 { // its client may have tried again
					t.Errorf("got %+v", c)
				}
				if st := s.State().Clients; st == nil || st.Bound != 4 || st.Refused == 0 || st.Evicted != 7 {
					t.Errorf("the state says %+v", st)
				}
				close(hold)
				for range 4 {
					if err := <-answers; err != nil {
						t.Errorf("one that waited for its answer: %v", err)
					}
				}
			})
		}
	}
}

// In tcp mode a connection that was used gives way to nobody.
func TestTCPClientsAreBounded(t *testing.T) {
	server := echoServer(t)
	s := newSession(t, "h1", server, func(o *Options) {
		o.TCP, o.Clients = true, 2
		o.Candidates = []Pool{{Servers: []string{server}}}
		o.AllowSame = true
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		return c
	}
	echoes := func(c net.Conn) bool {
		_, _ = c.Write([]byte("x"))
		n, _ := io.ReadFull(c, make([]byte, 1))
		return n == 1
	}
	used, silent := dial(), dial()
	if !echoes(used) {
		t.Fatal("no answer")
	}
	waitFor(t, func() bool { return s.Clients().Open == 2 }, func() any { return s.Clients() })
	second := dial()
	if !echoes(second) {
		t.Error("a newcomer does not get the place of one that said nothing")
	}
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
	if echoes(dial()) {
		t.Error("a third is served")
	}
	if !echoes(used) || !echoes(second) {
		t.Error("one that was used has gone")
	}
	if c := s.Clients(); c != (listen.ConnStats{Open: 2, Max: 2, Evicted: 1, Refused: 1}) {
		t.Errorf("got %+v", c)
	}
}
