package pebblestore

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// ranges is a set of numbers that are mostly consecutive: closed ranges, ascending and
// disjoint.
type ranges [][2]uint64

func (r ranges) has(n uint64) bool {
	_, ok := slices.BinarySearchFunc(r, n, func(r [2]uint64, n uint64) int {
		switch {
		case r[1] < n:
			return -1
		case r[0] > n:
			return 1
		}
		return 0
	})
	return ok
}

func (r *ranges) add(numbers []uint64) {
	all := *r
	for _, n := range numbers {
		if k := len(all); k > 0 && all[k-1][1]+1 == n {
			all[k-1][1] = n
			continue
		}
		all = append(all, [2]uint64{n, n})
	}
	slices.SortFunc(all, func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	out := all[:0]
	for _, a := range all {
		if n := len(out); n > 0 && (a[0] <= out[n-1][1] || a[0] == out[n-1][1]+1) {
			out[n-1][1] = max(out[n-1][1], a[1])
			continue
		}
		out = append(out, a)
	}
	*r = out
}

// appendRanges encodes them as
//
//	ranges uvarint | ranges × (first - last of the one before uvarint, last - first uvarint)
func appendRanges(dst []byte, all ranges) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	prev := uint64(0)
	for _, r := range all {
		dst = binary.AppendUvarint(dst, r[0]-prev)
		dst = binary.AppendUvarint(dst, r[1]-r[0])
		prev = r[1]
	}
	return dst
}

func (r *reader) ranges() (all ranges) {
	prev := uint64(0)
	for range r.count(2) {
		lo := prev + r.uvarint()
		prev = lo + r.uvarint()
		all = append(all, [2]uint64{lo, prev})
	}
	return all
}
