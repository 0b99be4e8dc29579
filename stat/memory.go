package stat

import "math"

// memory is fractional noise of unit variance with this order of integration, in
// (0, 0.5): it never forgets (Granger & Joyeux 1980, J. Time Series Anal. 1).
type memory float64

// power returns the mean square of cosine j of a side's slots. The last factor is what the
// cosines have of the pole at frequency 0; it fits their exact covariance to 1 % of it at
// any length.
func (m memory) power(j float64, slots int) float64 {
	d := float64(m)
	return sq(math.Gamma(1-d)) / math.Gamma(1-2*d) * math.Pow(2*math.Sin(math.Pi*j/float64(2*slots)), -2*d) * (1 - 0.9*d*(1-d)/j)
}

// sum returns the variance of the sum of n slots, which need not be whole (Beran 1994,
// Statistics for Long-Memory Processes, section 2.2).
func (m memory) sum(n float64) float64 {
	d := float64(m)
	return math.Gamma(1-d) / (math.Gamma(1+d) * (1 + 2*d)) * math.Pow(n, 1+2*d)
}

// variance returns that of the sum of slots, of which a share of the variance remembers,
// from the mean power of the first cosines, and how much of it is of what remembers.
func (m memory) variance(cosines []float64, share float64, first int) (variance, lasts float64) {
	n := float64(len(cosines))
	long := share * m.sum(n) / n
	for j := 1; j <= first; j++ {
		variance += sq(cosines[j]) / (1 - share + share*m.power(float64(j), len(cosines)))
	}
	return variance / float64(first) * n * (1 - share + long), long / (1 - share + long)
}

// known is the share of a correlation that is counted on: the order is an estimate, and a
// greater one leaves neighbours to differ more.
const known = 0.8

// together returns the correlation of the sums of a slots and of b slots, which begin so
// many slots later, or earlier if it is below 0.
func (m memory) together(a, b, apart int) float64 {
	if apart < 0 {
		a, b, apart = b, a, -apart
	}
	v := func(n int) float64 { return m.sum(math.Abs(float64(n))) }
	return known * max(0, (v(apart+b)+v(apart-a)-v(apart)-v(apart+b-a))/(2*math.Sqrt(v(a)*v(b))))
}
