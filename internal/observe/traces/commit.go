package traces

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
)

// batchCells is the number of cells handed over in one batch, about: the batch's memory is
// kept for the next, and the aggregator is not blocked for long.
const batchCells = 2048

// commit hands over the observations, and with distributions also those, in several
// batches. What was not accepted stays.
func (b *breakdown) commit(ctx context.Context, distributions bool) error {
	batch, epoch := b.begin()
	b.groups.batch++
	for i := range b.seen {
		s := &b.seen[i]
		batch.ObserveMember(b.group(batch, s.group), b.c.named[s.tenant].name, s.end, s.nanos, s.weight)
	}
	if len(b.moved) > 0 {
		b.rows.mu.Lock()
		for i := range b.moved {
			m := &b.moved[i]
			batch.Observe(b.rows.skew(m.skewKey, epoch), m.at, m.nanos, m.weight)
		}
		b.rows.mu.Unlock()
	}
	if err := b.end(ctx, batch); err != nil {
		return err
	}
	if !distributions {
		b.drop(false)
		return nil
	}
	b.seen, b.moved = b.seen[:0], b.moved[:0]
	for order := b.cells.sorted(); len(order) > 0; {
		batch, epoch := b.begin()
		b.rows.mu.Lock()
		rest := b.distribute(batch, epoch, order)
		b.rows.mu.Unlock()
		if err := b.end(ctx, batch); err != nil {
			b.cells.retain(order)
			return err
		}
		order = rest
	}
	b.cells.drop()
	batch, epoch = b.begin()
	b.rows.mu.Lock()
	b.distributeFans(batch, epoch)
	b.rows.mu.Unlock()
	if err := b.end(ctx, batch); err != nil {
		return err
	}
	b.drop(true)
	return nil
}

// begin returns a new batch, and its epoch for targets, never 0.
func (b *breakdown) begin() (Batch, uint32) {
	batch := b.c.a.o.Sink.NewBatch()
	return batch, batch.Epoch() + 1
}

func (b *breakdown) end(ctx context.Context, batch Batch) error {
	err := batch.Commit(ctx)
	if err != nil {
		b.c.stats.CommitErrors++
	}
	return err
}

// selfKey identifies what the series of span_self_seconds of all tenants have in common.
type selfKey struct {
	common uint32
	comp   uint8
	failed bool
}

// selfGroups numbers keys of groups, from 1.
type selfGroups struct {
	batch  uint32 // number of the batch being filled
	list   []selfGroup
	number [][]uint32 // by common, then by component<<1, odd for failed requests; 0 is none
}

type selfGroup struct {
	selfKey
	batch uint32 // that it was last added to
	at    int    // its number there
}

const selfGroupBytes = 24

// reset drops all numbers.
func (s *selfGroups) reset() {
	s.list = append(s.list[:0], selfGroup{})
	for i := range s.number {
		s.number[i] = s.number[i][:0]
	}
}

func (s *selfGroups) bytes() int64 {
	return int64(cap(s.list))*(selfGroupBytes+16) + int64(cap(s.number))*24
}

// numberOf returns the number of a key.
func (s *selfGroups) numberOf(k selfKey) uint32 {
	if int(k.common) >= len(s.number) {
		s.number = append(s.number, make([][]uint32, max(int(k.common)+1, 2*len(s.number))-len(s.number))...)
	}
	at := int(k.comp) << 1
	if k.failed {
		at++
	}
	numbers := s.number[k.common]
	if at >= len(numbers) {
		numbers = append(numbers, make([]uint32, at+1-len(numbers))...)
		s.number[k.common] = numbers
	}
	n := &numbers[at]
	if *n == 0 {
		*n = uint32(len(s.list))
		s.list = append(s.list, selfGroup{selfKey: k})
	}
	return *n
}

// group returns the number in the batch of a group, which it resolves once for each batch.
func (b *breakdown) group(batch Batch, number uint32) int {
	g := &b.groups.list[number]
	if g.batch != b.groups.batch {
		id := b.c.infos[g.common].id
		g.batch, g.at = b.groups.batch, batch.Group(b.c.a.o.Sink.SelfGroup(&id, b.c.comps[g.comp], g.failed))
	}
	return g.at
}

// distribute adds a distribution for each row, slot and family of the first cells in
// order, batchCells or somewhat more of them. It returns the rest.
func (b *breakdown) distribute(batch Batch, epoch uint32, order []uint32) (rest []uint32) {
	var h hist.Histogram
	var list []*cell // of one row and slot
	for least := len(order) - batchCells; len(order) > max(least, 0); order = order[len(list):] {
		first := &b.cells.list[order[0]]
		list = append(list[:0], first)
		for _, i := range order[1:] {
			x := &b.cells.list[i]
			if x.row != first.row || x.at>>16 != first.at>>16 {
				break
			}
			list = append(list, x)
		}
		row, slot := first.row, momentOf(first.at)
		if uint32(row) == 0 {
			if fillDistribution(&h, list, withPart) {
				batch.Distribution(b.rows.ofRequest(uint32(row>>32), epoch), slot, &h)
			}
			continue
		}
		t := b.rows.ofPart(row, &b.c.part[uint32(row)].partKey, epoch)
		if t.folded {
			b.c.stats.FoldedParts++
		}
		for m := range measures {
			if fillDistribution(&h, list, m) {
				batch.Distribution(t.targets[m], slot, &h)
			}
		}
	}
	return order
}

