package agg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Servers that share a store give names for all of them. Each publishes, in records that it
// alone writes, what it has counted of tenants, and, where a bound is near, which tenants and
// which values of labels it has named. Each reads those of all: what one of them has named is
// named, and cohorts are made from the sums. Union and sum do not depend on the order, so
// nobody decides for the others, and a name once given stays: a tenant's until its hour ends, a
// value's while it has live series. In a round a server first reads and then publishes; what one
// has named the others name after their next round, 2*store.ReadEvery later at most. Until then a
// server goes by what it knows.

// kindNames is the kind of these records. Their keys are service, writer and part, with a byte 0
// between them.
const kindNames = "names"

const (
	exchangeTimeout = 30 * time.Second
	countedHours    = 2       // what a server has not published for longer does not count
	keptHours       = 24      // and is deleted by the others
	maxWrites       = 1 << 20 // bytes of records that are written at once, but for the last
)

// Parts of what a server publishes of a service. Each begins with namesVersion and the hour in
// which it was published, which is at least the hour before as long as the server runs.
const (
	partWeights = iota // totals, and the weights of tenants
	partTenants        // hashes of the tenants that are named
	partValues         // values of labels that are named
	numParts
)

const namesVersion = 1

// sharing is what a service of a server that shares its store has published and read.
type sharing struct {
	read      uint64 // changes with the records of the service; 0 before the first, readAnew if they are to be read anew
	round     uint64 // of the last that found records
	published [numParts]bool
	unsaid    bool // a value was named since values were last published
	folds     bool // a value was folded, and may have a target that is
	// others holds the values by label that other servers have named and this one has not.
	others map[string]map[string]struct{}
}

const readAnew = 1

// exchange is what rounds need.
type exchange struct {
	sync.Mutex
	round uint64
	buf   []byte // of values of records
}

// runExchange reads and publishes names every few seconds until ctx is done.
func (a *Aggregator) runExchange(ctx context.Context) {
	tick := time.NewTicker(store.ReadEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := a.exchangeNames(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			a.o.Logger.Warn("names are not given for all servers of the store until their records can be read and written; tried every five seconds", "err", err)
		}
		failing = err != nil
	}
}

// exchangeNames makes a round.
func (a *Aggregator) exchangeNames(ctx context.Context) error {
	a.exchange.Lock()
	defer a.exchange.Unlock()
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	now := a.o.Now()
	if err := a.readNames(ctx, now); err != nil {
		return fmt.Errorf("read the names that servers of the store have given: %w", err)
	}
	if err := a.publishNames(ctx, now); err != nil {
		return fmt.Errorf("publish the names that this server has given: %w", err)
	}
	return nil
}

func nameKey(service, writer string, part int) string {
	return service + "\x00" + writer + "\x00" + string(rune('0'+part))
}

func cutNameKey(key string) (service, writer string, part int, ok bool) {
	service, rest, _ := strings.Cut(key, "\x00")
	writer, last, _ := strings.Cut(rest, "\x00")
	if len(last) != 1 || last[0] < '0' || last[0] >= '0'+numParts {
		return "", "", 0, false
	}
	return service, writer, int(last[0] - '0'), true
}

// nameRound is one reading of all records, which come in order of services.
type nameRound struct {
	a       *Aggregator
	hour    int64
	service string
	records []publishedRecord // of service
	read    uint64            // see sharing
	stale   []store.RecordWrite

	renamed, unfolded []uint32 // services in which tenants, or values, have another name now
}

// publishedRecord is a record of the service that is read; its value is in exchange.buf.
type publishedRecord struct {
	own     bool
	part    int
	at, end int
}

