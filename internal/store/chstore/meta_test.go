package chstore

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
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
