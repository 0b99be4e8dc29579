package chstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// A copy is made into tables without rows. The log says of what until it has ended, so that
// no server starts on a part of it, and the same copy can be begun again: its batches are
// generations of store.CopyWriter, and those that are committed are not put again.

// ErrNotEmpty reports that the tables hold rows.
var ErrNotEmpty = errors.New("a copy is made into an empty database")

// OpenCopy opens the store as a store.CopyTarget, of what of names. The tables must have no
// rows, but those of a copy of the same, which may have been interrupted; ended reports that
// it was not. Otherwise the error wraps ErrNotEmpty.
func OpenCopy(ctx context.Context, o Options, of string) (s *Store, ended bool, err error) {
	s, err = openWith(ctx, o, (*Store).ensureSchema, func(s *Store, ctx context.Context) error {
		s.copying = true
		ended, err = s.beginCopy(ctx, of)
		return err
	})
	return s, ended, err
}

// refuseCopy returns an error while a copy into the tables has not ended.
func (s *Store) refuseCopy(ctx context.Context) error {
	m, err := s.readMeta(ctx)
	if err == nil && m.copyOf != "" {
		err = fmt.Errorf("a restore of %s into database %s did not end: run the same tailscope restore again, or drop the database on every node", m.copyOf, s.address.database)
	}
	return err
}

// beginCopy notes that a copy is made, and reports whether it has ended.
func (s *Store) beginCopy(ctx context.Context, of string) (ended bool, err error) {
	m, err := s.readMeta(ctx)
	if err != nil || m.copyOf == of || m.copied == of {
		return err == nil && m.copied == of, err
	}
	if m.copyOf != "" {
		return false, s.refuseCopy(ctx)
	}
	for _, n := range s.nodes() {
		names := make([]string, len(tables))
		for i := range tables {
			names[i] = s.tableOn(&tables[i])
		}
		r, err := s.client.read(ctx, n, "SELECT toUInt64(sum(rows)) FROM system.parts WHERE active AND database = "+quote(s.address.database)+" AND table IN ("+quoteAll(names)+")")
		if err != nil {
			return false, err
		}
		if rows := r.uint64(); rows > 0 || r.err != nil {
			return false, errors.Join(r.err, fmt.Errorf("database %s on %s holds %d rows: %w", s.address.database, n.host, rows, ErrNotEmpty))
		}
	}
	l := s.log(metaKind)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = s.appendLog(ctx, l, []logWrite{{keyCopy, of, 0}})
	return false, err
}

// EndCopy has the store answer by the outline. See store.CopyTarget.
func (s *Store) EndCopy(ctx context.Context, o *store.Outline) error {
	done, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	rows := make([][]byte, len(s.shards))
	until := map[string]int64{} // by family, ms
	var buf []byte
	for i := range o.Cuts {
		c := &o.Cuts[i]
		var id series.ID
		id, buf = c.Series.ID(buf)
		b := idBytes(id)
		to := &rows[s.shardOf(b)]
		*to = appendString(*to, c.Series.Family)
		*to = append(append(*to, b[:]...), byte(c.Series.Kind))
		*to = appendInt64(*to, c.Until)
		until[c.Series.Family] = max(until[c.Series.Family], c.Until)
	}
	err = s.eachShard(ctx, func(ctx context.Context, i int, n *node) error {
		// A cut that is there twice is one.
		return s.client.repeated(ctx, func() error { return s.client.insertAlike(ctx, n, s.local("cuts"), cutColumns, rows[i]) })
	})
	if err != nil {
		return err
	}
	_, err = s.changeTiers(ctx, func(m *meta) (*tiersMeta, []logWrite) {
		t := m.tiers
		t.Floor, t.Ready = o.Floor, o.Ready
		t.Ready[0] = 0
		t.Done = t.Ready
		writes := []logWrite{{keyCopy, "", m.of[keyCopy]}, {keyCopied, m.copyOf, m.of[keyCopied]}}
		if len(o.Direct) > 0 {
			writes = append(writes, logWrite{keyDirect, encodeMeta(o.Direct), m.of[keyDirect]})
		}
		for _, f := range slices.Sorted(maps.Keys(until)) {
			x := m.families[f]
			x.Dropped = store.SamplesDropped{Times: 1, Until: until[f] / 1000}
			writes = append(writes, logWrite{prefixFamily + f, encodeMeta(&x), m.of[prefixFamily+f]})
		}
		return &t, writes
	})
	return err
}

