package stat

import (
	"math"
	"slices"
)

// element is a part of a view's course beside its mean: a step at a slot, or a bend, a
// change of slope that begins there. A bend at slot 0 is a slope of the whole stretch.
type element struct {
	at   int
	bend bool
}

// value returns an element at slot t, for a stretch of n slots.
func (e element) value(t, n int) float64 {
	switch {
	case t < e.at:
		return 0
	case e.bend:
		return float64(t-e.at) / float64(n)
	}
	return 1
}

// column returns the cosines of an element as a view sees it, without its mean.
func (c *changeSearch) column(k int, e element) []float64 {
	w := c.views[k].w
	mean := 0.0
	for t, v := range w {
		mean += v * e.value(t, c.n)
	}
	mean /= c.sumW[k][c.n]
	col := make([]float64, c.n)
	for t, v := range w {
		col[t] = v * (e.value(t, c.n) - mean)
	}
	return c.sp.cosines(col)
}

// course is the fit of some elements to a view. A local one is by generalised least
// squares under each of the models of noise: a step amid drift is judged by what lies
// just beside it. Else it is by the means between elements.
type course struct {
	noise
	columns [][]float64 // cosines of the view, then of the elements
	model   int         // the likeliest
	inverse [][]float64 // of the elements' products, under that model
	effects []float64   // of the elements, under that model
	unit    float64     // the variance of that model
}

// fit fits elements to view k; with sums it keeps the variance of sums as well.
func (c *changeSearch) fit(k int, elements []element, sums bool) course {
	var out course
	if c.views[k].local {
		if c.base[k] == nil {
			c.base[k] = c.sp.cosines(c.views[k].x)
		}
		out.columns = append(out.columns, c.base[k])
		for _, e := range elements {
			out.columns = append(out.columns, c.column(k, e))
		}
	} else {
		out.columns = append(out.columns, c.sp.cosines(c.apart(k, elements)))
	}
	size := len(out.columns)
	bins := len(c.sp.edges) - 1
	products := make([]float64, size*size*bins)
	whole := 0.0
	for b := range bins {
		from, to := c.sp.edges[b], c.sp.edges[b+1]
		for i, x := range out.columns {
			for j, y := range out.columns[:i+1] {
				sum := 0.0
				for f := from; f < to; f++ {
					sum += x[f] * y[f]
				}
				products[(i*size+j)*bins+b] = sum
				if i == 0 {
					whole += sum
				}
			}
		}
	}
	if !(whole > 1e-12) {
		out.noise = noise{evidence: math.Inf(1), sum: make([]float64, c.n+1)}
		return out
	}
	under := func(i int) (q float64, inverse [][]float64, effects []float64) {
		m := make([][]float64, size)
		for r := range m {
			m[r] = make([]float64, size)
			for j := range r + 1 {
				sum := 0.0
				for b, p := range c.sp.power[i] {
					sum += products[(r*size+j)*bins+b] / p
				}
				m[r][j], m[j][r] = sum, sum
			}
		}
		if q = m[0][0]; size == 1 {
			return q, nil, nil
		}
		inverse = inverted(m)
		effects = make([]float64, size-1)
		for r := range effects {
			for j := range effects {
				effects[r] += inverse[r][j] * m[j+1][0]
			}
			q -= effects[r] * m[r+1][0]
		}
		return max(q, 1e-12*m[0][0]), inverse, effects
	}
	logs, unit := make([]float64, models), make([]float64, models)
	m := float64(c.n - 1)
	for i := range c.sp.power {
		q, _, _ := under(i)
		unit[i] = q / m
		logs[i] = -0.5 * (m*math.Log(q) + c.sp.logs[i])
		if logs[i] > logs[out.model] {
			out.model = i
		}
	}
	_, out.inverse, out.effects = under(out.model)
	out.unit = unit[out.model]
	out.noise = c.averaged(logs, unit, sums)
	return out
}

// apart returns what a view has beyond its means between elements.
func (c *changeSearch) apart(k int, elements []element) []float64 {
	v, bounds := &c.views[k], c.boundsOf(elements)
	out := make([]float64, c.n)
	for i := 1; i < len(bounds); i++ {
		level := c.level(k, bounds[i-1], bounds[i])
		for t := bounds[i-1]; t < bounds[i]; t++ {
			out[t] = v.x[t] - v.w[t]*level
		}
	}
	return out
}

// inverted returns the inverse of a symmetric matrix without its first row and column; a
// row that depends on those before it is left out.
func inverted(m [][]float64) [][]float64 {
	n := len(m) - 1
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, 2*n)
		copy(a[i], m[i+1][1:])
		a[i][n+i] = 1
	}
	for i := range a {
		if !(a[i][i] > 1e-9*m[i+1][i+1]) {
			for j := range a {
				a[i][j], a[j][i], a[i][n+j], a[j][n+i] = 0, 0, 0, 0
			}
			continue
		}
		scale := a[i][i]
		for j := range a[i] {
			a[i][j] /= scale
		}
		for r := range a {
			if f := a[r][i]; r != i && f != 0 {
				for j := range a[r] {
					a[r][j] -= f * a[i][j]
				}
			}
		}
	}
	out := make([][]float64, n)
	for i := range a {
		out[i] = a[i][n:]
	}
	return out
}

