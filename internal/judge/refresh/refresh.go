// Package refresh makes verdicts anew: in rounds, or when one is asked for and the
// last is too old.
package refresh

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Run calls round, and again every interval, until ctx is done. It logs message and
// the error of a round that fails, the first of those in a row.
func Run(ctx context.Context, every time.Duration, log *slog.Logger, message string, round func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		err := round(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			log.Error(message, "error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Cache keeps the last answers for a while, so that several readers of one page cost
// one computation, those who ask at the same moment included. Its methods are safe
// for concurrent use.
type Cache[T any] struct {
	Size  int           // answers that are kept
	Fresh time.Duration // how long one is kept at least
	Times int           // and at least so many times as long as it took to compute
	// Longest bounds how long an answer is kept that took long; 0 does not.
	Longest time.Duration
	Alone   bool // computes one answer at a time, whatever their keys

	mu      sync.Mutex
	kept    []answer[T]              // the latest last
	running map[string]chan struct{} // computations under way, closed at their end
}

type answer[T any] struct {
	key   string
	at    time.Time
	fresh time.Duration
	out   *T
}

// Get returns the answer to key that is fresh at now. Without one it waits for the
// computation under way, or calls compute. An error is returned to the caller whose
// computation failed; one of those that waited computes again. The answer is shared:
// the caller must not change it.
func (c *Cache[T]) Get(ctx context.Context, key string, now time.Time, compute func() (*T, error)) (*T, error) {
	queue := key
	if c.Alone {
		queue = ""
	}
	c.mu.Lock()
	for {
		if out := c.find(key, now); out != nil {
			c.mu.Unlock()
			return out, nil
		}
		other := c.running[queue]
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
	c.running[queue] = done
	c.mu.Unlock()
	begin := time.Now()
	var out *T
	var err error
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, queue)
		close(done)
		if err == nil && out != nil {
			c.keep(answer[T]{key, now, c.freshFor(time.Since(begin)), out})
		}
	}()
	out, err = compute()
	return out, err
}

// Kept returns the answer to key that is fresh at now, nil if there is none. It is shared, as
// that of Get.
func (c *Cache[T]) Kept(key string, now time.Time) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(key, now)
}

// Keep keeps an answer that was computed otherwise, and how long that took.
func (c *Cache[T]) Keep(key string, now time.Time, took time.Duration, out *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(answer[T]{key, now, c.freshFor(took), out})
}

// freshFor returns how long an answer is kept that took so long to compute.
func (c *Cache[T]) freshFor(took time.Duration) time.Duration {
	fresh := max(c.Fresh, time.Duration(c.Times)*took)
	if c.Longest > 0 {
		fresh = min(fresh, max(c.Fresh, c.Longest))
	}
	return fresh
}

// find returns the answer to key that is fresh at now, or nil. c.mu is held.
func (c *Cache[T]) find(key string, now time.Time) *T {
	for i := range c.kept {
		if a := &c.kept[i]; a.key == key && a.freshAt(now) {
			return a.out
		}
	}
	return nil
}

// keep adds a in place of an earlier answer to its key, of answers that are too old,
// and of the oldest beyond c.Size. c.mu is held.
func (c *Cache[T]) keep(a answer[T]) {
	c.kept = append(slices.DeleteFunc(c.kept, func(x answer[T]) bool { return x.key == a.key || !x.freshAt(a.at) }), a)
	c.kept = slices.Delete(c.kept, 0, max(0, len(c.kept)-c.Size))
}

func (a *answer[T]) freshAt(now time.Time) bool {
	age := now.Sub(a.at)
	return age.Abs() < a.fresh // of two readers the later one may ask first
}
