package otlp

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
)

// metrics decodes an ExportMetricsServiceRequest and adds its points to the batch.
func (d *decoder) metrics(b []byte) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 1 && f.wire == bytesT {
			if err := d.resourceMetrics(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) resourceMetrics(b []byte) error {
	res, err := d.resource(b)
	if err != nil {
		return err
	}
	d.res = res
	var f field
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 2 && f.wire == bytesT {
			if err := d.scopeMetrics(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) scopeMetrics(b []byte) error {
	var f field
	var err error
	d.scope = xxh3.Uint128{}
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 1 && f.wire == bytesT {
			if err := d.hashScope(f.data); err != nil {
				return err
			}
		}
	}
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.number == 2 && f.wire == bytesT {
			if err := d.metric(f.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// hashScope adds the hash of an InstrumentationScope, whatever the order of
// its attributes, to d.scope.
func (d *decoder) hashScope(b []byte) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.wire == bytesT {
			h := xxh3.Hash128Seed(f.data, uint64(f.number))
			d.scope = addHashes(d.scope, h)
		}
	}
	return nil
}

// Temporalities.
const (
	delta      = 1
	cumulative = 2
)

// metric holds what the points of one Metric message share.
type metric struct {
	*family
	shape       shape
	temporality uint64
	monotonic   bool
	id          xxh3.Uint128 // hash with resource and scope
}

// metric decodes one Metric message: first its name and kind, then its points.
func (d *decoder) metric(b []byte) error {
	var f field
	var name, unitText, data []byte
	var s shape
	var err error
	for i := 0; i < len(b); {
		if i, err = f.next(b, i); err != nil {
			return err
		}
		if f.wire != bytesT {
			continue
		}
		switch f.number {
		case 1:
			name = f.data
		case 3:
			unitText = f.data
		case 5, 7, 9, 10, 11:
			s, data = shape(f.number), f.data // a oneof: the last wins
		}
	}
	if s == 0 {
		return nil // no data, no points
	}
	points := int32(1)
	var temporality, monotonic uint64
	count := 0
	for i := 0; i < len(data); {
		if i, err = f.next(data, i); err != nil {
			return err
		}
		switch {
		case f.number == points && f.wire == bytesT:
			count++
		case f.number == 2 && f.wire == varint:
			temporality = f.num
		case f.number == 3 && f.wire == varint:
			monotonic = f.num
		}
	}
	m := &d.m
	*m = metric{shape: s, temporality: temporality, monotonic: s == sum && monotonic != 0}
	reason := OK
	switch {
	case len(name) == 0:
		reason = NoName
	case s != gauge && s != summary && temporality != delta && temporality != cumulative:
		reason = NoTemporality
	default:
		if m.family, err = d.family(s, m.monotonic, name, unitText); err != nil {
			reason = NoName
		}
	}
	if reason == OK {
		key := append(d.key[:0], byte(s), byte(temporality), byte(monotonic))
		key = appendHash(key, d.res.raw)
		key = appendHash(key, d.scope)
		key = binary.AppendUvarint(key, uint64(len(name)))
		key = append(key, name...)
		key = append(key, unitText...)
		m.id = xxh3.Hash128(key)
		d.key = key
	}
	for i := 0; i < len(data); {
		if i, err = f.next(data, i); err != nil {
			return err
		}
		if f.number != points || f.wire != bytesT {
			continue
		}
		d.items++
		r := reason
		if r == OK {
			switch s {
			case gauge, sum:
				r, err = d.numberPoint(m, f.data)
			case histogram:
				r, err = d.histogramPoint(m, f.data)
			case exponential:
				r, err = d.exponentialPoint(m, f.data)
			case summary:
				r, err = d.summaryPoint(m, f.data)
			}
		} else {
			err = checkMessage(f.data)
		}
		if err != nil {
			return err
		}
		switch r {
		case OK:
		case noValue:
			d.noValue++
		default:
			d.refuse(r)
		}
	}
	return nil
}

func appendHash(b []byte, h xxh3.Uint128) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Hi)
	return binary.LittleEndian.AppendUint64(b, h.Lo)
}

// checkMessage returns an error if b is not a message.
func checkMessage(b []byte) error {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return err
		}
	}
	return nil
}

