package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The questions of one answer read a thing once, also those that ask side by side; other answers
// read it anew.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		release := make(chan struct{})
		read := func() ([]byte, error) {
			reads.Add(1)
			<-release
			return []byte("data"), nil
		}
		ctx := OneAnswer(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if b, err := Once(ctx, "key", read); err != nil || string(b) != "data" {
					t.Errorf("got %q, %v", b, err)
				}
			})
		}
		synctest.Wait()
		if n := reads.Load(); n != 1 {
			t.Errorf("%d read at once, want 1", n)
		}
		close(release)
		all.Wait()
		for _, c := range []struct {
			ctx  context.Context
			key  string
			want int64
		}{{ctx, "key", 1}, {ctx, "other", 2}, {OneAnswer(t.Context()), "key", 3}, {t.Context(), "key", 4}, {t.Context(), "key", 5}} {
			if _, err := Once(c.ctx, c.key, read); err != nil || reads.Load() != c.want {
				t.Errorf("%s: read %d times, %v, want %d", c.key, reads.Load(), err, c.want)
			}
		}
	})
}

// Who waits for a question that fails reads for itself.
func TestOnceAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := OneAnswer(t.Context())
		release, failed := make(chan struct{}), errors.New("failed")
		go func() {
			if _, err := Once(ctx, "key", func() ([]byte, error) { <-release; return nil, failed }); !errors.Is(err, failed) {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			if b, err := Once(ctx, "key", func() ([]byte, error) { return []byte("data"), nil }); err != nil || string(b) != "data" {
				t.Errorf("after a failure: got %q, %v", b, err)
			}
		}()
		ended, end := context.WithCancel(ctx)
		go func() {
			if _, err := Once(ended, "key", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a question that ended waits: %v", err)
			}
		}()
		synctest.Wait()
		end()
		synctest.Wait()
		close(release)
		synctest.Wait()
	})
}

// What is kept leaves an answer most of its memory.
func TestOnceWithinBudget(t *testing.T) {
	memory := NewMemory(1 << 30)
	budget := memory.Question(1 << 20)
	defer budget.Close()
	ctx := OneAnswer(WithBudget(t.Context(), budget))
	read := func(key string, size int) (n int) {
		t.Helper()
		if _, err := Once(ctx, key, func() ([]byte, error) { n++; return make([]byte, size), nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for key, size := range map[string]int{"small": 100, "big": 200 << 10} {
		read(key, size)
		if n, want := read(key, size), map[string]int{"small": 0, "big": 1}[key]; n != want {
			t.Errorf("%s is read %d times again, want %d", key, n, want)
		}
	}
	for i := range 100 {
		read(string(rune('a'+i)), 10<<10)
	}
	if used := budget.Used(); used < 64<<10 || used > 1<<20/keptShare {
		t.Errorf("%d bytes are kept of 1 MiB, want an eighth at most", used)
	}
}
