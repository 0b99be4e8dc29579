package runcodec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"tailscope/hist"
)

// ErrCorrupt reports that a run does not decode.
var ErrCorrupt = errors.New("corrupt run")

// Decoder decodes runs. Reset it before use. It is not safe for concurrent use.
type Decoder struct {
	m        model
	c        decoder
	r        bitReader
	a        ansReader
	tables   *[tables]ansTable
	spans    *[buckets + 1]int64
	p        point
	class    int
	window   [buckets]uint64
	buf      []byte         // a raw point, or a few values in compact form
	view     hist.Histogram // of a dense or general point; its counts are the window's or explicit
	explicit []uint64
	err      error
}

// Reset starts to decode a run, reusing memory. b must not change while it is read.
func (d *Decoder) Reset(b []byte) error {
	d.err = nil
	if len(b) == 0 || b[0] != version && b[0] != before {
		return d.fail("not a run of version %d or %d", before, version)
	}
	b = b[1:]
	var lengths [2]uint64
	for i := range lengths {
		n, k := binary.Uvarint(b)
		if k <= 0 {
			return d.fail("length of coded bytes")
		}
		lengths[i], b = n, b[k:]
	}
	n, m := lengths[0], lengths[1]
	if n > uint64(len(b)) || m > uint64(len(b))-n || !d.a.reset(b[n:n+m:n+m]) {
		return d.fail("length of coded bytes")
	}
	d.c.reset(b[:n:n])
	d.r.reset(b[n+m:])
	d.tables = ansTables()
	d.m.reset()
	d.spans = spans()
	return nil
}

// Group must be called where Encoder.Group was called.
func (d *Decoder) Group() { d.m.group() }

// Series starts the next series. All points of the one before must have been read, until
// More returned false.
func (d *Decoder) Series() { d.m.series() }

// More reports whether the current series has another point, and returns its slot. After
// true, read the point with exactly one of Next, Merge, Moment, Append and Skip. The
// error, here and there, is ErrCorrupt and stays until Reset.
func (d *Decoder) More() (slot uint32, ok bool, err error) {
	if d.err != nil {
		return 0, false, d.err
	}
	m := &d.m
	if d.c.bit(&m.next[m.where]) == 1 {
		if m.slot == math.MaxUint32 {
			return 0, false, d.fail("slot")
		}
		m.slot++
		m.where = 1
		return uint32(m.slot), true, nil
	}
	symbol := d.c.tree(m.gap[m.where][:], 6)
	var gap uint64
	switch {
	case symbol == 0:
		return 0, false, d.check()
	case symbol < slotSymbols:
		gap = uint64(symbol)
	case symbol == symbols-1:
		gap = d.r.gamma()
	default:
		n := uint(symbol-slotSymbols)/4 + 6
		gap = (4|uint64(symbol)&3)<<(n-3) | d.r.bits(n-3)
	}
	if gap > math.MaxUint32+1 || gap == 0 || m.slot+int64(gap) > math.MaxUint32 {
		return 0, false, d.fail("slot")
	}
	m.slot += int64(gap)
	m.where = 1
	if gap > 1 {
		m.where = 2
	}
	return uint32(m.slot), true, d.check()
}

// Next replaces h by the point.
func (d *Decoder) Next(h *hist.Histogram) error {
	if err := d.read(); err != nil {
		return err
	}
	if d.class == dense {
		h.Reset(hist.DefaultSchema)
		d.describe(h)
		h.Positive.Counts = append(h.Positive.Counts[:0], d.p.counts...)
		return nil
	}
	if err := d.encode(); err != nil {
		return err
	}
	return d.wrap(h.UnmarshalBinary(d.buf))
}

// Merge adds the point to h, as h.Merge does.
func (d *Decoder) Merge(h *hist.Histogram) error {
	if err := d.read(); err != nil {
		return err
	}
	if d.class == dense {
		d.see()
		return h.Merge(&d.view)
	}
	if d.class == general {
		return d.wrap(h.Merge(&d.view))
	}
	if d.class != raw && h.Schema != hist.Explicit {
		h.Reduce(hist.DefaultSchema)
		for _, v := range d.p.values[:d.class] {
			if err := h.RecordNanos(v, 1); err != nil {
				return d.wrap(err)
			}
		}
		return nil
	}
	if err := d.encode(); err != nil {
		return err
	}
	return d.wrap(h.MergeEncoded(d.buf))
}

