package shadow

import "tailscope/internal/experiment/mirror/pair"

// Under is a copy that has come due and has not ended.
type Under struct {
	Operation string // empty if the copy's Ender has no names
	Due       int64  // when it was to be sent, by the sender's clock
	Waits     bool   // for a connection: nothing of it was sent
}

// named is an Ender that knows the names of its request, as *pair.Exchange does.
type named interface{ Names() pair.Names }

// underOf returns a copy whose end was not reported yet. Start is when it was sent,
// for one that did not wait.
func underOf(j *job, start int64) Under {
	u := Under{Due: j.due}
	if u.Due == 0 {
		u.Due = start
	}
	if n, ok := j.to.(named); ok {
		u.Operation = n.Names().Operation
	}
	return u
}

// UnderWay appends the copies that have come due and have not ended to dst, in any
// order. It leaves out those that wait for their time of spreading. It takes longer
// the more they are: call it a few times a second.
func (l *Sender) UnderWay(dst []Under) []Under {
	var conns []*conn
	l.mu.Lock()
	for i := range l.queue.n {
		u := underOf(&l.queue.ring[(l.queue.head+i)%len(l.queue.ring)], 0)
		u.Waits = true
		dst = append(dst, u)
	}
	for _, s := range l.servers {
		for _, c := range s.conns {
			if c.streams > 0 {
				conns = append(conns, c)
			}
		}
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.mu.Lock()
		if c.busy && c.leg.End == 0 {
			dst = append(dst, underOf(&c.j, c.leg.Start))
		}
		for x := range c.under {
			dst = append(dst, x.under)
		}
		c.mu.Unlock()
	}
	return dst
}

// Shed drops all waiting copies except the first of each request, and returns their
// number. They are copies that amplifying has added and that are not sent yet.
func (l *Sender) Shed() int {
	var shed []job
	l.mu.Lock()
	shed = l.queue.takeExtra(shed)
	l.mu.Unlock()
	shed = l.spread.takeExtra(shed)
	for i := range shed {
		l.drop(&shed[i], pair.Stopped)
	}
	return len(shed)
}

// takeExtra removes all copies except the first of each request.
func (q *queue) takeExtra(dst []job) []job {
	for range q.n {
		if j := q.pop(); j.k > 0 {
			dst = append(dst, j)
		} else {
			q.push(j)
		}
	}
	return dst
}

// takeExtra removes all copies except the first of each request, of those that wait
// for their time.
func (s *spreader) takeExtra(dst []job) []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept heap
	for _, j := range s.due {
		if j.k > 0 {
			dst = append(dst, j)
		} else {
			kept.push(j)
		}
	}
	clear(s.due)
	s.due = kept
	return dst
}
