package runcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"tailscope/hist"
)

// A run is the version byte, the lengths (uvarints) of the range-coded and the
// table-coded bytes, those bytes, and the plain bits.
const (
	version = 2
	before  = 1 // has no general points, and is read alike
)

// Encoder encodes runs. Reset it before use. It is not safe for concurrent use.
type Encoder struct {
	m      model
	c      coder
	w      bitWriter
	a      ansWriter
	spans  *[buckets + 1]int64
	tables *[tables]ansTable
	h      hist.Histogram
	buf    []byte
	coded  []byte
	table  []byte
	inside bool // a series has begun
}

// Reset starts a new run, reusing memory.
func (e *Encoder) Reset() {
	e.m.reset()
	e.c.reset(e.coded[:0])
	e.w.reset()
	e.a.symbols = e.a.symbols[:0]
	e.spans = spans()
	e.tables = ansTables()
	e.inside = false
}

// Group marks, before Series, that the next series differ from those before (another
// family or operation). It takes no space; the decoder must call Group at the same
// place.
func (e *Encoder) Group() {
	e.end()
	e.m.group()
}

// Series starts the next series and ends the one before. A series may have no points.
func (e *Encoder) Series() {
	e.end()
	e.m.series()
	e.inside = true
}

func (e *Encoder) end() {
	if e.inside {
		e.gap(0)
		e.inside = false
	}
}

// Add appends the point of a slot of the current series. Slots rise within a
// series. data is hist's compact form; it is not retained. It refuses data
// that hist does not decode or encode, and then the run is as it was.
func (e *Encoder) Add(slot uint32, data []byte) error {
	if !e.inside {
		return fmt.Errorf("add slot %d: no series was begun", slot)
	}
	gap := int64(slot) - e.m.slot
	if gap <= 0 {
		return fmt.Errorf("add slot %d after slot %d", slot, e.m.slot)
	}
	if err := e.h.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("add slot %d: %w", slot, err)
	}
	p, hd, class, err := e.classify(data)
	if err != nil {
		return fmt.Errorf("add slot %d: %w", slot, err)
	}
	e.gap(uint64(gap))
	m := &e.m
	m.slot = int64(slot)
	m.where = 1
	if gap > 1 {
		m.where = 2
	}
	e.c.tree(m.class[m.last][:], 3, uint32(class))
	m.last = class
	switch class {
	case dense:
		e.dense(&p)
	case general:
		e.general(&p, &hd)
	case raw:
		e.w.gamma(uint64(len(data)))
		for _, b := range data {
			e.c.tree(m.other[:], 8, uint32(b))
		}
	default:
		e.few(p.values[:class])
	}
	return nil
}

// AppendTo appends the finished run. The Encoder must be Reset before its next use.
func (e *Encoder) AppendTo(dst []byte) []byte {
	e.end()
	e.coded = e.c.finish()
	dst = append(dst, version)
	e.table = e.a.appendTo(e.table[:0])
	dst = binary.AppendUvarint(dst, uint64(len(e.coded)))
	dst = binary.AppendUvarint(dst, uint64(len(e.table)))
	dst = append(dst, e.coded...)
	dst = append(dst, e.table...)
	return append(dst, e.w.finish()...)
}

// gap codes the distance of the slot from the last: 1 if it follows it, 0 if the series
// ends.
func (e *Encoder) gap(gap uint64) {
	if gap == 1 {
		e.c.bit(&e.m.next[e.m.where], 1)
		return
	}
	e.c.bit(&e.m.next[e.m.where], 0)
	t := e.m.gap[e.m.where][:]
	if gap < slotSymbols {
		e.c.tree(t, 6, uint32(gap))
		return
	}
	n := length(gap)
	if n > 12 {
		e.c.tree(t, 6, symbols-1)
		e.w.gamma(gap)
		return
	}
	e.c.tree(t, 6, uint32(slotSymbols+(n-6)*4)+uint32(gap>>(n-3)&3))
	e.w.bits(gap&(1<<(n-3)-1), n-3)
}

// point holds a point in the terms it is coded in.
type point struct {
	values        [3]int64 // of up to three, ascending
	count         uint64
	sum, min, max int64
	lo, hi        int
	counts        []uint64 // of buckets lo to hi
}

// classify returns how the point in e.h can be coded. It decodes to the same bytes, but for
// a dense one whose bytes are not those of AppendBinary: that decodes to AppendBinary's,
// and is not encoded again here to find out.
func (e *Encoder) classify(data []byte) (p point, hd header, class int, err error) {
	if p, class = e.whole(data); class != raw {
		return p, hd, class, nil
	}
	if e.buf, err = e.h.AppendBinary(e.buf[:0]); err != nil {
		return p, hd, raw, err
	}
	if bytes.Equal(e.buf, data) {
		if p, hd, ok := e.describe(); ok {
			return p, hd, general, nil
		}
	}
	return p, hd, raw, nil
}

