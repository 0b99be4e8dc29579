package shadow

// queue holds copies in order of arrival, in a ring that grows.
type queue struct {
	ring []job
	head int
	n    int
}

func (q *queue) push(j job) {
	if q.n == len(q.ring) {
		bigger := make([]job, max(16, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = j
	q.n++
}

// pop removes the oldest copy. The queue must not be empty.
func (q *queue) pop() job {
	j := q.ring[q.head]
	q.ring[q.head] = job{}
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return j
}

// takeAll empties the queue and appends its copies to dst.
func (q *queue) takeAll(dst []job) []job {
	for q.n > 0 {
		dst = append(dst, q.pop())
	}
	return dst
}

// takeBefore removes the copies that have waited since a time before t.
func (q *queue) takeBefore(dst []job, t int64) []job {
	for q.n > 0 && q.ring[q.head].since < t {
		dst = append(dst, q.pop())
	}
	return dst
}