// Moment returns the point without its buckets.
func (d *Decoder) Moment() (hist.Moment, error) {
	if err := d.read(); err != nil {
		return hist.Moment{}, err
	}
	p := &d.p
	switch d.class {
	case raw:
		m, err := hist.Moments(d.buf)
		return m, d.wrap(err)
	case general:
		return d.view.Moment(), nil
	case dense:
		return hist.Moment{Count: p.count, Sum: hist.Seconds(p.sum), Min: hist.Seconds(p.min), Max: hist.Seconds(p.max)}, nil
	}
	v := p.values[:d.class]
	sum := int64(0)
	for _, ns := range v {
		sum += ns // each is below 2^60
	}
	return hist.Moment{Count: uint64(len(v)), Sum: hist.Seconds(sum), Min: hist.Seconds(v[0]), Max: hist.Seconds(v[len(v)-1])}, nil
}

// Append appends the point in hist's compact form, the bytes that Add was given.
func (d *Decoder) Append(dst []byte) ([]byte, error) {
	if err := d.read(); err != nil {
		return dst, err
	}
	if d.class == dense {
		d.see()
		dst, err := d.view.AppendBinary(dst)
		return dst, d.wrap(err)
	}
	if d.class == general {
		dst, err := d.view.AppendBinary(dst)
		return dst, d.wrap(err)
	}
	if d.class == raw {
		return append(dst, d.buf...), nil
	}
	dst, err := hist.AppendNanos(dst, hist.DefaultSchema, d.p.values[:d.class], nil)
	return dst, d.wrap(err)
}

// encode encodes a point that is not dense into buf, in compact form.
func (d *Decoder) encode() error {
	if d.class == raw {
		return nil
	}
	var err error
	if d.class == general {
		d.buf, err = d.view.AppendBinary(d.buf[:0])
	} else {
		d.buf, err = hist.AppendNanos(d.buf[:0], hist.DefaultSchema, d.p.values[:d.class], nil)
	}
	return d.wrap(err)
}

// Skip skips the point. That takes about as long as reading it.
func (d *Decoder) Skip() error { return d.read() }

func (d *Decoder) see() {
	d.view.Reset(hist.DefaultSchema)
	d.describe(&d.view)
	d.view.Positive.Counts = d.p.counts
}

// describe sets all fields of a dense point but its counts.
func (d *Decoder) describe(h *hist.Histogram) {
	p := &d.p
	h.Count = p.count
	h.SetSumNanos(p.sum)
	h.Min, h.Max = hist.Seconds(p.min), hist.Seconds(p.max)
	h.Positive.Offset = int32(p.lo + first)
}

func (d *Decoder) fail(format string, args ...any) error {
	d.err = fmt.Errorf(format+": %w", append(args, ErrCorrupt)...)
	return d.err
}

func (d *Decoder) wrap(err error) error {
	if err != nil {
		return d.fail("%v", err)
	}
	return nil
}

func (d *Decoder) check() error {
	if d.c.beyond() || d.a.beyond() || d.r.bad {
		return d.fail("truncated")
	}
	return nil
}

// read reads a point.
func (d *Decoder) read() error {
	if d.err != nil {
		return d.err
	}
	m := &d.m
	d.class = int(d.c.tree(m.class[m.last][:], 3))
	switch d.class {
	case dense:
		d.dense()
	case 1, 2, 3:
		d.few(d.class)
	case raw:
		d.raw()
	case general:
		d.general()
	default:
		d.fail("class %d", d.class)
	}
	m.last = d.class
	if d.err != nil {
		return d.err
	}
	return d.check()
}

func (d *Decoder) raw() {
	n := d.r.gamma()
	d.buf = d.buf[:0]
	for ; n > 0; n-- {
		d.buf = append(d.buf, byte(d.c.tree(d.m.other[:], 8)))
		if d.check() != nil {
			return
		}
	}
}

func (d *Decoder) few(n int) {
	p := &d.p
	last, from := 0, int64(0)
	for i := range n {
		k := last + int(d.c.tree(d.m.value[i][:], 8))
		if k >= octets {
			d.fail("octet %d", k)
			return
		}
		start, end := d.spans[k*8], d.spans[k*8+8]
		if i > 0 && k == last {
			start = from
		}
		if end <= start || start >= maxNanos {
			d.fail("octet %d", k)
			return
		}
		v := start + int64(d.r.below(uint64(end-start)))
		p.values[i] = v
		last, from = k, v
	}
}

