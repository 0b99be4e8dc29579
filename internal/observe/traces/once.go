package traces

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// A trace whose spans come together, its root and all parents among them, is closed at once:
// it takes no memory, and none of its spans is copied. That is right as long as nothing else
// of it is to come, such as the spans of a callee in another service, of asynchronous work, or
// of a batch that was cut in two. Whether something may come is learned for each name: of a
// name that is not trusted, traces wait as others do, and if spans of other messages hang below
// one of that name, it stays so. A name is trusted when spans of it have been in minQuiet traces
// that came whole, and none that hung below one has followed for as long as traces wait.
//
// Of trusted names one trace in sampleOnce waits nevertheless. So it is noticed when a callee
// begins to send spans, and mostly before: what comes for a trace that was closed at once is
// late, and the operation of its root is not trusted any more. The next time it takes twice as
// many traces to trust a name that was wrong.
//
// While more than half of a shard's memory is taken, pressedWait has to do for the time that
// traces wait: the other choice is to leave traces out. It is more than the 5 s for which
// OpenTelemetry's senders wait by default, and names that were wrong before have to wait in full.

const (
	minQuiet    = 200
	maxQuiet    = 1 << 16
	sampleOnce  = 64
	pressedWait = int64(6 * time.Second)
	maxOnce     = 64 // spans of a trace that is closed at once
)

// trust counts how often nothing followed below spans of a name.
type trust struct {
	quiet atomic.Uint32 // traces since something last followed, at most need
	need  atomic.Uint32 // of them to trust the name, if more than minQuiet
	since atomic.Int64  // Unix nanoseconds: when quiet came to be need, or was last counted
}

func (t *trust) needed() uint32 { return max(t.need.Load(), minQuiet) }

// trusted reports whether nothing is expected to follow below a span of the name, if wait is how
// long that has to be known; while memory is short pressedWait has to do, but for names that were
// wrong before.
func (t *trust) trusted(now, wait int64, pressed bool) bool {
	if pressed && t.need.Load() == 0 {
		wait = min(wait, pressedWait)
	}
	return t.quiet.Load() >= t.needed() && now-t.since.Load() >= wait
}

// count counts a trace that came whole and waits.
func (t *trust) count(now int64) {
	switch {
	case t.quiet.Load() < t.needed():
		t.since.Store(now)
		t.quiet.Add(1)
	case t.since.Load() > now: // the clock was set back
		t.since.Store(now)
	}
}

// forget notes that something followed.
func (t *trust) forget() {
	if need := t.needed(); t.quiet.Swap(0) >= need {
		t.need.Store(min(2*need, maxQuiet))
	}
}

// findWhole finds the traces that came whole, and of them those to be closed at once.
func (g *group) findWhole(a *Assembler, spans []Span, now int64) {
	if len(a.workers) == 0 {
		return
	}
	a.names.mu.RLock()
	g.infos = a.names.list
	a.names.mu.RUnlock()
	grace := int64(a.o.Grace) + 2e9 // until a sweep has closed a trace
	for i := range g.traces {
		p := &g.traces[i]
		if p.root == none || p.n > maxOnce || !g.isWhole(spans, p) {
			continue
		}
		p.whole = true
		if sampled(p.key.Lo) {
			continue
		}
		pressed := a.shards[p.key.Lo>>a.shift].pressed.Load()
		p.trusted = true
		for s := p.first; s != none && p.trusted; s = g.next[s] {
			info := g.info(spans[s].Name.common())
			p.trusted = info != nil && info.trust.trusted(now, grace, pressed)
		}
	}
}

// sampled reports whether a trace of trusted names waits nevertheless.
func sampled(h uint64) bool { return h*0x9e3779b97f4a7c15>>32%sampleOnce == 0 }

func (g *group) info(name uint32) *common {
	if name == 0 || int(name) >= len(g.infos) {
		return nil
	}
	return g.infos[name]
}

// isWhole reports whether the parents of all spans are among them.
func (g *group) isWhole(spans []Span, p *part) bool {
	for s := p.first; s != none; s = g.next[s] {
		up := binary.LittleEndian.Uint64(spans[s].Parent[:])
		if up == 0 || up == binary.LittleEndian.Uint64(spans[p.root].ID[:]) {
			continue
		}
		found := false
		for o := p.first; o != none && !found; o = g.next[o] {
			found = o != s && binary.LittleEndian.Uint64(spans[o].ID[:]) == up
		}
		if !found {
			return false
		}
	}
	return true
}

