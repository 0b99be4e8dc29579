package mirror

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/pair"
)

// Options configure a session. Default returns them with their defaults; other zeros
// are used as they are. Rules are text, as on the command line and in the
// configuration file.
type Options struct {
	// ID names the session: 1 to 64 of a-z, 0-9 and -. Empty: NewID.
	ID string
	// Name is for people. Empty: made of the servers' names.
	Name string
	// Service is the label of the session's series.
	Service string

	// Listen is host:port, or :port for every address of the machine.
	Listen string
	// Primary is the URL of the server that answers clients: http, https, or
	// h2c (HTTP/2 without TLS) and a host with or without a port. In tcp mode
	// tcp://host:port or host:port.
	Primary string
	// Candidates are the pools of servers to be judged, at least one.
	Candidates []Pool
	// Control is the pool that runs the old code. Empty: there is none.
	Control []string

	// Share of the requests that are chosen, above 0 to 1.
	Share float64
	// Paused starts the session with nothing copied.
	Paused bool
	// By makes the choice by key, so that the same key is always in or always
	// out: header:NAME, cookie:NAME, query:NAME, tenant or address. Empty: each
	// request for itself.
	By string
	// Methods that are chosen. Empty: all safe ones, and with Unsafe all.
	Methods []string
	// Path is a regular expression that the path has to match. Empty: every
	// path.
	Path string
	// Headers are rules 'NAME: REGEX' that have to hold all.
	Headers []string
	// Unsafe has methods copied that may change something (RFC 9110, 9.2.1).
	Unsafe bool

	// Operations are rules REGEX=NAME, the first that matches "METHOD path"
	// names the operation. Without one that matches, ids in paths are replaced.
	Operations []string
	// Tenant says where a request's tenant is read: header:NAME, path:REGEX,
	// host:REGEX or query:NAME. Empty: nowhere.
	Tenant string

	// Host is sent to shadows in place of the client's. Empty: the client's.
	Host string
	// Rewrites are rules REGEX=REPLACEMENT of the path of copies, in order.
	Rewrites []string
	// SetHeaders are 'NAME: VALUE', set in copies; DropHeaders are names that
	// are left out of them.
	SetHeaders  []string
	DropHeaders []string

	// Amplify is how many copies of each chosen request a candidate gets, on
	// average, from 0 to 255; the control gets as many.
	Amplify float64
	// Spread is the time over which the copies of one request are spread.
	Spread time.Duration
	// Using is how many servers of a candidate's pool are used. 0: all.
	Using int

	// Queue is the number of copies that may wait for one shadow.
	Queue int
	// Buffer bounds the bytes of bodies that are kept for one shadow.
	Buffer int64
	// BodyLimit is the longest body that is copied, in bytes.
	BodyLimit int64
	// Timeout ends a copy that was not answered in whole, queueing included.
	Timeout time.Duration
	// Connections to each server of a shadow, at most.
	Connections int
	// Clients bounds the open connections of clients. Beyond it the one that
	// asked nothing for longest is closed for a newcomer; the newcomer, if there is
	// none.
	Clients int
	// PrimaryTimeout is how long the primary may take to begin its answer, from
	// what it was last sent. 0: as long as it likes.
	PrimaryTimeout time.Duration

	// Compare names what of answers is compared: status, headers, and body or
	// json. Empty: nothing.
	Compare []string
	// Ignore are places that are not compared, as internal/experiment/mirror/differ names
	// them.
	Ignore []string
	// Redact are rules of what is hidden in examples and in the record file,
	// beside what always is.
	Redact []string
	// Record is the path of the file that the session is written to. Empty:
	// none. RecordBodies has the bodies of requests written, too.
	Record       string
	RecordBodies bool

	// TCP duplicates bytes without understanding them.
	TCP bool

	// TLSCert and TLSKey are files of PEM. Both or neither; read again when
	// they change. With them the listener speaks TLS.
	TLSCert, TLSKey string
	// CA is a file of PEM with authorities that are trusted beside the
	// machine's, for servers with https. Insecure trusts every certificate.
	CA       string
	Insecure bool
	// AllowSame lets a candidate or control be the primary itself.
	AllowSame bool

	// For ends the session after this time. 0: it runs until it is closed.
	For time.Duration

	// Sink takes what is measured. Nil: it is counted and thrown away.
	Sink pair.Sink
	// Report is called every second, and once when the session has ended, with what
	// it does; the reply says what is to change. An error is tried again with the
	// next report. Nil: no reports.
	Report func(context.Context, api.SessionReport) (api.SessionReply, error)
	// OnHeader is called with the header of each answer of a shadow, by its index in
	// the state, as soon as that has come, on any goroutine: it must not wait.
	// Default: none.
	OnHeader func(shadow int, header []pair.Field)
	// Log takes what an operator should know. Nil: slog.Default.
	Log *slog.Logger
}

// Pool is the servers of one candidate.
type Pool struct {
	// Name is its label variant. Empty: candidate, and from the second on
	// candidate2, candidate3 ….
	Name string
	// Servers are URLs with http, https or h2c; in tcp mode host:port.
	Servers []string
}

// Default returns the default options.
func Default() Options {
	return Options{
		Service:        "mirror",
		Listen:         "127.0.0.1:8080",
		Share:          1,
		Amplify:        1,
		Spread:         time.Second,
		Queue:          1000,
		Buffer:         64 << 20,
		BodyLimit:      1 << 20,
		Timeout:        30 * time.Second,
		Connections:    256,
		Clients:        4096,
		PrimaryTimeout: 60 * time.Second,
	}
}

// NewID returns a name for a session that no other has: its time of start, so
// that names sort by age, and 32 random bits.
func NewID(now time.Time) string {
	var b [4]byte
	rand.Read(b[:])
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(b[:])
}
