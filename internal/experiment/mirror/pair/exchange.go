package pair

import (
	"math"
	"sync"
)

// fate is the outcome of the primary's answer.
type fate uint8

const (
	pending fate = iota
	whole
	broken
)

// Exchange is one request with the legs that were begun for it. It returns to its
// ledger with the end of the last leg: the caller that ended that leg must not use it
// any more. Its methods may be called from any goroutine.
type Exchange struct {
	// Request is the handler's note of what was asked, for Watch. Set it before the
	// first leg ends.
	Request any

	ledger *Ledger
	entry  *entry
	id     uint64
	names  Names
	began  int64
	chosen bool
	keep   bool

	held    int64 // bytes of its answers
	crowded bool  // they were let go
	mu      sync.Mutex
	left    int // legs that have not ended
	fate    fate
	primary side
	leg     Leg
	copies  []copies
}

// copies counts the copies for one shadow.
type copies struct {
	left    int // not ended
	sent    int // of those, begun to be sent
	pairing int // answered in whole, before the primary's answer was
	side    side
	legs    []Leg // only if kept
}

// side is the geometric mean of one side's durations, whole answers below 500 alone.
// A ratio of two sides and its inverse come out alike.
type side struct {
	n   int
	one float64 // seconds, of the first
	log float64 // sum of natural logarithms, if n > 1
}

func (s *side) add(seconds float64) {
	if s.n++; s.n == 1 {
		s.one = seconds
		return
	}
	if s.n == 2 {
		s.log = math.Log(s.one)
	}
	s.log += math.Log(seconds)
}

// middle returns the geometric mean, or 0 if there is nothing.
func (s *side) middle() float64 {
	if s.n > 1 {
		return math.Exp(s.log / float64(s.n))
	}
	return s.one
}

// ID returns the exchange's number, unique in its session and never 0.
func (x *Exchange) ID() uint64 { return x.id }

// AppendID appends the ID in 16 hexadecimal digits.
func (x *Exchange) AppendID(dst []byte) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[x.id>>shift&15])
	}
	return dst
}

// Names returns the names under which the exchange is counted.
func (x *Exchange) Names() Names { return x.names }

// Began returns when the exchange was begun, in Unix nanoseconds. All of its
// observations are of the slot that holds it, so that a slot of a shadow and one of
// the primary are of the same requests.
func (x *Exchange) Began() int64 { return x.began }

// Keep reports whether legs should carry their Answer.
func (x *Exchange) Keep() bool { return x.keep }

// Primary returns the primary's leg, and Copies those of a shadow in the order in
// which they ended. They are for Watch.
func (x *Exchange) Primary() Leg { return x.leg }

func (x *Exchange) Copies(shadow int) []Leg { return x.copies[shadow].legs }

// Crowded reports whether the answers were dropped, because those that wait for a
// shadow's took more than Options.MaxAnswers. It is for Watch.
func (x *Exchange) Crowded() bool { return x.crowded }

// hold keeps the answer of an ended leg until the other legs end, within MaxAnswers.
// Without that bound a shadow that hangs would hold all answers of its time limit.
// x.mu is held.
func (x *Exchange) hold(l *Leg) {
	if l.Answer == nil {
		return
	}
	if !x.crowded {
		n := int64(cap(l.Answer.Body)) + besideTexts
		for i := range l.Answer.Header {
			n += int64(len(l.Answer.Header[i].Name) + len(l.Answer.Header[i].Value))
		}
		x.held += n
		if x.ledger.held.Add(n) <= x.ledger.o.MaxAnswers {
			return
		}
		x.crowded = true
		x.letGo()
	}
	l.Answer = nil
}

// besideTexts is the approximate size of an answer without its texts.
const besideTexts = 512

// letGo drops the exchange's answers.
func (x *Exchange) letGo() {
	x.ledger.held.Add(-x.held)
	x.held = 0
	x.leg.Answer = nil
	for i := range x.copies {
		for j := range x.copies[i].legs {
			x.copies[i].legs[j].Answer = nil
		}
	}
}

// Sent counts a copy for a shadow as sent, no longer queued. Call it once for a copy,
// however often it is tried.
func (x *Exchange) Sent(shadow int) {
	x.mu.Lock()
	if c := &x.copies[shadow]; c.sent < c.left {
		c.sent++
		x.ledger.account[shadow].send()
	}
	x.mu.Unlock()
}

// EndPrimary ends the primary's leg. Call it exactly once.
func (x *Exchange) EndPrimary(l Leg) {
	b := x.ledger
	x.mu.Lock()
	if x.fate != pending || x.left == 0 {
		x.mu.Unlock()
		b.strays.Add(1)
		return
	}
	if x.fate = whole; l.Cause != None {
		x.fate = broken
		b.failed[min(l.Cause, NumCauses-1)].Add(1)
		if l.Start == 0 {
			l.Start = b.o.Steady() // it took no time
			l.End = l.Start
		}
	}
	for i := range x.copies {
		if c := &x.copies[i]; c.pairing > 0 {
			b.account[i].resolveWaiting(uint64(c.pairing), x.fate)
			c.pairing = 0
		}
	}
	if x.keep {
		x.hold(&l)
		x.leg = l
	}
	variant := 0
	if !x.chosen {
		variant = b.records.unmirrored
	}
	b.records.leg(x, variant, &l, &x.primary)
	if o := b.observer.Load(); o != nil {
		(*o).Ended(x, 0, l)
	}
	x.leave()
}

// EndCopy ends a copy for a shadow. Call it exactly once for every copy that was
// offered. A leg without Start is of a copy that was never begun: it was dropped.
// Else it has failed, unless its Cause is None.
func (x *Exchange) EndCopy(shadow int, l Leg) {
	b := x.ledger
	x.mu.Lock()
	c := &x.copies[shadow]
	if c.left == 0 {
		x.mu.Unlock()
		b.strays.Add(1)
		return
	}
	if l.Cause >= NumCauses {
		l.Cause = NumCauses - 1
	}
	if l.Start == 0 && c.sent < c.left {
		b.account[shadow].drop(l.Cause)
	} else {
		sent := c.sent > 0
		if sent {
			c.sent--
		}
		b.account[shadow].end(l.Cause, sent, x.fate)
		if l.Cause == None && x.fate == pending {
			c.pairing++
		}
		b.records.leg(x, 1+shadow, &l, &c.side)
	}
	if o := b.observer.Load(); o != nil {
		(*o).Ended(x, 1+shadow, l)
	}
	c.left--
	if x.keep {
		x.hold(&l)
		c.legs = append(c.legs, l)
	}
	x.leave()
}

// leave ends a leg, and the exchange with the last one. It unlocks mu.
func (x *Exchange) leave() {
	x.left--
	last := x.left == 0
	x.mu.Unlock()
	if !last {
		return
	}
	b := x.ledger
	b.records.close(x)
	if x.keep && b.o.Watch != nil {
		b.o.Watch(x)
	}
	if x.held > 0 {
		x.letGo()
	}
	x.reset()
	b.open.Add(-1)
	b.pool.Put(x)
}

func (x *Exchange) reset() {
	x.Request, x.entry, x.names, x.keep, x.fate, x.primary, x.leg = nil, nil, Names{}, false, pending, side{}, Leg{}
	x.crowded = false
	for i := range x.copies {
		c := &x.copies[i]
		clear(c.legs)
		*c = copies{legs: c.legs[:0]}
	}
}