// whole returns how the point in e.h can be coded if it is of whole nanoseconds, else raw.
func (e *Encoder) whole(data []byte) (p point, class int) {
	h := &e.h
	if h.Schema != hist.DefaultSchema || h.ZeroThreshold != hist.DefaultZeroThreshold ||
		h.Weighted || h.Error != 0 || h.ZeroCount != 0 || h.Count == 0 {
		return p, raw
	}
	for _, c := range h.Negative.Counts {
		if c != 0 {
			return p, raw
		}
	}
	var ok [3]bool
	p.sum, ok[0] = h.SumNanos()
	p.min, ok[1] = hist.Nanos(h.Min)
	p.max, ok[2] = hist.Nanos(h.Max)
	if ok != [3]bool{true, true, true} || p.min < 1 || p.max >= maxNanos {
		return p, raw
	}
	p.count = h.Count
	if n := int(p.count); p.count <= 3 {
		p.values = [3]int64{p.min, p.max, p.max}
		if n == 3 {
			p.values[1] = p.sum - p.min - p.max
		}
		e.buf, _ = hist.AppendNanos(e.buf[:0], hist.DefaultSchema, p.values[:n], nil)
		if bytes.Equal(e.buf, data) {
			return p, n
		}
	}
	counts := h.Positive.Counts
	i, j := 0, len(counts)
	for j > 0 && counts[j-1] == 0 {
		j--
	}
	for i < j && counts[i] == 0 {
		i++
	}
	p.counts = counts[i:j]
	p.lo, p.hi = bucketOf(p.min), bucketOf(p.max)
	if p.count < 2 || p.lo != int(h.Positive.Offset)+i-first || p.hi != int(h.Positive.Offset)+j-1-first {
		return p, raw
	}
	return p, dense
}

// few codes one to three values in ascending order, each by the distance of its octet
// from the one before and its place within the octet.
func (e *Encoder) few(values []int64) {
	last, from := 0, int64(0)
	for i, v := range values {
		k := bucketOf(v) / 8
		e.c.tree(e.m.value[i][:], 8, uint32(k-last))
		start := e.spans[k*8]
		if i > 0 && k == last {
			start = from
		}
		e.w.below(uint64(v-start), uint64(e.spans[k*8+8]-start))
		last, from = k, v
	}
}

func (e *Encoder) dense(p *point) {
	m := &e.m
	m.enter(denseSpace)
	m.begin()
	unit, r := m.countUnit()
	e.residue(r, unit, int64(p.count)-m.meanCount>>8)
	e.residue(&m.low, 0, int64(p.lo)-m.meanLow>>8)
	e.residue(&m.high, 0, int64(p.hi)-m.meanHigh>>8)
	s := e.spans
	e.w.below(uint64(p.min-s[p.lo]), uint64(s[p.lo+1]-s[p.lo]))
	start := s[p.hi]
	if p.lo == p.hi {
		start = p.min
	}
	e.w.below(uint64(p.max-start), uint64(s[p.hi+1]-start))
	e.counts(p)
	estimate, unit, r := m.sumUnit(s, p)
	e.residue(r, unit, p.sum-estimate)
	m.learnShape(p.lo, p.hi, p.counts)
	m.learnMeans(p.count, p.lo, p.hi)
}

// counts codes the observations of each bucket without the extremes.
func (e *Encoder) counts(p *point) {
	weights, total := e.m.expect(p.lo, p.hi)
	rest := p.count - 2
	end := len(p.counts) - 1
	ratio := int32(0) // updated at intervals: it changes slowly
	for i, c := range p.counts[:end] {
		if i&3 == 0 {
			if rest == 0 {
				return
			}
			ratio = log2(rest) - log2(total)
		}
		if i == 0 {
			c--
		}
		weight := uint64(weights[i])
		log := log2(weight) + ratio
		if k := tableOf(log); k < tables {
			t := &e.tables[k]
			if c < uint64(t.escape) {
				e.a.put(t, uint32(c), i&1)
			} else {
				e.a.put(t, t.escape, i&1)
				e.w.gamma(c - uint64(t.escape))
			}
			rest -= c
			total -= weight
			continue
		}
		e.bucket(level(log), wanted(log, weight, rest, total), c)
		rest -= c
		total -= weight
	}
}

// bucket codes a count at a level, where want was expected: whether it is reached, and
// how far off it is.
func (e *Encoder) bucket(lv int32, want, c uint64) {
	s := &e.m.steps[lv]
	unit := units[lv]
	cells := &s.up
	off := c - want
	if want > 0 {
		if c >= want {
			e.c.bit(&s.reach, 1)
		} else {
			e.c.bit(&s.reach, 0)
			cells = &s.down
			off = want - 1 - c
		}
	}
	far := off >> unit
	for j := range cells {
		if far == uint64(j) {
			e.c.bit(&cells[j], 0)
			e.w.bits(off&(1<<unit-1), unit)
			return
		}
		e.c.bit(&cells[j], 1)
	}
	e.w.gamma(far - steps)
	e.w.bits(off&(1<<unit-1), unit)
}

// residue codes a signed number whose magnitude is in units of 2^unit.
func (e *Encoder) residue(r *residue, unit uint, v int64) {
	u := uint64(v)
	if v < 0 {
		e.c.bit(&r.sign, 1)
		u = -u
	} else {
		e.c.bit(&r.sign, 0)
	}
	far := u >> unit
	if far < symbols-1 {
		e.c.tree(r.tree[:], 6, uint32(far))
	} else {
		e.c.tree(r.tree[:], 6, symbols-1)
		e.w.gamma(far - (symbols - 1))
	}
	e.w.bits(u&(1<<unit-1), unit)
}
