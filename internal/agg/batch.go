package agg

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
)

// Batch collects the observations of one request. NewBatch returns one; Commit or
// Discard ends it exactly once. It is not safe for concurrent use.
type Batch struct {
	a        *Aggregator
	tab      *bucketTable
	epoch    uint32
	base     int64 // slot number that the journal's slots are relative to
	now      int64 // Unix nanoseconds
	from, to int64 // accepted ends, Unix nanoseconds: [from, to]
	late     int64 // ends before it are late
	lates    int
	rejects  Rejects

	buf   []byte // the journal's frame of entries
	first int    // length of buf before the first entry
	seen  []observation
	// tenants holds the tenants of ObserveTenant in order of their first observations. One
	// that comes again after another may be there again: known remembers the last of a hash.
	tenants []batchTenant
	known   [knownTenants]uint32 // by hash: the place in tenants, from 1; 0 for none
	last    uint32               // the place of the last tenant, from 1; 0 at first
	said    uint32               // the tenant that buf says the next durations are of
	ops     []operation
	hist    []byte

	handed []hist.Histogram // decoded cumulative histograms, so that commit need not decode them
	counts []uint64         // backing array of their counts, or those of derivations

	derived     bool // see NewDerivedBatch
	derivations []distribution
	groups      []memberGroupOf
	members     []memberObservation

	heads   []uint32 // scratch of prefetch
	fetched uint64   // keeps the compiler from dropping the loads
}

// knownTenants is a power of two.
const knownTenants = 512

type batchTenant struct {
	name   string
	hash   uint64 // of the name; see tenantHash
	folded bool

	// While the batch is committed:

	number   uint32 // in the log, plus one; 0 until it is looked up
	service  uint32 // the last service, 0 at first
	spans    uint64 // weights in it of spans that are not requests, and of requests, not added to registry.weights yet
	requests uint64
}

// observation is one duration, in order of arrival: 32 bytes.
type observation struct {
	target Target
	nanos  int64
	slot   uint32 // slot number
	weight uint32
	tenant uint32 // its place in Batch.tenants, from 1; 0 for none beside the target's
	bucket int16  // 0 beside a tenant: most such durations are logged
	second uint8  // within the slot
}

// operation is any other entry.
type operation struct {
	op       uint8
	target   Target
	slot     uint32
	millis   int64
	value    float64
	stream   StreamID
	resource uint64
	start    int64
	time     int64
	at, end  int // range of the encoded histogram in buf
	handed   int // its index in handed plus one, or 0 if it is not there
}

// noHeader reserves space for a frame's header.
var noHeader [frameHeader]byte

const slotNanos = int64(series.Base) * 1e9

// NewBatch returns a batch from a pool, pinned to the current epoch.
func (a *Aggregator) NewBatch() *Batch {
	b, _ := a.batches.Get().(*Batch)
	if b == nil {
		b = &Batch{a: a, tab: buckets()}
	}
	b.epoch = a.pin()
	now := a.o.Now()
	b.now = now.UnixNano()
	b.base = b.now / slotNanos
	b.from, b.to = a.accepts(b.now)
	b.late = b.now - b.now%slotNanos - 2*int64(a.o.FlushInterval)
	b.lates, b.rejects = 0, Rejects{}
	b.buf = append(append(b.buf[:0], noHeader[:]...), frameEntries)
	b.buf = binary.AppendUvarint(b.buf, uint64(max(b.now/1e6, 0)))
	b.buf = binary.AppendVarint(b.buf, b.base)
	b.first = len(b.buf)
	b.seen, b.ops = b.seen[:0], b.ops[:0]
	if len(b.tenants) > 0 {
		clear(b.tenants) // of references to names
		b.known = [knownTenants]uint32{}
	}
	b.tenants, b.last, b.said = b.tenants[:0], 0, 0
	clear(b.handed)
	b.handed, b.counts = b.handed[:0], b.counts[:0]
	b.derived, b.derivations = false, b.derivations[:0]
	clear(b.groups)
	clear(b.members) // of references to names
	b.groups, b.members = b.groups[:0], b.members[:0]
	return b
}

