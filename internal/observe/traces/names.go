package traces

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/internal/series"
)

// maxText bounds the bytes kept of a statement.
const maxText = 4 << 10

// names numbers identities and statements, within a bound on memory. An identity is a pair
// of numbers: of what it has in common with those of other tenants, and of its tenant. So
// a pair that is new takes no memory. Beyond the bound identities fold: one loses its tenant,
// or its instance and version, then its operation; a statement is left out. Both are
// counted.
//
// Numbers that no span has used for a while are retired when the tables are half full:
// first they are removed from look-ups and the epoch advances, much later they are
// reused.
type names struct {
	mu          sync.RWMutex
	seed        uint64
	byHash      map[uint64]uint32 // commons by hash, or by the next free number after it
	list        []*common         // [0] is not used; entries are never nil
	free        []uint32
	byTenant    map[string]uint32
	tenants     []*tenant // [0] has no name
	freeTenants []uint32
	parts       map[partKey]uint32
	part        []partInfo // [0] is not used
	spare       []uint32
	comps       []string // by number; [0] is not used

	byText    map[string]Text
	texts     []*textInfo // [0] is not used
	freeTexts []Text

	bytes, bound int64
	graves       []grave // in order of time
	retired      int64   // Unix seconds
	epoch        atomic.Uint32
	folded       atomic.Uint64
	textless     atomic.Uint64
}

// nameOf returns the Name of a common part and a tenant, both by number.
func nameOf(common, tenant uint32) Name { return Name(common) | Name(tenant)<<32 }

func (n Name) common() uint32 { return uint32(n) }
func (n Name) tenant() uint32 { return uint32(n >> 32) }

// common is the common part of identities that differ only in the tenant. The fields below
// the line are the closers'.
type common struct {
	id      Identity // without tenant
	hash    uint64   // its key in names.byHash
	part    uint32
	entry   uint32 // the part of (service, "", operation)
	queue   uint32 // the part of (service, queue, queue)
	service uint32 // the part of (service, "", "")
	comp    uint8
	kind    kind
	used    atomic.Int64 // Unix seconds; of interning or of the last close
	trust   trust

	rows [cohorts]atomic.Uint64 // of the request, by cohort: targets.gen above bit 32, its number there below; 0 is none
}

type tenant struct {
	name string
	used atomic.Int64 // as common's
}

func (c *common) identity(t *tenant) Identity {
	id := c.id
	id.Tenant = t.name
	return id
}

type textInfo struct {
	s    string
	used atomic.Int64
}

// kind is a span's kind.
type kind uint8

const (
	kindInternal kind = iota
	kindServer
	kindConsumer
	kindClient
	kindProducer
)

var kindNames = map[string]kind{"server": kindServer, "consumer": kindConsumer, "client": kindClient, "producer": kindProducer}

func (k kind) entry() bool { return k == kindServer || k == kindConsumer }
func (k kind) call() bool  { return k == kindClient || k == kindProducer }

// partKey identifies a part of the breakdown.
type partKey struct{ service, component, operation, system string }

type partInfo struct {
	partKey
	comp uint8
	refs int32
}

// grave is a number that waits to be reused.
type grave struct {
	at     int64 // Unix seconds
	common uint32
	tenant uint32
	text   Text
}

// unnamed is the part of spans whose names there is no memory for. Part 0 is that of the
// requests themselves.
var unnamed = partKey{service: series.Other, operation: series.Other}

func newNames(bound int64) *names {
	n := &names{
		seed: rand.Uint64(), byHash: map[uint64]uint32{}, list: []*common{{part: 1}}, byTenant: map[string]uint32{}, tenants: []*tenant{{}},
		parts: map[partKey]uint32{}, part: []partInfo{{}, {partKey: unnamed, refs: 1}}, comps: []string{""},
		byText: map[string]Text{}, texts: []*textInfo{{}}, bound: bound,
	}
	n.epoch.Store(1)
	return n
}

// The approximate memory of an entry beside its strings: itself, its place in the list
// and in the map.
const (
	commonCost = 384
	tenantCost = 112
	partCost   = 160
	textCost   = 96
)

// hash hashes the common part of an identity with a seed, so that nobody can make two
// collide on purpose.
func (n *names) hash(id *Identity) uint64 {
	var stack [256]byte
	b := stack[:0]
	for _, s := range [...]string{id.Service, id.Operation, id.Component, id.Kind, id.Version, id.Variant, id.Instance, id.Environment, id.System} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return xxh3.HashSeed(b, n.seed)
}

// find returns the number of an identity without a tenant, or 0 if it has none; it sets
// hash to the hash that it is, or would be, entered under.
func (n *names) find(id *Identity, hash *uint64) uint32 {
	for ; ; *hash++ {
		if k, ok := n.byHash[*hash]; !ok || n.list[k].id == *id {
			return k
		}
	}
}

