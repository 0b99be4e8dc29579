package pair

import (
	"strings"
	"testing"
	"time"
)

func TestSteady(t *testing.T) {
	a, now := Steady(), time.Now()
	if off := now.Sub(time.Unix(0, a)).Abs(); off > time.Minute {
		t.Errorf("it is %v from the time of day", off)
	}
	if b := Steady(); b < a || b-a > int64(time.Minute) {
		t.Errorf("%d follows %d", b, a)
	}
}

// A leg that was given up has taken as long as it has, whatever the time of day
// was set to meanwhile, and is of the slot in which its exchange was begun.
func TestTimeOfDayIsSet(t *testing.T) {
	for _, set := range []time.Duration{-time.Hour, time.Hour} {
		steady := &clock{5_000 * second}
		b, m, day := testLedger(t, Options{Steady: steady.now})
		x := b.Begin(Names{Operation: "get"}, []uint8{0, 1}, false)
		x.Sent(1)
		start := steady.nanos
		x.EndPrimary(answer(steady, 200, 10))
		steady.nanos += 2 * second
		day.nanos += int64(set)
		x.EndCopy(1, Leg{Start: start, Cause: TimedOut})
		flush(t, b)
		want := `1000000 mirror_duration_seconds{operation="get", service="shop", status="error", variant="new"} n=1 sum=2`
		if got := m.dump(); !strings.Contains(got, want+"\n") {
			t.Errorf("set by %v, got\n%s\nwant\n%s", set, got, want)
		}
	}
}
