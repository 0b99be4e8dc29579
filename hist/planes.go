package hist

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Large counts are written in planes: the low bytes of all counts one after
// the other, then their second bytes where there are any, and so on, so that
// adding them is a loop without a decision per bucket. A plane is cut into
// segments where it has eight zeros or more.
//
//	segment  zeros before it uvarint | 4×length + what follows, uvarint | length bytes
//
// What follows is nothing (0), another segment of the plane (1), or the first
// segment of the next plane (2), whose buckets start anew.
const (
	lastSegment = 0
	sameplane   = 1
	nextPlane   = 2

	cutZeros = 8
)

// appendPlanes writes counts, whose first and last are not zero.
func appendPlanes[C count](dst []byte, p *packed, counts []C) []byte {
	if p.filled() && p.any < 256 {
		return appendSegments(slices.Grow(dst, p.n+p.n/cutZeros+16), p.low[:p.n], lastSegment)
	}
	for shift := uint(0); ; shift += 8 {
		// The plane as it is, and whether there is a higher one.
		dst = slices.Grow(dst, len(counts)+len(counts)/cutZeros+16)
		start := len(dst)
		plane := dst[start+8 : start+8+len(counts)]
		var all C
		for i, c := range counts {
			plane[i] = byte(c >> (shift & 63))
			all |= c
		}
		higher := byte(lastSegment)
		if uint64(all)>>shift>>8 != 0 {
			higher = nextPlane
		}
		dst = appendSegments(dst, plane, higher)
		if higher == lastSegment {
			return dst
		}
	}
}

// appendSegments appends a plane that lies within dst's memory, from eight bytes beyond
// its end on. The writing never overtakes the reading: a segment's head takes more bytes
// than its zeros only by the eight bytes before.
func appendSegments(dst, plane []byte, follows byte) []byte {
	gap := 0
	for len(plane) > 0 && plane[0] == 0 {
		plane = plane[1:]
		gap++
	}
	for {
		end := cut(plane)
		next := end
		for next < len(plane) && plane[next] == 0 {
			next++
		}
		dst = binary.AppendUvarint(dst, uint64(gap))
		head := byte(sameplane)
		if next == len(plane) {
			head = follows
		}
		dst = binary.AppendUvarint(dst, uint64(end)<<2|uint64(head))
		dst = append(dst, plane[:end]...)
		if next == len(plane) {
			return dst
		}
		gap = next - end
		plane = plane[next:]
	}
}

// cut returns the end of the segment that plane begins with.
func cut(plane []byte) int {
	end := 0 // behind the last nonzero byte
	for i := 0; i < len(plane); {
		if i+8 <= len(plane) {
			// Where the last of eight is not zero, no cut ends here.
			if x := binary.LittleEndian.Uint64(plane[i:]); x != 0 {
				if first := i + bits.TrailingZeros64(x)>>3; first-end >= cutZeros {
					return end
				}
				i += 8
				end = i - bits.LeadingZeros64(x)>>3
				continue
			}
			return end // cutZeros zeros, or the end after fewer
		}
		if plane[i] != 0 {
			if i-end >= cutZeros {
				return end
			}
			end = i + 1
		}
		i++
	}
	return end
}

// addPlanes adds counts in planes to w. It returns their total and the number of bytes
// read, or -1 if they do not fit.
func addPlanes(w []uint64, b []byte) (total uint64, used int) {
	p, at, shift := 0, 0, uint(0)
	for {
		var gap, n uint64
		if p+1 < len(b) && b[p] < 0x80 && b[p+1] < 0x80 {
			gap, n = uint64(b[p]), uint64(b[p+1])
			p += 2
		} else {
			var k int
			if gap, k = binary.Uvarint(b[p:]); k <= 0 {
				return 0, -1
			}
			p += k
			if n, k = binary.Uvarint(b[p:]); k <= 0 {
				return 0, -1
			}
			p += k
		}
		follows := n & 3
		n >>= 2
		if follows == 3 || gap > uint64(len(w)-at) || n > uint64(len(w)-at)-gap || n > uint64(len(b)-p) {
			return 0, -1
		}
		at += int(gap)
		sum := addPlane(w[at:at+int(n)], b[p:p+int(n)], shift)
		if sum > (math.MaxInt64-total)>>shift {
			return 0, -1
		}
		total += sum << shift
		at += int(n)
		p += int(n)
		switch follows {
		case lastSegment:
			return total, p
		case nextPlane:
			at = 0
			if shift += 8; shift == 64 {
				return 0, -1
			}
		}
	}
}

