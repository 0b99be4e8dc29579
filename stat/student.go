package stat

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// manyDF is the number of degrees of freedom from which Student's t is replaced by the
// normal distribution: they differ by less than 10^-6 there, relative to the quantile.
const manyDF = 1e6

// tail returns P(T > t) of Student's t with df degrees of freedom.
func tail(t, df float64) float64 {
	if df >= manyDF {
		return 0.5 * math.Erfc(t/math.Sqrt2)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.CDF(-t)
}

// critical returns the t with P(T > t) = p, for p in (0, 0.5].
func critical(p, df float64) float64 {
	if df >= manyDF {
		return math.Sqrt2 * math.Erfinv(1-2*p)
	}
	return -distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// spread is the distribution of a statistic: Student's t, of which the standard error is
// wrong by a factor if slots have a memory. It is the mixture over how they may depend.
type spread struct {
	df    float64
	rest  float64 // the probability that they forget
	parts [len(memories)]struct{ weight, scale float64 }
}

// remember sets how likely memory h is, and the variance then over that of slots that
// forget.
func (s *spread) remember(h int, weight, variance float64) {
	if weight > leastWeight && variance > 0 && !math.IsInf(variance, 1) {
		s.parts[h].weight, s.parts[h].scale = weight, math.Sqrt(variance)
		s.rest -= weight
	}
}

func (s *spread) tail(t float64) float64 {
	sum := max(0, s.rest) * tail(t, s.df)
	for _, p := range s.parts {
		if p.weight > 0 {
			sum += p.weight * tail(t/p.scale, s.df)
		}
	}
	return sum
}

// wider returns the factor of the standard error at which Student's t leaves as much
// beyond a 95 % interval as the mixture does, at least 1.
func (s *spread) wider() float64 {
	const beyond = 0.025
	t := critical(beyond, s.df)
	low, high := 1.0, 1.0
	for _, p := range s.parts {
		high = max(high, p.scale)
	}
	for high-low > 1e-6 {
		if mid := (low + high) / 2; s.tail(mid*t) > beyond {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
