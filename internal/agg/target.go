package agg

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"tailscope/internal/series"
)

// A Target's low 32 bits number an entry of registry.targets; the 30 above are its
// incarnation, which changes when the entry is reused; the top two are the kind of its
// series plus one.
func makeTarget(index, incarnation uint32, k series.Kind) Target {
	return Target(index) | Target(incarnation&(1<<30-1))<<32 | Target(k+1)<<62
}

func (t Target) index() uint32       { return uint32(t) }
func (t Target) incarnation() uint32 { return uint32(t>>32) & (1<<30 - 1) }
func (t Target) kind() series.Kind   { return series.Kind(t>>62) - 1 }

// target holds the series that one identity updates: 40 bytes, without pointers.
type target struct {
	full, marginal uint32 // series numbers; marginal is 0 if there is none
	incarnation    uint32
	generation     uint32 // the last generation whose journal defines it
	hits           uint32 // weight that the sketch has not counted yet
	service        uint32 // index into registry.services
	tenant         uint64 // hash; 0 for none
	used           uint32 // the generation that was open when it was made, or the last that used it without its journal
	state          uint8
	folded         bool // its tenant's name was folded
	request        bool // a span that is a request by its kind
	derived        bool // of SpanSelf: not part of the tenant's weight, which counts the spans
}

const (
	targetFree = iota
	targetLive
	targetRetired // not found any more, but earlier batches may still hold it
)

// seriesRec is the registry's record of a series beside its labels.
type seriesRec struct {
	defined    uint32 // the last generation whose journal defines it
	generation uint32 // the last generation with a cell of it
	refs       uint32 // number of targets and marginals that refer to it
	total      uint32 // for a marginal: its Total series
	recent     uint32 // for a marginal: its number in Options.Seconds; 0 if it was not asked for, noRecent if it has none
	like       uint32 // for a Full series without labels of its own: the Marginal that it differs from in tenant, instance and peer only
	tenant     uint32 // for such a series: its tenant's number in tables.tenants
	place      uint32 // its index in the list of registry.listed that holds it
	live       bool
}

// listKey is what the series of a list have in common: family and view, or for Full series
// without labels of their own the Marginal that they are like.
type listKey struct {
	family string
	view   series.View
	like   uint32
}

// tables holds the series by number. A copy keeps what it had when it was made.
type tables struct {
	series  list[seriesRec]     // number 0 is never used
	meta    list[series.Series] // empty for a series with seriesRec.like
	ids     []series.ID
	tenants list[tenantName] // number 0 is the empty name
}

// tenantName is a tenant's name that series refer to.
type tenantName struct {
	name string
	refs uint32
}

// common returns what the Full series of all tenants of a marginal have in common.
func (t *tables) common(marginal uint32) series.Series {
	s := *t.meta.at(marginal)
	s.View, s.Labels = series.Full, labels.NewBuilder(s.Labels).Del(series.LabelInstance, series.LabelPeer).Labels()
	return s
}

// whole returns a series with all of its labels.
func (t *tables) whole(n uint32) series.Series {
	r := t.series.at(n)
	if r.like == 0 {
		return *t.meta.at(n)
	}
	return t.common(r.like).WithTenant(t.tenants.at(r.tenant).name)
}

// registry numbers the active series and targets. Guarded by Aggregator.mu.
type registry struct {
	o *Options

	targets list[target] // number 0 is never used
	keys    []series.ID
	lookup  series.Table // targets by key
	unused  []uint32

	incarnation uint32 // at least that of any target whose entry was freed

	graves []grave

	tables
	byID         series.Table      // series by identity
	idle         []uint32          // numbers free for reuse
	orphans      []uint32          // series without references that wait for their last flush
	tenantOf     map[string]uint32 // numbers of tenants' names
	spareTenants []uint32          // numbers free for reuse
	labelBytes   int64             // of labels and tenants' names
	added        uint64            // series ever numbered

	// listed holds the numbers of all series, so that a question reads those that it can match.
	listed map[listKey][]uint32

	services   []*service // number 0 is never used
	serviceOf  map[string]uint32
	families   map[string]*familyName
	foldedTens uint64
	foldedOps  uint64
	foldedVals uint64

	// groups holds the common part of identities that differ only in the tenant. It is
	// emptied whenever folding may give other results.
	groups   map[series.ID]*group
	numbered []*group // groups by number
	before   []*group // those before groups was last emptied
	turns    uint32   // how often groups was emptied

	builder labels.ScratchBuilder
	idBuf   []byte
	epoch   uint32
	pressed bool // tenants were folded for lack of memory since the epoch began

	tenantBytes int64 // bytes of the services' tables; see tenants.measure
	weights     tenantWeights

	generation uint32 // the open one
}

