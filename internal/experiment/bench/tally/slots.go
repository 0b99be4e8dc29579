package tally

import (
	"time"

	"tailscope/hist"
)

// Bounds of a time line: it begins with seconds, and its intervals widen tenfold when
// there would be more.
const (
	maxSlots    = 600
	recentSlots = 60
)

// slot is an interval of the time line. due, dropped and the histograms count
// requests by when they were due; sent and ended by when they were sent and ended.
type slot struct {
	at                                          int64 // number of the interval
	due, dropped, sent, ended, answered, errors uint64
	unsent                                      uint64 // due in it, see timeline.assign
	latency, late                               *hist.Histogram
}

func newSlot(at int64) *slot {
	return &slot{at: at, latency: hist.New(hist.DefaultSchema), late: hist.New(hist.DefaultSchema)}
}

func (s *slot) empty(at int64) {
	s.latency.Reset(hist.DefaultSchema)
	s.late.Reset(hist.DefaultSchema)
	*s = slot{at: at, latency: s.latency, late: s.late}
}

func (s *slot) add(o *slot) {
	s.due, s.dropped, s.sent = s.due+o.due, s.dropped+o.dropped, s.sent+o.sent
	s.ended, s.answered, s.errors = s.ended+o.ended, s.answered+o.answered, s.errors+o.errors
	merge(s.latency, o.latency)
	merge(s.late, o.late)
}

// slot returns the slot of a time. Most observations are of the last second, so the
// slot is among the last ones that the bank used.
func (b *bank) slot(d time.Duration) *slot {
	at := int64(d / time.Second)
	for i := b.n - 1; i >= 0; i-- {
		if b.slots[i].at == at {
			return b.slots[i]
		}
	}
	if b.n == len(b.slots) {
		b.slots = append(b.slots, newSlot(at))
	} else {
		b.slots[b.n].empty(at)
	}
	b.n++
	return b.slots[b.n-1]
}

// timeline holds slots in order, without gaps from its first.
type timeline struct {
	width time.Duration
	limit int
	rolls bool // drops its first slots instead of widening
	slots []*slot
}

// add adds a slot of one second.
func (t *timeline) add(o *slot) {
	at := o.at * int64(time.Second) / int64(t.width)
	if len(t.slots) == 0 {
		first := int64(0)
		if t.rolls {
			first = max(at-int64(t.limit)+1, 0)
		}
		t.slots = append(t.slots, newSlot(first))
	}
	for !t.rolls && at >= int64(t.limit) {
		t.widen()
		at = o.at * int64(time.Second) / int64(t.width)
	}
	for last := t.slots[len(t.slots)-1].at; last < at; last++ {
		if t.rolls && len(t.slots) == t.limit {
			first := t.slots[0]
			copy(t.slots, t.slots[1:])
			first.empty(last + 1)
			t.slots[len(t.slots)-1] = first
		} else {
			t.slots = append(t.slots, newSlot(last+1))
		}
	}
	if i := at - t.slots[0].at; i >= 0 {
		t.slots[i].add(o)
	}
}

// widen makes slots ten times wider.
func (t *timeline) widen() {
	t.width *= 10
	var wide []*slot
	for _, s := range t.slots {
		if at := s.at / 10; len(wide) == 0 || wide[len(wide)-1].at != at {
			s.at = at
			wide = append(wide, s)
		} else {
			wide[len(wide)-1].add(s)
		}
	}
	t.slots = wide
}