// averaged averages the models by their log likelihoods.
func (c *changeSearch) averaged(logs, unit []float64, sums bool) noise {
	top := slices.Max(logs)
	total := 0.0
	for i := range logs {
		prior := independent
		if i > 0 {
			prior = (1 - independent) / float64(models-1)
		}
		logs[i] = prior * math.Exp(logs[i]-top)
		total += logs[i]
	}
	out := noise{evidence: top + math.Log(total)}
	i := 1
	out.dependence = logs[0] / total
	for _, phi := range persistence {
		for _, share := range signal {
			out.dependence += logs[i] / total * zero(phi, share)
			i++
		}
	}
	if !sums {
		return out
	}
	out.sum = make([]float64, c.n+1)
	white := logs[0] * unit[0]
	i = 1
	for h := range persistence {
		part := 0.0
		for _, share := range signal {
			white += logs[i] * unit[i] * (1 - share)
			part += logs[i] * unit[i] * share
			i++
		}
		part /= total
		for m, g := range c.grown[h] {
			out.sum[m] += part * g
		}
	}
	white /= total
	for m := range out.sum {
		out.sum[m] += white * float64(m)
	}
	return out
}

// residual returns the cosines of what a course leaves, over the power of its model.
func (c *changeSearch) residual(f *course) []float64 {
	z := slices.Clone(f.columns[0])
	for i, e := range f.effects {
		for j, v := range f.columns[i+1] {
			z[j] -= e * v
		}
	}
	c.over(z, f.model)
	return z
}

// over divides cosines by the power of a model.
func (c *changeSearch) over(z []float64, model int) {
	z[0] = 0
	for b, p := range c.sp.power[model] {
		for j := c.sp.edges[b]; j < c.sp.edges[b+1]; j++ {
			z[j] /= p
		}
	}
}

// products returns the products of a step at each slot with cosines z.
func (c *changeSearch) products(z []float64) []float64 {
	if c.wide == nil {
		c.wide = newTransform(2 * c.n)
	}
	a := make([]float64, 2*c.n)
	for j := 1; j < c.n; j++ {
		a[j] = z[j] / (2 * math.Sin(math.Pi*float64(j)/float64(2*c.n)))
	}
	f := c.wide.coefficients(a)
	out := make([]float64, c.n)
	for t := range out {
		out[t] = math.Sqrt(2/float64(c.n)) * imag(f[t])
	}
	return out
}

// squares returns the product of a step at each slot with itself under a model.
func (c *changeSearch) squares(model int) []float64 {
	if out := c.steps[model]; out != nil {
		return out
	}
	b := make([]float64, c.n)
	for i, p := range c.sp.power[model] {
		for j := c.sp.edges[i]; j < c.sp.edges[i+1]; j++ {
			b[j] = 1 / (p * 4 * sq(math.Sin(math.Pi*float64(j)/float64(2*c.n))))
		}
	}
	f := c.sp.fft.coefficients(b)
	out := make([]float64, c.n)
	for t := range out {
		out[t] = (real(f[0]) - real(f[min(t, c.n-t)])) / float64(c.n)
	}
	c.steps[model] = out
	return out
}

// gains returns by how much the log likelihood of a course grows with a step at each
// slot, under its model.
func (c *changeSearch) gains(f *course) []float64 {
	out := make([]float64, c.n)
	if !(f.unit > 0) {
		return out
	}
	num, den := c.products(c.residual(f)), slices.Clone(c.squares(f.model))
	var others [][]float64
	for _, col := range f.columns[1:] {
		z := slices.Clone(col)
		c.over(z, f.model)
		others = append(others, c.products(z))
	}
	for t := 1; t < c.n; t++ {
		for i, x := range others {
			for j, y := range others {
				den[t] -= x[t] * f.inverse[i][j] * y[t]
			}
		}
		if den[t] > 1e-9 {
			out[t] = sq(num[t]) / den[t] / f.unit / 2
		}
	}
	return out
}

// likeliestStep returns the step that adds most to a course, at slots that are far enough
// from the ends and from its other elements; at is 0 if there is none.
func (c *changeSearch) likeliestStep(k int, f *course, others []element) (at int, gain float64) {
	least := c.views[k].least
	for t, g := range c.gains(f) {
		if g > gain && t >= least && t <= c.n-least && !slices.ContainsFunc(others, func(e element) bool { return e.at > 0 && max(e.at-t, t-e.at) < least }) {
			at, gain = t, g
		}
	}
	return at, gain
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}