// addPlane adds the bytes of one segment, shifted, and returns their sum.
func addPlane(w []uint64, b []byte, shift uint) (sum uint64) {
	for len(b) >= 8 && len(w) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		const halves = 0x00ff00ff00ff00ff
		sum += (x&halves + x>>8&halves) * 0x0001000100010001 >> 48
		v := (*[8]uint64)(w)
		if shift == 0 {
			v[0] += x & 255
			v[1] += x >> 8 & 255
			v[2] += x >> 16 & 255
			v[3] += x >> 24 & 255
			v[4] += x >> 32 & 255
			v[5] += x >> 40 & 255
			v[6] += x >> 48 & 255
			v[7] += x >> 56
		} else {
			s := shift & 63
			v[0] += x & 255 << s
			v[1] += x >> 8 & 255 << s
			v[2] += x >> 16 & 255 << s
			v[3] += x >> 24 & 255 << s
			v[4] += x >> 32 & 255 << s
			v[5] += x >> 40 & 255 << s
			v[6] += x >> 48 & 255 << s
			v[7] += x >> 56 << s
		}
		w, b = w[8:], b[8:]
	}
	for i, c := range b {
		sum += uint64(c)
		w[i] += uint64(c) << (shift & 63)
	}
	return sum
}

// The wide form, for histograms as the short ones hold them but with large
// counts, says all that is needed to add it where that can be read at once:
//
//	widths uint16: four digits, the bytes of each value less one
//	count | sum | min | max-min, of those widths
//	first bucket int16 | buckets-1 uint16 | planes
//
// Integers are little-endian. At least three bytes of planes follow, so eight
// can be read at each value.
type wide struct {
	count         uint64
	sum, min, max int64
	first, n      int32
	planes        []byte
}

func appendWide[C count](dst []byte, c *Cell, p *packed, counts []C) []byte {
	dst = append(dst, wideForm, 0, 0)
	at := len(dst) - 2
	widths := uint16(0)
	for i, v := range [...]uint64{c.Count, uint64(c.SumNanos), uint64(c.MinNanos), uint64(c.MaxNanos - c.MinNanos)} {
		n := (bits.Len64(v|1) + 7) / 8
		widths |= uint16(n-1) << (4 * i)
		dst = binary.LittleEndian.AppendUint64(dst, v)
		dst = dst[:len(dst)-8+n]
	}
	binary.LittleEndian.PutUint16(dst[at:], widths)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(c.Offset))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(counts)-1))
	return appendPlanes(dst, p, counts)
}

// read reads the bytes after the form's byte. It does not check the planes.
func (w *wide) read(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	widths := uint(b[0]) | uint(b[1])<<8
	if widths&0x8888 != 0 {
		return false
	}
	b = b[2:]
	end := widths&7 + widths>>4&7 + widths>>8&7 + widths>>12 + 4
	if uint(len(b)) < end+7 {
		return false
	}
	take := func() uint64 {
		n := widths & 7
		v := binary.LittleEndian.Uint64(b) << (56 - 8*n) >> (56 - 8*n)
		b = b[n+1:]
		widths >>= 4
		return v
	}
	w.count = take()
	w.sum, w.min = int64(take()), int64(take())
	spread := int64(take())
	w.max = w.min + spread
	w.first = int32(int16(binary.LittleEndian.Uint16(b)))
	w.n = int32(binary.LittleEndian.Uint16(b[2:])) + 1
	w.planes = b[4:]
	last := w.first + w.n - 1
	return int64(w.count) > 0 && w.sum >= 0 && w.min >= 0 && spread >= 0 && w.max >= 0 &&
		w.first > -128<<DefaultSchema && last <= 1024<<DefaultSchema
}

// fitsWide reports whether a cell can be written in the wide form.
func fitsWide(c *Cell, n int) bool {
	return c.Zero == 0 && n > 0 && c.Offset > -128<<DefaultSchema && int(c.Offset)+n-1 <= 1024<<DefaultSchema
}
