package traces

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

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
	for i := range b.seen {
		s := &b.seen[i]
		if s.epoch != epoch {
			s.target, s.epoch = b.selfTargets(nameOf(s.name, s.tenant), []uint8{s.comp}, s.failed, epoch)[0], epoch
		}
		batch.Observe(s.target, s.end, s.nanos, s.weight)
	}
	for i := range b.moved {
		m := &b.moved[i]
		batch.Observe(b.rows.skew(m.skewKey, epoch), m.at, m.nanos, m.weight)
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
		rest := b.distribute(batch, epoch, order)
		if err := b.end(ctx, batch); err != nil {
			b.cells.retain(order)
			return err
		}
		order = rest
	}
	b.cells.drop()
	batch, epoch = b.begin()
	b.distributeFans(batch, epoch)
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

// selfRow holds the resolved series of span_self_seconds of one request by component. A
// request spends its time in a few components, so that one load finds all of them.
type selfRow struct {
	name    Name
	epoch   uint32 // 0 in an empty place
	block   uint8  // the row is of components selfComps*block and those after it
	failed  bool
	targets [selfComps]Target // 0: not resolved yet
}

const (
	selfComps    = 8
	selfRowBytes = 16 + 8*selfComps
)

// selfRows caches resolved series. A place holds the last row that belongs there. The table
// doubles while it fills, up to a bound.
type selfRows struct {
	table []selfRow
	used  int
	most  int64 // places, at most
}

func (s *selfRows) reset() { s.table, s.used = make([]selfRow, 64), 0 }

func (s *selfRows) bytes() int64 { return int64(len(s.table)) * selfRowBytes }

func (s *selfRows) place(name Name, block uint8, failed bool) *selfRow {
	kind := uint64(block) << 1
	if failed {
		kind |= 1
	}
	h, l := bits.Mul64(uint64(name)^0x9e3779b97f4a7c15, kind^0xd1b54a32d192ed03)
	return &s.table[(h^l)&uint64(len(s.table)-1)]
}

// grow doubles the table if it is half full and may grow.
func (s *selfRows) grow() {
	if 2*s.used < len(s.table) || 2*int64(len(s.table)) > s.most {
		return
	}
	old := s.table
	s.table, s.used = make([]selfRow, 2*len(old)), 0
	for i := range old {
		if t := &old[i]; t.epoch != 0 {
			p := s.place(t.name, t.block, t.failed)
			if p.epoch == 0 {
				s.used++
			}
			*p = *t
		}
	}
}

// row returns the row of a request and a block of components, without series if it is new.
// It is valid until the next call.
func (s *selfRows) row(name Name, block uint8, failed bool, epoch uint32) *selfRow {
	t := s.place(name, block, failed)
	if t.name != name || t.block != block || t.failed != failed || t.epoch != epoch {
		if t.epoch == 0 {
			s.used++
			s.grow()
			t = s.place(name, block, failed)
		}
		*t = selfRow{name: name, block: block, failed: failed, epoch: epoch}
	}
	return t
}

// selfTargets returns the targets of a request's series of components, from the cache if
// they are there. They are valid until the next call.
func (b *breakdown) selfTargets(name Name, comps []uint8, failed bool, epoch uint32) []Target {
	b.found = b.found[:0]
	missing := 0
	for _, comp := range comps {
		t := b.selves.row(name, comp/selfComps, failed, epoch).targets[comp%selfComps]
		if b.found = append(b.found, t); t == 0 {
			missing++
		}
	}
	for missing > 0 {
		b.missing = b.missing[:0]
		for i, comp := range comps {
			if b.found[i] == 0 {
				b.missing = append(b.missing, b.selfGroup(selfKey{name.common(), comp, failed}))
			}
		}
		b.resolved = b.c.a.o.Sink.Resolve(b.resolved[:0], b.missing, b.c.named[name.tenant()].name)
		rest := b.resolved
		for i, comp := range comps {
			if b.found[i] != 0 {
				continue
			}
			if b.found[i], rest = rest[0], rest[1:]; b.found[i] == 0 {
				delete(b.groups, selfKey{name.common(), comp, failed})
				continue
			}
			missing--
			b.selves.row(name, comp/selfComps, failed, epoch).targets[comp%selfComps] = b.found[i]
		}
	}
	return b.found
}

