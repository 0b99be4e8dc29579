package pebblestore

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// leapFrom is how far two readings of the clock may disagree, in seconds, once the
// time between them is taken off: a stop of less, and a clock that is set by less,
// are followed at once.
const leapFrom = 3600

// stoodPerCall is the most that one call adds to how long a clock has stood: an
// hour without a call, or within one, has not been seen to pass.
const stoodPerCall = time.Minute

// clockLeap decides which moment maintenance goes by. A clock that is wrong for a
// while would expire everything, so one that leaps is believed only after it has
// been seen to stand for a while. Only the believed moment is persisted, and each
// start waits anew. Times are Unix seconds; an epoch is what the wall clock said
// when the monotonic one was 0.
type clockLeap struct {
	moment   int64 // believed; farPast until a clock has stood for the first time
	written  int64 // the moment on the disk
	believed int64 // epoch
	latest   int64 // latest epoch that was believed
	proven   bool  // the believed clock has stood since the start or the last long suspension
	waiting  bool
	standing int64         // epoch of the clock that is waited for
	stood    time.Duration // the last clock, be it believed or waited for
	seen     bool          // the clock leapt ahead while proven

	at        monotonic // of the last call
	suspended time.Duration
}

// monotonic is a reading of two clocks that nobody can set.
type monotonic struct {
	elapsed time.Duration // goes on while the machine is suspended
	running time.Duration // does not
}

// start begins with the moment that an earlier process believed, or farPast.
func (c *clockLeap) start(moment int64, at monotonic) {
	*c = clockLeap{moment: moment, written: moment, believed: moment - int64(at.elapsed/time.Second), at: at}
	c.latest = c.believed
}

// passed returns how many seconds the monotonic clock stands at, less the long
// suspensions, which are stops: a machine that wakes up may read a wrong wall
// clock, and moves the monotonic one as far.
func (c *clockLeap) passed(at monotonic) (seconds int64, suspended time.Duration) {
	suspended = c.suspended
	if d := at.elapsed - c.at.elapsed - (at.running - c.at.running); d > leapFrom*time.Second {
		suspended += d
	}
	return int64((at.elapsed - suspended) / time.Second), suspended
}

// advance returns the moment that maintenance goes by when the clock says wall:
// while a leap is waited for, the believed one or the clock, whichever is earlier.
// The clock is taken as it is while no moment is believed.
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

// ClockLeap is a clock that is far ahead and not believed yet.
type ClockLeap struct {
	Ahead   time.Duration // of the moment that maintenance goes by
	Left    time.Duration // it is believed after it has stood for so long
	Running bool          // it was right for an hour before: the server was not just stopped
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

func (s *Store) monotonic() monotonic {
	return monotonic{elapsed: s.opts.Elapsed(), running: s.opts.Running()}
}

// Leapt returns by how much wall is ahead of the moment that maintenance believes,
// as it is now; 0 if that is an hour at most, or if no moment is believed. A leap is
// told before the next Maintain. It is cheap, and safe for concurrent use.
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

// publishClock makes the state of the clock known to Leapt.
func (s *Store) publishClock() {
	if s.opts.LeapWait > 0 {
		c := s.clock
		s.believed.Store(&c)
	}
}

// believe returns the moment that maintenance goes by at wall, and the one that
// ages are counted from. The caller holds maintain.
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

// noteMoment writes the believed moment if it is in another minute than the one that
// is written. The caller holds maintain.
func (s *Store) noteMoment() error {
	c := &s.clock
	if s.opts.LeapWait == 0 || c.moment/60 == c.written/60 {
		return nil
	}
	// No sync: what a crash takes back is an older moment, which is waited for.
	if err := s.db.Set(metaKey(metaClock, 0), metaTime(c.moment), pebble.NoSync); err != nil {
		return classify(err)
	}
	c.written = c.moment
	return nil
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
		Left:    s.opts.LeapWait - c.stood,
		Running: c.seen,
	}
	s.leap.Store(&l)
	if !was.waiting || was.standing != c.standing {
		s.opts.Logger.Warn("the clock is far ahead of the last maintenance: nothing expires by it until it has stood for a while",
			"now", wall.UTC(), "ahead", l.Ahead, "left", l.Left)
	}
}
