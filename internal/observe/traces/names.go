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

// names numbers identities and statements, within a bound on memory. Beyond the bound
// they fold: an identity loses its instance and tenant, then its operation; a statement
// is left out. Both are counted.
//
// Numbers that no span has used for a while are retired when the tables are half full:
// first they are removed from look-ups and the epoch advances, much later they are
// reused.
type names struct {
	mu    sync.RWMutex
	seed  uint64
	byID  map[uint64]Name // by hash, or by the next free number after it
	list  []*nameInfo     // [0] is not used; entries are never nil
	free  []Name
	rest  map[uint64]*common // without tenants; by hash, as byID
	of    map[string]*tenant
	parts map[partKey]uint32
	part  []partInfo // [0] is not used
	spare []uint32
	comps []string // by number; [0] is not used

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

// nameInfo is the part of an identity that closing traces needs: many differ only in the
// tenant. The fields below the line belong to the closer.
type nameInfo struct {
	*common
	tenant *tenant

	used    atomic.Int64  // Unix seconds; of interning or of the last close
	row     uint32        // of the request, in the breakdown's rows
	rowsGen uint32        // generation of those rows
	asked   int64         // Unix seconds: when the cohort was last looked up
	few     [4]selfTarget // of self time; most names have no more
	more    []selfTarget
}

// common is the common part of identities that differ only in the tenant.
type common struct {
	id    Identity // without tenant
	hash  uint64   // its key in names.rest
	part  uint32
	entry uint32 // the part of (service, "", operation)
	queue uint32 // the part of (service, queue, queue)
	comp  uint8
	kind  kind
	refs  int32
}

type tenant struct {
	name string
	refs int32
}

func (i *nameInfo) identity() Identity {
	id := i.id
	id.Tenant = i.tenant.name
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
	at   int64 // Unix seconds
	name Name
	text Text
}

func newNames(bound int64) *names {
	n := &names{
		seed: rand.Uint64(), byID: map[uint64]Name{}, list: []*nameInfo{{common: &common{}, tenant: &tenant{}}},
		rest: map[uint64]*common{}, of: map[string]*tenant{},
		parts: map[partKey]uint32{}, part: make([]partInfo, 1), comps: []string{""},
		byText: map[string]Text{}, texts: []*textInfo{{}}, bound: bound,
	}
	n.epoch.Store(1)
	return n
}

// The approximate memory of an entry beside its strings: itself, its place in the list
// and in the map, its targets.
const (
	nameCost   = 224
	commonCost = 320
	tenantCost = 96
	partCost   = 160
	textCost   = 96
)

// hash hashes an identity with a seed, so that nobody can make two collide on purpose.
func (n *names) hash(id *Identity) uint64 {
	var stack [256]byte
	b := stack[:0]
	for _, s := range [...]string{id.Service, id.Operation, id.Component, id.Kind, id.Tenant, id.Version, id.Variant, id.Instance, id.Environment, id.System} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return xxh3.HashSeed(b, n.seed)
}

// find returns the number of an identity, or 0 if it has none; it sets hash to the hash
// that it is, or would be, entered under.
func (n *names) find(id *Identity, hash *uint64) Name {
	for ; ; *hash++ {
		k, ok := n.byID[*hash]
		if !ok {
			return 0
		}
		if i := n.list[k]; i.tenant.name == id.Tenant && i.id.Operation == id.Operation && i.identity() == *id {
			return k
		}
	}
}

// common returns the common part of an identity, or nil if it has none, and the hash that
// it is, or would be, entered under.
func (n *names) common(id *Identity) (*common, uint64) {
	rest := *id
	rest.Tenant = ""
	for hash := n.hash(&rest); ; hash++ {
		if c := n.rest[hash]; c == nil || c.id == rest {
			return c, hash
		}
	}
}

func (n *names) name(id *Identity, now func() time.Time) Name {
	hash := n.hash(id)
	first := hash
	n.mu.RLock()
	k := n.find(id, &hash)
	n.mu.RUnlock()
	if k != 0 {
		return k
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.find(id, &first); k != 0 {
		return k
	}
	hash = first
	want := *id
	for fold := 0; !n.fits(&want); fold++ {
		// The last resort is one identity for all, which always fits.
		switch fold {
		case 0:
			n.folded.Add(1)
			want.Instance, want.Tenant, want.Version = "", series.Other, ""
		case 1:
			want.Operation, want.Variant = series.Other, ""
		case 2:
			want = Identity{Service: series.Other, Operation: series.Other, Component: series.Other, Kind: want.Kind}
			if _, ok := kindNames[want.Kind]; !ok {
				want.Kind = "internal"
			}
		}
		hash = n.hash(&want)
		if k := n.find(&want, &hash); k != 0 {
			return k
		}
		if fold == 2 {
			break
		}
	}
	return n.add(&want, hash, now().Unix())
}

// fits reports whether a new identity fits the bound.
func (n *names) fits(id *Identity) bool {
	left := n.bound - n.bytes - nameCost
	ofTenant, ofCommon := tenantCost+int64(len(id.Tenant)), identitySize(id)+commonCost+2*partCost
	if left >= ofTenant+ofCommon {
		return true
	}
	if n.of[id.Tenant] == nil {
		left -= ofTenant
	}
	if c, _ := n.common(id); c == nil {
		left -= ofCommon - int64(len(id.Tenant))
	}
	return left >= 0
}

func (n *names) add(id *Identity, hash uint64, now int64) Name {
	info := &nameInfo{tenant: n.of[id.Tenant]}
	info.used.Store(now)
	n.bytes += nameCost
	if info.tenant == nil {
		info.tenant = &tenant{name: strings.Clone(id.Tenant)}
		n.of[info.tenant.name] = info.tenant
		n.bytes += tenantCost + int64(len(id.Tenant))
	}
	info.tenant.refs++
	common, rest := n.common(id)
	if common == nil {
		common = n.addCommon(id, rest)
	}
	info.common = common
	info.common.refs++
	var k Name
	if last := len(n.free) - 1; last >= 0 {
		k, n.free = n.free[last], n.free[:last]
		n.list[k] = info // the closer reads only names that it was given
	} else {
		k = Name(len(n.list))
		n.list = append(n.list, info)
	}
	n.byID[hash] = k
	return k
}

func (n *names) addCommon(id *Identity, hash uint64) *common {
	own := Identity{
		Service: strings.Clone(id.Service), Operation: strings.Clone(id.Operation), Component: strings.Clone(id.Component),
		Kind: strings.Clone(id.Kind), Version: strings.Clone(id.Version), Variant: strings.Clone(id.Variant), Instance: strings.Clone(id.Instance),
		Environment: strings.Clone(id.Environment), System: strings.Clone(id.System),
	}
	c := &common{
		id: own, hash: hash, kind: kindNames[own.Kind],
		part:  n.addPart(partKey{own.Service, own.Component, own.Operation, own.System}),
		entry: n.addPart(partKey{service: own.Service, operation: own.Operation}),
		queue: n.addPart(partKey{service: own.Service, component: series.ComponentQueue, operation: series.ComponentQueue}),
	}
	c.comp = n.part[c.part].comp
	n.rest[hash] = c
	n.bytes += identitySize(&own) + commonCost
	return c
}

func identitySize(id *Identity) int64 {
	return int64(len(id.Service) + len(id.Operation) + len(id.Component) + len(id.Kind) +
		len(id.Tenant) + len(id.Version) + len(id.Variant) + len(id.Instance) + len(id.Environment) + len(id.System))
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

// retire retires names and statements: it frees those that were retired before, and if
// the tables are half full removes those not used lately from look-ups. It reports
// whether parts were freed. Nothing may hold numbers of parts while it runs.
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
	for hash, k := range n.byID {
		if info := n.list[k]; now-info.used.Load() > idleNames {
			delete(n.byID, hash)
			n.graves = append(n.graves, grave{at: now, name: k})
		}
	}
	for s, t := range n.byText {
		if now-n.texts[t].used.Load() > idleNames {
			delete(n.byText, s)
			n.graves = append(n.graves, grave{at: now, text: t})
		}
	}
	if len(n.graves) > found {
		n.epoch.Add(1)
	}
	return freed
}

// bury frees the content of a grave.
func (n *names) bury(g grave) (freed bool) {
	if g.text != 0 {
		info := n.texts[g.text]
		n.bytes -= int64(len(info.s)) + textCost
		n.texts[g.text] = n.texts[0]
		n.freeTexts = append(n.freeTexts, g.text)
		return false
	}
	info := n.list[g.name]
	n.bytes -= nameCost
	n.list[g.name] = n.list[0]
	n.free = append(n.free, g.name)
	if info.tenant.refs--; info.tenant.refs == 0 {
		delete(n.of, info.tenant.name)
		n.bytes -= tenantCost + int64(len(info.tenant.name))
	}
	if info.refs--; info.refs > 0 {
		return false
	}
	delete(n.rest, info.common.hash)
	n.bytes -= identitySize(&info.id) + commonCost
	for _, p := range [...]uint32{info.part, info.entry, info.queue} {
		if n.part[p].refs--; n.part[p].refs == 0 {
			delete(n.parts, n.part[p].partKey)
			n.part[p] = partInfo{}
			n.spare = append(n.spare, p)
			n.bytes -= partCost
			freed = true
		}
	}
	return freed
}
