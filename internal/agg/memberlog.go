package agg

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// memberTime is one duration of a tenant.
type memberTime struct {
	nanos    int64
	slot     uint32 // slot number
	marginal uint32 // number in memberLog.marginals, which has the group too
	tenant   uint32 // number in memberLog.tenants
	weight   uint32
}

// loggedTime is a memberTime in the log: 16 bytes. Its time holds nanoseconds in the lowest
// nanosBits bits and the slot above rareBit, as its distance from memberLog.base; or, with
// rareBit, the number in memberLog.rare of what does not fit.
type loggedTime struct {
	time             uint64
	marginal, tenant uint32
}

const (
	nanosBits = 39 // nine minutes
	rareBit   = 1 << nanosBits
	slotShift = nanosBits + 1
	slotSpan  = 1 << (64 - slotShift) // five years of slots
)

// rareTime is a duration that is long, has a weight or is far from the others.
type rareTime struct {
	nanos        int64
	slot, weight uint32
}

const (
	memberSlab      = 1 << 12 // durations of a slab
	memberSlabBytes = memberSlab * 16
	memberSortBytes = memberSlab * 16 // while the generation is stored; see memberLog.order
	memberNameBytes = 100             // of a tenant, beside its name and tenantOf
)

// memberLog holds a generation's durations of tenants in groups, in the order in which they
// came. Their Full series have neither numbers nor targets nor cells, because there are
// nearly as many of them as of these durations. Their histograms are made when the generation
// is stored, in order of group and tenant. Their Marginals are series like others, whose cells
// get the durations of a slab at once; see cells.observeMarginals.
type memberLog struct {
	slabs      [][]loggedTime
	n          int
	base       int64  // slot number
	widest     uint64 // all nanoseconds that are not rare, or-ed
	rare       list[rareTime]
	marginals  []memberMarginal
	marginalOf []uint32             // by the number of a Marginal: its first number here plus one
	others     map[[2]uint32]uint32 // by memberMarginal.series and full: further ones, which only a strange journal has
	applied    int                  // durations that the cells of Marginals have
	groups     []memberSeries
	groupOf    map[series.ID]uint32 // by memberSeries.id: several instances share a Full series
	tenants    []memberTenant
	tenantOf   []uint64 // open addressing: a number plus one, and above bit 32 the low half of the name's hash; 0 is empty
}

