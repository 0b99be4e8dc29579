package traces

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"tailscope/hist"
	"tailscope/internal/series"
)

// cell holds the time that the requests of one key, slot and bucket of durations spent
// in one part, until it is handed over. Counts are multiplied by weight.
type cell struct {
	row      uint64 // request key above bit 32, part below; part 0 is the request itself
	at       uint64 // slot above bit 16, bucket below
	min, max int64  // durations of the requests, nanoseconds
	sum      float64
	squares  float64 // Σw² of the requests
	n        uint64  // requests, Σw
	counts   [measures]uint64
}

// The measures of a part. The request itself has withPart alone, which is
// breakdown_requests.
const (
	selfMicros = iota
	criticalMicros
	partCalls
	withPart
	repeated
	measures
)

const cellBytes = 104

// zeroBucket is the bucket of requests that took no time.
const zeroBucket = math.MinInt16

// bucketOf returns the bucket of a duration at the default schema.
func bucketOf(nanos int64) int16 {
	if nanos <= 0 {
		return zeroBucket
	}
	return int16(hist.BucketIndex(hist.Seconds(nanos), hist.DefaultSchema))
}

// slotNanos is the length of a base slot.
const slotNanos = int64(series.Base) * 1e9

// cellAt returns slot and bucket of a request as cells hold them.
func (c *closer) cellAt(endNanos, duration int64) uint64 {
	return uint64(c.slotOf(endNanos))<<16 | uint64(uint16(bucketOf(duration)))
}

// oldAfter is the age in seconds from which the minutes of requests are not divided. The
// store, which reads the clock less often, must agree that they are old.
const oldAfter = series.OldBreakdown + 600

// isOld reports whether a request ended long ago.
func (c *closer) isOld(endNanos int64) bool { return endNanos/1e9 < c.aged-oldAfter }

// slotOf returns the number of the base slot of a request. Those of old ones are the
// first of their minute.
func (c *closer) slotOf(endNanos int64) int64 {
	slot := endNanos / slotNanos
	if c.isOld(endNanos) {
		slot -= slot % int64(series.Minute/series.Base)
	}
	return slot
}

// momentOf returns the last moment of the slot of a cell, Unix nanoseconds.
func momentOf(at uint64) int64 { return int64(at>>16+1)*slotNanos - 1 }

// cells holds all cells not yet handed over, found by row and at.
type cells struct {
	list  []cell
	table []uint32 // index+1
	hint  int      // the cell after the last one found

	order, swap []uint32 // scratch of sorted
	count       []uint32
}

func (c *cells) bytes() int64 {
	return int64(cap(c.list))*cellBytes + int64(len(c.table)+cap(c.order)+cap(c.swap)+cap(c.count))*4
}

// get returns a cell, and creates it if it is new. It is valid until the next get.
// Requests of one operation use the same cells one after another, so that they lie in
// this order too.
func (c *cells) get(row, at uint64) *cell {
	if c.hint < len(c.list) {
		if x := &c.list[c.hint]; x.row == row && x.at == at {
			c.hint++
			return x
		}
	}
	if len(c.list)*2 >= len(c.table) {
		c.grow()
	}
	mask := uint64(len(c.table) - 1)
	for p := cellHash(row, at) & mask; ; p = (p + 1) & mask {
		e := c.table[p]
		if e == 0 {
			c.list = append(c.list, cell{row: row, at: at, min: math.MaxInt64})
			c.table[p] = uint32(len(c.list))
			c.hint = len(c.list)
			return &c.list[len(c.list)-1]
		}
		if x := &c.list[e-1]; x.row == row && x.at == at {
			c.hint = int(e)
			return x
		}
	}
}

func cellHash(row, at uint64) uint64 {
	h, l := bits.Mul64(row^0x9e3779b97f4a7c15, at^0xd1b54a32d192ed03)
	return h ^ l
}

func (c *cells) grow() {
	c.table = make([]uint32, max(1024, 2*len(c.table)))
	c.index()
}

// index enters all cells into the table.
func (c *cells) index() {
	clear(c.table)
	mask := uint64(len(c.table) - 1)
	for i := range c.list {
		p := cellHash(c.list[i].row, c.list[i].at) & mask
		for c.table[p] != 0 {
			p = (p + 1) & mask
		}
		c.table[p] = uint32(i + 1)
	}
}

