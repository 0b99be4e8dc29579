package scaling

import (
	"math"
	"slices"
)

// params are λ, σ and κ.
type params [3]float64

const (
	lambda = iota
	sigma
	kappa
	peakN
	peakRate
	ceiling
	figures
)

// below returns 1 + σ(N−1) + κN(N−1).
func (p params) below(n float64) float64 { return 1 + (n-1)*(p[sigma]+p[kappa]*n) }

func (p params) rate(n float64) float64 { return p[lambda] * n / p.below(n) }

// figure returns a coefficient, or what follows from them; NaN if it does not exist.
func (p params) figure(i int) float64 {
	switch i {
	case peakN:
		if p[kappa] <= 0 {
			return math.NaN()
		}
		return math.Sqrt((1 - p[sigma]) / p[kappa])
	case peakRate:
		if p[kappa] <= 0 {
			return math.NaN()
		}
		return p.rate(math.Sqrt((1 - p[sigma]) / p[kappa]))
	case ceiling:
		if p[sigma] <= 0 {
			return math.NaN()
		}
		return p[lambda] / p[sigma]
	}
	return p[i]
}

// data are concurrencies and rates.
type data struct{ n, x []float64 }

func (d data) lowest() float64  { return slices.Min(d.n) }
func (d data) highest() float64 { return slices.Max(d.n) }

// spread returns the sum of squares of rates about their mean.
func (d data) spread() float64 {
	mean, sum := 0.0, 0.0
	for _, x := range d.x {
		mean += x / float64(len(d.x))
	}
	for _, x := range d.x {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

// sse returns the sum of squared residuals, infinite where the law has a pole among
// the data.
func (d data) sse(p params) float64 {
	sum := 0.0
	for i, n := range d.n {
		b := p.below(n)
		if b <= 0 {
			return math.Inf(1)
		}
		r := d.x[i] - p[lambda]*n/b
		sum += r * r
	}
	return sum
}

// best returns the λ that fits best given σ and κ, its sum of squares, and how fast
// that grows: moving λ by δ adds δ² · curve.
func (d data) best(s, k float64) (l, sse, curve float64) {
	p := params{1, s, k}
	var xy, xx float64
	for i, n := range d.n {
		b := p.below(n)
		if b <= 0 {
			return 0, math.Inf(1), 1
		}
		f := n / b
		xy += f * d.x[i]
		xx += f * f
	}
	p[lambda] = xy / xx
	return p[lambda], d.sse(p), xx
}

// fitted is a least-squares fit. free says which coefficients are not held by a
// bound.
type fitted struct {
	params
	sse  float64
	free [3]bool
}

// fit returns the coefficients of least squares with σ in [0, 1] and κ ≥ 0, found
// from any of starts. Each bound is held or free in turn: the best of those that obey
// all bounds is the constrained optimum.
func (d data) fit(starts ...params) fitted {
	found := fitted{sse: math.Inf(1)}
	for _, held := range []struct {
		sigma, kappa float64 // NaN: free
	}{{math.NaN(), math.NaN()}, {0, math.NaN()}, {math.NaN(), 0}, {0, 0}, {1, math.NaN()}, {1, 0}} {
		f := fitted{free: [3]bool{true, math.IsNaN(held.sigma), math.IsNaN(held.kappa)}}
		for _, start := range starts {
			p := start
			if !f.free[sigma] {
				p[sigma] = held.sigma
			}
			if !f.free[kappa] {
				p[kappa] = held.kappa
			}
			p[lambda], _, _ = d.best(p[sigma], p[kappa])
			p, sse := d.descend(p, f.free)
			if p[sigma] < 0 || p[sigma] > 1 || p[kappa] < 0 || p[lambda] <= 0 {
				continue
			}
			// A bound that is held must win by more than rounding.
			if sse < found.sse*(1-1e-12) {
				found = fitted{p, sse, f.free}
			}
		}
	}
	return found
}

// starts are where descents begin: the law is a parabola in N/X = (1−σ + (σ−κ)N +
// κN²)/λ, whose linear fit is one of them (Gunther's own way), and a mild and a
// strong bend in the range of the data.
func (d data) starts() []params {
	top := d.highest()
	starts := []params{{1, 0.1, 0.1 / (top * top)}, {1, min(0.9, 3/top), 1 / (top * top)}}
	if p, ok := d.parabola(); ok {
		starts = append(starts, p)
	}
	return starts
}

func (d data) parabola() (params, bool) {
	var a [3][3]float64
	var b [3]float64
	for i, n := range d.n {
		if d.x[i] <= 0 {
			continue
		}
		row := [3]float64{1, n, n * n}
		for j := range 3 {
			for k := range 3 {
				a[j][k] += row[j] * row[k]
			}
			b[j] += row[j] * n / d.x[i]
		}
	}
	c, ok := solve(a, b)
	// c = (1−σ, σ−κ, κ)/λ, so their sum is 1/λ.
	l := 1 / (c[0] + c[1] + c[2])
	p := params{l, min(1, max(0, 1-c[0]*l)), max(0, c[2]*l)}
	return p, ok && l > 0 && !math.IsInf(d.sse(p), 0)
}

// descend is the method of Levenberg and Marquardt in the coefficients that are free,
// each in units of its own curvature.
func (d data) descend(p params, free [3]bool) (params, float64) {
	sse := d.sse(p)
	damp := 1e-3
	for range 200 {
		a, b := d.normal(p, free)
		improved := false
		for range 30 {
			damped := a
			for j := range 3 {
				damped[j][j] *= 1 + damp
			}
			step, ok := solve(damped, b)
			if ok {
				next := params{p[0] + step[0], p[1] + step[1], p[2] + step[2]}
				if s := d.sse(next); s <= sse {
					gain := sse - s
					p, sse, improved = next, s, gain > 1e-15*sse
					damp = max(damp/10, 1e-12)
					break
				}
			}
			damp *= 10
		}
		if !improved {
			break
		}
	}
	return p, sse
}

// normal returns the normal equations of the residuals at p. A coefficient that is
// held has a row of its own that says it does not move.
func (d data) normal(p params, free [3]bool) (a [3][3]float64, b [3]float64) {
	for i, n := range d.n {
		below := p.below(n)
		f := n / below
		slope := -p[lambda] * f / below * (n - 1)
		row := [3]float64{f, slope, slope * n}
		r := d.x[i] - p[lambda]*f
		for j := range 3 {
			if !free[j] {
				continue
			}
			for k := range 3 {
				if free[k] {
					a[j][k] += row[j] * row[k]
				}
			}
			b[j] += row[j] * r
		}
	}
	for j := range 3 {
		if a[j][j] == 0 {
			a[j][j] = 1
		}
	}
	return a, b
}

// solve returns the solution of three symmetric positive equations, scaled to a unit
// diagonal first, as the coefficients differ by orders of magnitude.
func solve(a [3][3]float64, b [3]float64) (x [3]float64, ok bool) {
	var scale [3]float64
	for j := range 3 {
		if !(a[j][j] > 0) {
			return x, false
		}
		scale[j] = 1 / math.Sqrt(a[j][j])
	}
	for j := range 3 {
		for k := range 3 {
			a[j][k] *= scale[j] * scale[k]
		}
		b[j] *= scale[j]
	}
	// Cholesky: a = c·cᵀ.
	var c [3][3]float64
	for j := range 3 {
		for k := 0; k <= j; k++ {
			sum := a[j][k]
			for m := range k {
				sum -= c[j][m] * c[k][m]
			}
			if j == k {
				if sum <= 1e-18 {
					return x, false
				}
				c[j][j] = math.Sqrt(sum)
			} else {
				c[j][k] = sum / c[k][k]
			}
		}
	}
	for j := range 3 {
		for m := range j {
			b[j] -= c[j][m] * b[m]
		}
		b[j] /= c[j][j]
	}
	for j := 2; j >= 0; j-- {
		for m := j + 1; m < 3; m++ {
			b[j] -= c[m][j] * b[m]
		}
		b[j] /= c[j][j]
		x[j] = b[j] * scale[j]
	}
	return x, true
}
