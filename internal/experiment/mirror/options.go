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

// Options configures a session. Default returns the defaults; a zero field stays
// zero. Rules are text, as on the command line and in the configuration file.
type Options struct {
	// ID names the session: 1 to 64 of a-z, 0-9 and -. Default NewID.
	ID string
	// Name is shown to people. Default made of the servers' names.
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
	// Control is the pool that runs the old code. Default none.
	Control []string

	// Share of the requests that are chosen, 0 to 1. With 0 nothing is copied until the
	// share is set.
	Share float64
	// Paused starts the session without copying.
	Paused bool
	// By makes the choice by key, so that the same key is always in or always out:
	// header:NAME, cookie:NAME, query:NAME, tenant or address. Default each request
	// for itself.
	By string
	// Methods are the methods that are chosen. Default all safe ones, or all with
	// Unsafe.
	Methods []string
	// Path is a regular expression that the path has to match. Default every path.
	Path string
	// Headers are rules 'NAME: REGEX', all of which have to match.
	Headers []string
	// Unsafe copies methods that may change something (RFC 9110, 9.2.1).
	Unsafe bool

	// Operations are rules REGEX=NAME, the first that matches "METHOD path"
	// names the operation. Without one that matches, ids in paths are replaced.
	Operations []string
	// Tenant says where a request's tenant is read: header:NAME, path:REGEX,
	// host:REGEX or query:NAME. Default nowhere.
	Tenant string

	// Host is sent to shadows in place of the client's. Default the client's.
	Host string
	// Rewrites are rules REGEX=REPLACEMENT of the path of copies, in order.
	Rewrites []string
	// SetHeaders are 'NAME: VALUE', set in copies; DropHeaders are names that are
	// removed from them.
	SetHeaders  []string
	DropHeaders []string

	// Amplify is the mean number of copies of each chosen request for a candidate,
	// from 0 to 255; the control gets as many.
	Amplify float64
	// Spread is the time over which the copies of one request are spread.
	Spread time.Duration
	// Using is the number of servers of a candidate's pool that are used. Default
	// all.
	Using int

	// Queue bounds the copies that wait for one shadow.
	Queue int
	// Buffer bounds the bytes of bodies that are held for one shadow.
	Buffer int64
	// BodyLimit bounds a body that is copied, in bytes.
	BodyLimit int64
	// Timeout ends a copy that was not answered in whole, queueing included.
	Timeout time.Duration
	// Connections bounds the connections to each server of a shadow.
	Connections int
	// Clients bounds the open connections of clients. Beyond it the connection that
	// has been idle longest is closed for a newcomer, or the newcomer if none is
	// idle.
	Clients int
	// PrimaryTimeout bounds the time for the primary to begin its answer, counted
	// from the last byte sent to it. 0: no bound.
	PrimaryTimeout time.Duration

	// Compare lists the parts of answers that are compared: status, headers, and body
	// or json. Default none.
	Compare []string
	// Ignore are places that are not compared, as internal/experiment/mirror/differ names
	// them.
	Ignore []string
	// Redact are rules for secrets in examples and in the record file, beside those
	// that are always hidden.
	Redact []string
	// Record is the path of the file that the session is written to. Default none.
	// RecordBodies writes the bodies of requests too.
	Record       string
	RecordBodies bool

	// Allow are the changes that the verdict allows, in the grammar of judge.Gates.
	// Default none.
	Allow []string

	// TCP duplicates bytes without understanding them.
	TCP bool

	// TLSCert and TLSKey are files of PEM. Both or neither; read again when
	// they change. With them the listener speaks TLS.
	TLSCert, TLSKey string
	// CA is a PEM file of authorities that are trusted beside the machine's, for
	// servers with https. Insecure trusts every certificate.
	CA       string
	Insecure bool
	// AllowSame lets a candidate or control be the primary itself.
	AllowSame bool

	// For ends the session after this time. 0: it runs until it is closed.
	For time.Duration

	// Sink stores what is measured. Default none.
	Sink pair.Sink
	// Report is called every second, and once when the session has ended, with its
	// state; the reply holds the changes to make. An error is tried again with the
	// next report. Default no reports.
	Report func(context.Context, api.SessionReport) (api.SessionReply, error)
	// OnHeader is called with the header of each answer of a shadow, by its index in
	// the state, as soon as it has arrived, on any goroutine: it must not wait.
	// Default none.
	OnHeader func(shadow int, header []pair.Field)
	// Log receives what an operator should know. Default slog.Default.
	Log *slog.Logger
}

// Pool holds the servers of one candidate.
type Pool struct {
	// Name is its label variant. Default candidate, and from the second on
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

// NewID returns a unique name of a session: its start, so that names sort by age, and
// 32 random bits.
func NewID(now time.Time) string {
	var b [4]byte
	rand.Read(b[:])
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(b[:])
}
