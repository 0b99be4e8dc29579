package chstore

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// A set of numbers has what was added, in whichever order, and reads what it writes and what
// was written when it was a list.
func TestPutNumbers(t *testing.T) {
	for _, tt := range []struct {
		have, want string
		more       []putNumber
	}{
		{"null", "[5]", []putNumber{5}},
		{"[5,6,7]", "[[5,8]]", []putNumber{8}},
		{"[[5,8],4294967297]", "[[4,9],4294967297]", []putNumber{9, 4, 6}},
		{"[1,3]", "[[1,3]]", []putNumber{2}},
		{"[9,1]", "[1,[8,9]]", []putNumber{8}},
	} {
		var p putNumbers
		if err := json.Unmarshal([]byte(tt.have), &p); err != nil {
			t.Fatal(err)
		}
		before := encodeMeta(p)
		if got := encodeMeta(p.with(tt.more...)); got != tt.want || encodeMeta(p) != before {
			t.Errorf("%s with %d: got %s, want %s; it is %s now", tt.have, tt.more, got, tt.want, encodeMeta(p))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var p putNumbers
		var all []putNumber
		for range rng.IntN(20) {
			n := numberOf(rng.Uint32N(2), rng.Uint32N(30))
			all = append(all, n)
			p = p.with(n)
		}
		for e := range uint32(2) {
			for i := range uint32(31) {
				if n := numberOf(e, i); p.has(n) != slices.Contains(all, n) {
					t.Fatalf("%s of %d has %d: %v", encodeMeta(p), all, n, p.has(n))
				}
			}
		}
	}
}

func TestEmptyNumbersAreNotWritten(t *testing.T) {
	if got := encodeMeta(writerMeta{Aborted: putNumbers{}.with()}); got != `{"Flushed":0,"Epochs":null,"First":0,"Last":0}` {
		t.Errorf("got %s", got)
	}
}

// A question reads the direct slots of its family and view, and those of all.
func TestDirectSlotsOfAQuestion(t *testing.T) {
	m := meta{direct: []store.DirectSlots{
		{Tier: 1, From: 0, To: 600}, {Tier: 2, From: 0, To: 600, Family: "a", View: series.Total}, {Tier: 2, From: 600, To: 1200, Family: "b", View: series.Total},
	}}
	for _, c := range []struct {
		family string
		view   series.View
		tier   int
		at     int64
		want   bool
	}{
		{"c", series.Full, 1, 599, true}, {"c", series.Full, 1, 600, false}, {"c", series.Full, 2, 0, false},
		{"a", series.Total, 2, 599, true}, {"a", series.Full, 2, 599, false}, {"a", series.Total, 2, 600, false}, {"b", series.Total, 2, 600, true},
	} {
		if got := m.horizon(c.family, c.view).Direct(c.tier, c.at); got != c.want {
			t.Errorf("%s in view %v, tier %d at %d: got %v, want %v", c.family, c.view, c.tier, c.at, got, c.want)
		}
	}
	m.direct = m.direct[1:]
	if m.horizon("a", series.Full).Direct != nil {
		t.Error("a question that has no direct slots looks for them")
	}
}
