package pair

import "testing"

// Answers that wait for a shadow that hangs take no more than they may: beyond
// it they are let go, the exchange says so, and there is room again once those
// before have ended.
func TestAnswersThatWaitAreBounded(t *testing.T) {
	var watched, crowded int
	b := NewLedger(Options{
		Service: "s", Experiment: "e", Shadows: []Shadow{{Name: "candidate", Role: Candidate}, {Name: "other", Role: Candidate}},
		MaxAnswers: 10_000,
		Watch: func(x *Exchange) {
			watched++
			if x.Crowded() {
				crowded++
				if x.Primary().Answer != nil || x.Copies(0)[0].Answer != nil || x.Copies(1)[0].Answer != nil {
					t.Error("answers were kept beyond the bound")
				}
			} else if x.Primary().Answer == nil || x.Copies(0)[0].Answer == nil {
				t.Error("an answer was let go although there was room")
			}
		},
	})
	answer := func() Leg {
		return Leg{Start: 1, FirstByte: 2, End: 3, Status: 200, Answer: &Answer{Status: 200, Body: make([]byte, 1000)}}
	}
	run := func(n int) {
		var waiting []*Exchange
		for range n {
			x := b.Begin(Names{Operation: "GET /"}, []uint8{1, 1}, true)
			x.Sent(0)
			x.EndPrimary(answer())
			x.EndCopy(0, answer())
			waiting = append(waiting, x)
			if held := b.held.Load(); held > 10_000 {
				t.Fatalf("%d bytes are held", held)
			}
		}
		for _, x := range waiting {
			x.EndCopy(1, Leg{Cause: Expired})
		}
		if held := b.held.Load(); held != 0 {
			t.Errorf("%d bytes are held when all exchanges have ended", held)
		}
	}
	run(20)
	if watched != 20 || crowded != 17 { // three answers of two legs fit, of 1,512 bytes each
		t.Errorf("%d watched, %d of them crowded", watched, crowded)
	}
	watched, crowded = 0, 0
	run(3)
	if watched != 3 || crowded != 0 {
		t.Errorf("%d watched, %d of them crowded, when there was room again", watched, crowded)
	}
}
