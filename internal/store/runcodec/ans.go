package runcodec

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// Small counts, the great majority, are coded by tables: at an expected count of at most
// sixteen a distribution is nearly Poisson's, so that learning it would save only 0.2 %,
// and a known distribution is coded many times faster than a learnt one. This is range
// asymmetric numeral coding (Duda, "Asymmetric numeral systems", arXiv:1311.2540) with
// probabilities of 10 bits and two alternating states, since a processor works on both
// at once. The last symbol coded is the first decoded, so a run's symbols are collected
// and coded at its end.
const (
	ansBits   = 10
	ansLow    = 1 << 16 // states are in [ansLow, ansLow<<16)
	tables    = 33      // of expected counts 2^((i-oneTable)/2)
	oneTable  = 24
	maxSymbol = 63
)

// slot describes the low bits of a state: the symbol in the upper 8 bits, then in 12
// bits each its frequency and the slot's offset within it.
type slot uint32

type ansTable struct {
	slots  [1 << ansBits]slot
	start  [maxSymbol + 2]uint16 // of each symbol, and the end of the last
	escape uint32                // the symbol of all counts from itself on
}

// tableOf returns the table for an expected count, given its logarithm in sixteenths. It
// returns tables or more if there is none.
func tableOf(log int32) uint32 { return uint32(max(0, (log+4)>>3+oneTable)) }

// ansTables returns the tables, computed with operations that give the same on every
// machine; conversions keep them from being fused.
var ansTables = sync.OnceValue(func() *[tables]ansTable {
	all := new([tables]ansTable)
	for i := range all {
		k := i - oneTable + 32
		lambda := float64(float64(uint64(1)<<uint(k/2)) / 65536)
		if k%2 == 1 {
			lambda = float64(lambda * 1.4142135623730951)
		}
		// Poisson's terms relative to the one at the expected count.
		var p [4 * maxSymbol]float64
		m := int(lambda)
		p[m] = 1
		for j := m + 1; j < len(p); j++ {
			p[j] = float64(p[j-1] * lambda / float64(j))
		}
		for j := m - 1; j >= 0; j-- {
			p[j] = float64(p[j+1] * float64(j+1) / lambda)
		}
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		// One in a hundred is of a distribution far wider: shapes change.
		ratio := float64((lambda + 0.25) / (lambda + 1.25))
		wide := float64(0.01 * (1 - ratio))
		for j := range p {
			p[j] = float64(0.99*float64(p[j]/sum)) + wide
			wide = float64(wide * ratio)
		}
		all[i].build(p[:])
	}
	return all
})

// build assigns a symbol to each count that occurs once in two thousand, and one to all
// others together.
func (t *ansTable) build(p []float64) {
	const size = 1 << ansBits
	last := 0
	for j := range maxSymbol {
		if float64(p[j]*size) >= 0.5 {
			last = j
		}
	}
	var freq [maxSymbol + 1]int
	left, best := size, 0
	rest := 1.0
	for j := 0; j <= last; j++ {
		freq[j] = max(1, int(float64(p[j]*size)+0.5))
		rest -= p[j]
		left -= freq[j]
		if freq[j] > freq[best] {
			best = j
		}
	}
	t.escape = uint32(last + 1)
	freq[last+1] = max(1, int(float64(rest*size)+0.5))
	freq[best] += left - freq[last+1]
	at := 0
	for j, f := range freq[:last+2] {
		t.start[j] = uint16(at)
		for k := range f {
			t.slots[at+k] = slot(j<<24 | f<<12 | k)
		}
		at += f
	}
	t.start[last+2] = uint16(at)
}

// ansWriter collects symbols; each holds a state's number (bit 31), frequency and start.
type ansWriter struct {
	symbols []uint32
	words   []uint16
}

func (w *ansWriter) put(t *ansTable, symbol uint32, state int) {
	start := uint32(t.start[symbol])
	w.symbols = append(w.symbols, uint32(state)<<31|(uint32(t.start[symbol+1])-start)<<16|start)
}

// appendTo appends the coded symbols: the initial states, then the words that they read,
// little-endian.
func (w *ansWriter) appendTo(dst []byte) []byte {
	if len(w.symbols) == 0 {
		return dst
	}
	x := [2]uint32{ansLow, ansLow}
	words := slices.Grow(w.words[:0], len(w.symbols))[:len(w.symbols)] // at most one a symbol
	n := 0
	for i := len(w.symbols) - 1; i >= 0; i-- {
		s := w.symbols[i]
		freq, start := s>>16&0x7fff, s&0xffff
		p := &x[s>>31]
		// Whether a word is written is not foreseeable: without a branch.
		v := *p
		words[n] = uint16(v)
		over := 1 - uint32((uint64(v)-uint64(freq)<<(32-ansBits))>>63)
		n += int(over)
		v >>= over << 4
		hi, _ := bits.Mul64(uint64(v)<<1, reciprocals[freq])
		q := uint32(hi)
		*p = q<<ansBits + v - q*freq + start
	}
	w.words = words[:n]
	dst = binary.LittleEndian.AppendUint32(dst, x[0])
	dst = binary.LittleEndian.AppendUint32(dst, x[1])
	for i := len(w.words) - 1; i >= 0; i-- {
		dst = binary.LittleEndian.AppendUint16(dst, w.words[i])
	}
	return dst
}

// reciprocals holds 2^63/f, rounded up, by which a state is divided by a frequency f:
// exactly, as the product of a state, f and the rounding is far below 2^63.
var reciprocals = func() (t [1<<ansBits + 1]uint64) {
	for f := range t[1:] {
		t[f+1] = (1<<63-1)/uint64(f+1) + 1
	}
	return t
}()

// ansReader decodes symbols. Beyond the end it reads zeros.
type ansReader struct {
	x  [2]uint32
	in []byte
	at int
}

func (r *ansReader) reset(in []byte) bool {
	*r = ansReader{in: in}
	if len(in) == 0 {
		return true
	}
	if len(in) < 8 || len(in)%2 != 0 {
		return false
	}
	r.x = [2]uint32{binary.LittleEndian.Uint32(in), binary.LittleEndian.Uint32(in[4:])}
	r.at = 8
	return true
}

func (r *ansReader) beyond() bool { return r.at > len(r.in) }
