package otlp

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"sync"

	"tailscope/internal/agg"
)

// inflater decompresses DEFLATE (RFC 1951) from memory to memory, of a known size. It is half
// as dear as a reader of a stream, which must be able to stop anywhere. What it does not
// expect it leaves to that: it reports only that it failed.
type inflater struct {
	literals  [literalEntries]uint32
	distances [distanceEntries]uint32
	lengths   [literalSymbols + distanceSymbols]uint8
}

// A table is indexed by the next bits of the input, the first in the lowest place. An entry
// has the bits of the code and of what extends its value (8 bits), those of the code alone
// (5 bits), and the value (from bit 16 on). That of a longer code leads to a table of the bits
// that follow. 0 is no code.
const (
	literalBits, distanceBits       = 11, 8
	literalEntries, distanceEntries = 1<<literalBits + 512, 1<<distanceBits + 256 // at most 2,342 and 402 are needed
	literalSymbols, distanceSymbols = 288, 32

	isLiteral = 1 << 31
	isSpecial = 1 << 15 // the end of a block, or:
	isLonger  = 1 << 14
)

// mostInflated is the factor by which DEFLATE can shrink.
const mostInflated = 1032

// inflateSlack is what may be written beyond the end of the output.
const inflateSlack = 320

// The values of symbols without the bits of the code.
var literalValues, distanceValues = symbolValues()

func symbolValues() (literals [literalSymbols]uint32, distances [distanceSymbols]uint32) {
	for i := range 256 {
		literals[i] = isLiteral | uint32(i)<<16
	}
	literals[256] = isSpecial
	value, extra := uint32(3), uint32(0)
	for i := range 28 {
		if i >= 8 && i%4 == 0 {
			extra++
		}
		literals[257+i] = value<<16 | extra
		value += 1 << extra
	}
	literals[285] = 258 << 16
	value, extra = 1, 0
	for i := range 30 {
		if i >= 4 && i%2 == 0 {
			extra++
		}
		distances[i] = value<<16 | extra
		value += 1 << extra
	}
	return literals, distances
}

