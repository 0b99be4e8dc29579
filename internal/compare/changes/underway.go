package changes

import (
	"context"
	"sync"
	"time"

	"tailscope/internal/store"
)

// longestSearch bounds the time of a search that goes on when nobody waits for it.
const longestSearch = 5 * time.Minute

// searches are the searches of windows that are under way. Who asks for one that is joins it.
// One whose askers' time is over goes on, so that the next question finds it further on, or
// done, and need not begin anew.
type searches struct {
	mu      sync.Mutex
	running map[string]*underWay
	goOn    bool           // one may go on when nobody waits for it
	all     sync.WaitGroup // of those under way
}

type underWay struct {
	done    chan struct{} // closed once found and err are set
	found   *inWindow
	err     error
	stop    context.CancelFunc
	waiting int // those who asked and whose time is not over
}

// find returns what the search with this key finds, which it begins unless it is under way. It
// passes what is found to keep, and how long that took, before anybody is answered.
func (s *searches) find(ctx context.Context, key string, search func(context.Context) (*inWindow, error), keep func(*inWindow, time.Duration)) (*inWindow, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	u := s.running[key]
	if u == nil {
		u = s.begin(ctx, key, search, keep)
	}
	u.waiting++
	s.mu.Unlock()
	select {
	case <-u.done:
		return u.found, u.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.waiting--; u.waiting == 0 && !s.goesOn(u) {
		s.end(key, u)
	}
	return nil, ctx.Err()
}

// begin begins a search, which is an answer of its own with memory of its own, as it may outlast
// the question. s.mu is held.
func (s *searches) begin(ctx context.Context, key string, search func(context.Context) (*inWindow, error), keep func(*inWindow, time.Duration)) *underWay {
	budget := store.BudgetOf(ctx).Beside()
	on, stop := context.WithTimeout(store.OneAnswer(store.WithBudget(context.WithoutCancel(ctx), budget)), longestSearch)
	u := &underWay{done: make(chan struct{}), stop: stop}
	if s.running == nil {
		s.running = map[string]*underWay{}
	}
	s.running[key] = u
	s.all.Go(func() {
		defer stop()
		defer budget.Close()
		began := time.Now()
		found, err := search(on)
		if err == nil {
			keep(found, time.Since(began))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(key, u)
		u.found, u.err = found, err
		close(u.done)
	})
	return u
}

// goesOn reports whether a search for which nobody waits may go on: no other does. s.mu is held.
func (s *searches) goesOn(u *underWay) bool {
	for _, other := range s.running {
		if other != u && other.waiting == 0 {
			return false
		}
	}
	return s.goOn
}

// end stops a search, which nobody joins any more. s.mu is held.
func (s *searches) end(key string, u *underWay) {
	u.stop()
	if s.running[key] == u {
		delete(s.running, key)
	}
}

// close stops those under way and waits until they have. No other goes on from then on.
func (s *searches) close() {
	s.mu.Lock()
	s.goOn = false
	for key, u := range s.running {
		s.end(key, u)
	}
	s.mu.Unlock()
	s.all.Wait()
}
