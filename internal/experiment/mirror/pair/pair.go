// Package pair keeps together the answers of several servers to one request: which
// servers were asked, the outcome of every copy, the durations, and the ratio of
// their times.
//
// A request is an Exchange. The primary's leg and the legs of its copies end in any
// order and on any goroutine; when the last has ended the exchange is recorded and
// used again. Every copy is also on the account of its shadow from the moment it is
// offered, so that the sums close at any moment.
package pair

// Role is a server's part in a session.
type Role uint8

const (
	Primary   Role = iota // answers the clients
	Control               // runs the old code, and gets the copies that candidates get
	Candidate             // runs what is to be judged
)

// String returns primary, control or candidate.
func (r Role) String() string {
	switch r {
	case Primary:
		return "primary"
	case Control:
		return "control"
	}
	return "candidate"
}

// Cause is the reason why a copy was dropped, or why a leg has no whole answer. A leg
// with a whole answer has None.
type Cause uint8

const (
	None Cause = iota

	// Before anything was sent.
	QueueFull   // the shadow's queue is at its bound
	BufferFull  // its buffer of bodies is
	NoServer    // its pool is set to no server
	Refused     // connection refused or unreachable
	ConnectTime // no connection in time
	Handshake   // TLS or HTTP/2 did not come about
	Expired     // waited in the queue for longer than the time limit
	Stopped     // the session, or the pool's server, was being stopped

	// After something was sent.
	BodyLimit    // the request's body is above the limit
	BodyBehind   // the body's buffer ran full while it was streamed
	ClientClosed // the client broke off its request, so the copy was too
	Reset        // the connection broke
	TimedOut     // no whole answer within the time limit
	BadAnswer    // what came is not HTTP
	AnswerLimit  // the answer is above the limit of what is read of it
	NumCauses
)

var causes = [NumCauses]string{
	"none", "queue_full", "buffer_full", "no_server", "refused", "connect_time", "handshake", "expired", "stopped",
	"body_limit", "body_behind", "client_gone", "reset", "timed_out", "bad_answer", "answer_limit",
}

// String returns the name under which the cause is counted, such as queue_full.
func (c Cause) String() string {
	if c < NumCauses {
		return causes[c]
	}
	return "unknown"
}

// Fault reports whether the server is at fault. The other causes come from the
// mirror's bounds, the client, or the session's end.
func (c Cause) Fault() bool {
	switch c {
	case Refused, ConnectTime, Handshake, Reset, TimedOut, BadAnswer, AnswerLimit:
		return true
	}
	return false
}

// Reason is the reason why a request was not chosen. A request that was has Chosen.
type Reason uint8

const (
	Chosen  Reason = iota
	Paused         // nothing is copied at the moment
	Share          // it is not of the share that is copied
	Method         // the method is not among those asked for
	Path           // nor is the path
	Header         // nor is a header field
	Unsafe         // the method may change something (RFC 9110 9.2.1)
	Upgrade        // the connection becomes another protocol
	Length         // the body is known to be above the limit
	Connect        // the request asks for a tunnel
	NumReasons
)

var reasons = [NumReasons]string{
	"chosen", "paused", "share", "method", "path", "header", "unsafe", "upgrade", "length", "connect",
}

// String returns the name under which the reason is counted.
func (r Reason) String() string {
	if r < NumReasons {
		return reasons[r]
	}
	return "unknown"
}

// Leg is one server's answer to one request. Times are Unix nanoseconds of the clock
// of legs, see [Steady]; those that were not reached are 0.
type Leg struct {
	Due       int64 // when it was to be sent; until Start it waited for a connection; 0 for the primary, and for copies dropped at once
	Start     int64 // the first byte of the request was about to be written
	FirstByte int64 // the first byte of the final answer was read
	End       int64 // the last byte of the answer was read
	Status    int   // of the final answer, 0 if none came
	Bytes     int64 // of the answer's body, as sent (chunk framing left out)
	Cause     Cause // None if the answer is whole
	// Answer is the answer itself, kept only if the exchange asked for it.
	Answer *Answer
}

// Names are the labels under which an exchange is counted.
type Names struct {
	Operation string // low in cardinality: GET /cart/{id}
	Tenant    string // empty if unknown
}