// count counts a trace that came whole and waits, once for each of its names.
func (g *group) count(spans []Span, p *part, now int64) {
	for s := p.first; s != none; s = g.next[s] {
		name := spans[s].Name.common()
		twice := false
		for o := p.first; o != s && !twice; o = g.next[o] {
			twice = spans[o].Name.common() == name
		}
		if info := g.info(name); info != nil && !twice {
			info.trust.count(now)
		}
	}
}

// forget notes that something followed a trace whose root has the name, which may have been
// given to another since.
func (a *Assembler) forget(name uint32) {
	a.names.mu.RLock()
	defer a.names.mu.RUnlock()
	if name != 0 && int(name) < len(a.names.list) {
		a.names.list[name].trust.forget()
	}
}

// rootName returns the name of the root of a trace that came whole, or 0.
func (sh *shard) rootName(t *openTrace) uint32 {
	left := t.n
	for b := t.head; b != 0; b = sh.blocks.at(b).next {
		blk := sh.blocks.at(b)
		for j := range min(left, blockSpans) {
			if blk.spans[j].parent == 0 {
				return blk.spans[j].name &^ failedBit
			}
		}
		left -= min(left, blockSpans)
	}
	return 0
}

// learn notes below which spans of the trace in c.tree others hang that came with other
// messages.
func (c *closer) learn() {
	t := &c.tree
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.parent == none {
			continue
		}
		if p := &t.nodes[nd.parent]; (p.flags^nd.flags)&followed != 0 {
			t.infos[p.name].trust.forget()
		}
	}
}

// maxWorkers bounds the number of closers for callers of Add, minWorkerCells is the least number
// of cells worth having one.
const (
	maxWorkers     = 4
	minWorkerCells = 512
)

// addWorkers makes the closers for callers of Add, if there is memory for them.
func (a *Assembler) addWorkers() {
	cells := int(a.o.MemoryBytes / 32 * 3 / 8 / (cellBytes + 16)) // of all together
	n := min(maxWorkers, runtime.GOMAXPROCS(0), cells/minWorkerCells)
	for range n {
		w := &closer{atOnce: true}
		w.init(a)
		w.breakdown.maxCells = cells / n
		w.breakdown.maxSeen = min(w.breakdown.maxSeen, 4<<10)
		w.breakdown.maxFans /= 8
		a.workers = append(a.workers, w)
	}
}

// borrow returns a locked closer.
func (a *Assembler) borrow() *closer {
	for _, w := range a.workers {
		if w.mu.TryLock() {
			return w
		}
	}
	w := a.workers[a.turn.Add(1)%uint32(len(a.workers))]
	w.mu.Lock()
	return w
}

// closeAtOnce closes the traces g.once.
func (a *Assembler) closeAtOnce(spans []Span, g *group) {
	c := a.borrow()
	defer c.mu.Unlock()
	c.snapshot()
	c.spans = spans
	slices.Sort(g.once) // as they came: those of one operation share their cells
	for _, n := range g.once {
		c.closeWhole(context.Background(), spans, g, &g.traces[n])
	}
	c.spans = nil
}

// closeWhole computes the results of a trace of the request.
func (c *closer) closeWhole(ctx context.Context, spans []Span, g *group, p *part) {
	t := &c.tree
	t.reset(c.infos)
	c.beginTrace()
	o := openTrace{id: spans[p.first].TraceID, oneIn: 1}
	for s := p.first; s != none; s = g.next[s] {
		x := &spans[s]
		name := x.Name.common()
		if int(name) >= len(c.infos) {
			name = 0
		}
		info := c.infos[name]
		nd := node{
			id: binary.LittleEndian.Uint64(x.ID[:]), up: binary.LittleEndian.Uint64(x.Parent[:]), start: x.Start, end: x.End,
			name: name, extra: uint32(s + 1), weight: clampWeight(uint64(x.Weight)), slot: c.slot(info), kind: info.kind,
		}
		if tenant := x.Name.tenant(); tenant != 0 {
			nd.tenant = c.tenant(tenant)
		}
		if x.Failed {
			nd.flags = failed
		}
		if x.Queued != 0 {
			o.flags |= queued
		}
		t.nodes = append(t.nodes, nd)
	}
	for len(t.acc) < len(c.parts) {
		t.acc = append(t.acc, sums{})
	}
	c.stats.AtOnce++
	c.conclude(ctx, &o)
}
