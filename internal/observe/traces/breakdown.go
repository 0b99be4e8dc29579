package traces

import (
	"context"
	"time"

	"tailscope/internal/series"
)

// MaxQueue is the longest valid time in a queue; a longer one shows a wrong clock.
const MaxQueue = int64(time.Hour)

// maxAttempts bounds the attempts of a hand-over, one each sweep.
const maxAttempts = 10

// breakdown collects the results of requests until they are handed over.
type breakdown struct {
	c        *closer
	cells    cells
	seen     []selfTime
	moved    []movedClock
	fans     map[fanKey]*cell
	requests uint64 // in cells
	attempts int
	refused  bool  // of a closer for callers: the sink did not accept it
	handed   int64 // Unix seconds: when distributions were last handed over

	maxCells, maxSeen, maxFans int

	rows    *targets
	groups  selfGroups
	cohorts cohortCache
	comp    [256]int64 // of one request
	used    []uint8
}

// selfTime is one observation of span_self_seconds.
type selfTime struct {
	end, nanos int64
	group      uint32 // number in breakdown.groups
	tenant     uint32
	weight     uint32
}

const selfBytes = 32

// movedClock is one observation of clock_skew_seconds.
type movedClock struct {
	skewKey
	at, nanos int64
	weight    uint32
}

type skewKey struct {
	service, peer string
	ahead         bool
}

// fanKey is an instance that answered concurrent calls, as a cell.
type fanKey struct {
	row, at  uint64
	instance string
}

// The measures of an instance.
const (
	fanned = iota
	endedLast
)

const fanBytes = 260

// maxSeen bounds the observations that are handed over at once: few enough that they are
// still in the processor's caches.
const maxSeen = 8 << 10

func (b *breakdown) init(c *closer, bound int64) {
	b.c = c
	b.fans = map[fanKey]*cell{}
	b.maxCells = int(bound / 4 / (cellBytes + 16)) // the workers together have half as many
	b.maxSeen = min(int(bound/8/selfBytes), maxSeen)
	b.maxFans = int(bound / 16 / fanBytes)
	b.rows = &c.a.rows
	b.cohorts.init(c.a.o.MemoryBytes / 256 / cohortBytes)
	b.groups.reset()
}

func (b *breakdown) bytes() int64 {
	return b.cells.bytes() + int64(cap(b.seen))*selfBytes + int64(cap(b.moved))*64 + int64(len(b.fans))*fanBytes + b.cohorts.bytes() + b.groups.bytes()
}

// merge adds what another has collected, and empties that.
func (b *breakdown) merge(from *breakdown) {
	if from.empty() {
		return
	}
	b.cells.merge(&from.cells)
	for i := range from.seen {
		s := from.seen[i]
		s.group = b.groups.numberOf(from.groups.list[s.group].selfKey)
		b.seen = append(b.seen, s)
	}
	b.moved = append(b.moved, from.moved...)
	for k, x := range from.fans {
		if y := b.fans[k]; y != nil {
			y.merge(x)
		} else {
			b.fans[k] = x
		}
	}
	b.requests += from.requests
	from.drop(true)
}

func (b *breakdown) empty() bool {
	return len(b.cells.list) == 0 && len(b.seen) == 0 && len(b.moved) == 0 && len(b.fans) == 0
}

// reset drops everything that refers to numbers of names. The breakdown must be empty.
func (b *breakdown) reset() {
	b.cohorts.reset()
	b.groups.reset()
}

// record adds one request, whose sums are in t.acc. queued is when it was first put into
// a queue, or 0 if that is not known.
func (b *breakdown) record(t *tree, q *req, queued int64) {
	nd := &t.nodes[q.node]
	info := t.infos[nd.name]
	duration, end := nd.end-nd.start, nd.end-nd.shift
	at := b.c.cellAt(end, duration)
	row := uint64(b.request(info, b.c.named[nd.tenant], nd.tenant)) << 32
	w := uint64(nd.weight)
	x := b.cells.get(row, at)
	x.observe(duration, nd.weight)
	x.counts[withPart] += w
	b.requests++

	self, critical := int64(0), int64(0) // so far
	for _, s := range t.touch {
		sum := &t.acc[s]
		part := b.c.parts[s]
		if sum.self > 0 {
			comp := b.c.part[part].comp
			if b.comp[comp] == 0 {
				b.used = append(b.used, comp)
			}
			b.comp[comp] += sum.self
		}
		x := b.cells.get(row|uint64(part), at)
		x.observe(duration, nd.weight)
		// Rounding the running total keeps the sum of all parts right.
		x.counts[selfMicros] += w * uint64(micros(self+sum.self)-micros(self))
		x.counts[criticalMicros] += w * uint64(micros(critical+sum.critical)-micros(critical))
		self += sum.self
		critical += sum.critical
		x.counts[partCalls] += w * uint64(sum.calls)
		x.counts[withPart] += w
		if sum.calls >= series.RepeatedCalls {
			x.counts[repeated] += w
		}
	}
	b.observeSelf(nd, end, b.used)
	b.used = b.used[:0]
	if queued != 0 {
		b.recordQueue(nd, info, queued, row, at)
	}
}

// micros rounds nanoseconds to microseconds.
func micros(nanos int64) int64 { return (nanos + 500) / 1000 }