// Accepts returns the range [from, to] of ends that batches accept now, in Unix nanoseconds.
func (a *Aggregator) Accepts() (from, to int64) { return a.accepts(a.o.Now().UnixNano()) }

func (a *Aggregator) accepts(now int64) (from, to int64) {
	return max(now-int64(a.o.Leapt())-int64(a.o.Retention), 0), now + int64(a.o.MaxAhead)
}

// Epoch returns the epoch that the batch is pinned to: the batch may use targets
// resolved in it or later.
func (b *Batch) Epoch() uint32 { return b.epoch }

// Accepts returns the accepted range [from, to] of ends, in Unix nanoseconds. The rest
// is refused as too old or too new.
func (b *Batch) Accepts() (from, to int64) { return b.from, b.to }

// inRange reports whether a moment is in the accepted range, and counts a refusal if not.
func (b *Batch) inRange(nanos int64) bool {
	if nanos < b.from {
		b.rejects.TooOld++
		return false
	}
	if nanos > b.to {
		b.rejects.TooNew++
		return false
	}
	if nanos < b.late {
		b.lates++
	}
	return true
}

// Observe adds one duration in nanoseconds that ended at endNanos (Unix). It stands for
// weight observations: 1 for unsampled ones; 0 means 1. A negative duration is refused.
func (b *Batch) Observe(t Target, endNanos, durationNanos int64, weight uint32) {
	b.observe(t, 0, endNanos, durationNanos, weight)
}

// ObserveTenant is Observe for a span of a tenant, whose target was resolved without one.
// The batch retains the tenant's name, empty for none, until it ends. folded is what Fold says
// of it. No target is made for the tenant: most tenants of most targets are seen once.
func (b *Batch) ObserveTenant(t Target, tenant string, folded bool, endNanos, durationNanos int64, weight uint32) {
	if tenant == "" {
		b.observe(t, 0, endNanos, durationNanos, weight)
		return
	}
	if b.last == 0 || !b.tenants[b.last-1].is(tenant, folded) {
		b.last = b.tenant(tenant, folded)
	}
	b.observe(t, b.last, endNanos, durationNanos, weight)
}

func (m *batchTenant) is(name string, folded bool) bool { return m.folded == folded && m.name == name }

// tenant returns the place of a tenant in tenants, from 1.
func (b *Batch) tenant(name string, folded bool) uint32 {
	h := tenantHash(name)
	k := &b.known[h%knownTenants]
	if *k == 0 || !b.tenants[*k-1].is(name, folded) {
		b.tenants = append(b.tenants, batchTenant{name: name, hash: h, folded: folded})
		*k = uint32(len(b.tenants))
	}
	return *k
}

func (b *Batch) observe(t Target, tenant uint32, endNanos, durationNanos int64, weight uint32) {
	if durationNanos < 0 || t == 0 || t.kind() != series.Distribution {
		b.rejects.Invalid++
		return
	}
	if !b.inRange(endNanos) {
		return
	}
	slot, weight := endNanos/slotNanos, max(weight, 1)
	if !b.derived {
		op := uint64(opObserve)
		if weight > 1 {
			op = opWeighted
		}
		buf := b.buf
		if tenant != b.said {
			b.said = tenant
			name := ""
			if tenant != 0 {
				name = b.tenants[tenant-1].name
				if b.tenants[tenant-1].folded { // a replay does not decide that anew
					name = series.Other
				}
			}
			buf = append(binary.AppendUvarint(buf, uint64(len(name))<<3|opTenant), name...)
		}
		buf = binary.AppendUvarint(buf, uint64(t.index())<<3|op)
		buf = binary.AppendVarint(buf, slot-b.base)
		buf = binary.AppendUvarint(buf, uint64(durationNanos))
		if weight > 1 {
			buf = binary.AppendUvarint(buf, uint64(weight))
		}
		b.buf = buf
	}
	second := uint8(uint64(endNanos%slotNanos) / 1e9)
	bucket := 0
	if tenant == 0 {
		bucket = b.tab.bucket(durationNanos)
	}
	b.seen = append(b.seen, observation{t, durationNanos, uint32(slot), weight, tenant, int16(bucket), second})
}

