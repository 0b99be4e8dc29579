package agg

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// memberTime is one duration of a tenant in a group of a span family.
type memberTime struct {
	nanos  int64
	slot   uint32 // slot number
	group  uint32 // number in memberLog.groups
	tenant uint32 // number in memberLog.tenants
	weight uint32
}

const (
	memberSlab      = 1 << 12 // durations of a slab
	memberSlabBytes = memberSlab * 24
	memberSortBytes = memberSlab * 16 // while the generation is stored; see memberLog.order
	memberNameBytes = 120             // of a tenant, beside its name
)

// memberLog holds a generation's durations of tenants in groups, in the order in which they
// came. Their Full series have neither numbers nor targets nor cells, because there are
// nearly as many of them as of these durations. Their histograms are made when the generation
// is stored, in order of group and tenant. Their Marginals are series like others.
type memberLog struct {
	slabs    [][]memberTime
	n        int
	groups   []memberSeries
	groupOf  map[series.ID]uint32 // by memberSeries.id: several instances share a Full series
	bySeries []uint32             // by the number of such a series: its group's plus one
	tenants  []memberTenant
	tenantOf map[string]uint32
}

// memberSeries is what the Full series of the tenants of a group have in common.
type memberSeries struct {
	id     series.ID // without the tenant
	shared series.Series
}

type memberTenant struct {
	name  string
	label series.ID // the part of a series' identity that the tenant adds
}

func (l *memberLog) at(i int) *memberTime { return &l.slabs[i/memberSlab][i%memberSlab] }

// group returns the number of a group, which keeps the labels of shared.
func (l *memberLog) group(id series.ID, shared *series.Series) uint32 {
	n, ok := l.groupOf[id]
	if !ok {
		if l.groupOf == nil {
			l.groupOf = map[series.ID]uint32{}
		}
		n = uint32(len(l.groups))
		l.groups = append(l.groups, memberSeries{id, *shared})
		l.groupOf[id] = n
	}
	return n
}

// memberGroup returns the number in g's log of the group of a Full series without a tenant.
func (a *Aggregator) memberGroup(g *generation, full uint32) uint32 {
	l := &g.cells.members
	if int(full) < len(l.bySeries) && l.bySeries[full] != 0 {
		return l.bySeries[full] - 1
	}
	if int(full) >= len(l.bySeries) {
		more := max(int(full)+1, a.reg.series.n) - len(l.bySeries)
		l.bySeries = append(l.bySeries, make([]uint32, more)...)
		g.cells.grew(int64(4 * more))
	}
	shared := a.reg.whole(full)
	n := l.group(a.reg.ids[full], &shared)
	l.bySeries[full] = n + 1
	a.holds(g, full) // its number is not used anew while the generation is in memory
	return n
}

// member adds a duration to the log.
func (g *cells) member(m memberTime) {
	l := &g.members
	if l.n == len(l.slabs)*memberSlab {
		l.slabs = append(l.slabs, take(g.pool, &g.pool.members, memberSlab))
		g.grew(memberSlabBytes + memberSortBytes)
	}
	l.n++
	*l.at(l.n - 1) = m
}

// memberTenant returns the number of a tenant in the log, which copies its name.
func (g *cells) memberTenant(name string) uint32 {
	l := &g.members
	n, ok := l.tenantOf[name]
	if !ok {
		if l.tenantOf == nil {
			l.tenantOf = map[string]uint32{}
		}
		n = uint32(len(l.tenants))
		l.tenants = append(l.tenants, memberTenant{string([]byte(name)), series.ID{}.With(series.LabelTenant, name)})
		l.tenantOf[l.tenants[n].name] = n
		g.grew(int64(len(name)) + memberNameBytes)
	}
	return n
}

// memberObservation is one duration of a derived batch.
type memberObservation struct {
	group  int // index in Batch.groups
	tenant string
	slot   uint32
	weight uint32
	nanos  int64
	bucket int32
}

// memberGroup is a group of a batch while it is committed.
type memberGroup struct {
	*group
	number uint32 // in the log
	target uint32 // of the Marginal alone
	last   *cell  // of the Marginal
}

// Group adds a group of family span_self_seconds to the batch, and returns its number there.
// The batch may use groups that were resolved shortly before it.
func (b *Batch) Group(g Group) int {
	b.groups = append(b.groups, memberGroupOf{id: g})
	return len(b.groups) - 1
}

