package stat

import (
	"math"
	"slices"
	"sort"

	"tailscope/hist"
)

// Series is one distribution per slot of time, all in the same buckets. It is immutable.
type Series struct {
	// edges[i], edges[i+1] bound bucket i: open below, closed above. The first
	// may be -Inf and the last +Inf.
	edges  []float64
	linear bool // interpolate evenly within buckets that could be logarithmic
	zero   int  // the bucket that counts as 0, or -1
	// Slot t's buckets first[t], first[t]+1, … have cumulative counts
	// cum[start[t]:start[t+1]]; below are none, above are none.
	first []int32
	start []int32
	cum   []float64

	sum      []float64 // per slot
	squares  []float64 // per slot: Σw² of observations that stand for w each; nil if all stand for themselves
	counts   []float64 // per bucket, over all slots
	all      []float64 // counts, cumulative
	total    float64
	alone    float64 // how many independent observations say as much as all
	occupied int
	err      float64 // relative error of a bucket
	min, max float64 // NaN if unknown
}

// NewSeries returns a series of slots' histograms; nil and empty ones are slots without
// observations. It reads the histograms and does not retain them. Histograms of unequal
// schemas are reduced to the coarsest. Where observations stand for several, the slots'
// effective numbers (hist.Histogram.Effective) are what intervals and searches rest on.
func NewSeries(slots []*hist.Histogram) (*Series, error) {
	whole := &hist.Histogram{}
	none := true
	for _, h := range slots {
		switch {
		case h == nil || h.Count == 0:
		case none:
			whole, none = h.Clone(), false
		case cover(whole, h):
		default:
			if err := whole.Merge(h); err != nil {
				return nil, invalidf("slots that do not merge: %v", err)
			}
		}
	}
	s := &Series{zero: -1, min: math.NaN(), max: math.NaN()}
	s.begin(len(slots))
	if none {
		s.edges = []float64{0, 1}
		s.counts = []float64{0}
		for range slots {
			add[float64](s, 0, nil, 0)
		}
		return s.finish(), nil
	}
	l := layoutOf(whole)
	s.edges, s.linear = l.edges, whole.Schema == hist.Explicit
	if whole.ZeroThreshold <= hist.DefaultZeroThreshold {
		s.zero = l.zero
	}
	s.err, s.min, s.max = whole.RelativeError(), whole.Min, whole.Max
	s.counts = make([]float64, len(s.edges)-1)
	if whole.Weighted {
		s.squares = squaresOf(slots)
	}
	kept := 0
	for _, h := range slots {
		if h != nil {
			_, positive := h.Positive.Occupied()
			kept += len(positive) + len(h.Negative.Counts) + 1
		}
	}
	s.cum = make([]float64, 0, kept)
	row := make([]float64, len(s.counts))
	for _, h := range slots {
		if h == nil || h.Count == 0 {
			add[float64](s, 0, nil, 0)
			continue
		}
		if h.Schema != whole.Schema || h.ZeroThreshold != whole.ZeroThreshold || !sameBounds(h, whole) {
			var err error
			if h, err = formed(h, whole); err != nil {
				return nil, invalidf("slot that does not merge: %v", err)
			}
		}
		if h.Schema != hist.Explicit && h.ZeroCount == 0 && len(h.Negative.Counts) == 0 {
			first, counts := h.Positive.Occupied()
			add(s, int32(l.positive)+first-l.positiveFrom, counts, h.Sum)
			continue
		}
		lo, hi := l.fill(row, h)
		add(s, int32(lo), row[lo:hi], h.Sum)
		clear(row[lo:hi])
	}
	return s.finish(), nil
}

// cover adds to whole what a series takes from it of h but its buckets, and reports whether its
// occupied buckets span those as well: the form and the extremes are taken, and no counts.
// Windows do not suffice: a later slot's zero threshold may reach a bucket of h below all
// that whole has, and whole would get no zero bucket.
func cover(whole, h *hist.Histogram) bool {
	if h.Schema != whole.Schema || h.Schema == hist.Explicit || h.ZeroThreshold != whole.ZeroThreshold || h.ZeroCount > 0 && whole.ZeroCount == 0 {
		return false
	}
	for _, side := range [...][2]*hist.Buckets{{&h.Positive, &whole.Positive}, {&h.Negative, &whole.Negative}} {
		first, counts := side[0].Occupied()
		from, held := side[1].Occupied()
		if len(counts) > 0 && (first < from || int(first-from)+len(counts) > len(held)) {
			return false
		}
	}
	whole.Min, whole.Max = min(whole.Min, h.Min), max(whole.Max, h.Max)
	whole.Error, whole.Weighted = max(whole.Error, h.Error), whole.Weighted || h.Weighted
	return true
}