// Distribution adds a histogram of delta temporality to the slot that holds timeNanos. h
// is not retained.
func (b *Batch) Distribution(t Target, timeNanos int64, h *hist.Histogram) {
	if t == 0 || t.kind() != series.Distribution || !b.derived && !b.encode(h) {
		b.rejects.Invalid++
		return
	}
	if !b.inRange(timeNanos) {
		return
	}
	if h.Count == 0 {
		return
	}
	if b.derived {
		if !b.addDerived(t, timeNanos, h) {
			b.rejects.Invalid++
		}
		return
	}
	slot := timeNanos / slotNanos
	b.buf = binary.AppendUvarint(b.buf, uint64(t.index())<<3|opDistribution)
	b.buf = binary.AppendVarint(b.buf, slot-b.base)
	at, end := b.appendHist()
	b.ops = append(b.ops, operation{op: opDistribution, target: t, slot: uint32(slot), at: at, end: end})
}

// encode sets b.hist to h's binary form.
func (b *Batch) encode(h *hist.Histogram) bool {
	var err error
	b.hist, err = h.AppendBinary(b.hist[:0])
	return err == nil
}

func (b *Batch) appendHist() (at, end int) {
	b.buf = binary.AppendUvarint(b.buf, uint64(len(b.hist)))
	at = len(b.buf)
	b.buf = append(b.buf, b.hist...)
	return at, len(b.buf)
}

// Number adds one sample of a gauge, or of a counter's running total.
func (b *Batch) Number(t Target, timeNanos int64, v float64) {
	if t == 0 || b.derived || t.kind() == series.Distribution || math.IsNaN(v) {
		b.rejects.Invalid++
		return
	}
	if !b.inRange(timeNanos) {
		return
	}
	millis := timeNanos / 1e6
	b.buf = binary.AppendUvarint(b.buf, uint64(t.index())<<3|opNumber)
	b.buf = binary.AppendVarint(b.buf, millis)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, math.Float64bits(v))
	b.ops = append(b.ops, operation{op: opNumber, target: t, millis: millis, value: v})
}

// DeltaNumber adds an increment of a delta-temporality sum; the series' sample is the
// stream's running total. An increment older than the stream's last counts at the time
// of that.
func (b *Batch) DeltaNumber(t Target, id StreamID, timeNanos int64, v float64) {
	if t == 0 || b.derived || t.kind() == series.Distribution || math.IsNaN(v) || math.IsInf(v, 0) {
		b.rejects.Invalid++
		return
	}
	if !b.inRange(timeNanos) {
		return
	}
	millis := timeNanos / 1e6
	b.buf = binary.AppendUvarint(b.buf, uint64(t.index())<<3|opDeltaNumber)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, id[0])
	b.buf = binary.LittleEndian.AppendUint64(b.buf, id[1])
	b.buf = binary.AppendVarint(b.buf, millis)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, math.Float64bits(v))
	b.ops = append(b.ops, operation{op: opDeltaNumber, target: t, stream: id, millis: millis, value: v})
}

// Cumulative adds the difference of a cumulative histogram from the stream's last to the
// slot that holds timeNanos (ENGINE 8). The first histogram of a stream counts whole
// only if startNanos is after the aggregator first saw the resource, which is given as a
// hash, or at most five minutes before timeNanos. startNanos is 0 if unknown.
func (b *Batch) Cumulative(t Target, id StreamID, resource uint64, startNanos, timeNanos int64, h *hist.Histogram) {
	if t == 0 || b.derived || t.kind() != series.Distribution || !b.encode(h) {
		b.rejects.Invalid++
		return
	}
	if !b.inRange(timeNanos) {
		return
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(t.index())<<3|opCumulative)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, id[0])
	b.buf = binary.LittleEndian.AppendUint64(b.buf, id[1])
	b.buf = binary.LittleEndian.AppendUint64(b.buf, resource)
	b.buf = binary.AppendVarint(b.buf, startNanos)
	b.buf = binary.AppendVarint(b.buf, timeNanos)
	at, end := b.appendHist()
	b.ops = append(b.ops, operation{op: opCumulative, target: t, stream: id, resource: resource, start: startNanos, time: timeNanos, at: at, end: end, handed: b.keepDecoded(h)})
}

