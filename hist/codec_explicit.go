package hist

import (
	"encoding/binary"
	"math"
)

func (h *Histogram) appendExplicit(dst []byte) ([]byte, error) {
	if err := h.Validate(); err != nil {
		return dst, err
	}
	dst = append(dst, explicitForm, 0)
	at := len(dst) - 1
	dst = binary.AppendUvarint(dst, h.Count)
	var c Cell
	dst, flags := h.appendMoments(dst, &c, c.moments(h))
	if h.Error != 0 {
		flags |= flagError
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(h.Error))
	}
	dst, flags = h.appendSquares(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(h.Bounds)))
	if out, whole := appendWholeBounds(dst, h.Bounds); whole {
		flags |= flagBounds
		dst = out
	} else {
		for _, b := range h.Bounds {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(b))
		}
	}
	dst[at] = flags
	lo, hi := trimmed(h.Positive.Counts)
	if lo == hi {
		return dst, nil
	}
	head := len(dst)
	dst = append(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(lo))
	dst = binary.AppendUvarint(dst, uint64(hi-lo))
	var p packed
	pack(&p, h.Positive.Counts[lo:hi])
	dst, planes := appendCounts(dst, &p, h.Positive.Counts[lo:hi])
	if planes {
		dst[head] = 1
	}
	return dst, nil
}

// appendWholeBounds appends bounds as nanoseconds, if they are whole ones.
func appendWholeBounds(dst []byte, bounds []float64) ([]byte, bool) {
	last := int64(0)
	for i, b := range bounds {
		ns, ok := Nanos(b)
		if !ok {
			return nil, false
		}
		if i == 0 {
			dst = binary.AppendVarint(dst, ns)
		} else {
			dst = binary.AppendUvarint(dst, uint64(ns)-uint64(last))
		}
		last = ns
	}
	return dst, true
}

// eachBound calls f with the bounds of an explicit point until it returns
// false, and returns what follows them.
func (p *point) eachBound(f func(i int, b float64) bool) (rest []byte, err error) {
	n, b, ok := uvarint(p.rest)
	if !ok || n > int64(len(b)) {
		return nil, corrupt("number of bounds")
	}
	last := int64(0)
	for i := range int(n) {
		var v float64
		if p.bounds {
			var k int
			if i == 0 {
				last, k = binary.Varint(b)
			} else {
				var d uint64
				d, k = binary.Uvarint(b)
				last += int64(d)
			}
			if k <= 0 {
				return nil, corrupt("bound %d", i)
			}
			v, b = Seconds(last), b[k:]
		} else {
			if len(b) < 8 {
				return nil, corrupt("bound %d", i)
			}
			v, b = math.Float64frombits(binary.LittleEndian.Uint64(b)), b[8:]
		}
		if !f(i, v) {
			return nil, nil
		}
	}
	return b, nil
}

// sameBounds reports whether the point has these bounds, and returns what follows them.
func (p *point) sameBounds(bounds []float64) (rest []byte, same bool) {
	n := 0
	rest, err := p.eachBound(func(i int, b float64) bool {
		n++
		return i < len(bounds) && bounds[i] == b
	})
	return rest, err == nil && rest != nil && n == len(bounds)
}

// readExplicit fills h, which is reset, from an explicit point. It shares bounds if they
// are the point's.
func (h *Histogram) readExplicit(p *point, bounds []float64) error {
	rest, same := p.sameBounds(bounds)
	if !same {
		bounds = []float64{}
		var err error
		if rest, err = p.eachBound(func(_ int, b float64) bool {
			bounds = append(bounds, b)
			return true
		}); err != nil {
			return err
		}
	}
	h.setExplicit(bounds)
	if err := h.addExplicit(p, rest); err != nil {
		return err
	}
	h.Sum = p.Sum()
	h.exact = exactSum{ok: p.whole, nanos: p.sumNanos, last: h.Sum}
	h.Min, h.Max = p.minimum(), p.maximum()
	h.boundSquares(p)
	if err := h.Validate(); err != nil {
		return corrupt("%v", err)
	}
	return nil
}

// addExplicit adds an explicit point of h's own bounds.
func (h *Histogram) addExplicit(p *point, b []byte) error {
	if p.count == 0 {
		if len(b) != 0 {
			return corrupt("%d bytes after an empty one", len(b))
		}
		h.Weighted, h.Error = h.Weighted || p.weighted, max(h.Error, p.err)
		return nil
	}
	if len(b) == 0 || b[0] > 1 {
		return corrupt("counts of explicit buckets")
	}
	planes := b[0] == 1
	first, b, ok := uvarint(b[1:])
	if !ok {
		return corrupt("counts of explicit buckets")
	}
	n, b, ok := uvarint(b)
	if !ok || first > int64(len(h.Bounds)) || n < 1 || n > int64(len(h.Bounds))+1-first {
		return corrupt("counts of explicit buckets")
	}
	w := h.Positive.Counts[first : first+n]
	var total uint64
	var used int
	if planes {
		total, used = addPlanes(w, b)
	} else {
		total, used = addNibbles(w, b)
	}
	if used != len(b) || total != p.count {
		return corrupt("counts of %d observations", p.count)
	}
	lo, hi := p.minimum(), p.maximum()
	if h.Count == 0 {
		h.Min, h.Max = lo, hi
	} else {
		h.Min, h.Max = lesser(h.Min, lo), greater(h.Max, hi)
	}
	h.addSquares(p.weighted, p.squares())
	h.Count += p.count
	p.addSum(h)
	h.Error = max(h.Error, p.err)
	return nil
}
