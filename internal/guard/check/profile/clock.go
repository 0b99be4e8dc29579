package profile

import (
	"math"
	"time"
)

// A knot is a moment at which the clock on the wall shows a full hour. On an
// ordinary day there are 24. Where the clock is set forward over full hours, the
// moment of the change is the knot of the last of them; where it is set back, an
// hour comes twice and has two knots. So every moment lies between two knots,
// and how far is a matter of time that has really passed.
type knot struct {
	at   time.Time
	day  day
	hour int
}

const hour = 3600

// around finds the last knot at or before t, and the first after it.
func around(t time.Time) (from, to knot) {
	return before(t), after(t)
}

func before(t time.Time) knot {
	for {
		start, _ := t.ZoneBounds()
		off := offset(t)
		mark := floor(t.Unix()+off, hour)
		if start.IsZero() || mark-off >= start.Unix() {
			return knotAt(mark-off, mark, t.Location())
		}
		was := offset(start.Add(-time.Second))
		if mark >= start.Unix()+was { // skipped
			return knotAt(start.Unix(), mark, t.Location())
		}
		t = start.Add(-time.Nanosecond)
	}
}

func after(t time.Time) knot {
	for {
		_, end := t.ZoneBounds()
		off := offset(t)
		mark := floor(t.Unix()+off, hour) + hour
		until := int64(math.MaxInt64)
		if !end.IsZero() {
			until = end.Unix()
		}
		if mark-off < until {
			return knotAt(mark-off, mark, t.Location())
		}
		becomes := offset(end)
		// The last full hour that the clock skips or lands on.
		if mark = floor(until+becomes, hour); mark == until+becomes || mark >= until+off {
			return knotAt(until, mark, t.Location())
		}
		t = end
	}
}

// knotAt returns the knot at a Unix time at which the wall clock shows mark.
func knotAt(unix, mark int64, zone *time.Location) knot {
	return knot{time.Unix(unix, 0).In(zone), day(floor(mark, 86400) / 86400), int(mark-floor(mark, 86400)) / hour}
}

func offset(t time.Time) int64 {
	_, o := t.Zone()
	return int64(o)
}

func floor(n, by int64) int64 {
	if r := n % by; r < 0 {
		return n - r - by
	} else {
		return n - r
	}
}