type memberGroupOf struct {
	id Group
	memberGroup
}

// ObserveMember adds one duration of a tenant in a group of the batch, as Observe does. The
// batch must be derived; it retains the tenant's name until it ends.
func (b *Batch) ObserveMember(group int, tenant string, endNanos, durationNanos int64, weight uint32) {
	if durationNanos < 0 || !b.derived {
		b.rejects.Invalid++
		return
	}
	if b.inRange(endNanos) {
		b.members = append(b.members, memberObservation{group, tenant, uint32(endNanos / slotNanos), max(weight, 1), durationNanos, int32(b.tab.bucket(durationNanos))})
	}
}

// resolveGroups resolves the groups of a batch. It changes nothing that is counted if it fails.
func (a *Aggregator) resolveGroups(b *Batch) error {
	r := a.reg
	for i := range b.groups {
		x := &b.groups[i]
		g := r.lately(x.id)
		if g == nil {
			return fmt.Errorf("group %d is of an earlier turn: resolve groups anew for each batch", x.id)
		}
		if g.marginal == 0 {
			r.joinMarginal(g)
		}
		key := g.key.Plus(ownTarget)
		n := r.lookup.Find(r.keys, key)
		if n == 0 {
			n = r.newTarget(key, g.marginal, 0)
			t := r.targets.at(n)
			t.service, t.derived = g.service, true
		}
		r.targets.at(n).used = uint32(a.open.number)
		x.memberGroup = memberGroup{group: g, number: a.open.cells.members.group(g.full, &g.shared), target: n}
	}
	return nil
}

// ownTarget is added to the key of a group for the target of its Marginal.
var ownTarget = series.ID{}.With("", "marginal")

// observeMembers adds the durations of a batch, whose groups are resolved.
func (a *Aggregator) observeMembers(g *generation, b *Batch) (folded uint64) {
	var (
		k       spanKey
		number  uint32
		service uint32
		named   bool // the last tenant keeps its name in the last service
		at      lastCells
	)
	pressed := len(b.members) > 0 && a.pressed()
	for i := range b.members {
		m := &b.members[i]
		x := &b.groups[m.group].memberGroup
		if i == 0 || m.tenant != b.members[i-1].tenant {
			k.setTenant(m.tenant)
			number, service = g.cells.memberTenant(m.tenant), 0
		}
		if x.service != service {
			service = x.service
			named = k.tenant != 0 && m.tenant != series.Other && !pressed && a.reg.services[service].tenants.admit(k.tenant)
		}
		if named {
			a.logMember(g, &x.last, x.marginal, memberTime{m.nanos, m.slot, x.number, number, m.weight}, int(m.bucket))
			continue
		}
		// A series without a tenant, or of all tenants that are folded, has many durations.
		k.group = x.key
		k.target = k.group.Plus(k.label)
		n := a.reg.lookup.Find(a.reg.keys, k.target)
		if n == 0 {
			n = a.reg.member(x.group, m.tenant, &k, pressed)
		}
		t := a.reg.targets.at(n)
		t.used = uint32(g.number)
		if t.folded {
			folded++
		}
		a.observe(g, &at, t.full, t.marginal, m.slot, m.nanos, m.weight, int(m.bucket))
	}
	return folded
}

// count adds what was seen of the tenant in its last service to its weight there.
func (m *batchTenant) count(reg *registry) {
	if m.spans+m.requests == 0 {
		return
	}
	h := m.hash // also of one that is folded, which may become heavy
	if m.name == series.Other {
		h = 0
	}
	reg.weigh(m.service, h, m.spans, m.requests)
	m.spans, m.requests = 0, 0
}

// observeTenant adds a span of a tenant whose target has none: to the log and to the Marginal.
// It adds the span of a folded tenant to the series of all such, and reports that.
func (a *Aggregator) observeTenant(g *generation, m *batchTenant, at *lastCells, s *observation) (folded bool) {
	n := s.target.index()
	t := a.reg.targets.at(n)
	if t.service != m.service {
		m.count(a.reg)
		m.service = t.service
	}
	switch {
	case t.derived: // the tenant's weight counts the spans
	case t.request:
		m.requests += uint64(s.weight)
	default:
		m.spans += uint64(s.weight)
	}
	if m.folded || m.name == series.Other {
		other := a.reg.targets.at(a.reg.foldedTarget(n))
		other.used = uint32(g.number)
		a.observe(g, at, other.full, other.marginal, s.slot, s.nanos, s.weight, int(s.bucket))
		return m.folded
	}
	if m.number == 0 {
		m.number = 1 + g.cells.memberTenant(m.name)
	}
	a.logMember(g, &at.marginal, t.marginal, memberTime{s.nanos, s.slot, a.memberGroup(g, t.full), m.number - 1, s.weight}, int(s.bucket))
	return false
}

