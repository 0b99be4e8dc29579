package traces

import "slices"

// frame is a span around the present point of the walk along the critical path.
type frame struct {
	node int32
	next int32 // index into tree.kids of the next child
	lo   int64 // the path within the span begins here
	at   int64 // the walk has come to here
}

// critical adds the request's critical path to t.acc, by slot: from the request's end
// backwards, through the child that ended last before the present point, then on from
// that child's start. A child that outlives its parent is asynchronous and not on the
// path. The stretches are adjacent, so that they sum to the request's duration exactly.
// critical calls path, if it is not nil, with each stretch.
func (t *tree) critical(q *req, path func(node int32, from, to int64)) {
	add := func(i int32, from, to int64) {
		if to > from {
			t.acc[t.nodes[i].slot].critical += to - from
			if path != nil {
				path(i, from, to)
			}
		}
	}
	top := &t.nodes[q.node]
	t.frames = append(t.frames[:0], frame{q.node, top.first + top.kids - 1, top.start, top.end})
	for len(t.frames) > 0 {
		f := &t.frames[len(t.frames)-1]
		nd := &t.nodes[f.node]
		var child *node
		for f.next >= nd.first {
			c := &t.nodes[t.kids[f.next]]
			if c.end <= f.lo {
				f.next = nd.first - 1
				break
			}
			if c.end <= f.at && c.end <= nd.end && c.start < c.end {
				child = c
				break
			}
			f.next--
		}
		if child == nil {
			add(f.node, f.lo, f.at)
			t.frames = t.frames[:len(t.frames)-1]
			continue
		}
		add(f.node, child.end, f.at)
		lo := max(child.start, f.lo)
		i := t.kids[f.next]
		f.at = lo
		f.next--
		t.frames = append(t.frames, frame{i, child.first + child.kids - 1, lo, child.end})
	}
}

// call is one of the calls that a span makes.
type call struct {
	start, end int64
	node       int32
	part       uint32
}

// fan is one of several concurrent calls of the same part.
type fan struct {
	req      int32 // the request around it
	part     uint32
	instance uint32 // number of the name whose Instance answered; see tree.instance
	last     bool   // ended last of them
}

// fanOut finds the concurrent calls of one part that one span makes and waits for.
func (t *tree) fanOut() {
	t.fans = t.fans[:0]
	for i := range t.nodes {
		nd := &t.nodes[i]
		if nd.kids < 2 || nd.req == none {
			continue
		}
		t.calls = t.calls[:0]
		last, beside := int64(0), false
		for _, k := range t.kids[nd.first : nd.first+nd.kids] {
			c := &t.nodes[k]
			if !c.kind.call() && !c.kind.entry() || c.end > nd.end || c.start == c.end {
				continue
			}
			beside = beside || len(t.calls) > 0 && c.start < last
			last = c.end
			t.calls = append(t.calls, call{c.start, c.end, k, t.infos[c.name].part})
		}
		if beside {
			t.clusters(nd.req)
		}
	}
}

// clusters cuts t.calls into runs of one part without a gap between them.
func (t *tree) clusters(req int32) {
	slices.SortFunc(t.calls, func(a, b call) int {
		switch {
		case a.part != b.part:
			return int(int64(a.part) - int64(b.part))
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return int(a.node - b.node)
	})
	for from := 0; from < len(t.calls); {
		last := from
		to := from + 1
		for ; to < len(t.calls) && t.calls[to].part == t.calls[from].part && t.calls[to].start < t.calls[last].end; to++ {
			if t.calls[to].end >= t.calls[last].end {
				last = to
			}
		}
		if to-from > 1 {
			for i := from; i < to; i++ {
				t.fans = append(t.fans, fan{req, t.calls[i].part, t.instance(t.calls[i].node), i == last})
			}
		}
		from = to
	}
}

// instance returns the number of the name whose Instance answered a call: that of the callee's server
// span if there is one, else the call's own.
func (t *tree) instance(i int32) uint32 {
	nd := &t.nodes[i]
	if nd.kind.call() {
		for _, k := range t.kids[nd.first : nd.first+nd.kids] {
			if c := &t.nodes[k]; c.kind.entry() && t.infos[c.name].id.Instance != "" {
				return c.name
			}
		}
	}
	return nd.name
}