// memberMarginal is a Marginal of a log.
type memberMarginal struct {
	series uint32
	full   uint32 // the Full series without a tenant, 0 if it has no number
	group  uint32 // number in memberLog.groups
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

func (l *memberLog) at(i int) *loggedTime { return &l.slabs[i/memberSlab][i%memberSlab] }

// whole returns a duration of the log.
func (l *memberLog) whole(m *loggedTime) memberTime {
	if m.time&rareBit != 0 {
		r := l.rare.at(uint32(m.time & (rareBit - 1)))
		return memberTime{r.nanos, r.slot, m.marginal, m.tenant, r.weight}
	}
	return memberTime{int64(m.time & (rareBit - 1)), l.slot(m), m.marginal, m.tenant, 1}
}

// slot returns the slot number of a duration.
func (l *memberLog) slot(m *loggedTime) uint32 {
	if m.time&rareBit != 0 {
		return l.rare.at(uint32(m.time & (rareBit - 1))).slot
	}
	return uint32(l.base + int64(m.time>>slotShift))
}

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

// memberMarginal returns the number in g's log of a Marginal and a Full series without a tenant.
func (a *Aggregator) memberMarginal(g *generation, marginal, full uint32) uint32 {
	l := &g.cells.members
	if int(marginal) < len(l.marginalOf) {
		if n := l.marginalOf[marginal]; n != 0 && l.marginals[n-1].full == full {
			return n - 1
		}
	}
	if n, ok := l.others[[2]uint32{marginal, full}]; ok {
		return n
	}
	shared := a.reg.whole(full)
	a.holds(g, full) // its number is not used anew while the generation is in memory
	return a.numberMarginal(g, memberMarginal{marginal, full, l.group(a.reg.ids[full], &shared)})
}

// numberMarginal returns the number in g's log of a Marginal.
func (a *Aggregator) numberMarginal(g *generation, m memberMarginal) uint32 {
	l := &g.cells.members
	if int(m.series) >= len(l.marginalOf) {
		more := max(int(m.series)+1, a.reg.series.n) - len(l.marginalOf)
		l.marginalOf = append(l.marginalOf, make([]uint32, more)...)
		g.cells.grew(int64(4 * more))
	}
	first := &l.marginalOf[m.series]
	if *first != 0 && l.marginals[*first-1] == m {
		return *first - 1
	}
	k := [2]uint32{m.series, m.full}
	if n, ok := l.others[k]; ok {
		return n
	}
	n := uint32(len(l.marginals))
	l.marginals = append(l.marginals, m)
	a.holds(g, m.series)
	switch {
	case *first == 0:
		*first = n + 1
	case l.others == nil:
		l.others = map[[2]uint32]uint32{}
		fallthrough
	default:
		l.others[k] = n
	}
	return n
}

// member adds a duration to the log.
func (g *cells) member(m memberTime) {
	l := &g.members
	if l.n == len(l.slabs)*memberSlab {
		g.observeMarginals()
		if l.n == 0 {
			l.base = int64(m.slot) - slotSpan/2
		}
		l.slabs = append(l.slabs, take(g.pool, &g.pool.members, memberSlab))
		g.grew(memberSlabBytes + memberSortBytes)
	}
	to := loggedTime{marginal: m.marginal, tenant: m.tenant}
	if far := int64(m.slot) - l.base; m.weight == 1 && uint64(m.nanos) < rareBit && uint64(far) < slotSpan {
		to.time = uint64(far)<<slotShift | uint64(m.nanos)
		l.widest |= uint64(m.nanos)
	} else {
		if l.rare.n == int(l.rare.capacity()) {
			g.grew(pageLen * 16)
		}
		to.time = uint64(l.rare.n) | rareBit
		l.rare.push(rareTime{m.nanos, m.slot, m.weight})
	}
	l.n++
	*l.at(l.n - 1) = to
}

// observeMarginals adds the durations that the cells of Marginals lack, a slab at a time:
// those of a Marginal follow each other, so that its cell and page are near.
func (g *cells) observeMarginals() {
	l := &g.members
	for l.applied < l.n {
		from := l.applied % memberSlab
		part := l.slabs[l.applied/memberSlab][from:min(memberSlab, from+l.n-l.applied)]
		g.observePart(part)
		l.applied += len(part)
	}
}

// observePart adds at most a slab of durations to the cells of their Marginals. Those of one
// Marginal are added in the order in which they came.
func (g *cells) observePart(part []loggedTime) {
	const most = 10
	var (
		l     = &g.members
		order [memberSlab]uint16
		at    [1 << most]uint16
		mask  = uint32(1)<<min(bits.Len(uint(len(l.marginals)-1)), most) - 1
	)
	for i := range part {
		at[part[i].marginal&mask]++
	}
	sum := uint16(0)
	for k := range at[:mask+1] {
		at[k], sum = sum, sum+at[k]
	}
	for i := range part {
		p := &at[part[i].marginal&mask]
		order[*p] = uint16(i)
		*p++
	}
	for i := 0; i < len(part); {
		m := &part[order[i]]
		end := i + 1
		for end < len(part) && part[order[end]].marginal == m.marginal && part[order[end]].time>>nanosBits == m.time>>nanosBits {
			end++
		}
		if m.time&rareBit != 0 {
			end = i + 1
		}
		c, _ := g.cell(l.marginals[m.marginal].series, l.slot(m)<<2|modeDurations)
		g.observeRun(c, part, order[i:end])
		i = end
	}
}

// observeRun adds durations of one series and slot, at their places in part, to a cell.
func (g *cells) observeRun(c *cell, part []loggedTime, places []uint16) {
	for len(places) > 0 {
		if c.n != paged || c.flags&flagWeighted != 0 {
			m := g.members.whole(&part[places[0]])
			g.observe(c, m.nanos, m.weight, g.tab.bucket(m.nanos))
			places = places[1:]
			continue
		}
		// What is plain is added without a look at the cell.
		counts, base := g.counts(c), c.base()
		var n, total uint64
		least, most := uint64(math.MaxUint64), uint64(0)
		for n < uint64(len(places)) {
			ns := part[places[n]].time & (2*rareBit - 1)
			if ns == 0 || ns >= rareBit {
				break
			}
			k := g.tab.find(int64(ns)) - base
			if uint(k) >= uint(len(counts)) || counts[k] == math.MaxUint32 {
				break
			}
			counts[k]++
			total += ns
			least, most = min(least, ns), max(most, ns)
			n++
		}
		g.moments(c, n, total, 0, least, most)
		if places = places[n:]; len(places) > 0 {
			m := g.members.whole(&part[places[0]])
			g.observe(c, m.nanos, m.weight, g.tab.bucket(m.nanos))
			places = places[1:]
		}
	}
}

// memberTenant returns the number of a tenant in the log, which copies its name. hash is the
// tenantHash of the name.
func (g *cells) memberTenant(name string, hash uint64) uint32 {
	l := &g.members
	if n := l.tenant(name, hash); n != 0 {
		return n - 1
	}
	if 3*len(l.tenants) >= 2*len(l.tenantOf) {
		old := l.tenantOf
		l.tenantOf = make([]uint64, max(2*len(old), 256))
		g.grew(int64(8 * (len(l.tenantOf) - len(old))))
		for _, x := range old {
			if x != 0 {
				l.placeTenant(x)
			}
		}
	}
	l.tenants = append(l.tenants, memberTenant{string([]byte(name)), tenantLabel(name)})
	l.placeTenant(hash<<32 | uint64(len(l.tenants)))
	g.grew(int64(len(name)) + memberNameBytes)
	return uint32(len(l.tenants)) - 1
}

// tenant returns the number of a tenant plus one, or 0 if the log lacks it.
func (l *memberLog) tenant(name string, hash uint64) uint32 {
	if len(l.tenantOf) == 0 {
		return 0
	}
	mask := uint32(len(l.tenantOf) - 1)
	for p := uint32(placeOf(uint64(uint32(hash)))); ; p++ {
		x := l.tenantOf[p&mask]
		if x == 0 {
			return 0
		}
		if uint32(x>>32) == uint32(hash) && l.tenants[uint32(x)-1].name == name {
			return uint32(x)
		}
	}
}

func (l *memberLog) placeTenant(x uint64) {
	mask := uint32(len(l.tenantOf) - 1)
	p := uint32(placeOf(x >> 32))
	for l.tenantOf[p&mask] != 0 {
		p++
	}
	l.tenantOf[p&mask] = x
}

// tenantLabel returns the part of a series' identity that a tenant adds.
func tenantLabel(name string) series.ID { return series.ID{}.With(series.LabelTenant, name) }

// memberObservation is one duration of a derived batch.
type memberObservation struct {
	group  int // index in Batch.groups
	tenant string
	slot   uint32
	weight uint32
	nanos  int64
}

// memberGroup is a group of a batch while it is committed.
type memberGroup struct {
	*group
	number uint32 // of its Marginal in the log
	target uint32 // of the Marginal alone
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
		b.members = append(b.members, memberObservation{group, tenant, uint32(endNanos / slotNanos), max(weight, 1), durationNanos})
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
		m := memberMarginal{series: g.marginal, group: a.open.cells.members.group(g.full, &g.shared)}
		x.memberGroup = memberGroup{group: g, number: a.numberMarginal(a.open, m), target: n}
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
			number, service = g.cells.memberTenant(m.tenant, k.tenant), 0
		}
		if x.service != service {
			service = x.service
			named = k.tenant != 0 && m.tenant != series.Other && !pressed && a.reg.services[service].tenants.admit(k.tenant)
		}
		if named {
			g.cells.member(memberTime{m.nanos, m.slot, x.number, number, m.weight})
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
		a.observe(g, &at, t.full, t.marginal, m.slot, m.nanos, m.weight, b.tab.bucket(m.nanos))
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
func (a *Aggregator) observeTenant(g *generation, m *batchTenant, at *lastCells, t *target, s *observation) (folded bool) {
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
		other := a.reg.targets.at(a.reg.foldedTarget(s.target.index()))
		other.used = uint32(g.number)
		a.observe(g, at, other.full, other.marginal, s.slot, s.nanos, s.weight, g.cells.tab.bucket(s.nanos))
		return m.folded
	}
	if m.number == 0 {
		m.number = 1 + g.cells.memberTenant(m.name, m.hash)
	}
	g.cells.member(memberTime{s.nanos, s.slot, a.memberMarginal(g, t.marginal, t.full), m.number - 1, s.weight})
	return false
}

// absorbMembers moves durations of the log to the cells of their series where that has some,
// because it was resolved with its tenant. So a series is once in what is stored. The cells of
// Marginals have all durations by then.
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
		logged := *l.at(i)
		if s, ok := numbers[l.groups[l.marginals[logged.marginal].group].id.Plus(l.tenants[logged.tenant].label)]; ok {
			m := l.whole(&logged)
			c, _ := g.cell(s, m.slot<<2|modeDurations)
			g.observe(c, m.nanos, m.weight, g.tab.bucket(m.nanos))
			continue
		}
		*l.at(kept) = logged
		kept++
	}
	l.n, l.applied = kept, kept
}