// logMember adds a duration to the log, and to its Marginal, of which last is the last cell.
func (a *Aggregator) logMember(g *generation, last **cell, marginal uint32, m memberTime, bucket int) {
	g.cells.member(m)
	g.cells.observe(a.cell(g, last, marginal, m.slot<<2|modeDurations), m.nanos, m.weight, bucket)
}

// absorbMembers moves durations of the log to the cells of their series where that has some,
// because it was resolved with its tenant. So a series is once in what is stored.
func (g *cells) absorbMembers(t *tables) {
	l := &g.members
	if !g.numbered || l.n == 0 {
		return
	}
	numbers := map[series.ID]uint32{}
	for s, h := range g.heads {
		if h != 0 && t.series.at(uint32(s)).tenant != 0 {
			numbers[t.ids[s]] = uint32(s)
		}
	}
	kept := 0
	for i := range l.n {
		m := *l.at(i)
		if s, ok := numbers[l.groups[m.group].id.Plus(l.tenants[m.tenant].label)]; ok {
			c, _ := g.cell(s, m.slot<<2|modeDurations)
			g.observe(c, m.nanos, m.weight, g.tab.bucket(m.nanos))
			continue
		}
		*l.at(kept) = m
		kept++
	}
	l.n = kept
}

// memberOrder is the order in which the durations of a log are stored: by group, tenant and
// slot. Those of one series and slot stay in the order in which they came.
type memberOrder struct {
	log   *memberLog
	slots []uint32          // all, in order
	place map[uint32]uint32 // by slot: its index in slots
	// list has an element for each duration: its index in the lowest bits, the index of its
	// slot above them, and above those a number of its series. If there are not enough bits
	// it has the index alone.
	list                []uint64
	indexBits, slotBits int
	keyed               bool
}

// radixBits bounds the bits of a pass of the sort. More streams of writes than that do not fit
// into the nearest cache.
const radixBits = 11

// order sorts the log, which is not empty, by keys of up to so many bits if these are enough,
// else by comparison. It takes memberSortBytes for each slab.
func (l *memberLog) order(most int) *memberOrder {
	o := &memberOrder{log: l, place: map[uint32]uint32{}, list: make([]uint64, l.n)}
	last := ^uint32(0)
	for i := range l.n {
		if s := l.at(i).slot; s != last || i == 0 {
			o.place[s], last = 0, s
		}
	}
	for s := range o.place {
		o.slots = append(o.slots, s)
	}
	slices.Sort(o.slots)
	for i, s := range o.slots {
		o.place[s] = uint32(i)
	}
	pairs := uint64(len(l.groups)) * uint64(len(l.tenants))
	o.indexBits, o.slotBits = bits.Len(uint(l.n-1)), bits.Len(uint(len(o.slots)-1))
	keyBits := bits.Len64(pairs-1) + o.slotBits
	if o.keyed = keyBits+o.indexBits <= most; !o.keyed {
		for i := range o.list {
			o.list[i] = uint64(i)
		}
		slices.SortStableFunc(o.list, func(i, j uint64) int {
			x, y := l.at(int(i)), l.at(int(j))
			return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.slot, y.slot))
		})
		return o
	}
	slot := uint64(0)
	for i := range o.list {
		m := l.at(i)
		if i == 0 || m.slot != last {
			slot, last = uint64(o.place[m.slot]), m.slot
		}
		pair := uint64(m.group)*uint64(len(l.tenants)) + uint64(m.tenant)
		o.list[i] = (pair<<o.slotBits|slot)<<o.indexBits | uint64(i)
	}
	passes := (keyBits + radixBits - 1) / radixBits
	from, to := o.list, make([]uint64, l.n)
	for i := range passes {
		low, high := keyBits*i/passes, keyBits*(i+1)/passes
		shift, mask := o.indexBits+low, uint64(1)<<(high-low)-1
		var at [1<<radixBits + 1]uint32
		for _, v := range from {
			at[v>>shift&mask+1]++
		}
		for i := range mask {
			at[i+1] += at[i]
		}
		for _, v := range from {
			p := &at[v>>shift&mask]
			to[*p] = v
			*p++
		}
		from, to = to, from
	}
	o.list = from
	return o
}

