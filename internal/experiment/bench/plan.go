package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Plan says how requests arrive over a whole run: phases one after another,
// each at a rate or from one rate to another.
//
// The rate's integral over time, Λ(t), is how many requests are due before t.
// Even arrivals are due where Λ is a whole number, the first at the start; those
// of Poisson where Λ is a sum of exponential gaps of mean 1, which makes a
// Poisson process of that very rate (Çinlar, Introduction to Stochastic
// Processes, 1975, 4.7: change of time). Λ is a piecewise quadratic, so both are
// exact: the k-th request is due when the arithmetic says, however many there
// were before. Grid coarsens the schedule itself, so that latency still counts from when
// a request was due.
type Plan struct {
	Arrivals Arrivals
	Phases   []Phase // of Recorded none or one, which bounds it; of Closed at least one
	Seed     uint64  // of Poisson; the same gives the same schedule, over any number of loops
	// Grid groups Even arrivals: in phases of more than one request per Grid each is due
	// at the nearest multiple of Grid since the phase began, so that one wake of a thread
	// sends several. It moves a request by at most half of Grid, never into another
	// phase: at the end of one the last are due together. 0 leaves every request at its
	// own time.
	Grid time.Duration
}

// FrugalGrid is the Grid of a plan that nobody asked to follow precisely. A wake of a
// thread costs some 20 µs of CPU on a virtual machine: five requests' worth.
const FrugalGrid = 400 * time.Microsecond

// grid returns the grid of a phase, or 0 if grouping moves its requests without
// sparing a wake.
func (p *Plan) grid(ph Phase) time.Duration {
	if p.Arrivals != Even || max(ph.From, ph.To)*p.Grid.Seconds() <= 1 {
		return 0
	}
	return p.Grid
}

// Grouped reports whether Grid moves requests of any phase.
func (p *Plan) Grouped() bool {
	return slices.ContainsFunc(p.Phases, func(ph Phase) bool { return p.grid(ph) > 0 })
}

// Phase is a stretch of a Plan.
type Phase struct {
	Name     string
	From, To float64 // requests per second at its ends; 0 is a pause. Ignored if the plan is Closed or Recorded
	// For is the length of the phase. The last phase may have 0 if its rate does not
	// change: it goes on until something else ends the run.
	For time.Duration
}

// Limits of a plan.
const (
	MaxRate     = 1e8                  // requests per second
	MaxDuration = 366 * 24 * time.Hour // of a whole plan
)

// Due returns the mean number of requests of the phase, +Inf if it has no end.
func (p Phase) Due() float64 {
	if p.For == 0 {
		if p.From == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return (p.From + p.To) / 2 * p.For.Seconds()
}

// Validate returns an error that names the first broken rule of the plan.
func (p *Plan) Validate() error {
	if int(p.Arrivals) >= len(arrivals) {
		return fmt.Errorf("unknown arrivals %d", p.Arrivals)
	}
	if p.Grid < 0 {
		return fmt.Errorf("grid %s: must not be negative", p.Grid)
	}
	if len(p.Phases) == 0 && p.Arrivals != Recorded {
		return fmt.Errorf("a plan needs a phase (hint: say a rate and for how long, such as 200 for 30s)")
	}
	if len(p.Phases) > 1 && p.Arrivals == Recorded {
		return fmt.Errorf("%d phases: a recording has its own times and takes one phase (hint: leave phases out, or their rates decide and not the recording)", len(p.Phases))
	}
	total, whole := 0.0, time.Duration(0)
	for i, ph := range p.Phases {
		name := ph.Name
		if name == "" {
			name = fmt.Sprintf("%d", i+1)
		}
		switch {
		case ph.For < 0:
			return fmt.Errorf("phase %s: it takes %s (hint: write a positive duration, such as 30s)", name, ph.For)
		case ph.For == 0 && i < len(p.Phases)-1:
			return fmt.Errorf("phase %s: it has no end, so that phase %d never begins (hint: say for how long)", name, i+2)
		case ph.For > MaxDuration-whole:
			return fmt.Errorf("phase %s: with it the plan takes longer than %s", name, MaxDuration)
		}
		whole += ph.For
		if p.Arrivals >= Closed {
			continue
		}
		for _, rate := range [...]float64{ph.From, ph.To} {
			if !(rate >= 0 && rate <= MaxRate) {
				return fmt.Errorf("phase %s: rate %v: must be from 0 to %.0f requests per second", name, rate, float64(MaxRate))
			}
		}
		if ph.For == 0 && ph.From != ph.To {
			return fmt.Errorf("phase %s: the rate changes from %v to %v, and nothing says by when (hint: say for how long)", name, ph.From, ph.To)
		}
		total += ph.Due()
	}
	if p.Arrivals < Closed && total == 0 {
		return fmt.Errorf("a plan of rate 0 sends nothing (hint: say a positive rate)")
	}
	return nil
}

// Duration returns the length of the plan, or 0 if it has no end of its own.
func (p *Plan) Duration() time.Duration {
	var d time.Duration
	for _, ph := range p.Phases {
		if ph.For == 0 {
			return 0
		}
		d += ph.For
	}
	return d
}

// Requests returns the most requests that can fall due: the exact number of an Even
// plan, and for Poisson a number that is exceeded in fewer than one of 10^9 runs. ok
// is false if the plan has no end, or is Closed or Recorded.
func (p *Plan) Requests() (n uint64, ok bool) {
	if p.Arrivals >= Closed || p.Duration() == 0 {
		return 0, false
	}
	whole := 0.0
	for _, ph := range p.Phases {
		whole = roundNearInteger(whole + ph.Due())
	}
	if p.Arrivals == Poisson {
		// Bernstein's inequality with P = 1e-9: x = L/3 + sqrt(L²/9 + 2Lλ), L = ln 1e9.
		const l = 20.723265836946414
		whole += l/3 + math.Sqrt(l*l/9+2*l*whole)
	}
	return uint64(math.Ceil(whole)), true
}

// Rate returns the mean rate of the whole plan in requests per second, or NaN if it
// is Closed or Recorded.
func (p *Plan) Rate() float64 {
	if p.Arrivals >= Closed || len(p.Phases) == 0 {
		return math.NaN()
	}
	due, took := 0.0, 0.0
	for _, ph := range p.Phases {
		if ph.For == 0 {
			return ph.From // outweighs what was before
		}
		due, took = due+ph.Due(), took+ph.For.Seconds()
	}
	return due / took
}

// PhaseAt returns the phase that d from the start lies in: the last one after the
// end, and 0 if there are no phases.
func (p *Plan) PhaseAt(d time.Duration) int {
	for i, ph := range p.Phases {
		if d -= ph.For; d < 0 || ph.For == 0 {
			return i
		}
	}
	return max(len(p.Phases)-1, 0)
}

// roundNearInteger rounds an x that differs from an integer by rounding errors only,
// so that 0.1/s for 30 s is 3 requests and not one more at the very end.
func roundNearInteger(x float64) float64 {
	if n := math.Round(x); math.Abs(x-n) <= 1e-14*max(1, n) {
		return n
	}
	return x
}
