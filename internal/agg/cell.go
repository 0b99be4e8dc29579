package agg

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"tailscope/hist"
	"tailscope/internal/series"
)

// A cell holds the data of one series in one slot of an open generation. Cells, bucket
// pages and byte blobs lie in large slabs without pointers, which the garbage collector
// does not scan, and are referred to by index.
//
// Most cells hold a few observations, which are kept as they came, in the cell's own
// cache line. The seventh moves them to a page of bucket counts.

const (
	cellSchema  = hist.DefaultSchema
	inlineWords = 6
	weightedBit = 1 << 63 // on an inline duration: its weight is the next word

	cellSlab = 1 << 12 // cells per slab: 256 KiB
	pageSlab = 1 << 15 // counts per slab: 128 KiB
	pageUnit = 32      // counts of the smallest page
	byteSlab = 1 << 18 // bytes per slab of blobs

	classes = 7 // pages of 32<<class counts; the last holds all 2,017 buckets of an int64 of nanoseconds
)

// Modes of a cell: the meaning of its words.
const (
	modeDurations = iota // inline durations or a page
	modeBlobs            // encoded histograms
	modeNumber           // a series.Number
)

// paged in cell.n marks a cell whose words are: count, sum (low, high word; ns), min,
// max, and the page's number with its first bucket above bit 32. Where it is also
// flagWeighted, the last two counts of its page hold the squares of its weights instead,
// as a float64: pageFor leaves them free.
const paged = 0xff

type cell struct {
	series uint32
	key    uint32 // slot number <<2 | mode
	next   uint32 // next cell of the series, 0 at the end
	n      uint8  // number of inline words, or paged
	class  uint8  // of the page
	flags  uint8
	_      uint8
	w      [inlineWords]uint64
}

const (
	flagWeighted = 1
	flagSpilled  = 2 // some of its counts are in cells.spill
	squareCounts = 2 // counts of a weighted cell's page that hold its squares
)

func (c *cell) mode() uint32 { return c.key & 3 }

func (c *cell) base() int { return int(int16(c.w[5] >> 32)) }

func (c *cell) setPage(ref uint32, base int, class uint8) {
	c.w[5] = uint64(ref) | uint64(uint16(int16(base)))<<32
	c.class = class
}

// slabs allocates, reuses and counts the memory of generations.
type slabs struct {
	used  atomic.Int64 // bytes in generations, without free slabs
	mu    sync.Mutex
	cells [][]cell
	pages [][]uint32
	bytes [][]byte

	members [][]loggedTime
}

const (
	cellSlabBytes = cellSlab * 64
	pageSlabBytes = pageSlab * 4
	keepSlabs     = 64 // free slabs of each kind kept for the next generation
)

func take[T any](s *slabs, free *[][]T, n int) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := len(*free); k > 0 {
		b := (*free)[k-1]
		*free = (*free)[:k-1]
		return b
	}
	return make([]T, n)
}

func give[T any](s *slabs, free *[][]T, back [][]T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range back {
		if len(*free) >= keepSlabs {
			return
		}
		clear(b)
		*free = append(*free, b)
	}
}

// kept returns the memory of free slabs.
func (s *slabs) kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.cells))*cellSlabBytes + int64(len(s.pages))*pageSlabBytes + int64(len(s.bytes))*byteSlab + int64(len(s.members))*memberSlabBytes
}

type spillKey struct {
	series, key uint32
	bucket      int32
}

type rawSample struct {
	series uint32
	millis int64
	value  float64
}

// cells holds the contents of one generation.
type cells struct {
	pool *slabs
	tab  *bucketTable
	size int64 // bytes taken from pool

	slab  [][]cell
	count uint32 // cells in use; number 0 is never used

	heads []uint32 // by series: its latest cell, 0 if none
	table []uint32 // open addressing over (series, key), for the cells that are not heads
	held  int      // entries of table

	page  [][]uint32
	units uint32 // page units in use
	free  [classes][]uint32
	spill map[spillKey]uint64 // counts that exceed 32 bits

	blob   [][]byte
	blobAt int // bytes used of the last blob slab

	samples []rawSample
	members memberLog
	// numbered reports that some cells are of numbered Full series of tenants, which
	// members may hold too: see absorbMembers.
	numbered bool
}