// family returns the translation of name and unit, from the cache if it has it.
func (d *decoder) family(s shape, monotonic bool, name, unitText []byte) (*family, error) {
	key := append(d.key[:0], byte(s), 0)
	if monotonic {
		key[1] = 1
	}
	key = binary.AppendUvarint(key, uint64(len(name)))
	key = append(key, name...)
	key = append(key, unitText...)
	d.key = key
	if f := d.r.families.get(key); f != nil {
		return f, nil
	}
	f, err := newFamily(s, monotonic, string(name), string(unitText))
	if err != nil {
		return nil, err
	}
	return d.r.families.put(key, f), nil
}

// point holds what points of every shape have.
type point struct {
	start, time uint64
	flags       uint64
	attributes  xxh3.Uint128 // whatever their order
}

// check returns why a point is refused, or OK.
func (p *point) check() Reason {
	switch {
	case p.flags&1 != 0:
		return noValue
	case p.time == 0:
		return NoTime
	case p.time > math.MaxInt64 || p.start > math.MaxInt64:
		return TooNew
	}
	return OK
}

// stream returns the identity of the stream of a point.
func (d *decoder) stream(m *metric, p *point, suffix byte, bits uint64) xxh3.Uint128 {
	key := appendHash(d.key[:0], m.id)
	key = appendHash(key, p.attributes)
	if suffix != 0 {
		key = append(key, suffix)
		key = binary.LittleEndian.AppendUint64(key, bits)
	}
	d.key = key
	return xxh3.Hash128(key)
}

// target returns the series of a stream; b is the point, whose attributes have the given
// field number.
func (d *decoder) target(m *metric, id xxh3.Uint128, name string, kind series.Kind, b []byte, attributes int32, quantile float64) (agg.Target, error) {
	if to, ok := d.r.cache.get(d.tables, id.Hi^d.r.seed); ok {
		return to.target, nil
	}
	ls, err := d.pointLabels(b, attributes, quantile)
	if err != nil {
		return 0, err
	}
	t := d.r.sink.MetricTarget(series.Series{Family: name, View: series.Full, Kind: kind, Labels: ls})
	d.r.cache.put(d.tables.epoch, id.Hi^d.r.seed, resolved{target: t})
	return t, nil
}

// numberPoint decodes a NumberDataPoint: attributes 7, start 2, time 3, as_double 4,
// as_int 6, flags 8.
func (d *decoder) numberPoint(m *metric, b []byte) (Reason, error) {
	var f field
	var p point
	var v float64
	has := false
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return OK, err
		}
		switch {
		case f.number == 7 && f.wire == bytesT:
			p.attributes = addHashes(p.attributes, xxh3.Hash128(f.data))
		case f.number == 2 && f.wire == fixed64:
			p.start = f.num
		case f.number == 3 && f.wire == fixed64:
			p.time = f.num
		case f.number == 4 && f.wire == fixed64:
			v, has = math.Float64frombits(f.num), true
		case f.number == 6 && f.wire == fixed64:
			v, has = float64(int64(f.num)), true
		case f.number == 8 && f.wire == varint:
			p.flags = f.num
		}
	}
	if r := p.check(); r != OK {
		return r, nil
	}
	switch v = m.unit.convert(v); {
	case !has:
		return noValue, nil
	case math.IsNaN(v) || math.IsInf(v, 0):
		return NotANumber, nil
	case m.monotonic && v < 0:
		return NegativeCounter, nil
	}
	id := d.stream(m, &p, 0, 0)
	t, err := d.target(m, id, m.name, m.kind, b, 7, math.NaN())
	if err != nil {
		return OK, err
	}
	if t == 0 && d.r.sink.RefusesFamily(m.name) {
		return TooManyFamilies, nil
	}
	m.observe([2]uint64{id.Hi, id.Lo}, &p, m.temporality, d.r.sink)
	if m.shape == sum && m.temporality == delta {
		d.batch.DeltaNumber(t, agg.StreamID{id.Hi, id.Lo}, int64(p.time), v)
	} else {
		d.batch.Number(t, int64(p.time), v)
	}
	return OK, nil
}

