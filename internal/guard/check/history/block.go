package history

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"tailscope/internal/series"
)

// sampleBlock is an hour of one series' raw samples in memory, ascending in
// time: those that came last as they are, the others packed. Without samples it may
// be several hours. It is guarded by its owner's lock but for used.
type sampleBlock struct {
	hour  int64       // start, Unix seconds
	until int64       // end, exclusive
	used  atomic.Bool // since the cache last looked
	whole bool        // none were dropped
	dead  bool        // no longer the owner's

	packed packedSamples
	tail   []series.Sample // later than the packed ones

	owner *lookup
	size  int64
	read  time.Time // when; the zero Time where that does not matter
}

// tailSamples bounds the samples that stay unpacked: packing all of an hour again for
// each would cost more than it saves.
const tailSamples = 128

// blockBytes is the memory of an empty block.
const blockBytes = 240

func newSampleBlock(l *lookup, hour, until int64, ss []series.Sample, whole bool) *sampleBlock {
	b := &sampleBlock{owner: l, hour: hour, until: until, whole: whole, packed: packSamples(ss)}
	if m := l.set.m; m.o.Refresh != 0 {
		b.read = m.o.Now()
	}
	b.size = b.bytes()
	return b
}

func (b *sampleBlock) bytes() int64 {
	return blockBytes + int64(cap(b.packed.times)+cap(b.packed.values)) + 16*int64(cap(b.tail))
}

func (b *sampleBlock) len() int { return b.packed.n + len(b.tail) }

func (b *sampleBlock) time(i int) int64 {
	if i >= b.packed.n {
		return b.tail[i-b.packed.n].TimeMillis
	}
	return b.packed.time(i)
}

func (b *sampleBlock) sample(i int) series.Sample {
	if i >= b.packed.n {
		return b.tail[i-b.packed.n]
	}
	return series.Sample{TimeMillis: b.packed.time(i), Value: b.packed.value(i)}
}

// after returns how many samples are at or before t.
func (b *sampleBlock) after(t int64) int {
	var lo, hi int
	if n := len(b.tail); n > 0 && b.tail[0].TimeMillis <= t {
		lo, hi = b.packed.n, b.packed.n+n
	} else {
		lo, hi = b.packed.within(t)
	}
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); b.time(mid) <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// append adds samples, unless one is not later than that before it.
func (b *sampleBlock) append(ss []series.Sample) bool {
	if n := b.len(); n > 0 && ss[0].TimeMillis <= b.time(n-1) {
		return false
	}
	for i := 1; i < len(ss); i++ {
		if ss[i].TimeMillis <= ss[i-1].TimeMillis {
			return false
		}
	}
	b.tail = append(b.tail, ss...)
	if len(b.tail) > tailSamples {
		b.pack()
	}
	return true
}

func (b *sampleBlock) pack() {
	if len(b.tail) == 0 {
		return
	}
	all := make([]series.Sample, b.len())
	for i := range all {
		all[i] = b.sample(i)
	}
	b.packed, b.tail = packSamples(all), nil
}

// packedSamples hold samples by column, each entry as wide as the widest needs,
// so that any is found without reading those before it.
//
// Times are a straight line and, each, how far it is off. Values are whole
// numbers above a least one, of tenths, hundredths …, where that loses nothing;
// else they are kept unchanged.
type packedSamples struct {
	n int

	first, step int64 // ms; time i is first + i·step + what times says
	off         int64 // the greatest distance from the line
	timeWidth   uint8 // bytes: 0, 1, 2, 4 or 8, signed
	valueWidth  uint8 // bytes: 0, 1, 2 or 4 above base; 8 as they are

	base  int64 // of values
	scale float64

	times, values []byte
}

const maxScale = 9 // decimals

func packSamples(ss []series.Sample) (p packedSamples) {
	p.n = len(ss)
	if p.n == 0 {
		return p
	}
	p.packTimes(ss)
	p.packValues(ss)
	return p
}

