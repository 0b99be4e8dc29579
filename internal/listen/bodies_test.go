package listen

import (
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBodies(t *testing.T) {
	at := time.Unix(1000, 0)
	b := Bodies{Max: 2, MaxBytes: 100, Rate: 10, Now: func() time.Time { return at }}
	var off []string
	begin := func(name string) *Body { return b.Begin(func() { off = append(off, name) }) }
	check := func(when string, arriving int, bytes int64, want ...string) {
		t.Helper()
		if st := b.Stats(); st.Arriving != arriving || st.Bytes != bytes {
			t.Errorf("%s: %d arrive with %d bytes, want %d with %d", when, st.Arriving, st.Bytes, arriving, bytes)
		}
		if len(off) != len(want) || len(want) > 0 && off[len(off)-1] != want[len(want)-1] {
			t.Errorf("%s: cut off are %q, want %q", when, off, want)
		}
	}
	first, second := begin("first"), begin("second")
	if !first.Hold(60) || second.Hold(50) || !second.Grow(40) || second.Grow(1) {
		t.Error("the bound on bytes does not hold")
	}
	if begin("third") != nil {
		t.Error("a third is let in at once")
	}
	check("full", 2, 100)
	at = at.Add(time.Second)
	third := begin("third")
	check("the first had its second", 2, 40, "first")
	if first.End() != Crowded || first.Hold(61) || !first.Grow(1) {
		t.Error("the first does not know")
	}
	if !third.Hold(60) || !third.Hold(30) {
		t.Error("no room for the third")
	}
	for range 2 { // ending again changes nothing
		if third.End() != NotCut {
			t.Error("the third was cut off")
		}
	}
	check("the third arrived", 1, 40, "first")

	// The grace is over when five seconds are, counted from each one's begin.
	at = at.Add(4 * time.Second)
	late := begin("late")
	b.Sweep()
	check("within the grace", 2, 40, "first")
	at = at.Add(4 * time.Second) // 4 s at 10 bytes a second: 40 came
	b.Sweep()
	check("just fast enough", 2, 40, "first")
	at = at.Add(time.Second / 10)
	b.Sweep()
	check("too slow", 1, 0, "first", "second")
	if second.End() != TooSlow {
		t.Error("the second does not know")
	}
	late.Came(1 << 20)
	at = at.Add(time.Hour)
	b.Sweep()
	check("fast long ago", 1, 0, "first", "second")
	if late.End() != NotCut {
		t.Error("the late one was cut off")
	}
	if st := b.Stats(); st.Slow != 1 || st.Crowded != 1 || st.Arriving != 0 {
		t.Errorf("got %+v", st)
	}
}

// What is likely to come is known before it does: of as many as are refused at
// their beginning none has to be cut off later. Those that drip are expected to
// bring nothing.
func TestExpects(t *testing.T) {
	at := time.Unix(1000, 0)
	b := Bodies{MaxBytes: 1000, Rate: 10, Now: func() time.Time { return at }}
	begin := func() *Body { return b.Begin(func() { t.Error("cut off") }) }
	for range 64 {
		x := begin()
		if !x.Grow(100) {
			t.Fatal("no room")
		}
		x.Arrived()
		x.End()
	}
	var all []*Body
	for !b.Expects() {
		all = append(all, begin())
	}
	if n := len(all); n < 7 || n > 9 { // three quarters, of 100 bytes each
		t.Errorf("%d are let in", n)
	}
	for i, x := range all {
		if i%2 == 0 && !x.Fit(50) {
			t.Error("no room for what is expected")
		}
	}
	if !b.Expects() {
		t.Error("half of it has come, and less is expected")
	}
	at = at.Add(3 * time.Second) // half of them have sent nothing
	if b.Expects() {
		t.Error("those that drip are expected to send all")
	}
	x := begin()
	if !x.Fit(1000-50*((len(all)+1)/2)) || x.Fit(1) {
		t.Errorf("it does not fit as it should: %+v", b.Stats())
	}
	for _, x := range append(all, x) {
		x.End()
	}
	if st := b.Stats(); st.Bytes != 0 || st.Crowded != 0 {
		t.Errorf("left: %+v", st)
	}
}

// Of a stream only the time counts for which its reader waits, and a fast
// beginning is not a credit.
func TestStream(t *testing.T) {
	at := time.Unix(1000, 0)
	b := Bodies{Rate: 10, Now: func() time.Time { return at }}
	cut := 0
	x := b.Begin(func() { cut++ })
	r, w := io.Pipe()
	s := x.Stream(r)
	read := func(n int) {
		t.Helper()
		go w.Write(make([]byte, n))
		if _, err := io.ReadFull(s, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(d time.Duration, want int) {
		t.Helper()
		at = at.Add(d)
		b.Sweep()
		if cut != want {
			t.Fatalf("cut off %d times, want %d", cut, want)
		}
	}
	read(1000)
	sweep(time.Hour, 0) // the reader is busy
	for range 100 {
		read(1)
		if !x.wait() {
			t.Fatal("cut off")
		}
		sweep(100*time.Millisecond, 0) // at the rate, for longer than the grace
	}
	sweep(4*time.Second, 0)
	sweep(2*time.Second, 1) // though a hundred seconds' worth came at the beginning
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != ErrCutOff || x.End() != TooSlow {
		t.Errorf("read %d, %v", n, err)
	}
}

// Whatever is done in whatever order, no bound is passed and nothing is left.
func TestBodiesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(1000, 0)
		b := Bodies{Max: 4, MaxBytes: 100, Rate: 10, Now: func() time.Time { return at }}
		type one struct {
			*Body
			ended bool
			cuts  int
		}
		var all []*one
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				x := &one{}
				if x.Body = b.Begin(func() { x.cuts++ }); x.Body != nil {
					all = append(all, x)
				}
			case 1, 2:
				if len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "who")].Grow(rapid.IntRange(0, 60).Draw(t, "bytes"))
				}
			case 3:
				if len(all) > 0 {
					x := all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
					x.End()
					x.ended = true
				}
			case 4:
				at = at.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			case 5:
				b.Sweep()
			}
			var n int
			var bytes int64
			for _, x := range all {
				if !x.ended && x.cuts == 0 {
					n++
					bytes += x.held
				}
				if x.cuts > 1 {
					t.Fatal("cut off twice")
				}
			}
			if st := b.Stats(); st.Arriving != n || st.Bytes != bytes || n > b.Max || bytes > b.MaxBytes {
				t.Fatalf("%+v, but %d arrive with %d bytes", st, n, bytes)
			}
		}
		for _, x := range all {
			x.End()
		}
		if st := b.Stats(); st.Arriving != 0 || st.Bytes != 0 || b.oldest != nil || b.newest != nil {
			t.Fatalf("left: %+v", st)
		}
	})
}
