package traces

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// closer computes the results of closed traces. Sweeps have one, and the callers of Add a few,
// which give theirs to that of sweeps before a generation is cut.
type closer struct {
	mu     sync.Mutex // guards the fields below
	a      *Assembler
	atOnce bool  // it is for callers of Add
	now    int64 // Unix seconds
	aged   int64 // the time that KeepAge is counted from, Unix seconds
	stats  Stats

	batch      []uint32 // traces being closed
	usedBlocks []uint32 // blocks of batch
	usedExtras []uint32 // extras of batch
	// The traces of batch; a copy, made while the shard was locked.
	traces slab[openTrace]
	blocks slab[block]
	extras slab[extra]
	// The names at that time.
	infos []*common
	named []*tenant
	part  []partInfo
	texts []*textInfo
	comps []string

	tree   tree
	parts  []uint32 // of the trace, by slot
	local  []int32  // by part: slot
	stamp  []uint32 // by part: number of the trace that local belongs to
	turn   uint32
	beside []byte // extras of the trace
	spans  []Span // those of the request, when a trace is closed at once; its nodes' extras are their numbers plus one

	heads   []uint32 // scratch of fetch
	fetched uint64   // keeps the compiler from dropping the loads

	breakdown breakdown
}

func (c *closer) init(a *Assembler) {
	c.a = a
	c.tree.seed = a.seed[0]
	c.breakdown.init(c, a.o.MemoryBytes/32*3)
}

func (c *closer) bytes() int64 { return c.breakdown.bytes() + c.tree.bytes() }

func (c *closer) view(sh *shard) {
	c.traces = slab[openTrace]{chunks: sh.traces.chunks, per: sh.traces.per}
	c.blocks = slab[block]{chunks: sh.blocks.chunks, per: sh.blocks.per}
	c.extras = slab[extra]{chunks: sh.extras.chunks, per: sh.extras.per}
}

func (c *closer) snapshot() {
	c.now = c.a.o.Now().Unix()
	c.aged = c.now - int64(c.a.o.Leapt()/time.Second)
	n := c.a.names
	n.mu.RLock()
	c.infos, c.named, c.part, c.texts, c.comps = n.list, n.tenants, n.part, n.texts, n.comps
	n.mu.RUnlock()
	if len(c.stamp) < len(c.part) {
		c.stamp, c.local = make([]uint32, 2*len(c.part)), make([]int32, 2*len(c.part))
		c.turn = 0
	}
}

// fetchTraces is the number of traces loaded together: their data should stay in the
// nearest cache.
const fetchTraces = 16

// fetch loads the first spans of traces; see group.fetch.
func (c *closer) fetch(traces []uint32) {
	sum := uint64(0)
	c.heads = c.heads[:0]
	for _, i := range traces {
		o := c.traces.at(i)
		c.heads = append(c.heads, o.head)
		if o.extraHead != 0 {
			e := c.extras.at(o.extraHead)
			sum += uint64(e.next) + uint64(e.b[extraSize-1])
		}
	}
	for range 2 {
		for i, b := range c.heads {
			if b == 0 {
				continue
			}
			x := c.blocks.at(b)
			sum += x.spans[0].id + uint64(x.spans[1].end) + x.spans[3].parent + uint64(x.spans[4].name) // one on each cache line
			c.heads[i] = x.next
		}
	}
	c.fetched = sum
}

// close computes the results of one trace.
func (c *closer) close(ctx context.Context, i uint32) {
	o := c.traces.at(i)
	c.tree.reset(c.infos)
	c.load(o)
	c.conclude(ctx, o)
	if o.first > 0 && o.first < math.MaxUint8 && o.n > uint32(o.first) {
		c.learn()
	}
}

// conclude computes the results of the trace whose spans are in c.tree.
func (c *closer) conclude(ctx context.Context, o *openTrace) {
	t := &c.tree
	c.stats.Duplicates += uint64(t.link())
	s := &c.stats
	s.Closed++
	s.Orphans += uint64(t.orphans)
	s.Cycles += uint64(t.cycles)
	s.Nested += uint64(t.nested)
	s.Skewed += uint64(len(t.skews))
	if t.root == none {
		s.Rootless++
	}
	if o.flags&early != 0 {
		s.ClosedEarly++
	}
	complete := t.root != none && o.flags&early == 0 && o.left == 0 && t.orphans == 0
	if !complete {
		s.Incomplete++
	}
	c.breakdown.recordSkews(t)
	if len(t.reqs) > 0 {
		c.breakdown.handOverEarly(ctx, t)
		t.fanOut()
		for r := range t.reqs {
			q := &t.reqs[r]
			t.exclusive(q)
			t.critical(q, nil)
			since := int64(0)
			if o.flags&queued != 0 {
				since = c.queued(q.node)
			}
			c.breakdown.record(t, q, since)
			t.clear()
		}
		c.breakdown.recordFanOuts(t)
		s.Requests += uint64(len(t.reqs))
	}
	if c.a.o.Keeper != nil {
		c.a.keep.consider(ctx, c, o, complete)
	}
}