// memberOrder is the order in which the durations of a log are stored: by group, tenant and
// slot. Those of one series and slot stay in the order in which they came.
type memberOrder struct {
	log   *memberLog
	slots []uint32          // all, in order
	place map[uint32]uint32 // by slot: its index in slots
	// list has an element for each duration. Keyed ones hold a key above bit low: a number of
	// the series, and in slotBits bits the index of the slot. What is below is the duration's
	// index in the log; or, if packed, its nanoseconds, or with the highest bit its number
	// among the rare. Elements that are not keyed, for want of bits, are the index alone.
	list          []uint64
	low, slotBits int
	keyed, packed bool
}

// radixBits bounds the bits of a pass of the sort. More streams of writes than that do not fit
// into the nearest cache.
const radixBits = 11

// maxPasses bounds the passes of a sort.
const maxPasses = (64 + radixBits - 1) / radixBits

// each calls yield with the durations in order of their indices.
func (l *memberLog) each(yield func(i int, m *loggedTime)) {
	for at := 0; at < l.n; at += memberSlab {
		part := l.slabs[at/memberSlab][:min(memberSlab, l.n-at)]
		for i := range part {
			yield(at+i, &part[i])
		}
	}
}

// order sorts the log, which is not empty, by keys of up to so many bits if these are enough,
// else by comparison. It takes memberSortBytes for each slab.
func (l *memberLog) order(most int) *memberOrder {
	o := &memberOrder{log: l, place: map[uint32]uint32{}, list: make([]uint64, l.n)}
	// Those of a slot come together, at its bounds those of two alternate.
	var near [256]struct{ slot, index uint32 } // the index plus one
	l.each(func(_ int, m *loggedTime) {
		s := l.slot(m)
		if c := &near[s%256]; c.slot != s || c.index == 0 {
			c.slot, c.index = s, 1
			o.place[s] = 0
		}
	})
	for s := range o.place {
		o.slots = append(o.slots, s)
	}
	slices.Sort(o.slots)
	for i, s := range o.slots {
		o.place[s] = uint32(i)
	}
	pairs := uint64(len(l.groups)) * uint64(len(l.tenants))
	o.slotBits = bits.Len(uint(len(o.slots) - 1))
	keyBits := bits.Len64(pairs-1) + o.slotBits
	valueBits := 1 + max(bits.Len64(l.widest), bits.Len(uint(l.rare.n)))
	indexBits := bits.Len(uint(l.n - 1))
	switch {
	case keyBits+valueBits <= most:
		o.keyed, o.packed, o.low = true, true, valueBits
	case keyBits+indexBits <= most:
		o.keyed, o.low = true, indexBits
	default:
		for i := range o.list {
			o.list[i] = uint64(i)
		}
		slices.SortStableFunc(o.list, func(i, j uint64) int {
			x, y := l.at(int(i)), l.at(int(j))
			return cmp.Or(cmp.Compare(l.marginals[x.marginal].group, l.marginals[y.marginal].group), cmp.Compare(x.tenant, y.tenant), cmp.Compare(l.slot(x), l.slot(y)))
		})
		return o
	}
	passes := (keyBits + radixBits - 1) / radixBits
	at := make([][1<<radixBits + 1]uint32, passes) // of each pass: how many come before those of a value
	first := make([]uint64, len(l.marginals))      // number of the first series of the group
	for i := range first {
		first[i] = uint64(l.marginals[i].group) * uint64(len(l.tenants))
	}
	var shift, mask [maxPasses]uint64
	for p := range passes {
		low, high := keyBits*p/passes, keyBits*(p+1)/passes
		shift[p], mask[p] = uint64(low), uint64(1)<<(high-low)-1
	}
	for i := range near {
		near[i].index = 0
	}
	l.each(func(i int, m *loggedTime) {
		s := l.slot(m)
		c := &near[s%256]
		if c.slot != s || c.index == 0 {
			c.slot, c.index = s, o.place[s]+1
		}
		key, value := (first[m.marginal]+uint64(m.tenant))<<o.slotBits|uint64(c.index-1), uint64(i)
		if o.packed {
			value = m.time & (rareBit - 1)
			if m.time&rareBit != 0 {
				value |= 1 << (valueBits - 1)
			}
		}
		o.list[i] = key<<o.low | value
		for p := range at {
			at[p][1+key>>(shift[p]&63)&mask[p]]++
		}
	})
	from, to := o.list, make([]uint64, l.n)
	for p := range at {
		shift, mask, at := uint64(o.low)+shift[p], mask[p], &at[p]
		for i := range mask {
			at[i+1] += at[i]
		}
		for _, v := range from {
			p := &at[v>>(shift&63)&mask]
			to[*p] = v
			*p++
		}
		from, to = to, from
	}
	o.list = from
	return o
}

