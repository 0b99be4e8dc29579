package notify

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// hooks is a receiver of webhooks that remembers.
type hooks struct {
	mu       sync.Mutex
	bodies   []string
	headers  []http.Header
	statuses func(body string) int // 0 is 200
	server   *http.Server
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.statuses != nil {
		if code := h.statuses(string(b)); code != 0 {
			http.Error(w, "no "+r.Header.Get("Authorization"), code)
			return
		}
	}
	h.bodies = append(h.bodies, string(b))
	h.headers = append(h.headers, r.Header.Clone())
}

// serve listens at address, until the test ends or stop is called.
func (h *hooks) serve(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	h.server = &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { _ = h.server.Serve(l); close(done) }()
	t.Cleanup(func() { h.stop(); <-done })
	return l.Addr().String()
}

// stop breaks all connections.
func (h *hooks) stop() { _ = h.server.Close() }

func (h *hooks) has(word string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.bodies, "\n"), word)
}

func (h *hooks) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bodies, h.headers = nil, nil
}

func (h *hooks) got() ([]string, []http.Header) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.bodies...), append([]http.Header(nil), h.headers...)
}