func (b *breakdown) distributeFans(batch Batch, epoch uint32) {
	if len(b.fans) == 0 {
		return
	}
	keys := make([]fanKey, 0, len(b.fans))
	for k := range b.fans {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y fanKey) int {
		return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(x.instance, y.instance),
			cmp.Compare(x.at>>16, y.at>>16), cmp.Compare(int16(x.at), int16(y.at)))
	})
	var h hist.Histogram
	var cells []*cell
	for len(keys) > 0 {
		k := keys[0]
		cells = cells[:0]
		for len(keys) > 0 && keys[0].row == k.row && keys[0].instance == k.instance && keys[0].at>>16 == k.at>>16 {
			cells = append(cells, b.fans[keys[0]])
			keys = keys[1:]
		}
		t := b.rows.ofInstance(k.row, &b.c.part[uint32(k.row)].partKey, k.instance, epoch)
		if t.folded {
			b.c.stats.FoldedParts++
		}
		for m := range 2 {
			if fillDistribution(&h, cells, m) {
				batch.Distribution(t.targets[m], momentOf(k.at), &h)
			}
		}
	}
}

// targets resolves and caches the series of the breakdown, within a bound. All closers share
// it.
type targets struct {
	gen      atomic.Uint32 // of the numbers of requests
	mu       sync.Mutex    // guards the fields below
	sink     Sink
	max      int
	began    int64    // Unix seconds: when all rows were last dropped
	requests []reqRow // [0] is not used
	byKey    map[reqKey]uint32
	parts    map[uint64]*partRow
	fans     map[instanceKey]*partRow
	clocks   map[skewKey]*reqRow
}

type reqKey struct{ service, environment, operation, cohort string }

type instanceKey struct {
	row      uint64
	instance string
}

type reqRow struct {
	reqKey
	target Target
	epoch  uint32
}

type partRow struct {
	targets [measures]Target
	epoch   uint32
	folded  bool
}

const (
	rowBytes  = 112 // approximate memory of any row with its place in its map
	cohortAge = 60  // seconds for which a tenant's cohort is cached
)

func (r *targets) init(sink Sink, most int, now int64) {
	r.sink, r.max = sink, max(most, 64)
	r.reset(now)
}

// reset drops all rows. Nothing may refer to their numbers.
func (r *targets) reset(now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gen.Add(1)
	r.began = now
	r.requests = make([]reqRow, 1)
	r.byKey, r.parts = map[reqKey]uint32{}, map[uint64]*partRow{}
	r.fans, r.clocks = map[instanceKey]*partRow{}, map[skewKey]*reqRow{}
}

// crowded reports whether the rows are near their bound, and old enough for some of them
// to be out of use.
func (r *targets) crowded(now int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return 4*r.len() > 3*r.max && now-r.began > 3600
}

func (r *targets) len() int { return len(r.requests) + len(r.parts) + len(r.fans) + len(r.clocks) }

func (r *targets) bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.len()) * rowBytes
}

// cohorts is the number of cohorts, with that of requests without a tenant.
const cohorts = 5

// cohortNames lists the cohorts by number.
var cohortNames = [cohorts]string{"", series.Small, series.Medium, series.Large, series.VeryLarge}

// cohortOf is the cohort of a tenant of a service.
type cohortOf struct {
	key    uint64 // service and tenant
	asked  int64  // Unix seconds: when it was last looked up
	cohort uint8
}

const cohortBytes = 24

// cohortCache holds the cohorts of tenants. Each place holds the last that belongs there.
type cohortCache struct {
	places []cohortOf
	shift  int // of a hash to a place
}

func (c *cohortCache) init(most int64) {
	c.shift = 64 - min(max(bits.Len64(uint64(most))-1, 6), 15)
	c.reset()
}

func (c *cohortCache) reset() { c.places = make([]cohortOf, 1<<(64-c.shift)) }

func (c *cohortCache) bytes() int64 { return int64(len(c.places)) * cohortBytes }

// cohort returns the number of the cohort of a tenant.
func (b *breakdown) cohort(info *common, t *tenant, number uint32) uint8 {
	key := uint64(info.service)<<32 | uint64(number)
	c := &b.cohorts.places[key*0x9e3779b97f4a7c15>>b.cohorts.shift]
	if now := b.c.now; c.key != key || now-c.asked >= cohortAge {
		name := b.c.a.o.Sink.Cohort(info.id.Service, t.name)
		*c = cohortOf{key, now, uint8(max(slices.Index(cohortNames[:], name), 0))}
	}
	return c.cohort
}

