package notify

import (
	"encoding/binary"
	"math/bits"
)

// rijndael encrypts blocks of 16, 24 or 32 bytes. Only the first of these is in
// AES and in the standard library; NSCA's methods 15 and 16 have the other two.
// It is written after Daemen and Rijmen, "AES Proposal: Rijndael" (1999), section 4,
// for keys of 32 bytes and encryption alone, which is all that cipher feedback needs.
type rijndael struct {
	words  int // of a block
	shifts [4]int
	round  []uint32
}

var sbox = newSbox()

// newSbox makes the substitution of section 4.2.1: the inverse in GF(2^8), then an
// affine map.
func newSbox() (s [256]byte) {
	p, q := byte(1), byte(1)
	for {
		// p runs through all that is not 0 as powers of 3; q are their inverses.
		p ^= times2(p)
		q ^= q << 1
		q ^= q << 2
		q ^= q << 4
		if q&0x80 != 0 {
			q ^= 0x09
		}
		s[p] = q ^ rotl8(q, 1) ^ rotl8(q, 2) ^ rotl8(q, 3) ^ rotl8(q, 4) ^ 0x63
		if p == 1 {
			break
		}
	}
	s[0] = 0x63
	return s
}

func times2(b byte) byte {
	if b&0x80 != 0 {
		return b<<1 ^ 0x1b
	}
	return b << 1
}

func rotl8(b byte, n int) byte { return b<<n | b>>(8-n) }

const keyWords = 8

// newRijndael expands a key of 32 bytes (section 4.3.1) for blocks of blockBytes.
func newRijndael(key [32]byte, blockBytes int) *rijndael {
	r := &rijndael{words: blockBytes / 4, shifts: [4]int{0, 1, 2, 3}}
	if r.words == 8 {
		r.shifts = [4]int{0, 1, 3, 4}
	}
	const rounds = 14 // for keys of 8 words, whatever the block
	w := make([]uint32, r.words*(rounds+1))
	factor := byte(1)
	for i := range w {
		if i < keyWords {
			w[i] = binary.BigEndian.Uint32(key[4*i:])
			continue
		}
		t := w[i-1]
		switch i % keyWords {
		case 0:
			t = substitute(t<<8|t>>24) ^ uint32(factor)<<24
			factor = times2(factor)
		case 4:
			t = substitute(t)
		}
		w[i] = w[i-keyWords] ^ t
	}
	r.round = w
	return r
}

func substitute(w uint32) uint32 {
	return uint32(sbox[w>>24])<<24 | uint32(sbox[w>>16&0xff])<<16 | uint32(sbox[w>>8&0xff])<<8 | uint32(sbox[w&0xff])
}

func (r *rijndael) BlockSize() int { return 4 * r.words }

// Encrypt encrypts one block; dst and src may be the same.
func (r *rijndael) Encrypt(dst, src []byte) {
	var state, next [8]uint32 // a column each, the first row on top
	n := r.words
	for c := range n {
		state[c] = binary.BigEndian.Uint32(src[4*c:]) ^ r.round[c]
	}
	key := r.round[n:]
	for ; len(key) > n; key = key[n:] {
		for c := range n {
			a, b, d, e := r.column(&state, c)
			t := table[a] ^ bits.RotateLeft32(table[b], -8) ^ bits.RotateLeft32(table[d], -16) ^ bits.RotateLeft32(table[e], -24)
			next[c] = t ^ key[c]
		}
		state = next
	}
	for c := range n {
		a, b, d, e := r.column(&state, c)
		t := uint32(sbox[a])<<24 | uint32(sbox[b])<<16 | uint32(sbox[d])<<8 | uint32(sbox[e])
		binary.BigEndian.PutUint32(dst[4*c:], t^key[c])
	}
}

// column is what comes into column c when rows are shifted.
func (r *rijndael) column(state *[8]uint32, c int) (a, b, d, e byte) {
	n := r.words
	at := func(row int) uint32 {
		k := c + r.shifts[row]
		if k >= n {
			k -= n
		}
		return state[k&7]
	}
	return byte(state[c&7] >> 24), byte(at(1) >> 16), byte(at(2) >> 8), byte(at(3))
}

// table is what substitution and mixing make of a byte of the first row (section
// 5.2.1); other rows have it rotated.
var table = newTable()

func newTable() (t [256]uint32) {
	for i, s := range sbox {
		t[i] = uint32(times2(s))<<24 | uint32(s)<<16 | uint32(s)<<8 | uint32(times2(s)^s)
	}
	return t
}
