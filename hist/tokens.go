package hist

import (
	"encoding/binary"
	"math"
)

// Small counts are written as nibbles, which take the fewest bytes; the writer
// changes to planes (planes.go), which read faster, where more than one in
// twenty of the occupied buckets would need an escape.
//
//	00-EF  two buckets: the low digit, then the high one
//	F0-FB  1 to 12 empty buckets
//	FC u   13+u empty buckets (u: uvarint)
//	FD b   one bucket: b
//	FE u   one bucket: 256+u
//	FF     not used
//
// The number of buckets is known beforehand; a high digit beyond it is 0.
type tokens struct {
	dst     []byte
	pending int // a low digit that waits for its high one, -1 if none
}

// add writes gap empty buckets and one that holds c > 0. Up to fewZeros empty ones are
// digits like others: cheaper to read than an escape.
func (t *tokens) add(gap int, c uint64) {
	if gap > 0 && t.pending >= 0 {
		t.dst = append(t.dst, byte(t.pending))
		t.pending = -1
		gap--
	}
	if gap > fewZeros {
		if gap <= 12 {
			t.dst = append(t.dst, 0xf0+byte(gap-1))
		} else {
			t.dst = append(t.dst, 0xfc)
			t.dst = binary.AppendUvarint(t.dst, uint64(gap-13))
		}
		gap = 0
	}
	for ; gap >= 2; gap -= 2 {
		t.dst = append(t.dst, 0)
	}
	if gap == 1 {
		t.pending = 0
	}
	if t.pending >= 0 {
		if c <= 14 {
			t.dst = append(t.dst, byte(t.pending)|byte(c)<<4)
			t.pending = -1
			return
		}
		if gap == 1 {
			t.dst = append(t.dst, 0xf0)
		} else {
			t.dst = append(t.dst, 0xfd, byte(t.pending))
		}
		t.pending = -1
	}
	switch {
	case c <= 15:
		t.pending = int(c)
	case c <= 255:
		t.dst = append(t.dst, 0xfd, byte(c))
	default:
		t.dst = append(t.dst, 0xfe)
		t.dst = binary.AppendUvarint(t.dst, c-256)
	}
}

func (t *tokens) flush() []byte {
	if t.pending >= 0 {
		t.dst = append(t.dst, byte(t.pending))
		t.pending = -1
	}
	return t.dst
}

// count is the type of buckets' counts.
type count interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

const fewZeros = 4

// mostlyLarge reports whether planes are the better form: more than one in twenty of the
// occupied buckets holds more than fits a digit of either place. An escape costs as much
// time as twenty digits.
func mostlyLarge(occupied, large int) bool { return 20*large > occupied }

// appendCounts writes counts, whose first and last are not zero. p is nil or has them
// packed, if they are few enough.
func appendCounts[C count](dst []byte, p *packed, counts []C) (_ []byte, planes bool) {
	if wantsPlanes(p, counts) {
		return appendPlanes(dst, p, counts), true
	}
	return appendNibbles(dst, p, counts), false
}

func wantsPlanes[C count](p *packed, counts []C) bool {
	if p.filled() {
		return mostlyLarge(p.occupied, p.large)
	}
	var occupied, large uint64
	for _, c := range counts {
		u := uint64(c)
		occupied += (u | -u) >> 63
		large += (14 - u) >> 63 // counts are below 2^63
	}
	return mostlyLarge(int(occupied), int(large))
}

func appendNibbles[C count](dst []byte, p *packed, counts []C) []byte {
	if p.filled() {
		return appendPacked(dst, p, counts)
	}
	t := tokens{dst: dst, pending: -1}
	// Digits collect in a word; anything else goes through add.
	var word uint64
	n, gap := 0, 0
	for _, c := range counts {
		if c == 0 {
			gap++
			continue
		}
		if c <= 14 && gap <= fewZeros {
			word |= uint64(c) << (4 * uint(n+gap) & 63)
			n += gap + 1
			gap = 0
			if n >= 8 {
				t.dst = binary.LittleEndian.AppendUint32(t.dst, uint32(word))
				word >>= 32
				n -= 8
			}
			continue
		}
		t.digits(word, n)
		t.add(gap, uint64(c))
		word, n, gap = 0, 0, 0
		if t.pending >= 0 {
			word, n = uint64(t.pending), 1
			t.pending = -1
		}
	}
	t.digits(word, n)
	return t.flush()
}

// digits writes the n lowest digits of a word.
func (t *tokens) digits(word uint64, n int) {
	for ; n >= 2; n -= 2 {
		t.dst = append(t.dst, byte(word))
		word >>= 8
	}
	if n == 1 {
		t.pending = int(word & 15)
	}
}

// addNibbles adds counts in nibbles to w. It returns their total and the number of bytes
// read, or -1 if they do not fit.
func addNibbles(w []uint64, b []byte) (total uint64, used int) {
	i, p := 0, 0
	for i < len(w) {
		// Eight bytes, sixteen buckets at a time, while none is above EF.
		for p+8 <= len(b) && i+16 <= len(w) {
			x := binary.LittleEndian.Uint64(b[p:])
			if x&(x<<1)&(x<<2)&(x<<3)&0x8080808080808080 != 0 {
				break
			}
			const digits = 0x0f0f0f0f0f0f0f0f
			total += (x&digits + x>>4&digits) * 0x0101010101010101 >> 56
			v := (*[16]uint64)(w[i:])
			v[0] += x & 15
			v[1] += x >> 4 & 15
			v[2] += x >> 8 & 15
			v[3] += x >> 12 & 15
			v[4] += x >> 16 & 15
			v[5] += x >> 20 & 15
			v[6] += x >> 24 & 15
			v[7] += x >> 28 & 15
			v[8] += x >> 32 & 15
			v[9] += x >> 36 & 15
			v[10] += x >> 40 & 15
			v[11] += x >> 44 & 15
			v[12] += x >> 48 & 15
			v[13] += x >> 52 & 15
			v[14] += x >> 56 & 15
			v[15] += x >> 60
			p += 8
			i += 16
		}
		if p >= len(b) || i >= len(w) {
			break
		}
		c := b[p]
		p++
		if c < 0xf0 {
			lo, hi := uint64(c&15), uint64(c>>4)
			w[i] += lo
			total += lo
			if i++; i < len(w) {
				w[i] += hi
				total += hi
				i++
			} else if hi != 0 {
				return 0, -1
			}
			continue
		}
		switch {
		case c <= 0xfb:
			i += int(c-0xf0) + 1
		case c == 0xfd:
			if p >= len(b) {
				return 0, -1
			}
			w[i] += uint64(b[p])
			total += uint64(b[p])
			p++
			i++
		default:
			u, k := binary.Uvarint(b[p:])
			if k <= 0 || c == 0xff {
				return 0, -1
			}
			p += k
			if c == 0xfc {
				if u > uint64(len(w)) {
					return 0, -1
				}
				i += 13 + int(u)
				continue
			}
			u += 256
			if w[i] += u; u < 256 || u > math.MaxInt64 {
				return 0, -1
			}
			if total += u; total > math.MaxInt64 {
				return 0, -1
			}
			i++
		}
	}
	if i != len(w) {
		return 0, -1
	}
	return total, p
}