// histogramPoint decodes a HistogramDataPoint: attributes 9, start 2, time 3, count 4,
// sum 5, bucket_counts 6, explicit_bounds 7, flags 10, min 11, max 12.
func (d *decoder) histogramPoint(m *metric, b []byte) (Reason, error) {
	var f field
	var p point
	h := &d.h
	h.Reset(hist.MaxSchema)
	h.Schema, h.ZeroThreshold, h.Sum = hist.Explicit, 0, math.NaN()
	d.bounds = d.bounds[:0]
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return OK, err
		}
		switch {
		case f.number == 9 && f.wire == bytesT:
			p.attributes = addHashes(p.attributes, xxh3.Hash128(f.data))
		case f.number == 6 && f.wire == bytesT:
			if len(f.data)%8 != 0 {
				return OK, malformed("bucket counts of %d bytes", len(f.data))
			}
			for c := f.data; len(c) > 0; c = c[8:] {
				h.Positive.Counts = append(h.Positive.Counts, binary.LittleEndian.Uint64(c))
			}
		case f.number == 7 && f.wire == bytesT:
			if len(f.data)%8 != 0 {
				return OK, malformed("bounds of %d bytes", len(f.data))
			}
			for c := f.data; len(c) > 0; c = c[8:] {
				d.bounds = append(d.bounds, m.unit.convert(math.Float64frombits(binary.LittleEndian.Uint64(c))))
			}
		case f.wire == fixed64:
			switch v := math.Float64frombits(f.num); f.number {
			case 2:
				p.start = f.num
			case 3:
				p.time = f.num
			case 4:
				h.Count = f.num
			case 5:
				h.Sum = m.unit.convert(v)
			case 6: // not packed
				h.Positive.Counts = append(h.Positive.Counts, f.num)
			case 7:
				d.bounds = append(d.bounds, m.unit.convert(v))
			case 11:
				h.Min = m.unit.convert(v)
			case 12:
				h.Max = m.unit.convert(v)
			}
		case f.number == 10 && f.wire == varint:
			p.flags = f.num
		}
	}
	if r := p.check(); r != OK {
		return r, nil
	}
	if len(h.Positive.Counts) == 0 && len(d.bounds) == 0 {
		h.Positive.Counts = append(h.Positive.Counts, h.Count) // only count and sum are known
	}
	switch {
	case len(h.Positive.Counts) != len(d.bounds)+1:
		return BucketNumber, nil
	case len(d.bounds) > maxBuckets:
		return TooManyBuckets, nil
	case !isAscending(d.bounds):
		return BoundsOrder, nil
	}
	h.Bounds = d.internBounds()
	return d.distribution(m, &p, b, 9)
}

