package packed

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Decoder reads frames. It is not safe for concurrent use.
type Decoder struct {
	z     *zstd.Decoder
	h     hist.Histogram
	build labels.ScratchBuilder
}

// NewDecoder returns a decoder. Its own memory is some hundred kilobytes.
func NewDecoder() (*Decoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Decoder{z: z, build: labels.NewScratchBuilder(16)}, nil
}

// Close releases the decoder.
func (d *Decoder) Close() { d.z.Close() }

// Verify returns an error that wraps ErrCorrupt or ErrVersion if a frame was changed since
// it was written. It does not unpack it.
func Verify(frame []byte) error {
	_, sum, at, err := peek(frame)
	if err == nil && checksum(frame, at-4) != sum {
		err = fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	return err
}

// open unpacks the body of a frame and checks it.
func (d *Decoder) open(frame []byte, kind Kind, memory int) (*reader, error) {
	h, _, at, err := peek(frame)
	if err == nil {
		err = Verify(frame)
	}
	switch {
	case err != nil:
		return nil, err
	case h.Kind != kind:
		return nil, fmt.Errorf("%w: kind %d, want %d", ErrCorrupt, h.Kind, kind)
	case h.Memory > memory:
		return nil, fmt.Errorf("%w: it takes %d bytes, at most %d are allowed", ErrTooLarge, h.Memory, memory)
	}
	body, err := d.z.DecodeAll(frame[at:], make([]byte, 0, h.Unpacked))
	if err != nil || len(body) != h.Unpacked {
		return nil, fmt.Errorf("%w: its body does not unpack to %d bytes (%v)", ErrCorrupt, h.Unpacked, err)
	}
	return &reader{b: body, left: h.Memory - h.Unpacked}, nil
}

// Batch decodes a frame of a batch that takes at most memory bytes. Everything in it has
// been checked, so that a store takes it: the points to the last bucket. The caller owns
// the batch. Errors wrap ErrCorrupt, ErrVersion or ErrTooLarge.
func (d *Decoder) Batch(frame []byte, memory int) (*store.Batch, error) {
	r, err := d.open(frame, Batch, memory)
	if err != nil {
		return nil, err
	}
	b := &store.Batch{Writer: r.text(), Generation: r.uvarint(), Resolution: series.Resolution(r.size(1 << 30))}
	texts := r.table()
	if r.byte() != 0 {
		b.Tenants = r.table()
		b.TenantOf = []uint32{}
	}
	r.families(b, texts)
	d.series(r, b, texts)
	d.points(r, b)
	r.samples(b)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err == nil && (b.Writer == "" || b.Generation == 0) {
		r.fail("no writer or no generation")
	}
	if r.err == nil {
		err := b.Check()
		if err == nil {
			err = eachOnce(b)
		}
		if err != nil {
			r.fail("%v", err)
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return b, nil
}

// eachOnce returns an error if a batch has a series twice in a slot, or two entries of
// samples of one series, also where it lists the series twice.
func eachOnce(b *store.Batch) error {
	type identity struct {
		id   series.ID
		kind series.Kind
	}
	of := func(i uint32) identity { return identity{b.IDs[i], b.Series[i].Kind} }
	first := make(map[identity]uint32, len(b.IDs))
	for i := range uint32(len(b.IDs)) {
		if _, listed := first[of(i)]; !listed {
			first[of(i)] = i
		}
	}
	number := func(s uint32) uint64 { return uint64(s) }
	if len(first) < len(b.IDs) {
		number = func(s uint32) uint64 { return uint64(first[of(s)]) }
	}
	// The number of a slot takes 37 bits, that of a series fewer than 27: largest/seriesCost.
	at := func(p *store.Point) uint64 {
		return uint64(p.Slot/int64(b.Resolution)-farPast)<<27 | number(p.Series)
	}
	inOrder := true
	for i := 1; i < len(b.Points) && inOrder; i++ {
		inOrder = at(&b.Points[i-1]) < at(&b.Points[i])
	}
	if !inOrder {
		all := make([]uint64, len(b.Points))
		for i := range b.Points {
			all[i] = at(&b.Points[i])
		}
		slices.Sort(all)
		for i := 1; i < len(all); i++ {
			if all[i-1] == all[i] {
				return fmt.Errorf("series %d twice in a slot", all[i]&(1<<27-1))
			}
		}
	}
	seen := make(map[uint64]struct{}, len(b.Samples))
	for _, ss := range b.Samples {
		n := number(ss.Series)
		if _, twice := seen[n]; twice {
			return fmt.Errorf("two entries of samples of series %d", n)
		}
		seen[n] = struct{}{}
	}
	return nil
}

func (r *reader) families(b *store.Batch, texts []string) {
	n := r.count(3, familyCost)
	b.Families = make([]store.FamilyInfo, 0, n)
	for range n {
		f := store.FamilyInfo{Name: r.of(texts), Kind: series.Kind(r.byte()), IntervalSeconds: int64(r.size(1 << 40))}
		if r.err == nil && (f.Name == "" || f.Kind > series.Counter) {
			r.fail("family %q of kind %d", f.Name, f.Kind)
		}
		b.Families = append(b.Families, f)
	}
}

func (d *Decoder) series(r *reader, b *store.Batch, texts []string) {
	n := r.count(4, seriesCost)
	b.Series, b.IDs = make([]series.Series, 0, n), make([]series.ID, 0, n)
	if b.TenantOf != nil {
		b.TenantOf = make([]uint32, 0, n)
	}
	var list []labels.Label
	var common series.ID // of the series before, without its tenant
	var before series.Series
	var scratch []byte
	for i := range n {
		s := series.Series{Family: r.of(texts)}
		k := r.byte()
		s.Kind, s.View = series.Kind(k>>4), series.View(k&15)
		shared, more := int(r.size(uint64(len(list)))), r.count(2, 0)
		if r.err != nil {
			return
		}
		if s.Family == "" || s.Kind > series.Counter || s.View > series.Total {
			r.fail("series %d has no family, or an unknown kind or view", i)
			return
		}
		if i > 0 && more == 0 && shared == len(list) {
			s.Labels = before.Labels
		} else {
			list = list[:shared]
			for range more {
				l := labels.Label{Name: r.of(texts), Value: r.of(texts)}
				if r.err == nil && (l.Name == "" || l.Value == "" || len(list) > 0 && list[len(list)-1].Name >= l.Name) {
					r.fail("labels of series %d are not in order, or empty", i)
				}
				if r.err != nil { // more is what the frame says: nothing is reserved for it
					return
				}
				list = append(list, l)
			}
			cost := textCost
			for _, l := range list {
				cost += labelCost + len(l.Name) + len(l.Value)
			}
			if !r.take(cost) {
				return
			}
			d.build.Reset()
			for _, l := range list {
				d.build.Add(l.Name, l.Value)
			}
			s.Labels = d.build.Labels()
		}
		if i == 0 || s != before {
			common, scratch = s.ID(scratch)
			before = s
		}
		id := common
		if b.TenantOf != nil {
			t := r.size(1 << 31)
			if r.err != nil || t >= uint64(len(b.Tenants)) {
				r.fail("series %d is of tenant %d of %d", i, t, len(b.Tenants))
				return
			}
			if name := b.Tenants[t]; name != "" {
				if s.Labels.Has(series.LabelTenant) {
					r.fail("series %d has two tenants", i)
					return
				}
				id = common.With(series.LabelTenant, name)
			}
			b.TenantOf = append(b.TenantOf, uint32(t))
		}
		b.Series, b.IDs = append(b.Series, s), append(b.IDs, id)
	}
}

func (d *Decoder) points(r *reader, b *store.Batch) {
	n := r.count(3, pointCost)
	if n == 0 {
		return
	}
	if !slices.Contains(series.Resolutions[:], b.Resolution) {
		r.fail("points of a resolution of %d s", b.Resolution)
		return
	}
	b.Points = make([]store.Point, n)
	slot := int64(0)
	for i := 0; i < n; {
		slot += r.varint()
		run := r.size(uint64(n - i))
		if at := slot * int64(b.Resolution); r.err != nil || run == 0 || slot < farPast || slot >= farFuture || at < farPast || at >= farFuture {
			r.fail("slots")
			return
		}
		for range run {
			b.Points[i].Slot = slot * int64(b.Resolution)
			i++
		}
	}
	last := int64(-1)
	for i := range b.Points {
		last += r.varint() + 1
		if r.err != nil || last < 0 || last >= int64(len(b.Series)) {
			r.fail("point %d is of series %d of %d", i, last, len(b.Series))
			return
		}
		b.Points[i].Series = uint32(last)
	}
	lengths := r.b
	for range b.Points {
		r.uvarint()
	}
	for i := range b.Points {
		p := &b.Points[i]
		length, k := binary.Uvarint(lengths)
		if r.err != nil || k <= 0 {
			r.fail("lengths of points")
			return
		}
		lengths = lengths[k:]
		p.Data = r.bytes(length)
		if r.err != nil {
			return
		}
		if err := d.check(b.Series[p.Series].Kind, p.Data); err != nil {
			r.fail("point %d: %v", i, err)
			return
		}
	}
}

// check returns an error if a point does not decode whole.
func (d *Decoder) check(k series.Kind, data []byte) error {
	if k != series.Distribution {
		_, err := store.DecodeNumber(data)
		return err
	}
	return d.h.UnmarshalBinary(data)
}

func (r *reader) samples(b *store.Batch) {
	n := r.count(2, entryCost)
	b.Samples = make([]store.Samples, 0, n)
	for range n {
		s := r.size(1 << 31)
		if r.err != nil || s >= uint64(len(b.Series)) {
			r.fail("samples are of series %d of %d", s, len(b.Series))
			return
		}
		k := r.count(2, sampleCost)
		list := make([]series.Sample, 0, k)
		last, bitsBefore := int64(0), uint64(0)
		for range k {
			last += r.varint()
			bitsBefore ^= bits.ReverseBytes64(r.uvarint())
			if r.err != nil || last/1000 < farPast || last/1000 >= farFuture || len(list) > 0 && last <= list[len(list)-1].TimeMillis {
				r.fail("times of samples")
				return
			}
			list = append(list, series.Sample{TimeMillis: last, Value: math.Float64frombits(bitsBefore)})
		}
		b.Samples = append(b.Samples, store.Samples{Series: uint32(s), Samples: list})
	}
}

// Traces decodes a frame of traces that takes at most memory bytes. The caller owns them.
// Errors wrap ErrCorrupt, ErrVersion or ErrTooLarge.
func (d *Decoder) Traces(frame []byte, memory int) ([]store.Trace, error) {
	r, err := d.open(frame, Traces, memory)
	if err != nil {
		return nil, err
	}
	texts := r.table()
	n := r.count(16+1+1, traceCost)
	list := make([]store.Trace, 0, n)
	for range n {
		var t store.Trace
		copy(t.ID[:], r.bytes(16))
		k := r.count(8+1+3+2, hitCost)
		if r.err == nil && (k == 0 || k > store.MaxTraceEntries) {
			r.fail("a trace of %d entries", k)
		}
		if r.err != nil {
			return nil, r.err
		}
		t.Entries = make([]store.TraceEntry, k)
		for i := range t.Entries {
			x := &t.Entries[i]
			copy(x.Span[:], r.bytes(8))
			why := r.byte()
			x.Why, x.Failed = store.Why(why>>1), why&1 != 0
			x.Service, x.Operation, x.Tenant = r.of(texts), r.of(texts), r.of(texts)
			x.StartNanos, x.DurationNanos = r.varint(), r.varint()
			if r.err == nil && (x.Service == "" || x.DurationNanos < 0 || x.StartNanos/1e9 < farPast || x.StartNanos > math.MaxInt64-x.DurationNanos) {
				r.fail("a request without service, or with times that cannot be")
			}
		}
		t.Data = r.bytes(r.uvarint())
		if r.err == nil {
			if err := t.Check(); err != nil {
				r.fail("%v", err)
			}
		}
		list = append(list, t)
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return list, nil
}

// reader reads a body. After a failure everything that it returns is zero.
type reader struct {
	b    []byte
	left int // bytes that may still be allocated
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

// take counts memory that is about to be allocated, and reports whether the head allows it.
func (r *reader) take(n int) bool {
	if r.err != nil {
		return false
	}
	if r.left -= n; r.left < 0 {
		r.fail("it takes more memory than its head says")
		return false
	}
	return true
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends early")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 {
	u, k := binary.Uvarint(r.b)
	if k <= 0 {
		r.fail("it ends early")
		return 0
	}
	r.b = r.b[k:]
	return u
}

func (r *reader) varint() int64 {
	v, k := binary.Varint(r.b)
	if k <= 0 || v < -1<<62 || v > 1<<62 {
		r.fail("it ends early, or a number is too large")
		return 0
	}
	r.b = r.b[k:]
	return v
}

// size returns a number of at most most.
func (r *reader) size(most uint64) uint64 {
	u := r.uvarint()
	if u > most {
		r.fail("%d where at most %d is possible", u, most)
		return 0
	}
	return u
}

// count returns the number of elements that follow, each of at least so many bytes in the
// frame and of cost in memory.
func (r *reader) count(least, cost int) int {
	n := r.size(uint64(len(r.b) / least))
	if cost > 0 && !r.take(int(n)*cost) {
		return 0
	}
	return int(n)
}

// bytes returns the next n bytes, which are part of the body.
func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail("it ends early")
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string {
	b := r.bytes(r.uvarint())
	if !r.take(len(b)) {
		return ""
	}
	return string(b)
}

// table returns texts that each have memory of their own, so that one that is kept does not
// keep the others.
func (r *reader) table() []string {
	n := r.count(1, textCost)
	if n == 0 {
		return nil
	}
	lengths := r.b
	for range n {
		r.uvarint()
	}
	table := make([]string, 0, n)
	for range n {
		length, k := binary.Uvarint(lengths)
		if r.err != nil || k <= 0 {
			return nil
		}
		lengths = lengths[k:]
		b := r.bytes(length)
		if !r.take(len(b)) {
			return nil
		}
		table = append(table, string(b))
	}
	return table
}

// of returns the text whose number comes next.
func (r *reader) of(texts []string) string {
	n := r.uvarint()
	if r.err != nil || n >= uint64(len(texts)) {
		r.fail("text %d of %d", n, len(texts))
		return ""
	}
	return texts[n]
}
