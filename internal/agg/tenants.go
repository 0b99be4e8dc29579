package agg

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"tailscope/internal/series"
)

// tenants decides which tenants of one service keep their names. A Space-Saving sketch
// (Metwally, Agrawal, El Abbadi 2005) counts the heaviest; the named ones are fixed for
// an hour, and keep their names into the next unless the sketch has heavier ones. Below
// the bound every new tenant is named.
//
// Tenants are identified by the 64-bit hash of their name.
type tenants struct {
	cap    int
	named  nameSet
	sketch spaceSaving
	total  uint64 // weight of all, including those without a tenant
	folded bool   // a tenant was folded since the last turn
	dirty  bool   // named changed since it was last stored

	cohorts map[uint64]string // of tenants that are not small; see group
	grouped uint64            // total when cohorts was made
	// requests counts requests alone, from whose shares cohorts derive. The cohorts of a
	// service without requests derive from its spans.
	requests      spaceSaving
	totalRequests uint64

	// Of a server that shares its store; see shared.go.

	others    nameSet // tenants that other servers have named
	elsewhere int     // of those, how many are not in named
	unsaid    bool    // named changed since it was last published
	folds     bool    // a tenant was folded, and may have a target that is
	agreed    bool    // cohorts are made from the weights of all servers
	due       bool    // weights are to be published
	said      uint64  // total when they last were, and when an hour began
	renew     bool    // the heaviest get the names of the hour that has begun
	servers   int     // most that were alive in a round of this hour

	limit  int    // of cap
	size   int64  // bytes, as far as they are counted in memory
	memory *int64 // bytes of the tables of all services
}

// maxRequestTenants bounds the tenants whose requests are counted: shares come out at
// most 1/4096 too high, a quarter of the least share of a medium tenant.
const maxRequestTenants = 4096

// newTenants returns a table of at most limit names, whose size it keeps counted in memory.
func newTenants(limit int, memory *int64) *tenants {
	t := &tenants{limit: limit, memory: memory}
	t.clear()
	return t
}

// clear forgets all tenants.
func (t *tenants) clear() {
	t.total, t.grouped, t.totalRequests, t.cohorts, t.folded = 0, 0, 0, nil, false
	t.named, t.dirty = nameSet{}, t.named.n > 0
	t.others, t.elsewhere, t.unsaid, t.agreed, t.said = nameSet{}, 0, true, false, 0
	t.sketch, t.requests = spaceSaving{}, spaceSaving{}
	t.bound(t.limit)
}

// bound has at most n tenants keep their names from now on.
func (t *tenants) bound(n int) {
	t.cap = n
	t.sketch.keep(n + n/4 + 1)
	t.requests.keep(min(n+1, maxRequestTenants))
	t.measure()
}

// measure counts the size in memory. Whatever changes it ends with this.
func (t *tenants) measure() {
	n := int64(t.named.n+t.others.n)*24 + int64(len(t.sketch.heap)+len(t.requests.heap))*56 + int64(len(t.cohorts))*48
	*t.memory += n - t.size
	t.size = n
}

func tenantHash(name string) uint64 {
	if name == "" {
		return 0
	}
	return max(xxh3.HashString(name), 1)
}

// admit reports whether a tenant keeps its name.
func (t *tenants) admit(h uint64) bool {
	switch {
	case t.named.has(h):
		return true
	case t.others.has(h):
		t.elsewhere--
	case t.named.n+t.elsewhere < t.cap:
		t.unsaid = true
	default:
		t.folded, t.folds = true, true
		return false
	}
	t.named.add(h)
	t.dirty = true
	t.measure()
	return true
}

// names reports whether a tenant has a name, here or on another server.
func (t *tenants) names(h uint64) bool { return t.named.has(h) || t.others.has(h) }

// keeps is admit, but admits no other name if pressed.
func (t *tenants) keeps(h uint64, pressed bool) bool {
	if !pressed {
		return t.admit(h)
	}
	return t.names(h)
}

