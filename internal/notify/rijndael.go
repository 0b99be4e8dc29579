package notify

import "encoding/binary"

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
	var state, next [8]uint32 // a column each
	n := r.words
	for c := range n {
		state[c] = binary.BigEndian.Uint32(src[4*c:]) ^ r.round[c]
	}
	for key := r.round[n:]; len(key) > 0; key = key[n:] {
		last := len(key) == n
		for c := range n {
			var col [4]byte
			for row := range 4 {
				from := c + r.shifts[row]
				if from >= n {
					from -= n
				}
				col[row] = sbox[byte(state[from]>>(24-8*row))]
			}
			if !last {
				col = mix(col)
			}
			next[c] = binary.BigEndian.Uint32(col[:]) ^ key[c]
		}
		state = next
	}
	for c := range n {
		binary.BigEndian.PutUint32(dst[4*c:], state[c])
	}
}

// mix multiplies a column by 03x³+01x²+01x+02.
func mix(c [4]byte) [4]byte {
	all := c[0] ^ c[1] ^ c[2] ^ c[3]
	first := c[0]
	c[0] ^= all ^ times2(c[0]^c[1])
	c[1] ^= all ^ times2(c[1]^c[2])
	c[2] ^= all ^ times2(c[2]^c[3])
	c[3] ^= all ^ times2(c[3]^first)
	return c
}
