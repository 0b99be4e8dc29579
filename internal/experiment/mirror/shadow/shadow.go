// Package shadow sends copies of requests to servers whose answers nobody waits
// for, and never makes anybody wait either.
//
// A Sender sends to one shadow (the control, or a candidate). It has a pool of
// servers, the connections to them, a bounded queue of copies that no connection was
// free for, and a budget of bytes that are held for them. Offer is called from the
// goroutine that serves a client. It does what can be done without waiting, in most
// cases the one write(2) that sends the copy, and leaves the rest to the sender's own
// goroutines:
//
//	                    idle connection: written at once, non-blocking
//	Offer --> Copy -->  else: queue --> the connection that is free next
//	                    else: ended, with its cause
//
// Each connection has one goroutine, which reads answers and, when one is whole,
// takes the next copy from the queue. Bodies that are still coming in from the client
// when the copy is offered go through a Spool, which never blocks its writer: a
// reader that is behind is cut off.
//
// Every copy that is offered ends exactly once, by Ender.EndCopy, whatever
// happens to the server, the connection, or the sender.
package shadow

import (
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// Ender is notified of the outcome of a copy. *pair.Exchange is one. It is not used
// any more after EndCopy was called as often as copies were offered. It is called on
// any goroutine, Offer's included.
type Ender interface {
	// AppendID appends the identifier that all legs of the request share.
	AppendID(dst []byte) []byte
	// Keep reports whether legs should carry their answers.
	Keep() bool
	// Sent reports that a copy is about to be sent.
	Sent(shadow int)
	// EndCopy ends a copy: dropped if leg.Start is 0, else failed by leg.Cause,
	// or answered.
	EndCopy(shadow int, leg pair.Leg)
}

// Copy is an offer: a request, as many times as Copies says.
type Copy struct {
	// Payload is the request. Offer takes references of its own; the caller keeps and
	// releases its reference.
	Payload *Payload
	To      Ender
	Shadow  int // the sender's index, passed on to To
	// Copies is the result of Sender.Copies for this request, which To has on its
	// account. To's EndCopy is called that many times. 0 offers nothing.
	Copies uint8
	// Delay is the wait before the first copy is sent.
	Delay time.Duration
	// Write reports whether the request may change something (its method is not safe,
	// RFC 9110 section 9.2.1), so that a shadow that misses it has diverged.
	Write bool
}

// Rewrite changes the requests that shadows get. Each function appends the new value
// to dst and returns it; nil keeps the original. They run on Offer's goroutine or the
// sender's, several at a time, and retain nothing.
type Rewrite struct {
	Target func(dst, target []byte) []byte
	Host   func(dst, host []byte) []byte
	// Fields receives whole field lines with their line ends.
	Fields func(dst, fields []byte) []byte
}
