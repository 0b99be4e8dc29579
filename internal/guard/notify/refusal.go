package notify

import (
	"errors"
	"time"
)

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
