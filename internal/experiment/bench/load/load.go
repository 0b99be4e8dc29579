// Package load sends HTTP requests on a schedule and times them.
//
// The schedule is open-loop: it says when each request is due, and latency
// counts from then, whatever the target did meanwhile (wrk2 calls the mistake
// this avoids coordinated omission). The time from when the request was really
// sent is kept beside it. A request that is due while every connection is busy
// waits for one, and its wait is latency; only beyond Options.Waiting is it
// dropped, and counted. How late the generator is although a connection is free
// is its own error, kept apart (Observation.Late).
package load

import (
	"crypto/tls"
	"time"
)

// Request is one request to be sent. A Source fills it; what its slices point to
// must stay as it is until the Source is asked for another request for the same
// loop.
type Request struct {
	Query  int    // index into the names of queries
	Tenant int    // index into the names of tenants; -1 for none
	Method string // GET if empty
	Path   string // path and query, as on the request line
	Header []Field
	Body   []byte
	// Wire is the request in HTTP/1.1, if it was rendered before (AppendHTTP1). A
	// loop that speaks HTTP/1.1 sends it as it is.
	Wire []byte
	// Due is the intended start of a recorded request, from the start of the run. It
	// is read only with Options.Recorded.
	Due time.Duration
	// Think is the time that a closed loop's user waits before this request.
	Think time.Duration
}

// Field is a header field; its name is sent as it is written.
type Field struct{ Name, Value string }

// Source yields requests. Each loop has a Source of its own, so that none needs
// a lock. Next must be quick and should allocate nothing.
type Source interface {
	// Next fills r and reports whether there is a request. After it has returned
	// false it is not called again.
	Next(r *Request) bool
}

// Pacer says when requests are due, from the start of the run, never decreasing. ok
// is false at the end of the plan. The phase Again means that the next request is not
// known yet. The schedules of bench.Plan are Pacers.
type Pacer interface {
	Next() (due time.Duration, phase int, ok bool)
}

// Cause is the reason why a request has no whole answer.
type Cause uint8

const (
	Answered Cause = iota
	Timeout        // no whole answer in time
	Connect        // no connection
	Reset          // the connection broke while the request was under way
	Closed         // the target closed the connection before the whole answer
	NotHTTP        // the answer was not HTTP
	TLS            // the handshake failed
	CutOff         // the run ended first; not a failure of the target
	Causes         // how many there are
)

func (c Cause) String() string {
	return [...]string{"answered", "timeout", "connect", "reset", "closed", "protocol", "tls", "cut off", ""}[min(c, Causes)]
}

// Observation is the outcome of one request that was sent. Times are from the start
// of the run.
type Observation struct {
	Query, Tenant, Phase int
	Due, Sent            time.Duration
	// FirstByte is the arrival of the part of the answer that was read first: its
	// first byte if it came in pieces, its end if it was read at once.
	FirstByte time.Duration
	End       time.Duration
	// Late is the time from Due to when the request was sent during which a
	// connection was free. Sent − Due − Late is the wait for a connection.
	Late   time.Duration
	Status int   // 0 without a whole answer
	Bytes  int64 // of the answer, header and body
	Cause  Cause
	Check  int // index of the check that failed, -1 if none did
}

// Recorder records a loop's observations, on the loop's own thread. It must be quick
// and allocate nothing.
type Recorder interface {
	Observe(o *Observation)
	// Drop counts a request that was due and dropped.
	Drop(due time.Duration, phase int)
}

// Beginner may be implemented by a Recorder that counts what is under way. It is
// called for each request as it is sent, on the loop's own thread, before the
// recorder.
type Beginner interface {
	Begin(query, phase int, due, sent time.Duration)
}

// Checker checks answers; nil if only the status counts. It returns the index of the
// check that failed, or -1. Header and body are valid during the call only; body is
// whole up to Options.BodyLimit bytes.
type Checker interface {
	// Wants reports which parts a query's checks need, so that the rest is not kept.
	Wants(query int) (header, body bool)
	Check(query, status int, header []Field, body []byte) int
}

// Protocol is the version of HTTP that requests are sent in.
type Protocol uint8

const (
	HTTP1 Protocol = iota
	HTTP2          // by ALPN over TLS, with prior knowledge otherwise
)

// Options configures Run.
type Options struct {
	Address  string      // host:port to connect to
	Host     string      // field Host or :authority of requests that have none
	TLS      *tls.Config // nil for none
	Protocol Protocol
	// Connections bounds the open connections, or over HTTP/2 the requests under way
	// at once. Default 64.
	Connections int
	// Loops is the number of sending threads; default by the rate and the cores.
	Loops int
	// Source makes a loop's requests, Recorder records its observations.
	Source   func(loop, loops int) (Source, error)
	Recorder func(loop, loops int) Recorder
	Checker  Checker
	// Pacer makes the schedule of one of loops loops: together they are the plan. nil
	// is a closed loop: each connection sends its next request when its last is
	// answered, after its Think. Pacer may be called more than once for a loop and
	// must return the same schedule each time.
	Pacer func(loop, loops int) (Pacer, error)
	// Withdrawn, if set, returns the last phase whose waiting requests are dropped
	// instead of sent, or a negative number for none. The loops' threads call it
	// often.
	Withdrawn func() int
	// Begun, if set, is called with the time from which times count, before anything
	// is sent.
	Begun func(time.Time)
	// Recorded takes Due from the requests instead of a Pacer.
	Recorded bool
	Duration time.Duration // nothing is sent later; 0: until the plan, the requests or ctx end
	Timeout  time.Duration // of a request from when it was sent; default 30 s
	// Drain bounds the time that requests under way at the end may still take;
	// default Timeout.
	Drain time.Duration
	// Waiting bounds the due requests that wait for a connection at once; default
	// 1,000,000. Recorded requests wait in their recording: they take no memory and
	// are not dropped.
	Waiting   int
	BodyLimit int // bytes of a body that checks see; default 1 MiB
	// NoKeepAlive closes each connection after one answer.
	NoKeepAlive bool
}

// Account counts the requests of a run. Due = Sent + Dropped + Unsent.
type Account struct {
	Due, Sent, Dropped, Unsent uint64
	Connections                uint64 // opened in all
	Started                    time.Time
	Elapsed                    time.Duration
	Loops                      int
	CPU                        time.Duration // of the loops' threads, user and system; of the process where they are none
	// Busiest is the share of Elapsed that the busiest loop ran or was ready to run, 0..1,
	// and Starved the part of it in which it had no core; 0 where the system does not say.
	Busiest, Starved float64
	Exhausted        bool // the requests ran out
}