// content is what is committed at a moment.
type content struct {
	*Store
	m *meta
}

// Content returns all that is committed now. Servers may go on writing.
func (s *Store) Content(ctx context.Context) (store.Content, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, fmt.Errorf("content of the store: %w", err)
	}
	return &content{s, m}, nil
}

// State is that of the moment.
func (c *content) State(ctx context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error {
	return c.readState(ctx, c.m, writer, prefix, yield)
}

// Outline returns what a copy is told beside points, samples, traces and records. Slots that
// are being rolled up are rolled up anew by the copy.
func (c *content) Outline(ctx context.Context) (*store.Outline, error) {
	o := &store.Outline{Floor: c.m.tiers.Floor, Ready: c.m.tiers.Done, Direct: c.m.direct, Writers: map[string]uint64{}}
	for name, w := range c.m.writers {
		if name != store.CopyWriter {
			o.Writers[name] = w.Flushed
		}
	}
	for _, f := range slices.Sorted(maps.Keys(c.m.families)) {
		o.Families = append(o.Families, store.FamilyInfo{Name: f, Kind: c.m.families[f].Kind, IntervalSeconds: c.m.families[f].Interval})
	}
	r, err := c.client.read(ctx, c.first(), "SELECT DISTINCT kind FROM "+c.qualified("log")+fmt.Sprintf(" WHERE substring(kind, 1, %d) = %s ORDER BY kind", len(recordKind), quote(recordKind)))
	if err != nil {
		return nil, err
	}
	for r.next() {
		o.Kinds = append(o.Kinds, strings.TrimPrefix(r.string(), recordKind))
	}
	if r.err != nil {
		return nil, r.err
	}
	for shard := range c.shards {
		cuts, err := c.cuts(ctx, shard)
		if err != nil {
			return nil, err
		}
		if len(cuts) == 0 {
			continue
		}
		all, err := c.seriesOn(ctx, shard, "kind != 0")
		if err != nil {
			return nil, err
		}
		for k, until := range cuts {
			if sr, listed := all[k]; listed {
				o.Cuts = append(o.Cuts, store.SampleCut{Series: sr, Until: until})
			}
		}
	}
	return o, nil
}

// ask asks one shard.
func (c *content) ask(ctx context.Context, shard int, query string) (r *rows, err error) {
	err = c.askReplicas(ctx, shard, func(ctx context.Context, _ int, n *node) error {
		r, err = c.client.read(ctx, n, query)
		return err
	})
	return r, err
}

// listedKey is a series of a shard.
type listedKey struct {
	family string
	view   series.View
	sampledKey
}

func (r *rows) listedKey() listedKey {
	return listedKey{r.string(), series.View(r.uint8()), r.sampledKey()}
}

// cuts returns where the samples of series begin, in ms.
func (c *content) cuts(ctx context.Context, shard int) (map[listedKey]int64, error) {
	r, err := c.ask(ctx, shard, fmt.Sprintf("SELECT family, toUInt8(%d), id, kind, max(cut) FROM %s GROUP BY family, id, kind", series.Full, c.local("cuts")))
	if err != nil {
		return nil, err
	}
	out := map[listedKey]int64{}
	for r.next() {
		k := r.listedKey()
		out[k] = r.int64()
	}
	return out, r.err
}

// seriesOn returns the series that a shard lists in rows that satisfy a condition.
func (c *content) seriesOn(ctx context.Context, shard int, where string) (map[listedKey]series.Series, error) {
	r, err := c.ask(ctx, shard, "SELECT family, view, id, kind, any(names), any(values) FROM "+c.local("series")+" WHERE "+where+" GROUP BY family, view, id, kind")
	if err != nil {
		return nil, err
	}
	out := map[listedKey]series.Series{}
	var b labels.ScratchBuilder
	for r.next() {
		k := r.listedKey()
		names, values := r.strings(), r.strings()
		if r.err == nil && len(names) != len(values) {
			return nil, fmt.Errorf("%d names of labels, %d values: %w", len(names), len(values), store.ErrCorrupt)
		}
		if r.err == nil {
			out[k] = series.Series{Family: k.family, View: k.view, Kind: k.kind, Labels: labelsOf(&b, names, values)}
		}
	}
	return out, r.err
}

// copyRows bounds the rows, of points or of samples, that one statement reads, but for those
// of one slot or one second. A point with all its buckets has some kilobytes.
const copyRows = 20_000

// Batches yields what each shard holds: its points by tier and time, its samples by time.
func (c *content) Batches(ctx context.Context, yield func(*store.Batch) error) error {
	done, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	first, last := c.m.extent()
	for shard := range c.shards {
		x := shardContent{content: c, shard: shard, yield: yield, from: 1}
		for t := 0; t < tier.Count && first < last; t++ {
			sp := tier.Span{Tier: t, From: max(tier.Floor(first, tier.Slot(t)), tier.Floor(c.m.tiers.Floor[t], tier.Slot(t))), To: tier.Ceil(last, tier.Slot(t))}
			if t > 0 && c.m.tiers.Plan != nil {
				sp.To = min(sp.To, c.m.tiers.Done[t])
			}
			for at := sp.From; at < sp.To; {
				next := min(sp.To, (int64(partOf(t, at))+1)*partLength[t])
				if err := x.points(ctx, tier.Span{Tier: t, From: at, To: next}); err != nil {
					return fmt.Errorf("points of shard %d: %w", shard+1, err)
				}
				at = next
			}
		}
		if err := x.allSamples(ctx); err != nil {
			return fmt.Errorf("samples of shard %d: %w", shard+1, err)
		}
	}
	return nil
}

// shardContent reads one shard.
type shardContent struct {
	*content
	shard int
	yield func(*store.Batch) error

	listed   map[listedKey]series.Series // on the days [from, to]
	from, to int32
	cut      map[listedKey]int64
}

// list has the series of the days [from, to] in listed.
func (x *shardContent) list(ctx context.Context, from, to int32) (err error) {
	if x.from == from && x.to == to {
		return nil
	}
	x.listed, err = x.seriesOn(ctx, x.shard, fmt.Sprintf("day >= %d AND day <= %d", from, to))
	x.from, x.to = from, to
	return err
}

// count returns the number of rows of a table that satisfy a condition.
func (x *shardContent) count(ctx context.Context, table, where string) (uint64, error) {
	r, err := x.ask(ctx, x.shard, "SELECT count() FROM "+x.local(table)+" WHERE "+where)
	if err != nil {
		return 0, err
	}
	return r.uint64(), r.err
}

// points yields the points of a span, in halves if it has many.
func (x *shardContent) points(ctx context.Context, sp tier.Span) error {
	where := inSpans([]tier.Span{sp}) + " AND " + x.m.visible.rows(true)
	n, err := x.count(ctx, "points", where)
	if err != nil || n == 0 {
		return err
	}
	size := tier.Slot(sp.Tier)
	if slots := (sp.To - sp.From) / size; n > copyRows && slots > 1 {
		middle := sp.From + slots/2*size
		if err := x.points(ctx, tier.Span{Tier: sp.Tier, From: sp.From, To: middle}); err != nil {
			return err
		}
		return x.points(ctx, tier.Span{Tier: sp.Tier, From: middle, To: sp.To})
	}
	if err := x.list(ctx, dayOf(sp.From), dayOf(sp.To-1)); err != nil {
		return err
	}
	r, err := x.ask(ctx, x.shard, "SELECT family, view, id, kind, slot, form, "+sumColumns+
		", tupleElement(sumMap(buckets, counts), 1), tupleElement(sumMap(buckets, counts), 2) FROM "+x.local("points")+" WHERE "+where+
		" GROUP BY family, view, id, kind, slot, form ORDER BY family, view, id, kind, slot, form")
	if err != nil {
		return err
	}
	b := store.Batch{Resolution: series.Resolutions[sp.Tier]}
	var last listedKey
	for r.next() {
		k, slot := r.listedKey(), r.int64()
		f, c := r.uint64(), cell{sum: r.sum()}
		if c.buckets = r.buckets(); r.err != nil {
			break
		}
		if len(b.Series) == 0 || k != last {
			if err := x.add(&b, k); err != nil {
				return err
			}
		}
		data, err := x.m.encode(k.kind, f, &c)
		if err != nil {
			return err
		}
		// An address is there once for each form.
		if n := len(b.Points); n > 0 && k == last && b.Points[n-1].Slot == slot {
			if b.Points[n-1].Data, err = mergeEncoded(b.Points[n-1].Data, data); err != nil {
				return err
			}
			continue
		}
		last = k
		b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series) - 1), Slot: slot, Data: data})
	}
	if r.err != nil {
		return r.err
	}
	return x.yield(&b)
}

