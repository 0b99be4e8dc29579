package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
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
// were before.
type Plan struct {
	Arrivals Arrivals
	Phases   []Phase // of Recorded none or one, which bounds it; of Closed at least one
	Seed     uint64  // of Poisson; the same gives the same schedule, over any number of loops
}

// Phase is a stretch of a Plan.
type Phase struct {
	Name     string
	From, To float64 // requests per second at its ends; 0 is a pause. Of no meaning if the plan is Closed or Recorded
	// For is how long it takes; 0, of the last one only and if its rate does not
	// change, until something else ends the run.
	For time.Duration
}

// Limits of a plan.
const (
	MaxRate     = 1e8                  // requests per second
	MaxDuration = 366 * 24 * time.Hour // of a whole plan
)

// Due is how many requests the phase has on average; +Inf without an end.
func (p Phase) Due() float64 {
	if p.For == 0 {
		if p.From == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return (p.From + p.To) / 2 * p.For.Seconds()
}

// Validate says what is wrong with the plan.
func (p *Plan) Validate() error {
	if int(p.Arrivals) >= len(arrivals) {
		return fmt.Errorf("unknown arrivals %d", p.Arrivals)
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

// Duration is how long the plan takes; 0 if it has no end of its own.
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

// Requests is how many requests are due, at most: exactly of Even, and beyond
// which Poisson comes less than once in 10^9 runs. ok is false if the plan does
// not say, as one without an end, Closed or Recorded.
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

// Rate is the mean rate of the whole plan, requests per second; NaN of a Closed
// or Recorded one.
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

// PhaseAt is the phase that d from the start lies in; after the end the last,
// and 0 if there is none.
func (p *Plan) PhaseAt(d time.Duration) int {
	for i, ph := range p.Phases {
		if d -= ph.For; d < 0 || ph.For == 0 {
			return i
		}
	}
	return max(len(p.Phases)-1, 0)
}

// roundNearInteger rounds what differs from an integer by rounding only, so that
// 0.1/s for 30 s is 3 requests and not one more at the very end.
func roundNearInteger(x float64) float64 {
	if n := math.Round(x); math.Abs(x-n) <= 1e-14*max(1, n) {
		return n
	}
	return x
}

// PlanPacer is the schedule of one loop. It allocates nothing, and is not safe
// for concurrent use.
type PlanPacer struct {
	pieces   []piece
	at       int
	arrivals Arrivals
	next     float64 // Λ at the next request
	k        uint64  // number of the next request, of all loops
	skip     uint64  // how many requests others send between two of this loop
	rng      *rand.Rand
}

// piece is a phase as the pacer sees it.
type piece struct {
	begin, end float64       // Λ at its ends
	start      time.Duration // of the phase
	length     time.Duration
	from       float64 // rate at its start
	slope      float64 // requests per second, per second
}

// Pacer makes the schedule of one loop of loops, which takes every loops-th
// request beginning with the loop-th, from 0: together they are the plan
// exactly, whatever its law. A Closed or Recorded plan has none.
func (p *Plan) Pacer(loop, loops int) (*PlanPacer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Arrivals >= Closed {
		return nil, fmt.Errorf("arrivals %s have no schedule", p.Arrivals)
	}
	if loop < 0 || loop >= loops {
		return nil, fmt.Errorf("loop %d of %d", loop, loops)
	}
	pc := &PlanPacer{arrivals: p.Arrivals, k: uint64(loop), skip: uint64(loops), rng: rand.New(rand.NewPCG(p.Seed, 0x5ced01e))}
	whole, start := 0.0, time.Duration(0)
	for _, ph := range p.Phases {
		pi := piece{begin: whole, start: start, length: ph.For, from: ph.From}
		whole = roundNearInteger(whole + ph.Due())
		pi.end = whole
		if ph.For > 0 {
			pi.slope = (ph.To - ph.From) / ph.For.Seconds()
		}
		start += ph.For
		pc.pieces = append(pc.pieces, pi)
	}
	if p.Arrivals == Poisson {
		pc.advance(loop + 1)
	}
	return pc, nil
}

// advance adds n gaps. Every loop draws all gaps, so that the whole schedule is
// the same over any number of loops.
func (p *PlanPacer) advance(n int) {
	for range n {
		p.next += p.rng.ExpFloat64()
	}
}

// Next returns when the loop's next request is due, from the start of the run,
// and in which phase; it never decreases. ok is false at the end of the plan.
func (p *PlanPacer) Next() (due time.Duration, phase int, ok bool) {
	x := p.next
	if p.arrivals == Even {
		x = float64(p.k)
	}
	for p.at < len(p.pieces) && x >= p.pieces[p.at].end {
		p.at++
	}
	if p.at == len(p.pieces) {
		return 0, 0, false
	}
	if p.arrivals == Even {
		p.k += p.skip
	} else {
		p.advance(int(p.skip))
	}
	return p.pieces[p.at].when(x), p.at, true
}

// when is the time at which Λ reaches x, begin <= x < end.
func (pi *piece) when(x float64) time.Duration {
	x -= pi.begin
	if x <= 0 && pi.from > 0 {
		return pi.start
	}
	// x = from·t + slope·t²/2, solved so that nothing cancels; a falling rate makes
	// the root 0 at worst.
	t := 2 * x / (pi.from + math.Sqrt(max(pi.from*pi.from+2*pi.slope*x, 0)))
	if math.IsNaN(t) { // 0/0: the start of a rate that rises from 0
		t = 0
	}
	d := seconds(t)
	if pi.length > 0 {
		d = min(d, pi.length-1) // rounding must not leave the phase
	}
	return pi.start + d
}