// exponentialPoint decodes an ExponentialHistogramDataPoint: attributes 1, start 2, time
// 3, count 4, sum 5, scale 6, zero_count 7, positive 8, negative 9, flags 10, min 12,
// max 13, zero_threshold 14.
func (d *decoder) exponentialPoint(m *metric, b []byte) (Reason, error) {
	var f field
	var p point
	h := &d.h
	h.Reset(hist.MaxSchema)
	h.ZeroThreshold, h.Sum = 0, math.NaN()
	var scale int64
	var positive, negative int64
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return OK, err
		}
		switch f.wire {
		case bytesT:
			switch f.number {
			case 1:
				p.attributes = addHashes(p.attributes, xxh3.Hash128(f.data))
			case 8:
				if h.Positive.Counts, positive, err = exponentialBuckets(h.Positive.Counts, positive, f.data); err != nil {
					return OK, err
				}
			case 9:
				if h.Negative.Counts, negative, err = exponentialBuckets(h.Negative.Counts, negative, f.data); err != nil {
					return OK, err
				}
			}
		case fixed64:
			switch v := math.Float64frombits(f.num); f.number {
			case 2:
				p.start = f.num
			case 3:
				p.time = f.num
			case 4:
				h.Count = f.num
			case 5:
				h.Sum = m.unit.convert(v)
			case 7:
				h.ZeroCount = f.num
			case 12:
				h.Min = m.unit.convert(v)
			case 13:
				h.Max = m.unit.convert(v)
			case 14:
				h.ZeroThreshold = m.unit.convert(v)
			}
		case varint:
			switch f.number {
			case 6:
				scale = zigzag(f.num)
			case 10:
				p.flags = f.num
			}
		}
	}
	if r := p.check(); r != OK {
		return r, nil
	}
	switch {
	case scale < hist.MinSchema:
		return TooCoarse, nil
	case scale > 64:
		return BrokenHistogram, nil
	case len(h.Positive.Counts) > maxBuckets || len(h.Negative.Counts) > maxBuckets:
		return TooManyBuckets, nil
	case !(h.ZeroThreshold >= 0):
		return NotANumber, nil
	}
	h.Schema = int8(min(scale, hist.MaxSchema))
	move, widening := 0, 1.0
	if m.unit.times != 1 || m.unit.by != 1 {
		move, widening = m.unit.shift(h.Schema)
	}
	for _, side := range []struct {
		b      *hist.Buckets
		offset int64
	}{{&h.Positive, positive}, {&h.Negative, negative}} {
		if !placeBuckets(side.b, side.offset, uint(max(0, scale-hist.MaxSchema)), move) {
			return BrokenHistogram, nil
		}
	}
	if widening > 1 {
		h.Error = math.Exp2(math.Ldexp(1, -int(h.Schema)))*widening - 1
	}
	var err error
	if h.ZeroThreshold, err = hist.RoundZeroThreshold(h.ZeroThreshold, h.Schema); err != nil {
		return BrokenHistogram, nil
	}
	return d.distribution(m, &p, b, 1)
}

// placeBuckets numbers dense OTLP buckets from offset on as hist does, merges each 2^finer of
// them, and moves them by the unit's shift. It reports whether a float64 has a bucket
// for each index.
func placeBuckets(b *hist.Buckets, offset int64, finer uint, move int) bool {
	counts := b.Counts
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	skip := 0
	for skip < len(counts) && counts[skip] == 0 {
		skip++
	}
	n := copy(counts, counts[skip:])
	counts = counts[:n]
	offset += int64(skip)
	if n == 0 {
		b.Counts, b.Offset = counts, 0
		return true
	}
	if finer > 0 {
		first := offset >> finer
		for i := range counts {
			k := (offset+int64(i))>>finer - first
			c := counts[i]
			if int(k) < i {
				counts[i] = 0
				counts[k] += c
				if counts[k] < c {
					return false
				}
			}
		}
		counts = counts[:(offset+int64(n)-1)>>finer-first+1]
		offset = first
	}
	offset += int64(move) + 1 // OTLP's bucket i is (base^i, base^(i+1)], hist names a bucket by its upper bound
	if offset < math.MinInt32/2 || offset+int64(len(counts)) > math.MaxInt32/2 {
		return false
	}
	b.Counts, b.Offset = counts, int32(offset)
	return true
}

