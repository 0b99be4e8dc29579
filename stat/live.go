package stat

import "math"

// Live makes intervals that hold at every look: the probability that any of them, from
// the first to the last, excludes the true effect is at most 1−Level.
//
// It is Robbins' normal mixture (1970, Ann. Math. Statist. 41) as an asymptotic
// confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, Ann. Statist.
// 52, theorem 2.2), in units of the figure's standard error, which respects dependence.
// Information grows as 1/(1/slotsA + 1/slotsB), so it covers a complete side beside one
// that still grows: their difference is a Brownian motion seen backwards. For few
// cosines it takes Student's t at the normal bound's tail probability.
type Live struct {
	// Slots is the number of slots a side at which intervals are tightest; default 360,
	// an hour of 10 s. It must not be chosen from the data.
	Slots int
	// Fixed is the number of slots of side A if it is complete, 0 if it grows
	// with B.
	Fixed int
	// Share, if not 0, is the part of the error that this look has: looks are then few, at
	// times that were fixed before, and their shares add up to 1 at most. It takes the
	// place of Slots and Fixed. No sequence of intervals that holds at any time is as
	// narrow at the looks that have much of the error.
	Share float64
}

// information returns the information in slots a side: half the harmonic mean of the
// two, doubled.
func information(a, b int) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return 2 / (1/float64(a) + 1/float64(b))
}

// tightest is the information, in units of the mixture's variance, at which the
// width is least.
const tightest = 8.22

// mixing returns the variance of the mixture in units of information. The width at
// information v is least if v/mixing = x solves x = ln(1+x) − 2 ln α (Howard, Ramdas,
// McAuliffe & Sekhon 2021, Ann. Statist. 49, section 3.5); the level matters little, so
// it is solved for 0.05.
func (l *Live) mixing() float64 {
	slots := l.Slots
	if slots <= 0 {
		slots = 360
	}
	best := information(slots, slots)
	if l.Fixed > 0 {
		best = information(l.Fixed, slots)
	}
	return best / tightest
}

// critical returns the bound in standard errors.
func (l *Live) critical(alpha, df float64, slotsA, slotsB int) float64 {
	if l.Share > 0 {
		return critical(alpha*l.Share/2, df)
	}
	r := l.mixing() / information(slotsA, slotsB)
	return critical(beyondLive(alpha, r), df)
}

// beyond returns the probability beyond the bound, to one side, where it is least.
func (l *Live) beyond(alpha float64) float64 {
	if l.Share > 0 {
		return alpha * l.Share / 2
	}
	return beyondLive(alpha, 1/tightest)
}

// beyondLive returns the probability beyond the bound, to one side, if the mixture's
// variance is r times the information.
func beyondLive(alpha, r float64) float64 {
	normal := math.Sqrt((1 + r) * (math.Log1p(1/r) - 2*math.Log(alpha)))
	return max(math.SmallestNonzeroFloat64, 0.5*math.Erfc(normal/math.Sqrt2))
}

// probability returns the least alpha whose bound a statistic reaches, at most 1.
func (l *Live) probability(t, df float64, slotsA, slotsB int) float64 {
	p := tail(t, df)
	if l.Share > 0 {
		return min(1, 2*p/l.Share)
	}
	r := l.mixing() / information(slotsA, slotsB)
	if p <= 0 {
		return 0
	}
	normal := math.Sqrt2 * math.Erfcinv(min(1, 2*p))
	return min(1, math.Exp((math.Log1p(1/r)-normal*normal/(1+r))/2))
}