// buildTable fills a table from the lengths of the symbols' codes.
func buildTable(table []uint32, root int, lengths []uint8, values []uint32) bool {
	var count, next [16]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	code, longest := 0, 0
	for n := 1; n < 16; n++ {
		next[n] = code
		code = (code + count[n]) << 1
		if count[n] > 0 {
			longest = n
		}
		if code > 2<<n {
			return false // more codes than there is room for
		}
	}
	clear(table[:1<<root])
	used := 1 << root
	// In the order of codes, so that those with one beginning follow each other.
	var order [literalSymbols]uint16
	var at [16]int
	for n := 1; n < 15; n++ {
		at[n+1] = at[n] + count[n]
	}
	total := at[15] + count[15]
	for s, n := range lengths {
		if n > 0 {
			order[at[n]] = uint16(s)
			at[n]++
		}
	}
	for _, s := range order[:total] {
		n := int(lengths[s])
		reversed := int(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		v := values[s]
		if v == 0 {
			count[n]--
			continue
		}
		if n <= root {
			e := v + uint32(n) | uint32(n)<<8
			for i := reversed; i < 1<<root; i += 1 << n {
				table[i] = e
			}
			count[n]--
			continue
		}
		first := &table[reversed&(1<<root-1)]
		if *first == 0 {
			size := n - root // grows while the codes that follow need it
			for left := 1<<size - count[n]; left > 0 && size+root < longest; {
				size++
				left = left<<1 - count[size+root]
			}
			if used+1<<size > len(table) {
				return false
			}
			clear(table[used : used+1<<size])
			*first = isSpecial | isLonger | uint32(used)<<16 | uint32(size)<<8 | uint32(root)
			used += 1 << size
		}
		size, from := *first>>8&15, int(*first>>16)
		rest := n - root
		e := v + uint32(rest) | uint32(rest)<<8
		for i := reversed >> root; i < 1<<size; i += 1 << rest {
			table[from+i] = e
		}
		count[n]--
	}
	return true
}

// bitReader reads bits of b. Beyond its end they are zeros.
type bitReader struct {
	b    []byte
	at   int    // the byte after those in bits
	bits uint64 // those not read yet, the first in the lowest place
	n    uint
}

// fill makes at least 56 bits available.
func (r *bitReader) fill() { r.bits, r.n, r.at = fillBits(r.b, r.bits, r.n, r.at) }

// fillBits is fill of a reader in variables, which stay in registers.
func fillBits(b []byte, acc uint64, n uint, at int) (uint64, uint, int) {
	if at+8 <= len(b) {
		acc |= binary.LittleEndian.Uint64(b[at:]) << (n & 63)
		return acc, n | 56, at + int(63-n)>>3
	}
	for ; n <= 56; n += 8 {
		if at < len(b) {
			acc |= uint64(b[at]) << (n & 63)
		}
		at++
	}
	return acc, n, at
}

func (r *bitReader) take(n uint) int {
	v := int(r.bits & (1<<n - 1))
	r.bits >>= n
	r.n -= n
	return v
}

// position returns the index of the first byte of which no bit was read.
func (r *bitReader) position() int { return r.at - int(r.n>>3) }

// inflate decompresses b, which may end in other bytes, to size bytes at the beginning of out,
// which has inflateSlack more. It returns where the compressed bytes end.
func (z *inflater) inflate(out, b []byte, size int) (end int, ok bool) {
	r := bitReader{b: b}
	o := 0
	for last := 0; last == 0; {
		r.fill()
		if r.position() >= len(b) {
			return 0, false
		}
		last = r.take(1)
		switch r.take(2) {
		case 0:
			r.take(r.n & 7)
			from := r.position()
			if from+4 > len(b) {
				return 0, false
			}
			n := int(binary.LittleEndian.Uint16(b[from:]))
			from += 4
			if n^0xFFFF != int(binary.LittleEndian.Uint16(b[from-2:])) || n > len(b)-from || n > size-o {
				return 0, false
			}
			o += copy(out[o:], b[from:from+n])
			r = bitReader{b: b, at: from + n}
			continue
		case 1:
			if !z.fixedTables() {
				return 0, false
			}
		case 2:
			if !z.readTables(&r) {
				return 0, false
			}
		default:
			return 0, false
		}
		if o, ok = z.block(out, &r, o, size); !ok {
			return 0, false
		}
	}
	end = r.position()
	return end, o == size && end <= len(b)
}

// block decompresses a block to out[o:].
func (z *inflater) block(out []byte, in *bitReader, o, size int) (int, bool) {
	b, acc, n, at := in.b, in.bits, in.n, in.at
	for {
		if o > size {
			return o, false
		}
		acc, n, at = fillBits(b, acc, n, at)
		e := z.literals[acc&(1<<literalBits-1)]
		if e >= isLiteral {
			out[o] = byte(e >> 16)
			o++
			acc >>= e & 63
			n -= uint(e & 63)
			if e = z.literals[acc&(1<<literalBits-1)]; e >= isLiteral {
				out[o] = byte(e >> 16)
				o++
				acc >>= e & 63
				n -= uint(e & 63)
				if e = z.literals[acc&(1<<literalBits-1)]; e >= isLiteral {
					out[o] = byte(e >> 16)
					o++
					acc >>= e & 63
					n -= uint(e & 63)
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isLonger != 0 {
				acc >>= literalBits
				n -= literalBits
				i := int(e>>16) + int(acc&(1<<(e>>8&15)-1))
				if i >= literalEntries {
					return o, false
				}
				e = z.literals[i]
				if e >= isLiteral {
					out[o] = byte(e >> 16)
					o++
					acc >>= e & 63
					n -= uint(e & 63)
					continue
				}
			}
			if e&isSpecial != 0 {
				acc >>= e & 63
				n -= uint(e & 63)
				in.bits, in.n, in.at = acc, n, at
				return o, true
			}
		}
		length := int(e>>16) + int(acc&(1<<(e&63)-1)>>(e>>8&31))
		acc >>= e & 63
		n -= uint(e & 63)
		if length == 0 {
			return o, false
		}
		acc, n, at = fillBits(b, acc, n, at)
		e = z.distances[acc&(1<<distanceBits-1)]
		if e&isSpecial != 0 {
			acc >>= distanceBits
			n -= distanceBits
			i := int(e>>16) + int(acc&(1<<(e>>8&15)-1))
			if i >= distanceEntries {
				return o, false
			}
			e = z.distances[i]
		}
		distance := int(e>>16) + int(acc&(1<<(e&63)-1)>>(e>>8&31))
		acc >>= e & 63
		n -= uint(e & 63)
		if distance == 0 || distance > o || o > size {
			return o, false
		}
		switch {
		case distance >= 16: // sixteen at a time, of which the last may be too many
			for from, i := o-distance, o; i < o+length; from, i = from+16, i+16 {
				*(*[16]byte)(out[i:]) = *(*[16]byte)(out[from:])
			}
		default:
			for i := o; i < o+length; i++ {
				out[i] = out[i-distance]
			}
		}
		o += length
	}
}

// fixedTables makes the tables of blocks that have none of their own.
func (z *inflater) fixedTables() bool {
	for i := range literalSymbols {
		n := uint8(8)
		switch {
		case i >= 280:
		case i >= 256:
			n = 7
		case i >= 144:
			n = 9
		}
		z.lengths[i] = n
	}
	for i := range distanceSymbols {
		z.lengths[literalSymbols+i] = 5
	}
	return z.buildTables(literalSymbols, distanceSymbols)
}

func (z *inflater) buildTables(literals, distances int) bool {
	return buildTable(z.literals[:], literalBits, z.lengths[:literals], literalValues[:]) &&
		buildTable(z.distances[:], distanceBits, z.lengths[literals:literals+distances], distanceValues[:])
}

// readTables reads the tables of a block.
func (z *inflater) readTables(r *bitReader) bool {
	literals, distances, n := r.take(5)+257, r.take(5)+1, r.take(4)+4
	var sizes [19]uint8
	order := [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	for _, s := range order[:n] {
		r.fill()
		sizes[s] = uint8(r.take(3))
	}
	var values [19]uint32
	for i := range values {
		values[i] = uint32(i+1) << 16 // 0 is no code
	}
	var table [1 << 7]uint32
	if !buildTable(table[:], 7, sizes[:], values[:]) {
		return false
	}
	all := z.lengths[:literals+distances]
	for i := 0; i < len(all); {
		r.fill()
		e := table[r.bits&(1<<7-1)]
		if e == 0 {
			return false
		}
		r.take(uint(e & 63))
		s, again := uint8(e>>16-1), 1
		switch s {
		case 16:
			if again = 3 + r.take(2); i == 0 {
				return false
			}
			s = all[i-1]
		case 17:
			s, again = 0, 3+r.take(3)
		case 18:
			s, again = 0, 11+r.take(7)
		}
		if again > len(all)-i {
			return false
		}
		for range again {
			all[i] = s
			i++
		}
	}
	return z.buildTables(literals, distances)
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// gzipBlock decompresses a body of one member of gzip (RFC 1952) without a name or comment, as
// exporters send. It is not ok for any other, and for what is damaged.
func gzipBlock(dst, b []byte, limit int, hold func(int) bool) (out []byte, ok bool, err error) {
	const head, tail = 10, 8
	if len(b) < head+tail || [4]byte(b) != [4]byte{0x1F, 0x8B, 8, 0} {
		return dst, false, nil
	}
	end := b[len(b)-tail:]
	sum, size := binary.LittleEndian.Uint32(end), int(binary.LittleEndian.Uint32(end[4:]))
	if size > limit || size > mostInflated*len(b) {
		return dst, false, nil
	}
	out = dst[:0]
	if n := size + inflateSlack; n > cap(out) {
		if !hold(n) {
			return dst, true, agg.ErrOverloaded
		}
		out = make([]byte, 0, n)
	}
	z := inflaters.Get().(*inflater)
	n, ok := z.inflate(out[:size+inflateSlack], b[head:], size)
	inflaters.Put(z)
	if out = out[:size]; !ok || n != len(b)-head-tail || crc32.ChecksumIEEE(out) != sum {
		return out[:0], false, nil
	}
	return out, true, nil
}
