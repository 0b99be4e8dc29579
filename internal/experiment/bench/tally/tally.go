// Package tally counts what a run of load observes.
//
// Each loop of the engine has a Loop of its own and writes into a bank of
// histograms and counts that nobody else touches: no lock, and no allocation
// once everything has been seen. A collector takes the bank away by swapping it
// for an empty one, about once a second, and adds it to the totals. The loop
// never waits for that. It says by a number that is odd while it is at work that
// it may still hold the old bank, and it is the collector that waits until it
// does not (the grace period of read-copy-update, McKenney and Slingwine 1998,
// with one reader).
//
// Histograms are those of package hist, so that what is collected by the second,
// by loop, query, tenant or phase adds up exactly.
package tally

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/experiment/bench/load"
)

// Options configures a Tally.
type Options struct {
	Queries, Tenants, Checks []string
	// Accepts reports whether a status is not an error; default: those below 400 are
	// not.
	Accepts func(query, status int) bool
	Phases  int // how many; at least 1
	// Phase returns the phase of a time from the start. It is needed if the engine
	// does not know it, as in a closed loop; nil: the engine does.
	Phase func(due time.Duration) int
	// Skip leaves out what was due before it: the warm-up, which is phase 0 of the
	// engine. Times and phases of what is kept count from its end.
	Skip      time.Duration
	Quantiles []float64 // of figures, beside Quantiles
	// Keep keeps what was collected for a sink until Take.
	Keep bool
}

// MaxCells bounds the pairs of query and tenant that are counted apart. Tenants
// beyond it are counted as the last one, which sets of requests call _other.
const MaxCells = 4096

// Tally counts one run. The engine may call Recorder at any time; the other methods
// belong to one goroutine at a time.
type Tally struct {
	o       Options
	tenants int // counted apart, at most; beside none
	accepts func(query, status int) bool

	mu    sync.Mutex
	loops []*Loop

	sums    *bank // totals
	line    timeline
	recent  timeline
	pending []*Pending
	lost    uint64   // requests that no sink took
	since   *bank    // since the last Collect
	last    []second // the last ones, the latest last
}

// New returns an empty tally.
func New(o Options) *Tally {
	o.Phases = max(o.Phases, 1)
	t := &Tally{o: o, tenants: len(o.Tenants), accepts: o.Accepts}
	if n := max(len(o.Queries), 1); n*(t.tenants+1) > MaxCells {
		t.tenants = max(MaxCells/n-1, 1)
	}
	if t.accepts == nil {
		t.accepts = func(_, status int) bool { return status < 400 }
	}
	t.sums, t.since = newBank(t), newBank(t)
	t.line = timeline{limit: maxSlots, width: time.Second}
	t.recent = timeline{limit: recentSlots, width: time.Second, rolls: true}
	return t
}

// Recorder returns the recorder of one loop; it is load.Options.Recorder.
func (t *Tally) Recorder(_, _ int) load.Recorder {
	l := &Loop{spare: newBank(t)}
	l.bank.Store(newBank(t))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loops = append(t.loops, l)
	return l
}

// Loop counts the observations of one loop, on one goroutine at a time.
type Loop struct {
	turn atomic.Uint64 // odd while an observation is counted
	bank atomic.Pointer[bank]
	_    [48]byte // the loop's own cache line
	// spare is an empty bank to be swapped in; it belongs to the collector.
	spare *bank
}

// Observe counts a request that was sent.
func (l *Loop) Observe(o *load.Observation) {
	n := l.turn.Load()
	l.turn.Store(n + 1)
	l.bank.Load().observe(o)
	l.turn.Store(n + 2)
}

// Drop counts a request that was due and dropped.
func (l *Loop) Drop(due time.Duration, phase int) {
	n := l.turn.Load()
	l.turn.Store(n + 1)
	l.bank.Load().drop(due, phase)
	l.turn.Store(n + 2)
}

// takeBank swaps the bank for the spare one as soon as the loop is not counting.
func (l *Loop) takeBank() *bank {
	old := l.bank.Swap(l.spare)
	if n := l.turn.Load(); n%2 == 1 {
		for spins := 0; l.turn.Load() == n; spins++ {
			if runtime.Gosched(); spins > 100 { // the loop's thread does not run now
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
	return old
}