// add adds a series to the batch.
func (x *shardContent) add(b *store.Batch, k listedKey) error {
	sr, listed := x.listed[k]
	if !listed {
		return fmt.Errorf("a series of %s that is not listed: %w", k.family, store.ErrCorrupt)
	}
	b.Series = append(b.Series, sr)
	return nil
}

// buckets reads the two arrays of buckets and counts.
func (r *rows) buckets() []bucket {
	out := make([]bucket, r.length(4))
	for i := range out {
		out[i].number = r.int32()
	}
	if n := r.length(8); r.err == nil && n != len(out) {
		r.err = fmt.Errorf("%d counts of %d buckets: %w", n, len(out), store.ErrCorrupt)
	}
	for i := range out {
		out[i].count = r.uint64()
	}
	return out
}

// encode returns what rows of one form come to as the bytes of a point.
func (m *meta) encode(kind series.Kind, f form, c *cell) ([]byte, error) {
	if kind != series.Distribution {
		return store.AppendNumber(nil, c.sum.number()), nil
	}
	h, err := m.newHistogram(f)
	if err != nil {
		return nil, err
	}
	c.fill(h)
	return h.AppendBinary(nil)
}

// mergeEncoded adds up two distributions.
func mergeEncoded(a, b []byte) ([]byte, error) {
	h := hist.New(hist.MaxSchema)
	if err := h.UnmarshalBinary(a); err != nil {
		return nil, err
	}
	if err := h.MergeEncoded(b); err != nil {
		return nil, err
	}
	return h.AppendBinary(nil)
}