func newCells(pool *slabs, seriesHint int) *cells {
	c := &cells{pool: pool, tab: buckets(), count: 1, heads: make([]uint32, seriesHint)}
	c.grew(int64(4 * seriesHint))
	return c
}

func (g *cells) grew(n int64) {
	g.size += n
	g.pool.used.Add(n)
}

// release frees the memory; the cells are invalid afterwards.
func (g *cells) release() {
	g.pool.used.Add(-g.size)
	give(g.pool, &g.pool.cells, g.slab)
	give(g.pool, &g.pool.pages, g.page)
	whole := g.blob[:0]
	for _, b := range g.blob {
		if len(b) == byteSlab {
			whole = append(whole, b)
		}
	}
	give(g.pool, &g.pool.bytes, whole)
	give(g.pool, &g.pool.members, g.members.slabs)
	*g = cells{pool: g.pool, tab: g.tab}
}

func (g *cells) at(i uint32) *cell { return &g.slab[i>>12][i&(cellSlab-1)] }

// cell returns the cell of a series and key, and creates it if it is new; fresh reports
// that.
func (g *cells) cell(s, key uint32) (c *cell, fresh bool) {
	if int(s) >= len(g.heads) {
		n := max(int(s)+1, 2*len(g.heads), 1024)
		g.grew(int64(4 * (n - len(g.heads))))
		heads := make([]uint32, n)
		copy(heads, g.heads)
		g.heads = heads
	}
	h := g.heads[s]
	if h == 0 {
		i := g.newCell(s, key)
		g.heads[s] = i
		return g.at(i), true
	}
	head := g.at(h)
	if head.key == key {
		return head, false
	}
	if i := g.find(s, key); i != 0 {
		return g.at(i), false
	}
	i := g.newCell(s, key)
	c = g.at(i)
	if key > head.key {
		c.next, g.heads[s] = h, i
		g.insert(h)
	} else {
		c.next, head.next = head.next, i
		g.insert(i)
	}
	return c, true
}

func (g *cells) newCell(s, key uint32) uint32 {
	i := g.count
	if int(i>>12) == len(g.slab) {
		g.slab = append(g.slab, take(g.pool, &g.pool.cells, cellSlab))
		g.grew(cellSlabBytes)
	}
	g.count++
	c := g.at(i)
	c.series, c.key = s, key
	return i
}

func hashKey(s, key uint32) uint32 {
	x := (uint64(s)<<32 | uint64(key)) * 0x9e3779b97f4a7c15
	return uint32(x >> 32)
}

func (g *cells) find(s, key uint32) uint32 {
	if g.held == 0 {
		return 0
	}
	mask := uint32(len(g.table) - 1)
	for p := hashKey(s, key) & mask; ; p = (p + 1) & mask {
		i := g.table[p]
		if i == 0 {
			return 0
		}
		if c := g.at(i); c.series == s && c.key == key {
			return i
		}
	}
}

func (g *cells) insert(i uint32) {
	if 2*g.held >= len(g.table) {
		old := g.table
		g.table = make([]uint32, max(1024, 2*len(old)))
		g.grew(int64(4 * (len(g.table) - len(old))))
		for _, o := range old {
			if o != 0 {
				g.place(o)
			}
		}
	}
	g.place(i)
	g.held++
}

func (g *cells) place(i uint32) {
	c := g.at(i)
	mask := uint32(len(g.table) - 1)
	p := hashKey(c.series, c.key) & mask
	for g.table[p] != 0 {
		p = (p + 1) & mask
	}
	g.table[p] = i
}

// noBucket is the bucket of a duration of zero.
const noBucket = math.MinInt16

// bucket returns the bucket of a duration, noBucket for zero.
func (t *bucketTable) bucket(ns int64) int {
	if ns == 0 {
		return noBucket
	}
	return t.find(ns)
}

