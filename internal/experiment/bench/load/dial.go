package load

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Again as the phase of a due time says that no request is due then: the pacer
// does not know further yet, and is to be asked again.
const Again = -1

// A Dial is a schedule whose rate is set while it runs. Each loop follows it as far
// as dialAhead before it goes on, so that a new rate holds for all of them after
// that time at the latest; requests that had fallen due by then keep the phase they
// had.
//
// Its arrivals are even, or a Poisson process: of that every loop has one of its
// own at its share of the rate, which together are one at the whole (the
// superposition of Poisson processes is one), and it has no memory, so that drawing
// anew where the rate changes changes nothing (Çinlar, Introduction to Stochastic
// Processes, 1975, chapter 4).
type Dial struct {
	poisson   bool
	seed      uint64
	now       atomic.Pointer[dialled]
	schedules map[[2]int]*sharedSchedule // by loop; made before the loops run
	started   atomic.Int64               // nanoseconds since the Unix epoch; 0 before
	due       atomic.Uint64              // requests
}

// dialled is the state of a Dial.
type dialled struct {
	rate  float64 // of all loops, requests a second
	phase int
	end   bool // of the schedule
	// withdrawn is the phase up to which requests that wait for a connection are not
	// to be sent any more.
	withdrawn int
}

// dialAhead is the time for which a loop follows a Dial before it reads it again.
const dialAhead = 10 * time.Millisecond

// NewDial returns a Dial that stands at 0. The same seed and the same settings at
// the same times make the same schedule.
func NewDial(poisson bool, seed uint64) *Dial {
	d := &Dial{poisson: poisson, seed: seed, schedules: map[[2]int]*sharedSchedule{}}
	d.now.Store(&dialled{phase: -1, withdrawn: -1})
	return d
}

// Set makes requests due at rate a second, of the given phase, from now on. A phase
// must not be less than the one before, and more after Stop. It may be called at any time, by one
// goroutine at a time, as Stop and End may.
func (d *Dial) Set(rate float64, phase int) {
	d.now.Store(&dialled{rate: rate, phase: phase, withdrawn: d.now.Load().withdrawn})
}

// Stop makes nothing due any more, and requests that wait for a connection are
// dropped. Those under way are answered.
func (d *Dial) Stop() {
	at := d.now.Load()
	d.now.Store(&dialled{phase: at.phase, end: at.end, withdrawn: at.phase})
}

// End ends the schedule: the run ends when what is under way has been answered.
func (d *Dial) End() {
	at := d.now.Load()
	d.now.Store(&dialled{phase: at.phase, end: true, withdrawn: at.phase})
}

// Due returns the number of requests that have fallen due, up to a moment ahead.
func (d *Dial) Due() uint64 { return d.due.Load() }

// Withdrawn returns the last phase whose waiting requests are dropped
// (Options.Withdrawn).
func (d *Dial) Withdrawn() int { return d.now.Load().withdrawn }

// Pacer is Options.Pacer. Options.Loops must be set, and Pacers of one loop are
// used by one goroutine.
func (d *Dial) Pacer(loop, loops int) (Pacer, error) {
	key := [2]int{loop, loops}
	t := d.schedules[key]
	if t == nil {
		t = &sharedSchedule{dial: d, loops: float64(loops), rng: rand.New(rand.NewPCG(d.seed, 0xd1a1<<16+uint64(loop)))}
		if t.left = float64(loop) / float64(loops); d.poisson || t.left == 0 {
			t.left = t.gap()
		}
		d.schedules[key] = t
	}
	r := &scheduleReader{schedule: t}
	t.readers = append(t.readers, r)
	return r, nil
}

// sharedSchedule holds what has fallen due for one loop and was not read by all of
// its readers.
type sharedSchedule struct {
	dial    *Dial
	loops   float64
	rng     *rand.Rand
	readers []*scheduleReader

	at    time.Duration // up to which it is known what falls due
	left  float64       // requests of this loop's share until the next one
	first int           // number of the first of dues
	dues  []dueAt
}

type dueAt struct {
	due   time.Duration
	phase int
}

// gap returns the number of requests of the loop's share until the next one.
func (t *sharedSchedule) gap() float64 {
	if t.dial.poisson {
		return t.rng.ExpFloat64()
	}
	return 1
}

// more goes on by dialAhead at most and reports whether a request falls due
// then.
func (t *sharedSchedule) more(now *dialled) bool {
	rate := now.rate / t.loops
	if t.left > rate*dialAhead.Seconds() {
		t.left -= rate * dialAhead.Seconds()
		t.at += dialAhead
		return false
	}
	t.at += time.Duration(math.Round(t.left / rate * 1e9))
	t.left = t.gap()
	t.dial.due.Add(1)
	t.dues = append(t.dues, dueAt{t.at, now.phase})
	return true
}

// dropRead drops what all readers have read.
func (t *sharedSchedule) dropRead() {
	least := t.readers[0].next
	for _, r := range t.readers[1:] {
		least = min(least, r.next)
	}
	if n := least - t.first; n > 64 && n > len(t.dues)/2 {
		t.dues = t.dues[:copy(t.dues, t.dues[n:])]
		t.first = least
	}
}

// scheduleReader is one of the pacers of a loop: all yield the same.
type scheduleReader struct {
	schedule *sharedSchedule
	next     int // number of what it reads next
}

func (r *scheduleReader) Next() (due time.Duration, phase int, ok bool) {
	t := r.schedule
	if r.next == t.first+len(t.dues) {
		now := t.dial.now.Load()
		if now.end {
			return 0, 0, false
		}
		if !t.more(now) {
			return t.at, Again, true
		}
	}
	at := t.dues[r.next-t.first]
	r.next++
	t.dropRead()
	return at.due, at.phase, true
}

// Begun is Options.Begun.
func (d *Dial) Begun(at time.Time) { d.started.Store(at.UnixNano()) }

// Started returns when the run began, from which times count; the zero time before.
func (d *Dial) Started() time.Time {
	if n := d.started.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}