// load copies the spans of a trace into the tree and numbers its parts.
func (c *closer) load(o *openTrace) {
	t := &c.tree
	c.beginTrace()
	c.beside = c.beside[:0]
	for x, n := o.extraHead, o.extraLen; x != 0; {
		e := c.extras.at(x)
		c.usedExtras = append(c.usedExtras, x)
		c.beside = append(c.beside, e.b[:min(n, extraSize)]...)
		n -= min(n, extraSize)
		x = e.next
	}
	left := o.n
	apart := o.n - uint32(o.first) // spans that came later
	if o.first == math.MaxUint8 {
		apart = 0
	}
	for b := o.head; b != 0; {
		blk := c.blocks.at(b)
		c.usedBlocks = append(c.usedBlocks, b)
		for j := range min(left, blockSpans) {
			s := &blk.spans[j]
			name := s.name &^ failedBit
			if int(name) >= len(c.infos) {
				name = 0
			}
			info := c.infos[name]
			nd := node{
				id: s.id, up: s.parent, start: s.start, end: s.end, name: name, extra: s.extra, weight: uint32(o.oneIn), slot: c.slot(info), kind: info.kind,
			}
			if s.name&failedBit != 0 {
				nd.flags = failed
			}
			if left-j <= apart {
				nd.flags |= followed
			}
			if o.flags&unlike != 0 && s.extra != 0 {
				x := readExtra(c.beside, s.extra)
				nd.weight, nd.tenant = clampWeight(uint64(x.weight)*uint64(o.oneIn)), c.tenant(x.tenant)
			}
			t.nodes = append(t.nodes, nd)
		}
		left -= min(left, blockSpans)
		b = blk.next
	}
	for len(t.acc) < len(c.parts) {
		t.acc = append(t.acc, sums{})
	}
}

// beginTrace forgets the parts of the last trace.
func (c *closer) beginTrace() {
	c.turn++
	if c.turn == 0 {
		clear(c.stamp)
		c.turn = 1
	}
	c.parts = c.parts[:0]
}

// slot numbers the part of a name within the trace, and notes that the name is used.
func (c *closer) slot(info *common) int32 {
	if info.used.Load() != c.now {
		info.used.Store(c.now)
	}
	if c.stamp[info.part] != c.turn {
		c.stamp[info.part] = c.turn
		c.local[info.part] = int32(len(c.parts))
		c.parts = append(c.parts, info.part)
	}
	return c.local[info.part]
}

// tenant returns the number of a tenant, or 0 if it is not known, and notes that it is used.
func (c *closer) tenant(n uint32) uint32 {
	if int(n) >= len(c.named) {
		n = 0
	}
	if t := c.named[n]; t.used.Load() != c.now {
		t.used.Store(c.now)
	}
	return n
}

// extraOf returns the fields of a span that few have.
func (c *closer) extraOf(extra uint32) beside {
	if c.spans == nil {
		return readExtra(c.beside, extra)
	}
	s := &c.spans[extra-1]
	return beside{s.Queued, s.Text, s.Name.tenant(), clampWeight(uint64(s.Weight)), s.Detail[:min(len(s.Detail), MaxDetail)]}
}

// queued returns when a span was first put into a queue, or 0 if that is not known.
func (c *closer) queued(i int32) int64 { return c.extraOf(c.tree.nodes[i].extra).queued }

// handOverDue hands over what is due, and the whole breakdown or all kept traces as well.
func (a *Assembler) handOverDue(ctx context.Context, now time.Time, breakdown, kept bool) error {
	c := &a.closer
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now.Unix()
	c.tidy()
	before := c.now - (int64(a.o.Grace+a.o.Idle)+a.maxAge)/1e9
	// While numbers are freed nobody may hold any.
	retire := (breakdown || c.breakdown.empty()) && (a.names.retirable(c.now, before) || a.rows.crowded(c.now))
	all := breakdown || retire
	for _, w := range a.workers {
		w.mu.Lock()
		w.tidy()
		if all || w.breakdown.refused {
			all = true
			c.breakdown.merge(&w.breakdown)
		}
		w.mu.Unlock()
	}
	c.snapshot()
	c.now = now.Unix()
	err := errors.Join(c.breakdown.handOver(ctx, all), a.keep.handOver(ctx, now.UnixNano(), kept))
	if !retire || !c.breakdown.empty() {
		return err
	}
	return errors.Join(err, a.retire(ctx, before))
}

// retire frees the numbers of names that were not used since before, and those of rows if they
// are crowded. Callers of Add wait meanwhile, so that what came since has been handed over.
// The caller has locked closer.
func (a *Assembler) retire(ctx context.Context, before int64) error {
	c := &a.closer
	for _, w := range a.workers {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.breakdown.merge(&w.breakdown)
	}
	now := c.now
	c.snapshot()
	c.now = now
	if err := c.breakdown.handOver(ctx, true); err != nil || !c.breakdown.empty() {
		return err
	}
	freed := a.names.retire(c.now, before)
	if freed {
		a.keep.mu.Lock()
		a.keep.reset()
		a.keep.mu.Unlock()
	}
	if freed || a.rows.crowded(c.now) {
		a.rows.reset(c.now)
		c.breakdown.reset()
		for _, w := range a.workers {
			w.breakdown.reset()
		}
	}
	return nil
}

// tidy frees memory after a giant trace.
func (c *closer) tidy() {
	c.tree.shrink()
	if cap(c.beside) > 1<<20 {
		c.beside = nil
	}
}