// observe adds a duration ns >= 0, in its bucket, that stands for w >= 1 observations.
func (g *cells) observe(c *cell, ns int64, w uint32, bucket int) {
	if c.n != paged {
		if w == 1 && c.n < inlineWords {
			c.w[c.n] = uint64(ns)
			c.n++
			return
		}
		if w != 1 {
			c.flags |= flagWeighted
			if c.n < inlineWords-1 {
				c.w[c.n], c.w[c.n+1] = uint64(ns)|weightedBit, uint64(w)
				c.n += 2
				return
			}
		}
		g.toPage(c)
	}
	if w != 1 || c.flags&flagWeighted != 0 {
		g.addSquares(c, float64(w)*float64(w))
	}
	hi, lo := bits.Mul64(uint64(ns), uint64(w))
	g.moments(c, uint64(w), lo, hi, uint64(ns), uint64(ns))
	if bucket != noBucket {
		g.add(c, bucket, uint64(w))
	}
}

// moments adds to count, sum, min and max of a paged cell.
func (g *cells) moments(c *cell, n, sumLo, sumHi, lo, hi uint64) {
	c.w[0] += n
	var carry uint64
	c.w[1], carry = bits.Add64(c.w[1], sumLo, 0)
	c.w[2] += sumHi + carry
	c.w[3] = min(c.w[3], lo)
	c.w[4] = max(c.w[4], hi)
}

// addSquares makes a paged cell weighted, and adds squares of observations that moments
// does not have yet.
func (g *cells) addSquares(c *cell, squares float64) {
	if c.flags&flagWeighted == 0 {
		if p := g.wholePage(c); p[len(p)-1]|p[len(p)-2] != 0 {
			g.widen(c, math.MaxInt, math.MinInt)
		}
		squares += float64(c.w[0])
		c.flags |= flagWeighted
	} else {
		squares += g.squares(c)
	}
	b, p := math.Float64bits(squares), g.wholePage(c)
	p[len(p)-2], p[len(p)-1] = uint32(b), uint32(b>>32)
}

// squares returns the squares of the weights of a paged cell.
func (g *cells) squares(c *cell) float64 {
	if c.flags&flagWeighted == 0 {
		return float64(c.w[0])
	}
	p := g.wholePage(c)
	return math.Float64frombits(uint64(p[len(p)-2]) | uint64(p[len(p)-1])<<32)
}

// add adds n to a bucket of a paged cell.
func (g *cells) add(c *cell, bucket int, n uint64) {
	i := bucket - c.base()
	if uint(i) >= uint(c.buckets()) {
		g.widen(c, bucket, bucket)
		i = bucket - c.base()
	}
	p := &g.counts(c)[i]
	v := uint64(*p) + n
	if v > math.MaxUint32 { // a count that spilled is never 0
		if g.spill == nil {
			g.spill = map[spillKey]uint64{}
		}
		c.flags |= flagSpilled
		keep := max(v&math.MaxUint32, 1)
		g.spill[spillKey{c.series, c.key, int32(bucket)}] += v - keep
		v = keep
	}
	*p = uint32(v)
}

// buckets returns the number of buckets of a paged cell's page.
func (c *cell) buckets() int { return pageUnit<<c.class - squareCounts*int(c.flags&flagWeighted) }

// counts returns the counts of a paged cell's buckets.
func (g *cells) counts(c *cell) []uint32 { return g.wholePage(c)[:c.buckets()] }

func (g *cells) wholePage(c *cell) []uint32 {
	ref := uint32(c.w[5])
	const per = pageSlab / pageUnit
	at := int(ref%per) * pageUnit
	return g.page[ref/per][at : at+pageUnit<<c.class]
}

// toPage moves inline durations to bucket counts.
func (g *cells) toPage(c *cell) {
	old, n := c.w, int(c.n)
	lo, hi := math.MaxInt, math.MinInt
	for i := 0; i < n; i++ {
		ns := int64(old[i] &^ weightedBit)
		if ns > 0 {
			k := g.tab.find(ns)
			lo, hi = min(lo, k), max(hi, k)
		}
		if old[i]&weightedBit != 0 {
			i++
		}
	}
	if lo > hi {
		lo, hi = 0, 0
	}
	g.firstPage(c, lo, hi)
	for i := 0; i < n; i++ {
		ns, w := int64(old[i]&^weightedBit), uint32(1)
		if old[i]&weightedBit != 0 {
			i++
			w = uint32(old[i])
		}
		g.observe(c, ns, w, g.tab.bucket(ns))
	}
}