// crowded reports whether the bound is near, so that weights matter.
func (t *tenants) crowded() bool {
	return t.folded || t.near(t.named.n, t.elsewhere, t.cap)
}

// near reports whether three quarters of a bound have names, here and elsewhere, or would have if
// each server had given as many as this one: they may all be others, and are not published yet.
func (t *tenants) near(here, elsewhere, bound int) bool {
	return max(here+elsewhere, here*t.servers) >= bound-bound/4
}

// turn begins a new hour: the heaviest are named, and counts are halved so that
// yesterday's heavy tenants can be replaced. It reports whether a name was gained or
// lost.
func (t *tenants) turn() (changed bool) {
	t.bound(t.limit)
	return t.nameHeaviest(t.sketch.top(t.cap))
}

// shed halves the bound on names, below the number of those that have one, for want of
// memory. The next hour has the whole bound again. It reports whether a name was lost.
func (t *tenants) shed() (changed bool) {
	t.folded = true
	t.others, t.elsewhere = nameSet{}, 0
	t.bound(max(min(t.cap, t.named.n)/2, 1))
	return t.nameHeaviest(t.sketch.top(t.cap))
}

// nameHeaviest gives the names to the heaviest, top. It reports whether a name was gained or lost
// that counts.
func (t *tenants) nameHeaviest(top []uint64) (changed bool) {
	var next nameSet
	for _, h := range top {
		next.add(h)
		if !t.named.has(h) {
			changed = true
		}
	}
	if !t.folded {
		// There are names for all: only silent tenants lose theirs, which changes
		// nothing.
		changed = false
	} else if next.n != t.named.n {
		changed = true
	}
	t.named, t.folded, t.dirty, t.unsaid = next, false, true, true
	t.measure()
	return changed
}

// count adds to a tenant's weight; h is 0 if there is none.
func (t *tenants) count(h, weight uint64, request bool) {
	t.total += weight
	if request {
		t.totalRequests += weight
	}
	if h == 0 {
		return
	}
	t.sketch.add(h, weight)
	if request {
		t.requests.add(h, weight)
	}
	t.measure()
}

// tenantWeights sums what is to be added to the weights of tenants, so that the sketch of a
// service is not searched for each span. What reads the sketches calls registry.countWeights
// first. Each observation is counted once, by the time of the next look at the sketches.
type tenantWeights struct {
	slots []tenantWeight // open addressing; a power of two of them, or none
	n     int            // slots in use
	most  int            // slots at most
}

// tenantWeight is the weight of a tenant in a service: 32 bytes.
type tenantWeight struct {
	tenant          uint64 // hash; 0 for none
	spans, requests uint64 // of spans that are not requests, and of requests
	service         uint32 // index into registry.services; 0 for an empty slot
}

const (
	leastWeights = 1 << 8
	mostWeights  = 1 << 15
)

// weightSlots returns the bound on a table of weights for a bound on memory: a half of 1 % of
// that for the table, and about 1 % for what one call of countWeights adds to the sketches.
func weightSlots(memoryBytes int64) int {
	n := leastWeights
	for n < mostWeights && int64(n) < memoryBytes>>13 {
		n *= 2
	}
	return n
}

// bytes returns the memory of the table.
func (w *tenantWeights) bytes() int64 { return int64(len(w.slots)) * 32 }

// of returns the slot of a tenant in a service, or an empty one.
func (w *tenantWeights) of(service uint32, tenant uint64) *tenantWeight {
	mask := uint64(len(w.slots) - 1)
	for p := placeOf(tenant + uint64(service)); ; p++ {
		s := &w.slots[p&mask]
		if s.service == 0 || s.tenant == tenant && s.service == service {
			return s
		}
	}
}

