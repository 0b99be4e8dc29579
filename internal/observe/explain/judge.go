package explain

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/stat"
)

// fewestSlots is the least number of slots for measuring the variance of shares, as in
// package stat.
const fewestSlots = 20

// effect is the difference of a share inside from that outside.
type effect struct {
	in, out   float64 // shares
	size      float64 // in − out
	low, high float64
	p         float64 // of an effect as far from 0 without a difference; 1 if it is unknown
	ok        bool    // there is an interval
}

// compare compares the share that part has of whole inside with that outside. The first
// window slots are of the rectangle's time, where inside and outside were measured
// together.
//
// A slot's influence on the difference is what it adds to either share beyond its part.
// The variance of their sum is measured separately for the rectangle's time and for the
// rest, since the rectangle's influence is far greater; Welch's formula combines both. A
// short time shows little of how shares wander, so its variance is at least what it
// would be if a slot's observations were as alike as they are in the rest: by the design
// effect of clusters, 1+(m−1)ρ (Kish 1965, Survey Sampling, 5.4). With few slots that is
// the only evidence.
func compare(whole, part *counts) effect {
	wi, wo := whole.inside(), whole.outside()
	pi, po := part.inside(), part.outside()
	e := effect{in: pi / wi, out: po / wo, p: 1, low: math.Inf(-1), high: math.Inf(1)}
	e.size = e.in - e.out
	if wi == 0 || wo == 0 {
		e.size = math.NaN()
		return e
	}
	window := len(whole.in)
	influence := make([]float64, len(whole.all))
	for t := range influence {
		allOut, partOut := whole.all[t], part.all[t]
		if t < window {
			allOut, partOut = allOut-whole.in[t], partOut-part.in[t]
			influence[t] = (part.in[t] - e.in*whole.in[t]) / wi
		}
		influence[t] -= (partOut - e.out*allOut) / wo
	}
	mine, rest := centre(influence[:window]), centre(influence[window:])
	switch {
	case len(rest) >= fewestSlots:
		vr, dfr := ownVariance(rest)
		v, df := e.clustered(whole, part, vr), dfr
		if len(mine) >= fewestSlots {
			if vm, dfm := ownVariance(mine); !(v > vm) {
				v, df = vm, dfm
			}
		}
		e.setInterval(v+vr, sq(v+vr)/(sq(v)/df+sq(vr)/dfr))
	case len(mine) >= fewestSlots:
		e.setInterval(ownVariance(append(mine, rest...)))
	}
	return e
}

// ownVariance returns the variance of the sum of influences that are all of one sequence, with
// its degrees of freedom.
func ownVariance(x []float64) (variance, df float64) {
	c, err := stat.Ratios(mean(make([]float64, len(x)), 0), mean(x, 0), nil, stat.Difference, stat.Options{Level: level, Paired: true})
	if err == nil && c.Short == "" {
		return c.SE * c.SE, c.DF
	}
	return lowestVariance(x), cosines
}

// cosines is the number of frequencies used where slots depend on each other so much
// that package stat gives no more: shares that began and ended within the range look
// like that.
const cosines = 8

// lowestVariance returns the long-run variance of the sum of x at its lowest frequencies,
// equally weighted, with as many degrees of freedom as cosines (Lazarus, Lewis, Stock &
// Watson 2018, JBES 36).
func lowestVariance(x []float64) float64 {
	n, power := float64(len(x)), 0.0
	for j := range cosines {
		c := 0.0
		for t, v := range x {
			c += v * math.Cos(math.Pi*float64(j+1)*(float64(t)+0.5)/n)
		}
		power += 2 * c * c
	}
	return power / cosines
}

// centre subtracts the mean: the parts of the range may differ in level.
func centre(x []float64) []float64 {
	out := make([]float64, len(x))
	m := sum(x) / float64(max(1, len(x)))
	for i, v := range x {
		out[i] = v - m
	}
	return out
}

// mean returns influences as the mean of so many slots, about at.
func mean(x []float64, at float64) []stat.Tally {
	t := stat.Tally{Num: make([]float64, len(x)), Den: make([]float64, len(x))}
	for i, v := range x {
		t.Num[i], t.Den[i] = float64(len(x))*v+at, 1
	}
	return []stat.Tally{t}
}

// setInterval computes Student's interval.
func (e *effect) setInterval(variance, df float64) {
	e.ok = true
	if !(variance > 0) { // all slots are alike
		if e.low, e.high, e.p = e.size, e.size, 0; e.size == 0 {
			e.p = 1
		}
		return
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	se := math.Sqrt(variance)
	reach := -t.Quantile((1-level)/2) * se
	e.low, e.high, e.p = max(-1, e.size-reach), min(1, e.size+reach), 2*t.CDF(-math.Abs(e.size)/se)
}

// clustered returns the variance of what the rectangle's time adds, estimated from the
// rest; variance is that of the rest's influences.
func (e *effect) clustered(whole, part *counts, variance float64) float64 {
	window := len(whole.in)
	rest := sum(whole.all[window:])
	wi, wo := whole.inside(), whole.outside()
	binomial := e.out * (1 - e.out)
	alike := 0.0 // ρ
	if each := rest / float64(len(whole.all)-window); each > 1 && binomial > 0 {
		alike = min(1, max(0, (variance/(binomial*rest/(wo*wo))-1)/(each-1)))
	}
	occupied := 0
	for _, v := range whole.in {
		if v > 0 {
			occupied++
		}
	}
	inflation := func(n float64, slots int) float64 { return 1 + alike*max(0, n/float64(max(1, slots))-1) }
	share := (part.inside() + 2) / (wi + 4) // Agresti & Coull (1998), American Statistician 52
	outside := sum(whole.all[:window]) - wi
	return inflation(wi, occupied)*share*(1-share)/wi + inflation(outside, window)*binomial*outside/sq(wo)
}

func sq(v float64) float64 { return v * v }

// score returns the distance of the shares in standard errors, as if observations were
// independent: a first filter, by sums alone.
func score(wholeIn, wholeOut, partIn, partOut float64) float64 {
	pooled := (partIn + partOut) / (wholeIn + wholeOut)
	v := pooled * (1 - pooled) * (1/wholeIn + 1/wholeOut)
	if !(v > 0) {
		return 0
	}
	return (partIn/wholeIn - partOut/wholeOut) / math.Sqrt(v)
}
