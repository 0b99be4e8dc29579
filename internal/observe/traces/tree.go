package traces

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxNest bounds the depth of requests within one another that are broken down; each
// level costs one more pass over the spans below it.
const maxNest = 32

const none = int32(-1)

// node is one span of a tree.
type node struct {
	id, up     uint64
	start, end int64  // after shift
	shift      int64  // by which it was moved because the clocks disagree
	enter      int64  // sweep: its clock when the span became a leaf
	name       uint32 // without the tenant
	tenant     uint32
	extra      uint32
	weight     uint32
	parent     int32 // none for a top
	req        int32 // nearest request at or above it, or none
	first      int32 // children are tree.kids[first:first+kids], by ascending end
	kids       int32
	busy       int32 // sweep: direct children that are active
	slot       int32 // index in acc
	kind       kind
	flags      nodeFlags
}

type nodeFlags uint8

const (
	failed    nodeFlags = 1 << iota
	request             // an entry span, or a root
	orphan              // its parent never came
	active              // sweep
	twinned             // client half of a span that two services share
	unvisited           // link
	leftOut             // of a kept trace
	followed            // came with another message than the first
)

// tree is one trace being analysed. It is reused: its memory grows to the largest
// trace's. The caller fills nodes with add, then calls link; sums is then called for
// each of reqs.
type tree struct {
	infos []*common // by the number in a Name
	nodes []node
	root  int32   // none if it never arrived
	tops  []int32 // without a parent
	kids  []int32
	order []int32 // parents before children
	reqs  []req   // outer before inner

	orphans, cycles, nested int
	skews                   []skew

	seed   uint64
	table  []int32 // by id: index+1
	byEnd  []moment
	byTime []moment // starts
	events []int32  // of each request: index<<1, odd for an end; by time
	frames []frame
	touch  []int32 // slots that the last sums changed
	acc    []sums  // by slot
	fans   []fan
	calls  []call
}

type moment struct {
	at int64
	i  int32
}

// req is one request of the tree.
type req struct {
	node   int32
	outer  int32 // index into reqs of the request around it, or none
	size   int32 // spans of its subtree
	events int32 // index of its first event
	fill   int32
}

// sums holds one request's time in one slot.
type sums struct {
	self, critical int64
	calls          int32
}

func (t *tree) reset(infos []*common) {
	t.infos = infos
	t.nodes = t.nodes[:0]
}

// bytes returns its approximate memory.
func (t *tree) bytes() int64 {
	return int64(cap(t.nodes))*96 + int64(cap(t.kids)+cap(t.order)+cap(t.table)+cap(t.events)+cap(t.touch))*4 +
		int64(cap(t.byEnd)+cap(t.byTime)+cap(t.fans))*16 + int64(cap(t.frames)+cap(t.calls)+cap(t.acc))*24 + int64(cap(t.reqs))*20
}

// shrink frees memory after a giant trace.
func (t *tree) shrink() {
	if t.bytes() > 2<<20 {
		*t = tree{seed: t.seed}
	}
}

// link finds parents, requests and clock skew. It removes duplicate spans and returns
// their number.
func (t *tree) link() (duplicates int) {
	t.orphans, t.cycles, t.nested = 0, 0, 0
	if len(t.nodes) <= smallTree {
		duplicates = t.indexSmall()
	} else {
		duplicates = t.index()
	}
	t.adopt()
	t.sortEnds()
	t.children()
	t.walk()
	if t.unskew() {
		t.sortEnds()
		t.children()
	}
	t.requests()
	return duplicates
}

// index enters the spans into the table by id and drops duplicates. Two services may
// share a span, as Zipkin's do: then the server's half lies below the client's, and
// children belong to the server's.
func (t *tree) index() (duplicates int) {
	size := 1 << bits.Len(uint(2*len(t.nodes)))
	if cap(t.table) < size {
		t.table = make([]int32, size)
	}
	t.table = t.table[:size]
	clear(t.table)
	n := 0
	for i := range t.nodes {
		nd := &t.nodes[i]
		p := t.find(nd.id)
		if e := t.table[p]; e != 0 {
			o := &t.nodes[e-1]
			shared := o.kind.call() && nd.kind.entry() || o.kind.entry() && nd.kind.call()
			if !shared || o.flags&twinned != 0 || o.parent != none {
				duplicates++
				continue
			}
			nd.parent = none
			if nd.kind.entry() {
				nd.parent = e - 1
				o.flags |= twinned
				t.table[p] = int32(n + 1)
			} else {
				o.parent = int32(n)
				nd.flags |= twinned
			}
		} else {
			nd.parent = none
			t.table[p] = int32(n + 1)
		}
		if i != n {
			t.nodes[n] = *nd
		}
		n++
	}
	t.nodes = t.nodes[:n]
	return duplicates
}

