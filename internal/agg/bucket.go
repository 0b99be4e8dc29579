package agg

import (
	"math"
	"math/bits"
	"sync"

	"tailscope/hist"
)

// bucketTable finds the bucket of a duration in whole nanoseconds without floating
// point. The leading one and the six bits after it select a range that holds at most one
// bucket bound: a range is at most 1/64 wide, a bucket of schema 5 1/46. One comparison
// with that bound decides. The bounds are derived from hist.BucketIndex, so both always
// agree.
type bucketTable struct {
	first [64 * 64]int16 // bucket of the lowest value of the range
	upper []int64        // upper[k-low]: the largest duration in bucket k
	low   int
}

var buckets = sync.OnceValue(func() *bucketTable {
	t := &bucketTable{low: slowBucket(1)}
	high := slowBucket(math.MaxInt64)
	t.upper = make([]int64, high-t.low+1)
	from := int64(1)
	for k := t.low; k <= high; k++ {
		// The largest ns with bucket <= k, by bisection from the guess of the bound.
		guess := hist.UpperBound(int32(k), cellSchema) * 1e9
		lo, hi := from, int64(math.MaxInt64)
		if guess < 9e18 {
			lo = max(from, int64(guess*(1-1e-12))-2)
			hi = int64(guess*(1+1e-12)) + 2
		}
		if slowBucket(lo) > k { // bucket k holds no whole nanosecond
			t.upper[k-t.low] = from - 1
			continue
		}
		for lo < hi {
			mid := lo + (hi-lo+1)/2
			if slowBucket(mid) <= k {
				lo = mid
			} else {
				hi = mid - 1
			}
		}
		t.upper[k-t.low] = lo
		from = max(from, lo)
	}
	for e := range 63 {
		for m := range 64 {
			v := uint64(64|m) << 57 >> (63 - e)
			t.first[e<<6|m] = int16(slowBucket(int64(max(v, 1))))
		}
	}
	return t
})

func slowBucket(ns int64) int {
	return int(hist.BucketIndex(hist.Seconds(ns), cellSchema))
}

// high returns the bucket of the longest duration.
func (t *bucketTable) high() int { return t.low + len(t.upper) - 1 }

// find returns the bucket of ns > 0.
func (t *bucketTable) find(ns int64) int {
	lz := bits.LeadingZeros64(uint64(ns))
	e := 63 - lz
	k := int(t.first[(e<<6|int(uint64(ns)<<lz>>57&63))&4095])
	if ns > t.upper[k-t.low] {
		k++
		for ns > t.upper[k-t.low] { // skips buckets that hold no whole nanosecond
			k++
		}
	}
	return k
}