// exponentialBuckets decodes a Buckets message: offset 1 (zig-zag), bucket_counts 2.
func exponentialBuckets(counts []uint64, offset int64, b []byte) ([]uint64, int64, error) {
	var f field
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return counts, offset, err
		}
		switch {
		case f.number == 1 && f.wire == varint:
			offset = int64(int32(zigzag(f.num & math.MaxUint32)))
		case f.number == 2 && f.wire == varint: // not packed
			counts = append(counts, f.num)
		case f.number == 2 && f.wire == bytesT:
			counts = slices.Grow(counts, min(len(f.data), maxBuckets))
			for c := f.data; len(c) > 0; {
				// Most counts are one byte: eight at a time where all of them are.
				if len(c) >= 8 && len(counts)+8 <= cap(counts) {
					x := binary.LittleEndian.Uint64(c)
					if x&0x8080808080808080 == 0 {
						counts = counts[:len(counts)+8]
						v := (*[8]uint64)(counts[len(counts)-8:])
						v[0], v[1], v[2], v[3] = x&127, x>>8&127, x>>16&127, x>>24&127
						v[4], v[5], v[6], v[7] = x>>32&127, x>>40&127, x>>48&127, x>>56
						c = c[8:]
						continue
					}
				}
				if c[0] < 0x80 {
					counts = append(counts, uint64(c[0]))
					c = c[1:]
					continue
				}
				v, n := binary.Uvarint(c)
				if n <= 0 {
					return counts, offset, malformed("a bucket's count is cut off or too long")
				}
				counts = append(counts, v)
				c = c[n:]
			}
		}
	}
	return counts, offset, nil
}

// distribution checks d.h and adds it to the batch.
func (d *decoder) distribution(m *metric, p *point, b []byte, attributes int32) (Reason, error) {
	h := &d.h
	if math.IsNaN(h.Sum) && h.Count == 0 {
		h.Sum = 0
	}
	if h.Count == 0 {
		h.Min, h.Max = math.NaN(), math.NaN()
	}
	invalid := h.Validate() != nil
	switch {
	case invalid && !addsUp(h):
		return CountMismatch, nil
	case h.Count > maxObservations:
		return TooManyObservations, nil
	case math.IsInf(h.Sum, 0) || math.IsInf(h.Min, 0) || math.IsInf(h.Max, 0):
		return NotANumber, nil
	case invalid:
		return BrokenHistogram, nil
	}
	id := d.stream(m, p, 0, 0)
	t, err := d.target(m, id, m.name, series.Distribution, b, attributes, math.NaN())
	if err != nil {
		return OK, err
	}
	if t == 0 && d.r.sink.RefusesFamily(m.name) {
		return TooManyFamilies, nil
	}
	m.observe([2]uint64{id.Hi, id.Lo}, p, m.temporality, d.r.sink)
	// What it counts came before its time. So one of a slot's start is of the slot before,
	// as a range of PromQL holds its end and not its start.
	at := int64(p.time) - 1
	if m.temporality == delta {
		d.batch.Distribution(t, at, h)
	} else {
		d.batch.Cumulative(t, agg.StreamID{id.Hi, id.Lo}, d.res.raw.Hi^d.res.raw.Lo, int64(p.start), at, h)
	}
	return OK, nil
}

// addsUp reports whether the buckets of h hold as many observations as it counts.
func addsUp(h *hist.Histogram) bool {
	total := h.ZeroCount
	for _, side := range [...][]uint64{h.Positive.Counts, h.Negative.Counts} {
		for _, c := range side {
			if total+c < total {
				return false
			}
			total += c
		}
	}
	return total == h.Count
}