// firstPage makes a paged cell of c, without observations, for buckets lo to hi.
func (g *cells) firstPage(c *cell, lo, hi int) {
	c.n = paged
	c.w = [inlineWords]uint64{3: math.MaxUint64}
	class, base := pageFor(lo, hi)
	c.setPage(g.newPage(class), base, class)
}

// pageFor returns a page for buckets lo to hi, with space on both sides: at least
// squareCounts above them.
func pageFor(lo, hi int) (class uint8, base int) {
	need := hi - lo + 1
	want := min(need+need/4+4, pageUnit<<(classes-1))
	for pageUnit<<class < want {
		class++
	}
	return class, lo - (pageUnit<<class-need)/2
}

// widen moves a paged cell to a page that also holds buckets lo to hi.
func (g *cells) widen(c *cell, lo, hi int) {
	old, base := g.counts(c), c.base()
	for i, n := range old {
		if n != 0 {
			lo = min(lo, base+i)
			break
		}
	}
	for i := len(old) - 1; i >= 0; i-- {
		if old[i] != 0 {
			hi = max(hi, base+i)
			break
		}
	}
	page, ref, was := g.wholePage(c), uint32(c.w[5]), c.class
	class, to := pageFor(lo, hi)
	c.setPage(g.newPage(class), to, class)
	counts := g.counts(c)
	for i, n := range old {
		if n != 0 {
			counts[base+i-to] = n
		}
	}
	if c.flags&flagWeighted != 0 {
		copy(g.wholePage(c)[c.buckets():], page[len(old):])
	}
	clear(page)
	g.free[was] = append(g.free[was], ref)
}

// freePage frees the page of a cell that is not used any more.
func (g *cells) freePage(c *cell) {
	clear(g.wholePage(c))
	g.free[c.class] = append(g.free[c.class], uint32(c.w[5]))
}

func (g *cells) newPage(class uint8) uint32 {
	if f := g.free[class]; len(f) > 0 {
		g.free[class] = f[:len(f)-1]
		return f[len(f)-1]
	}
	const per = pageSlab / pageUnit
	n := uint32(1) << class
	if g.units%per+n > per || int(g.units/per) >= len(g.page) {
		g.units = uint32(len(g.page)) * per
		g.page = append(g.page, take(g.pool, &g.pool.pages, pageSlab))
		g.grew(pageSlabBytes)
	}
	ref := g.units
	g.units += n
	return ref
}

// number adds a sample to a cell of mode modeNumber.
func (g *cells) number(c *cell, millis int64, v float64) {
	n := c.asNumber()
	n.Merge(series.Number{Count: 1, Sum: v, Min: v, Max: v, Last: v, LastTimeMillis: millis})
	c.w = [inlineWords]uint64{n.Count, math.Float64bits(n.Sum), math.Float64bits(n.Min),
		math.Float64bits(n.Max), math.Float64bits(n.Last), uint64(n.LastTimeMillis)}
}

func (c *cell) asNumber() series.Number {
	return series.Number{Count: c.w[0], Sum: math.Float64frombits(c.w[1]), Min: math.Float64frombits(c.w[2]),
		Max: math.Float64frombits(c.w[3]), Last: math.Float64frombits(c.w[4]), LastTimeMillis: int64(c.w[5])}
}

// newBlob stores a byte string in the generation: four bytes of length, then the bytes.
// A cell of mode modeBlobs holds up to six, and merges them into one when a seventh
// comes.
func (g *cells) newBlob(b []byte) uint64 {
	need := 4 + len(b)
	if len(g.blob) == 0 || g.blobAt+need > len(g.blob[len(g.blob)-1]) {
		var slab []byte
		if need > byteSlab {
			slab = make([]byte, need)
		} else {
			slab = take(g.pool, &g.pool.bytes, byteSlab)
		}
		g.blob = append(g.blob, slab)
		g.blobAt = 0
		g.grew(int64(len(slab)))
	}
	slab := g.blob[len(g.blob)-1]
	at := g.blobAt
	slab[at], slab[at+1], slab[at+2], slab[at+3] = byte(len(b)), byte(len(b)>>8), byte(len(b)>>16), byte(len(b)>>24)
	copy(slab[at+4:], b)
	g.blobAt += need
	return uint64(len(g.blob)-1)<<32 | uint64(at)
}

