package notify

import (
	"errors"
	"time"
)

// The wait between attempts is one second, doubled by each failure, at most a minute.
// Half of it is random, so that receivers that failed together are not tried
// together. A receiver's Retry-After is obeyed up to mostWait.
const (
	firstWait = time.Second
	longWait  = time.Minute
	mostWait  = 5 * time.Minute
	openAfter = 3 // failures in a row
)

// breaker is closed while a receiver takes what it is given; after openAfter
// failures it is open, and between waits half-open: one message is tried, and only
// when that is accepted the others follow. The zero value is closed.
type breaker struct {
	failures int
	until    time.Time // nothing is tried before
	since    time.Time // the first of these failures
}

// fail counts a failure. hint is the receiver's Retry-After, or 0; random lies in
// [0, 1).
func (b *breaker) fail(now time.Time, hint time.Duration, random float64) {
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	wait := min(firstWait<<min(b.failures-1, 10), longWait)
	wait = wait/2 + time.Duration(random*float64(wait/2))
	b.until = now.Add(max(wait, min(hint, mostWait)))
}

func (b *breaker) succeed() { *b = breaker{} }

// wait returns the time until the next attempt.
func (b *breaker) wait(now time.Time) time.Duration { return max(b.until.Sub(now), 0) }

// open reports whether the receiver is considered dead.
func (b *breaker) open() bool { return b.failures >= openAfter }

// refusal is an error that no retry will change.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// answer is a failure that the receiver itself reports: it is alive, and another
// message may succeed. After is its Retry-After, or 0.
type answer struct {
	error
	after time.Duration
	// alive reports that the fault may lie in the message.
	alive bool
}

func (a answer) Unwrap() error { return a.error }

func refused(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

func retryAfter(err error) time.Duration {
	var a answer
	if errors.As(err, &a) {
		return a.after
	}
	return 0
}

func blamesMessage(err error) bool {
	var a answer
	return errors.As(err, &a) && a.alive
}
