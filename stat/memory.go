package stat

import "math"

// memory is a process of unit variance: fractional noise of an order of integration in
// (0, 0.5), which never forgets (Granger & Joyeux 1980, J. Time Series Anal. 1), or, if
// the order is 0, a first-order autoregression.
type memory struct{ order, persistence float64 }

// power returns the mean square of cosine j of a side's slots.
func (m memory) power(j float64, slots int) float64 {
	half := math.Pi * j / float64(2*slots)
	if m.order == 0 {
		phi := m.persistence
		return (1 - phi*phi) / (1 - 2*phi*math.Cos(2*half) + phi*phi)
	}
	// The last factor is what the cosines have of the pole at frequency 0; it fits their
	// exact covariance to 1 % of it at any length.
	d := m.order
	return sq(math.Gamma(1-d)) / math.Gamma(1-2*d) * math.Pow(2*math.Sin(half), -2*d) * (1 - 0.9*d*(1-d)/j)
}

// sum returns the variance of the sum of n slots (Beran 1994, Statistics for Long-Memory
// Processes, section 2.2). Of fractional noise n need not be whole.
func (m memory) sum(n float64) float64 {
	if m.order == 0 {
		phi := m.persistence
		return n*(1+phi)/(1-phi) - 2*phi*(1-math.Pow(phi, n))/sq(1-phi)
	}
	d := m.order
	return math.Gamma(1-d) / (math.Gamma(1+d) * (1 + 2*d)) * math.Pow(n, 1+2*d)
}

// together returns the correlation of the sums of a slots and of b slots, which begin so
// many slots later, or earlier if it is below 0.
func (m memory) together(a, b, apart int) float64 {
	if apart < 0 {
		a, b, apart = b, a, -apart
	}
	// The order is not known: what is nearby counts as less together than it would be.
	const known = 0.85
	v := func(n int) float64 { return m.sum(math.Abs(float64(n))) }
	return known * max(0, (v(apart+b)+v(apart-a)-v(apart)-v(apart+b-a))/(2*math.Sqrt(v(a)*v(b))))
}