// maxHanded bounds the counts that a batch keeps decoded for its commit.
const maxHanded = 1 << 17

// keepDecoded keeps a copy of h for the commit and returns its index plus one, or 0 at the
// bound.
func (b *Batch) keepDecoded(h *hist.Histogram) int {
	need := len(h.Positive.Counts) + len(h.Negative.Counts)
	if len(b.counts)+need > cap(b.counts) {
		if cap(b.counts) == maxHanded || need > maxHanded {
			return 0
		}
		// Copies made before stay in their array.
		b.counts = make([]uint64, 0, min(max(1<<12, 2*cap(b.counts), need), maxHanded))
	}
	n := len(b.counts)
	p := n + len(h.Positive.Counts)
	b.counts = b.counts[:n+need]
	to := hist.Histogram{}
	to.Positive.Counts, to.Negative.Counts = b.counts[n:n:p], b.counts[p:p:n+need]
	assignFields(&to, h)
	b.handed = append(b.handed, to)
	return len(b.handed)
}

// Rejects counts the refused observations of one batch, by reason. The others were
// accepted.
type Rejects struct {
	TooOld     int // older than Options.Retention
	TooNew     int // more than ten minutes ahead of our clock
	OutOfOrder int // a cumulative stream's time did not advance
	Invalid    int // negative duration, not a number, or not of the kind of its series
}

// Total returns the number of refused observations.
func (r Rejects) Total() int { return r.TooOld + r.TooNew + r.OutOfOrder + r.Invalid }

// entries returns the number of entries.
func (b *Batch) entries() int { return len(b.seen) + len(b.ops) + len(b.derivations) + len(b.members) }

// Commit journals the batch, unless it is derived, and applies it. When it returns a nil
// error a journalled batch survives a crash of the process; Rejects counts what was
// refused. If it returns ErrOverloaded or the journal's error, nothing was accepted and
// the request may be retried. The batch must not be used afterwards.
func (b *Batch) Commit(ctx context.Context) (Rejects, error) {
	defer b.Discard()
	if err := ctx.Err(); err != nil {
		return b.rejects, err
	}
	if len(b.buf) > maxFrame {
		return b.rejects, fmt.Errorf("a request of %d journal bytes, at most %d are possible: send smaller ones", len(b.buf), maxFrame)
	}
	if len(b.buf) > b.first {
		sealFrame(b.buf, 0, len(b.seen)+len(b.ops))
	}
	a := b.a
	a.mu.Lock()
	defer a.mu.Unlock()
	refused, err := a.commit(b)
	if err != nil {
		return b.rejects, err
	}
	s := &a.stats
	s.Observations += uint64(b.entries() - refused)
	s.Late += uint64(b.lates)
	s.DroppedOld += uint64(b.rejects.TooOld)
	s.DroppedNew += uint64(b.rejects.TooNew)
	s.OutOfOrder += uint64(b.rejects.OutOfOrder)
	s.Invalid += uint64(b.rejects.Invalid)
	return b.rejects, nil
}

// Discard ends the batch without accepting anything.
func (b *Batch) Discard() {
	b.a.unpin(b.epoch)
	if cap(b.buf) > 8<<20 || cap(b.seen) > 1<<18 || cap(b.ops) > 1<<16 || cap(b.handed) > 1<<14 || cap(b.counts) > 1<<20 {
		return // a giant buffer is not kept
	}
	b.a.batches.Put(b)
}

