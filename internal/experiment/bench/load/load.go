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
	// Wire is the request as HTTP/1.1 has it, if it was rendered before; a loop that
	// speaks HTTP/1.1 then sends it as it is. AppendHTTP1 renders one.
	Wire []byte
	// Due is when a recorded request is due, from the start of the run; only of
	// sources that are asked for it (Options.Recorded).
	Due time.Duration
	// Think is how long a closed loop's user waits before this request.
	Think time.Duration
}

// Field is a header field; its name as it is to be sent.
type Field struct{ Name, Value string }

// Source yields requests. Each loop has a Source of its own, so that none needs
// a lock. Next must be quick and should allocate nothing.
type Source interface {
	// Next fills r and reports whether there is a request; false says that the
	// requests have run out, after which it is not called again.
	Next(r *Request) bool
}

// Pacer says when requests are due, from the start of the run, never decreasing;
// ok is false at the end of the plan. A phase Again says that it knows no further
// than that. bench.Plan's schedules are Pacers.
type Pacer interface {
	Next() (due time.Duration, phase int, ok bool)
}

// Cause says why a request has no whole answer.
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

// Observation is what became of one request that was sent. Times are from the
// start of the run.
type Observation struct {
	Query, Tenant, Phase int
	Due, Sent            time.Duration
	// FirstByte is when what was read of the answer first had arrived: its first byte
	// if it came in pieces, its end if it was read at once.
	FirstByte time.Duration
	End       time.Duration
	// Late is how long after it was due it was sent although a connection was free.
	// Sent − Due − Late is what it waited for a connection.
	Late   time.Duration
	Status int   // 0 without a whole answer
	Bytes  int64 // of the answer, header and body
	Cause  Cause
	Check  int // index of the check that failed, -1 if none did
}

// Recorder takes a loop's observations, on the loop's own thread. It must be
// quick and allocate nothing.
type Recorder interface {
	Observe(o *Observation)
	// Drop counts a request that was due and dropped.
	Drop(due time.Duration, phase int)
}

// Beginner may be implemented by a Recorder that is to know what is under way: it is
// called for each request as it is sent, likewise on the loop's own thread, before
// the recorder is.
type Beginner interface {
	Begin(query, phase int, due, sent time.Duration)
}

// Checker checks answers; nil if only the status counts. It returns the index of the
// check that failed, -1 if none did. Header and body are valid during the call only;
// body is whole up to Options.BodyLimit bytes.
type Checker interface {
	// Wants says what a query's checks need, so that the rest is not kept.
	Wants(query int) (header, body bool)
	Check(query, status int, header []Field, body []byte) int
}

// Protocol is how requests are sent.
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
	// Connections is how many are open at once at most; requests under way at once
	// over HTTP/2. Default 64.
	Connections int
	// Loops is how many threads send; 0 chooses by the rate and the cores.
	Loops int
	// Source makes a loop's requests, Recorder takes its observations.
	Source   func(loop, loops int) (Source, error)
	Recorder func(loop, loops int) Recorder
	Checker  Checker
	// Pacer makes the schedule of one loop of loops: together they are the plan.
	// nil is a closed loop: each connection sends its next request when its last is
	// answered, after its Think. It may be called more than once for a loop, and each
	// Pacer is to say the same.
	Pacer func(loop, loops int) (Pacer, error)
	// Withdrawn, if it is set, says up to which phase requests that wait for a
	// connection are dropped instead of sent, none if negative. It is asked often,
	// from the loops' threads.
	Withdrawn func() int
	// Begun, if it is set, is called when the run begins, from which times count,
	// before anything is sent.
	Begun func(time.Time)
	// Recorded takes Due from the requests instead of a Pacer.
	Recorded bool
	Duration time.Duration // 0: until the plan, the requests or ctx end
	Timeout  time.Duration // of a request from when it was sent; default 30 s
	// Drain is how long requests under way at the end may still take; default
	// Timeout.
	Drain time.Duration
	// Waiting is how many due requests may wait for a connection at once; default
	// 1,000,000. Recorded requests that wait where they were recorded take no memory,
	// and are not dropped.
	Waiting   int
	BodyLimit int // bytes of a body that checks see; default 1 MiB
	// NoKeepAlive closes each connection after one answer.
	NoKeepAlive bool
}

// Account is what Run did. Due = Sent + Dropped + Unsent.
type Account struct {
	Due, Sent, Dropped, Unsent uint64
	Connections                uint64 // opened in all
	Started                    time.Time
	Elapsed                    time.Duration
	Loops                      int
	CPU                        time.Duration // of the loops' threads, user and system; of the process where they are none
	Busiest                    float64       // share of Elapsed that the busiest loop ran, 0..1
	Exhausted                  bool          // the requests ran out
}
