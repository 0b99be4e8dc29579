package chstore

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// A form is what two histograms must share for their buckets to be added up by number: the
// schema, the zero threshold, explicit bounds. The engine adds up within a form, and
// package hist merges the sums of different forms, of which there is one in most answers.
//
// A form of an exponential schema with the default zero threshold is that schema, counted
// from 0: so the engine can make it coarser. Any other is a hash of its content, which is in
// the log under it.
type form = uint64

// schemaForms is the number of forms that are schemas.
const schemaForms = hist.MaxSchema - hist.MinSchema + 1

func schemaForm(schema int8) form { return form(int(schema) - hist.MinSchema) }

// formOf returns the form of a histogram, and what it is if it is not a schema.
func formOf(h *hist.Histogram) (form, *formMeta) {
	if h.Schema != hist.Explicit && h.ZeroThreshold == hist.DefaultZeroThreshold {
		return schemaForm(h.Schema), nil
	}
	m := &formMeta{Schema: h.Schema, Threshold: h.ZeroThreshold, Bounds: h.Bounds}
	b := []byte{byte(h.Schema)}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(h.ZeroThreshold))
	for _, v := range h.Bounds {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return xxh3.Hash(b) | 1<<63, m
}

// newHistogram returns an empty histogram of a form.
func (m *meta) newHistogram(f form) (*hist.Histogram, error) {
	if f < schemaForms {
		return hist.New(int8(int(f) + hist.MinSchema)), nil
	}
	x, ok := m.forms[f]
	if !ok {
		return nil, fmt.Errorf("histograms of the unknown form %x: %w", f, store.ErrCorrupt)
	}
	if x.Schema == hist.Explicit {
		h, err := hist.NewExplicit(x.Bounds)
		if err != nil {
			return nil, fmt.Errorf("form %x: %w: %w", f, err, store.ErrCorrupt)
		}
		return h, nil
	}
	h := hist.New(x.Schema)
	if err := h.SetZeroThreshold(x.Threshold); err != nil {
		return nil, fmt.Errorf("form %x: %w: %w", f, err, store.ErrCorrupt)
	}
	return h, nil
}

// Buckets are stored under one number: positive ones under their own, negative ones this
// much lower. No bucket of any schema is further than half of it from 0.
const negativeBuckets = -1_000_000

// Bits of the column flags.
const (
	flagNoLow    = 1 << iota // the minimum is not known
	flagNoHigh               // the maximum is not known
	flagWeighted             // see hist.Histogram.Weighted
)

// value is what a row of points holds beside its address: a distribution, or a number.
type value struct {
	form     form
	count    uint64
	flags    uint8
	nanos    int64   // the sum, as far as it is whole nanoseconds
	rest     float64 // and what is not
	low      float64 // +Inf if there is none, or it is not known
	high     float64 // -Inf likewise
	squares  float64 // of weighted observations
	err      float64 // relative
	zero     uint64
	buckets  []int32
	counts   []uint64
	latest   float64 // of numbers
	latestMs int64
}

// distribution sets v to a histogram, using v's memory, and returns the form if it has to
// be stored.
func (v *value) distribution(h *hist.Histogram) *formMeta {
	f, unusual := formOf(h)
	*v = value{form: f, count: h.Count, low: math.Inf(1), high: math.Inf(-1), err: h.Error, zero: h.ZeroCount,
		buckets: v.buckets[:0], counts: v.counts[:0], latestMs: math.MinInt64}
	if ns, ok := h.SumNanos(); ok {
		v.nanos = ns
	} else {
		v.rest = h.Sum
	}
	if h.Count > 0 {
		if math.IsNaN(h.Min) {
			v.flags |= flagNoLow
		} else {
			v.low = h.Min
		}
		if math.IsNaN(h.Max) {
			v.flags |= flagNoHigh
		} else {
			v.high = h.Max
		}
	}
	if h.Weighted {
		v.flags |= flagWeighted
		v.squares = h.Squares
	}
	add := func(b *hist.Buckets, shift int32) {
		for i, c := range b.Counts {
			if c != 0 {
				v.buckets = append(v.buckets, b.Offset+int32(i)+shift)
				v.counts = append(v.counts, c)
			}
		}
	}
	add(&h.Negative, negativeBuckets)
	add(&h.Positive, 0)
	return unusual
}

