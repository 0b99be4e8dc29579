package notify

import (
	"errors"
	"sync"
	"time"

	"tailscope/internal/guard/check/event"
)

// memoryResults bounds the results that wait in memory before they go to disk: a bit
// more than ten seconds at 1,000 a second.
const memoryResults = 16 << 10

// queue holds the messages that wait for a receiver, oldest first. Events are on disk before push
// returns. Results stay in memory while their receiver takes them, and go to disk
// when it does not: a queue is either in memory or on disk as a whole, so that the
// order is kept.
type queue struct {
	mu      sync.Mutex
	spool   *spool
	durable bool // events
	memory  []message
	limit   int64 // bytes
	age     time.Duration
	dropped map[string]uint64
	closed  bool
}

var errClosed = errors.New("the notifier is closed")

func openQueue(dir string, durable bool, limit int64, age time.Duration, now func() time.Time) (*queue, error) {
	s, err := openSpool(dir, limit, now)
	if err != nil {
		return nil, err
	}
	q := &queue{spool: s, durable: durable, limit: limit, age: age, dropped: map[string]uint64{}}
	if s.damaged > 0 {
		q.dropped["damaged"] += uint64(s.damaged)
	}
	return q, nil
}

// push adds messages. An error means that no event was accepted. Results that cannot
// be spilled are dropped.
func (q *queue) push(messages []message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	if q.durable {
		if err := q.spool.append(messages, true); err != nil {
			return err
		}
		q.trim()
		return nil
	}
	if len(q.spool.waiting) == 0 && len(q.memory)+len(messages) <= memoryResults {
		for i := range messages {
			messages[i].seq = q.spool.next
			q.spool.next++
		}
		q.memory = append(q.memory, messages...)
		return nil
	}
	if err := q.spillLocked(); err != nil {
		q.dropped["full"] += uint64(len(messages))
		return err
	}
	if err := q.spool.append(messages, false); err != nil {
		q.dropped["full"] += uint64(len(messages))
		return err
	}
	q.trim()
	return nil
}

// spill writes what is in memory to disk.
func (q *queue) spill() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.spillLocked()
}

func (q *queue) spillLocked() error {
	if len(q.memory) == 0 {
		return nil
	}
	if err := q.spool.append(q.memory, false); err != nil {
		return err
	}
	q.memory = nil
	q.trim()
	return nil
}

// trim drops the oldest beyond the bound.
func (q *queue) trim() {
	s := q.spool
	var n int
	bytes := s.bytes
	for n < len(s.waiting) && bytes > q.limit {
		bytes -= int64(s.waiting[n].size)
		n++
	}
	q.drop(n, "full")
}

// drop finishes n undelivered messages on disk.
func (q *queue) drop(n int, cause string) {
	if n == 0 {
		return
	}
	q.dropped[cause] += uint64(n)
	// If it fails they are delivered once more after a restart.
	_ = q.spool.markDone(q.spool.waiting[n-1].seq)
}

// expire drops what is older than the bound.
func (q *queue) expire(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := now.Add(-q.age)
	n := 0
	for n < len(q.spool.waiting) && q.spool.waiting[n].at < oldest.UnixNano() {
		n++
	}
	q.drop(n, "age")
	n = 0
	for n < len(q.memory) && q.memory[n].at.Before(oldest) {
		n++
	}
	if n > 0 {
		q.dropped["age"] += uint64(n)
		q.finishMemory(q.memory[n-1].seq)
	}
}

// front returns up to n messages without taking them away. The messages are the
// caller's.
func (q *queue) front(n int) ([]message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil
	}
	if len(q.spool.waiting) == 0 {
		return append([]message(nil), q.memory[:min(n, len(q.memory))]...), nil
	}
	messages, bad, err := q.spool.read(n)
	q.drop(bad, "damaged")
	return messages, err
}

// finish removes all messages through seq; cause is why if it was not
// delivered, and how many of them.
func (q *queue) finish(seq uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	q.finishMemory(seq)
	return q.spool.markDone(seq)
}

func (q *queue) finishMemory(seq uint64) {
	n := 0
	for n < len(q.memory) && q.memory[n].seq <= seq {
		n++
	}
	q.memory = q.memory[n:]
	if len(q.memory) == 0 {
		q.memory = nil
	}
}

func (q *queue) count(cause string, n uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped[cause] += n
}

// length returns the number of messages that wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.memory) + len(q.spool.waiting)
}

// known returns the incidents queued for the receiver, open and lately resolved.
func (q *queue) known() []incident {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spool.dropResolved()
	list := make([]incident, 0, len(q.spool.known))
	for _, k := range q.spool.known {
		list = append(list, k)
	}
	return list
}

// last returns the number of the newest message.
func (q *queue) last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.spool.next - 1
}

// waits reports whether a message up to that number waits.
func (q *queue) waits(seq uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.closed && len(q.spool.waiting) > 0 && q.spool.waiting[0].seq <= seq
}

// restart drops what waits, and makes the incidents of these events the known ones.
func (q *queue) restart(known []event.Event) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	q.memory = nil
	if n := len(q.spool.waiting); n > 0 {
		q.spool.dropThrough(q.spool.waiting[n-1].seq)
	}
	q.spool.known = map[string]incident{}
	for i := range known {
		q.spool.recordIncident(&known[i])
	}
	return q.spool.rotate()
}

// knows reports whether an open incident was queued for the receiver.
func (q *queue) knows(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k, ok := q.spool.known[id]
	return ok && k.Done.IsZero()
}

func (q *queue) setLimits(limit int64, age time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit, q.age = limit, age
	q.spool.bound(limit)
	q.trim()
}

// reconcile resolves incidents that are known and not among open, on disk too. It
// returns how many.
func (q *queue) reconcile(open map[string]bool) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, errClosed
	}
	return q.spool.reconcile(open)
}

// close writes what is in memory to disk.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	err := q.spillLocked()
	q.closed = true
	return errors.Join(err, q.spool.close())
}