// observeSelf adds the self times of a request, which are in b.comp, and clears them there.
func (b *breakdown) observeSelf(nd *node, end int64, comps []uint8) {
	if cap(b.seen) == 0 {
		b.seen = make([]selfTime, 0, b.maxSeen)
	}
	failed := nd.flags&failed != 0
	for _, comp := range comps {
		b.seen = append(b.seen, selfTime{end, b.comp[comp], b.groups.numberOf(selfKey{nd.name, comp, failed}), nd.tenant, nd.weight})
		b.comp[comp] = 0
	}
}

// recordQueue adds the time before a request, which its duration lacks. The header's clock is
// that of the proxy: it is compared with the request's start by the service's clock.
func (b *breakdown) recordQueue(nd *node, info *common, queued int64, row, at uint64) {
	waited := nd.start - nd.shift - queued
	if waited < 0 || waited > MaxQueue {
		b.c.stats.QueueSkewed++
		b.moved = append(b.moved, movedClock{
			skewKey{info.id.Service, series.ComponentQueue, waited > 0}, nd.end - nd.shift, max(waited, -waited), nd.weight,
		})
		return
	}
	w := uint64(nd.weight)
	x := b.cells.get(row|uint64(info.queue), at)
	x.observe(nd.end-nd.start, nd.weight)
	x.counts[selfMicros] += w * uint64(micros(waited))
	x.counts[partCalls] += w
	x.counts[withPart] += w
	comp := b.c.part[info.queue].comp
	b.comp[comp] = waited
	b.observeSelf(nd, nd.end-nd.shift, []uint8{comp})
}

// recordSkews adds the calls of a trace whose clocks disagree.
func (b *breakdown) recordSkews(t *tree) {
	for _, s := range t.skews {
		nd := &t.nodes[s.node]
		b.moved = append(b.moved, movedClock{
			skewKey{t.infos[nd.name].id.Service, t.infos[t.nodes[nd.parent].name].id.Service, s.nanos < 0},
			nd.end - nd.shift, max(s.nanos, -s.nanos), nd.weight,
		})
	}
}

// recordFanOuts adds the concurrent calls of a trace, for each request around them.
func (b *breakdown) recordFanOuts(t *tree) {
	for _, f := range t.fans {
		instance := t.infos[f.instance].id.Instance
		if instance == "" {
			continue
		}
		for r := f.req; r != none; r = t.reqs[r].outer {
			nd := &t.nodes[t.reqs[r].node]
			row := uint64(b.request(t.infos[nd.name], b.c.named[nd.tenant], nd.tenant))<<32 | uint64(f.part)
			k := fanKey{row, b.c.cellAt(nd.end-nd.shift, nd.end-nd.start), instance}
			x := b.fans[k]
			if x == nil {
				x = &cell{row: k.row, at: k.at, min: nd.end - nd.start}
				b.fans[k] = x
			}
			x.observe(nd.end-nd.start, nd.weight)
			x.counts[fanned] += uint64(nd.weight)
			if f.last {
				x.counts[endedLast] += uint64(nd.weight)
			}
		}
	}
}

// handOverEarly hands over early if a trace could exceed the bound. If that fails it drops the
// results; those of a closer for callers wait for the next sweep, until there are twice as many. Each request has cells for itself, its queue and its parts, of which there
// are at most as many as its spans.
func (b *breakdown) handOverEarly(ctx context.Context, t *tree) {
	more := 0
	for i := range t.reqs {
		more += int(t.reqs[i].size) + 2
	}
	cells, seen := len(b.cells.list)+more > b.maxCells, len(b.seen)+more > b.maxSeen
	fans := len(b.fans) > b.maxFans
	if b.empty() || !cells && !seen && !fans && len(b.moved) < 1<<14 {
		return
	}
	if main := &b.c.a.closer; b.c.atOnce && (cells || fans) && main.mu.TryLock() {
		defer main.mu.Unlock()
		main.breakdown.merge(b)
		main.snapshot()
		main.breakdown.handOverEarly(ctx, t)
		return
	}
	if b.refused && len(b.cells.list) < 2*b.maxCells && len(b.seen) < 2*b.maxSeen && len(b.fans) < 2*b.maxFans {
		return // the next sweep tries again
	}
	switch err := b.commit(ctx, cells || fans); {
	case err == nil:
	case b.c.atOnce && !b.refused:
		b.refused = true
	default:
		b.giveUp(err)
	}
}

// handOver hands everything over if all is set, or if an attempt to do so failed.
func (b *breakdown) handOver(ctx context.Context, all bool) error {
	if b.empty() || !all && b.attempts == 0 {
		return nil
	}
	err := b.commit(ctx, true)
	if err == nil || ctx.Err() != nil {
		return err
	}
	b.attempts++
	if b.attempts >= maxAttempts {
		b.giveUp(err)
	} else if b.attempts == 1 {
		b.c.a.o.Logger.Warn("breakdown not accepted, retrying", "err", err)
	}
	return err
}

// giveUp drops what waits to be handed over.
func (b *breakdown) giveUp(err error) {
	b.c.stats.LostRequests += b.requests
	b.c.stats.Lost.add(max(b.handed, b.c.now-60), b.c.now, b.c.now)
	b.c.a.o.Logger.Error("breakdown of requests is lost", "requests", b.requests, "err", err)
	b.drop(true)
}

func (b *breakdown) drop(distributions bool) {
	b.seen, b.moved = b.seen[:0], b.moved[:0]
	b.attempts, b.refused = 0, false
	if distributions {
		b.cells.drop()
		clear(b.fans)
		b.requests = 0
		b.handed = b.c.now
	}
}
