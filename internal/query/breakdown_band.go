package query

import (
	"math"

	"tailscope/api"
	"tailscope/hist"
)

// Band chooses requests by their duration: those above a quantile, or those
// between two durations. Bounds are moved to the nearest bounds of buckets,
// since requests within a bucket are not told apart.
type Band struct {
	Above     float64 // quantile; 0 when Low or High is given
	Low, High float64 // seconds; 0: no bound
}

// DefaultAbove is the quantile above which requests are the tail.
const DefaultAbove = 0.95

func (b *Band) check() error {
	switch {
	case b.Above != 0 && (b.Low != 0 || b.High != 0):
		return Invalid("above", "above and low or high choose different requests; leave one of them out")
	case b.Above < 0 || b.Above >= 1 || math.IsNaN(b.Above):
		return Invalid("above", "above must be a quantile between 0 and 1, such as 0.95")
	case b.Low < 0:
		return Invalid("low", "low is negative; write seconds, such as 0.2")
	case b.High < 0:
		return Invalid("high", "high is negative; write seconds, such as 0.5")
	case b.High != 0 && b.High <= b.Low:
		return Invalid("high", "high (%g s) is not above low (%g s); write a greater one", b.High, b.Low)
	}
	if b.Above == 0 && b.Low == 0 && b.High == 0 {
		b.Above = DefaultAbove
	}
	return nil
}

// buckets is a range of buckets of one schema: low < index <= high. Below all
// stands the zero bucket, whose index here is zeroBucket.
type buckets struct {
	schema    int8
	low, high int64
}

const (
	noLow      = -int64(1) << 41
	zeroBucket = -int64(1) << 40
	noHigh     = int64(1) << 41
)

// allBuckets holds every duration.
var allBuckets = buckets{hist.DefaultSchema, noLow, noHigh}

// seconds returns the bounds of b; no lower bound is 0, no upper one is +Inf.
func (b buckets) seconds() (low, high float64) {
	bound := func(k int64) float64 {
		switch {
		case k <= zeroBucket:
			return 0
		case k >= noHigh:
			return math.Inf(1)
		}
		return hist.UpperBound(int32(k), b.schema)
	}
	return bound(b.low), bound(b.high)
}

// count adds up the buckets of h that lie in b. Buckets of a coarser schema
// than b's belong to where their middle lies.
func (b buckets) count(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	if b.low == noLow && b.high == noHigh {
		return h.Count
	}
	var n uint64
	if b.low == noLow {
		n = h.ZeroCount
	}
	shift := h.Schema - b.schema
	for i, c := range h.Positive.Counts {
		if c == 0 {
			continue
		}
		k := h.Positive.Offset + int32(i)
		at := int64(k)
		if shift >= 0 {
			at = int64(coarser(k, shift))
		} else {
			at = at<<-shift - int64(1)<<(-shift-1)
		}
		if at > b.low && at <= b.high {
			n += c
		}
	}
	return n
}

// upTo returns the buckets up to the one that holds the q-quantile of the
// durations of h, and how many requests they hold.
func upTo(h *hist.Histogram, q float64) (b buckets, n uint64) {
	b = buckets{h.Schema, noLow, zeroBucket}
	n = h.ZeroCount
	rank := q * float64(h.Count)
	if float64(n) >= rank && n > 0 {
		return b, n
	}
	for i, c := range h.Positive.Counts {
		if c == 0 {
			continue
		}
		n += c
		b.high = int64(h.Positive.Offset) + int64(i)
		if float64(n) >= rank {
			break
		}
	}
	return b, n
}

// choose turns the band into buckets of the schema, given the durations of all
// requests. Above a quantile are the buckets above the bound, of the two
// around the quantile, that leaves the share nearest to what was asked and
// leaves a request at all.
func (b Band) choose(h *hist.Histogram) buckets {
	out := buckets{h.Schema, noLow, noHigh}
	if b.Above > 0 {
		if h.Count == 0 {
			return out
		}
		at, n := upTo(h, b.Above)
		beyond := float64(h.Count - n)
		within := buckets{h.Schema, at.high - 1, at.high}
		asked := (1 - b.Above) * float64(h.Count)
		out.low = at.high
		if n == h.Count || float64(within.count(h))+beyond-asked < asked-beyond {
			out.low--
		}
		if at.high == zeroBucket && out.low < zeroBucket {
			out.low = noLow
		}
		return out
	}
	nearest := func(v float64) int64 { return int64(math.Round(math.Ldexp(math.Log2(v), int(h.Schema)))) }
	if b.Low > 0 {
		out.low = nearest(b.Low)
	}
	if b.High > 0 {
		out.high = nearest(b.High)
	}
	if b.Low > 0 && b.High > 0 && out.low >= out.high { // both in one bucket
		out.high = int64(hist.BucketIndex(math.Sqrt(b.Low)*math.Sqrt(b.High), h.Schema))
		out.low = out.high - 1
	}
	return out
}

// share is what a component or a part had of some requests, in the units of
// the families: microseconds and calls.
type share struct{ self, critical, calls uint64 }

func (s *share) add(o share) {
	s.self += o.self
	s.critical += o.critical
	s.calls += o.calls
}

const micro = 1e-6

// per renders a share of requests that spent total microseconds in all.
func (s share) per(requests, total uint64) api.PartIn {
	n := float64(requests)
	return api.PartIn{
		Seconds: api.Float(float64(s.self) * micro / n), Critical: api.Float(float64(s.critical) * micro / n),
		Share: api.Float(float64(s.self) / float64(total)), Calls: api.Float(float64(s.calls) / n),
	}
}