func (g *cells) blobBytes(ref uint64) []byte {
	s := g.blob[ref>>32][uint32(ref):]
	n := int(s[0]) | int(s[1])<<8 | int(s[2])<<16 | int(s[3])<<24
	return s[4 : 4+n]
}

// encoded adds a histogram in its binary form to a cell of mode modeBlobs.
func (g *cells) encoded(c *cell, b []byte) error {
	if c.n == inlineWords {
		h := hist.New(cellSchema)
		for _, ref := range c.w {
			if err := mergeInto(h, g.blobBytes(ref)); err != nil {
				return err
			}
		}
		if err := h.MergeEncoded(b); err != nil {
			return err
		}
		merged, err := h.AppendBinary(nil)
		if err != nil {
			return err
		}
		c.w, c.n = [inlineWords]uint64{g.newBlob(merged)}, 1
		return nil
	}
	c.w[c.n] = g.newBlob(b)
	c.n++
	return nil
}

// mergeInto adds b to h; an empty h gets b's schema.
func mergeInto(h *hist.Histogram, b []byte) error {
	if h.Count == 0 && h.Error == 0 {
		return h.UnmarshalBinary(b)
	}
	return h.MergeEncoded(b)
}

// absorb adds durations of cell o to the cell of another series and the same key.
func (g *cells) absorb(c, o *cell) error {
	if o.mode() == modeBlobs {
		for i := range int(o.n) {
			if err := g.encoded(c, g.blobBytes(o.w[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if o.n != paged {
		for i := 0; i < int(o.n); i++ {
			ns, w := int64(o.w[i]&^weightedBit), uint32(1)
			if o.w[i]&weightedBit != 0 {
				i++
				w = uint32(o.w[i])
			}
			g.observe(c, ns, w, g.tab.bucket(ns))
		}
		return nil
	}
	if c.n != paged {
		g.toPage(c)
	}
	if (c.flags|o.flags)&flagWeighted != 0 {
		g.addSquares(c, g.squares(o))
	}
	g.moments(c, o.w[0], o.w[1], o.w[2], o.w[3], o.w[4])
	counts, base := g.counts(o), o.base()
	if o.flags&flagSpilled != 0 {
		for i, n := range counts {
			if n != 0 {
				g.add(c, base+i, uint64(n)+g.spill[spillKey{o.series, o.key, int32(base + i)}])
			}
		}
		return nil
	}
	addCounts(g, c, base, counts)
	return nil
}

// addCounts adds counts of buckets from base on to a paged cell, whose page it widens at
// most once.
func addCounts[C uint32 | uint64](g *cells, c *cell, base int, counts []C) {
	base, counts = trim(base, counts)
	if len(counts) == 0 {
		return
	}
	if base < c.base() || base+len(counts) > c.base()+c.buckets() {
		g.widen(c, base, base+len(counts)-1)
	}
	page := g.counts(c)[base-c.base():]
	for i, n := range counts {
		if v := uint64(page[i]) + uint64(n); v <= math.MaxUint32 {
			page[i] = uint32(v)
		} else {
			g.add(c, base+i, uint64(n))
		}
	}
}

// trim returns counts of buckets from base on without the zeros at their ends.
func trim[C uint32 | uint64](base int, counts []C) (int, []C) {
	for len(counts) > 0 && counts[0] == 0 {
		base, counts = base+1, counts[1:]
	}
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	return base, counts
}

// histogram replaces h by the durations of cell c.
func (g *cells) histogram(h *hist.Histogram, c *cell) {
	counts := h.Positive.Counts[:0]
	neg := h.Negative.Counts[:0]
	*h = hist.Histogram{Schema: cellSchema, ZeroThreshold: hist.DefaultZeroThreshold, Weighted: c.flags&flagWeighted != 0}
	h.Negative.Counts = neg
	if c.n == paged {
		base, page := trim(c.base(), g.counts(c))
		var inBuckets uint64
		for i, v := range page {
			n := uint64(v)
			if c.flags&flagSpilled != 0 {
				n += g.spill[spillKey{c.series, c.key, int32(base + i)}]
			}
			inBuckets += n
			counts = append(counts, n)
		}
		h.Positive = hist.Buckets{Offset: int32(base), Counts: counts}
		h.Count, h.ZeroCount = c.w[0], c.w[0]-inBuckets
		if h.Weighted {
			h.Squares = g.squares(c)
		}
		setSum(h, c.w[1], c.w[2])
		h.Min, h.Max = hist.Seconds(int64(c.w[3])), hist.Seconds(int64(c.w[4]))
		return
	}
	var at [inlineWords]int
	lo, hi := math.MaxInt, math.MinInt
	var sumLo, sumHi uint64
	least, most := int64(math.MaxInt64), int64(0)
	for i := 0; i < int(c.n); i++ {
		ns, w := int64(c.w[i]&^weightedBit), uint64(1)
		at[i] = math.MinInt
		if ns > 0 {
			at[i] = g.tab.find(ns)
			lo, hi = min(lo, at[i]), max(hi, at[i])
		}
		least, most = min(least, ns), max(most, ns)
		if c.w[i]&weightedBit != 0 {
			i++
			w = c.w[i]
			at[i] = at[i-1]
		}
		h.Count += w
		if h.Weighted {
			h.Squares += float64(w) * float64(w)
		}
		mh, ml := bits.Mul64(uint64(ns), w)
		var carry uint64
		sumLo, carry = bits.Add64(sumLo, ml, 0)
		sumHi += mh + carry
	}
	if lo <= hi {
		n := hi - lo + 1
		if cap(counts) < n {
			counts = make([]uint64, n, 2*n)
		}
		counts = counts[:n]
		clear(counts)
	}
	for i := 0; i < int(c.n); i++ {
		k, w := at[i], uint64(1)
		if c.w[i]&weightedBit != 0 {
			i++
			w = c.w[i]
		}
		if k == math.MinInt {
			h.ZeroCount += w
		} else {
			counts[k-lo] += w
		}
	}
	if lo <= hi {
		h.Positive.Offset = int32(lo)
	}
	h.Positive.Counts = counts
	setSum(h, sumLo, sumHi)
	h.Min, h.Max = hist.Seconds(least), hist.Seconds(most)
}

// setSum sets h's sum to a 128-bit number of nanoseconds.
func setSum(h *hist.Histogram, lo, hi uint64) {
	if hi == 0 && lo <= math.MaxInt64 {
		h.SetSumNanos(int64(lo))
		return
	}
	h.Sum = (float64(hi)*(1<<64) + float64(lo)) / 1e9
}

// appendDurations appends the binary form of cell c; h is scratch.
func (g *cells) appendDurations(dst []byte, c *cell, h *hist.Histogram) ([]byte, error) {
	if c.n != paged {
		if c.flags&flagWeighted == 0 {
			var ns [inlineWords]int64
			zero := false
			for i := range int(c.n) {
				ns[i] = int64(c.w[i])
				zero = zero || ns[i] == 0
			}
			if !zero || c.n == 1 {
				return hist.AppendNanos(dst, cellSchema, ns[:c.n], nil)
			}
		}
	} else if c.flags == 0 && c.w[2] == 0 && c.w[1] <= math.MaxInt64 && c.w[3] > 0 {
		return hist.AppendCell(dst, &hist.Cell{
			Schema: cellSchema, Count: c.w[0],
			SumNanos: int64(c.w[1]), MinNanos: int64(c.w[3]), MaxNanos: int64(c.w[4]), Offset: int32(c.base()),
		}, g.counts(c))
	}
	g.histogram(h, c)
	return h.AppendBinary(dst)
}

func (g *cells) sample(s uint32, millis int64, v float64) {
	if len(g.samples) == cap(g.samples) {
		n := max(1024, 2*cap(g.samples))
		g.grew(int64(24 * (n - cap(g.samples))))
		g.samples = append(make([]rawSample, 0, n), g.samples...)
	}
	g.samples = append(g.samples, rawSample{s, millis, v})
}

// sortSamples sorts the samples by series and time. Those of equal times stay in the order
// in which they came.
func (g *cells) sortSamples() {
	slices.SortStableFunc(g.samples, func(a, b rawSample) int {
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.millis, b.millis))
	})
}