// logged returns an element of the list in the log, if they are not packed.
func (o *memberOrder) logged(x uint64) *loggedTime {
	if o.keyed {
		x &= 1<<o.low - 1
	}
	return o.log.at(int(x))
}

// duration returns the duration of an element of the list, and how many it stands for.
func (o *memberOrder) duration(x uint64) (nanos int64, weight uint32) {
	if !o.packed {
		m := o.log.whole(o.logged(x))
		return m.nanos, m.weight
	}
	if x>>(o.low-1)&1 != 0 {
		r := o.log.rare.at(uint32(x & (1<<(o.low-1) - 1)))
		return r.nanos, r.weight
	}
	return int64(x & (1<<(o.low-1) - 1)), 1
}

// series returns the numbers of group and tenant of an element of the list.
func (o *memberOrder) series(x uint64) (group, tenant uint32) {
	if !o.packed {
		m := o.logged(x)
		return o.log.marginals[m.marginal].group, m.tenant
	}
	n := x >> o.low >> o.slotBits
	t := uint64(len(o.log.tenants))
	return uint32(n / t), uint32(n % t)
}

// slot returns the index in slots of an element of the list.
func (o *memberOrder) slot(x uint64) int {
	if o.keyed {
		return int(x >> o.low & (1<<o.slotBits - 1))
	}
	return int(o.place[o.log.slot(o.logged(x))])
}