// allSamples yields all samples of the shard.
func (x *shardContent) allSamples(ctx context.Context) (err error) {
	if x.cut, err = x.cuts(ctx, x.shard); err != nil {
		return err
	}
	r, err := x.ask(ctx, x.shard, "SELECT count(), min(part), max(part) FROM "+x.local("samples")+" WHERE "+x.m.visible.rows(false))
	if err != nil {
		return err
	}
	n, first, last := r.uint64(), int64(r.int32()), int64(r.int32())
	for part := first; n > 0 && part <= last && r.err == nil; part++ {
		if err := x.samples(ctx, max(part*samplePart, x.m.tiers.SampleFloor), (part+1)*samplePart); err != nil {
			return err
		}
	}
	return r.err
}

// samples yields the samples of [from, to), seconds of one partition, in halves if there are
// many.
func (x *shardContent) samples(ctx context.Context, from, to int64) error {
	if from >= to {
		return nil
	}
	where := fmt.Sprintf("part = %d AND ms >= %d AND ms < %d AND ", tier.FloorDiv(from, samplePart), from*1000, to*1000) + x.m.visible.rows(false)
	n, err := x.count(ctx, "samples", where)
	if err != nil || n == 0 {
		return err
	}
	if n > copyRows && to-from > 1 {
		if err := x.samples(ctx, from, (from+to)/2); err != nil {
			return err
		}
		return x.samples(ctx, (from+to)/2, to)
	}
	if err := x.list(ctx, dayOf(from), dayOf(from)); err != nil {
		return err
	}
	r, err := x.ask(ctx, x.shard, fmt.Sprintf("SELECT family, toUInt8(%d), id, kind, ms, value FROM %s WHERE %s ORDER BY family, id, kind, ms, put", series.Full, x.local("samples"), where))
	if err != nil {
		return err
	}
	var b store.Batch
	var last listedKey
	for r.next() {
		k := r.listedKey()
		v := series.Sample{TimeMillis: r.int64(), Value: r.float64()}
		if cut, is := x.cut[k]; r.err != nil || is && v.TimeMillis < cut {
			continue
		}
		if len(b.Series) == 0 || k != last {
			if err := x.add(&b, k); err != nil {
				return err
			}
			last = k
			b.Samples = append(b.Samples, store.Samples{Series: uint32(len(b.Series) - 1)})
		}
		ss := &b.Samples[len(b.Samples)-1].Samples
		if n := len(*ss); n > 0 && (*ss)[n-1].TimeMillis == v.TimeMillis {
			*ss = (*ss)[:n-1] // the later one counts
		}
		*ss = append(*ss, v)
	}
	if r.err != nil || len(b.Samples) == 0 {
		return r.err
	}
	return x.yield(&b)
}

