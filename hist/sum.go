package hist

import (
	"math"
	"math/bits"
)

// Seconds returns ns nanoseconds in seconds, correctly rounded.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }

// Nanos returns the whole number of nanoseconds whose Seconds is exactly v.
func Nanos(v float64) (ns int64, ok bool) {
	x := math.RoundToEven(v * 1e9)
	if !(x > -1<<63 && x < 1<<63) {
		return 0, false
	}
	if ns = int64(x); Seconds(ns) == v {
		return ns, true
	}
	// From 2^51 on the product may be rounded to a neighbour of the number sought.
	if math.Abs(x) < 1<<50 {
		return ns, false
	}
	for _, y := range [...]float64{math.Max(x+1, math.Nextafter(x, math.Inf(1))), math.Min(x-1, math.Nextafter(x, math.Inf(-1)))} {
		if ns = int64(y); y < 1<<63 && Seconds(ns) == v {
			return ns, true
		}
	}
	return int64(x), false
}

// exactSum keeps Histogram.Sum independent of the order of additions: as whole
// nanoseconds while every input is (then it is exact), else as a pair of
// float64 whose first is Sum (Neumaier's compensated sum).
type exactSum struct {
	ok    bool    // nanos is the sum
	nanos int64   // if ok
	low   float64 // if not ok: what Sum lacks
	last  float64 // Sum as it was left; another value means the owner wrote Sum
}

// sync adopts a Sum that was written from outside.
func (h *Histogram) sync() {
	if h.Sum != h.exact.last {
		s := &h.exact
		s.nanos, s.ok = Nanos(h.Sum)
		s.low, s.last = 0, h.Sum
	}
}

func (h *Histogram) addNanos(ns int64) {
	h.sync()
	s := &h.exact
	if s.ok {
		t := s.nanos + ns
		if (t^s.nanos)&(t^ns) >= 0 {
			s.nanos = t
			h.Sum = Seconds(t)
			s.last = h.Sum
			return
		}
	}
	v := Seconds(ns)
	h.addFloat(v, residue(ns, v))
}

// addFloat adds v + low.
func (h *Histogram) addFloat(v, low float64) {
	h.sync()
	s := &h.exact
	if s.ok {
		s.ok, s.low = false, residue(s.nanos, h.Sum)
	}
	a := h.Sum
	t := a + v
	low += s.low
	if bb := t - a; !math.IsInf(t, 0) {
		low += (a - (t - bb)) + (v - bb) // Knuth's two-sum
		h.Sum = t + low
		s.low = low - (h.Sum - t)
	} else {
		h.Sum, s.low = t, 0
	}
	s.last = h.Sum
}

// residue returns by how many seconds v = Seconds(ns) is less than ns nanoseconds.
func residue(ns int64, v float64) float64 {
	return -math.FMA(v, 1e9, -float64(ns)) / 1e9
}

// addTimes adds n observations of v.
func (h *Histogram) addTimes(v float64, n uint64) {
	if ns, ok := Nanos(v); ok {
		if p, ok := mulNanos(ns, n); ok {
			h.addNanos(p)
			return
		}
	}
	p := v * float64(n)
	h.addFloat(p, math.FMA(v, float64(n), -p))
}

// mulNanos returns ns*n if it fits.
func mulNanos(ns int64, n uint64) (int64, bool) {
	if n == 1 {
		return ns, true
	}
	u := uint64(ns)
	if ns < 0 {
		u = -u
	}
	hi, lo := bits.Mul64(u, n)
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	if ns < 0 {
		return -int64(lo), true
	}
	return int64(lo), true
}

// addSum adds the sum of o.
func (h *Histogram) addSum(o *Histogram) {
	if ns, ok := o.SumNanos(); ok {
		h.addNanos(ns)
		return
	}
	low := 0.0
	if o.Sum == o.exact.last {
		low = o.exact.low
	}
	h.addFloat(o.Sum, low)
}

// SumNanos returns the sum in nanoseconds if it is a whole number of them.
func (h *Histogram) SumNanos() (int64, bool) {
	if h.exact.ok && h.Sum == h.exact.last {
		return h.exact.nanos, true
	}
	return Nanos(h.Sum)
}

// SetSumNanos sets Sum to a whole number of nanoseconds.
func (h *Histogram) SetSumNanos(ns int64) {
	h.Sum = Seconds(ns)
	h.exact = exactSum{ok: true, nanos: ns, last: h.Sum}
}