// commit does the work of Commit. The caller holds mu. refused entries were journalled,
// but rejected when they were applied, as they will be when they are replayed.
func (a *Aggregator) commit(b *Batch) (refused int, err error) {
	if a.closed {
		return 0, ErrClosed
	}
	if b.entries() == 0 {
		return 0, nil
	}
	if used := a.memory() + int64(len(b.buf)) + 4*int64(len(b.counts)); used > a.o.MemoryBytes {
		a.full.Store(true)
		a.stats.Overloads++
		a.nudge()
		return 0, fmt.Errorf("%w: %d MiB of open slots, at most %d MiB are allowed", ErrOverloaded, used>>20, a.o.MemoryBytes>>20)
	}
	g := a.open
	if b.derived {
		err = a.use(b)
		g.derived = g.derived || err == nil
	} else {
		err = a.writeJournal(g, b)
	}
	if err != nil {
		return 0, err
	}
	targets := &a.reg.targets
	folded := uint64(0)
	recent := a.beginRecent(b.now)
	var at lastCells
	for rest := b.seen; len(rest) > 0; {
		some := rest[:min(len(rest), fetchAhead)]
		rest = rest[len(some):]
		b.prefetch(some, targets, g.cells)
		for i := range some {
			s := &some[i]
			t := targets.at(s.target.index())
			if recent.on && !t.derived && (t.request || recent.others(a.reg, t.service)) {
				recent.add(a.reg, t.marginal, t.request, s)
			}
			if s.tenant != 0 && t.tenantless() {
				if a.observeTenant(g, &b.tenants[s.tenant-1], &at, t, s) {
					folded++
				}
				continue
			}
			if h := uint64(t.hits) + uint64(s.weight); h <= math.MaxUint32 {
				t.hits = uint32(h)
			} else {
				t.hits = 0
				a.reg.weighHits(t, h)
			}
			if t.folded {
				folded++
			}
			bucket := int(s.bucket)
			if s.tenant != 0 { // observe left it to the log
				bucket = b.tab.bucket(s.nanos)
			}
			a.observe(g, &at, t.full, t.marginal, s.slot, s.nanos, s.weight, bucket)
		}
	}
	for i := range b.tenants {
		b.tenants[i].count(a.reg)
	}
	recent.end()
	for i := range b.ops {
		op := &b.ops[i]
		t := targets.at(op.target.index())
		var h *hist.Histogram
		if op.handed > 0 {
			h = &b.handed[op.handed-1]
		}
		switch a.apply(g, t.full, t.marginal, op, b.buf[op.at:op.end], h, b.now/1e6) {
		case outOfOrder:
			b.rejects.OutOfOrder++
			refused++
		case malformed:
			b.rejects.Invalid++
			refused++
		}
	}
	for i := range b.derivations {
		d := &b.derivations[i]
		a.derive(g, targets.at(d.target.index()), d, b.counts[d.at:d.end])
	}
	folded += a.observeMembers(g, b)
	a.stats.FoldedObservations += folded
	if g.cells.size > a.o.MemoryBytes/8 {
		a.nudge()
	}
	return refused, nil
}

// writeJournal writes a batch to the journal of the open generation, g.
func (a *Aggregator) writeJournal(g *generation, b *Batch) error {
	if g.journal == nil {
		j, err := createJournal(a.o.FS, a.o.Dir, header{g.number, a.lastJournal, a.position})
		if err != nil {
			return a.journalFailed(err)
		}
		g.journal = j
		a.newFiles = true
	}
	j := g.journal
	// Definitions that this batch is the first to need come before it.
	a.defs, a.defsAt = a.defs[:0], 0
	targets, gen := &a.reg.targets, uint32(g.number)
	for i := range b.seen {
		t := b.seen[i].target
		r := targets.get(t.index())
		if r.generation != gen || r.incarnation != t.incarnation() {
			if err := a.define(t, gen); err != nil {
				a.undefine(b)
				return err
			}
		}
	}
	for i := range b.ops {
		t := b.ops[i].target
		if r := targets.get(t.index()); r.generation != gen || r.incarnation != t.incarnation() {
			if err := a.define(t, gen); err != nil {
				a.undefine(b)
				return err
			}
		}
	}
	out, entries, frames := b.buf, uint64(len(b.seen)+len(b.ops)), uint32(1)
	if len(a.defs) > 0 {
		sealFrame(a.defs, a.defsAt, 0)
		for at := 0; at < len(a.defs); frames++ {
			placeFrame(a.defs[at:], j.seed, j.frame+frames, a.position)
			at += frameHeader + int(binary.LittleEndian.Uint32(a.defs[at:]))
		}
		placeFrame(b.buf, j.seed, j.frame+frames, a.position)
		a.defs = append(a.defs, b.buf...)
		out = a.defs
	} else {
		placeFrame(b.buf, j.seed, j.frame+frames, a.position)
	}
	if err := j.write(out); err != nil {
		if frames > 1 {
			a.undefine(b)
		}
		return a.journalFailed(err)
	}
	j.frame += frames
	a.position += entries
	if err := a.ack.set(mark{g.number, a.position}); err != nil {
		a.stats.SyncErrors++ // the request is in the journal; the mark only serves to notice a loss
	}
	a.stats.JournalBytes += uint64(len(out))
	g.entries += entries
	return nil
}