func (p *packedSamples) packTimes(ss []series.Sample) {
	p.first = ss[0].TimeMillis
	if p.n > 1 {
		p.step = (ss[p.n-1].TimeMillis - p.first) / int64(p.n-1)
	}
	for i, s := range ss {
		off := s.TimeMillis - p.first - int64(i)*p.step
		p.off = max(p.off, off, -off)
	}
	switch {
	case p.off == 0:
		return
	case p.off <= math.MaxInt8:
		p.timeWidth = 1
	case p.off <= math.MaxInt16:
		p.timeWidth = 2
	case p.off <= math.MaxInt32:
		p.timeWidth = 4
	default:
		p.timeWidth = 8
	}
	p.times = make([]byte, 0, p.n*int(p.timeWidth))
	for i, s := range ss {
		p.times = appendWidth(p.times, uint64(s.TimeMillis-p.first-int64(i)*p.step), p.timeWidth)
	}
}

func (p *packedSamples) packValues(ss []series.Sample) {
	p.scale = 1
	decimals := 0
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := 0; i < p.n; {
		m, ok := scaled(ss[i].Value, p.scale)
		if !ok {
			if decimals++; decimals > maxScale {
				break
			}
			// Those before are whole numbers of the finer unit too, but for
			// rounding: look at them again.
			p.scale *= 10
			least, most = math.MaxInt64, math.MinInt64
			i = 0
			continue
		}
		least, most = min(least, m), max(most, m)
		i++
	}
	span := uint64(most) - uint64(least)
	switch {
	case decimals > maxScale || span > math.MaxUint32:
		p.valueWidth = 8
	case span == 0:
	case span <= math.MaxUint8:
		p.valueWidth = 1
	case span <= math.MaxUint16:
		p.valueWidth = 2
	default:
		p.valueWidth = 4
	}
	p.values = make([]byte, 0, p.n*int(p.valueWidth))
	if p.valueWidth == 8 {
		for _, s := range ss {
			p.values = appendWidth(p.values, math.Float64bits(s.Value), 8)
		}
		return
	}
	p.base = least
	for _, s := range ss {
		m, _ := scaled(s.Value, p.scale)
		p.values = appendWidth(p.values, uint64(m-least), p.valueWidth)
	}
}

// scaled is v as a number of units of 1/scale, if that gives v back to the bit.
func scaled(v, scale float64) (int64, bool) {
	m := math.RoundToEven(v * scale)
	if !(math.Abs(m) < 1<<53) {
		return 0, false
	}
	return int64(m), math.Float64bits(float64(int64(m))/scale) == math.Float64bits(v)
}

func appendWidth(dst []byte, v uint64, width uint8) []byte {
	switch width {
	case 1:
		return append(dst, byte(v))
	case 2:
		return binary.LittleEndian.AppendUint16(dst, uint16(v))
	case 4:
		return binary.LittleEndian.AppendUint32(dst, uint32(v))
	case 8:
		return binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

func (p *packedSamples) time(i int) int64 {
	t := p.first + int64(i)*p.step
	switch p.timeWidth {
	case 1:
		t += int64(int8(p.times[i]))
	case 2:
		t += int64(int16(binary.LittleEndian.Uint16(p.times[2*i:])))
	case 4:
		t += int64(int32(binary.LittleEndian.Uint32(p.times[4*i:])))
	case 8:
		t += int64(binary.LittleEndian.Uint64(p.times[8*i:]))
	}
	return t
}

func (p *packedSamples) value(i int) float64 {
	v := p.base
	switch p.valueWidth {
	case 1:
		v += int64(p.values[i])
	case 2:
		v += int64(binary.LittleEndian.Uint16(p.values[2*i:]))
	case 4:
		v += int64(binary.LittleEndian.Uint32(p.values[4*i:]))
	case 8:
		return math.Float64frombits(binary.LittleEndian.Uint64(p.values[8*i:]))
	}
	return float64(v) / p.scale
}

// within bounds how many samples are at or before t: times stray at most off
// from the line.
func (p *packedSamples) within(t int64) (lo, hi int) {
	if p.step <= 0 {
		return 0, p.n
	}
	at := func(t int64) int {
		return int(min(max(floorTo(t-p.first, p.step)/p.step, -1), int64(p.n)))
	}
	return max(at(t-p.off), 0), min(at(t+p.off)+1, p.n)
}
