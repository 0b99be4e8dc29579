package faults

import (
	"strings"
	"testing"
)

func TestLedger(t *testing.T) {
	a, b := Line{Family: "f", Service: "a"}, Line{Family: "f", Service: "b"}
	l := NewLedger()
	l.Begin(map[Line]uint64{a: 3, b: 1}).Acknowledged()
	kept := l.Mark()
	late := l.Begin(map[Line]uint64{a: 5})
	l.Begin(map[Line]uint64{a: 7}).Refused()
	begun := l.Mark()
	late.Acknowledged() // after the crash
	l.Begin(map[Line]uint64{b: 100})
	bounds := l.Bounds(kept, begun)
	for _, c := range []struct {
		stored        map[Line]uint64
		lost, doubled uint64
	}{
		{map[Line]uint64{a: 3, b: 1}, 0, 0},
		{map[Line]uint64{a: 8, b: 1}, 0, 0},
		{map[Line]uint64{a: 2}, 2, 0},
		{map[Line]uint64{a: 9, b: 1}, 0, 1},
		{map[Line]uint64{a: 3, b: 1, {Family: "g"}: 4}, 0, 4},
	} {
		if d := Compare(bounds, c.stored); d.Lost != c.lost || d.Doubled != c.doubled || d.Ok() != (c.lost+c.doubled == 0) {
			t.Errorf("%v: got %v, want %d lost, %d doubled", c.stored, d, c.lost, c.doubled)
		}
	}
	if got, want := l.Counts(), (Counts{Sent: 116, Acknowledged: 9, Refused: 7, Unknown: 100}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	l.Settle(map[Line]uint64{a: 8})
	if d := Compare(l.Bounds(l.Mark(), l.Mark()), map[Line]uint64{a: 8, b: 1}); d.Doubled != 1 || !strings.Contains(d.String(), "f{b") {
		t.Errorf("after settling: %v", d)
	}
}

// A running total that is acknowledged stands for those before it.
func TestLedgerTotals(t *testing.T) {
	a := Line{Family: "f"}
	l := NewLedger()
	l.BeginTotal(map[Line]uint64{a: 3}).Acknowledged()
	l.BeginTotal(map[Line]uint64{a: 5}) // unanswered
	if got := l.Bounds(l.Mark(), l.Mark())[a]; got != (Bounds{3, 5}) {
		t.Errorf("got %v, want 3 to 5", got)
	}
	l.BeginTotal(map[Line]uint64{a: 9}).Acknowledged()
	if got := l.Bounds(l.Mark(), l.Mark())[a]; got != (Bounds{9, 9}) {
		t.Errorf("got %v, want 9", got)
	}
}