// grow doubles the table.
func (w *tenantWeights) grow() {
	old := w.slots
	w.slots = make([]tenantWeight, max(2*len(old), leastWeights))
	for i := range old {
		if s := &old[i]; s.service != 0 {
			*w.of(s.service, s.tenant) = *s
		}
	}
}

// weigh adds to the weight of a tenant, whose hash is 0 for none, in a service.
func (r *registry) weigh(service uint32, tenant, spans, requests uint64) {
	w := &r.weights
	if 4*w.n >= 3*len(w.slots) {
		if len(w.slots) < w.most {
			w.grow()
		} else {
			r.countWeights()
		}
	}
	s := w.of(service, tenant)
	if s.service == 0 {
		s.service, s.tenant = service, tenant
		w.n++
	}
	s.spans += spans
	s.requests += requests
}

// countWeights adds to the sketches what weigh has summed.
func (r *registry) countWeights() {
	w := &r.weights
	if w.n == 0 {
		return
	}
	for i := range w.slots {
		s := &w.slots[i]
		if s.service == 0 {
			continue
		}
		t := r.services[s.service].tenants
		if s.spans > 0 {
			t.count(s.tenant, s.spans, false)
		}
		if s.requests > 0 {
			t.count(s.tenant, s.requests, true)
		}
		*s = tenantWeight{}
	}
	w.n = 0
}

// fade begins a new hour: counts are halved, and cohorts made anew.
func (t *tenants) fade() {
	if !t.agreed {
		t.regroup()
	}
	t.said, t.due = t.total, true
	t.sketch.fade()
	t.total /= 2
	t.requests.fade()
	t.totalRequests /= 2
	t.measure()
}

// group makes the cohorts again if the total has more than doubled since. In a service's
// first hour that happens as more is known; later only a new hour changes them.
func (t *tenants) group() {
	if !t.agreed && (t.cohorts == nil || t.total > 2*t.grouped) {
		t.regroup()
	}
}

func (t *tenants) regroup() {
	t.cohorts = map[uint64]string{}
	list, total := t.requests.heap, t.totalRequests
	if total == 0 {
		list, total = t.sketch.heap, t.total
	}
	for _, c := range list {
		if name := series.Cohort(float64(c.count) / float64(total)); name != series.Small {
			t.cohorts[c.key] = name
		}
	}
	t.grouped = t.total
	t.measure()
}

// cohort returns a tenant's cohort.
func (t *tenants) cohort(h uint64) string {
	if name, ok := t.cohorts[h]; ok {
		return name
	}
	return series.Small
}

// appendBinary appends the named tenants and their counts.
func (t *tenants) appendBinary(dst []byte) []byte {
	dst = append(dst, 1)
	dst = binary.AppendUvarint(dst, uint64(t.named.n))
	list := make([]uint64, 0, t.named.n)
	for _, h := range t.named.slots {
		if h != 0 {
			list = append(list, h)
		}
	}
	slices.Sort(list)
	for _, h := range list {
		dst = binary.LittleEndian.AppendUint64(dst, h)
		var n uint64
		if i, ok := t.sketch.index[h]; ok {
			n = t.sketch.heap[i].count
		}
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

var errTenants = errors.New("malformed table of named tenants")

func (t *tenants) decode(b []byte) error {
	if len(b) < 2 || b[0] != 1 {
		return errTenants
	}
	n, k := binary.Uvarint(b[1:])
	if k <= 0 || n > uint64(len(b)) {
		return errTenants
	}
	b = b[1+k:]
	for range n {
		if len(b) < 9 {
			return errTenants
		}
		h := binary.LittleEndian.Uint64(b)
		c, k := binary.Uvarint(b[8:])
		if k <= 0 {
			return errTenants
		}
		b = b[8+k:]
		if t.named.n < t.cap && h != 0 {
			t.named.add(h)
			if c > 0 {
				t.count(h, c, false)
			}
		}
	}
	t.measure()
	return nil
}

// nameSet is a set of hashes of names other than 0.
type nameSet struct {
	slots []uint64 // open addressing; a power of two of them, or none
	n     int
}

func (s *nameSet) has(h uint64) bool { return h != 0 && s.n > 0 && *s.of(h) == h }

// placeSecret is of the process: tenants' names may be chosen so that their hashes share bits.
var placeSecret = [2]uint64{rand.Uint64(), rand.Uint64() | 1}

// placeOf returns the place, of any number, where a hash belongs in a table.
func placeOf(h uint64) uint64 {
	hi, lo := bits.Mul64(h^placeSecret[0], placeSecret[1])
	return hi ^ lo
}

// of returns the slot of a hash, or the empty one where it belongs.
func (s *nameSet) of(h uint64) *uint64 {
	mask := uint64(len(s.slots) - 1)
	for p := placeOf(h); ; p++ {
		if x := &s.slots[p&mask]; *x == h || *x == 0 {
			return x
		}
	}
}

func (s *nameSet) add(h uint64) {
	if 3*s.n >= 2*len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(2*len(old), 16))
		for _, x := range old {
			if x != 0 {
				*s.of(x) = x
			}
		}
	}
	if x := s.of(h); *x == 0 {
		*x = h
		s.n++
	}
}

