package changes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/api"
)

// cache keeps a few answers for a moment, so that several readers of one page
// cost one search. What is decided is not part of them.
type cache struct {
	mu   sync.Mutex
	kept []answer // the latest last
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

// get answers from the cache, or by asking.
func (c *cache) get(r *Request, ask func() (*api.ChangesResponse, error)) (*api.ChangesResponse, error) {
	key := keyOf(r)
	c.mu.Lock()
	for _, a := range c.kept {
		if age := r.Now.Sub(a.at); a.key == key && age >= 0 && age < fresh {
			c.mu.Unlock()
			return a.out, nil
		}
	}
	c.mu.Unlock()
	out, err := ask()
	if err != nil || r.Now.IsZero() {
		return out, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(slices.DeleteFunc(c.kept, func(a answer) bool { return a.key == key || r.Now.Sub(a.at) >= fresh }), answer{key, r.Now, out})
	if len(c.kept) > mostAnswers {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	return out, nil
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
