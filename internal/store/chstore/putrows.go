package chstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// checkEvery is the number of points between checks of ctx.
const checkEvery = 1024

// batchRows turns a batch into the rows of one insertion.
type batchRows struct {
	s      *Store
	meta   *meta // the state of the tiers that points are placed by
	batch  *store.Batch
	number putNumber

	shards   []shardRows
	state    packedRows
	carry    []string    // by shard: moves rows of earlier numbers to this one
	replaced []putNumber // numbers whose points do not count any more then

	first, last int64              // range of the slots, seconds
	slots       map[int64]struct{} // base slots
	slot        int64              // the last of them, and where its points belong
	place       place
	newSeries   []daySeries            // with rows in the table series, of points each once
	noted       map[daySeries]struct{} // newSeries, once there are samples
	families    map[string]familyMeta
	forms       map[form]*formMeta

	before map[pointKey]struct{} // addresses that the generation has put before
	drop   map[pointKey]struct{} // those of them that this batch replaces

	// Of the series being written.
	id      [16]byte
	info    series.Series // without the tenant
	tenant  string
	key     seriesKey
	shard   *shardRows
	hist    hist.Histogram
	value   value
	sums    [tier.Count]sumUp
	onDay   int32 // the last day that is written for the series
	idBytes []byte
	values  []byte // of its labels, as a row has them
}

// shardRows are the rows for one shard.
type shardRows struct{ points, series, samples packedRows }

// pointKey is where a row of points is, within a generation.
type pointKey struct {
	tier int
	id   [16]byte
	kind series.Kind
	slot int64
}

// sumUp adds up the points of a coarser slot.
type sumUp struct {
	n      int
	slot   int64
	hist   *hist.Histogram
	number series.Number
}

func newBatchRows(s *Store, m *meta, b *store.Batch, number putNumber) *batchRows {
	x := &batchRows{s: s, meta: m, batch: b, number: number, shards: make([]shardRows, len(s.shards)), carry: make([]string, len(s.shards)),
		first: math.MaxInt64, last: math.MinInt64, slots: map[int64]struct{}{},
		families: map[string]familyMeta{}, forms: map[form]*formMeta{}}
	for i := range b.Series {
		if _, ok := x.families[b.Series[i].Family]; !ok {
			x.families[b.Series[i].Family] = familyMeta{Kind: b.Series[i].Kind}
		}
	}
	for _, f := range b.Families {
		have, ok := x.families[f.Name]
		if !ok {
			have.Kind = f.Kind
		}
		have.Interval = max(have.Interval, f.IntervalSeconds)
		x.families[f.Name] = have
	}
	return x
}

// build makes the rows.
func (x *batchRows) build(ctx context.Context) error {
	b := x.batch
	order := make([]int32, len(b.Points))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, k int32) int {
		p, q := &b.Points[i], &b.Points[k]
		return cmp.Or(cmp.Compare(p.Series, q.Series), cmp.Compare(p.Slot, q.Slot))
	})
	for i, o := range order {
		p := &b.Points[o]
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i == 0 || b.Points[order[i-1]].Series != p.Series {
			if err := x.endSeries(); err != nil {
				return err
			}
			x.begin(int(p.Series))
		} else if b.Points[order[i-1]].Slot == p.Slot {
			return fmt.Errorf("series %d is twice in slot %d", p.Series, p.Slot)
		}
		if err := x.point(p); err != nil {
			return fmt.Errorf("point %d: %w", o, err)
		}
	}
	if err := x.endSeries(); err != nil {
		return err
	}
	for i := range b.Samples {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := x.samples(&b.Samples[i]); err != nil {
			return err
		}
	}
	for _, st := range b.State {
		row := appendString(x.state.rows, b.Writer)
		row = appendString(row, st.Key)
		row = appendUint64(row, x.number)
		x.state.added(appendString(row, st.Value))
	}
	x.carryOver()
	return nil
}

// begin begins the rows of a series of the batch.
func (x *batchRows) begin(i int) {
	b := x.batch
	x.info, x.tenant = b.Series[i], ""
	if b.TenantOf != nil {
		x.tenant = b.Tenants[b.TenantOf[i]]
	}
	var id series.ID
	if b.IDs != nil {
		id = b.IDs[i]
	} else {
		id, x.idBytes = x.info.ID(x.idBytes)
	}
	x.id, x.key, x.onDay = idBytes(id), seriesKey{id, x.info.Kind}, math.MinInt32
	x.shard = &x.shards[x.s.shardOf(x.id)]
}