// fetchAhead is the number of observations that one call of prefetch loads: they should
// still be in the nearer caches when they are applied.
const fetchAhead = 512

// prefetch loads what applying the observations will need. Memory is slow: most of a
// commit's time would be one load waiting for the one before it, the target's for the
// cell's for the page's. Here each loop's loads are independent, so the processor has
// many under way at once.
func (b *Batch) prefetch(seen []observation, targets *list[target], g *cells) {
	b.heads = b.heads[:0]
	for i := range seen {
		s, h := targets.at(seen[i].target.index()).full, uint32(0)
		if seen[i].tenant == 0 && int(s) < len(g.heads) { // the others are logged
			h = g.heads[s]
		}
		b.heads = append(b.heads, h)
	}
	if len(g.slab) == 0 {
		return
	}
	sum := uint64(0)
	for _, h := range b.heads {
		sum += g.at(h).w[5] // of the unused cell 0 if there is none
	}
	for i, h := range b.heads {
		if c := g.at(h); c.n == paged {
			if k := int(seen[i].bucket) - c.base(); uint(k) < uint(c.buckets()) {
				sum += uint64(g.counts(c)[k])
			}
		}
	}
	b.fetched = sum
}

func (a *Aggregator) journalFailed(err error) error {
	a.stats.Overloads++
	if g := a.open; g.journal != nil && g.journal.torn {
		a.nudge() // a new generation has a new file
	}
	return fmt.Errorf("%w: %w", ErrOverloaded, err)
}

// nudge asks the flusher to cut and store now.
func (a *Aggregator) nudge() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// define appends the definitions of a target to a.defs.
func (a *Aggregator) define(t Target, gen uint32) error {
	if err := a.valid(t); err != nil {
		return err
	}
	n := t.index()
	r := a.reg.targets.at(n)
	for _, s := range [...]uint32{r.marginal, r.full} {
		if s != 0 && a.reg.series.at(s).defined != gen {
			a.reg.series.at(s).defined = gen
			a.beginDefinition()
			if rec := a.reg.series.at(s); rec.like != 0 && r.marginal != 0 {
				a.defs = appendTenantDefinition(a.defs, s, r.marginal, a.reg.tenants.at(rec.tenant).name)
				continue
			}
			whole := a.reg.whole(s)
			a.defs = appendSeriesDefinition(a.defs, s, &whole)
		}
	}
	a.beginDefinition()
	a.defs = appendTargetDefinition(a.defs, n, r.full, r.marginal)
	r.generation = gen
	return nil
}

// beginDefinition begins a frame of definitions, if none is open or the open one is
// full.
func (a *Aggregator) beginDefinition() {
	if len(a.defs) > 0 {
		if len(a.defs)-a.defsAt < definitions {
			return
		}
		sealFrame(a.defs, a.defsAt, 0)
	}
	a.defsAt = len(a.defs)
	a.defs = append(append(a.defs, noHeader[:]...), frameDefinitions)
}

// undefine reverts define for a batch whose definitions were not written.
func (a *Aggregator) undefine(b *Batch) {
	undo := func(t Target) {
		if int(t.index()) >= a.reg.targets.n {
			return
		}
		r := a.reg.targets.at(t.index())
		r.generation = 0
		a.reg.series.at(r.full).defined = 0
		a.reg.series.at(r.marginal).defined = 0
	}
	for i := range b.seen {
		undo(b.seen[i].target)
	}
	for i := range b.ops {
		undo(b.ops[i].target)
	}
}

