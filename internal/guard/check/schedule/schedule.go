// Package schedule computes when a check runs next.
//
// A Schedule is a value: Next looks at nothing but its argument, so a schedule
// never drifts, however late it is asked, and a restart keeps its phase. There
// are three kinds: an interval, whose runs are spread by the check's name; cron,
// which goes by the clock on the wall of a zone (see Cron for what happens when
// that clock is changed); and a run after another check's.
package schedule

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/zeebo/xxh3"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/spec"
)

// Least is the shortest interval.
const Least = time.Second

// Schedule is one of the three kinds. The zero Schedule never runs.
type Schedule struct {
	interval time.Duration
	phase    time.Duration // in [0, interval), from the Unix epoch
	cron     *Cron
	after    string
	delay    time.Duration
}

// Parse reads a schedule. The runs of an interval fall at a random but stable
// phase within it, which seed (the check's name) decides: many checks of one
// interval spread evenly over it, and each keeps its phase over restarts.
func Parse(s spec.Schedule, seed string) (Schedule, error) {
	set := 0
	for _, b := range []bool{s.Interval != 0, s.Cron != "", s.After != ""} {
		if b {
			set++
		}
	}
	if set != 1 {
		return Schedule{}, fmt.Errorf("a schedule has exactly one of interval, cron and after; %d are given", set)
	}
	if s.Delay != 0 && s.After == "" {
		return Schedule{}, fmt.Errorf("delay belongs to a schedule with after; leave it out")
	}
	switch {
	case s.Cron != "":
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return Schedule{}, fmt.Errorf("zone %q: %w; write a name such as Europe/Stockholm", s.Zone, err)
		}
		c, err := ParseCron(s.Cron, zone)
		if err != nil {
			return Schedule{}, err
		}
		return Schedule{cron: c}, nil
	case s.After != "":
		if s.Delay < 0 {
			return Schedule{}, fmt.Errorf("delay %s is negative; give 0s or more", s.Delay)
		}
		return Schedule{after: s.After, delay: s.Delay}, nil
	}
	if s.Interval < Least {
		return Schedule{}, fmt.Errorf("interval %s is too short; give %s or more", s.Interval, Least)
	}
	// The high word of hash × interval is uniform in [0, interval).
	phase, _ := bits.Mul64(xxh3.HashString(seed), uint64(s.Interval))
	return Schedule{interval: s.Interval, phase: time.Duration(phase)}, nil
}

// Next is the first run strictly after the moment; the zero time if there is
// none, as after another check (see After).
func (s Schedule) Next(after time.Time) time.Time {
	switch {
	case s.cron != nil:
		return s.cron.Next(after)
	case s.interval > 0:
		// In seconds and nanoseconds apart, so that no year overflows.
		return after.Add(s.interval - sinceRun(after, s.interval, s.phase)).Round(0)
	}
	return time.Time{}
}

// sinceRun returns the time since the last moment of the phase before t, in [0, every).
func sinceRun(t time.Time, every, phase time.Duration) time.Duration {
	e := uint64(every)
	sec := t.Unix() % int64(every) // |sec| < every; its sign is mended below
	if sec < 0 {
		sec += int64(every)
	}
	// sec·1e9 mod e, through 128 bits.
	hi, lo := bits.Mul64(uint64(sec), uint64(time.Second))
	at := bits.Rem64(hi, lo, e)
	at = (at + uint64(t.Nanosecond())%e) % e
	return time.Duration((at + e - uint64(phase)) % e)
}

// After names the check that this one follows, and how long after its run; ok is
// false for the other kinds.
func (s Schedule) After() (check string, delay time.Duration, ok bool) {
	return s.after, s.delay, s.after != ""
}

// Interval is the time between runs of the interval kind, and the typical one of
// a cron; 0 after another check.
func (s Schedule) Interval() time.Duration {
	if s.cron == nil {
		return s.interval
	}
	// The shortest of a few: between runs, not over a night or a weekend.
	at := s.cron.Next(time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC))
	var least time.Duration
	for range 8 {
		next := s.cron.Next(at)
		if next.IsZero() {
			break
		}
		if d := next.Sub(at); least == 0 || d < least {
			least = d
		}
		at = next
	}
	return least
}

// String says it for people: every 10s, cron 0 */5 * * * * (Europe/Stockholm),
// after orders (10s later).
func (s Schedule) String() string {
	switch {
	case s.cron != nil:
		return s.cron.String()
	case s.after != "" && s.delay > 0:
		return fmt.Sprintf("after %s (%s later)", s.after, figure.Duration(s.delay))
	case s.after != "":
		return "after " + s.after
	case s.interval > 0:
		return "every " + figure.Duration(s.interval)
	}
	return "never"
}

// Open finds the run whose time of length d holds t, as for a window that opens
// by the schedule and stays open for d: start <= t < start+d. Of overlapping ones
// it is the first.
func (s Schedule) Open(t time.Time, d time.Duration) (start time.Time, ok bool) {
	start = s.Next(t.Add(-d))
	return start, !start.IsZero() && !start.After(t)
}
