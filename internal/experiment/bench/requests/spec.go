// Package requests compiles request sets before any load begins, so that every
// mistake is found then, and renders requests without allocating while it runs.
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

// Spec names what is sent: Queries, Targets, Record or AccessLog, exactly one of the
// four.
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
	// HTTP2 is set if requests are sent over HTTP/2: no Wire is rendered, and the
	// strings stay valid.
	HTTP2 bool
	// MaxQueries and MaxTenants bound names; what is beyond is _other. Defaults
	// 500 and 100.
	MaxQueries, MaxTenants int
	// MaxBytes bounds the memory for data, targets, recordings and logs. Default 1
	// GiB.
	MaxBytes int64
	Now      func() time.Time // for {{now}}; default time.Now
}

// Query is a named request with placeholders.
type Query struct {
	Name     string       `key:"name" doc:"Default: its method and path."`                                                  // without ids
	Request  string       `key:"request" need:"yes" doc:"METHOD TARGET with {{words}} of the data: GET /select?q={{word}}"` // or TARGET
	Header   []load.Field // templates
	Body     string       `key:"body" doc:"May hold {{words}}."`
	BodyFile string       `key:"body_file" doc:"File that holds the body."`
	Data     string       `key:"data" doc:"File of rows: CSV with a header line, or JSONL."`
	Format   string       `key:"format" is:"csv|tsv|jsonl" doc:"Of data; default by the file's ending."`
	Order    string       `key:"order" is:"sequential|random|shuffle" doc:"Of rows; default sequential."`
	AtEnd    string       `key:"at_end" is:"loop|once" doc:"What follows the last row; default loop. once ends the run."`
	Weight   float64      `key:"weight" is:"positive" default:"1" doc:"Share of requests, relative to others."` // 0 stands for 1
	Think    string       `key:"think" doc:"Of a closed loop: 1s, 1s..3s, exp 2s."`
	Check    *Check       `key:"check" doc:"What its answers must be like."`
}

// Record is a recorded mirror session.
type Record struct {
	Path  string  `key:"file" need:"yes" doc:"What tailscope mirror recorded."`
	Speed float64 `key:"speed" is:"positive" default:"1" doc:"2 is twice as fast."` // 0 stands for 1
	// Untimed keeps the order of the requests and leaves their times to the plan.
	Untimed bool
	Loop    bool     `key:"loop" doc:"Begins again at its end."`
	Only    []string `key:"only" doc:"Operations, such as GET /shop/{id}."` // with * for any part; empty: all
	Methods []string `key:"methods" doc:"Methods; default all."`
	Tenants []string `key:"tenants" doc:"Tenants; default all."`
}

// AccessLog is a log of requests: their paths and times.
type AccessLog struct {
	Path    string   `key:"file" need:"yes" doc:"The log."`
	Format  string   `key:"format" doc:"As tailscope import knows it; default: detected from its lines."`
	Routes  []string `key:"routes" doc:"REGEX=NAME names operations."`
	Speed   float64  `key:"speed" is:"positive" default:"1" doc:"2 is twice as fast."`
	Untimed bool
	Loop    bool     `key:"loop" doc:"Begins again at its end."`
	Only    []string `key:"only" doc:"Operations."`
	Methods []string `key:"methods" doc:"Default: GET and HEAD."` // a log holds no bodies
	Tenants []string `key:"tenants" doc:"Tenants; default all."`
}

// Check describes the expected answer. The zero value accepts any answer with a
// status below 400.
type Check struct {
	Status   []string          `key:"status" is:"statuses" doc:"200, 2xx, 200..204"`
	Header   map[string]string `key:"header" doc:"Value by name; * for any."`
	Contains []string          `key:"contains" doc:"Texts in the body."`
	Matches  []string          `key:"matches" is:"regexp" doc:"Regular expressions on the body."`
	JSON     map[string]string `key:"json" doc:"Value by path: {responseHeader.status: 0}"`
	Size     string            `key:"size" doc:"Of the body in bytes: > 100, 1kB..2MB"`
}
