package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

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
	grid       time.Duration
}

// Pacer returns the schedule of one of loops loops, counted from 0. It takes every
// loops-th request, beginning with the loop-th, so that the loops together follow the
// plan exactly, whatever its law. A Closed or Recorded plan has none.
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
		pi := piece{begin: whole, start: start, length: ph.For, from: ph.From, grid: p.grid(ph)}
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

// when returns the time at which Λ reaches x, begin <= x < end.
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
	if pi.grid > 0 {
		d += (pi.grid - 1) / 2 // to the nearest multiple, halves down
		d -= d % pi.grid
	}
	if pi.length > 0 {
		d = min(d, pi.length-1) // rounding must not leave the phase
	}
	return pi.start + d
}