// One statement reads copyTraces kept traces, or as many as have copyTraceBytes. Their ids are
// spread over all granules: the fewer, the more often all that there is would be read.
const (
	copyTraces     = 2000
	copyTraceBytes = 64 << 20
)

// KeptTraces yields the kept traces of each shard, in order of their ids.
func (c *content) KeptTraces(ctx context.Context, yield func([]store.Trace) error) error {
	done, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	for shard := range c.shards {
		if err := c.tracesOn(ctx, shard, yield); err != nil {
			return fmt.Errorf("shard %d: %w", shard+1, err)
		}
	}
	return nil
}

func (c *content) tracesOn(ctx context.Context, shard int, yield func([]store.Trace) error) error {
	r, err := c.ask(ctx, shard, "SELECT id, max(version), toUInt64(max(length(data))) FROM "+c.local("traces")+" GROUP BY id ORDER BY id")
	if err != nil {
		return err
	}
	for r.next() {
		var current []string
		for bytes := uint64(0); len(current) < copyTraces && bytes < copyTraceBytes && r.next(); bytes += r.uint64() {
			current = append(current, "("+fixed(r.take(16))+fmt.Sprintf(", %d)", r.uint64()))
		}
		if r.err != nil {
			break
		}
		bodies, err := c.ask(ctx, shard, "SELECT part, id, data, spans, services, operations, tenants, failed, why, starts, durations FROM "+c.local("traces")+
			" WHERE (id, version) IN ("+strings.Join(current, ",")+") ORDER BY id LIMIT 1 BY id")
		if err != nil {
			return err
		}
		var some []store.Trace
		for bodies.next() {
			part := bodies.int32()
			var id store.TraceID
			copy(id[:], bodies.take(16))
			t := bodies.trace(id)
			if bodies.err == nil && int64(part)*tracePart >= c.m.tiers.TraceFloor {
				some = append(some, *t)
			}
		}
		if bodies.err != nil {
			return bodies.err
		}
		if len(some) > 0 {
			if err := yield(some); err != nil {
				return err
			}
		}
	}
	return r.err
}