// lastCells holds the cells of the last observation, in which the next may be too.
type lastCells struct{ full, marginal *cell }

// observe adds a duration to both views.
func (a *Aggregator) observe(g *generation, last *lastCells, full, marginal, slot uint32, nanos int64, weight uint32, bucket int) {
	key := slot<<2 | modeDurations
	g.cells.observe(a.cell(g, &last.full, full, key), nanos, weight, bucket)
	if marginal != 0 {
		g.cells.observe(a.cell(g, &last.marginal, marginal, key), nanos, weight, bucket)
	}
}

// cell returns the cell of a series and key: last, if that is it.
func (a *Aggregator) cell(g *generation, last **cell, s, key uint32) *cell {
	if c := *last; c != nil && c.series == s && c.key == key {
		return c
	}
	c, fresh := g.cells.cell(s, key)
	if fresh {
		a.holds(g, s)
	}
	*last = c
	return c
}

// holds notes that a generation has a cell of series s.
func (a *Aggregator) holds(g *generation, s uint32) {
	r := a.reg.series.at(s)
	r.generation = uint32(g.number)
	g.cells.numbered = g.cells.numbered || r.tenant != 0
}

// apply applies an operation, also in a replay. The histogram of a cumulative one comes
// encoded and, if h is not nil, also decoded.
func (a *Aggregator) apply(g *generation, full, marginal uint32, op *operation, encoded []byte, h *hist.Histogram, nowMillis int64) verdict {
	switch op.op {
	case opDistribution:
		return a.addHist(g, full, marginal, op.slot, encoded)
	case opNumber:
		a.addNumber(g, full, op.millis, op.value)
	case opDeltaNumber:
		millis, total := a.streams.delta(op.stream, op.millis, op.value, nowMillis)
		a.addNumber(g, full, millis, total)
	case opCumulative:
		delta, v := a.streams.cumulative(op.stream, op.resource, op.start, op.time, encoded, h, nowMillis)
		if v != countDelta {
			return v
		}
		return a.addHist(g, full, marginal, uint32(op.time/slotNanos), delta)
	}
	return countDelta
}

func (a *Aggregator) addHist(g *generation, full, marginal, slot uint32, encoded []byte) verdict {
	for _, s := range [...]uint32{full, marginal} {
		if s == 0 {
			continue
		}
		c, fresh := g.cells.cell(s, slot<<2|modeBlobs)
		if fresh {
			a.holds(g, s)
		}
		if err := g.cells.encoded(c, encoded); err != nil {
			return malformed // its bounds cannot be merged with those already there
		}
	}
	return countDelta
}

func (a *Aggregator) addNumber(g *generation, s uint32, millis int64, v float64) {
	slot := uint32(millis / (1000 * int64(series.Base)))
	c, fresh := g.cells.cell(s, slot<<2|modeNumber)
	if fresh {
		a.reg.series.at(s).generation = uint32(g.number)
	}
	g.cells.number(c, millis, v)
	g.cells.sample(s, millis, v)
}

// replayer applies a journal to a generation.
type replayer struct {
	a       *Aggregator
	g       *generation
	series  map[uint32]uint32
	targets map[uint32][2]uint32

	// past receives the values of streams that have advanced since, at the
	// times that they came with.
	past *generation

	name   string // of the last tenant
	number uint32 // its number in the log plus one, or 0 if there was none
}

// The methods of replayer skip what lacks its definition.

func (p *replayer) defineSeries(number uint32, s series.Series) error {
	if p.series == nil {
		p.series, p.targets = map[uint32]uint32{}, map[uint32][2]uint32{}
	}
	reg := p.a.reg
	n := reg.intern(s)
	if reg.meta.at(n).Kind != s.Kind {
		return nil
	}
	if s.View == series.Marginal && reg.series.at(n).total == 0 {
		total := reg.intern(totalOf(s))
		reg.series.at(n).total = total
		reg.series.at(total).refs++
		if svc, _ := reg.service(s.Labels.Get(series.LabelService)); svc != nil {
			svc.marginals++
		}
	}
	p.defined(number, n)
	return nil
}

