package hist

// index returns the index of bucket k in Counts, and grows the window if it must.
func (b *Buckets) index(k int32) int {
	i := int(k) - int(b.Offset)
	if uint(i) >= uint(len(b.Counts)) {
		b.grow(k, k)
		i = int(k) - int(b.Offset)
	}
	return i
}

// window returns the counts of buckets first to last, and grows the window if it must.
func (b *Buckets) window(first, last int32) []uint64 {
	i, n := int(first)-int(b.Offset), int(last)-int(first)+1
	if i < 0 || i+n > len(b.Counts) {
		b.grow(first, last)
		i = int(first) - int(b.Offset)
	}
	return b.Counts[i : i+n : i+n]
}

// grow extends the window to hold buckets first to last, with spare buckets on the side
// where it grew, so that a histogram being recorded stops growing after a few times. It
// stays within its memory if that suffices.
func (b *Buckets) grow(first, last int32) {
	old := b.Counts
	n := int64(len(old))
	lo, hi := int64(first), int64(last)
	if n > 0 {
		slack := n/4 + 8
		if lo < int64(b.Offset) {
			lo -= slack
		}
		if end := int64(b.Offset) + n - 1; hi > end {
			hi += slack
		}
		lo, hi = min(lo, int64(b.Offset)), max(hi, int64(b.Offset)+n-1)
		if size := hi - lo + 1; size > int64(cap(old)) {
			// Without the spare buckets it may still fit.
			tightLo, tightHi := min(int64(first), int64(b.Offset)), max(int64(last), int64(b.Offset)+n-1)
			if tightHi-tightLo < int64(cap(old)) {
				lo, hi = tightLo, tightHi
			}
		}
	}
	size := int(hi - lo + 1)
	at := 0
	if n > 0 {
		at = int(int64(b.Offset) - lo)
	}
	if size <= cap(old) {
		b.Counts = old[:size]
		copy(b.Counts[at:], old)
		clear(b.Counts[:at])
		clear(b.Counts[at+int(n):])
	} else {
		b.Counts = make([]uint64, size)
		copy(b.Counts[at:], old)
	}
	b.Offset = int32(lo)
}

// Occupied returns the occupied part of the window: the counts from the first to
// the last that is not zero, and the bucket of the first. They share b's memory.
func (b *Buckets) Occupied() (offset int32, counts []uint64) {
	lo, hi := trimmed(b.Counts)
	return b.Offset + int32(lo), b.Counts[lo:hi]
}

// addCounts returns the sum of counts; ok is false if it overflows.
func addCounts(counts []uint64) (sum uint64, ok bool) {
	var any uint64
	rest := counts
	for ; len(rest) >= 4; rest = rest[4:] {
		v := (*[4]uint64)(rest)
		sum += v[0] + v[1] + v[2] + v[3]
		any |= v[0] | v[1] | v[2] | v[3]
	}
	for _, c := range rest {
		sum += c
		any |= c
	}
	if any < 1<<43 && len(counts) <= 1<<20 {
		return sum, true
	}
	sum = 0
	for _, c := range counts {
		if sum+c < sum {
			return 0, false
		}
		sum += c
	}
	return sum, true
}

func trimmed[C count](c []C) (lo, hi int) {
	hi = len(c)
	for hi > 0 && c[hi-1] == 0 {
		hi--
	}
	for lo < hi && c[lo] == 0 {
		lo++
	}
	return lo, hi
}

// reduce halves the resolution shift times.
func (b *Buckets) reduce(shift uint) {
	if len(b.Counts) == 0 {
		b.Offset = 0
		return
	}
	to := coarsen(b.Offset, shift)
	for i, c := range b.Counts {
		b.Counts[i] = 0
		b.Counts[coarsen(b.Offset+int32(i), shift)-to] += c
	}
	b.Counts = b.Counts[:coarsen(b.Offset+int32(len(b.Counts))-1, shift)-to+1]
	b.Offset = to
}

// takeBelow empties the buckets up to last and returns what they held.
func (b *Buckets) takeBelow(last int32) (n uint64) {
	end := min(int64(last)-int64(b.Offset)+1, int64(len(b.Counts)))
	for i := int64(0); i < end; i++ {
		n += b.Counts[i]
		b.Counts[i] = 0
	}
	return n
}
