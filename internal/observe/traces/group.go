package traces

import (
	"math"
	"math/bits"

	"tailscope/internal/series"
)

// group holds the spans of one call of Add by trace, and the traces by shard.
type group struct {
	traces []part
	next   []int32  // by span: the next of its trace, or none
	heads  []uint32 // a table of traces by key: index+1
	from   []uint32 // by shard, the index of its first trace in order
	at     []uint32
	order  []uint32 // traces by shard

	invalid int       // spans
	infos   []*common // by the number in a Name
	once    []uint32  // traces to close at once
	router  Router    // nil: all stay
	away    []routed  // traces that go to other servers
	sent    []Span

	open    []uint32 // the open traces of one shard's
	fetched uint32   // keeps the compiler from dropping the loads
}

// part is the spans of one trace that came together.
type part struct {
	key         series.ID
	first, last int32 // spans
	n           int32
	root        int32 // the first span without a parent, or none
	whole       bool  // all parents are among them
	trusted     bool  // nothing is expected to follow
}

// sort finds the traces of the spans.
func (g *group) sort(a *Assembler, spans []Span) {
	if cap(g.next) < len(spans) {
		g.next = make([]int32, len(spans))
		g.heads = make([]uint32, 1<<bits.Len(uint(2*len(spans))))
	}
	if g.from == nil {
		g.from, g.at = make([]uint32, len(a.shards)+1), make([]uint32, len(a.shards))
	}
	g.next, g.traces, g.once, g.invalid = g.next[:len(spans)], g.traces[:0], g.once[:0], 0
	heads := g.heads[:1<<bits.Len(uint(2*len(spans)))]
	clear(heads)
	clear(g.from)
	last := -1 // index of the trace of the last span
	for i := range spans {
		s := &spans[i]
		if !s.valid() {
			g.invalid++
			last = -1
			continue
		}
		if last < 0 || s.TraceID != spans[i-1].TraceID {
			last = g.trace(a.mix(&s.TraceID), heads, a.shift)
		}
		t := &g.traces[last]
		if t.n == 0 {
			t.first = int32(i)
		} else {
			g.next[t.last] = int32(i)
		}
		t.last = int32(i)
		t.n++
		g.next[i] = none
		if t.root == none && s.Parent == [8]byte{} {
			t.root = int32(i)
		}
	}
	for n := range g.at {
		g.from[n+1] += g.from[n]
		g.at[n] = g.from[n]
	}
	if cap(g.order) < len(g.traces) {
		g.order = make([]uint32, len(g.traces), cap(g.traces))
	}
	g.order = g.order[:len(g.traces)]
	for i := range g.traces {
		n := g.traces[i].key.Lo >> a.shift
		g.order[g.at[n]] = uint32(i)
		g.at[n]++
	}
}

// trace returns the index of a trace, and adds it if it is new.
func (g *group) trace(key series.ID, heads []uint32, shift uint) int {
	mask := uint64(len(heads) - 1)
	for p := key.Lo & mask; ; p = (p + 1) & mask {
		e := heads[p]
		if e == 0 {
			g.traces = append(g.traces, part{key: key, root: none})
			heads[p] = uint32(len(g.traces))
			g.from[key.Lo>>shift+1]++
			return len(g.traces) - 1
		}
		if g.traces[e-1].key == key {
			return int(e - 1)
		}
	}
}

// fetch finds the open traces, 0 for those to be opened, and loads what adding to them will
// need. Memory is slow: here each loop's loads are independent, so that the processor has
// many under way at once.
func (g *group) fetch(sh *shard, order []uint32) []uint32 {
	g.open = g.open[:0]
	for _, n := range order {
		g.open = append(g.open, sh.table.Find(sh.keys, g.traces[n].key))
	}
	sum := uint32(0)
	for i, t := range g.open {
		if t != 0 {
			sum += sh.traces.at(t).tail
		} else {
			sum += uint32(sh.gone.line(g.traces[order[i]].key.Lo)[0])
		}
	}
	for _, i := range g.open {
		if i == 0 {
			continue
		}
		t := sh.traces.at(i)
		if t.n > 0 {
			sum += uint32(sh.blocks.at(t.tail).spans[t.n%blockSpans].end)
		}
		if t.extraLen > 0 {
			sum += uint32(sh.extras.at(t.extraTail).b[t.extraLen%extraSize])
		}
	}
	g.fetched = sum
	return g.open
}

// addTo adds traces of one shard.
func (a *Assembler) addTo(sh *shard, spans []Span, g *group, order []uint32, now int64) {
	sh.mu.Lock()
	open := g.fetch(sh, order)
	for at, n := range order {
		p := &g.traces[n]
		sh.stats.Spans += uint64(p.n)
		i := uint32(0)
		if at < len(open) {
			i = open[at]
		} else {
			i = sh.table.Find(sh.keys, p.key)
		}
		if i == 0 && p.trusted && sh.gone.find(p.key.Lo) == 0 {
			sh.gone.addRoot(p.key.Lo, spans[p.root].Name.common())
			g.once = append(g.once, n)
			continue
		}
		if i == 0 && g.router != nil && sh.gone.find(p.key.Lo) == 0 {
			if to := g.router.Route(&spans[p.first].TraceID); to != nil {
				sh.stats.Spans -= uint64(p.n) // they are added there
				g.away = append(g.away, routed{n, to})
				continue
			}
		}
		if !a.addPart(sh, spans, g, p, i, now) {
			open = nil // the traces found may be closed now
		}
	}
	sh.pressed.Store(sh.used() > sh.bound/2)
	sh.mu.Unlock()
}

// addPart adds spans to the open trace i, or to one that it opens if that is 0. It returns
// false if it closed others.
func (a *Assembler) addPart(sh *shard, spans []Span, g *group, p *part, i uint32, now int64) (kept bool) {
	kept = true
	began := i == 0
	f := fate(0)
	for s, left, tries := p.first, p.n, 0; s != none; {
		if i == 0 && f == 0 {
			i, f = sh.lookup(a, &spans[s].TraceID, p.key, now)
			began = i != 0 && sh.traces.at(i).n == 0
		}
		switch {
		case f == leftOutTrace:
			sh.stats.LeftOutSpans += uint64(left)
			return kept
		case f != 0:
			sh.stats.Late += uint64(left)
			if f == onceTrace && p.root == none {
				a.forget(sh.gone.root(p.key.Lo))
			}
			return kept
		case i != 0 && sh.add(a, &spans[s], i, now):
			tries = 0
		case tries == 3:
			sh.stats.NoSpace++
			tries = 0
		default:
			tries++
			sh.mu.Unlock()
			a.closeEarly(sh)
			sh.mu.Lock()
			i, kept, began = 0, false, false
			continue
		}
		s = g.next[s]
		left--
	}
	if i == 0 {
		return kept
	}
	t := sh.traces.at(i)
	switch {
	case began:
		t.first = uint8(min(t.n, math.MaxUint8))
		if p.whole {
			t.flags |= whole
			g.count(spans, p, now)
		}
	case t.flags&whole != 0 && p.root == none:
		t.flags &^= whole
		a.forget(sh.rootName(t))
	}
	return kept
}