// findTenant returns the number of a tenant; ok is false if it has none.
func (n *names) findTenant(name string) (number uint32, ok bool) {
	if name == "" {
		return 0, true
	}
	number, ok = n.byTenant[name]
	return number, ok
}

func (n *names) name(id *Identity, now func() time.Time) Name {
	rest := *id
	rest.Tenant = ""
	hash := n.hash(&rest)
	first := hash
	n.mu.RLock()
	k := n.find(&rest, &first)
	n.mu.RUnlock()
	if k == 0 {
		k = n.addCommon(&rest, hash, now().Unix())
	}
	return n.ofTenant(nameOf(k, 0), id.Tenant, now)
}

// addCommon numbers the common part of an identity, unless it has a number by now.
func (n *names) addCommon(id *Identity, hash uint64, now int64) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, folded := n.find(id, &hash), false
	if k == 0 {
		k, folded = n.addFitting(*id, hash, now)
	}
	if folded {
		n.folded.Add(1)
	}
	return k
}

// ofTenant returns the name of a tenant with the common part of n.
func (n *names) ofTenant(of Name, tenant string, now func() time.Time) Name {
	n.mu.RLock()
	t, ok := n.findTenant(tenant)
	n.mu.RUnlock()
	if !ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		folded := false
		if t, ok = n.findTenant(tenant); !ok {
			t, folded = n.addTenant(tenant, now().Unix())
		}
		if folded {
			n.folded.Add(1)
		}
	}
	return nameOf(of.common(), t)
}

// addTenant numbers a new tenant, or returns the number of series.Other at the bound.
func (n *names) addTenant(name string, now int64) (number uint32, folded bool) {
	size := tenantCost + int64(len(name))
	if n.bytes+size > n.bound && name != series.Other {
		if t, ok := n.byTenant[series.Other]; ok {
			return t, true
		}
		t, _ := n.addTenant(series.Other, now)
		return t, true
	}
	t := &tenant{name: strings.Clone(name)}
	t.used.Store(now)
	if last := len(n.freeTenants) - 1; last >= 0 {
		number, n.freeTenants = n.freeTenants[last], n.freeTenants[:last]
		n.tenants[number] = t // the closer reads only numbers that it was given
	} else {
		number = uint32(len(n.tenants))
		n.tenants = append(n.tenants, t)
	}
	n.byTenant[t.name] = number
	n.bytes += size
	return number, false
}

// addFitting numbers the common part of an identity, folded as far as the bound demands.
// The last resort is one identity for all, which always fits.
func (n *names) addFitting(id Identity, hash uint64, now int64) (number uint32, folded bool) {
	for fold := 0; n.bytes+identitySize(&id)+commonCost+3*partCost > n.bound; fold++ {
		switch folded = true; fold {
		case 0:
			id.Instance, id.Version = "", ""
		case 1:
			id.Operation, id.Variant = series.Other, ""
		case 2:
			id = Identity{Service: series.Other, Operation: series.Other, Component: series.Other, Kind: id.Kind}
			if _, ok := kindNames[id.Kind]; !ok {
				id.Kind = "internal"
			}
		}
		hash = n.hash(&id)
		if k := n.find(&id, &hash); k != 0 {
			return k, true
		}
		if fold == 2 {
			break
		}
	}
	return n.add(&id, hash, now), folded
}

func (n *names) add(id *Identity, hash uint64, now int64) uint32 {
	own := Identity{
		Service: strings.Clone(id.Service), Operation: strings.Clone(id.Operation), Component: strings.Clone(id.Component),
		Kind: strings.Clone(id.Kind), Version: strings.Clone(id.Version), Variant: strings.Clone(id.Variant), Instance: strings.Clone(id.Instance),
		Environment: strings.Clone(id.Environment), System: strings.Clone(id.System),
	}
	c := &common{
		id: own, hash: hash, kind: kindNames[own.Kind],
		part:    n.addPart(partKey{own.Service, own.Component, own.Operation, own.System}),
		entry:   n.addPart(partKey{service: own.Service, operation: own.Operation}),
		queue:   n.addPart(partKey{service: own.Service, component: series.ComponentQueue, operation: series.ComponentQueue}),
		service: n.addPart(partKey{service: own.Service}),
	}
	c.used.Store(now)
	c.comp = n.part[c.part].comp
	var k uint32
	if last := len(n.free) - 1; last >= 0 {
		k, n.free = n.free[last], n.free[:last]
		n.list[k] = c // the closer reads only names that it was given
	} else {
		k = uint32(len(n.list))
		n.list = append(n.list, c)
	}
	n.byHash[hash] = k
	n.bytes += identitySize(&own) + commonCost
	return k
}

func identitySize(id *Identity) int64 {
	return int64(len(id.Service) + len(id.Operation) + len(id.Component) + len(id.Kind) + len(id.Version) +
		len(id.Variant) + len(id.Instance) + len(id.Environment) + len(id.System))
}