// smallTree is the number of nodes up to which looking at each is quicker than a table.
const smallTree = 16

// indexSmall is index without a table.
func (t *tree) indexSmall() (duplicates int) {
	for i := range t.nodes {
		nd := &t.nodes[i]
		nd.parent = none
		for j := range i {
			if t.nodes[j].id == nd.id {
				return t.index()
			}
		}
	}
	t.table = t.table[:0]
	return 0
}

// byID returns the node of an id, or none. Of a span that two services share it is the
// server's half.
func (t *tree) byID(id uint64) int32 {
	if len(t.table) > 0 {
		return t.table[t.find(id)] - 1
	}
	for i := range t.nodes {
		if t.nodes[i].id == id {
			return int32(i)
		}
	}
	return none
}

// find returns the index of an id in the table, or where it would be.
func (t *tree) find(id uint64) uint64 {
	mask := uint64(len(t.table) - 1)
	h, l := bits.Mul64(id^t.seed, 0x9e3779b97f4a7c15)
	p := (h ^ l) & mask
	for {
		e := t.table[p]
		if e == 0 || t.nodes[e-1].id == id {
			return p
		}
		p = (p + 1) & mask
	}
}

// adopt resolves the parents. Of several roots the first to start is the trace's;
// orphans that are not requests become its children.
func (t *tree) adopt() {
	t.root = none
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.parent != none { // the server's half of a shared span
			continue
		}
		if nd.up == 0 {
			if t.root == none || nd.start < t.nodes[t.root].start {
				t.root = int32(i)
			}
			continue
		}
		p := t.byID(nd.up)
		if p == int32(i) && nd.up == nd.id {
			t.cycles++
			p = none
		}
		nd.parent = p
		if p == none {
			nd.flags |= orphan
			t.orphans++
		}
	}
	if t.orphans > 0 {
		t.hang()
	}
}

// hang makes the orphans that are not requests children of the root.
func (t *tree) hang() {
	if t.root == none {
		return
	}
	for i := range t.nodes {
		if nd := &t.nodes[i]; nd.parent == none && nd.flags&orphan != 0 && !nd.kind.entry() {
			nd.parent = t.root
		}
	}
}

func (t *tree) sortEnds() {
	t.byEnd = t.byEnd[:0]
	for i := range t.nodes {
		t.byEnd = append(t.byEnd, moment{t.nodes[i].end, int32(i)})
	}
	sortMoments(t.byEnd)
}

// sortMoments sorts by time, then index. Spans come nearly in order of their
// ends, so that insertion is quick.
func sortMoments(m []moment) {
	if len(m) > 48 {
		if slices.IsSortedFunc(m, compareMoments) {
			return
		}
		slices.SortFunc(m, compareMoments)
		return
	}
	for i := 1; i < len(m); i++ {
		x := m[i]
		j := i
		for j > 0 && m[j-1].at > x.at {
			m[j] = m[j-1]
			j--
		}
		m[j] = x
	}
}

func compareMoments(a, b moment) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Compare(a.i, b.i)
}

// children fills kids by parent, each by ascending end.
func (t *tree) children() {
	t.tops = t.tops[:0]
	for i := range t.nodes {
		t.nodes[i].kids = 0
	}
	for i := range t.nodes {
		if p := t.nodes[i].parent; p != none {
			t.nodes[p].kids++
		}
	}
	at := int32(0)
	for i := range t.nodes {
		nd := &t.nodes[i]
		nd.first = at
		at += nd.kids
		nd.kids = 0
	}
	if cap(t.kids) < int(at) {
		t.kids = make([]int32, at, 2*at)
	}
	t.kids = t.kids[:at]
	for _, m := range t.byEnd {
		p := t.nodes[m.i].parent
		if p == none {
			t.tops = append(t.tops, m.i)
			continue
		}
		nd := &t.nodes[p]
		t.kids[nd.first+nd.kids] = m.i
		nd.kids++
	}
}

