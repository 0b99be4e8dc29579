package calibration

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// course is how a side's slots differ from each other.
type course struct {
	medians []float64 // log factors of the slots' medians
	rates   []float64 // factors of the slots' numbers of requests; nil if all are 1
}

// cut returns slots [from, to) of a course.
func (c course) cut(from, to int) course {
	c.medians = c.medians[from:to]
	if c.rates != nil {
		c.rates = c.rates[from:to]
	}
	return c
}

// course draws so many slots' medians and rates.
func (l *Load) course(r *rand.Rand, slots int) course {
	var c course
	switch {
	case l.Memory > 0:
		c.medians = fractional(r, slots, l.Memory)
		for t := range c.medians {
			c.medians[t] *= l.Spread
		}
	case l.Sojourn > 0:
		c.medians = make([]float64, slots)
		x := l.Spread
		if r.IntN(2) == 0 {
			x = -x
		}
		for t := range c.medians {
			if r.Float64()*l.Sojourn < 1 {
				x = -x
			}
			c.medians[t] = x
		}
	default:
		c.medians = l.autoregression(r, slots)
	}
	if l.Season != 0 {
		for t := range c.medians {
			c.medians[t] += l.Season * math.Sin(2*math.Pi*float64(l.Start+t)/day)
		}
	}
	if l.Busy > 0 {
		// The log of the load wanders; latency is that of a queue, 1/(1−load).
		c.rates = make([]float64, slots)
		for t, m := range c.medians {
			busy := min(0.97, l.Busy*math.Exp(m))
			c.rates[t] = busy / l.Busy
			c.medians[t] = -math.Log((1 - busy) / (1 - l.Busy))
		}
	}
	return c
}

// day is the number of slots of ten seconds in a day.
const day = 8640

func (l *Load) autoregression(r *rand.Rand, slots int) []float64 {
	m := make([]float64, slots)
	x := l.Spread * r.NormFloat64()
	fresh := l.Spread * math.Sqrt(1-l.Correlation*l.Correlation)
	for t := range m {
		if t > 0 {
			x = l.Correlation*x + fresh*r.NormFloat64()
		}
		m[t] = x
	}
	return m
}

// fractional draws fractional noise of unit variance, of which d is the order of
// integration, below 0.5 (Davies & Harte 1987, Biometrika 74).
func fractional(r *rand.Rand, slots int, d float64) []float64 {
	roots := rootsOf(slots, d)
	n := len(roots)
	f := make([]complex128, n)
	for k, root := range roots[:n/2+1] {
		re, im := r.NormFloat64(), r.NormFloat64()
		if k == 0 || k == n/2 {
			f[k] = complex(root*re, 0)
			continue
		}
		f[k] = complex(root*re/math.Sqrt2, root*im/math.Sqrt2)
		f[n-k] = cmplx.Conj(f[k])
	}
	x := fourier.NewCmplxFFT(n).Sequence(nil, f)
	out := make([]float64, slots)
	for t := range out {
		out[t] = real(x[t])
	}
	return out
}

type fractionalOf struct {
	slots int
	d     float64
}

var fractionalRoots sync.Map // of fractionalOf: []float64

// rootsOf returns the square roots of the eigenvalues of the circulant that embeds the
// covariance of fractional noise, over its length.
func rootsOf(slots int, d float64) []float64 {
	key := fractionalOf{slots, d}
	if v, ok := fractionalRoots.Load(key); ok {
		return v.([]float64)
	}
	n := 2 * slots
	c := make([]complex128, n)
	g := 1.0
	for k := 0; k <= slots; k++ {
		c[k] = complex(g, 0)
		if k > 0 && k < slots {
			c[n-k] = c[k]
		}
		g *= (float64(k) + d) / (float64(k) + 1 - d)
	}
	e := fourier.NewCmplxFFT(n).Coefficients(nil, c)
	roots := make([]float64, n)
	for k, v := range e {
		roots[k] = math.Sqrt(max(0, real(v)) / float64(n))
	}
	fractionalRoots.Store(key, roots)
	return roots
}