// request returns the number of a request's key. A quarter of all rows is for these;
// beyond it operations fold, and with too many services those too.
func (b *breakdown) request(info *common, t *tenant, number uint32) uint32 {
	cohort := b.cohort(info, t, number)
	row, gen := &info.rows[cohort], b.rows.gen.Load()
	if r := row.Load(); r != 0 && uint32(r>>32) == gen {
		return uint32(r)
	}
	b.rows.mu.Lock()
	defer b.rows.mu.Unlock()
	n := b.rows.number(reqKey{info.id.Service, info.id.Environment, info.id.Operation, cohortNames[cohort]})
	row.Store(uint64(gen)<<32 | uint64(n))
	return n
}

func (r *targets) number(k reqKey) uint32 {
	for fold := 0; ; fold++ {
		if n, ok := r.byKey[k]; ok {
			return n
		}
		if len(r.requests) <= r.max/4*(1+fold) || fold == 2 {
			break
		}
		if k.operation = series.Other; fold == 1 {
			k = reqKey{service: series.Other, operation: series.Other}
		}
	}
	n := uint32(len(r.requests))
	r.requests = append(r.requests, reqRow{reqKey: k})
	r.byKey[k] = n
	return n
}

func (k *reqKey) labels(b *labels.ScratchBuilder) {
	addLabel(b, series.LabelService, k.service)
	addLabel(b, series.LabelEnvironment, k.environment)
	addLabel(b, series.LabelOperation, k.operation)
	addLabel(b, series.LabelCohort, k.cohort)
}

func addLabel(b *labels.ScratchBuilder, name, value string) {
	if value != "" {
		b.Add(name, value)
	}
}

func (r *targets) resolve(family string, b *labels.ScratchBuilder) Target {
	b.Sort()
	return r.sink.SeriesTarget(series.Series{Family: family, Kind: series.Distribution, Labels: b.Labels()})
}

func (r *targets) ofRequest(n, epoch uint32) Target {
	q := &r.requests[n]
	if q.epoch != epoch {
		var b labels.ScratchBuilder
		q.labels(&b)
		q.target, q.epoch = r.resolve(series.BreakdownRequests, &b), epoch
	}
	return q.target
}

var partFamilies = [measures]string{
	selfMicros: series.BreakdownSelf, criticalMicros: series.BreakdownCritical, partCalls: series.BreakdownCalls,
	withPart: series.BreakdownWith, repeated: series.BreakdownRepeats,
}

// ofPart resolves the series of a part. Beyond the bound parts fold into one for each
// component.
func (r *targets) ofPart(row uint64, part *partKey, epoch uint32) *partRow {
	t := r.parts[row]
	folded := false
	if t == nil {
		if r.len() >= r.max {
			// Not cached: what folds is resolved each time.
			part = part.fold()
			folded = true
		}
		t = &partRow{folded: folded}
		if !folded {
			r.parts[row] = t
		}
	}
	if t.epoch != epoch || folded {
		t.epoch = epoch
		for m, family := range partFamilies {
			var b labels.ScratchBuilder
			r.requests[row>>32].labels(&b)
			part.labels(&b)
			t.targets[m] = r.resolve(family, &b)
		}
	}
	return t
}

// fold returns the part that stands for all of a component beyond the bound.
func (k *partKey) fold() *partKey {
	return &partKey{service: series.Other, component: k.component, operation: series.Other}
}

func (k *partKey) labels(b *labels.ScratchBuilder) {
	addLabel(b, series.LabelPartService, k.service)
	addLabel(b, series.LabelComponent, k.component)
	addLabel(b, series.LabelPartOperation, k.operation)
	addLabel(b, series.LabelPartSystem, k.system)
}

func (r *targets) ofInstance(row uint64, part *partKey, instance string, epoch uint32) *partRow {
	k := instanceKey{row, instance}
	t := r.fans[k]
	if t == nil {
		t = &partRow{folded: r.len() >= r.max}
		if t.folded {
			part, instance = part.fold(), series.Other
		} else {
			r.fans[k] = t
		}
	}
	if t.epoch != epoch || t.folded {
		t.epoch = epoch
		for m, family := range [...]string{fanned: series.BreakdownFanout, endedLast: series.BreakdownLast} {
			var b labels.ScratchBuilder
			r.requests[row>>32].labels(&b)
			part.labels(&b)
			addLabel(&b, series.LabelPartInstance, instance)
			t.targets[m] = r.resolve(family, &b)
		}
	}
	return t
}

// skew resolves a series of clock_skew_seconds.
func (r *targets) skew(k skewKey, epoch uint32) Target {
	t := r.clocks[k]
	if t == nil {
		if len(r.clocks) >= r.max/16 {
			k.service, k.peer = series.Other, series.Other
		}
		if t = r.clocks[k]; t == nil {
			t = &reqRow{}
			r.clocks[k] = t
		}
	}
	if t.epoch != epoch {
		direction := "behind"
		if k.ahead {
			direction = "ahead"
		}
		b := labels.NewScratchBuilder(3)
		addLabel(&b, series.LabelService, k.service)
		addLabel(&b, "peer", k.peer)
		b.Add("direction", direction)
		t.target, t.epoch = r.resolve(series.ClockSkew, &b), epoch
	}
	return t.target
}
