package otlp

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"tailscope/internal/observe/semconv"
)

// rawValue is where a value lies in the payload: an AnyValue message or, of a span's name,
// the field. What a value says in words is worked out where that is needed: most spans are
// recognised by the bytes.
type rawValue struct{ at, size uint32 }

// rawOf returns where b, a part of the payload, lies in it.
func (d *decoder) rawOf(b []byte) rawValue {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(d.payload)))
	return rawValue{uint32(at), uint32(len(b))}
}

// bytes returns the bytes of v.
func (d *decoder) bytes(v rawValue) []byte { return d.payload[v.at : v.at+v.size : v.at+v.size] }

// isText reports whether an AnyValue is a string, not empty, in its usual form, and how long
// what comes before the string is.
func isText(b []byte) (before int, ok bool) {
	if len(b) < 3 || b[0] != 1<<3|bytesT {
		return 0, false
	}
	if b[1] < 0x80 {
		return 2, int(b[1]) == len(b)-2
	}
	return 3, len(b) > 3 && b[2] < 0x80 && int(b[1]&0x7F)|int(b[2])<<7 == len(b)-3
}

// value returns the text of a slot that is present: a view into the payload or into the arena.
func (d *decoder) value(s semconv.Slot) string {
	b := d.bytes(d.raw[s])
	if s == semconv.Name {
		var f field
		_, _ = f.next(b, 0) // read before
		return view(f.data)
	}
	if before, ok := isText(b); ok {
		return view(b[before:])
	}
	text, _ := d.scalarText(b) // read before
	return text
}

// readTexts sets d.attrs to the texts of slots that are present.
func (d *decoder) readTexts(of semconv.Mask) {
	d.attrs.Mask = of
	for ; of != 0; of &= of - 1 {
		s := semconv.Slot(bits.TrailingZeros64(uint64(of)))
		d.attrs.V[s] = d.value(s)
	}
}

// scalarText returns a string, bool, int or double as text, and "" of anything else.
func (d *decoder) scalarText(b []byte) (string, error) {
	v, err := scalar(b)
	if err != nil {
		return "", err
	}
	at := len(d.arena)
	switch v.number {
	case 1:
		return view(v.data), nil
	case 2:
		return strconv.FormatBool(v.num != 0), nil
	case 3:
		d.arena = strconv.AppendInt(d.arena, int64(v.num), 10)
	case 4:
		d.arena = strconv.AppendFloat(d.arena, math.Float64frombits(v.num), 'g', -1, 64)
	}
	return view(d.arena[at:]), nil
}

// mix returns the halves of a product as one. After wyhash
// (https://github.com/wangyi-fudan/wyhash).
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// mixBytes continues hash h with the bytes of b. The secret prevents a search for collisions.
func mixBytes(h, secret uint64, b []byte) uint64 {
	n := len(b)
	h += uint64(n) * 0x9E3779B97F4A7C15 // where a value ends counts too
	switch {
	case n >= 8:
		for i := 0; n-i > 16; i += 16 {
			h = mix(binary.LittleEndian.Uint64(b[i:])^secret, binary.LittleEndian.Uint64(b[i+8:])^h)
		}
		return mix(binary.LittleEndian.Uint64(b[max(n-16, 0):])^secret, binary.LittleEndian.Uint64(b[n-8:])^h)
	case n >= 4:
		return mix(uint64(binary.LittleEndian.Uint32(b))^secret, uint64(binary.LittleEndian.Uint32(b[n-4:]))^h)
	case n > 0:
		return mix((uint64(b[0])<<16|uint64(b[n/2])<<8|uint64(b[n-1]))^secret, h)
	}
	return mix(secret, h)
}