func (d *Decoder) dense() {
	m, p := &d.m, &d.p
	m.enter(denseSpace)
	m.begin()
	unit, r := m.countUnit()
	p.count = uint64(m.meanCount>>8 + d.residue(r, unit))
	lo := m.meanLow>>8 + d.residue(&m.low, 0)
	hi := m.meanHigh>>8 + d.residue(&m.high, 0)
	s := d.spans
	if p.count < 2 || p.count > math.MaxInt64 || lo < 0 || hi < lo || hi >= buckets || s[hi] >= maxNanos ||
		s[lo+1] == s[lo] || s[hi+1] == s[hi] {
		d.fail("%d observations in buckets %d to %d", p.count, lo, hi)
		return
	}
	p.lo, p.hi = int(lo), int(hi)
	p.min = s[lo] + int64(d.r.below(uint64(s[lo+1]-s[lo])))
	start := s[hi]
	if lo == hi {
		start = p.min
	}
	p.max = start + int64(d.r.below(uint64(s[hi+1]-start)))
	if !d.counts() {
		d.fail("counts of %d observations", p.count)
		return
	}
	estimate, unit, r := m.sumUnit(s, p)
	p.sum = estimate + d.residue(r, unit)
	m.learnShape(p.lo, p.hi, p.counts)
	m.learnMeans(p.count, p.lo, p.hi)
}

// counts decodes the buckets' counts. Most time is spent here, so the range decoder's
// state is kept in registers and decoder.bit is inlined by hand.
func (d *Decoder) counts() bool {
	p := &d.p
	weights, total := d.m.expect(p.lo, p.hi)
	rest := p.count - 2
	end := p.hi - p.lo
	window := d.window[:end+1]
	p.counts = window
	code, size := d.c.code, d.c.size
	x, y := d.a.x[0], d.a.x[1] // x is that of the current bucket
	in, at := d.a.in, d.a.at
	i, ratio := 0, int32(0)
	weights = weights[:len(window)]
	for ; i < end; i++ {
		if i&3 == 0 {
			if rest == 0 {
				break
			}
			ratio = log2(rest) - log2(total)
		}
		weight := uint64(weights[i])
		log := log2(weight) + ratio
		if k := tableOf(log); k < tables {
			t := &d.tables[k]
			s := t.slots[x&(1<<ansBits-1)]
			x = uint32(s>>12&0xfff)*(x>>ansBits) + uint32(s&0xfff)
			if x < ansLow {
				x <<= 16
				if at+2 <= len(in) {
					x |= uint32(binary.LittleEndian.Uint16(in[at:]))
				}
				at += 2
			}
			c := uint64(s >> 24)
			if c == uint64(t.escape) {
				c += d.r.gamma()
			}
			if c > rest {
				return false
			}
			window[i] = c
			rest -= c
			total -= weight
			x, y = y, x
			continue
		}
		lv := level(log)
		s := &d.m.steps[lv]
		want, unit := wanted(log, weight, rest, total), units[lv]
		cells := &s.up
		up := true
		if want > 0 {
			c := s.reach
			bound := size >> 16 * uint64(c>>16|1)
			n := c & 1023
			r := rate[n&255]
			if n < limit {
				c++
			}
			if code < bound {
				size = bound
				s.reach = c + cell((1<<22-int32(c>>10))>>3*r)&^1023
			} else {
				code -= bound
				size -= bound
				s.reach = c + cell((-int32(c>>10))>>3*r)&^1023
				cells, up = &s.down, false
			}
			if size < 1<<32 {
				code = code<<32 | uint64(d.c.word())
				size <<= 32
			}
		}
		far := uint64(0)
		for far < steps {
			c := cells[far]
			bound := size >> 16 * uint64(c>>16|1)
			n := c & 1023
			r := rate[n&255]
			if n < limit {
				c++
			}
			if code >= bound {
				code -= bound
				size -= bound
				cells[far] = c + cell((-int32(c>>10))>>3*r)&^1023
				if size < 1<<32 {
					code = code<<32 | uint64(d.c.word())
					size <<= 32
				}
				break
			}
			size = bound
			cells[far] = c + cell((1<<22-int32(c>>10))>>3*r)&^1023
			far++
			if size < 1<<32 {
				code = code<<32 | uint64(d.c.word())
				size <<= 32
			}
		}
		if far == steps {
			far += d.r.gamma()
		}
		if unit > 0 {
			far = far<<unit | d.r.bits(unit)
		}
		c := want + far
		if !up {
			c = want - 1 - far // wraps if corrupt: more than the rest
		}
		if c > rest {
			return false
		}
		window[i] = c
		rest -= c
		total -= weight
		x, y = y, x
	}
	if i&1 != 0 {
		x, y = y, x
	}
	d.a.x, d.a.at = [2]uint32{x, y}, at
	d.c.code, d.c.size = code, size
	clear(window[i:])
	window[0]++
	window[end] += rest + 1
	return true
}

func (d *Decoder) residue(r *residue, unit uint) int64 {
	negative := d.c.bit(&r.sign) == 1
	far := uint64(d.c.tree(r.tree[:], 6))
	if far == symbols-1 {
		far += d.r.gamma()
	}
	u := far<<unit | d.r.bits(unit)
	if negative {
		u = -u
	}
	return int64(u)
}
