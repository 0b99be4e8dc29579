package traces

// exclusive adds the request's exclusive time to t.acc, by slot: each instant of the
// request is shared equally by the spans of its subtree that are active and have no
// active direct child. Shares are whole nanoseconds; the remainder is carried into the
// next interval, so that all shares sum to the request's duration exactly (ENGINE 7).
//
// A clock that advances by dt/k while k spans share makes this one pass: a span gets the
// clock's advance while it was one of them.
func (t *tree) exclusive(q *req) {
	top := q.node
	lo, hi := t.nodes[top].start, t.nodes[top].end
	var clock, carry, leaves int64
	last := lo
	events := t.events[q.events:q.fill]
	for at, e := range events {
		i := e >> 1
		nd := &t.nodes[i]
		now := nd.start
		if e&1 != 0 {
			now = nd.end
		}
		if now = min(now, hi); now > last {
			d := now - last + carry
			if leaves == 1 {
				clock, carry = clock+d, 0
			} else {
				clock, carry = clock+d/leaves, d%leaves
			}
			last = now
			if now == hi && carry > 0 {
				t.distributeRemainder(events[at:], carry)
			}
		}
		if e&1 == 0 {
			s := &t.acc[nd.slot]
			if s.calls == 0 {
				t.touch = append(t.touch, nd.slot)
			}
			s.calls++
			nd.flags |= active
			if nd.busy == 0 {
				nd.enter = clock
				leaves++
			}
			if i != top {
				p := &t.nodes[nd.parent]
				if p.busy == 0 && p.flags&active != 0 {
					t.acc[p.slot].self += clock - p.enter
					leaves--
				}
				p.busy++
			}
			continue
		}
		nd.flags &^= active
		if nd.busy == 0 {
			t.acc[nd.slot].self += clock - nd.enter
			leaves--
		}
		if i != top {
			p := &t.nodes[nd.parent]
			p.busy--
			if p.busy == 0 && p.flags&active != 0 {
				p.enter = clock
				leaves++
			}
		}
	}
}

// distributeRemainder adds the last nanoseconds that do not divide, fewer than there are
// leaves, to one of the leaves: their ends are all to come.
func (t *tree) distributeRemainder(events []int32, carry int64) {
	for _, e := range events {
		nd := &t.nodes[e>>1]
		if e&1 != 0 && nd.flags&active != 0 && nd.busy == 0 {
			t.acc[nd.slot].self += carry
			return
		}
	}
}

// clear clears the results of the last request.
func (t *tree) clear() {
	for _, s := range t.touch {
		t.acc[s] = sums{}
	}
	t.touch = t.touch[:0]
}