// number sets v to a stored number.
func (v *value) number(data []byte) error {
	n, err := store.DecodeNumber(data)
	if err != nil {
		return err
	}
	*v = value{count: n.Count, rest: n.Sum, low: n.Min, high: n.Max, buckets: v.buckets[:0], counts: v.counts[:0], latest: n.Last, latestMs: n.LastTimeMillis}
	if n.Count == 0 {
		v.rest, v.low, v.high, v.latest, v.latestMs = 0, math.Inf(1), math.Inf(-1), 0, math.MinInt64
	}
	return nil
}

// append appends the columns of points from form on.
func (v *value) append(dst []byte) []byte {
	dst = appendUint64(dst, v.form)
	dst = appendUint64(dst, v.count)
	dst = append(dst, v.flags)
	dst = appendInt64(dst, v.nanos)
	for _, f := range [...]float64{v.rest, v.low, v.high, v.squares, v.err} {
		dst = appendFloat64(dst, f)
	}
	dst = appendUint64(dst, v.zero)
	dst = appendInt32s(dst, v.buckets)
	dst = appendUint64s(dst, v.counts)
	dst = appendFloat64(dst, v.latest)
	return appendInt64(dst, v.latestMs)
}

// sumColumns are aggregates of the columns of points, as readSum reads them: what rows come
// to but for their buckets.
const sumColumns = `toUInt64(count()), sum(count), toUInt8(groupBitOr(flags)), sum(toInt64(intDiv(nanos, toInt64(4294967296)))), sum(toInt64(nanos % toInt64(4294967296))), sum(rest),
	min(low), max(high), sum(if(bitAnd(flags, 4) != 0, squares, toFloat64(count))), max(error), sum(zero), max((latestms, latest))`

// sum is what rows come to but for their buckets.
type sum struct {
	rows, count  uint64
	flags        uint8
	upper, lower int64 // nanoseconds: upper·2^32 + lower
	rest         float64
	low, high    float64
	squares      float64
	err          float64
	zero         uint64
	latestMs     int64
	latest       float64
}

func (r *rows) sum() (s sum) {
	s.rows, s.count, s.flags = r.uint64(), r.uint64(), r.uint8()
	s.upper, s.lower, s.rest = r.int64(), r.int64(), r.float64()
	s.low, s.high, s.squares, s.err = r.float64(), r.float64(), r.float64(), r.float64()
	s.zero, s.latestMs, s.latest = r.uint64(), r.int64(), r.float64()
	return s
}

// merge adds o, which is what other rows come to.
func (s *sum) merge(o *sum) {
	s.rows += o.rows
	s.count += o.count
	s.flags |= o.flags
	s.upper += o.upper
	s.lower += o.lower
	s.rest += o.rest
	s.low, s.high = min(s.low, o.low), max(s.high, o.high)
	s.squares += o.squares
	s.err = max(s.err, o.err)
	s.zero += o.zero
	if o.latestMs > s.latestMs || o.latestMs == s.latestMs && o.latest > s.latest {
		s.latestMs, s.latest = o.latestMs, o.latest
	}
}

// number returns the sum as that of numbers.
func (s *sum) number() (n series.Number) {
	if s.count > 0 {
		n = series.Number{Count: s.count, Sum: s.rest, Min: s.low, Max: s.high, Last: s.latest, LastTimeMillis: s.latestMs}
	}
	return n
}

// total sets the sum, the extremes and the rest of h but for its buckets.
func (s *sum) total(h *hist.Histogram) {
	h.Count, h.Error = s.count, s.err
	if s.flags&flagWeighted != 0 {
		h.Weighted, h.Squares = true, s.squares
	}
	upper, lower := s.upper+s.lower>>32, s.lower&(1<<32-1)
	switch {
	case upper < math.MinInt32 || upper > math.MaxInt32: // beyond 2^63 ns it is rounded
		h.Sum = (float64(upper)*0x1p32+float64(lower))/1e9 + s.rest
	case s.rest != 0:
		h.Sum = hist.Seconds(upper<<32+lower) + s.rest
	default:
		h.SetSumNanos(upper<<32 + lower)
	}
	if s.count == 0 || s.flags&flagNoLow != 0 {
		h.Min = math.NaN()
	} else {
		h.Min = s.low
	}
	if s.count == 0 || s.flags&flagNoHigh != 0 {
		h.Max = math.NaN()
	} else {
		h.Max = s.high
	}
}
