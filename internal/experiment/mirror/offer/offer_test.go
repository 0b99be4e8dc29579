package offer

import (
	"fmt"
	"testing"

	"tailscope/internal/experiment/mirror/choose"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
)

// fakeSender notes what it is offered, and ends it at once.
type fakeSender struct {
	copies uint8
	order  *[]int
	missed []pair.Reason
	last   shadow.Copy
}

func (l *fakeSender) Copies(bool) uint8      { return l.copies }
func (l *fakeSender) Missed(why pair.Reason) { l.missed = append(l.missed, why) }
func (l *fakeSender) Offer(c shadow.Copy) {
	l.last = c
	*l.order = append(*l.order, c.Shadow)
	for range c.Copies {
		c.To.EndCopy(c.Shadow, pair.Leg{})
	}
}

func world(copies ...uint8) (*Maker, []*fakeSender, *[]int) {
	order := new([]int)
	o := pair.Options{Service: "s", Experiment: "e"}
	m := &Maker{}
	var senders []*fakeSender
	for i, n := range copies {
		l := &fakeSender{copies: n, order: order}
		senders, m.Senders = append(senders, l), append(m.Senders, l)
		o.Shadows = append(o.Shadows, pair.Shadow{Name: fmt.Sprint(i), Role: pair.Candidate})
	}
	m.Ledger = pair.NewLedger(o)
	return m, senders, order
}

func TestOffer(t *testing.T) {
	m, senders, order := world(2, 0, 1)
	var o Offer
	x, wanted := o.Begin(m, &choose.Decision{Mirror: true, Write: true})
	if !wanted {
		t.Fatal("nobody wants a payload")
	}
	p := shadow.NewPayload()
	o.Give(x, p)
	o.Give(x, p)
	x.EndPrimary(pair.Leg{})
	if len(*order) != 2 || senders[0].last.Copies != 2 || senders[0].last.Payload != p || !senders[2].last.Write {
		t.Errorf("offered to %v, %+v", *order, senders[0].last)
	}
	if s := m.Ledger.Stats(); s.Open != 0 {
		t.Errorf("%d exchanges are open", s.Open)
	}
}

// Nobody is always the first or the last.
func TestOrder(t *testing.T) {
	m, _, order := world(1, 1, 1)
	first, last := [3]int{}, [3]int{}
	var o Offer
	for range 300 {
		*order = (*order)[:0]
		x, _ := o.Begin(m, &choose.Decision{Mirror: true})
		o.Give(x, nil)
		x.EndPrimary(pair.Leg{})
		if len(*order) != 3 {
			t.Fatalf("offered to %v", *order)
		}
		first[(*order)[0]]++
		last[(*order)[2]]++
	}
	for i := range 3 {
		if first[i] < 50 || last[i] < 50 {
			t.Errorf("first %v, last %v", first, last)
		}
	}
}

// What is not copied is not offered; a write that a body keeps from being copied is
// missed by every shadow.
func TestNotCopied(t *testing.T) {
	for _, c := range []struct {
		limit, length int64
		body, mirror  bool
	}{{0, 100, true, true}, {10, 10, true, true}, {10, 11, true, false}, {10, -1, true, true}, {-1, -1, true, false}, {-1, 0, false, true}} {
		m, senders, _ := world(1)
		m.BodyLimit = c.limit
		d := choose.Decision{Mirror: true, Write: true}
		m.Bound(&d, c.body, c.length)
		var o Offer
		x, wanted := o.Begin(m, &d)
		if wanted {
			o.Give(x, nil)
		}
		x.EndPrimary(pair.Leg{})
		if d.Mirror != c.mirror || wanted != c.mirror || (len(senders[0].missed) == 0) != c.mirror {
			t.Errorf("%+v: mirrored %v, wanted %v, missed %v", c, d.Mirror, wanted, senders[0].missed)
		}
	}
}

// The primary does not get it: no shadow does, or misses it.
func TestUnreached(t *testing.T) {
	m, senders, order := world(1)
	for _, d := range []choose.Decision{{Mirror: true}, {Missed: true, Reason: pair.Length}} {
		m.Unreached(&d).EndPrimary(pair.Leg{Cause: pair.Refused})
	}
	if len(*order) > 0 || len(senders[0].missed) > 0 || m.Ledger.Stats().Open != 0 {
		t.Errorf("offered to %v, missed %v", *order, senders[0].missed)
	}
}

// A request that somebody watches has a payload, if no sender wants it, too.
func TestWatched(t *testing.T) {
	m, _, _ := world(0)
	var o Offer
	for _, watched := range []bool{false, true} {
		if watched {
			m.Watched = func(*choose.Decision, *shadow.Payload, int64) any { return nil }
		}
		x, wanted := o.Begin(m, &choose.Decision{Mirror: true})
		if x.EndPrimary(pair.Leg{}); wanted != watched {
			t.Errorf("watched %v: wanted %v", watched, wanted)
		}
	}
}
