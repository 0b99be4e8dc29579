//go:build servers

package mirror

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"sync"
	"testing"
)

// parrot answers with what it is sent, while it is sent.
type parrot struct{}

func (parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	_, _ = io.Copy(w, r.Body)
}

// weigher remembers the lengths and sums of bodies that came whole.
type weigher struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *weigher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := crc32.NewIEEE()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[fmt.Sprintf("%d %08x", n, h.Sum32())]++
}

// stream is n bytes that differ from those of other seeds.
func stream(n, seed int) io.Reader {
	return io.LimitReader(&repeated{noise()[seed*7919:], 0}, int64(n))
}

type repeated struct {
	b  []byte
	at int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

func weigh(r io.Reader) (string, error) {
	h := crc32.NewIEEE()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%d %08x", n, h.Sum32()), err
}

// TestLargeBodies has bodies of up to 64 MB go both ways at once, several at a
// time, and to a candidate as far as its buffer goes.
func TestLargeBodies(t *testing.T) {
	sizes := []int{0, 1, 64 << 10, 1<<20 + 1, 16 << 20, 64 << 20}
	for _, to := range protocols {
		primary := newBackend(t, to, parrot{})
		for _, from := range protocols {
			t.Run(from+" to "+to, func(t *testing.T) {
				candidate := &weigher{seen: map[string]int{}}
				taker := newBackend(t, to, candidate)
				s := newSession(t, from, primary.URL, func(o *Options) {
					o.Candidates = []Pool{{Name: "new", Servers: []string{taker.URL}}}
					o.Unsafe = true
					o.BodyLimit = 64 << 20
				})
				c := newClient(t, from, s.Addr().String())
				sent := map[string]bool{}
				var mu sync.Mutex
				var wg sync.WaitGroup
				for i, n := range sizes {
					for k := range 2 {
						wg.Go(func() {
							want, _ := weigh(stream(n, i+k))
							body := stream(n, i+k)
							req, err := http.NewRequestWithContext(t.Context(), "POST", schemeOf(from)+"://shop.test/", body)
							if err != nil {
								t.Error(err)
								return
							}
							if k == 0 { // else chunked
								req.ContentLength = int64(n)
							}
							if n == 0 {
								req.Body = http.NoBody
							}
							resp, err := c.Do(req)
							if err != nil {
								t.Errorf("%d bytes: %v", n, err)
								return
							}
							defer resp.Body.Close()
							if have, err := weigh(resp.Body); err != nil || have != want {
								t.Errorf("got %s, %v, want %s", have, err, want)
							}
							mu.Lock()
							sent[want] = true
							mu.Unlock()
						})
					}
				}
				wg.Wait()
				account := func() (open uint64, text any) {
					a := s.State().Shadows[0].Account
					return a.Queued + a.Waiting + a.Pairing, *a
				}
				waitFor(t, func() bool { open, _ := account(); return open == 0 }, func() any { _, text := account(); return text })
				a := s.State().Shadows[0].Account
				closes(t, a)
				if a.Offered != uint64(2*len(sizes)) || a.Buffered != 0 {
					t.Errorf("offered %d copies, want %d; %d bytes are still buffered", a.Offered, 2*len(sizes), a.Buffered)
				}
				if a.Paired < uint64(len(sizes)) {
					t.Errorf("only %d copies were paired: %+v", a.Paired, *a)
				}
				candidate.mu.Lock()
				defer candidate.mu.Unlock()
				whole := 0
				for sum, n := range candidate.seen {
					whole += n
					if !sent[sum] {
						t.Errorf("the candidate got %s, which nobody sent", sum)
					}
				}
				if whole < int(a.Paired) {
					t.Errorf("the candidate got %d whole bodies, and %d copies are paired", whole, a.Paired)
				}
				t.Logf("%d of %d copies paired; failed %v, dropped %v", a.Paired, a.Offered, a.Failed, a.Dropped)
			})
		}
	}
}