// spaceSaving counts the heaviest keys of a stream with cap counters: an unknown key
// takes over the smallest counter and adds to it. So a count is at most the smallest
// counter too high, and every key heavier than that is present.
type spaceSaving struct {
	cap   int
	index map[uint64]int32 // position in heap
	heap  []counter        // smallest count first
}

type counter struct{ key, count uint64 }

func (s *spaceSaving) add(key, n uint64) {
	if s.index == nil {
		s.index = map[uint64]int32{}
	}
	if i, ok := s.index[key]; ok {
		s.heap[i].count += n
		s.down(int(i))
		return
	}
	if len(s.heap) < s.cap {
		s.heap = append(s.heap, counter{key, n})
		s.index[key] = int32(len(s.heap) - 1)
		s.up(len(s.heap) - 1)
		return
	}
	least := &s.heap[0]
	delete(s.index, least.key)
	least.key = key
	least.count += n
	s.index[key] = 0
	s.down(0)
}

func (s *spaceSaving) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.index[s.heap[i].key], s.index[s.heap[j].key] = int32(i), int32(j)
}

func (s *spaceSaving) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if s.heap[p].count <= s.heap[i].count {
			return
		}
		s.swap(p, i)
		i = p
	}
}

func (s *spaceSaving) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(s.heap) {
			return
		}
		if c+1 < len(s.heap) && s.heap[c+1].count < s.heap[c].count {
			c++
		}
		if s.heap[i].count <= s.heap[c].count {
			return
		}
		s.swap(i, c)
		i = c
	}
}

// top returns the keys with the n greatest counts.
func (s *spaceSaving) top(n int) []uint64 {
	list := slices.Clone(s.heap)
	slices.SortFunc(list, func(a, b counter) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.key, b.key))
	})
	keys := make([]uint64, 0, min(n, len(list)))
	for _, c := range list[:min(n, len(list))] {
		keys = append(keys, c.key)
	}
	return keys
}

// keep has at most n keys, the heaviest, from now on.
func (s *spaceSaving) keep(n int) {
	s.cap = n
	if len(s.heap) <= n {
		return
	}
	old := s.heap
	slices.SortFunc(old, func(a, b counter) int { return cmp.Compare(b.count, a.count) })
	s.heap, s.index = make([]counter, 0, n), make(map[uint64]int32, n)
	for _, c := range old[:n] {
		s.add(c.key, c.count)
	}
}

// fade halves every count and forgets those that reach zero.
func (s *spaceSaving) fade() {
	old := s.heap
	s.heap = make([]counter, 0, len(old))
	s.index = make(map[uint64]int32, len(old))
	for _, c := range old {
		if c.count /= 2; c.count > 0 {
			s.add(c.key, c.count)
		}
	}
}
