// Package observe samples a session while it runs, some times a second: how long
// requests and their copies took since the last sample, how they failed, and how much
// is under way and how old it is.
//
// The store gets slots of ten seconds, which is too late for a search that has to
// take load away before it hurts. The ledger reports every leg to an Observer
// (pair.Observer), which adds up in shards and hands over its sums with each sample.
// Without a sampler none of this runs or costs anything.
package observe

import (
	"errors"
	"sync"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/mirror/pair"
)

const shards = 8

// maxOperations bounds the operations that are counted apart; the rest is Other.
const maxOperations = 256

// Other names the operations beyond maxOperations.
const Other = "_other"

// Observer is a pair.Observer. It is safe for concurrent use.
type Observer struct {
	steady  func() int64
	targets int
	shards  [shards]shard
}

type shard struct {
	mu   sync.Mutex
	seen []map[string]*Seen // by target and operation
	open map[uint64]begun   // requests that the primary has not answered, by id
	_    [64]byte
}

type begun struct {
	operation string
	at        int64
}

// Seen counts one operation at one target since the last sample.
type Seen struct {
	// Begun counts the requests that arrived, for the primary alone.
	Begun uint64
	// Ended counts those that ended: with a whole answer, and Errors.
	Ended uint64
	// Errors counts answers from 500 on and requests without a whole answer that the
	// server is to blame for. Refused, a part of them, counts copies that were never
	// sent because the server fell behind: the queue was full, or their time was up.
	// Their latency is not known.
	Errors, Refused uint64
	// Lost counts copies that ended for a reason that says nothing of the server: a
	// bound of the mirror's on bytes, a client that went away, the session's end.
	// They are in no other count.
	Lost uint64
	// Latency is of whole answers, in seconds: of copies from when they were due, of
	// requests from when they arrived. Service counts from when they were sent.
	// Failed holds the times after which requests that were sent failed.
	Latency, Service, Failed *hist.Histogram
}

// New returns an observer of a primary and shadows shadows. steady is the clock of
// legs; default pair.Steady.
func New(shadows int, steady func() int64) *Observer {
	if steady == nil {
		steady = pair.Steady
	}
	o := &Observer{steady: steady, targets: 1 + shadows}
	for i := range o.shards {
		s := &o.shards[i]
		s.open = map[uint64]begun{}
		s.reset(o.targets)
	}
	return o
}

func (s *shard) reset(targets int) {
	s.seen = make([]map[string]*Seen, targets)
	for i := range s.seen {
		s.seen[i] = map[string]*Seen{}
	}
}

func (s *shard) seenFor(target int, operation string) *Seen {
	m := s.seen[target]
	v := m[operation]
	if v == nil && len(m) >= maxOperations {
		operation = Other
		v = m[operation]
	}
	if v == nil {
		v = NewSeen()
		m[operation] = v
	}
	return v
}

// NewSeen returns an empty Seen.
func NewSeen() *Seen {
	return &Seen{Latency: hist.New(hist.DefaultSchema), Service: hist.New(hist.DefaultSchema), Failed: hist.New(hist.DefaultSchema)}
}

// Begun implements pair.Observer. It leaves out requests that become another
// protocol: nobody waits for their answer.
func (o *Observer) Begun(x *pair.Exchange, why pair.Reason) {
	if why == pair.Upgrade || why == pair.Connect {
		return
	}
	at := o.steady()
	s := &o.shards[x.ID()%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[x.ID()] = begun{x.Names().Operation, at}
	s.seenFor(0, x.Names().Operation).Begun++
}

// Ended implements pair.Observer.
func (o *Observer) Ended(x *pair.Exchange, target int, l pair.Leg) {
	if target >= o.targets {
		return
	}
	due := l.Due
	s := &o.shards[x.ID()%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if target == 0 {
		b, ok := s.open[x.ID()]
		if !ok {
			return // it came before sampling began, or is left out
		}
		delete(s.open, x.ID())
		due = b.at
	}
	v := s.seenFor(target, x.Names().Operation)
	switch {
	case l.Cause == pair.None:
		v.Ended++
		if l.Status >= 500 {
			v.Errors++
		}
		_ = v.Latency.RecordNanos(max(l.End-due, 0), 1) // a count cannot overflow between two looks
		_ = v.Service.RecordNanos(max(l.End-l.Start, 0), 1)
	case behind(l.Cause) || l.Cause.Fault() && due == 0:
		v.Ended++
		v.Errors++
		v.Refused++
	case l.Cause.Fault():
		v.Ended++
		v.Errors++
		_ = v.Failed.RecordNanos(max(o.steady()-due, 0), 1)
	default:
		v.Lost++
	}
}

// behind reports whether a copy was not sent because the server fell behind.
func behind(c pair.Cause) bool {
	return c == pair.QueueFull || c == pair.Expired || c == pair.NoServer
}

// Under counts requests, or copies, that have arrived, or were due, and have not
// ended.
type Under struct {
	N, Waits uint64        // all, and of them those that wait for a connection
	Oldest   time.Duration // since the oldest came, or was due
}

// Target counts by operation the requests to one target that ended since the last
// sample, and those under way.
type Target struct {
	Seen  map[string]*Seen
	Under map[string]Under
}

// Add counts a request that has been under way for since.
func (t *Target) Add(operation string, since time.Duration, waits bool) {
	u := t.Under[operation]
	u.N++
	if waits {
		u.Waits++
	}
	u.Oldest = max(u.Oldest, since)
	t.Under[operation] = u
}

// AllUnder returns what is under way, all operations together.
func (t *Target) AllUnder() (all Under) {
	for _, u := range t.Under {
		all.N += u.N
		all.Waits += u.Waits
		all.Oldest = max(all.Oldest, u.Oldest)
	}
	return all
}

// All returns what was seen, all operations together.
func (t *Target) All() *Seen {
	all := NewSeen()
	for _, s := range t.Seen {
		all.Add(s)
	}
	return all
}

// Add adds o to s.
func (s *Seen) Add(o *Seen) {
	s.Begun += o.Begun
	s.Ended += o.Ended
	s.Errors += o.Errors
	s.Refused += o.Refused
	s.Lost += o.Lost
	_ = s.Latency.Merge(o.Latency)
	_ = s.Service.Merge(o.Service)
	_ = s.Failed.Merge(o.Failed)
}

// Without subtracts o from s.
func (s *Seen) Without(o *Seen) error {
	s.Begun -= o.Begun
	s.Ended -= o.Ended
	s.Errors -= o.Errors
	s.Refused -= o.Refused
	s.Lost -= o.Lost
	return errors.Join(s.Latency.Subtract(o.Latency), s.Service.Subtract(o.Service), s.Failed.Subtract(o.Failed))
}

// Take returns what was seen since the last call: the primary first, then the shadows
// in their order, whose copies under way the caller adds. The caller owns it.
func (o *Observer) Take() []Target {
	all := make([]Target, o.targets)
	for i := range all {
		all[i] = Target{map[string]*Seen{}, map[string]Under{}}
	}
	now := o.steady()
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		seen := s.seen
		s.reset(o.targets)
		for _, b := range s.open {
			all[0].Add(b.operation, time.Duration(now-b.at), false)
		}
		s.mu.Unlock()
		for t, m := range seen {
			for name, v := range m {
				if had := all[t].Seen[name]; had != nil {
					had.Add(v)
				} else {
					all[t].Seen[name] = v
				}
			}
		}
	}
	return all
}
