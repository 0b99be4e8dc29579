package pebblestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// leapFrom is how far two readings of the clock may disagree, in seconds, once the
// time between them is taken off: a stop of less, and a clock that is set by less,
// are followed at once.
const leapFrom = 3600

// clockLeap decides which moment maintenance goes by. A clock that is wrong for a
// while would expire everything, so one that leaps is believed only after it has
// stood for a while, by a monotonic clock. Only the believed moment is persisted,
// and each start waits anew. Times are Unix seconds; an epoch is what the wall
// clock said when the monotonic one was 0.
type clockLeap struct {
	moment   int64 // believed; farPast until a clock has stood for the first time
	started  bool  // the epochs are of this process
	believed int64 // epoch
	waiting  bool
	standing int64         // epoch of the clock that is waited for
	since    time.Duration // when the wait began
	seen     bool          // the clock leapt ahead in this process, not before it
}

// advance returns the moment that maintenance goes by when the clock says wall:
// while a leap is waited for, the believed one or the clock, whichever is earlier.
// The clock is taken as it is while no moment is believed.
func (c *clockLeap) advance(wall int64, elapsed, wait time.Duration) int64 {
	passed := int64(elapsed / time.Second)
	epoch, first, known := wall-passed, !c.started, c.moment != farPast
	if first {
		c.started, c.believed = true, c.moment-passed
	}
	agree := func(a, b int64) bool { return max(a, b)-min(a, b) <= leapFrom }
	switch {
	case known && agree(epoch, c.believed), c.waiting && agree(epoch, c.standing) && elapsed-c.since >= wait:
		c.moment, c.believed, c.waiting, c.seen = wall, epoch, false, false
		return wall
	case !c.waiting:
		c.seen = !first && epoch > c.believed
		c.waiting, c.standing, c.since = true, epoch, elapsed
	case !agree(epoch, c.standing):
		c.seen = c.seen || epoch > c.standing
		c.standing, c.since = epoch, elapsed
	}
	if !known {
		return wall
	}
	c.moment = c.believed + passed
	return min(wall, c.moment)
}

// ClockLeap is a clock that is far ahead and not believed yet.
type ClockLeap struct {
	Ahead   time.Duration // of the moment that maintenance goes by
	Until   time.Time     // when it is believed, by this clock
	Running bool          // it leapt since Open: the server was not just stopped
}

// ClockLeap reports whether the clock is far ahead of the moment that maintenance
// goes by, see Options.LeapWait.
func (s *Store) ClockLeap() (ClockLeap, bool) {
	l := s.leap.Load()
	if l == nil {
		return ClockLeap{}, false
	}
	return *l, true
}

// believe returns the moment that maintenance goes by at wall, and the one that
// ages are counted from. The caller holds maintain.
func (s *Store) believe(wall time.Time) (now, aged time.Time, err error) {
	if s.opts.LeapWait == 0 {
		return wall, wall, nil
	}
	c := &s.clock
	before, was := c.moment, *c
	now = time.Unix(c.advance(wall.Unix(), s.opts.Elapsed(), s.opts.LeapWait), 0)
	if c.moment == farPast {
		return now, time.Unix(farPast, 0), nil
	}
	s.noteLeap(wall, was)
	if c.moment/60 != before/60 {
		// No sync: what a crash takes back is an older moment, which is waited for.
		err = classify(s.db.Set(metaKey(metaClock, 0), metaTime(c.moment), pebble.NoSync))
	}
	return now, now, err
}

// noteLeap publishes what the clock has come to, and logs what changed since was.
func (s *Store) noteLeap(wall time.Time, was clockLeap) {
	c := &s.clock
	if !c.waiting || wall.Unix() < c.moment {
		if s.leap.Swap(nil) != nil {
			s.opts.Logger.Info("the clock is no longer ahead of maintenance", "now", wall.UTC())
		}
		return
	}
	l := ClockLeap{
		Ahead:   wall.Sub(time.Unix(c.moment, 0)).Round(time.Second),
		Until:   time.Unix(c.standing, 0).Add(c.since + s.opts.LeapWait),
		Running: c.seen,
	}
	s.leap.Store(&l)
	if !was.waiting || was.since != c.since {
		s.opts.Logger.Warn("the clock is far ahead of the last maintenance: nothing expires by it until it has stood for a while",
			"now", wall.UTC(), "ahead", l.Ahead, "until", l.Until.UTC())
	}
}
