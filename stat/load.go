package stat

import "math"

// sureLoad is the least square of the standard normal variable that the correlation of a
// figure with the number of requests comes to before load is taken to explain it.
const sureLoad = 9

// atEqualLoad takes back a change that the load explains: where slots with more requests
// differ as the sides do, and nothing is sure of what is left at equal load. The effect
// is regressed on the logarithm of the slots' numbers of requests, within the sides
// (analysis of covariance; Cochran 1957, Biometrics 13), and what is left is judged as
// any effect is. The interval then reaches from one to the other.
func (c *Change) atEqualLoad(a, b *figure, sp *spectrum, o Options) {
	if !c.moved() || len(a.load) == 0 || len(b.load) == 0 {
		return
	}
	la, meanA := logs(a.load)
	lb, meanB := logs(b.load)
	if la == nil || lb == nil {
		return
	}
	// deviations are those of slots on the effect's scale.
	deviations := func(f *figure, sp *spectrum) []float64 {
		slope := f.slope(sp.cosines(f.influence), c.Cosines) * float64(len(f.influence))
		out := make([]float64, len(f.influence))
		for t, v := range f.influence {
			out[t] = slope * v
		}
		return out
	}
	ya, yb := deviations(a, sp), deviations(b, sp.of(len(b.influence)))
	var xx, xy, yy float64
	for _, side := range []struct{ x, y []float64 }{{la, ya}, {lb, yb}} {
		for t, x := range side.x {
			xx += x * x
			xy += x * side.y[t]
			yy += sq(side.y[t])
		}
	}
	if !(xx > 0 && yy > 0) || math.IsInf(yy, 0) {
		return
	}
	slots := float64(len(la) + len(lb))
	if !(sq(xy)/(xx*yy)*slots/max(1, c.Dependence) > sureLoad) {
		return
	}
	slope := xy / xx
	explained := slope * (meanB - meanA)
	if explained*c.Effect <= 0 {
		return
	}
	rest := func(y, x []float64) *figure {
		f := &figure{outer: func(v float64) float64 { return v }, influence: make([]float64, len(y))}
		for t := range y {
			f.influence[t] = (y[t] - slope*x[t]) / float64(len(y))
		}
		return f
	}
	left := Change{Effect: c.Effect - explained, Level: c.Level}
	fa, fb := rest(ya, la), rest(yb, lb)
	fb.at = left.Effect
	left.apart(fa, fb, sp, o)
	if left.CI.Contains(0) {
		c.CI = Interval{min(c.CI.Low, left.CI.Low), max(c.CI.High, left.CI.High)}
		c.P, c.Drifts, c.ByLoad = left.P, true, true
	}
}

// moved says that the interval excludes 0.
func (c *Change) moved() bool { return c.CI.Low > 0 || c.CI.High < 0 }

// logs returns the logarithms of the slots' numbers of requests less their mean, and the
// mean; nil if they are all alike. A slot without requests counts as half of one.
func logs(counts []float64) (out []float64, mean float64) {
	out = make([]float64, len(counts))
	alike := true
	for t, n := range counts {
		out[t] = math.Log(max(n, 0.5))
		mean += out[t] / float64(len(counts))
		alike = alike && n == counts[0]
	}
	if alike {
		return nil, mean
	}
	for t := range out {
		out[t] -= mean
	}
	return out, mean
}
