package stat

import "math"

// Verdict is the conclusion from an interval.
type Verdict int

const (
	TooLittle  Verdict = iota // there is no interval
	NoEvidence                // neither of a change nor of sameness
	Same                      // within the margin
	Less                      // B is below A
	More                      // B is above A
	Drifts                    // they differ, as slots may do by themselves
)

func (v Verdict) String() string {
	return [...]string{"too little data", "no evidence", "same", "less", "more", "drifts"}[v]
}

// Verdict returns Same if the interval lies within the margin, else, if it excludes 0,
// Drifts where the change may be the slots' own, Less, or More; else NoEvidence. A margin
// of 0 never gives Same. See Within for the size of a margin.
func (c *Change) Verdict(margin float64) Verdict {
	switch {
	case c.Short != "":
		return TooLittle
	case margin > 0 && c.inside(margin):
		return Same
	case c.Drifts:
		return Drifts
	case c.CI.High < 0:
		return Less
	case c.CI.Low > 0:
		return More
	}
	return NoEvidence
}

// inside says that the interval lies within a margin of 0.
func (c *Change) inside(margin float64) bool {
	if c.Log {
		margin = math.Log1p(margin)
	}
	return c.CI.Low >= -margin && c.CI.High <= margin
}

// Within returns the probability of data that look as much the same if the two sides
// differed by the margin or more: two one-sided tests (Schuirmann 1987, J. Pharmacokin.
// Biopharm. 15). A margin of 0.05 is a ratio from 1/1.05 to 1.05 if Log is set, and a
// difference of 0.05 otherwise. It is below 0.05 exactly when the 90 % interval lies
// within. For a Live change it is 0 if the interval lies within, else 1: no smaller
// probability holds at every look.
func (c *Change) Within(margin float64) float64 {
	switch {
	case c.Short != "" || math.IsNaN(c.Effect) || math.IsNaN(c.SE) || math.IsInf(c.SE, 0) || !(margin > 0):
		return 1
	case c.options.Live != nil:
		if c.inside(margin) {
			return 0
		}
		return 1
	}
	if c.Log {
		margin = math.Log1p(margin)
	}
	inside := func(crit float64) bool {
		below, above := c.halves(crit)
		return c.Effect-below >= -margin && c.Effect+above <= margin
	}
	const least = 1e-3 // standard errors
	if inside(least) {
		return tail(widest(least, inside), c.DF)
	}
	if c.SE == 0 {
		return 1
	}
	return tail((margin-math.Abs(c.Effect))/c.SE, c.DF)
}

// Beyond returns the probability of an effect as large, to either side, if the true one
// were no larger than margin, which is on the scale of Effect: ln 1.05 for a ratio of
// 1.05. A margin of 0 gives P. It is below 1−Level when the interval lies beyond the
// margin, wholly on one side.
func (c *Change) Beyond(margin float64) float64 {
	size := math.Abs(c.Effect)
	switch {
	case c.Short != "" || !(margin >= 0) || !(size > margin):
		return 1
	case margin == 0:
		return c.P
	}
	return max(c.P, c.leavesOut(size-margin))
}

// Detectable returns the least effect, on the scale of Effect, that data like these
// would have shown with the given probability (power).
func (c *Change) Detectable(power float64) float64 {
	if c.Short != "" || !(power > 0 && power < 1) {
		return math.Inf(1)
	}
	return c.SE * (critical(c.beyond(), c.DF) + reach(power, c.DF))
}

// beyond returns the probability beyond either end of the interval; of a Live change,
// that where the interval is tightest.
func (c *Change) beyond() float64 {
	if c.options.Live == nil {
		return (1 - c.Level) / 2
	}
	return c.options.Live.beyond(1 - c.Level)
}

// reach returns how many standard errors beyond the bound an effect must lie to be found
// with a probability.
func reach(power, df float64) float64 {
	if power < 0.5 {
		return -criticalAbout(power, df)
	}
	return criticalAbout(1-power, df)
}

// Needed is the amount of data, in multiples of the present amount, that finds an effect
// with a probability. At 1 or less there is enough; at +Inf no amount suffices.
type Needed struct {
	Both float64 // if both sides grow
	B    float64 // if B grows alone, as after a mark
	// Slots is the number of slots of each side, if both become equally long; NaN of paired sides and
	// of blocks, which grow together.
	Slots float64
}

// Needed returns the data needed for an effect on the scale of Effect; for a ratio of
// 1.05 that is ln 1.05. Variances fall as the inverse of the time, degrees of freedom
// grow with it; the power is that of a shifted t, as in Welch's test.
func (c *Change) Needed(effect, power float64) Needed {
	effect = math.Abs(effect)
	beyond := c.beyond()
	if c.Short != "" || !(effect > 0) || !(power > 0 && power < 1) || math.IsNaN(c.SE) || math.IsInf(c.SE, 0) {
		return Needed{math.Inf(1), math.Inf(1), math.NaN()}
	}
	// An amount gives degrees of freedom, and those the sufficient amount: less, the
	// more there are. So the amount sought lies between any amount and the one
	// sufficient for it.
	enough := func(times func(variance float64) float64) float64 {
		const least, most = 1e-3, 1e6
		does := func(n float64) float64 {
			df := c.DF * max(1, n)
			return times(sq(effect / (criticalAbout(beyond, df) + reach(power, df))))
		}
		low, high := least, most
		if does(low) <= low {
			return low
		}
		if does(high) > high {
			return math.Inf(1)
		}
		for mid := does(high); high/low > 1.001; mid = math.Sqrt(low * high) {
			mid = min(high, max(low, mid))
			if n := does(mid); n <= mid {
				low, high = max(low, n), mid
			} else {
				low, high = mid, min(high, n)
			}
		}
		return high
	}
	v := c.SE * c.SE
	// The variance that a slot of either side gives, and so the length that the present one
	// has in both sides of one length: a side of few slots has most of it.
	each, slots := v*(1-c.ofB)*float64(c.slotsOf[0])+v*c.ofB*float64(c.slotsOf[1]), math.NaN()
	if !c.options.Paired && c.options.Blocks == nil && each > 0 {
		present := each / v
		slots = present * enough(func(variance float64) float64 { return each / present / variance })
	}
	return Needed{
		Slots: slots,
		Both:  enough(func(variance float64) float64 { return v / variance }),
		B: enough(func(variance float64) float64 {
			if rest := variance - v*(1-c.ofB); rest > 0 {
				return v * c.ofB / rest
			}
			return math.Inf(1)
		}),
	}
}
