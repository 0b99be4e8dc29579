package otlp

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// Wire types of protobuf (https://protobuf.dev/programming-guides/encoding).
const (
	varint  = 0
	fixed64 = 1
	bytesT  = 2
	fixed32 = 5
)

// field is one field of a message. data is a view into the payload if the
// type is bytesT; otherwise num holds the value.
type field struct {
	number int32
	wire   uint8
	num    uint64
	data   []byte
}

// MalformedError reports that a payload is malformed. Nothing of it was accepted and a
// retry would fail again.
type MalformedError struct{ Reason string }

func (e *MalformedError) Error() string { return "malformed payload: " + e.Reason }

func malformed(format string, args ...any) error {
	return &MalformedError{fmt.Sprintf(format, args...)}
}

// next reads the field at b[i:] into f and returns the index after it.
func (f *field) next(b []byte, i int) (int, error) {
	tag := uint64(b[i])
	if tag < 0x80 {
		i++
	} else {
		var n int
		if tag, n = binary.Uvarint(b[i:]); n <= 0 {
			return i, malformed("a field's tag is cut off or too long")
		}
		i += n
	}
	if tag>>3 == 0 || tag>>3 > 1<<29-1 {
		return i, malformed("field number %d", tag>>3)
	}
	f.number, f.wire = int32(tag>>3), uint8(tag&7)
	switch f.wire {
	case bytesT:
		var n uint64
		if i < len(b) && b[i] < 0x80 {
			n = uint64(b[i])
			i++
		} else {
			var k int
			if n, k = binary.Uvarint(b[i:]); k <= 0 {
				return i, malformed("the length of field %d is cut off or too long", f.number)
			}
			i += k
		}
		if n > uint64(len(b)-i) {
			return i, malformed("field %d claims %d bytes where %d are left", f.number, n, len(b)-i)
		}
		f.data = b[i : i+int(n) : i+int(n)]
		i += int(n)
	case fixed64:
		if len(b)-i < 8 {
			return i, malformed("field %d is cut off", f.number)
		}
		f.num = binary.LittleEndian.Uint64(b[i:])
		i += 8
	case varint:
		n, k := binary.Uvarint(b[i:])
		if k <= 0 {
			return i, malformed("field %d is cut off or too long", f.number)
		}
		f.num = n
		i += k
	case fixed32:
		if len(b)-i < 4 {
			return i, malformed("field %d is cut off", f.number)
		}
		f.num = uint64(binary.LittleEndian.Uint32(b[i:]))
		i += 4
	default:
		// OTLP has no groups: a whole one is skipped.
		n := protowire.ConsumeFieldValue(protowire.Number(f.number), protowire.Type(f.wire), b[i:])
		if n < 0 {
			return i, malformed("field %d: wire type %d", f.number, f.wire)
		}
		i += n
	}
	return i, nil
}

// view returns b as a string without copying: valid as long as the payload.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf is the inverse of view: the bytes must not be written to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func zigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }
