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

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
