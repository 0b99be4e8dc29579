package traces

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// Analysis holds the figures of one trace. Spans has one entry for each of Trace.Spans,
// in the same order.
type Analysis struct {
	Spans []SpanAnalysis
	// Order lists all spans without duplicates, parents before children, siblings by
	// start.
	Order []int
	// Root is the request that the times below are within: the one asked for, or else the
	// root of the trace, or without one its longest request; -1 if there is none.
	Root int
	// Start and End of the whole trace with the clocks corrected, Unix nanoseconds.
	Start, End int64
	Components []ComponentTime // of Root, by falling self time
	Skews      []Skew
}

// SpanAnalysis holds the figures of one span within Analysis.Root.
type SpanAnalysis struct {
	Parent   int // index into Trace.Spans, or -1
	Depth    int
	Request  bool  // an entry span
	Orphan   bool  // its parent is missing
	Async    bool  // outlives its parent
	Shift    int64 // nanoseconds it was moved by because clocks disagree; Start + Shift is its corrected start
	Self     int64 // exclusive nanoseconds
	Critical int64 // nanoseconds on the critical path
	// Path lists the stretches of the critical path within the span, ascending, Unix
	// nanoseconds after the shift, closed below and open above.
	Path [][2]int64
}

// ComponentTime is the nanoseconds of a request spent in one component.
type ComponentTime struct {
	Component      string
	Self, Critical int64
}

// Skew is a call whose times were moved: the clock of Service is ahead of (or behind)
// that of Peer by at least Nanos.
type Skew struct {
	Service, Peer string
	Ahead         bool
	Nanos         int64 // positive
}

// Analyse computes the figures of one trace, which it does not change.
func Analyse(t *Trace) *Analysis { return AnalyseRequest(t, [8]byte{}) }

// AnalyseRequest is Analyse with the times within the request whose entry span is given, if
// the trace has it.
func AnalyseRequest(t *Trace, span [8]byte) *Analysis {
	n := newNames(math.MaxInt64)
	var x tree
	names := make([]Name, len(t.Spans))
	for i := range t.Spans {
		names[i] = n.name(&t.Spans[i].Identity, func() (t time.Time) { return })
	}
	x.reset(n.list)
	for i := range t.Spans {
		s := &t.Spans[i]
		nd := node{
			id: binary.LittleEndian.Uint64(s.ID[:]), up: binary.LittleEndian.Uint64(s.Parent[:]),
			start: s.Start, end: s.End, name: names[i].common(), kind: n.list[names[i].common()].kind, slot: int32(i),
		}
		if s.Failed {
			nd.flags = failed
		}
		x.nodes = append(x.nodes, nd)
	}
	x.acc = make([]sums, len(t.Spans))
	x.link()
	a := &Analysis{Root: -1, Spans: make([]SpanAnalysis, len(t.Spans)), Order: make([]int, 0, len(t.Spans))}
	for i := range a.Spans {
		a.Spans[i].Parent = -1
	}
	a.describe(&x)
	a.within(&x, n, x.requestOf(binary.LittleEndian.Uint64(span[:])))
	for _, s := range x.skews {
		nd := &x.nodes[s.node]
		a.Skews = append(a.Skews, Skew{
			Service: x.infos[nd.name].id.Service, Peer: x.infos[x.nodes[nd.parent].name].id.Service,
			Ahead: s.nanos < 0, Nanos: max(s.nanos, -s.nanos),
		})
	}
	return a
}

// describe fills in what does not depend on the root request. A node's slot is the
// number of its span; duplicate spans have no node.
func (a *Analysis) describe(x *tree) {
	for i := range x.nodes {
		nd := &x.nodes[i]
		s := &a.Spans[nd.slot]
		s.Request, s.Orphan, s.Shift = nd.flags&request != 0, nd.flags&orphan != 0, nd.shift
		if nd.parent != none {
			p := &x.nodes[nd.parent]
			s.Parent, s.Async = int(p.slot), nd.end > p.end
		}
		if i == 0 || nd.start < a.Start {
			a.Start = nd.start
		}
		a.End = max(a.End, nd.end)
	}
	byStart := func(list []int32) {
		slices.SortStableFunc(list, func(p, q int32) int { return cmp.Compare(x.nodes[p].start, x.nodes[q].start) })
	}
	byStart(x.tops)
	type level struct {
		node  int32
		depth int
	}
	stack := make([]level, 0, len(x.nodes))
	push := func(list []int32, depth int) {
		for _, i := range slices.Backward(list) {
			stack = append(stack, level{i, depth})
		}
	}
	push(x.tops, 0)
	for len(stack) > 0 {
		l := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		nd := &x.nodes[l.node]
		a.Spans[nd.slot].Depth = l.depth
		a.Order = append(a.Order, int(nd.slot))
		kids := slices.Clone(x.kids[nd.first : nd.first+nd.kids])
		byStart(kids)
		push(kids, l.depth+1)
	}
}

// requestOf returns the request of a span, or else the root of the trace, or else its
// longest request; nil if there is none.
func (x *tree) requestOf(span uint64) *req {
	var longest *req
	for i := range x.reqs {
		q, nd := &x.reqs[i], &x.nodes[x.reqs[i].node]
		if span != 0 && nd.id == span {
			return q
		}
		if longest == nil || q.node == x.root || longest.node != x.root && nd.end-nd.start > x.nodes[longest.node].end-x.nodes[longest.node].start {
			longest = q
		}
	}
	return longest
}

// within fills in the times within a request.
func (a *Analysis) within(x *tree, n *names, root *req) {
	if root == nil {
		return
	}
	a.Root = int(x.nodes[root.node].slot)
	x.exclusive(root)
	x.critical(root, func(i int32, from, to int64) {
		s := &a.Spans[x.nodes[i].slot]
		s.Path = append(s.Path, [2]int64{from, to})
	})
	times := make([]ComponentTime, len(n.comps))
	for _, slot := range x.touch {
		s, sum := &a.Spans[slot], x.acc[slot]
		s.Self, s.Critical = sum.self, sum.critical
		slices.Reverse(s.Path)
	}
	for i := range x.nodes {
		nd := &x.nodes[i]
		c := &times[x.infos[nd.name].comp]
		c.Self += a.Spans[nd.slot].Self
		c.Critical += a.Spans[nd.slot].Critical
	}
	for i, c := range times {
		if c.Self > 0 || c.Critical > 0 {
			c.Component = n.comps[i]
			a.Components = append(a.Components, c)
		}
	}
	slices.SortStableFunc(a.Components, func(p, q ComponentTime) int { return cmp.Compare(q.Self, p.Self) })
}