// same reports whether two elements of the list are of one series, and of one point.
func (o *memberOrder) same(x, y uint64) (series, point bool) {
	if o.keyed {
		x, y = x>>o.low, y>>o.low
		return x>>o.slotBits == y>>o.slotBits, x == y
	}
	group, tenant := o.series(x)
	group2, tenant2 := o.series(y)
	series = group == group2 && tenant == tenant2
	return series, series && o.slot(x) == o.slot(y)
}

// count returns the numbers of series, and of points by index in slots.
func (o *memberOrder) count() (n int, points []int) {
	points = make([]int, len(o.slots))
	if o.keyed {
		last := ^o.list[0] >> o.low // the key of none before the first
		for _, x := range o.list {
			key := x >> o.low
			if key != last {
				points[key&(1<<o.slotBits-1)]++
				if key>>o.slotBits != last>>o.slotBits {
					n++
				}
				last = key
			}
		}
		return n, points
	}
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
	t := &w.times
	for i := 0; i < len(o.list); {
		x := o.list[i]
		old := false
		if i > 0 {
			old, _ = o.same(o.list[i-1], x)
		}
		if !old {
			group, tenant := o.series(x)
			g := &o.log.groups[group]
			b.Series = append(b.Series, g.shared)
			b.IDs, b.TenantOf = append(b.IDs, g.id.Plus(o.log.tenants[tenant].label)), append(b.TenantOf, 1+tenant)
		}
		t.reset()
		t.add(o.duration(x))
		for i++; i < len(o.list); i++ {
			if _, point := o.same(x, o.list[i]); !point {
				break
			}
			t.add(o.duration(o.list[i]))
		}
		slot := o.slot(x)
		p := &b.Points[next[slot]]
		next[slot]++
		*p = store.Point{Series: uint32(len(b.Series) - 1), Slot: int64(o.slots[slot]) * int64(series.Base)}
		data := w.openBlock()
		from := len(data)
		data, err := w.appendTimes(data, t)
		if err != nil { // a point that cannot be encoded has no data
			w.lost, w.err = w.lost+1, err
			continue
		}
		w.data[w.block] = data
		p.Data = data[from:len(data):len(data)]
	}
	if w.lost > lost {
		b.Points = slices.DeleteFunc(b.Points, func(p store.Point) bool { return p.Data == nil })
	}
}