func (a *Aggregator) readNames(ctx context.Context, now time.Time) error {
	a.exchange.round++
	r := &nameRound{a: a, hour: now.Unix() / 3600}
	err := a.st.ListRecords(ctx, kindNames, "", func(x store.Record) error {
		if service, writer, part, ok := cutNameKey(x.Key); ok {
			if service != r.service {
				r.finish(now)
				r.service = service
			}
			r.add(&x, writer == a.o.Writer, part)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.finish(now)
	a.mu.Lock()
	for n, s := range a.reg.services {
		if s != nil && s.read != 0 && s.round != a.exchange.round { // its records are gone
			r.apply(uint32(n), &published{}, now)
			s.read = 0
		}
	}
	a.rename(r)
	a.mu.Unlock()
	if len(r.stale) == 0 {
		return nil
	}
	_, err = a.st.PutRecords(ctx, kindNames, r.stale...)
	if errors.Is(err, store.ErrConflict) {
		err = nil // another server was first, or one is back
	}
	return err
}

// add keeps a record until its service is whole, unless it is too old.
func (r *nameRound) add(x *store.Record, own bool, part int) {
	d := reader{b: x.Value}
	if version, hour := d.byte(), int64(d.uvarint()); version == namesVersion && !d.bad {
		if hour+keptHours < r.hour && !own {
			r.stale = append(r.stale, store.RecordWrite{Key: x.Key, IfRevision: x.Revision})
		}
		if hour+countedHours < r.hour {
			return
		}
	}
	r.read = (r.read ^ x.Revision<<2 ^ uint64(part)) * 0x9e3779b97f4a7c15
	e := &r.a.exchange
	at := len(e.buf)
	e.buf = append(e.buf, x.Value...)
	r.records = append(r.records, publishedRecord{own, part, at, len(e.buf)})
}

// finish goes by the records of a service if they are others than before.
func (r *nameRound) finish(now time.Time) {
	a, read := r.a, max(r.read, readAnew+1)
	defer func() { r.records, r.read, a.exchange.buf = r.records[:0], 0, a.exchange.buf[:0] }()
	if len(r.records) == 0 {
		return
	}
	a.mu.Lock()
	n := a.reg.serviceOf[r.service]
	if n == 0 {
		a.mu.Unlock()
		return // no request of it came here yet
	}
	s := a.reg.services[n]
	s.round = a.exchange.round
	same := s.read == read && !a.mayRename(s, now)
	gone := s.marginals == 0 && a.pressed() // what it takes would be freed again
	a.mu.Unlock()
	if same || gone {
		return
	}
	var p published
	for _, x := range r.records {
		p.add(a.exchange.buf[x.at:x.end], x.own, x.part)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.apply(n, &p, now)
	s.read = read
}

// mayRename reports whether the heaviest tenants of a service get the names of a new hour: all
// servers have begun it and published their weights, if their clocks and flushes are alike.
func (a *Aggregator) mayRename(s *service, now time.Time) bool {
	return s.tenants.renew && now.Unix()%3600 >= int64((2*a.o.FlushInterval+4*store.ReadEvery)/time.Second)
}

// published is what the servers of a store have published of one service.
type published struct {
	weights, requests shares
	named             nameSet // tenants that other servers have named
	values            map[string]map[string]struct{}

	own   [numParts]bool // parts of this server
	hour  int64          // of this server's weights
	total uint64         // weight that they were published with
}

// shares is the weight of tenants, by hash, among all.
type shares struct {
	total uint64
	of    map[uint64]uint64
}

// add adds one part. It leaves out what it cannot read: a newer version wrote it.
func (p *published) add(b []byte, own bool, part int) {
	d := reader{b: b}
	if own {
		p.own[part] = true
	}
	version, hour := d.byte(), int64(d.uvarint())
	if version != namesVersion {
		return
	}
	switch {
	case part == partWeights:
		before := p.weights.total
		p.weights.add(&d)
		p.requests.add(&d)
		if own {
			p.hour, p.total = hour, p.weights.total-before
		}
	case own: // it knows what it has named
	case part == partTenants:
		for h := d.uint64(); !d.bad; h = d.uint64() {
			if h != 0 {
				p.named.add(h)
			}
		}
	case part == partValues:
		for label := d.part(); !d.bad; label = d.part() {
			for n := d.uvarint(); n > 0 && !d.bad; n-- {
				if v := d.part(); !d.bad {
					p.addValue(string(label), string(v))
				}
			}
		}
	}
}

func (s *shares) add(d *reader) {
	s.total += d.uvarint()
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		h, count := d.uint64(), d.uvarint()
		if d.bad {
			return
		}
		if s.of == nil {
			s.of = map[uint64]uint64{}
		}
		s.of[h] += count
	}
}

func (p *published) addValue(label, v string) {
	if p.values == nil {
		p.values = map[string]map[string]struct{}{}
	}
	if p.values[label] == nil {
		p.values[label] = map[string]struct{}{}
	}
	p.values[label][v] = struct{}{}
}

// apply goes by what servers have published of service n. The caller holds Aggregator.mu.
func (r *nameRound) apply(n uint32, p *published, now time.Time) {
	s := r.a.reg.services[n]
	t := s.tenants
	s.published = p.own
	if t.said == 0 && p.total > 0 { // after a start; what it counted before is still published
		t.said = p.total + t.total
	}
	t.groupBy(p)
	changed := false
	if r.a.mayRename(s, now) && p.own[partWeights] && p.hour == r.hour {
		t.renew = false
		t.bound(t.limit)
		changed = t.nameHeaviest(t.heaviest(p.weights.of)) || t.folds
	}
	if t.cap == t.limit { // short of memory it does not follow others
		changed = t.follow(p.named) || changed
	}
	if changed {
		t.folds = false
		r.renamed = append(r.renamed, n)
	}
	if s.follow(p.values) {
		r.unfolded = append(r.unfolded, n)
	}
}

// rename has targets of services whose tenants or values have other names now resolved anew. The
// caller holds mu.
func (a *Aggregator) rename(r *nameRound) {
	if len(r.renamed)+len(r.unfolded) == 0 {
		return
	}
	in := func(list []uint32) []bool {
		moved := make([]bool, len(a.reg.services))
		for _, n := range list {
			moved[n] = true
		}
		return moved
	}
	a.reg.buryRenamed(in(r.renamed))
	if len(r.unfolded) > 0 {
		a.reg.buryFolded(in(r.unfolded))
	}
	a.reg.clearGroups()
	a.advance()
}

// groupBy makes the cohorts from the weights of all servers.
func (t *tenants) groupBy(p *published) {
	all := p.requests
	if all.total == 0 {
		all = p.weights
	}
	if t.agreed = all.total > 0; !t.agreed {
		return // this server's own count
	}
	t.cohorts = map[uint64]string{}
	for h, n := range all.of {
		if name := series.Cohort(float64(n) / float64(all.total)); name != series.Small {
			t.cohorts[h] = name
		}
	}
	t.measure()
}

// heaviest returns the tenants of this server among the heaviest of all servers.
func (t *tenants) heaviest(weights map[uint64]uint64) []uint64 {
	var all spaceSaving
	for h, n := range weights {
		all.heap = append(all.heap, counter{h, n})
	}
	var own []uint64
	for _, h := range all.top(t.cap) {
		if _, counted := t.sketch.index[h]; counted || t.named.has(h) {
			own = append(own, h)
		}
	}
	return own
}

// follow goes by the names that other servers have given. It reports whether a tenant gained or
// lost a name here by that.
func (t *tenants) follow(others nameSet) (changed bool) {
	before := t.others
	t.others, t.elsewhere = others, 0
	for _, h := range others.slots {
		if h != 0 && !t.named.has(h) {
			t.elsewhere++
			changed = changed || t.folds && !before.has(h)
		}
	}
	for _, h := range before.slots {
		if h == 0 || others.has(h) {
			continue
		}
		if t.named.has(h) { // nobody else has it any more
			t.unsaid = true
		} else {
			changed = true
		}
	}
	t.measure()
	return changed
}

// follow goes by the values that other servers have named, which it owns from then on. It
// reports whether targets of values that are folded are to be resolved anew: one of them may have
// a name there, or there may be room for it.
func (s *service) follow(values map[string]map[string]struct{}) (unfolds bool) {
	gained, lost := false, false
	for label, set := range values {
		own, before := s.named(label), s.others[label]
		for v := range set {
			if _, ok := own[v]; ok {
				delete(set, v)
			} else if _, ok := before[v]; !ok {
				gained = true
			}
		}
	}
	for label, before := range s.others {
		for v := range before {
			if _, ok := values[label][v]; !ok {
				lost = true
			}
		}
	}
	s.others = values
	s.unsaid = s.unsaid || gained
	unfolds = s.folds && (gained || lost)
	s.folds = s.folds && !unfolds
	return unfolds
}

// named returns the values of a label that have names.
func (s *service) named(label string) map[string]struct{} {
	for d, name := range dimLabels {
		if name == label {
			return s.values[d]
		}
	}
	return s.extra[label]
}

// admit returns v, or Other if the service has as many values of a label as it may and this is
// not one of them. set holds the named ones.
func (s *service) admit(set *map[string]struct{}, label, v string, limit int, folded *uint64) string {
	others := s.others[label]
	_, given := others[v]
	if given {
		delete(others, v)
		limit = math.MaxInt
	} else {
		limit -= len(others)
	}
	n := len(*set)
	out := boundValue(set, v, limit, folded)
	s.unsaid = s.unsaid || len(*set) > n
	s.folds = s.folds || out != v
	return out
}

// limitOf returns how many values of a label of a service have names.
func (o *Options) limitOf(label string) int {
	switch label {
	case series.LabelOperation:
		return o.MaxOperations
	case series.LabelInstance:
		return o.MaxInstances
	}
	return o.MaxValues
}

// publishNames writes what is new of this server. What fails is tried again in the next round.
func (a *Aggregator) publishNames(ctx context.Context, now time.Time) error {
	servers := 1
	if a.o.Servers != nil {
		servers = a.o.Servers()
	}
	a.mu.Lock()
	writes := a.reg.unpublished(now.Unix()/3600, a.o.Writer, servers)
	a.mu.Unlock()
	for len(writes) > 0 {
		n, size := 0, 0
		for n < len(writes) && size < maxWrites {
			size += len(writes[n].Value)
			n++
		}
		if _, err := a.st.PutRecords(ctx, kindNames, writes[:n]...); err != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, w := range writes {
				name, _, _, _ := cutNameKey(w.Key)
				s := a.reg.services[a.reg.serviceOf[name]]
				s.tenants.due, s.tenants.unsaid, s.unsaid, s.read = true, true, true, readAnew
			}
			return err
		}
		writes = writes[n:]
	}
	return nil
}

// unpublished returns what is to be written of this server, and counts it as published.
func (r *registry) unpublished(hour int64, writer string, servers int) (writes []store.RecordWrite) {
	r.countWeights()
	for _, s := range r.services[1:] {
		if s.tenants.weighty() {
			r.updateSketches() // of all, as they are seldom
			break
		}
	}
	header := binary.AppendUvarint([]byte{namesVersion}, uint64(hour))
	for _, s := range r.services[1:] {
		if strings.Contains(s.name, "\x00") {
			continue
		}
		t := s.tenants
		t.servers = max(t.servers, servers) // one that restarts takes back nothing
		put := func(part int, is, renewed bool, value func([]byte) []byte) {
			switch {
			case is && (renewed || !s.published[part]):
				writes = append(writes, store.RecordWrite{Key: nameKey(s.name, writer, part), Value: value(header[:len(header):len(header)]), IfRevision: store.AnyRevision})
			case !is && s.published[part]:
				writes = append(writes, store.RecordWrite{Key: nameKey(s.name, writer, part), IfRevision: store.AnyRevision})
			}
			s.published[part] = is
		}
		if t.weighty() {
			if !t.due {
				t.said = t.total
			}
			t.due = false
			put(partWeights, t.crowded() || t.total > 0 && (len(t.sketch.heap) > 0 || s.read != 0), true, t.appendWeights)
		}
		put(partTenants, t.crowded(), t.unsaid, t.appendNamed)
		put(partValues, s.crowded(r.o), s.unsaid, func(b []byte) []byte { return s.appendValues(b, r.o) })
		t.unsaid, s.unsaid = false, false
	}
	return writes
}

// weighty reports whether weights are to be published: an hour has begun, or twice as much is known.
func (t *tenants) weighty() bool { return t.due || t.total > 2*t.said }

// appendWeights appends the weights that cohorts are made from, and that names are given by
// where not all tenants have one.
func (t *tenants) appendWeights(b []byte) []byte {
	least := func(total uint64) uint64 { return max(total/maxRequestTenants, 1) }
	spans := least(t.total)
	switch {
	case t.crowded():
		spans = 1
	case t.totalRequests > 0:
		spans = math.MaxUint64
	}
	b = t.sketch.appendHeavy(binary.AppendUvarint(b, t.total), spans)
	return t.requests.appendHeavy(binary.AppendUvarint(b, t.totalRequests), least(t.totalRequests))
}

// appendHeavy appends the counters of at least that much.
func (s *spaceSaving) appendHeavy(b []byte, least uint64) []byte {
	n := 0
	for _, c := range s.heap {
		if c.count >= least {
			n++
		}
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, c := range s.heap {
		if c.count >= least {
			b = binary.AppendUvarint(binary.LittleEndian.AppendUint64(b, c.key), c.count)
		}
	}
	return b
}

func (t *tenants) appendNamed(b []byte) []byte {
	for _, h := range t.named.slots {
		if h != 0 {
			b = binary.LittleEndian.AppendUint64(b, h)
		}
	}
	return b
}

// crowds reports whether the bound on the values of a label is near.
func (s *service) crowds(o *Options, label string) bool {
	return s.tenants.near(len(s.named(label)), len(s.others[label]), o.limitOf(label))
}

func (s *service) crowded(o *Options) bool {
	for _, label := range dimLabels {
		if s.crowds(o, label) {
			return true
		}
	}
	for label := range s.extra {
		if s.crowds(o, label) {
			return true
		}
	}
	return false
}

func (s *service) appendValues(b []byte, o *Options) []byte {
	add := func(label string, set map[string]struct{}) {
		if len(set) == 0 || !s.crowds(o, label) {
			return
		}
		b = binary.AppendUvarint(appendPart(b, label), uint64(len(set)))
		for v := range set {
			b = appendPart(b, v)
		}
	}
	for d, label := range dimLabels {
		add(label, s.values[d])
	}
	for label, set := range s.extra {
		add(label, set)
	}
	return b
}

// buryFolded buries the targets with a value that was folded, in the services that moved, by
// their numbers.
func (r *registry) buryFolded(moved []bool) {
	for i := 1; i < r.targets.n; i++ {
		t := r.targets.at(uint32(i))
		if t.state != targetLive || t.marginal == 0 || !moved[t.service] {
			continue
		}
		l := r.meta.at(t.marginal).Labels
		folded := false
		for _, name := range dimLabels {
			folded = folded || l.Get(name) == series.Other
		}
		for name := range r.services[t.service].extra {
			folded = folded || l.Get(name) == series.Other
		}
		if folded {
			r.bury(uint32(i))
		}
	}
}