// summaryPoint decodes a SummaryDataPoint: attributes 7, start 2, time 3, count 4, sum
// 5, quantile_values 6, flags 8. As in Prometheus it becomes a gauge per quantile and
// the counters _sum and _count.
func (d *decoder) summaryPoint(m *metric, b []byte) (Reason, error) {
	var f field
	var p point
	var count uint64
	var total float64
	d.quantiles = d.quantiles[:0]
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return OK, err
		}
		switch {
		case f.number == 7 && f.wire == bytesT:
			p.attributes = addHashes(p.attributes, xxh3.Hash128(f.data))
		case f.number == 6 && f.wire == bytesT:
			q, err := quantileValue(f.data)
			if err != nil {
				return OK, err
			}
			d.quantiles = append(d.quantiles, q)
		case f.number == 8 && f.wire == varint:
			p.flags = f.num
		case f.wire == fixed64:
			switch f.number {
			case 2:
				p.start = f.num
			case 3:
				p.time = f.num
			case 4:
				count = f.num
			case 5:
				total = m.unit.convert(math.Float64frombits(f.num))
			}
		}
	}
	if r := p.check(); r != OK {
		return r, nil
	}
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return NotANumber, nil
	}
	for _, q := range d.quantiles {
		if !(q.quantile >= 0 && q.quantile <= 1) {
			return NotANumber, nil
		}
	}
	for _, q := range d.quantiles {
		if math.IsNaN(q.value) || math.IsInf(q.value, 0) {
			continue // no observations in the window
		}
		id := d.stream(m, &p, 'q', math.Float64bits(q.quantile))
		t, err := d.target(m, id, m.name, series.Gauge, b, 7, q.quantile)
		if err != nil {
			return OK, err
		}
		if t == 0 && d.r.sink.RefusesFamily(m.name) {
			return TooManyFamilies, nil
		}
		m.observe([2]uint64{id.Hi, id.Lo}, &p, m.temporality, d.r.sink)
		d.batch.Number(t, int64(p.time), m.unit.convert(q.value))
	}
	for _, c := range [...]struct {
		f *family
		v float64
	}{{m.sum, total}, {m.count, float64(count)}} {
		id := d.stream(m, &p, c.f.name[len(c.f.name)-1], 0)
		t, err := d.target(m, id, c.f.name, c.f.kind, b, 7, math.NaN())
		if err != nil {
			return OK, err
		}
		if t == 0 && d.r.sink.RefusesFamily(c.f.name) {
			return TooManyFamilies, nil
		}
		c.f.observe([2]uint64{id.Hi, id.Lo}, &p, 0, d.r.sink)
		d.batch.Number(t, int64(p.time), c.v)
	}
	return OK, nil
}

type quantile struct{ quantile, value float64 }

// quantileValue decodes a ValueAtQuantile message: quantile 1, value 2.
func quantileValue(b []byte) (quantile, error) {
	var f field
	var q quantile
	for i := 0; i < len(b); {
		var err error
		if i, err = f.next(b, i); err != nil {
			return q, err
		}
		if f.wire == fixed64 {
			switch f.number {
			case 1:
				q.quantile = math.Float64frombits(f.num)
			case 2:
				q.value = math.Float64frombits(f.num)
			}
		}
	}
	return q, nil
}

// maxBuckets bounds the buckets of one point: SDKs keep at most 160 a side.
const maxBuckets = 4096

// maxObservations bounds the count of one point: nine years of a million a second.
// Larger numbers are mistakes, and the sum of a few of them would overflow.
const maxObservations = 1 << 48

func isAscending(bounds []float64) bool {
	for i, b := range bounds {
		if math.IsNaN(b) || math.IsInf(b, 0) || i > 0 && b <= bounds[i-1] {
			return false
		}
	}
	return true
}

// internBounds returns a copy of d.bounds that is never written to, the same for equal
// bounds: histograms share it.
func (d *decoder) internBounds() []float64 {
	if d.lastBounds != nil && slices.Equal(d.lastBounds, d.bounds) {
		return d.lastBounds
	}
	key := d.key[:0]
	for _, b := range d.bounds {
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(b))
	}
	d.key = key
	d.lastBounds = d.r.bounds.get(key, d.bounds)
	return d.lastBounds
}