// familyName is the name of a family that has active series.
type familyName struct {
	name   string
	kind   series.Kind // of its first series
	series int
}

type grave struct{ target, epoch uint32 }

// group is an identity without its tenant, with bounded values. A tenant that is new to
// a group costs two entries in tables and its labels.
type group struct {
	key      series.ID // in look-ups
	number   uint32
	service  uint32
	marginal uint32
	full     series.ID     // of the Full series, without the tenant
	folded   series.ID     // of the Full series of folded tenants
	shared   series.Series // what the Full series of all tenants have in common; of family span_self_seconds alone
	names    names
	ops      uint64 // its operations and other values that were folded
	vals     uint64
}

const maxGroups = 1 << 17

// spanKey is the key of an identity in look-ups.
type spanKey struct {
	group, target series.ID
	label         series.ID // the part of a series' identity that the tenant adds
	tenant        uint64    // see tenantHash
}

// service bounds the values of labels within one service.
type service struct {
	name      string
	serves    bool   // has spans that are requests by their kind; looked at anew each hour
	born      uint32 // the generation in which it was first seen
	tenants   *tenants
	values    [boundDims]map[string]struct{}
	extra     map[string]map[string]struct{}
	marginals int
	gone      uint32 // the generation in which marginals became 0
	sharing
}

// Label values are bounded by arrival, and forgotten when no active series has them.
const (
	dimOperation = iota
	dimVersion
	dimVariant
	dimInstance
	dimComponent
	dimEnvironment
	dimNamespace
	dimK8s
	dimWorkload
	dimSystem
	dimPeer
	boundDims
)

var dimLabels = [boundDims]string{
	dimOperation: series.LabelOperation, dimVersion: series.LabelVersion, dimVariant: series.LabelVariant,
	dimInstance: series.LabelInstance, dimComponent: series.LabelComponent, dimEnvironment: series.LabelEnvironment,
	dimNamespace: series.LabelNamespace, dimK8s: series.LabelK8s, dimWorkload: series.LabelWorkload,
	dimSystem: series.LabelSystem, dimPeer: series.LabelPeer,
}

// dims returns the bounded values of an identity.
func (id *SpanIdentity) dims() [boundDims]string {
	return [boundDims]string{
		dimOperation: id.Operation, dimVersion: id.Version, dimVariant: id.Variant, dimInstance: id.Instance,
		dimComponent: id.Component, dimEnvironment: id.Environment, dimNamespace: id.Namespace, dimK8s: id.K8sNamespace,
		dimWorkload: id.Workload, dimSystem: id.System, dimPeer: id.Peer,
	}
}

// setDims replaces the bounded values of an identity.
func (id *SpanIdentity) setDims(v *[boundDims]string) {
	id.Operation, id.Component, id.Version, id.Variant, id.Instance = v[dimOperation], v[dimComponent], v[dimVersion], v[dimVariant], v[dimInstance]
	id.Environment, id.Namespace, id.K8sNamespace, id.Workload = v[dimEnvironment], v[dimNamespace], v[dimK8s], v[dimWorkload]
	id.System, id.Peer = v[dimSystem], v[dimPeer]
}

const (
	maxServices  = 5000
	maxMarginals = 50_000 // per service; beyond it instances, peers and operations fold
)

func newRegistry(o *Options) *registry {
	return &registry{
		o:       o,
		targets: newList[target](1),
		keys:    make([]series.ID, 1),
		tables: tables{series: newList[seriesRec](1), meta: newList[series.Series](1), ids: make([]series.ID, 1),
			tenants: newList[tenantName](1)},
		tenantOf:  map[string]uint32{},
		services:  make([]*service, 1),
		serviceOf: map[string]uint32{},
		families:  map[string]*familyName{},
		listed:    map[listKey][]uint32{},
		groups:    map[series.ID]*group{},
		builder:   labels.NewScratchBuilder(16),
		weights:   tenantWeights{most: weightSlots(o.MemoryBytes)},
	}
}

