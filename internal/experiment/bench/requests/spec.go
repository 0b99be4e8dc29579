// Package requests says what is sent: it compiles request sets before any load
// begins, so that every mistake is found then, and renders requests without
// allocating while it runs.
//
// A set is one URL; a file of targets; named queries, whose {{words}} come from
// rows of data; a recorded mirror session; or an access log. The k-th request of
// a run is the same over any number of loops: which query it is, which row it
// takes and what chance adds follow from the seed and k.
package requests

import (
	"time"

	"tailscope/internal/experiment/bench/load"
)

// Spec says what is to be sent: Queries, Targets, Record or AccessLog, exactly
// one of the four.
type Spec struct {
	Base      string // URL that paths begin at; empty if every request names its own, which must all be of one host
	Queries   []Query
	Targets   string // a file of targets, or of URLs: see docs/bench.md
	Once      bool   // of Targets: the run ends when they have run out, instead of beginning again
	Record    *Record
	AccessLog *AccessLog

	Header []load.Field // of every request that does not set the same itself; templates, as in a query
	Tenant string       // header:NAME, column:NAME, host, host:REGEX or path:REGEX; empty: a recording's own, else none
	Think  string       // of a closed loop: 1s, 1s..3s (uniform), exp 2s (exponential); a query's own goes first
	Check  Check        // of every query that has none of its own

	Vars map[string]string // {{name}} in any text
	Dir  string            // that names of files are relative to; empty: the working directory
	Seed uint64
	// Random draws each request by the weights instead of dealing them out evenly.
	Random bool
	// HTTP2 says that requests will be sent over HTTP/2: then no Wire is rendered,
	// and their strings are good for ever.
	HTTP2 bool
	// MaxQueries and MaxTenants bound names; what is beyond is _other. Defaults
	// 500 and 100.
	MaxQueries, MaxTenants int
	// MaxBytes bounds what is kept in memory of data, targets, recordings and logs.
	// Default 1 GiB.
	MaxBytes int64
	Now      func() time.Time // for {{now}}; default time.Now
}

// Query is a named request with words to fill in.
type Query struct {
	Name     string       // default: its method and path without ids
	Request  string       // METHOD TARGET, or TARGET: GET /select?q={{word}}
	Header   []load.Field // templates
	Body     string       // template
	BodyFile string       // file that holds the template of the body
	Data     string       // file of rows, CSV with a header line, or JSONL
	Format   string       // csv, tsv or jsonl; empty: by the file's ending
	Order    string       // sequential (default), random, shuffle
	AtEnd    string       // loop (default), once: the run ends when the rows have run out
	Weight   float64      // share of requests, relative to others; 0 stands for 1
	Think    string
	Check    *Check
}

// Record is a recorded mirror session.
type Record struct {
	Path  string
	Speed float64 // 2 is twice as fast; 0 stands for 1
	// Untimed takes requests in their order; the plan says when.
	Untimed bool
	Loop    bool     // begins again at the end
	Only    []string // operations, such as GET /shop/{id}, with * for any part; empty: all
	Methods []string // empty: all
	Tenants []string // empty: all
}

// AccessLog is a log of requests: their paths and times.
type AccessLog struct {
	Path    string
	Format  string   // as in docs/access-logs.md; empty: told by the lines
	Routes  []string // REGEX=NAME names operations, as there
	Speed   float64
	Untimed bool
	Loop    bool
	Only    []string
	Methods []string // empty: GET and HEAD, as a log holds no bodies
	Tenants []string
}

// Check is what an answer must be like. The zero value asks for nothing, and a
// status below 400 is then no error.
type Check struct {
	Status   []string          // 200, 2xx, 200..204
	Header   map[string]string // value by name; * for any
	Contains []string          // texts in the body
	Matches  []string          // regular expressions on the body
	JSON     map[string]string // value by path: responseHeader.status: 0; see docs/bench.md
	Size     string            // of the body in bytes: > 100, 1kB..2MB
}
