// Package backoff computes how long to wait between attempts to send to a server that
// fails, and waits. A Breaker reads no clock and no random numbers: both are given.
//
// The wait is one second, doubled by each failure, at most a minute. Half of it is random,
// so that senders that failed together do not try together. The server's Retry-After is
// obeyed up to MostWait.
package backoff

import (
	"context"
	"strconv"
	"time"
)

const (
	firstWait = time.Second
	longWait  = time.Minute
	// MostWait bounds the Retry-After that is obeyed.
	MostWait = 5 * time.Minute
	// OpenAfter is the number of failures in a row after which a Breaker is open.
	OpenAfter = 3
)

// Breaker is closed while a server takes what it is sent; after OpenAfter failures it is
// open, and between waits half-open: one message is tried, and only when that is accepted
// the others follow. The zero value is closed.
type Breaker struct {
	Failures int       // in a row
	Until    time.Time // nothing is tried before
	Since    time.Time // the first of these failures
}

// Fail counts a failure. hint is the server's Retry-After, or 0; random lies in [0, 1).
func (b *Breaker) Fail(now time.Time, hint time.Duration, random float64) {
	if b.Failures == 0 {
		b.Since = now
	}
	b.Failures++
	wait := min(firstWait<<min(b.Failures-1, 10), longWait)
	wait = wait/2 + time.Duration(random*float64(wait/2))
	b.Until = now.Add(max(wait, min(hint, MostWait)))
}

// Succeed closes the breaker.
func (b *Breaker) Succeed() { *b = Breaker{} }

// Wait returns the time until the next attempt.
func (b *Breaker) Wait(now time.Time) time.Duration { return max(b.Until.Sub(now), 0) }

// Open reports whether the server is considered dead.
func (b *Breaker) Open() bool { return b.Failures >= OpenAfter }

// Sleep waits for d, and returns ctx's error if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RetryAfter returns the wait that a Retry-After header asks for in seconds, at most
// MostWait, or 0.
func RetryAfter(header string) time.Duration {
	if s, err := strconv.Atoi(header); err == nil && s > 0 {
		return min(time.Duration(min(s, 3600))*time.Second, MostWait)
	}
	return 0
}
