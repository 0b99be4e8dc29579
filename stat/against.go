package stat

import (
	"fmt"
	"math"
)

// QuantilesAgainst compares the p-quantiles of one side with a number above 0,
// by their log ratio: side A of a Change is that number, and exact. Strata, mix
// and intervals are those of Quantiles. It is for figures that have a natural
// middle of their own, such as the ratio of two durations of one request, whose
// median is 1 where both servers are alike: (X, Y) then is as likely as (Y, X),
// so ln(X/Y) lies evenly about 0 (Hollander, Wolfe & Chicken 2014, Nonparametric
// Statistical Methods, chapter 3, of paired replicates).
func QuantilesAgainst(value float64, b Side, ps []float64, mix []float64, o Options) ([]Change, error) {
	if !(value > 0) || math.IsInf(value, 1) {
		return nil, invalidf("quantiles against %v, want a number above 0", value)
	}
	o.Paired = false
	if err := checkSides(b, b, mix, o); err != nil {
		return nil, err
	}
	if err := checkQuantiles(ps); err != nil {
		return nil, err
	}
	sp := newSpectrum(b.slots())
	out := make([]Change, len(ps))
	for i, f := range b.quantiles(ps, mix) {
		out[i] = f.against(value, sp, o)
	}
	return out, nil
}

// against returns the distance of a figure from a number, whose logarithm is on the
// figure's outer scale.
func (f *figure) against(value float64, sp *spectrum, o Options) Change {
	n, at := len(f.influence), f.outer(f.at)
	c := Change{
		A: value, B: f.value, Log: true, Level: o.level(), Effect: at - math.Log(value),
		SlotsA: f.slots, SlotsB: f.slots, CountA: f.count, CountB: f.count, EffectiveA: f.effective, EffectiveB: f.effective, ErrorB: f.err,
		options: o, ofB: 1, CI: Interval{math.Inf(-1), math.Inf(1)}, SE: math.NaN(), P: 1, Dependence: math.NaN(), Short: f.short,
	}
	if c.Short == "" && f.slots < minSlots {
		c.Short = fmt.Sprintf("%d slots with observations, at least %d are needed", f.slots, minSlots)
	}
	if c.Short != "" {
		c.Effect = math.NaN()
		return c
	}
	t := sp.cosines(f.influence)
	found := sp.fit(t)
	c.Cosines, c.Dependence, c.DF = found.cosines, found.dependence, float64(found.cosines)
	crit := o.critical(c.DF, n, n)
	bare, se := f.bare(), math.Sqrt(found.covariance(t, t))
	c.between(func(crit float64) (below, above float64) {
		low, high := bare.limits(se, crit)
		return at - low, high - at
	}, crit, n, n, o)
	c.doubt(n)
	return c
}
