package notify

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"tailscope/internal/guard/check/event"
)

// A segment of a spool is
//
//	header  "TSSPOOL" 1
//	frame   length u32 | crc32c of the payload u32 | payload
//
// in little-endian. The first byte of a payload is its type:
//
//	1 message   sequence uvarint, handed over at (ns) varint, then an event as JSON
//	2 message   the same with a result
//	3 finished  sequence uvarint: it and all before it were delivered or dropped
//	4 snapshot  JSON: what holds so far, as the first frame of a segment
const (
	spoolMagic = "TSSPOOL\x01"
	frameBytes = 8
	maxFrame   = 16 << 20

	frameEvent    = 1
	frameResult   = 2
	frameFinished = 3
	frameSnapshot = 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errTorn    = errors.New("the record ends early")
	errDamaged = errors.New("the record's checksum is wrong")
)

// message is one event or one result that waits for a receiver.
type message struct {
	seq    uint64    // rises within a queue
	at     time.Time // handed over
	event  *event.Event
	result *event.Result
}

// snapshot is the state of a spool without the waiting messages.
type snapshot struct {
	Next     uint64              `json:"next"`    // sequence of the next message
	Finished uint64              `json:"settled"` // through this one
	Known    map[string]incident `json:"known,omitempty"`
}

// incident is the last event of one that was queued for the receiver.
type incident struct {
	Event event.Event
	// Done is when it was resolved; zero while it is open.
	Done time.Time
}

// appendFrame appends payload's frame to b.
func appendFrame(b, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	return append(b, payload...)
}

// nextFrame splits the first frame off b. With errDamaged, size is still the distance
// to the next frame. With errTorn nothing can follow.
func nextFrame(b []byte) (payload []byte, size int, err error) {
	if len(b) < frameBytes {
		return nil, 0, errTorn
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxFrame || int(n) > len(b)-frameBytes {
		return nil, 0, errTorn
	}
	size = frameBytes + int(n)
	payload = b[frameBytes:size]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, size, errDamaged
	}
	return payload, size, nil
}

// record is a decoded payload.
type record struct {
	kind     byte
	message  message // of events and results
	finished uint64
	snapshot snapshot
}

func appendMessage(b []byte, m message) ([]byte, error) {
	var body any
	if m.event != nil {
		b, body = append(b, frameEvent), newWireEvent(m.event)
	} else {
		b, body = append(b, frameResult), newWireResult(m.result)
	}
	b = binary.AppendUvarint(b, m.seq)
	b = binary.AppendVarint(b, m.at.UnixNano())
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return append(b, text...), nil
}

func appendFinished(b []byte, seq uint64) []byte {
	return binary.AppendUvarint(append(b, frameFinished), seq)
}

func appendSnapshot(b []byte, s snapshot) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a snapshot: %w", err)
	}
	return append(append(b, frameSnapshot), text...), nil
}

// decode reads a payload whose checksum was verified.
func decode(p []byte) (record, error) {
	if len(p) == 0 {
		return record{}, errTorn
	}
	r := record{kind: p[0]}
	p = p[1:]
	switch r.kind {
	case frameEvent, frameResult:
		seq, n := binary.Uvarint(p)
		if n <= 0 {
			return record{}, errTorn
		}
		at, k := binary.Varint(p[n:])
		if k <= 0 {
			return record{}, errTorn
		}
		r.message.seq, r.message.at = seq, time.Unix(0, at).UTC()
		body := p[n+k:]
		if r.kind == frameEvent {
			var w wireEvent
			if err := json.Unmarshal(body, &w); err != nil {
				return record{}, fmt.Errorf("decode an event: %w", err)
			}
			e := w.event()
			r.message.event = &e
			return r, nil
		}
		var w wireResult
		if err := json.Unmarshal(body, &w); err != nil {
			return record{}, fmt.Errorf("decode a result: %w", err)
		}
		res := w.result()
		r.message.result = &res
	case frameFinished:
		seq, n := binary.Uvarint(p)
		if n <= 0 {
			return record{}, errTorn
		}
		r.finished = seq
	case frameSnapshot:
		if err := json.Unmarshal(p, &r.snapshot); err != nil {
			return record{}, fmt.Errorf("decode a snapshot: %w", err)
		}
	default:
		return record{}, fmt.Errorf("record of unknown type %d", r.kind)
	}
	return r, nil
}