// squaresOf returns Σw² of each slot.
func squaresOf(slots []*hist.Histogram) []float64 {
	out := make([]float64, len(slots))
	for t, h := range slots {
		if h != nil && h.Count > 0 {
			out[t] = h.SquaredWeights()
		}
	}
	return out
}

// NewSeriesOfCounts returns a series of counts per bucket: counts[t][i] of slot t lie in
// (edges[i], edges[i+1]]. Edges ascend; sums holds the sum of each slot, or is nil if
// they are unknown. Values within a bucket are assumed to spread evenly in their
// logarithm if the bucket is positive, and evenly otherwise. It does not retain its
// arguments.
func NewSeriesOfCounts(edges []float64, counts [][]float64, sums []float64) (*Series, error) {
	switch {
	case len(edges) < 2:
		return nil, invalidf("%d bucket edges, want two or more", len(edges))
	case sums != nil && len(sums) != len(counts):
		return nil, invalidf("%d sums of %d slots", len(sums), len(counts))
	}
	for i := 1; i < len(edges); i++ {
		if !(edges[i] > edges[i-1]) {
			return nil, invalidf("bucket edges %v, %v do not ascend", edges[i-1], edges[i])
		}
	}
	s := &Series{edges: slices.Clone(edges), zero: -1, min: math.NaN(), max: math.NaN()}
	s.begin(len(counts))
	s.counts = make([]float64, len(edges)-1)
	type window struct{ lo, hi int }
	windows := make([]window, len(counts))
	kept := 0
	for t, c := range counts {
		if len(c) != len(s.counts) {
			return nil, invalidf("slot %d has %d counts of %d buckets", t, len(c), len(s.counts))
		}
		w := window{0, len(c)}
		for w.lo < w.hi && c[w.lo] == 0 {
			w.lo++
		}
		for w.hi > w.lo && c[w.hi-1] == 0 {
			w.hi--
		}
		for _, n := range c[w.lo:w.hi] {
			if !(n >= 0) || math.IsInf(n, 0) {
				return nil, invalidf("slot %d has a count of %v", t, n)
			}
		}
		windows[t] = w
		kept += w.hi - w.lo
	}
	s.cum = make([]float64, 0, kept)
	for t, w := range windows {
		sum := math.NaN()
		if sums != nil {
			sum = sums[t]
		}
		add(s, int32(w.lo), counts[t][w.lo:w.hi], sum)
	}
	for i, n := range s.counts {
		if n > 0 && edges[i] > 0 {
			s.err = max(s.err, edges[i+1]/edges[i]-1)
		} else if n > 0 {
			s.err = math.Inf(1)
		}
	}
	return s.finish(), nil
}

func (s *Series) begin(slots int) {
	s.first = make([]int32, 0, slots)
	s.start = make([]int32, 1, slots+1)
	s.sum = make([]float64, 0, slots)
}

// add appends a slot to a series.
func add[C uint64 | float64](s *Series, first int32, counts []C, sum float64) {
	n, at := 0.0, len(s.cum)
	s.cum = slices.Grow(s.cum, len(counts))[:at+len(counts)]
	cum, all := s.cum[at:], s.counts[first:]
	for i, c := range counts {
		n += float64(c)
		cum[i] = n
		all[i] += float64(c)
	}
	if n == 0 {
		sum = 0
	} else {
		s.occupied++
	}
	s.total += n
	s.first = append(s.first, first)
	s.start = append(s.start, int32(len(s.cum)))
	s.sum = append(s.sum, sum)
}

// Slots returns the number of slots, empty ones included.
func (s *Series) Slots() int { return len(s.first) }

// Count returns the number of observations.
func (s *Series) Count() float64 { return s.total }

// Effective returns the number of independent observations that say as much as all: it
// is less than Count where observations stand for several.
func (s *Series) Effective() float64 { return s.alone }

