package hist

import (
	"encoding/binary"
	"math"
)

// Counts are written as bytes in one of two alphabets; the writer takes the
// shorter. Both are byte-aligned, so that reading is a loop with one branch
// that is nearly always taken the same way.
//
//	nibbles (small counts)
//	  00-EF  two buckets: the low digit, then the high one
//	  F0-FB  1 to 12 empty buckets
//	  FC u   13+u empty buckets (u: uvarint)
//	  FD b   one bucket: b
//	  FE u   one bucket: 256+u
//	  FF     not used
//
//	bytes (larger counts)
//	  00-CF  one bucket
//	  D0-EF  one bucket, with the next byte as the low one: 208 to 8399
//	  F0-FE  2 to 16 empty buckets
//	  FF 0 u one bucket: u
//	  FF u   16+u empty buckets, u > 0
//
// The number of buckets is known beforehand; a high digit beyond it is 0.
type tokens struct {
	dst     []byte
	pending int  // a low digit that waits for its high one, -1 if none
	large   bool // a count did not fit a digit: the other alphabet may be shorter
}

// add writes gap empty buckets and one that holds c > 0.
func (t *tokens) add(gap int, c uint64) {
	if t.pending >= 0 {
		switch {
		case gap > 0:
			t.dst = append(t.dst, byte(t.pending))
			gap--
		case c <= 14:
			t.dst = append(t.dst, byte(t.pending)|byte(c)<<4)
			t.pending = -1
			return
		default:
			t.dst = append(t.dst, 0xfd, byte(t.pending))
		}
		t.pending = -1
	}
	switch {
	case gap == 0:
	case gap == 1 && c <= 14:
		t.dst = append(t.dst, byte(c)<<4)
		return
	case gap <= 12:
		t.dst = append(t.dst, 0xf0+byte(gap-1))
	default:
		t.dst = append(t.dst, 0xfc)
		t.dst = binary.AppendUvarint(t.dst, uint64(gap-13))
	}
	switch {
	case c <= 15:
		t.pending = int(c)
	case c <= 255:
		t.large = true
		t.dst = append(t.dst, 0xfd, byte(c))
	default:
		t.large = true
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

// count is what buckets may be counted in.
type count interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// appendCounts writes counts, whose first and last are not zero, in the
// shorter alphabet.
func appendCounts[C count](dst []byte, counts []C) (_ []byte, bytes bool) {
	start := len(dst)
	t := tokens{dst: dst, pending: -1}
	gap := 0
	for _, c := range counts {
		if c == 0 {
			gap++
			continue
		}
		t.add(gap, uint64(c))
		gap = 0
	}
	dst = t.flush()
	if !t.large {
		return dst, false
	}
	mid := len(dst)
	gap = 0
	for _, c := range counts {
		if c == 0 {
			gap++
			continue
		}
		dst = appendByteToken(dst, gap, uint64(c))
		gap = 0
	}
	if len(dst)-mid < mid-start {
		n := copy(dst[start:], dst[mid:])
		return dst[:start+n], true
	}
	return dst[:mid], false
}

func appendByteToken(dst []byte, gap int, c uint64) []byte {
	switch {
	case gap == 0:
	case gap == 1:
		dst = append(dst, 0)
	case gap <= 16:
		dst = append(dst, 0xf0+byte(gap-2))
	default:
		dst = append(dst, 0xff)
		dst = binary.AppendUvarint(dst, uint64(gap-16))
	}
	switch {
	case c < 208:
		return append(dst, byte(c))
	case c < 8400:
		return append(dst, 0xd0+byte((c-208)>>8), byte(c-208))
	}
	dst = append(dst, 0xff, 0)
	return binary.AppendUvarint(dst, c)
}

// addNibbles adds counts in the first alphabet to w. It returns their total and
// how many bytes it read, or -1 if they do not fit.
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
			for j := range v {
				v[j] += x & 15
				x >>= 4
			}
			p += 8
			i += 16
		}
		if p >= len(b) {
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

// addBytes is addNibbles for the second alphabet.
func addBytes(w []uint64, b []byte) (total uint64, used int) {
	i, p := 0, 0
	for i < len(w) {
		// Eight at a time, while none is above CF.
		for p+8 <= len(b) && i+8 <= len(w) {
			x := binary.LittleEndian.Uint64(b[p:])
			if x&(x<<1)&(x<<2|x<<3)&0x8080808080808080 != 0 {
				break
			}
			const halves = 0x00ff00ff00ff00ff
			total += (x&halves + x>>8&halves) * 0x0001000100010001 >> 48
			v := (*[8]uint64)(w[i:])
			for j := range v {
				v[j] += x & 255
				x >>= 8
			}
			p += 8
			i += 8
		}
		if p >= len(b) {
			break
		}
		c := b[p]
		p++
		if c < 0xd0 {
			w[i] += uint64(c)
			total += uint64(c)
			i++
			continue
		}
		if c < 0xf0 {
			if p >= len(b) {
				return 0, -1
			}
			u := uint64(c-0xd0)<<8 + uint64(b[p]) + 208
			p++
			w[i] += u
			total += u
			i++
			continue
		}
		if c < 0xff {
			i += int(c-0xf0) + 2
			continue
		}
		u, k := binary.Uvarint(b[p:])
		if k <= 0 {
			return 0, -1
		}
		p += k
		if u > 0 {
			if u > uint64(len(w)) {
				return 0, -1
			}
			i += 16 + int(u)
			continue
		}
		u, k = binary.Uvarint(b[p:])
		if k <= 0 || u > math.MaxInt64 {
			return 0, -1
		}
		p += k
		w[i] += u
		if total += u; total > math.MaxInt64 {
			return 0, -1
		}
		i++
	}
	if i != len(w) {
		return 0, -1
	}
	return total, p
}