// duration returns the duration of an element of the list.
func (o *memberOrder) duration(x uint64) *memberTime {
	if o.keyed {
		x &= 1<<o.indexBits - 1
	}
	return o.log.at(int(x))
}

// slot returns the index in slots of an element of the list.
func (o *memberOrder) slot(x uint64) int {
	if o.keyed {
		return int(x >> o.indexBits & (1<<o.slotBits - 1))
	}
	return int(o.place[o.duration(x).slot])
}

// same reports whether two elements of the list are of one series, and of one point.
func (o *memberOrder) same(x, y uint64) (series, point bool) {
	if o.keyed {
		x, y = x>>o.indexBits, y>>o.indexBits
		return x>>o.slotBits == y>>o.slotBits, x == y
	}
	a, b := o.duration(x), o.duration(y)
	series = a.group == b.group && a.tenant == b.tenant
	return series, series && a.slot == b.slot
}

// count returns the numbers of series, and of points by index in slots.
func (o *memberOrder) count() (n int, points []int) {
	points = make([]int, len(o.slots))
	for i, x := range o.list {
		series, point := false, false
		if i > 0 {
			series, point = o.same(o.list[i-1], x)
		}
		if !series {
			n++
		}
		if !point {
			points[o.slot(x)]++
		}
	}
	return n, points
}

// memberPoints adds to the batch, which has the tenants of the log from index 1 on, the series
// of the log and their points, which lie behind those of the cells in each slot.
func (w *builder) memberPoints(b *store.Batch, o *memberOrder) {
	n, next := o.count()
	b.Series, b.IDs, b.TenantOf = slices.Grow(b.Series, n), slices.Grow(b.IDs, n), slices.Grow(b.TenantOf, n)
	b.Points = parted(b.Points, o.slots, next)
	lost := w.lost
	// Memory is slow: durations are copied many at a time, so that many fetches are under way.
	var some [256]memberTime
	for from := 0; from < len(o.list); from += len(some) {
		part := o.list[from:min(from+len(some), len(o.list))]
		for i, x := range part {
			some[i] = *o.duration(x)
		}
		for i, x := range part {
			m := &some[i]
			series, point := false, false
			if from+i > 0 {
				series, point = o.same(o.list[from+i-1], x)
			}
			if !point {
				w.memberPoint(b, o, next)
			}
			if !series {
				g, t := &o.log.groups[m.group], &o.log.tenants[m.tenant]
				b.Series = append(b.Series, g.shared)
				b.IDs, b.TenantOf = append(b.IDs, g.id.Plus(t.label)), append(b.TenantOf, 1+m.tenant)
			}
			w.times.add(m)
			if !point {
				w.times.slot = o.slot(x)
			}
		}
	}
	w.memberPoint(b, o, next)
	if w.lost > lost {
		b.Points = slices.DeleteFunc(b.Points, func(p store.Point) bool { return p.Data == nil })
	}
}

// pointTimes holds the durations of one series and slot.
type pointTimes struct {
	slot     int // index in memberOrder.slots
	nanos    []int64
	weights  []uint32
	weighted bool // some weight is not 1
	zero     bool // some duration is
}

func (t *pointTimes) add(m *memberTime) {
	t.nanos, t.weights = append(t.nanos, m.nanos), append(t.weights, m.weight)
	t.weighted = t.weighted || m.weight != 1
	t.zero = t.zero || m.nanos == 0
}

func (t *pointTimes) reset() { *t = pointTimes{nanos: t.nanos[:0], weights: t.weights[:0]} }

// memberPoint writes the point of w.times, of the last series of the batch, to its place, and
// resets w.times. A point that cannot be encoded has no data.
func (w *builder) memberPoint(b *store.Batch, o *memberOrder, next []int) {
	t := &w.times
	if len(t.nanos) == 0 {
		return
	}
	p := &b.Points[next[t.slot]]
	next[t.slot]++
	*p = store.Point{Series: uint32(len(b.Series) - 1), Slot: int64(o.slots[t.slot]) * int64(series.Base)}
	data := w.openBlock()
	from := len(data)
	data, err := w.appendTimes(data, t)
	t.reset()
	if err != nil {
		w.lost, w.err = w.lost+1, err
		return
	}
	w.data[w.block] = data
	p.Data = data[from:len(data):len(data)]
}