// pointTimes holds the durations of one series and slot.
type pointTimes struct {
	nanos   []int64
	weights []uint32 // nil while all are 1
	all     uint64   // all durations, or-ed
	zero    bool     // some duration is
}

func (t *pointTimes) add(nanos int64, weight uint32) {
	if weight != 1 && len(t.weights) == 0 {
		t.weights = slices.Grow(t.weights, len(t.nanos)+1)
		for range t.nanos {
			t.weights = append(t.weights, 1)
		}
	}
	if weight != 1 || len(t.weights) > 0 {
		t.weights = append(t.weights, weight)
	}
	t.nanos = append(t.nanos, nanos)
	t.all |= uint64(nanos)
	t.zero = t.zero || nanos == 0
}

func (t *pointTimes) reset() { *t = pointTimes{nanos: t.nanos[:0], weights: t.weights[:0]} }

// fewTimes is the number of durations up to which hist encodes them from a list.
const fewTimes = 16

// appendTimes appends the binary form of the durations of one series and slot.
func (w *builder) appendTimes(dst []byte, t *pointTimes) ([]byte, error) {
	if len(t.nanos) <= fewTimes && t.all < rareBit && !t.zero && len(t.weights) == 0 {
		return hist.AppendNanos(dst, cellSchema, t.nanos, nil)
	}
	if w.scratch == nil {
		w.scratch = newCells(&slabs{}, 0)
	}
	s, c := w.scratch, cell{}
	for i, ns := range t.nanos {
		weight := uint32(1)
		if len(t.weights) > 0 {
			weight = t.weights[i]
		}
		s.observe(&c, ns, weight, s.tab.bucket(ns))
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
func (a *Aggregator) readMembers(ctx context.Context, g *generation, family string, matchers []*labels.Matcher, yield func(*matchedMember, memberTime) error) error {
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
		if x.Type == labels.MatchEqual && l.tenant(x.Value, tenantHash(x.Value)) == 0 {
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
		group := l.marginals[m.marginal].group
		if int(group) >= len(groups) || !groups[group] || int(m.tenant) >= len(tenants) || tenants[m.tenant] == noMember {
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
		p := pair{group, m.tenant}
		s := matching[p]
		if s == nil {
			s = &matchedMember{series: l.groups[group].shared.WithTenant(l.tenants[m.tenant].name)}
			matching[p] = s
		}
		units += readMatch / 4
		if err := yield(s, l.whole(m)); err != nil {
			return err
		}
	}
	return nil
}