// Slice returns the slots [from, to) of a series. It shares memory with s. The bounds
// must be within it.
func (s *Series) Slice(from, to int) *Series {
	p := *s
	p.first, p.start, p.sum = s.first[from:to], s.start[from:to+1], s.sum[from:to]
	if s.squares != nil {
		p.squares = s.squares[from:to]
	}
	p.counts = make([]float64, len(s.counts))
	p.total, p.occupied = 0, 0
	for t := range p.first {
		below := 0.0
		for i, c := range p.cum[p.start[t]:p.start[t+1]] {
			p.counts[int(p.first[t])+i] += c - below
			below = c
		}
		if below > 0 {
			p.occupied++
			p.total += below
		}
	}
	return p.finish()
}

// WithoutEmpty returns s without its empty slots, and the indices of the others. It
// shares memory with s.
func (s *Series) WithoutEmpty() (*Series, []int) {
	p := *s
	p.first, p.start, p.sum, p.squares = nil, nil, nil, nil
	kept := make([]int, 0, s.occupied)
	for t := range s.first {
		if s.count(t) > 0 {
			kept = append(kept, t)
			p.first, p.start, p.sum = append(p.first, s.first[t]), append(p.start, s.start[t]), append(p.sum, s.sum[t])
			if s.squares != nil {
				p.squares = append(p.squares, s.squares[t])
			}
		}
	}
	p.start = append(p.start, s.start[len(s.first)])
	return &p, kept
}

// count returns the number of observations of slot t.
func (s *Series) count(t int) float64 {
	if lo, hi := s.start[t], s.start[t+1]; hi > lo {
		return s.cum[hi-1]
	}
	return 0
}

// effective returns the number of independent observations that say as much as those of
// slot t.
func (s *Series) effective(t int) float64 {
	if s.squares == nil {
		return s.count(t)
	}
	return effective(s.count(t), s.squares[t])
}

// place is a point of the value axis: within bucket i, at a share of it.
type place struct {
	bucket int
	share  float64 // of the bucket's observations at or below
}

// atMost returns how many of slot t's observations lie at or below a place.
func (s *Series) atMost(t int, p place) float64 {
	lo, hi := s.start[t], s.start[t+1]
	i := int32(p.bucket) - s.first[t]
	n := hi - lo
	switch {
	case i < 0 || n == 0:
		return 0
	case i >= n:
		return s.cum[hi-1]
	}
	below := 0.0
	if i > 0 {
		below = s.cum[lo+i-1]
	}
	return below + p.share*(s.cum[lo+i]-below)
}

// placeOf returns the place of a value, the inverse of valueAt.
func (s *Series) placeOf(v float64) place {
	switch {
	case v >= s.max:
		return place{len(s.counts) - 1, 1}
	case v < s.min:
		return place{0, 0}
	}
	return s.spreadOf(v)
}

// spreadOf is placeOf as if observations went on beyond the extremes.
func (s *Series) spreadOf(v float64) place {
	n := len(s.counts)
	i := sort.SearchFloat64s(s.edges, v) - 1 // edges[i] < v <= edges[i+1]
	switch {
	case i < 0:
		return place{0, 0}
	case i >= n:
		return place{n - 1, 1}
	}
	lo, hi, log := s.span(i)
	switch {
	case v >= hi:
		return place{i, 1}
	case v <= lo:
		return place{i, 0}
	case log:
		return place{i, math.Log(v/lo) / math.Log(hi/lo)}
	}
	return place{i, (v - lo) / (hi - lo)}
}

// valueAt returns the value at a place, cut to the extremes where they are known.
func (s *Series) valueAt(p place) float64 {
	lo, hi, log := s.span(p.bucket)
	v := lo + (hi-lo)*p.share
	if log {
		v = lo * math.Pow(hi/lo, p.share)
	}
	if v < s.min {
		v = s.min
	}
	if v > s.max {
		v = s.max
	}
	return v
}

// span returns the ends of bucket i, with infinite ends replaced, and whether
// observations are spread by their logarithm.
func (s *Series) span(i int) (lo, hi float64, log bool) {
	if i == s.zero {
		return 0, 0, false
	}
	lo, hi = s.edges[i], s.edges[i+1]
	if math.IsInf(lo, -1) {
		lo = math.Min(hi, 0)
		if s.min <= hi {
			lo = s.min
		}
	}
	if math.IsInf(hi, 1) {
		hi = lo
		if s.max >= lo {
			hi = s.max
		}
	}
	return lo, hi, !s.linear && (lo > 0 || hi < 0)
}