// addPart returns the number of a part, creates it if it is new, and counts a reference
// to it.
func (n *names) addPart(k partKey) uint32 {
	if p, ok := n.parts[k]; ok {
		n.part[p].refs++
		return p
	}
	p := uint32(len(n.part))
	if last := len(n.spare) - 1; last >= 0 {
		p, n.spare = n.spare[last], n.spare[:last]
	} else {
		n.part = append(n.part, partInfo{})
	}
	n.part[p] = partInfo{partKey: k, comp: n.component(k.component), refs: 1}
	n.parts[k] = p
	n.bytes += partCost
	return p
}

// component numbers a component. There are few: those beyond 255 are Other.
func (n *names) component(s string) uint8 {
	for i, c := range n.comps {
		if c == s {
			return uint8(i)
		}
	}
	if len(n.comps) == 255 {
		s = series.Other
	}
	if len(n.comps) == 256 {
		return 255
	}
	n.comps = append(n.comps, s)
	return uint8(len(n.comps) - 1)
}

func (n *names) text(s string, now int64) Text {
	if s == "" {
		return 0
	}
	if len(s) > maxText {
		s = s[:maxText]
	}
	n.mu.RLock()
	t, ok := n.byText[s]
	n.mu.RUnlock()
	if ok {
		return t
	}
	return n.addText(s, now)
}

func (n *names) textBytes(b []byte, now int64) Text {
	if len(b) == 0 {
		return 0
	}
	if len(b) > maxText {
		b = b[:maxText]
	}
	n.mu.RLock()
	t, ok := n.byText[string(b)]
	n.mu.RUnlock()
	if ok {
		return t
	}
	return n.addText(string(b), now)
}

func (n *names) addText(s string, now int64) Text {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.byText[s]; ok {
		return t
	}
	if n.bytes+int64(len(s))+textCost > n.bound {
		n.textless.Add(1)
		return 0
	}
	info := &textInfo{s: strings.Clone(s)}
	info.used.Store(now)
	n.bytes += int64(len(s)) + textCost
	t := Text(len(n.texts))
	if last := len(n.freeTexts) - 1; last >= 0 {
		t, n.freeTexts = n.freeTexts[last], n.freeTexts[:last]
		n.texts[t] = info
	} else {
		n.texts = append(n.texts, info)
	}
	n.byText[info.s] = t
	return t
}

// size returns the approximate memory of the tables.
func (n *names) size() int64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.bytes
}

// idleNames is how long a name that no closed trace had is kept, in seconds.
const idleNames = 600

// retirable reports whether retire would do anything.
func (n *names) retirable(now, before int64) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.graves) > 0 && n.graves[0].at < before || n.bytes > n.bound/2 && now-n.retired >= 60
}

// retire retires names and statements: it frees those that were retired before, and if
// the tables are half full removes those not used lately from look-ups. It reports
// whether names were freed. Nothing may hold their numbers while it runs.
func (n *names) retire(now, before int64) (freed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.graves) > 0 && n.graves[0].at < before {
		freed = n.bury(n.graves[0]) || freed
		n.graves = n.graves[1:]
	}
	if n.bytes <= n.bound/2 || now-n.retired < 60 {
		return freed
	}
	n.retired = now
	found := len(n.graves)
	idle := func(used *atomic.Int64) bool { return now-used.Load() > idleNames }
	for hash, k := range n.byHash {
		if idle(&n.list[k].used) {
			delete(n.byHash, hash)
			n.graves = append(n.graves, grave{at: now, common: k})
		}
	}
	for name, t := range n.byTenant {
		if idle(&n.tenants[t].used) {
			delete(n.byTenant, name)
			n.graves = append(n.graves, grave{at: now, tenant: t})
		}
	}
	for s, t := range n.byText {
		if idle(&n.texts[t].used) {
			delete(n.byText, s)
			n.graves = append(n.graves, grave{at: now, text: t})
		}
	}
	if len(n.graves) > found {
		n.epoch.Add(1)
	}
	return freed
}

// bury frees the content of a grave. It reports whether that was a name.
func (n *names) bury(g grave) bool {
	switch {
	case g.text != 0:
		n.bytes -= int64(len(n.texts[g.text].s)) + textCost
		n.texts[g.text] = n.texts[0]
		n.freeTexts = append(n.freeTexts, g.text)
		return false
	case g.tenant != 0:
		n.bytes -= int64(len(n.tenants[g.tenant].name)) + tenantCost
		n.tenants[g.tenant] = n.tenants[0]
		n.freeTenants = append(n.freeTenants, g.tenant)
		return true
	}
	c := n.list[g.common]
	n.list[g.common] = n.list[0]
	n.free = append(n.free, g.common)
	n.bytes -= identitySize(&c.id) + commonCost
	for _, p := range [...]uint32{c.part, c.entry, c.queue, c.service} {
		if n.part[p].refs--; n.part[p].refs == 0 {
			delete(n.parts, n.part[p].partKey)
			n.part[p] = partInfo{}
			n.spare = append(n.spare, p)
			n.bytes -= partCost
		}
	}
	return true
}
