package pebblestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// leapFrom is by how many seconds two readings of the clock may disagree, less the time
// between them: a smaller stop, or change of the clock, is followed at once.
const leapFrom = 3600

// stoodPerCall bounds what one call adds to how long a clock has stood: an hour without
// a call, or within one, was not observed.
const stoodPerCall = time.Minute

// clockLeap decides which time maintenance uses. A clock that is wrong for a while would
// expire everything, so a leap is believed only after the new time has stood for a
// while. Only the believed moment is persisted, and each start waits anew. Times are
// Unix seconds; an epoch is the wall clock's reading when the monotonic one was 0.
type clockLeap struct {
	moment   int64 // believed; farPast until a clock has stood for the first time
	written  int64 // the moment on disk
	believed int64 // epoch
	latest   int64 // latest epoch that was believed
	proven   bool  // the believed clock has stood since the start or the last long suspension
	waiting  bool
	standing int64         // epoch of the clock that is waited for
	stood    time.Duration // how long the last clock has stood, believed or waited for
	seen     bool          // the clock leapt ahead while proven

	at        monotonic // of the last call
	suspended time.Duration
}

// monotonic is a reading of two clocks that cannot be set.
type monotonic struct {
	elapsed time.Duration // goes on while the machine is suspended
	running time.Duration // stops while the machine is suspended
}

// start begins with the moment that an earlier process believed, or farPast.
func (c *clockLeap) start(moment int64, at monotonic) {
	*c = clockLeap{moment: moment, written: moment, believed: moment - int64(at.elapsed/time.Second), at: at}
	c.latest = c.believed
}

// passed returns the seconds of the monotonic clock, without the long suspensions, which
// count as stops: a machine that wakes up may read a wrong wall clock, and moves the
// monotonic one as far.
func (c *clockLeap) passed(at monotonic) (seconds int64, suspended time.Duration) {
	suspended = c.suspended
	if d := at.elapsed - c.at.elapsed - (at.running - c.at.running); d > leapFrom*time.Second {
		suspended += d
	}
	return int64((at.elapsed - suspended) / time.Second), suspended
}

// advance returns the moment that maintenance uses when the clock reads wall. While it
// waits for a leap that is the earlier of the believed moment and the clock. While no
// moment is believed it is the clock.
func (c *clockLeap) advance(wall int64, at monotonic, wait time.Duration) int64 {
	passed, suspended := c.passed(at)
	stood := min(at.running-c.at.running, stoodPerCall)
	if suspended != c.suspended {
		c.proven, c.seen, c.stood = false, false, 0
	}
	c.at, c.suspended = at, suspended
	epoch, known := wall-passed, c.moment != farPast
	agree := func(a, b int64) bool { return max(a, b)-min(a, b) <= leapFrom }
	switch {
	case known && agree(epoch, c.believed):
		if c.waiting {
			c.waiting, c.stood, stood = false, 0, 0
		}
		c.stood += stood
	case c.waiting && agree(epoch, c.standing):
		c.stood += stood
	default:
		c.seen = epoch > c.latest+leapFrom && (c.proven || c.waiting && c.seen)
		c.waiting, c.standing, c.stood = true, epoch, 0
	}
	if c.stood >= wait {
		c.waiting, c.proven = false, true
	}
	if !c.waiting {
		c.moment, c.believed, c.latest, c.seen = wall, epoch, max(c.latest, epoch), false
		return wall
	}
	if !known {
		return wall
	}
	c.moment = c.believed + passed
	return min(wall, c.moment)
}

// ClockLeap describes a clock that is far ahead and not believed yet.
type ClockLeap struct {
	Ahead   time.Duration // of the moment that maintenance uses
	Left    time.Duration // it is believed after it has stood for so long
	Running bool          // it was right for an hour before: the server was not just stopped
}

// ClockLeap reports whether the clock is far ahead of the moment that maintenance uses;
// see Options.LeapWait.
func (s *Store) ClockLeap() (ClockLeap, bool) {
	l := s.leap.Load()
	if l == nil {
		return ClockLeap{}, false
	}
	return *l, true
}

func (s *Store) monotonic() monotonic {
	return monotonic{elapsed: s.opts.Elapsed(), running: s.opts.Running()}
}

// Leapt returns how far wall is ahead of the moment that maintenance believes, or 0 if
// that is an hour at most, or no moment is believed. It notices a leap before the next
// Maintain. It is cheap, and safe for concurrent use.
func (s *Store) Leapt(wall time.Time) time.Duration {
	c := s.believed.Load()
	if c == nil || c.moment == farPast {
		return 0
	}
	passed, _ := c.passed(s.monotonic())
	if ahead := wall.Sub(time.Unix(c.believed+passed, 0)); ahead > leapFrom*time.Second {
		return ahead
	}
	return 0
}

// publishClock publishes the state of the clock for Leapt.
func (s *Store) publishClock() {
	if s.opts.LeapWait > 0 {
		c := s.clock
		s.believed.Store(&c)
	}
}

// believe returns the moment that maintenance uses at wall, and the one that ages are
// counted from. The caller holds maintain.
func (s *Store) believe(wall time.Time) (now, aged time.Time) {
	if s.opts.LeapWait == 0 {
		return wall, wall
	}
	c := &s.clock
	was := *c
	now = time.Unix(c.advance(wall.Unix(), s.monotonic(), s.opts.LeapWait), 0)
	s.publishClock()
	if c.moment == farPast {
		return now, time.Unix(farPast, 0)
	}
	s.noteLeap(wall, was)
	return now, now
}

// noteMoment stores the believed moment if its minute has changed. The caller holds
// maintain.
func (s *Store) noteMoment() error {
	c := &s.clock
	if s.opts.LeapWait == 0 || c.moment/60 == c.written/60 {
		return nil
	}
	// No sync: after a crash the older moment is waited for.
	if err := s.db.Set(metaKey(metaClock, 0), metaTime(c.moment), pebble.NoSync); err != nil {
		return classify(err)
	}
	c.written = c.moment
	return nil
}

// noteLeap publishes the state of the clock, and logs its changes against was.
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
		Left:    s.opts.LeapWait - c.stood,
		Running: c.seen,
	}
	s.leap.Store(&l)
	if !was.waiting || was.standing != c.standing {
		s.opts.Logger.Warn("the clock is far ahead of the last maintenance: nothing expires by it until it has stood for a while",
			"now", wall.UTC(), "ahead", l.Ahead, "left", l.Left)
	}
}