// point writes a point to the tiers that it belongs to.
func (x *batchRows) point(p *store.Point) error {
	length := int64(series.Base)
	switch {
	case x.s.copying:
		x.place, length = 1<<tierOf(uint16(x.batch.Resolution)), int64(x.batch.Resolution)
	case len(x.slots) == 0 || p.Slot != x.slot: // most batches are of one slot
		x.place, x.slot = placeOf(&x.meta.tiers, p.Slot), p.Slot
		x.slots[p.Slot] = struct{}{}
	}
	at := x.place
	finest := at.finest()
	if finest < 0 {
		x.s.stats.expired.Add(1)
		return nil
	}
	k := pointKey{finest, x.id, x.info.Kind, tier.Floor(p.Slot, tier.Slot(finest))}
	if _, again := x.before[k]; again {
		// What has been rolled up, or went to a coarser tier, is final.
		if finest > 0 || p.Slot < x.meta.tiers.Ready[1] {
			return nil
		}
		x.drop[k] = struct{}{}
	}
	x.first, x.last = min(x.first, p.Slot), max(x.last, p.Slot+length)
	x.onDayOf(p.Slot)
	var n series.Number
	if x.info.Kind == series.Distribution {
		if err := x.hist.UnmarshalBinary(p.Data); err != nil {
			return err
		}
	} else {
		var err error
		if n, err = store.DecodeNumber(p.Data); err != nil {
			return err
		}
	}
	for t := finest; t < tier.Count; t++ {
		switch {
		case !at.has(t):
		case t == 0 || x.s.copying:
			if err := x.row(t, p.Slot, &x.hist, p.Data); err != nil {
				return err
			}
		default:
			if err := x.addUp(t, tier.Floor(p.Slot, tier.Slot(t)), n); err != nil {
				return err
			}
		}
	}
	return nil
}

// addUp adds the present point to a slot of a coarser tier.
func (x *batchRows) addUp(t int, slot int64, n series.Number) error {
	u := &x.sums[t]
	if u.n > 0 && u.slot != slot {
		if err := x.endSum(t); err != nil {
			return err
		}
	}
	u.slot = slot
	u.n++
	if x.info.Kind != series.Distribution {
		u.number.Merge(n)
		return nil
	}
	if u.n == 1 {
		if u.hist == nil {
			u.hist = hist.New(hist.MaxSchema)
		}
		u.hist.Reset(hist.MaxSchema)
	}
	if err := u.hist.Merge(&x.hist); errors.Is(err, hist.ErrInvalid) {
		x.s.stats.leftOut.Add(1) // more than can be counted
	} else if err != nil {
		return err
	}
	return nil
}

func (x *batchRows) endSeries() error {
	for t := 1; t < tier.Count; t++ {
		if err := x.endSum(t); err != nil {
			return err
		}
	}
	return nil
}

func (x *batchRows) endSum(t int) error {
	u := &x.sums[t]
	if u.n == 0 {
		return nil
	}
	var data []byte
	if x.info.Kind != series.Distribution {
		data = store.AppendNumber(nil, u.number)
	}
	x.s.stats.late.Add(uint64(u.n))
	u.n, u.number = 0, series.Number{}
	return x.row(t, u.slot, u.hist, data)
}

// row appends a row of points of the present series: h, or the number in data.
func (x *batchRows) row(t int, slot int64, h *hist.Histogram, data []byte) error {
	v := &x.value
	if x.info.Kind != series.Distribution {
		if err := v.number(data); err != nil {
			return err
		}
	} else if f := v.distribution(h); f != nil {
		f.Bounds = slices.Clone(f.Bounds)
		x.forms[v.form] = f
	}
	b := appendUint16(x.shard.points.rows, uint16(tier.Slot(t)))
	b = appendInt32(b, partOf(t, slot))
	b = appendString(b, x.info.Family)
	b = append(b, byte(x.info.View))
	b = appendInt32(b, blockOf(t, slot))
	b = append(append(b, x.id[:]...), byte(x.info.Kind))
	b = appendInt64(b, slot)
	b = appendUint64(b, x.number)
	x.shard.points.added(v.append(b))
	return nil
}

// onDayOf notes that the series exists on the day of a moment.
func (x *batchRows) onDayOf(at int64) {
	day := dayOf(at)
	if day == x.onDay {
		return
	}
	x.onDay = day
	d := daySeries{day, x.key}
	if _, twice := x.noted[d]; twice || x.s.known.has(d) {
		return
	}
	x.newSeries = append(x.newSeries, d)
	if x.noted != nil {
		x.noted[d] = struct{}{}
	}
	b := appendInt32(x.shard.series.rows, day)
	b = appendString(b, x.info.Family)
	b = append(b, byte(x.info.View))
	b = append(append(b, x.id[:]...), byte(x.info.Kind))
	b = x.appendLabels(b)
	x.shard.series.added(appendUint64(b, x.number))
}