// defined notes that a number of the journal is series n of the registry.
func (p *replayer) defined(number, n uint32) {
	s := p.a.reg.series.at(n)
	s.generation = uint32(p.g.number)
	if s.refs == 0 {
		p.a.reg.orphans = append(p.a.reg.orphans, n)
	}
	p.series[number] = n
}

func (p *replayer) defineTenant(number, marginal uint32, tenant []byte) error {
	reg := p.a.reg
	m, ok := p.series[marginal]
	if !ok || reg.meta.at(m).View != series.Marginal {
		return nil
	}
	s := reg.common(m)
	var id series.ID
	id, reg.idBuf = s.ID(reg.idBuf)
	if len(tenant) > 0 {
		id = id.With(series.LabelTenant, string(tenant))
	}
	n := reg.byID.Find(reg.ids, id)
	if n == 0 {
		n = reg.number(id)
		reg.describe(n, m, string(tenant))
	}
	if reg.meta.at(n).Kind == series.Distribution {
		p.defined(number, n)
	}
	return nil
}

func (p *replayer) defineTarget(number, full, marginal uint32) error {
	f, ok := p.series[full]
	if !ok {
		return nil
	}
	m := uint32(0)
	if marginal != 0 {
		if m, ok = p.series[marginal]; !ok {
			return nil
		}
	}
	p.targets[number] = [2]uint32{f, m}
	return nil
}

func (p *replayer) entries(commitMillis int64, e *entryReader) (applied uint64, err error) {
	var at lastCells
	for e.next() {
		t, ok := p.targets[e.target]
		if !ok {
			continue
		}
		kind := p.a.reg.meta.at(t[0]).Kind
		number := e.op == opNumber || e.op == opDeltaNumber
		if number != (kind != series.Distribution) {
			continue
		}
		p.g.entries++
		applied++
		if (e.op == opObserve || e.op == opWeighted) && len(e.tenant) > 0 && t[1] != 0 {
			p.tenant(e, t[0], t[1], &at)
			continue
		}
		if e.op == opObserve || e.op == opWeighted {
			p.a.observe(p.g, &at, t[0], t[1], uint32(e.entrySlot), e.nanos, e.weight, p.g.cells.tab.bucket(e.nanos))
			continue
		}
		if p.past != nil && e.op == opDeltaNumber {
			p.a.addNumber(p.past, t[0], e.millis, e.value)
			continue
		}
		if p.past != nil && e.op == opCumulative {
			p.a.addHist(p.past, t[0], t[1], uint32(e.time/slotNanos), e.hist)
			continue
		}
		op := operation{op: uint8(e.op), slot: uint32(e.entrySlot), millis: e.millis, value: e.value,
			stream: e.stream, resource: e.resource, start: e.start, time: e.time}
		p.a.apply(p.g, t[0], t[1], &op, e.hist, nil, commitMillis)
	}
	return applied, e.err()
}

// tenant applies a duration of a tenant to a Full series without one, and its marginal.
func (p *replayer) tenant(e *entryReader, full, marginal uint32, at *lastCells) {
	if string(e.tenant) == series.Other {
		other := p.a.reg.foldedSeries(marginal)
		if r := p.a.reg.series.at(other); r.refs == 0 && r.generation != uint32(p.g.number) {
			p.a.reg.orphans = append(p.a.reg.orphans, other)
		}
		p.a.observe(p.g, at, other, marginal, uint32(e.entrySlot), e.nanos, e.weight, p.g.cells.tab.bucket(e.nanos))
		return
	}
	if p.name != string(e.tenant) || p.number == 0 {
		p.name = string(e.tenant)
		p.number = 1 + p.g.cells.memberTenant(p.name, tenantHash(p.name))
	}
	p.g.cells.member(memberTime{e.nanos, uint32(e.entrySlot), p.a.memberMarginal(p.g, marginal, full), p.number - 1, e.weight})
}

// nextCut returns when the generation that is open at now should be cut: a little after
// the next boundary of the interval, so that it includes what was under way when the
// slot before it ended.
func nextCut(now time.Time, interval time.Duration) time.Time {
	const grace = 250 * time.Millisecond
	return now.Add(-grace).Truncate(interval).Add(interval + grace)
}
