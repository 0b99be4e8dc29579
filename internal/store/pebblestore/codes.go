package pebblestore

import (
	"math"
	"slices"
)

// codes holds a code for each series of a unit, in as many bytes each as the greatest
// needs, 1, 2 or 4: most labels have few values. One of its slices is in use. What it
// holds is never changed in place, so that a copy of the value stays as it is.
type codes struct {
	narrow []uint8
	middle []uint16
	wide   []uint32
}

// len returns for how many series there is a code.
func (c *codes) len() int { return len(c.narrow) + len(c.middle) + len(c.wide) }

// bytes returns the memory that they take, spare capacity included.
func (c *codes) bytes() int64 {
	return int64(cap(c.narrow)) + 2*int64(cap(c.middle)) + 4*int64(cap(c.wide))
}

// at returns the code of series i, 0 beyond the end.
func (c *codes) at(i int) uint32 {
	switch {
	case i < len(c.narrow):
		return uint32(c.narrow[i])
	case i < len(c.middle):
		return uint32(c.middle[i])
	case i < len(c.wide):
		return c.wide[i]
	}
	return 0
}

// put appends the code of series i, and 0 for those between. A series that has one already,
// by a damaged block, gets this one, and is the last.
func (c *codes) put(i int, code uint32) {
	switch {
	case c.wide != nil || code > math.MaxUint16:
		if c.wide == nil {
			c.wide = widen[uint32](c.narrow, c.middle)
			c.narrow, c.middle = nil, nil
		}
		c.wide = append(resize(c.wide, i), code)
	case c.middle != nil || code > math.MaxUint8:
		if c.middle == nil {
			c.middle = widen[uint16](c.narrow, nil)
			c.narrow = nil
		}
		c.middle = append(resize(c.middle, i), uint16(code))
	default:
		c.narrow = append(resize(c.narrow, i), uint8(code))
	}
}

// grow makes room for n more.
func (c *codes) grow(n int) {
	switch {
	case c.wide != nil:
		c.wide = slices.Grow(c.wide, n)
	case c.middle != nil:
		c.middle = slices.Grow(c.middle, n)
	default:
		c.narrow = slices.Grow(c.narrow, n)
	}
}

// now returns the present codes, to which those that are put later do not belong.
func (c *codes) now() codes {
	return codes{slices.Clip(c.narrow), slices.Clip(c.middle), slices.Clip(c.wide)}
}

// reset returns no codes, with the memory of these.
func (c *codes) reset() codes { return codes{c.narrow[:0], c.middle[:0], c.wide[:0]} }

// keep takes those series out of sel whose code is not ok.
func (c *codes) keep(sel, ok []bool) {
	keepCodes(sel, c.narrow, ok)
	keepCodes(sel, c.middle, ok)
	keepCodes(sel, c.wide, ok)
	if !ok[0] {
		clear(sel[c.len():])
	}
}

func keepCodes[T uint8 | uint16 | uint32](sel []bool, of []T, ok []bool) {
	for i, code := range of {
		sel[i] = sel[i] && ok[code]
	}
}

func widen[T uint16 | uint32](narrow []uint8, middle []uint16) []T {
	out := make([]T, 0, max(1, cap(narrow), cap(middle)))
	for _, v := range narrow {
		out = append(out, T(v))
	}
	for _, v := range middle {
		out = append(out, T(v))
	}
	return out
}

// resize returns s with n values, the new ones 0.
func resize[T any](s []T, n int) []T {
	if n <= len(s) {
		return s[:n]
	}
	s = slices.Grow(s, n-len(s)+1)
	clear(s[len(s):n])
	return s[:n]
}
