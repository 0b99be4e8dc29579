package stat

import (
	"fmt"
	"math"
)

// minSlots is the least number of slots with observations of a side: with fewer,
// dependence cannot be seen.
const minSlots = 20

// minIndependent is the least number of independent slots with the same information.
const minIndependent = 4

// figure is a figure of one side on the scale on which its interval is computed.
type figure struct {
	value float64 // as reported
	// at is the estimate on the inner scale, and influence each slot's part in its
	// error: estimate − truth ≈ Σ influence.
	at        float64
	influence []float64
	// share reports that at is a share of observations: its interval is Wilson's.
	share bool
	// outer maps a limit from the inner scale to that of the effect.
	outer func(float64) float64

	load []float64 // requests of each slot; nil if they are unknown
	of   *mixture  // the distribution that it is of; nil if there is none

	slots     int
	count     float64
	effective float64 // independent observations that say as much
	err       float64
	short     string
}

// limits returns the interval of the figure on the effect's scale, for a standard error
// on the inner one.
func (f *figure) limits(se, crit float64) (low, high float64) {
	low, high = f.at-crit*se, f.at+crit*se
	switch {
	case f.share && f.at > 0 && f.at < 1 && se > 0:
		low, high = wilson(f.at, f.at*(1-f.at)/(se*se), crit)
	case f.share && f.effective > 0: // slots that all agree have the information of their requests only
		low, high = wilson(f.at, f.effective, crit)
	}
	low, high = f.outer(low), f.outer(high)
	return min(low, high), max(low, high)
}

// wilson returns the score interval of a share of n observations. The interval of none is
// from 0 on, and that of all up to 1, exactly: differences below rounding are none.
func wilson(p, n, crit float64) (low, high float64) {
	c2 := crit * crit
	mid := (p + c2/(2*n)) / (1 + c2/n)
	half := crit / (1 + c2/n) * math.Sqrt(p*(1-p)/n+c2/(4*n*n))
	const rounding = 1e-15
	if low = mid - half; low < rounding {
		low = 0
	}
	if high = mid + half; high > 1-rounding {
		high = 1
	}
	return low, high
}

// judge computes the change of one figure.
func judge(a, b figure, log bool, sp *spectrum, o Options) Change {
	c := Change{
		A: a.value, B: b.value, Log: log, Level: o.level(),
		SlotsA: a.slots, SlotsB: b.slots, CountA: a.count, CountB: b.count, EffectiveA: a.effective, EffectiveB: b.effective,
		ErrorA: a.err, ErrorB: b.err,
		Effect:  b.outer(b.at) - a.outer(a.at),
		options: o, ofB: 1,
		CI: Interval{math.Inf(-1), math.Inf(1)}, SE: math.NaN(), P: 1, Dependence: math.NaN(),
	}
	for _, side := range []struct {
		name string
		f    *figure
	}{{"A", &a}, {"B", &b}} {
		switch {
		case side.f.short != "":
			c.Short = "side " + side.name + ": " + side.f.short
		case side.f.slots < minSlots:
			c.Short = fmt.Sprintf("side %s: %d slots with observations, at least %d are needed", side.name, side.f.slots, minSlots)
		}
		if c.Short != "" {
			c.Effect = math.NaN()
			return c
		}
	}
	switch {
	case o.Blocks != nil:
		c.byBlocks(&a, &b, o)
	case o.Paired:
		c.paired(&a, &b, sp, o)
	default:
		c.apart(&a, &b, sp, o)
	}
	c.doubt(min(len(a.influence), len(b.influence)))
	if o.Blocks == nil && !o.Paired && c.Short == "" {
		c.drift(&a, &b, sp, o)
	}
	return c
}

// doubt records what was too little for an interval from so many slots.
func (c *Change) doubt(slots int) {
	if math.IsNaN(c.Effect) || math.IsInf(c.Effect, 0) {
		c.Effect = math.NaN()
	}
	if n := float64(slots); n < minIndependent*c.Dependence {
		c.CI, c.SE, c.P = Interval{math.Inf(-1), math.Inf(1)}, math.NaN(), 1
		c.Short = fmt.Sprintf("slots depend on each other so much that %.0f say no more than %.1f independent ones; %d are needed",
			n, n/c.Dependence, minIndependent)
	}
	if math.IsInf(c.CI.Low, -1) && math.IsInf(c.CI.High, 1) && c.Short == "" {
		c.Short = "too few observations beyond this figure"
	}
}

