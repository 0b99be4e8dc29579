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
	of := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	switch {
	case df >= manyDF:
		return math.Sqrt2 * math.Erfinv(1-2*p)
	case hasExpansion(p, df):
		// Newton's steps double the digits of an expansion that has more than two.
		t := criticalAbout(p, df)
		for range 3 {
			t += (of.CDF(-t) - p) / of.Prob(t)
		}
		return t
	}
	return -of.Quantile(p)
}

// hasExpansion reports whether criticalAbout is an expansion.
func hasExpansion(p, df float64) bool { return df >= 8 && p >= 1e-4 }

// criticalAbout is critical within 0.5 % for degrees of freedom of 8 or more and p of 1e-4 or
// more, in a fraction of the time: by the expansion about the normal quantile (Abramowitz
// and Stegun, 1964, 26.7.5). It is critical otherwise.
func criticalAbout(p, df float64) float64 {
	if !hasExpansion(p, df) {
		return critical(p, df)
	}
	x := math.Sqrt2 * math.Erfinv(1-2*p)
	y := x * x
	return x * (1 +
		(y+1)/4/df +
		((5*y+16)*y+3)/96/(df*df) +
		(((3*y+19)*y+17)*y-15)/384/(df*df*df) +
		((((79*y+776)*y+1482)*y-1920)*y-945)/92160/(df*df*df*df))
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