// fewTimes is the number of durations up to which hist encodes them from a list.
const fewTimes = 16

// appendTimes appends the binary form of the durations of one series and slot.
func (w *builder) appendTimes(dst []byte, t *pointTimes) ([]byte, error) {
	if len(t.nanos) <= fewTimes && !t.zero && !t.weighted {
		return hist.AppendNanos(dst, cellSchema, t.nanos, nil)
	}
	if w.scratch == nil {
		w.scratch = newCells(&slabs{}, 0)
	}
	s, c := w.scratch, cell{}
	for i, ns := range t.nanos {
		s.observe(&c, ns, t.weights[i], s.tab.bucket(ns))
	}
	dst, err := s.appendDurations(dst, &c, &w.h)
	if c.n == paged {
		s.freePage(&c)
		clear(s.spill)
	}
	return dst, err
}

// parted makes space in points, which are in order of slot, for n more of each slot, behind
// those that are of the slot. Each n becomes the index of the first of them.
func parted(points []store.Point, slots []uint32, n []int) []store.Point {
	i, more := len(points), 0
	for _, k := range n {
		more += k
	}
	points = slices.Grow(points, more)[:len(points)+more]
	for s := len(slots) - 1; s >= 0; s-- {
		for ; i > 0 && points[i-1].Slot > int64(slots[s])*int64(series.Base); i-- {
			points[i-1+more] = points[i-1]
		}
		more -= n[s]
		n[s] = i + more
	}
	return points
}

// matchedMember is a series of the log that a question matches.
type matchedMember struct {
	series series.Series
	group  *unstoredGroup // nil at first
	listed bool
}

// membership tells whether a question matches a tenant; 0 is not known yet.
type membership uint8

const (
	isMember membership = 1 + iota
	noMember
)

// readMembers calls yield with each duration of g's log whose series matches. It holds mu
// meanwhile, and returns it between calls. It ends early when g is stored.
func (a *Aggregator) readMembers(ctx context.Context, g *generation, family string, matchers []*labels.Matcher, yield func(*matchedMember, *memberTime) error) error {
	ofTenant, ofRest := splitTenant(matchers)
	l := &g.cells.members
	type pair struct{ group, tenant uint32 }
	matching := map[pair]*matchedMember{}
	g.reading.RLock()
	defer g.reading.RUnlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	// Groups and tenants that are numbered meanwhile may be missing.
	units, some := 0, false
	groups, tenants := make([]bool, len(l.groups)), make([]membership, len(l.tenants))
	for n := range groups {
		if err := a.letIngest(ctx, &units); err != nil {
			return err
		}
		if g.stored {
			return nil
		}
		of := &l.groups[n].shared
		groups[n] = (family == "" || family == of.Family) && series.Matches(of.Labels, ofRest)
		some = some || groups[n]
		units += readMatch / 4
	}
	for _, x := range ofTenant {
		if _, ok := l.tenantOf[x.Value]; x.Type == labels.MatchEqual && !ok {
			return nil
		}
	}
	if !some {
		return nil
	}
	for i := 0; i < l.n; i++ {
		if err := a.letIngest(ctx, &units); err != nil {
			return err
		}
		if g.stored {
			return nil
		}
		m := l.at(i)
		if int(m.group) >= len(groups) || !groups[m.group] || int(m.tenant) >= len(tenants) || tenants[m.tenant] == noMember {
			continue
		}
		if tenants[m.tenant] == 0 {
			tenants[m.tenant] = isMember
			units += readMatch / 4
			if slices.ContainsFunc(ofTenant, func(x *labels.Matcher) bool { return !x.Matches(l.tenants[m.tenant].name) }) {
				tenants[m.tenant] = noMember
				continue
			}
		}
		p := pair{m.group, m.tenant}
		s := matching[p]
		if s == nil {
			s = &matchedMember{series: l.groups[m.group].shared.WithTenant(l.tenants[m.tenant].name)}
			matching[p] = s
		}
		units += readMatch / 4
		if err := yield(s, m); err != nil {
			return err
		}
	}
	return nil
}