// apart compares windows that differ in time.
func (c *Change) apart(a, b *figure, sp *spectrum, o Options) {
	ta, tb := sp.cosines(a.influence), sp.of(len(b.influence)).cosines(b.influence)
	// Both sides are assumed to depend alike, so that the longer one tells how much the
	// shorter one does.
	logs := make([]float64, models)
	other := sp.of(len(tb))
	sp.likelihood(logs, ta)
	other.likelihood(logs, tb)
	weight := posterior(logs)
	fa, fb := sp.under(weight), other.under(weight)
	sa, sb := a.atLeastDrawn(math.Sqrt(fa.covariance(ta, ta))), b.atLeastDrawn(math.Sqrt(fb.covariance(tb, tb)))
	c.Cosines = min(fa.cosines, fb.cosines)
	c.Dependence = (fa.dependence + fb.dependence) / 2
	c.apartBy(a, b, sa, sb, float64(fa.cosines), float64(fb.cosines), len(ta), len(tb), o)
}

// atLeastDrawn returns a standard error, or that of independent requests if it is greater
// and fewer observations than slots lie on the rarer side of the figure. So few scatter too
// little by chance, above all in a short side: p99 of four minutes seemed faster.
func (f *figure) atLeastDrawn(se float64) float64 {
	if !f.share || !(f.effective*min(f.at, 1-f.at) < float64(len(f.influence))) {
		return se
	}
	return max(se, math.Sqrt(f.drawn(1)))
}

// apartBy compares sides of which the standard errors and their degrees of freedom are
// known.
func (c *Change) apartBy(a, b *figure, sa, sb, dfa, dfb float64, slotsA, slotsB int, o Options) {
	// On the effect's scale, for the degrees of freedom.
	va, vb := sq(a.width(sa)), sq(b.width(sb))
	if va+vb > 0 {
		c.ofB = vb / (va + vb)
	}
	c.DF = welch(va, dfa, vb, dfb)
	crit := o.critical(c.DF, slotsA, slotsB)
	c.combine(a, b, sa, sb, crit, slotsA, slotsB, o)
}

// combine combines the intervals of two independent sides into one (Zou & Donner 2008).
func (c *Change) combine(a, b *figure, sa, sb, crit float64, slotsA, slotsB int, o Options) {
	va, vb := a.outer(a.at), b.outer(b.at)
	fa, fb := a.bare(), b.bare()
	c.between(func(crit float64) (below, above float64) {
		al, ah := fa.limits(sa, crit)
		bl, bh := fb.limits(sb, crit)
		return math.Hypot(vb-bl, ah-va), math.Hypot(bh-vb, va-al)
	}, crit, slotsA, slotsB, o)
}

// bare returns what limits needs of a figure, so that a Change does not keep the slots.
func (f *figure) bare() *figure {
	return &figure{at: f.at, share: f.share, effective: f.effective, outer: f.outer}
}

// halves returns how far below and above Effect an interval of so many standard errors
// reaches.
func (c *Change) halves(crit float64) (below, above float64) {
	if c.reach == nil {
		return crit * c.SE, crit * c.SE
	}
	below, above = c.reach(crit)
	for _, half := range []*float64{&below, &above} {
		if math.IsNaN(*half) {
			*half = math.Inf(1)
		}
	}
	return below, above
}

// toward returns how far an interval of so many standard errors reaches toward 0.
func (c *Change) toward(crit float64) float64 {
	below, above := c.halves(crit)
	if c.Effect < 0 {
		return above
	}
	return below
}

// leavesOut returns the probability at which an interval leaves out what lies so far from
// Effect, toward 0. Where the interval of the asked level does, it is that of the widest
// one that does: the ends of a quantile's interval are quantiles themselves, and in a tail
// the upper one goes farther than in proportion to the standard errors. A probability by
// the width of one interval would be too small by far, for p99 of few requests that seems
// faster.
func (c *Change) leavesOut(distance float64) float64 {
	crit := c.crit
	if !(crit > 0) { // not made by a comparison of this package: its standard error is all there is
		return c.options.probability(distance/c.SE, c.DF, c.slotsOf[0], c.slotsOf[1])
	}
	if half := c.toward(crit); half < distance {
		crit = widest(crit, func(crit float64) bool { return c.toward(crit) < distance })
	} else {
		crit *= distance / half
	}
	return c.options.probability(crit, c.DF, c.slotsOf[0], c.slotsOf[1])
}