// appendLabels appends the names and the values of the series' labels, which are in order
// of their names, the tenant's among them. A generation may have as many new series as
// points, so their labels are not put together in memory first.
func (x *batchRows) appendLabels(b []byte) []byte {
	n, tenant := uint64(x.info.Labels.Len()), x.tenant != ""
	if tenant {
		n++
	}
	b, v := binary.AppendUvarint(b, n), binary.AppendUvarint(x.values[:0], n)
	add := func(name, value string) { b, v = appendString(b, name), appendString(v, value) }
	x.info.Labels.Range(func(l labels.Label) {
		if tenant && l.Name > series.LabelTenant {
			add(series.LabelTenant, x.tenant)
			tenant = false
		}
		add(l.Name, l.Value)
	})
	if tenant {
		add(series.LabelTenant, x.tenant)
	}
	x.values = v
	return append(b, v...)
}

// samples writes raw samples.
func (x *batchRows) samples(ss *store.Samples) error {
	if !slices.IsSortedFunc(ss.Samples, func(a, b series.Sample) int { return cmp.Compare(a.TimeMillis, b.TimeMillis) }) {
		return fmt.Errorf("samples of series %d are not in order of time", ss.Series)
	}
	if x.noted == nil {
		x.noted = make(map[daySeries]struct{}, len(x.newSeries))
		for _, d := range x.newSeries {
			x.noted[d] = struct{}{}
		}
	}
	x.begin(int(ss.Series))
	for _, v := range ss.Samples {
		at := tier.FloorDiv(v.TimeMillis, 1000)
		if tier.Floor(at, hour) < x.meta.tiers.SampleFloor {
			x.s.stats.expired.Add(1)
			continue
		}
		x.onDayOf(at)
		b := appendInt32(x.shard.samples.rows, int32(tier.FloorDiv(at, samplePart)))
		b = appendString(b, x.info.Family)
		b = append(append(b, x.id[:]...), byte(x.info.Kind))
		b = appendInt64(b, v.TimeMillis)
		b = appendFloat64(b, v.Value)
		x.shard.samples.added(appendUint64(b, x.number))
	}
	return nil
}

// compare reads which addresses the generation has put before.
func (x *batchRows) compare(ctx context.Context, e *earlier) error {
	x.before, x.drop = map[pointKey]struct{}{}, map[pointKey]struct{}{}
	x.replaced = e.numbers
	if e.first >= e.last {
		return nil
	}
	var mu sync.Mutex
	return x.s.eachShard(ctx, func(ctx context.Context, _ int, n *node) error {
		r, err := x.s.client.read(ctx, n, "SELECT resolution, id, kind, slot FROM "+x.s.local("points")+" WHERE "+e.rows())
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for r.next() {
			k := pointKey{tier: tierOf(r.uint16())}
			copy(k.id[:], r.take(16))
			k.kind, k.slot = series.Kind(r.uint8()), r.int64()
			x.before[k] = struct{}{}
		}
		return r.err
	})
}

// rows returns the condition on the rows of points that were put before.
func (e *earlier) rows() string {
	var spans []tier.Span
	for t := range tier.Count {
		spans = append(spans, tier.Span{Tier: t, From: tier.Floor(e.first, tier.Slot(t)), To: tier.Ceil(e.last, tier.Slot(t))})
	}
	return inSpans(spans) + " AND put IN (" + list(e.numbers) + ")"
}

// carryOver decides what becomes of the rows that the generation has put before. Those that
// are not replaced stay under their numbers if none is, else they are written again under
// the new one, so that the old numbers need not count any more.
func (x *batchRows) carryOver() {
	switch {
	case len(x.drop) == 0:
		x.replaced = nil
	case len(x.drop) < len(x.before):
		e := earlier{numbers: x.replaced, first: math.MaxInt64, last: math.MinInt64}
		drop := make([][]string, len(x.shards))
		for k := range x.before {
			e.first, e.last = min(e.first, k.slot), max(e.last, k.slot+tier.Slot(k.tier))
			if _, ok := x.drop[k]; ok {
				i := x.s.shardOf(k.id)
				drop[i] = append(drop[i], fmt.Sprintf("(%s, %d, %d)", fixed(k.id[:]), k.kind, k.slot))
			}
		}
		// Who puts the generation once more looks for its rows in the range noted with the number.
		x.first, x.last = min(x.first, e.first), max(x.last, e.last)
		columns := strings.Trim(pointColumns, "()")
		for i := range x.carry {
			x.carry[i] = "INSERT INTO " + x.s.local("points") + " " + pointColumns + " SELECT " + strings.Replace(columns, " put,", fmt.Sprintf(" toUInt64(%d),", x.number), 1) +
				" FROM " + x.s.local("points") + " WHERE " + e.rows()
			if len(drop[i]) > 0 {
				x.carry[i] += fmt.Sprintf(" AND NOT (resolution = %d AND (id, kind, slot) IN (%s))", series.Base, strings.Join(drop[i], ","))
			}
		}
	}
}

func tierOf(resolution uint16) int {
	return slices.Index(series.Resolutions[:], series.Resolution(resolution))
}
