package packed

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// DefaultMemory bounds the memory of one decoded frame, in bytes.
const DefaultMemory = 8 << 20

// Encoder writes frames. It is not safe for concurrent use.
type Encoder struct {
	memory int
	z      *zstd.Encoder

	texts   map[string]uint32
	table   []string
	body    []byte
	columns [3][]byte // series, lengths and data of points
	renamed []uint32  // by series of the whole: its number in the part plus one
	tenants []uint32  // by tenant of the whole: likewise
	used    []uint32  // series of the whole that the part has
	part    store.Batch
	last    []labels.Label
	next    []labels.Label
}

// NewEncoder returns an encoder whose frames take at most memory bytes when they are
// decoded; 0 means DefaultMemory. Only a point, a sample entry or a trace that takes more by
// itself goes beyond it.
func NewEncoder(memory int) (*Encoder, error) {
	if memory == 0 {
		memory = DefaultMemory
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Encoder{memory: memory, z: z, texts: map[string]uint32{}}, nil
}

// Batch calls yield with the frames of a batch, in order; part i has the generation
// PartGeneration(b.Generation, i). State is left out, for it is the writer's own. A frame
// is valid during the call. A batch of nothing but State has no frames.
func (e *Encoder) Batch(b *store.Batch, yield func(frame []byte) error) error {
	e.begin(b)
	e.part.Families = b.Families
	cost, part := 0, 0
	flush := func() error {
		generation, err := PartGeneration(b.Generation, part)
		if err != nil {
			return err
		}
		part++
		e.part.Writer, e.part.Generation, e.part.Resolution = b.Writer, generation, b.Resolution
		frame, err := e.frame(Batch, func() (int, error) { return e.batch(&e.part) })
		if err == nil {
			err = yield(frame)
		}
		e.endPart()
		cost = 0
		return err
	}
	for i := range b.Points {
		p := &b.Points[i]
		if int(p.Series) >= len(b.Series) {
			return fmt.Errorf("point %d is of series %d, the batch has %d", i, p.Series, len(b.Series))
		}
		// An estimate from above: labels that series share, and texts, are counted each time.
		n := pointCost + len(p.Data) + e.seriesCost(b, p.Series)
		if cost > 0 && cost+n > e.memory*3/4 {
			if err := flush(); err != nil {
				return err
			}
			n = pointCost + len(p.Data) + e.seriesCost(b, p.Series)
		}
		cost += n
		e.part.Points = append(e.part.Points, store.Point{Series: e.series(b, p.Series), Slot: p.Slot, Data: p.Data})
	}
	for i := range b.Samples {
		for rest := b.Samples[i].Samples; len(rest) > 0; {
			if int(b.Samples[i].Series) >= len(b.Series) {
				return fmt.Errorf("samples %d are of series %d, the batch has %d", i, b.Samples[i].Series, len(b.Series))
			}
			most := max(1, e.memory/4/(2*sampleCost))
			some := rest[:min(most, len(rest))]
			n := func() int { return entryCost + 2*sampleCost*len(some) + e.seriesCost(b, b.Samples[i].Series) }
			// A batch has one entry of a series at most.
			again := len(rest) < len(b.Samples[i].Samples)
			if cost > 0 && (again || cost+n() > e.memory*3/4) {
				if err := flush(); err != nil {
					return err
				}
			}
			cost += n()
			e.part.Samples = append(e.part.Samples, store.Samples{Series: e.series(b, b.Samples[i].Series), Samples: some})
			rest = rest[len(some):]
		}
	}
	if len(e.part.Points)+len(e.part.Samples)+len(e.part.Families) == 0 {
		return nil
	}
	return flush()
}

func (e *Encoder) begin(b *store.Batch) {
	grow := func(s []uint32, n int) []uint32 {
		if cap(s) < n {
			return make([]uint32, n)
		}
		s = s[:n]
		clear(s)
		return s
	}
	e.renamed = grow(e.renamed, len(b.Series))
	e.tenants = grow(e.tenants, len(b.Tenants))
	e.used = e.used[:0]
	e.part = store.Batch{}
	if b.TenantOf != nil {
		e.part.TenantOf = []uint32{}
	}
}

// seriesCost estimates what the part grows by if it gets the series.
func (e *Encoder) seriesCost(b *store.Batch, s uint32) int {
	if e.renamed[s] != 0 {
		return 0
	}
	n := seriesCost + 2*labelsCost(b.Series[s].Labels)
	if b.TenantOf != nil {
		n += textCost + 2*len(b.Tenants[b.TenantOf[s]])
	}
	return n
}

// series returns the number in the part of a series of the whole.
func (e *Encoder) series(b *store.Batch, s uint32) uint32 {
	if n := e.renamed[s]; n != 0 {
		return n - 1
	}
	p := &e.part
	p.Series = append(p.Series, b.Series[s])
	e.renamed[s] = uint32(len(p.Series))
	e.used = append(e.used, s)
	if b.TenantOf != nil {
		t := b.TenantOf[s]
		if e.tenants[t] == 0 {
			p.Tenants = append(p.Tenants, b.Tenants[t])
			e.tenants[t] = uint32(len(p.Tenants))
		}
		p.TenantOf = append(p.TenantOf, e.tenants[t]-1)
	}
	return uint32(len(p.Series)) - 1
}

func (e *Encoder) endPart() {
	for _, s := range e.used {
		e.renamed[s] = 0
	}
	e.used = e.used[:0]
	clear(e.tenants)
	p := &e.part
	clear(p.Series)
	clear(p.Points)
	*p = store.Batch{Series: p.Series[:0], Points: p.Points[:0], Samples: p.Samples[:0], Tenants: p.Tenants[:0], TenantOf: p.TenantOf[:0]}
}

// frame writes a head and a packed body. body fills e.body and returns the memory of what
// is decoded.
func (e *Encoder) frame(kind Kind, body func() (int, error)) ([]byte, error) {
	e.body = e.body[:0]
	clear(e.texts)
	e.table = e.table[:0]
	memory, err := body()
	if err != nil {
		return nil, err
	}
	memory += len(e.body)
	if memory > largest {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, memory)
	}
	b := make([]byte, 0, headBytes+len(e.body)/2)
	b = append(append(b, magic...), Version, byte(kind))
	b = binary.AppendUvarint(b, uint64(len(e.body)))
	b = binary.AppendUvarint(b, uint64(memory))
	at := len(b)
	b = e.z.EncodeAll(e.body, append(b, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[at:], checksum(b, at))
	return b, nil
}

// checksum returns that of a frame whose own bytes for it are at an offset.
func checksum(frame []byte, at int) uint32 {
	return crc32.Update(crc32.Checksum(frame[:at], crcTable), crcTable, frame[at+4:])
}

// text returns the number of a text in the table.
func (e *Encoder) text(s string) uint64 {
	n, ok := e.texts[s]
	if !ok {
		n = uint32(len(e.table))
		e.texts[s] = n
		e.table = append(e.table, s)
	}
	return uint64(n)
}

// batch writes the body of a batch. Series and families go first into a column, for the
// table of texts is written before them.
func (e *Encoder) batch(b *store.Batch) (memory int, err error) {
	out := e.columns[0][:0]
	out = binary.AppendUvarint(out, uint64(len(b.Families)))
	for _, f := range b.Families {
		out = binary.AppendUvarint(out, e.text(f.Name))
		out = append(out, byte(f.Kind))
		out = binary.AppendUvarint(out, uint64(max(0, f.IntervalSeconds)))
		memory += familyCost
	}
	out = binary.AppendUvarint(out, uint64(len(b.Series)))
	e.last = e.last[:0]
	for i := range b.Series {
		s := &b.Series[i]
		out = binary.AppendUvarint(out, e.text(s.Family))
		out = append(out, byte(s.Kind)<<4|byte(s.View))
		e.next = e.next[:0]
		s.Labels.Range(func(l labels.Label) { e.next = append(e.next, l) })
		shared := 0
		for shared < min(len(e.last), len(e.next)) && e.last[shared] == e.next[shared] {
			shared++
		}
		out = binary.AppendUvarint(out, uint64(shared))
		out = binary.AppendUvarint(out, uint64(len(e.next)-shared))
		for _, l := range e.next[shared:] {
			out = binary.AppendUvarint(out, e.text(l.Name))
			out = binary.AppendUvarint(out, e.text(l.Value))
		}
		memory += seriesCost
		if i == 0 || shared < len(e.next) || len(e.last) != len(e.next) {
			memory += labelsCost(s.Labels)
		}
		e.last, e.next = e.next, e.last
		if b.TenantOf != nil {
			out = binary.AppendUvarint(out, uint64(b.TenantOf[i]))
		}
	}
	e.columns[0] = out

	body := appendText(e.body, b.Writer)
	body = binary.AppendUvarint(body, b.Generation)
	body = binary.AppendUvarint(body, uint64(b.Resolution))
	body, n := appendTable(body, e.table)
	memory += n
	if b.TenantOf == nil {
		body = append(body, 0)
	} else {
		body = append(body, 1)
		body, n = appendTable(body, b.Tenants)
		memory += n
	}
	body = append(body, out...)
	if body, err = e.points(body, b); err != nil {
		return 0, err
	}
	memory += pointCost * len(b.Points)
	body = binary.AppendUvarint(body, uint64(len(b.Samples)))
	for _, ss := range b.Samples {
		body = binary.AppendUvarint(body, uint64(ss.Series))
		body = appendSamples(body, ss.Samples)
		memory += entryCost + sampleCost*len(ss.Samples)
	}
	e.body = body
	return memory + len(b.Writer), nil
}

// points appends the points: runs of one slot, then columns.
func (e *Encoder) points(body []byte, b *store.Batch) ([]byte, error) {
	body = binary.AppendUvarint(body, uint64(len(b.Points)))
	if len(b.Points) == 0 {
		return body, nil
	}
	if b.Resolution <= 0 {
		return body, fmt.Errorf("points of resolution %d", b.Resolution)
	}
	numbers, lengths, data := e.columns[0][:0], e.columns[1][:0], e.columns[2][:0]
	lastSlot, lastSeries := int64(0), int64(-1)
	for i := 0; i < len(b.Points); {
		slot := b.Points[i].Slot
		if slot%int64(b.Resolution) != 0 || slot < farPast || slot >= farFuture {
			return body, fmt.Errorf("point %d: slot %d is not a multiple of %d s", i, slot, b.Resolution)
		}
		j := i
		for ; j < len(b.Points) && b.Points[j].Slot == slot; j++ {
			p := &b.Points[j]
			numbers = binary.AppendVarint(numbers, int64(p.Series)-lastSeries-1)
			lastSeries = int64(p.Series)
			lengths = binary.AppendUvarint(lengths, uint64(len(p.Data)))
			data = append(data, p.Data...)
		}
		body = binary.AppendVarint(body, slot/int64(b.Resolution)-lastSlot)
		body = binary.AppendUvarint(body, uint64(j-i))
		lastSlot, i = slot/int64(b.Resolution), j
	}
	e.columns = [3][]byte{numbers, lengths, data}
	return append(append(append(body, numbers...), lengths...), data...), nil
}

// appendSamples appends times as differences in milliseconds, and each value's bits xor
// those of the value before, the last byte first, so that what changes little is short.
func appendSamples(dst []byte, ss []series.Sample) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ss)))
	last, bitsBefore := int64(0), uint64(0)
	for _, s := range ss {
		dst = binary.AppendVarint(dst, s.TimeMillis-last)
		now := math.Float64bits(s.Value)
		dst = binary.AppendUvarint(dst, bits.ReverseBytes64(now^bitsBefore))
		last, bitsBefore = s.TimeMillis, now
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendTable appends texts: their number, their lengths, their bytes. It returns the memory
// of the decoded ones.
func appendTable(dst []byte, table []string) ([]byte, int) {
	dst = binary.AppendUvarint(dst, uint64(len(table)))
	n := 0
	for _, s := range table {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		n += textCost + len(s)
	}
	for _, s := range table {
		dst = append(dst, s...)
	}
	return dst, n
}

// Traces calls yield with the frames of traces, in order. A frame is valid during the call.
func (e *Encoder) Traces(list []store.Trace, yield func(frame []byte) error) error {
	for len(list) > 0 {
		n, cost := 0, 0
		for n < len(list) && (n == 0 || cost+traceMemory(&list[n]) <= e.memory*3/4) {
			cost += traceMemory(&list[n])
			n++
		}
		frame, err := e.frame(Traces, func() (int, error) { return e.traces(list[:n]) })
		if err != nil {
			return err
		}
		if err := yield(frame); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// traceMemory estimates from above what a trace takes, packed and decoded.
func traceMemory(t *store.Trace) int {
	n := traceCost + 2*len(t.Data)
	for i := range t.Entries {
		x := &t.Entries[i]
		n += hitCost + 40 + 2*(3*textCost+len(x.Service)+len(x.Operation)+len(x.Tenant))
	}
	return n
}

func (e *Encoder) traces(list []store.Trace) (memory int, err error) {
	out := e.columns[0][:0]
	for i := range list {
		t := &list[i]
		if len(t.Entries) == 0 || len(t.Entries) > store.MaxTraceEntries {
			return 0, fmt.Errorf("trace %x has %d entries", t.ID, len(t.Entries))
		}
		out = append(out, t.ID[:]...)
		out = binary.AppendUvarint(out, uint64(len(t.Entries)))
		for j := range t.Entries {
			x := &t.Entries[j]
			out = append(out, x.Span[:]...)
			out = append(out, byte(x.Why)<<1|boolByte(x.Failed))
			for _, s := range []string{x.Service, x.Operation, x.Tenant} {
				out = binary.AppendUvarint(out, e.text(s))
			}
			out = binary.AppendVarint(out, x.StartNanos)
			out = binary.AppendVarint(out, x.DurationNanos)
			memory += hitCost
		}
		out = binary.AppendUvarint(out, uint64(len(t.Data)))
		out = append(out, t.Data...)
		memory += traceCost
	}
	e.columns[0] = out
	body, n := appendTable(e.body, e.table)
	body = binary.AppendUvarint(body, uint64(len(list)))
	e.body = append(body, out...)
	return memory + n, nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}