func appendPart(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// keyOf hashes an identity in a span family.
func keyOf(family string, id *SpanIdentity) spanKey {
	var stack [512]byte
	b := append(stack[:0], 'S')
	if family != series.SpanDuration {
		b[0] = 'D'
		b = appendPart(b, family)
	}
	for _, s := range [...]string{id.Service, id.Kind, id.Status} {
		b = appendPart(b, s)
	}
	for _, s := range id.dims() {
		b = appendPart(b, s)
	}
	for _, l := range id.Extra {
		b = appendPart(b, l.Name)
		b = appendPart(b, l.Value)
	}
	h := xxh3.Hash128(b)
	k := spanKey{group: series.ID{Hi: h.Hi, Lo: h.Lo}}
	k.setTenant(id.Tenant)
	return k
}

// setTenant sets the fields of a key but for the group.
func (k *spanKey) setTenant(name string) {
	k.tenant = tenantHash(name)
	k.label = tenantLabel(name)
	k.target = k.group.Plus(k.label)
}

var otherTenant = series.ID{}.With(series.LabelTenant, series.Other)

func (r *registry) service(name string) (*service, uint32) {
	n, ok := r.serviceOf[name]
	if !ok {
		if len(r.services) > maxServices && name != series.Other {
			r.foldedVals++
			return r.service(series.Other)
		}
		s := &service{name: strings.Clone(name), tenants: newTenants(r.o.MaxTenants, &r.tenantBytes), born: r.generation}
		n = uint32(len(r.services))
		r.services = append(r.services, s)
		r.serviceOf[s.name] = n
	}
	return r.services[n], n
}

// boundValue returns v, or Other if the set is full and lacks it.
func boundValue(set *map[string]struct{}, v string, limit int, folded *uint64) string {
	if v == "" || v == series.Other {
		return v
	}
	if _, ok := (*set)[v]; ok {
		return v
	}
	if len(*set) >= limit {
		*folded++
		return series.Other
	}
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[strings.Clone(v)] = struct{}{}
	return v
}

// span resolves an identity in a span family. New tenants are counted under Other if
// pressed reports that memory is short.
func (r *registry) span(family string, id *SpanIdentity, k *spanKey, pressed bool) uint32 {
	if t := r.lookup.Find(r.keys, k.target); t != 0 {
		return t
	}
	return r.member(r.group(family, id, k.group), id.Tenant, k, pressed)
}

// group returns the group of an identity in a span family.
func (r *registry) group(family string, id *SpanIdentity, key series.ID) *group {
	g := r.groups[key]
	if g == nil {
		g = r.newGroup(family, id)
		if len(r.groups) >= maxGroups {
			r.clearGroups()
		}
		g.key, g.number = key, uint32(len(r.numbered))
		r.groups[key] = g
		r.numbered = append(r.numbered, g)
	}
	return g
}

// clearGroups has the values of identities bounded anew. No Group is valid any more.
func (r *registry) clearGroups() {
	r.groups, r.numbered, r.before = map[series.ID]*group{}, nil, r.numbered
	r.turns++
}

// lately returns a group that is valid, or was until groups was last emptied; then its values
// are bounded anew. It returns nil if there is none.
func (r *registry) lately(id Group) *group {
	if g := r.numberedBy(id); g != nil {
		return g
	}
	n := int(uint32(id))
	if uint32(id>>32) != r.turns-1 || n == 0 || n > len(r.before) {
		return nil
	}
	old := r.before[n-1]
	is := SpanIdentity{Extra: old.names.extra}
	old.rename(&is)
	return r.group(old.names.family, &is, old.key)
}

// member resolves a tenant that has no target in its group yet.
func (r *registry) member(g *group, tenant string, k *spanKey, pressed bool) uint32 {
	r.foldedOps += g.ops
	r.foldedVals += g.vals
	hash, key := k.tenant, k.target
	fold := tenant == series.Other
	switch {
	case hash == 0 || fold:
		hash = 0
	case pressed:
		// No entry per tenant, which would take memory too.
		r.foldedTens++
		r.pressed = true
		key = k.group.Plus(otherTenant)
		if t := r.lookup.Find(r.keys, key); t != 0 {
			return t
		}
		hash, fold = 0, true
	case !r.services[g.service].tenants.admit(hash):
		r.foldedTens++
		fold = true
	}
	of := g.folded
	if !fold {
		of = g.full
		if tenant != "" {
			of = of.Plus(k.label)
		}
	}
	full := r.byID.Find(r.ids, of)
	fresh := full == 0
	switch {
	case fresh && fold:
		full = r.add(r.build(&g.names, series.Full, true), of)
	case fresh:
		full = r.number(of)
	}
	if g.marginal == 0 {
		r.joinMarginal(g)
	}
	if fresh && !fold {
		r.describe(full, g.marginal, tenant)
	}
	n := r.newTarget(key, full, g.marginal)
	t := r.targets.at(n)
	t.service, t.tenant, t.folded = g.service, hash, fold && tenant != series.Other
	t.derived = g.names.family != series.SpanDuration
	if t.request = series.IsRequest(g.names.kind); t.request {
		r.services[g.service].serves = true
	}
	return n
}

// rename replaces the values of an identity that was resolved to target n by those that
// it is counted under.
func (r *registry) rename(n uint32, id *SpanIdentity, k *spanKey) {
	t := r.targets.at(n)
	if t.foldsTenant(id.Tenant) {
		id.Tenant = series.Other
	}
	if g := r.groups[k.group]; g != nil {
		g.rename(id)
		return
	}
	l := r.meta.at(t.marginal).Labels
	id.Service, id.Kind, id.Status = l.Get(series.LabelService), l.Get(series.LabelKind), l.Get(series.LabelStatus)
	var values [boundDims]string
	for d, name := range dimLabels {
		values[d] = l.Get(name)
	}
	id.setDims(&values)
}

// tenantless reports whether the target is of a span without a tenant.
func (t *target) tenantless() bool { return t.marginal != 0 && t.tenant == 0 && !t.folded }

// foldedTarget returns the target of the folded tenants of a target of spans without one.
func (r *registry) foldedTarget(of uint32) uint32 {
	key := r.keys[of].Plus(otherTenant)
	if n := r.lookup.Find(r.keys, key); n != 0 {
		return n
	}
	t := *r.targets.at(of)
	n := r.newTarget(key, r.foldedSeries(t.marginal), t.marginal)
	other := r.targets.at(n)
	other.service, other.request, other.derived, other.folded = t.service, t.request, t.derived, true
	return n
}

// foldedSeries returns the number of the Full series of the folded tenants of a Marginal.
func (r *registry) foldedSeries(marginal uint32) uint32 {
	m := r.meta.at(marginal)
	n := names{family: m.Family, service: m.Labels.Get(series.LabelService), kind: m.Labels.Get(series.LabelKind), status: m.Labels.Get(series.LabelStatus)}
	n.values[dimEnvironment] = m.Labels.Get(series.LabelEnvironment)
	return r.intern(r.build(&n, series.Full, true))
}

// foldsTenant reports whether the target counts a tenant under series.Other.
func (t *target) foldsTenant(name string) bool { return name != "" && (t.folded || t.tenant == 0) }

// rename replaces the values of an identity, but for the tenant, by those of the group.
func (g *group) rename(id *SpanIdentity) {
	id.Service, id.Kind, id.Status = g.names.service, g.names.kind, g.names.status
	id.setDims(&g.names.values)
}

// newGroup bounds the values of an identity.
func (r *registry) newGroup(family string, id *SpanIdentity) *group {
	g := &group{}
	svc, number := r.service(id.Service)
	values := id.dims()
	for _, d := range [...]int{dimInstance, dimPeer} {
		if svc.marginals >= maxMarginals && values[d] != "" {
			values[d] = series.Other
			g.vals++
		}
	}
	if svc.marginals >= 2*maxMarginals {
		values[dimOperation] = series.Other
		g.ops++
	}
	for d := range values {
		count, label := &g.vals, dimLabels[d]
		if d == dimOperation {
			count = &g.ops
		}
		values[d] = strings.Clone(svc.admit(&svc.values[d], label, values[d], r.o.limitOf(label), count))
	}
	var extra []labels.Label
	for _, l := range id.Extra {
		if l.Value == "" || ownLabel(l.Name) {
			continue
		}
		if svc.extra == nil {
			svc.extra = map[string]map[string]struct{}{}
		}
		name := strings.Clone(l.Name)
		set := svc.extra[name]
		value := strings.Clone(svc.admit(&set, name, l.Value, r.o.limitOf(name), &g.vals))
		svc.extra[name] = set
		extra = append(extra, labels.Label{Name: name, Value: value})
	}
	g.service = number
	g.names = names{family, svc.name, values, strings.Clone(id.Kind), strings.Clone(id.Status), extra}
	s := r.build(&g.names, series.Full, false)
	g.full, r.idBuf = s.ID(r.idBuf)
	if family == series.SpanSelf {
		g.shared = s
	}
	s = r.build(&g.names, series.Full, true)
	g.folded, r.idBuf = s.ID(r.idBuf)
	return g
}

// joinMarginal resolves the marginal of the group.
func (r *registry) joinMarginal(g *group) {
	g.marginal = r.intern(r.build(&g.names, series.Marginal, false))
	if r.series.at(g.marginal).total == 0 {
		total := r.intern(r.build(&g.names, series.Total, false))
		r.series.at(g.marginal).total = total
		r.series.at(total).refs++
		r.services[g.service].marginals++
	}
}

// names holds the bounded label values of a span.
type names struct {
	family       string
	service      string
	values       [boundDims]string
	kind, status string
	extra        []labels.Label
}

// build returns the labels of one view, without a tenant. With fold the Full view keeps
// only the labels of the series of all folded tenants of a service.
func (r *registry) build(n *names, view series.View, fold bool) series.Series {
	r.builder.Reset()
	add := func(name, value string) {
		if value != "" {
			r.builder.Add(name, value)
		}
	}
	// The order is by name, so that only extra labels need a sort.
	if !fold {
		add(series.LabelComponent, n.values[dimComponent])
	}
	add(series.LabelEnvironment, n.values[dimEnvironment])
	if view == series.Marginal {
		add(series.LabelInstance, n.values[dimInstance])
	}
	if !fold {
		add(series.LabelK8s, n.values[dimK8s])
		add(series.LabelWorkload, n.values[dimWorkload])
	}
	add(series.LabelKind, n.kind)
	if !fold && view != series.Total {
		add(series.LabelOperation, n.values[dimOperation])
	}
	if view == series.Marginal {
		add(series.LabelPeer, n.values[dimPeer])
	}
	add(series.LabelService, n.service)
	if !fold {
		add(series.LabelNamespace, n.values[dimNamespace])
	}
	add(series.LabelStatus, n.status)
	if !fold {
		add(series.LabelSystem, n.values[dimSystem])
	}
	if fold {
		add(series.LabelTenant, series.Other)
	}
	if !fold {
		add(series.LabelVariant, n.values[dimVariant])
		add(series.LabelVersion, n.values[dimVersion])
		for _, l := range n.extra {
			add(l.Name, l.Value)
		}
		if len(n.extra) > 0 {
			r.builder.Sort()
		}
	}
	return series.Series{Family: n.family, View: view, Kind: series.Distribution, Labels: r.builder.Labels()}
}

func ownLabel(name string) bool {
	return slices.Contains(series.SpanLabels, name)
}

// refuses reports whether a family has no active series, and others have reached the
// bound.
func (r *registry) refuses(family string) bool {
	return r.families[family] == nil && len(r.families) >= r.o.MaxFamilies
}

// metric resolves one series that is not a span's. It returns 0 if the series is active
// with another kind, or if it is foreign and its family is refused.
func (r *registry) metric(s series.Series, foreign bool) uint32 {
	var id series.ID
	id, r.idBuf = s.ID(r.idBuf)
	if t := r.lookup.Find(r.keys, id); t != 0 {
		if r.meta.at(r.targets.at(t).full).Kind != s.Kind {
			return 0
		}
		return t
	}
	if foreign && r.refuses(s.Family) {
		return 0
	}
	n := r.internID(s, id)
	if r.meta.at(n).Kind != s.Kind {
		return 0
	}
	return r.newTarget(id, n, 0)
}

// push appends v and doubles a full slice; append would grow large slices by a quarter
// and copy each element some four times.
func push[T any](s []T, v T) []T {
	if len(s) == cap(s) {
		s = append(make([]T, 0, max(2*cap(s), 1<<10)), s...)
	}
	return append(s, v)
}

func (r *registry) newTarget(key series.ID, full, marginal uint32) uint32 {
	var n uint32
	// A number keeps its meaning within a generation's journal.
	if k := len(r.unused); k > 0 && r.targets.at(r.unused[k-1]).generation != r.generation {
		n = r.unused[k-1]
		r.unused = r.unused[:k-1]
	} else {
		n = uint32(r.targets.n)
		r.targets.push(target{})
		r.keys = push(r.keys, series.ID{})
	}
	inc := max(r.targets.at(n).incarnation, r.incarnation)
	*r.targets.at(n) = target{full: full, marginal: marginal, incarnation: inc, used: r.generation, state: targetLive}
	r.keys[n] = key
	r.lookup.Add(key, n)
	r.series.at(full).refs++
	if marginal != 0 {
		r.series.at(marginal).refs++
	}
	return n
}

func (r *registry) intern(s series.Series) uint32 {
	var id series.ID
	id, r.idBuf = s.ID(r.idBuf)
	return r.internID(s, id)
}

// internID returns the number of a series; the labels are retained.
func (r *registry) internID(s series.Series, id series.ID) uint32 {
	if n := r.byID.Find(r.ids, id); n != 0 {
		return n
	}
	return r.add(s, id)
}

// add numbers a new series; the labels are retained.
func (r *registry) add(s series.Series, id series.ID) uint32 {
	family := r.families[s.Family]
	if family == nil {
		family = &familyName{name: strings.Clone(s.Family), kind: s.Kind}
		r.families[family.name] = family
	}
	family.series++
	s.Family = family.name
	n := r.number(id)
	*r.meta.at(n) = s
	r.labelBytes += labelSize(s.Labels)
	r.list(n)
	return n
}

// keyOf returns the key of the list that holds a series.
func (r *registry) keyOf(n uint32) listKey {
	if like := r.series.at(n).like; like != 0 {
		return listKey{like: like}
	}
	s := r.meta.at(n)
	return listKey{family: s.Family, view: s.View}
}

// list adds a series to the list that holds it.
func (r *registry) list(n uint32) {
	k := r.keyOf(n)
	r.series.at(n).place = uint32(len(r.listed[k]))
	r.listed[k] = append(r.listed[k], n)
}

// unlist removes a series from the list that holds it.
func (r *registry) unlist(n uint32) {
	k := r.keyOf(n)
	all := r.listed[k]
	last, at := all[len(all)-1], r.series.at(n).place
	all[at], r.series.at(last).place = last, at
	if all = all[:len(all)-1]; len(all) == 0 {
		delete(r.listed, k)
	} else if r.listed[k] = all; cap(all) > 1024 && len(all) < cap(all)/4 {
		r.listed[k] = slices.Clone(all)
	}
}

// describe sets the labels of a new Full series: those of its marginal and its tenant.
func (r *registry) describe(n, marginal uint32, tenant string) {
	s := r.series.at(n)
	s.like, s.tenant = marginal, r.nameTenant(tenant)
	r.series.at(marginal).refs++
	r.list(n)
}

// tenantNameBytes is the memory of a tenant's name beside the name: itself and its map entry.
const tenantNameBytes = 80

// nameTenant returns the number of a tenant's name, and counts a reference to it.
func (r *registry) nameTenant(name string) uint32 {
	if name == "" {
		return 0
	}
	n, ok := r.tenantOf[name]
	if !ok {
		name = strings.Clone(name)
		if k := len(r.spareTenants); k > 0 {
			n, r.spareTenants = r.spareTenants[k-1], r.spareTenants[:k-1]
		} else {
			n = uint32(r.tenants.n)
			r.tenants.push(tenantName{})
		}
		r.tenants.at(n).name = name
		r.tenantOf[name] = n
		r.labelBytes += int64(len(name)) + tenantNameBytes
	}
	r.tenants.at(n).refs++
	return n
}

func (r *registry) releaseTenant(n uint32) {
	t := r.tenants.at(n)
	if n == 0 {
		return
	}
	if t.refs--; t.refs == 0 {
		delete(r.tenantOf, t.name)
		r.labelBytes -= int64(len(t.name)) + tenantNameBytes
		t.name = ""
		r.spareTenants = append(r.spareTenants, n)
	}
}

// number returns a number for a new series, whose labels are not set.
func (r *registry) number(id series.ID) (n uint32) {
	r.added++
	if k := len(r.idle); k > 0 && r.series.at(r.idle[k-1]).defined != r.generation {
		n = r.idle[k-1]
		r.idle = r.idle[:k-1]
	} else {
		n = uint32(r.series.n)
		r.series.push(seriesRec{})
		r.meta.push(series.Series{})
		r.ids = push(r.ids, series.ID{})
	}
	*r.series.at(n) = seriesRec{live: true}
	r.ids[n] = id
	r.byID.Add(id, n)
	return n
}

func labelSize(l labels.Labels) int64 { return int64(l.ByteSize()) + 16 }

// listBytes is the memory of a series in the list that holds it, with the list's spare room
// and its share of the map.
const listBytes = 8

// bytes estimates the memory of the tables.
func (r *registry) bytes() int64 {
	n := r.targets.capacity()*40 + int64(cap(r.keys))*16 + r.lookup.Bytes() +
		r.series.capacity()*(36+listBytes) + r.meta.capacity()*40 + int64(cap(r.ids))*16 + r.byID.Bytes() +
		r.labelBytes + int64(len(r.groups)+len(r.before))*570 + r.tenantBytes + r.weights.bytes()
	return n
}

// bury removes a target from look-ups; its number is reused once no batch can hold it.
func (r *registry) bury(t uint32) {
	r.targets.at(t).state = targetRetired
	r.lookup.Delete(r.keys[t], t)
	r.graves = append(r.graves, grave{t, r.epoch})
}

// retire buries the targets that no generation from since on has used, if they are many
// or must is true. All holders then resolve their targets anew.
func (r *registry) retire(since uint32, must bool) (buried int) {
	if !must {
		idle := 0
		for i := range r.targets.n {
			if t := r.targets.at(uint32(i)); t.state == targetLive && max(t.generation, t.used) < since {
				idle++
			}
		}
		if idle <= r.lookup.Len()/8 {
			return 0
		}
	}
	for i := 1; i < r.targets.n; i++ {
		if t := r.targets.at(uint32(i)); t.state == targetLive && max(t.generation, t.used) < since {
			r.bury(uint32(i))
			buried++
		}
	}
	return buried
}

// reclaim frees the targets buried before pinned, the oldest epoch of a batch, and the
// series without references that no generation from oldest on holds.
func (r *registry) reclaim(pinned, oldest uint32) {
	keep := r.graves[:0]
	for _, g := range r.graves {
		if g.epoch >= pinned {
			keep = append(keep, g)
			continue
		}
		t := r.targets.at(g.target)
		r.release(t.full)
		if t.marginal != 0 {
			r.release(t.marginal)
		}
		*t = target{incarnation: (t.incarnation + 1) & (1<<30 - 1), generation: t.generation}
		r.unused = append(r.unused, g.target)
	}
	r.graves = keep
	for i := 0; i < len(r.orphans); i++ { // grows while it runs
		n := r.orphans[i]
		s := r.series.at(n)
		if !s.live || s.refs > 0 || s.generation >= oldest {
			continue
		}
		r.byID.Delete(r.ids[n], n)
		r.unlist(n)
		if s.like != 0 {
			r.release(s.like)
			r.releaseTenant(s.tenant)
		} else {
			r.labelBytes -= labelSize(r.meta.at(n).Labels)
		}
		if total := s.total; total != 0 {
			if svc := r.serviceOf[r.meta.at(n).Labels.Get(series.LabelService)]; svc != 0 {
				if r.services[svc].marginals--; r.services[svc].marginals == 0 {
					r.services[svc].gone = r.generation
				}
			}
			r.release(total)
			r.clearGroups()
		}
		if f := r.families[r.meta.at(n).Family]; f != nil {
			if f.series--; f.series == 0 {
				delete(r.families, f.name)
			}
		}
		*r.series.at(n) = seriesRec{defined: s.defined}
		*r.meta.at(n) = series.Series{}
		r.idle = append(r.idle, n)
	}
	wait := r.orphans[:0]
	for _, n := range r.orphans {
		if s := r.series.at(n); s.live && s.refs == 0 {
			wait = append(wait, n)
		}
	}
	r.orphans = wait
	r.shrink()
}

// shrink frees memory after a flood: it removes free numbers at the end of the tables
// once they are most of them. A number that returns has a later incarnation than any
// before.
func (r *registry) shrink() {
	const least = 1 << 12
	if n := r.targets.n; n > least && len(r.unused) > n/2 {
		end := n
		for end > 1 && r.targets.at(uint32(end-1)).state == targetFree {
			end--
			r.incarnation = max(r.incarnation, r.targets.at(uint32(end)).incarnation)
		}
		if end <= n/2 {
			r.targets.trim(end)
			r.keys = slices.Clone(r.keys[:end])
			r.unused = keepBelow(r.unused, end)
		}
	}
	if n := r.series.n; n > least && len(r.idle) > n/2 {
		end := n
		for end > 1 && !r.series.at(uint32(end-1)).live {
			end--
		}
		if end <= n/2 {
			r.series.trim(end)
			r.meta.trim(end)
			r.ids = slices.Clone(r.ids[:end])
			r.idle = keepBelow(r.idle, end)
		}
	}
	r.lookup.Shrink()
	r.byID.Shrink()
}

// keepBelow returns a copy of the numbers less than end.
func keepBelow(list []uint32, end int) []uint32 {
	var out []uint32
	for _, n := range list {
		if int(n) < end {
			out = append(out, n)
		}
	}
	return out
}

func (r *registry) release(n uint32) {
	s := r.series.at(n)
	if s.refs--; s.refs == 0 {
		r.orphans = append(r.orphans, n)
	}
}

// updateSketches adds to the sketches what weights and targets counted since the last call.
func (r *registry) updateSketches() {
	r.countWeights()
	for i := 1; i < r.targets.n; i++ {
		t := r.targets.at(uint32(i))
		if t.hits == 0 || t.derived || t.service == 0 {
			continue
		}
		r.services[t.service].tenants.count(t.tenant, uint64(t.hits), t.request)
		t.hits = 0
	}
	for _, s := range r.services[1:] {
		s.tenants.group()
	}
}

// weighHits adds hits of a target that target.hits cannot hold to the weight of its tenant.
func (r *registry) weighHits(t *target, hits uint64) {
	switch {
	case t.derived || t.service == 0:
	case t.request:
		r.weigh(t.service, t.tenant, 0, hits)
	default:
		r.weigh(t.service, t.tenant, hits, 0)
	}
}

// buryRenamed buries the targets of tenants that gained or lost their names in the services
// that moved, by their numbers; of servers that share a store also of tenants that may gain one,
// as another server may name them now.
func (r *registry) buryRenamed(moved []bool) {
	for i := 1; i < r.targets.n; i++ {
		t := r.targets.at(uint32(i))
		if t.state != targetLive || t.tenant == 0 || !moved[t.service] {
			continue
		}
		if r.services[t.service].tenants.names(t.tenant) == t.folded || t.folded && r.o.Shared {
			r.bury(uint32(i))
		}
	}
}

// shedTenants frees memory of the services' tables until they take at most bound bytes: those
// of services without series are cleared, then the largest lose the names of their lightest
// tenants. A service whose last series was freed in this generation may only be silent: it is
// cleared last. shedTenants reports whether a name was lost.
func (r *registry) shedTenants(bound int64) (changed bool) {
	clearSilent := func(since uint32) {
		for _, s := range r.services[1:] {
			if r.tenantBytes > bound && s.marginals == 0 && s.gone <= since {
				s.tenants.clear()
				s.read = min(s.read, readAnew)
			}
		}
	}
	clearSilent(r.generation - 1)
	moved := make([]bool, len(r.services))
	for shrunk := true; shrunk && r.tenantBytes > bound; {
		shrunk = false
		largest := int64(0)
		for _, s := range r.services[1:] {
			largest = max(largest, s.tenants.size)
		}
		for i, s := range r.services[1:] {
			if s.tenants.size > largest/2 && s.tenants.named.n > 1 {
				moved[i+1], shrunk = true, true
				changed = s.tenants.shed() || changed
			}
		}
	}
	clearSilent(r.generation) // their tables may hold weights of tenants without names
	if changed {
		r.buryRenamed(moved)
		r.clearGroups()
	}
	return changed
}

// hourOfGenerations is an hour, at ten seconds each.
const hourOfGenerations = 360

// turn begins a new hour. It reports whether targets were buried because tenants gained
// or lost their names.
func (r *registry) turn() (changed bool) {
	moved, unfolded := make([]bool, len(r.services)), make([]bool, len(r.services))
	for i, s := range r.services {
		if s == nil {
			continue
		}
		if r.o.Shared {
			unfolded[i], changed = s.folds, changed || s.folds
			s.folds = false
			s.tenants.renew, s.tenants.unsaid = s.tenants.crowded(), true
			s.tenants.servers = 0
			s.unsaid, s.read = true, min(s.read, readAnew)
		} else if s.tenants.crowded() && s.tenants.turn() {
			moved[i], changed = true, true
		}
		s.tenants.fade()
	}
	if changed {
		r.buryRenamed(moved)
		if r.o.Shared {
			r.buryFolded(unfolded)
		}
	}
	r.clearGroups()
	for _, s := range r.services[1:] {
		s.serves = false
	}
	for i := 1; i < r.targets.n; i++ {
		if t := r.targets.at(uint32(i)); t.state == targetLive && t.request && max(t.generation, t.used)+hourOfGenerations >= r.generation {
			r.services[t.service].serves = true
		}
	}
	// Values that no active series has are removed, and others admitted.
	for _, s := range r.services[1:] {
		s.values = [boundDims]map[string]struct{}{}
		for name := range s.extra {
			s.extra[name] = nil
		}
	}
	var none uint64
	for i := 1; i < r.series.n; i++ {
		m := r.meta.at(uint32(i))
		if !r.series.at(uint32(i)).live || m.View != series.Marginal {
			continue
		}
		n := r.serviceOf[m.Labels.Get(series.LabelService)]
		if n == 0 {
			continue
		}
		s := r.services[n]
		for d, name := range dimLabels {
			boundValue(&s.values[d], m.Labels.Get(name), math.MaxInt, &none)
		}
		for name, set := range s.extra {
			boundValue(&set, m.Labels.Get(name), math.MaxInt, &none)
			s.extra[name] = set
		}
	}
	return changed
}

// totalOf returns the Total series of a Marginal one.
func totalOf(m series.Series) series.Series {
	b := labels.NewBuilder(m.Labels)
	b.Del(series.LabelOperation, series.LabelInstance, series.LabelPeer)
	return series.Series{Family: m.Family, View: series.Total, Kind: m.Kind, Labels: b.Labels()}
}
