package schedule

import (
	"math"
	"time"
)

// A wall time is the time that a local clock shows, as the Unix seconds at which a clock
// of UTC shows the same. All changes of zones fall on whole seconds.

// longest exceeds the offset of every zone and every change of a clock, in seconds.
const longest = 26 * 3600

// offset returns the seconds by which the wall clock is ahead of UTC at a moment, and the
// moment until which it stays so.
func offset(at int64, zone *time.Location) (off, end int64) {
	t := time.Unix(at, 0).In(zone)
	_, o := t.Zone()
	_, e := t.ZoneBounds()
	if e.IsZero() {
		return int64(o), math.MaxInt64
	}
	return int64(o), e.Unix()
}

// furthest is the latest wall time that the clock has shown up to the moment.
func furthest(at time.Time, zone *time.Location) int64 {
	t := at.In(zone)
	_, o := t.Zone()
	most := t.Unix() + int64(o)
	for {
		start, _ := t.ZoneBounds()
		if start.IsZero() || at.Sub(start) > longest*time.Second {
			return most
		}
		t = start.Add(-time.Second)
		_, o = t.Zone()
		most = max(most, t.Unix()+int64(o))
	}
}

// reads is the first moment at which the clock shows the wall time or a later
// one, which is the moment of the change if a change skips it.
func reads(wall int64, zone *time.Location) int64 {
	at := wall - longest
	for {
		off, end := offset(at, zone)
		if t := max(at, wall-off); t < end {
			return t
		}
		at = end
	}
}
