package changes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"tailscope/internal/store"
)

const (
	// longestSearch bounds the time of a search that goes on when nobody waits for it.
	longestSearch = 5 * time.Minute
	// forgotten is how long after its last question a search gives way to one that is asked for:
	// a page asks again every few seconds.
	forgotten = 10 * time.Second
)

// searches are the searches of windows that are under way. Who asks for one that is joins it.
// One whose askers' time is over goes on, so that the next question finds it further on, or
// done, and need not begin anew.
type searches struct {
	mu      sync.Mutex
	running map[string]*underWay
	goOn    bool           // one may go on when nobody waits for it
	log     *slog.Logger   // of those that panic; may be nil
	all     sync.WaitGroup // of those under way
}

type underWay struct {
	done    chan struct{} // closed once found and err are set
	found   *inWindow
	err     error
	stop    context.CancelFunc
	began   time.Time
	waiting int       // those who asked and whose time is not over
	left    time.Time // when the time of the last was over, while nobody waits
}

// find returns what the search with this key finds, which it begins unless it is under way. It
// passes what is found to keep, or why the search failed, and how long that took, before anybody
// is answered; nothing if it was stopped.
func (s *searches) find(ctx context.Context, key string, search func(context.Context) (*inWindow, error), keep func(*inWindow, error, time.Duration)) (*inWindow, error) {
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
	if u.waiting--; u.waiting == 0 && s.running[key] == u {
		s.leave(key, u)
	}
	return nil, ctx.Err()
}

// begin begins a search, which is an answer of its own with memory of its own, as it may outlast
// the question. s.mu is held.
func (s *searches) begin(ctx context.Context, key string, search func(context.Context) (*inWindow, error), keep func(*inWindow, error, time.Duration)) *underWay {
	budget := store.BudgetOf(ctx).Beside()
	on, stop := context.WithTimeout(store.OneAnswer(store.WithBudget(context.WithoutCancel(ctx), budget)), longestSearch)
	u := &underWay{done: make(chan struct{}), stop: stop, began: time.Now()}
	if s.running == nil {
		s.running = map[string]*underWay{}
	}
	s.running[key] = u
	log := s.log
	s.all.Go(func() {
		defer stop()
		defer budget.Close()
		found, err := guarded(on, log, search)
		if err == nil || !errors.Is(on.Err(), context.Canceled) {
			keep(found, err, time.Since(u.began))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(key, u)
		u.found, u.err = found, err
		close(u.done)
	})
	return u
}

// guarded returns what a search finds. A panic is its error: nobody else is there to recover.
func guarded(ctx context.Context, log *slog.Logger, search func(context.Context) (*inWindow, error)) (found *inWindow, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the search for changes broke: %v; please report it with the server's log", v)
			if log != nil {
				log.Error("a search for changes panicked", "panic", v, "stack", string(debug.Stack()))
			}
		}
	}()
	return search(ctx)
}

// leave lets a search for which nobody waits any more go on, or ends it. One goes on at a time:
// the one that began first, unless it is forgotten; so of two pages that ask again and again one
// comes to its end. s.mu is held.
func (s *searches) leave(key string, u *underWay) {
	u.left = time.Now()
	for k, other := range s.running {
		switch {
		case other == u || other.waiting > 0:
		case u.began.Before(other.began) || u.left.Sub(other.left) >= forgotten:
			s.end(k, other)
		default:
			s.end(key, u)
			return
		}
	}
	if !s.goOn {
		s.end(key, u)
	}
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
