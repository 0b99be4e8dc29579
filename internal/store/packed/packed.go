// Package packed is the form in which an agent sends what it has aggregated to a server: a
// store.Batch, or kept traces, as bytes. docs/packed.md describes it byte by byte.
//
// A frame is a head and a body. The head is plain, so that a receiver knows what a frame
// costs before it unpacks it:
//
//	offset  bytes
//	0       4        "TSPK"
//	4       1        version, 1
//	5       1        kind: 1 a batch, 2 traces
//	6       uvarint  length of the body, unpacked
//	        uvarint  bytes of memory that the decoded frame takes, at most
//	        4        CRC-32C of everything before it and of everything after it, little-endian
//	        rest     the body, one zstd frame
//
// The body of a batch holds each text once, in a table; series refer to it by number and
// leave out the labels that they share with the series before. Points are columns: slots as
// runs, numbers of series as differences, lengths, and then the points' own bytes, hist's
// compact form or store.AppendNumber's. Nothing refers to an earlier frame: a frame can be
// sent again, alone, to a receiver that was started anew.
//
// An Encoder divides what is large, so that no frame takes more memory than its bound. A
// Decoder allocates no more than the head says, refuses a frame whose head says too little,
// and checks every point to its last bucket.
package packed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/store"
)

// Path is the path at which a server takes frames, on the address of OTLP over HTTP, and
// ContentType their media type.
const (
	Path        = "/v1/packed"
	ContentType = "application/x-tailscope-packed"
)

// Version is the version that this package writes, and the only one that it reads.
const Version = 1

var (
	// ErrCorrupt reports bytes that are not a frame, or one that was changed.
	ErrCorrupt = errors.New("corrupt frame")
	// ErrVersion reports a frame of a version that this package does not know.
	ErrVersion = errors.New("unknown version of the packed form")
	// ErrTooLarge reports a frame that takes more memory than the caller allows.
	ErrTooLarge = errors.New("frame too large")
)

// Kind is what a frame holds.
type Kind uint8

const (
	Batch  Kind = 1
	Traces Kind = 2
)

// Head is the beginning of a frame.
type Head struct {
	Kind     Kind
	Unpacked int // bytes of the body
	Memory   int // bytes that the decoded frame takes, the unpacked body included
}

const (
	magic     = "TSPK"
	largest   = 1 << 30 // of Unpacked and of Memory
	headBytes = len(magic) + 2 + 2*5 + 4
)

// Approximate memory of what is decoded, in bytes. They are part of the format: both sides
// count by them.
const (
	textCost   = 16
	seriesCost = 96 // a series, its identity, the number of its tenant
	labelCost  = 4  // of a label, beside its texts
	pointCost  = 40
	entryCost  = 32
	sampleCost = 16
	familyCost = 40
	traceCost  = 64
	hitCost    = 80
)

// farPast and farFuture bound the times of slots and samples, in Unix seconds: a frame
// cannot make a receiver compute with times that overflow.
const farPast, farFuture = -1 << 36, 1 << 36

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// Peek returns the head of a frame. Errors wrap ErrVersion or ErrCorrupt.
func Peek(frame []byte) (Head, error) {
	h, _, _, err := peek(frame)
	return h, err
}

// peek also returns the checksum and the offset of the packed body.
func peek(b []byte) (h Head, sum uint32, at int, err error) {
	if len(b) < len(magic)+2 || string(b[:len(magic)]) != magic {
		return h, 0, 0, fmt.Errorf("%w: it does not begin with %s", ErrCorrupt, magic)
	}
	if v := b[len(magic)]; v != Version {
		return h, 0, 0, fmt.Errorf("%w %d", ErrVersion, v)
	}
	h.Kind = Kind(b[len(magic)+1])
	if h.Kind != Batch && h.Kind != Traces {
		return h, 0, 0, fmt.Errorf("%w: kind %d", ErrCorrupt, h.Kind)
	}
	at = len(magic) + 2
	for _, n := range []*int{&h.Unpacked, &h.Memory} {
		u, k := binary.Uvarint(b[at:])
		if k <= 0 || u > largest {
			return h, 0, 0, fmt.Errorf("%w: head", ErrCorrupt)
		}
		*n, at = int(u), at+k
	}
	if len(b) < at+4 || h.Memory < h.Unpacked {
		return h, 0, 0, fmt.Errorf("%w: head", ErrCorrupt)
	}
	return h, binary.LittleEndian.Uint32(b[at:]), at + 4, nil
}

// labelsCost returns the memory of a set of labels.
func labelsCost(ls labels.Labels) int {
	n := textCost
	ls.Range(func(l labels.Label) { n += labelCost + len(l.Name) + len(l.Value) })
	return n
}

// Agent is what an agent tells of itself with each request, as JSON in the header
// AgentHeader.
type Agent struct {
	Name    string `json:"name"`    // for people
	Writer  string `json:"writer"`  // its identity: WriterPrefix and that of its data directory
	Version string `json:"version"` // of the program
	// Incarnation is random at each start. Earlier lists, oldest first, the one that a server
	// last acknowledged and those after it: by them a server recognises a restart, and a copy
	// of the data directory that runs somewhere else.
	Incarnation string   `json:"incarnation"`
	Earlier     []string `json:"earlier,omitempty"`

	// First is the last generation that it had put when it started: a server that has a later
	// one has it of another agent with the same identity.
	First       uint64  `json:"first"`
	Generation  uint64  `json:"generation"` // the last that it stored in its spool
	SpoolFiles  int     `json:"spool_files"`
	SpoolBytes  int64   `json:"spool_bytes"`
	SpoolOldest float64 `json:"spool_oldest,omitempty"` // Unix seconds: when the oldest waiting file was written; 0 for none
}

// WriterPrefix begins the writers of agents, so that a server never takes one for its own.
const WriterPrefix = store.AgentPrefix

// AgentHeader is the HTTP header that holds an Agent.
const AgentHeader = "Tailscope-Agent"

// Answer is the body of a server's answer to an agent, as JSON.
type Answer struct {
	Stored    uint64 `json:"stored"`              // the highest generation of the writer that the server has
	Duplicate bool   `json:"duplicate,omitempty"` // the batch had been stored before
	Error     string `json:"error,omitempty"`     // why nothing was stored, and what to do
}

// partsPerGeneration is the number of generations at the server for one of an agent. A
// generation that is too large for one frame is sent as several, each with its own number.
const partsPerGeneration = 1 << 12

// PartGeneration returns the server's number of a part, from 0, of an agent's generation.
func PartGeneration(generation uint64, part int) (uint64, error) {
	if part >= partsPerGeneration || generation >= 1<<63/partsPerGeneration {
		return 0, fmt.Errorf("part %d of generation %d: more than fit", part, generation)
	}
	return generation*partsPerGeneration + uint64(part) + 1, nil
}

// AgentGeneration returns the agent's generation that a server's number stands for.
func AgentGeneration(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return (n - 1) / partsPerGeneration
}
