package changes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
)

// cache keeps a few answers for a moment, so that several readers of one page
// cost one search, those who ask at the same moment too. What is decided is not
// part of them.
type cache struct {
	mu      sync.Mutex
	kept    []answer                 // the latest last
	running map[string]chan struct{} // searches under way, closed at their end
}

type answer struct {
	key string
	at  time.Time
	out *api.ChangesResponse // not to be changed
}

const (
	mostAnswers = 16
	fresh       = time.Minute
)

// get answers from the cache, or by asking, or with what is being asked. Where
// that fails whoever waited asks again.
func (c *cache) get(ctx context.Context, r *Request, ask func() (*api.ChangesResponse, error)) (*api.ChangesResponse, error) {
	if r.Now.IsZero() {
		return ask()
	}
	key := keyOf(r)
	c.mu.Lock()
	for {
		if out := c.answer(key, r.Now); out != nil {
			c.mu.Unlock()
			return out, nil
		}
		other := c.running[key]
		if other == nil {
			break
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		c.mu.Lock()
	}
	done := make(chan struct{})
	if c.running == nil {
		c.running = map[string]chan struct{}{}
	}
	c.running[key] = done
	c.mu.Unlock()
	var out *api.ChangesResponse
	var err error
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, key)
		close(done)
		if err != nil || out == nil {
			return
		}
		c.kept = append(slices.DeleteFunc(c.kept, func(a answer) bool { return a.key == key || r.Now.Sub(a.at) >= fresh }), answer{key, r.Now, out})
		if len(c.kept) > mostAnswers {
			c.kept = slices.Delete(c.kept, 0, 1)
		}
	}()
	out, err = ask()
	return out, err
}

// answer is one that is kept and fresh, nil if there is none.
func (c *cache) answer(key string, now time.Time) *api.ChangesResponse {
	for _, a := range c.kept {
		if age := now.Sub(a.at); a.key == key && age >= 0 && age < fresh {
			return a.out
		}
	}
	return nil
}

// keyOf tells questions apart. Ranges that hold the same slots of a minute are
// one: within a minute hardly more is known.
func keyOf(r *Request) string {
	var b strings.Builder
	for _, m := range r.Matchers {
		fmt.Fprintf(&b, "%q%s%q,", m.Name, m.Type, m.Value)
	}
	fmt.Fprintf(&b, "%d-%d,%d", r.Start.Unix()/60, r.End.Unix()/60, r.Operations)
	return b.String()
}