// selfKey identifies what the series of span_self_seconds of all tenants have in common.
type selfKey struct {
	common uint32
	comp   uint8
	failed bool
}

const (
	selfGroupBytes = 40 // approximate, with its place in the map
	maxSelfGroups  = 1 << 14
)

// selfGroup returns a group, which it resolves if it is not known.
func (b *breakdown) selfGroup(k selfKey) Group {
	g, ok := b.groups[k]
	if !ok {
		if len(b.groups) >= maxSelfGroups {
			clear(b.groups)
		}
		id := b.c.infos[k.common].id
		g = b.c.a.o.Sink.SelfGroup(&id, b.c.comps[k.comp], k.failed)
		b.groups[k] = g
	}
	return g
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

// targets resolves and caches the series of the breakdown, within a bound.
type targets struct {
	sink     Sink
	max      int
	gen      uint32
	began    int64    // Unix seconds: when all rows were last dropped
	requests []reqRow // [0] is not used
	byKey    map[reqKey]uint32
	parts    map[uint64]*partRow
	fans     map[instanceKey]*partRow
	clocks   map[skewKey]*reqRow
	cohorts  []cohortOf // each place holds the last that belongs there
	shift    int        // of a hash to a place
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

func (r *targets) init(sink Sink, most int, cohorts int64) {
	r.sink, r.max = sink, max(most, 64)
	r.shift = 64 - min(max(bits.Len64(uint64(cohorts))-1, 6), 15)
	r.reset()
}

// reset drops all rows. Nothing may refer to their numbers.
func (r *targets) reset() {
	r.gen++
	r.requests = make([]reqRow, 1)
	r.byKey, r.parts = map[reqKey]uint32{}, map[uint64]*partRow{}
	r.fans, r.clocks = map[instanceKey]*partRow{}, map[skewKey]*reqRow{}
	r.cohorts = make([]cohortOf, 1<<(64-r.shift))
}

// crowded reports whether the rows are near their bound, and old enough for some of them
// to be out of use.
func (r *targets) crowded(now int64) bool { return 4*r.len() > 3*r.max && now-r.began > 3600 }

func (r *targets) len() int { return len(r.requests) + len(r.parts) + len(r.fans) + len(r.clocks) }

func (r *targets) bytes() int64 { return int64(r.len())*rowBytes + int64(len(r.cohorts))*cohortBytes }

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

// cohort returns the number of the cohort of a tenant.
func (r *targets) cohort(info *common, t *tenant, number uint32, now int64) uint8 {
	key := uint64(info.service)<<32 | uint64(number)
	c := &r.cohorts[key*0x9e3779b97f4a7c15>>r.shift]
	if c.key != key || now-c.asked >= cohortAge {
		name := r.sink.Cohort(info.id.Service, t.name)
		*c = cohortOf{key, now, uint8(max(slices.Index(cohortNames[:], name), 0))}
	}
	return c.cohort
}

// request returns the number of a request's key. A quarter of all rows is for these;
// beyond it operations fold, and with too many services those too.
func (r *targets) request(info *common, t *tenant, number uint32, now int64) uint32 {
	if info.rowsGen != r.gen {
		info.rowsGen, info.rows = r.gen, [cohorts]uint32{}
	}
	cohort := r.cohort(info, t, number, now)
	row := &info.rows[cohort]
	if *row == 0 {
		*row = r.number(reqKey{info.id.Service, info.id.Environment, info.id.Operation, cohortNames[cohort]})
	}
	return *row
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
