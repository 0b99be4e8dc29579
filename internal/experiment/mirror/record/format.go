// Package record keeps the requests of a session in a file, with what the primary
// made of each, so that they can be read and sent again.
//
// # Format
//
// A file is a magic and blocks, little-endian:
//
//	magic  "TSREC" 0 0 1           the last byte is the version
//	block  kind u8 | length u32 | stored u32 | crc u32 | stored bytes
//
// The CRC-32C is of the 9 bytes before it and of the stored bytes. Kinds are
//
//	H  head     JSON (Header), not compressed; the first block, and only that
//	E  entries  one zstd frame of length bytes: see below
//	Z  end      JSON (End), not compressed; nothing follows
//
// A file without its end was cut, or is still being written: what stands in
// whole blocks can be read. Integers below are varints (default
// uvarint), strings their length and bytes. Entries are
//
//	strings  count, strings
//	lists    count, header lists: fields, each a name and a value by number
//	entries  count, entries
//
// and an entry is
//
//	offset       varint, ns since the offset of the entry before; of the first, since Header.Start
//	method, target, host, operation, tenant   by number
//	list         by number
//	body         length in bytes plus 1, or 0 if not known
//	kept         bytes of the body that follow at the end of the entry
//	status       the primary's; 0 if no answer came
//	first byte   ns plus 1, 0 if none came
//	total        ns plus 1, 0 if the answer is not whole
//	answer       bytes of its body
//	body         kept bytes
//
// Numbers point into the tables of the same block, so that a block can be read
// without those before it.
package record

import (
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// Magic is the beginning of a file, its version included.
const Magic = "TSREC\x00\x00\x01"

const (
	kindHead    = 'H'
	kindEntries = 'E'
	kindEnd     = 'Z'

	headSize = 13
	// maxBlock bounds the claimed size of a block, stored or not.
	maxBlock = 24 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header holds the facts of the session.
type Header struct {
	ID       string    `json:"id"` // of the experiment
	Name     string    `json:"name,omitempty"`
	Service  string    `json:"service,omitempty"`
	Primary  string    `json:"primary,omitempty"`
	Start    time.Time `json:"start"`
	Share    float64   `json:"share"`            // of requests that were chosen, at the start
	Bodies   bool      `json:"bodies"`           // of requests are kept
	Redacted []string  `json:"redact,omitempty"` // rules beside the defaults
	Program  string    `json:"program,omitempty"`
}

// End holds the totals of a record.
type End struct {
	Requests uint64    `json:"requests"`
	Dropped  uint64    `json:"dropped"` // not written, as the disk was behind
	End      time.Time `json:"end"`
}

// Field is one header field line, name as it came.
type Field struct{ Name, Value string }

// Entry is one request, and the primary's answer to it.
type Entry struct {
	Offset    time.Duration // from Header.Start to when the request had come
	Method    string
	Target    string // as in the request line
	Host      string
	Operation string
	Tenant    string
	Fields    []Field // in order
	// Body is the kept part of the body; BodyBytes is its whole length, or −1 if that
	// is not known.
	Body      []byte
	BodyBytes int64

	Status      int           // 0 if no answer came
	FirstByte   time.Duration // from the request's first byte sent to the answer's first; −1 if none came
	Total       time.Duration // to its last; −1 if the answer is not whole
	AnswerBytes int64

	arena []byte
}

// Whole reports whether the entry holds its request's body in full.
func (e *Entry) Whole() bool { return int64(len(e.Body)) == e.BodyBytes }

var (
	// ErrFormat reports that a file is not a record, or is of an unknown version.
	ErrFormat = errors.New("no record of a session that this program can read")
	// ErrTorn reports that a file ends before its end block: its program was killed,
	// or is still writing. All entries before are good.
	ErrTorn = errors.New("the file ends in the middle")
	// ErrCorrupt reports that a block differs from what was written.
	ErrCorrupt = errors.New("the file is damaged")
)

// errorAt returns an error with its place in a file.
func errorAt(offset int64, err error, why string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d", err, fmt.Sprintf(why, args...), offset)
}
