package hist

import (
	"encoding/binary"
	"math/bits"
)

// packed holds the counts of one side as bytes, 255 for any that is greater, so that they
// are added up, judged and written eight at a time. The zero value is empty.
type packed struct {
	total, any      uint64 // sum of the counts, unless it overflows; all of them or'ed
	occupied, large int    // see mostlyLarge
	n               int
	low             [maxPacked + 8]byte // zeros follow the n counts
}

// maxPacked is the greatest number of buckets that are packed: sixteen octaves at
// DefaultSchema. More are written one by one.
const maxPacked = 512

const (
	ones    = 0x0101010101010101
	lowBits = 0x7f * ones
	topBits = 0x80 * ones
	halves  = 0x00ff00ff00ff00ff
)

// nonzero returns the top bit of each byte that is not zero.
func nonzero(x uint64) uint64 { return (x&lowBits + lowBits | x) & topBits }

// above14 returns the top bit of each byte above 14.
func above14(x uint64) uint64 { return (x&lowBits + (0x7f-14)*ones | x) & topBits }

// addBytes returns the sum of the bytes of x.
func addBytes(x uint64) uint64 { return (x&halves + x>>8&halves) * 0x0001000100010001 >> 48 }

func (p *packed) filled() bool { return p != nil && p.n > 0 }

// pack fills an empty p. It reports whether there are few enough counts.
func pack[C count](p *packed, counts []C) bool {
	if len(counts) > maxPacked {
		return false
	}
	p.n = len(counts)
	var total, any, occupied, large uint64 // the last two a byte each, of maxPacked/8 at most
	low, i := p.low[:], 0
	for ; i+8 <= len(counts) && i+8 <= len(low); i += 8 {
		v := counts[i : i+8 : i+8]
		c0, c1, c2, c3 := uint64(v[0]), uint64(v[1]), uint64(v[2]), uint64(v[3])
		c4, c5, c6, c7 := uint64(v[4]), uint64(v[5]), uint64(v[6]), uint64(v[7])
		or := c0 | c1 | c2 | c3 | c4 | c5 | c6 | c7
		any |= or
		if or > 0xff {
			total += c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7
			c0, c1, c2, c3 = min(c0, 255), min(c1, 255), min(c2, 255), min(c3, 255)
			c4, c5, c6, c7 = min(c4, 255), min(c5, 255), min(c6, 255), min(c7, 255)
			or = 0
		}
		x := c0 | c1<<8 | c2<<16 | c3<<24 | c4<<32 | c5<<40 | c6<<48 | c7<<56
		binary.LittleEndian.PutUint64(low[i:i+8], x)
		if or > 0 {
			total += addBytes(x)
		}
		occupied += nonzero(x) >> 7
		large += above14(x) >> 7
	}
	for ; i < len(counts); i++ {
		c := uint64(counts[i])
		total += c
		any |= c
		p.low[i] = byte(min(c, 255))
		p.occupied += int((c | -c) >> 63)
		if c > 14 {
			p.large++
		}
	}
	p.total, p.any = total, any
	p.occupied += int(addBytes(occupied))
	p.large += int(addBytes(large))
	return true
}

// appendPacked writes counts in nibbles, as appendNibbles does.
func appendPacked[C count](dst []byte, p *packed, counts []C) []byte {
	t := tokens{dst: dst, pending: -1}
	var word uint64 // n digits that are not written yet, fewer than eight
	n := 0
	for i := 0; i < p.n; {
		// A bucket that is not empty, or the beginning, lies before i. The digits of the
		// next eight end before the first escape: a large count, or empty buckets that
		// are too many. They end with a bucket that is not empty.
		x := binary.LittleEndian.Uint64(p.low[i:])
		set := nonzero(x)
		empty := set ^ topBits
		empty &= empty >> 8
		escapes := above14(x) | empty&(empty>>16)&(empty>>24)
		if escapes != 0 {
			before := uint64(1)<<(bits.TrailingZeros64(escapes)&^7) - 1
			set &= before
			x &= before
		}
		if set != 0 {
			digits := 8 - bits.LeadingZeros64(set)/8
			x = (x | x>>4) & halves
			x = (x | x>>8) & 0x0000ffff0000ffff
			x = (x | x>>16) & 0xffffffff
			word |= x << (4 * n & 63)
			if n += digits; n >= 8 {
				t.dst = binary.LittleEndian.AppendUint32(t.dst, uint32(word))
				word >>= 32
				n -= 8
			}
			i += digits
			continue
		}
		gap := 0
		for p.low[i+gap] == 0 {
			gap++
		}
		i += gap + 1
		t.digits(word, n)
		t.add(gap, uint64(counts[i-1]))
		word, n = 0, 0
		if t.pending >= 0 {
			word, n = uint64(t.pending), 1
			t.pending = -1
		}
	}
	t.digits(word, n)
	return t.flush()
}