// sorted returns the numbers of all cells, in order of row, slot and bucket. Each key
// has few values that lie close together, so it sorts by counting.
func (c *cells) sorted() []uint32 {
	n := len(c.list)
	c.order, c.swap = slices.Grow(c.order[:0], n)[:n], slices.Grow(c.swap[:0], n)[:n]
	for i := range c.order {
		c.order[i] = uint32(i)
	}
	for _, key := range [...]func(x *cell) uint64{
		func(x *cell) uint64 { return uint64(int64(int16(x.at)) - zeroBucket) },
		func(x *cell) uint64 { return x.at >> 16 },
		func(x *cell) uint64 { return x.row & math.MaxUint32 },
		func(x *cell) uint64 { return x.row >> 32 },
	} {
		if !c.sortBy(key) {
			slices.SortFunc(c.order, func(i, j uint32) int { return c.list[i].compare(&c.list[j]) })
			break
		}
	}
	return c.order
}

// sortBy sorts the order stably by one key. It returns false if the key's values are too
// far apart.
func (c *cells) sortBy(key func(*cell) uint64) bool {
	least, most := uint64(math.MaxUint64), uint64(0)
	for i := range c.list {
		k := key(&c.list[i])
		least, most = min(least, k), max(most, k)
	}
	if len(c.list) == 0 || most == least {
		return true
	}
	span := most - least + 1
	if span > uint64(4*len(c.list)+1<<10) {
		return false
	}
	c.count = slices.Grow(c.count[:0], int(span)+1)[:span+1]
	clear(c.count)
	for i := range c.list {
		c.count[key(&c.list[i])-least+1]++
	}
	for i := uint64(1); i < span; i++ {
		c.count[i] += c.count[i-1]
	}
	for _, i := range c.order {
		at := &c.count[key(&c.list[i])-least]
		c.swap[*at] = i
		*at++
	}
	c.order, c.swap = c.swap, c.order
	return true
}

func (c *cell) compare(o *cell) int {
	if c.row != o.row {
		return cmp.Compare(c.row, o.row)
	}
	if s := cmp.Compare(c.at>>16, o.at>>16); s != 0 {
		return s
	}
	return cmp.Compare(int16(c.at), int16(o.at))
}

// drop drops all cells, and keeps their memory.
func (c *cells) drop() {
	c.list = c.list[:0]
	clear(c.table)
}

// merge adds the cells of another.
func (c *cells) merge(from *cells) {
	for i := range from.list {
		x := &from.list[i]
		c.get(x.row, x.at).merge(x)
	}
}

// merge adds a cell of the same row, slot and bucket.
func (c *cell) merge(from *cell) {
	c.min, c.max = min(c.min, from.min), max(c.max, from.max)
	c.sum += from.sum
	c.n += from.n
	c.squares += from.squares
	for m, n := range from.counts {
		c.counts[m] += n
	}
}

// retain keeps only the cells with the given numbers.
func (c *cells) retain(numbers []uint32) {
	list := make([]cell, len(numbers), cap(c.list))
	for i, n := range numbers {
		list[i] = c.list[n]
	}
	c.list, c.hint = list, 0
	c.index()
}

// observe adds a request to a cell.
func (c *cell) observe(duration int64, weight uint32) {
	c.min, c.max = min(c.min, duration), max(c.max, duration)
	c.sum += float64(duration) * float64(weight)
	c.n += uint64(weight)
	c.squares += float64(weight) * float64(weight)
}

// fillDistribution fills h with one measure of cells of one row and slot, in order of their
// buckets. It reports whether h is not empty.
func fillDistribution(h *hist.Histogram, cells []*cell, measure int) bool {
	h.Reset(hist.DefaultSchema)
	for len(cells) > 0 && cells[0].counts[measure] == 0 {
		cells = cells[1:]
	}
	for len(cells) > 0 && cells[len(cells)-1].counts[measure] == 0 {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return false
	}
	h.Min, h.Max = hist.Seconds(cells[0].min), hist.Seconds(cells[len(cells)-1].max)
	sum, squares := 0.0, 0.0
	for i := range cells {
		x := cells[i]
		n := x.counts[measure]
		if n == 0 {
			continue
		}
		h.Count += n
		// What requests counted lasts and weighs as they do.
		share := float64(n) / float64(x.n)
		sum += x.sum * share
		squares += x.squares * share
		h.Weighted = h.Weighted || x.squares > float64(x.n)
		b := int16(x.at)
		if b == zeroBucket {
			h.ZeroCount += n
			continue
		}
		if len(h.Positive.Counts) == 0 {
			h.Positive.Offset = int32(b)
		}
		for len(h.Positive.Counts) <= int(b)-int(h.Positive.Offset) {
			h.Positive.Counts = append(h.Positive.Counts, 0)
		}
		h.Positive.Counts[int(b)-int(h.Positive.Offset)] += n
	}
	if h.Weighted {
		n := float64(h.Count)
		h.Squares = max(n, min(n*n, math.Round(squares)))
	}
	if sum < 1<<53 {
		h.SetSumNanos(int64(math.Round(sum)))
	} else {
		h.Sum = sum / 1e9
	}
	return true
}
