package load

import (
	"math"
	"time"
)

// A queue holds the requests of a loop that have fallen due and are not sent yet. It
// does not store them: they lie between two positions in the schedule, the next to
// fall due and the next to be sent. It stores the gaps where requests between the two
// were dropped.
type queue struct {
	head, tail Pacer // the same schedule twice
	limit      int   // of waiting
	until      time.Duration
	drop       func(due time.Duration, phase int)

	due     time.Duration // when the next falls due; never once none does
	phase   int
	waiting int
	arrived uint64 // requests that fell due, dropped ones included
	taken   uint64 // that the tail has passed, dropped ones included
	dropped uint64
	gaps    []gap // dropped and not passed yet, oldest first
	passed  int   // of gaps
	front   dueAt // what has waited longest, if peeked
	peeked  bool
}

// gap is n dropped requests; at is the number of the first.
type gap struct{ at, n uint64 }

const never = time.Duration(math.MaxInt64)

// newQueue returns the queue of a schedule, which it gets twice. Requests due at
// until or later are not part of it; 0 means no end.
func newQueue(head, tail Pacer, limit int, until time.Duration, drop func(time.Duration, int)) *queue {
	if until == 0 {
		until = never
	}
	q := &queue{head: head, tail: tail, limit: limit, until: until, drop: drop}
	q.advance()
	return q
}

func (q *queue) advance() {
	due, phase, ok := q.head.Next()
	if q.due, q.phase = due, phase; !ok || due >= q.until {
		q.due = never
	}
}

// arrive adds the requests that are due by now. free of them can be sent at once and
// do not count as waiting.
func (q *queue) arrive(now time.Duration, free int) {
	for q.due <= now {
		if q.phase == Again {
			q.advance()
			continue
		}
		if q.waiting < q.limit+free {
			q.waiting++
		} else {
			q.drop(q.due, q.phase)
			q.dropped++
			if n := len(q.gaps); n > q.passed && q.gaps[n-1].at+q.gaps[n-1].n == q.arrived {
				q.gaps[n-1].n++
			} else {
				q.dropPassed()
				q.gaps = append(q.gaps, gap{q.arrived, 1})
			}
		}
		q.arrived++
		q.advance()
	}
}

// dropPassed drops the passed gaps when gaps is at its capacity.
func (q *queue) dropPassed() {
	if q.passed > 0 && len(q.gaps) == cap(q.gaps) {
		q.gaps = q.gaps[:copy(q.gaps, q.gaps[q.passed:])]
		q.passed = 0
	}
}

// pop removes and returns the request that has waited longest. The queue must not be
// empty.
func (q *queue) pop() (due time.Duration, phase int) {
	q.peek()
	q.peeked = false
	q.taken++
	q.waiting--
	return q.front.due, q.front.phase
}

// peek reads the request that has waited longest and leaves it in the queue.
func (q *queue) peek() {
	if q.peeked {
		return
	}
	for q.passed < len(q.gaps) && q.gaps[q.passed].at == q.taken {
		for range q.gaps[q.passed].n {
			q.tail.Next()
		}
		q.taken += q.gaps[q.passed].n
		q.passed++
	}
	q.front.due, q.front.phase, _ = q.tail.Next()
	q.peeked = true
}

// withdraw drops the waiting requests of phases up to upTo.
func (q *queue) withdraw(upTo int) {
	for q.waiting > 0 {
		if q.peek(); q.front.phase > upTo {
			return
		}
		q.drop(q.pop())
		q.dropped++
	}
}
