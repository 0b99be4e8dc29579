package runcodec

import "encoding/binary"

// cell is an adaptive probability: that the next bit is 1 in the upper 22 bits, and in
// the lower 10 the number of its updates, which sets how fast it still learns (as in
// lpaq's state maps).
type cell uint32

const (
	even  cell = 1 << 31
	limit      = 255 // number of bits that a cell averages over
)

var rate = func() (r [limit + 1]int32) {
	for i := range r {
		r[i] = int32(16384 / (2*i + 3))
	}
	return r
}()

func (c *cell) learn(bit uint32) {
	p := *c
	n := p & 1023
	if n < limit {
		p++
	}
	*c = p + cell((int32(bit<<22)-int32(p>>10))>>3*rate[n])&^1023
}

// coder is the encoder of a binary range coder of 64 bits.
type coder struct {
	low, size uint64
	out       []byte
	base      int // where this coder's bytes begin in out
}

func (c *coder) reset(out []byte) { *c = coder{size: 1<<64 - 1, out: out, base: len(out)} }

func (c *coder) bit(p *cell, bit uint32) {
	bound := c.size >> 16 * uint64(*p>>16|1)
	if bit != 0 {
		c.size = bound
	} else {
		c.low += bound
		if c.low < bound {
			c.carry()
		}
		c.size -= bound
	}
	p.learn(bit)
	if c.size < 1<<32 {
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(c.low>>32))
		c.low <<= 32
		c.size <<= 32
	}
}

func (c *coder) carry() {
	for i := len(c.out) - 1; i >= c.base; i-- {
		if c.out[i]++; c.out[i] != 0 {
			return
		}
	}
}

// tree codes a symbol of n bits, the high one first, each in the context of those before
// it; t has 1<<n cells.
func (c *coder) tree(t []cell, n uint, symbol uint32) {
	node := uint32(1)
	for i := int(n) - 1; i >= 0; i-- {
		bit := symbol >> uint(i) & 1
		c.bit(&t[node], bit)
		node = node<<1 | bit
	}
}

// finish returns out; the decoder reads zeros beyond its end.
func (c *coder) finish() []byte {
	v := c.low + (1<<32 - 1)
	if v < c.low {
		c.carry()
	}
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(v>>32))
	for len(c.out) > c.base && c.out[len(c.out)-1] == 0 {
		c.out = c.out[:len(c.out)-1]
	}
	return c.out
}

// decoder is the decoder of a range coder.
type decoder struct {
	code, size uint64
	in         []byte
	at         int // may run beyond in, where zeros are read
}

func (d *decoder) reset(in []byte) {
	*d = decoder{size: 1<<64 - 1, in: in}
	d.code = uint64(d.word())<<32 | uint64(d.word())
}

func (d *decoder) word() uint32 {
	at := d.at
	d.at += 4
	if at+4 <= len(d.in) {
		return binary.BigEndian.Uint32(d.in[at:])
	}
	var w uint32
	for i := range 4 {
		w <<= 8
		if at+i < len(d.in) {
			w |= uint32(d.in[at+i])
		}
	}
	return w
}

// beyond reports whether more was read than any encoder wrote.
func (d *decoder) beyond() bool { return d.at > len(d.in)+16 }

func (d *decoder) bit(p *cell) uint32 {
	c := *p
	bound := d.size >> 16 * uint64(c>>16|1)
	n := c & 1023
	r := rate[n]
	if n < limit {
		c++
	}
	var bit uint32
	if d.code < bound {
		d.size = bound
		bit = 1
		*p = c + cell((1<<22-int32(c>>10))>>3*r)&^1023
	} else {
		d.code -= bound
		d.size -= bound
		*p = c + cell((-int32(c>>10))>>3*r)&^1023
	}
	if d.size < 1<<32 {
		d.code = d.code<<32 | uint64(d.word())
		d.size <<= 32
	}
	return bit
}

func (d *decoder) tree(t []cell, n uint) uint32 {
	node := uint32(1)
	for range n {
		node = node<<1 | d.bit(&t[node])
	}
	return node - 1<<n
}

// bitWriter and bitReader handle values without a model: low bits, offsets within
// buckets. They are a separate stream, since moving bits is far faster than coding them.
// Low bits come first.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint
}

func (w *bitWriter) reset() { *w = bitWriter{out: w.out[:0]} }

// bits writes the n lowest bits of v, n up to 64.
func (w *bitWriter) bits(v uint64, n uint) {
	if n > 32 {
		w.bits(v&(1<<32-1), 32)
		v >>= 32
		n -= 32
	}
	w.acc |= v << w.n
	w.n += n
	for w.n >= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// below writes v in [0, size) in as few whole bits as that takes.
func (w *bitWriter) below(v, size uint64) {
	n, spare := phaseIn(size)
	if v < spare {
		w.bits(v, n)
		return
	}
	v += spare
	w.bits(v>>1, n)
	w.bits(v&1, 1)
}

// gamma writes v as Elias' gamma code of v+1.
func (w *bitWriter) gamma(v uint64) {
	n := length(v + 1)
	w.bits(uint64(n-1), 6)
	w.bits((v+1)&^(1<<(n-1)), n-1)
}

func (w *bitWriter) finish() []byte {
	if w.n > 0 {
		w.out = append(w.out, byte(w.acc))
	}
	return w.out
}

type bitReader struct {
	in  []byte
	at  int
	acc uint64
	n   uint
	bad bool // read beyond the end
}

func (r *bitReader) reset(in []byte) { *r = bitReader{in: in} }

func (r *bitReader) bits(n uint) uint64 {
	if n > 32 {
		low := r.bits(32)
		return low | r.bits(n-32)<<32
	}
	if r.n < n {
		r.fill()
	}
	v := r.acc & (1<<n - 1)
	r.acc >>= n
	r.n -= n
	return v
}

func (r *bitReader) fill() {
	for r.n <= 32 {
		if r.at+4 <= len(r.in) {
			r.acc |= uint64(binary.LittleEndian.Uint32(r.in[r.at:])) << r.n
			r.at += 4
			r.n += 32
			continue
		}
		if r.at < len(r.in) {
			r.acc |= uint64(r.in[r.at]) << r.n
		} else if r.at > len(r.in)+8 {
			r.bad = true
		}
		r.at++
		r.n += 8
	}
}

func (r *bitReader) below(size uint64) uint64 {
	n, spare := phaseIn(size)
	v := r.bits(n)
	if v >= spare {
		v = v<<1 + r.bits(1) - spare
	}
	return v
}

func (r *bitReader) gamma() uint64 {
	n := uint(r.bits(6))
	return (1<<n | r.bits(n)) - 1
}