// walk sorts the nodes, parents before children. A node that cannot be reached from a
// top is in a cycle or below one; each cycle is cut at its earliest node.
func (t *tree) walk() {
	t.order = append(t.order[:0], t.tops...)
	t.follow(0)
	if len(t.order) == len(t.nodes) {
		return
	}
	for i := range t.nodes {
		t.nodes[i].flags |= unvisited
	}
	for _, i := range t.order {
		t.nodes[i].flags &^= unvisited
	}
	for i := range t.nodes {
		if t.nodes[i].flags&unvisited == 0 {
			continue
		}
		// As many steps up as there are nodes end in the cycle; Brent's method finds it
		// in a multiple of its length and of the way there.
		c := t.inCycle(int32(i))
		first := c
		for p := t.nodes[c].parent; p != c; p = t.nodes[p].parent {
			if t.nodes[p].start < t.nodes[first].start {
				first = p
			}
		}
		t.cut(first)
		from := len(t.order)
		t.order = append(t.order, first)
		t.follow(from)
		for _, v := range t.order[from:] {
			t.nodes[v].flags &^= unvisited
		}
	}
	t.hang()
	t.children()
	t.order = append(t.order[:0], t.tops...)
	t.follow(0)
}

func (t *tree) follow(from int) {
	for i := from; i < len(t.order); i++ {
		nd := &t.nodes[t.order[i]]
		t.order = append(t.order, t.kids[nd.first:nd.first+nd.kids]...)
	}
}

// inCycle returns a node of the cycle above i.
func (t *tree) inCycle(i int32) int32 {
	slow, fast, power, steps := i, t.nodes[i].parent, 1, 1
	for slow != fast {
		if steps == power {
			slow, power, steps = fast, 2*power, 0
		}
		fast = t.nodes[fast].parent
		steps++
	}
	return slow
}

// cut makes a node of a cycle an orphan.
func (t *tree) cut(i int32) {
	p := &t.nodes[t.nodes[i].parent]
	kids := t.kids[p.first : p.first+p.kids]
	at := slices.Index(kids, i)
	copy(kids[at:], kids[at+1:])
	p.kids--
	t.nodes[i].parent = none
	t.nodes[i].flags |= orphan
	t.cycles++
	t.orphans++
}

// requests finds the requests, finds which of them each span is within, and lays out
// each request's events.
func (t *tree) requests() {
	t.reqs = t.reqs[:0]
	for _, i := range t.order {
		nd := &t.nodes[i]
		outer, depth := none, 0
		if nd.parent != none {
			outer = t.nodes[nd.parent].req
		}
		nd.req = outer
		if !nd.kind.entry() && nd.up != 0 {
			continue
		}
		nd.flags |= request
		for r := outer; r != none; r = t.reqs[r].outer {
			depth++
		}
		if depth >= maxNest {
			t.nested++
			continue
		}
		nd.req = int32(len(t.reqs))
		t.reqs = append(t.reqs, req{node: i, outer: outer})
	}
	for i := range t.nodes {
		if r := t.nodes[i].req; r != none {
			t.reqs[r].size++
		}
	}
	for i := len(t.reqs) - 1; i >= 0; i-- {
		if o := t.reqs[i].outer; o != none {
			t.reqs[o].size += t.reqs[i].size
		}
	}
	at := int32(0)
	for i := range t.reqs {
		t.reqs[i].events, t.reqs[i].fill = at, at
		at += 2 * t.reqs[i].size
	}
	if cap(t.events) < int(at) {
		t.events = make([]int32, at, 2*at)
	}
	t.events = t.events[:at]
	t.layEvents()
}

// layEvents merges starts and ends and appends each to the events of the requests it is
// within. At equal times starts come first, so that a span of no length starts before it
// ends.
func (t *tree) layEvents() {
	t.byTime = t.byTime[:0]
	for i := range t.nodes {
		t.byTime = append(t.byTime, moment{t.nodes[i].start, int32(i)})
	}
	sortMoments(t.byTime)
	s := 0
	for _, e := range t.byEnd {
		for s < len(t.byTime) && t.byTime[s].at <= e.at {
			t.lay(t.byTime[s].i, 0)
			s++
		}
		t.lay(e.i, 1)
	}
}

func (t *tree) lay(i, end int32) {
	for r := t.nodes[i].req; r != none; {
		q := &t.reqs[r]
		t.events[q.fill] = i<<1 | end
		q.fill++
		r = q.outer
	}
}