// widest returns the number of standard errors of the widest interval of which ok is true,
// as it is from one of low, which is above 0, on down.
func widest(low float64, ok func(crit float64) bool) float64 {
	const far = 1e4 // standard errors
	high := 2 * low
	for high < far && ok(high) {
		low, high = high, 2*high
	}
	for high-low > 1e-6*low {
		if mid := (low + high) / 2; ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func welch(va, dfa, vb, dfb float64) float64 {
	if va+vb == 0 || math.IsInf(va+vb, 0) || math.IsNaN(va+vb) {
		return dfa + dfb
	}
	return sq(va+vb) / (va*va/dfa + vb*vb/dfb)
}

// paired compares sides measured in the same slots by the difference of their
// influences, where common movements cancel. The rest is each side's own, and so is its
// interval: for shares and quantiles it is divided as if requests were drawn, which
// matters where one side has few.
func (c *Change) paired(a, b *figure, sp *spectrum, o Options) {
	ta, tb := sp.cosines(a.influence), sp.cosines(b.influence)
	f := sp.fit(ta, tb)
	ka, kb := a.slope(ta, f.cosines), b.slope(tb, f.cosines)
	for j := range tb {
		tb[j] = kb*tb[j] - ka*ta[j]
	}
	f = sp.fit(tb)
	se := math.Sqrt(f.covariance(tb, tb))
	c.Cosines, c.Dependence, c.DF = f.cosines, f.dependence, float64(f.cosines)
	crit := o.critical(c.DF, len(ta), len(ta))
	if !a.share {
		c.between(symmetric(se), crit, len(ta), len(tb), o)
		return
	}
	drawnA, drawnB := a.drawn(ka), b.drawn(kb)
	own := func(k, drawn float64) float64 { // standard error of a side, on its inner scale
		if k == 0 || drawn == 0 {
			return 0
		}
		return se / math.Abs(k) * math.Sqrt(drawn/(drawnA+drawnB))
	}
	if math.IsNaN(se) || math.IsInf(se, 0) {
		c.between(symmetric(se), crit, len(ta), len(tb), o)
		return
	}
	c.combine(a, b, own(ka, drawnA), own(kb, drawnB), crit, len(ta), len(tb), o)
}

// drawn returns the variance that a share would have on the effect's scale if requests
// were independent.
func (f *figure) drawn(slope float64) float64 {
	if !(f.effective > 0) {
		return 0
	}
	return slope * slope * f.at * (1 - f.at) / f.effective
}

// symmetric returns the reach of intervals that reach as far to either side.
func symmetric(se float64) func(crit float64) (below, above float64) {
	return func(crit float64) (below, above float64) { return crit * se, crit * se }
}

// between sets the interval from how far it reaches below and above the effect.
func (c *Change) between(reach func(crit float64) (below, above float64), crit float64, slotsA, slotsB int, o Options) {
	c.reach, c.crit, c.slotsOf, c.options = reach, crit, [2]int{slotsA, slotsB}, o
	below, above := c.halves(crit)
	c.CI = Interval{c.Effect - below, c.Effect + above}
	c.SE = (below + above) / 2 / crit
	switch {
	case math.IsNaN(c.Effect):
		c.CI, c.SE = Interval{math.Inf(-1), math.Inf(1)}, math.NaN()
	case c.Effect == 0:
	default:
		c.P = c.leavesOut(math.Abs(c.Effect))
	}
}

// critical returns how many standard errors the interval reaches to each side.
func (o Options) critical(df float64, slotsA, slotsB int) float64 {
	if o.Live != nil {
		return o.Live.critical(1-o.level(), df, slotsA, slotsB)
	}
	if o.bound > 0 {
		return critical(0.5*math.Erfc(o.bound/math.Sqrt2), df)
	}
	return critical((1-o.level())/2, df)
}

// probability returns that of a statistic as far out, to either side.
func (o Options) probability(t, df float64, slotsA, slotsB int) float64 {
	if o.Live != nil {
		return o.Live.probability(t, df, slotsA, slotsB)
	}
	return 2 * tail(t, df)
}

func (s *spectrum) of(slots int) *spectrum {
	if slots == s.slots {
		return s
	}
	if s.other == nil || s.other.slots != slots {
		s.other = newSpectrum(slots)
	}
	return s.other
}

func sq(v float64) float64 { return v * v }
