package backoff

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	var b Breaker
	t0 := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	now := t0
	var waits []string
	for range 9 {
		b.Fail(now, 0, 0)
		waits = append(waits, fmt.Sprint(b.Wait(now)))
		now = now.Add(b.Wait(now))
	}
	if got, want := strings.Join(waits, " "), "500ms 1s 2s 4s 8s 16s 30s 30s 30s"; got != want || !b.Open() || b.Since != t0 {
		t.Errorf("got %s, want %s", got, want)
	}
	b.Fail(now, time.Hour, 0.999)
	if b.Wait(now) != MostWait {
		t.Errorf("waits %v", b.Wait(now))
	}
	if b.Succeed(); b.Open() || b.Wait(now) != 0 {
		t.Error("it is not closed")
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 0, "5": 5 * time.Second, "-1": 0, "soon": 0, "99999999": MostWait} {
		if got := RetryAfter(header); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

func TestSleepCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
