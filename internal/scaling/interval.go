package scaling

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// span is what an interval has covered so far.
type span struct{ low, high float64 }

func (s *span) add(v float64) {
	s.low, s.high = min(s.low, v), max(s.high, v)
}

// addFigures widens all spans by p. A figure that does not exist there lies beyond
// all bounds: the peak of a law without κ is at infinity.
func addFigures(spans *[figures]span, p params) {
	for i := range spans {
		v := p.figure(i)
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		spans[i].add(v)
	}
}

const (
	directions = 360
	radii      = 12
)

// profile returns the profile-likelihood intervals: the least and the most that each
// figure reaches among all coefficients whose sum of squares is at most that of the
// best by s²·t² (Bates & Watts 1988, section 6.1). The region is walked from the best
// fit in all directions of the plane of σ and κ, in units of the fit's own
// ellipse, as far as the bounds allow; at each σ and κ the λ that stay within it
// are known exactly.
func (d data) profile(best fitted, level float64) [figures]span {
	df := float64(len(d.n) - 3)
	t := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(1 - (1-level)/2)
	limit := best.sse + best.sse/df*t*t
	var spans [figures]span
	for i := range spans {
		spans[i] = span{math.Inf(1), math.Inf(-1)}
	}
	addFigures(&spans, best.params)
	visit := func(s, k float64) {
		l, sse, curve := d.best(s, k)
		if sse > limit {
			return
		}
		half := math.Sqrt((limit - sse) / curve)
		for _, l := range []float64{l - half, l, l + half} {
			addFigures(&spans, params{l, s, k})
		}
	}
	inside := func(s, k float64) bool {
		if s < 0 || s > 1 || k < 0 {
			return false
		}
		_, sse, _ := d.best(s, k)
		return sse <= limit
	}
	across, along := d.ellipse(best, limit-best.sse)
	for i := range directions {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / directions)
		ds, dk := cos*across[0]+sin*along[0], cos*across[1]+sin*along[1]
		at := func(r float64) (s, k float64) { return best.params[sigma] + r*ds, best.params[kappa] + r*dk }
		near, far := 0.0, 1.0
		for far < 1e6 && inside(at(far)) {
			near, far = far, far*2
		}
		for range 40 {
			if mid := (near + far) / 2; inside(at(mid)) {
				near = mid
			} else {
				far = mid
			}
		}
		for j := 1; j <= radii; j++ {
			s, k := at(near * float64(j) / radii)
			// What bisection leaves of the way to a bound is rounding.
			visit(snap(s, ds), snap(k, dk))
		}
	}
	return spans
}

// snap returns 0 for a value that is 0 but for the rounding of a step.
func snap(v, step float64) float64 {
	if math.Abs(v) < 1e-9*math.Abs(step) {
		return 0
	}
	return v
}

// ellipse returns two conjugate half axes, in σ and κ, of the ellipse in which the
// sum of squares grows by rise, λ following: the Cholesky factor of the inverse of
// the projected curvature.
func (d data) ellipse(best fitted, rise float64) (across, along [2]float64) {
	a, _ := d.normal(best.params, [3]bool{true, true, true})
	// Curvature of σ and κ with λ projected out.
	var h [2][2]float64
	for i := range 2 {
		for j := range 2 {
			h[i][j] = a[i+1][j+1] - a[i+1][0]*a[0][j+1]/a[0][0]
		}
	}
	rise = max(rise, 1e-18*(1+best.sse))
	det := h[0][0]*h[1][1] - h[0][1]*h[1][0]
	if !(h[0][0] > 0) || !(h[1][1] > 0) || !(det > 1e-14*h[0][0]*h[1][1]) {
		// Data that hardly tell σ from κ: the two axes themselves.
		return [2]float64{math.Sqrt(rise / max(h[0][0], 1e-300)), 0}, [2]float64{0, math.Sqrt(rise / max(h[1][1], 1e-300))}
	}
	v00, v01, v11 := h[1][1]/det*rise, -h[0][1]/det*rise, h[0][0]/det*rise
	c00 := math.Sqrt(v00)
	c10 := v01 / c00
	return [2]float64{c00, c10}, [2]float64{0, math.Sqrt(max(0, v11-c10*c10))}
}

// bootstrap returns percentile intervals over fits to blocks of neighbouring points,
// drawn with replacement until there are as many as before (Künsch 1989), on a
// circle so that every point is as likely (Politis & Romano 1992). Percentiles are
// taken further out the fewer the blocks, as intervals of the t distribution are wider
// than those of the normal one (Hesterberg 2015, Am. Statist. 69, the expanded
// percentile interval).
func (d data) bootstrap(best fitted, o Options) [figures]span {
	random := rand.New(rand.NewPCG(o.Seed, 0x5ca1ab1e))
	count := len(d.n)
	block := min(o.Block, max(1, count/4))
	values := make([][]float64, figures)
	for range o.Resamples {
		var again data
		for len(again.n) < count {
			at := random.IntN(count)
			for j := range min(block, count-len(again.n)) {
				again.n = append(again.n, d.n[(at+j)%count])
				again.x = append(again.x, d.x[(at+j)%count])
			}
		}
		f := again.fit(best.params)
		if math.IsInf(f.sse, 1) {
			continue
		}
		for i := range values {
			v := f.figure(i)
			if math.IsNaN(v) {
				v = math.Inf(1)
			}
			values[i] = append(values[i], v)
		}
	}
	blocks := max(2, float64(count)/float64(block))
	far := distuv.StudentsT{Sigma: 1, Nu: max(1, blocks-3)}.Quantile(1-(1-o.Level)/2) * math.Sqrt(blocks/max(1, blocks-3))
	tail := distuv.UnitNormal.CDF(-far)
	var spans [figures]span
	for i, v := range values {
		if len(v) == 0 {
			spans[i] = span{math.NaN(), math.NaN()}
			continue
		}
		slices.Sort(v)
		spans[i] = span{v[int(tail*float64(len(v)))], v[min(len(v)-1, int((1-tail)*float64(len(v))))]}
	}
	return spans
}
