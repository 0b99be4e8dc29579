package notify

import (
	"io"
	"net/http"
	"sync"
)

// hooks is a receiver of webhooks that remembers.
type hooks struct {
	mu       sync.Mutex
	bodies   []string
	headers  []http.Header
	statuses func(body string) int // 0 is 200
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

func (h *hooks) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bodies, h.headers = nil, nil
}

func (h *hooks) got() ([]string, []http.Header) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.bodies...), append([]http.Header(nil), h.headers...)
}
