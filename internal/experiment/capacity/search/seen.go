package search

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// ratio returns the ratio that is to stay below the target; NaN if nothing ended.
func (o seen) ratio() float64 { return o.y / o.n }

// level returns how far a ratio is beyond the target: 0 at it, in logits for a share,
// in logarithms for a mean.
func (o seen) level(ratio float64) float64 {
	if o.mean {
		return math.Log(ratio / o.target)
	}
	return logit(ratio) - logit(o.target)
}

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// at returns the ratio at a level.
func (o seen) at(level float64) float64 {
	if o.mean {
		return o.target * math.Exp(level)
	}
	return 1 / (1 + math.Exp(-level-logit(o.target)))
}

// deviance returns twice the difference in log-likelihood between the observed ratio
// and another, as if requests were independent.
func (o seen) deviance(ratio float64) float64 {
	seen := o.ratio()
	if o.mean {
		d := math.Log(seen / ratio)
		return o.n * d * d
	}
	d := 0.0
	if o.y > 0 {
		d += o.y * math.Log(seen/ratio)
	}
	if o.y < o.n {
		d += (o.n - o.y) * math.Log((1-seen)/(1-ratio))
	}
	return 2 * max(d, 0)
}

// broken returns the probability that the ratio is beyond the target: Student's t of
// the signed root of the deviance.
func (o seen) broken() float64 {
	if o.n == 0 {
		return 0.5
	}
	z := math.Sqrt(o.deviance(o.target) / o.clump)
	if o.ratio() < o.target {
		z = -z
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: o.df}.CDF(z)
}

// none reports whether the condition is on errors and none was seen.
func (o seen) none() bool { return o.n > 0 && o.y == 0 && o.of.c.Measure == "errors" }

// interval returns the interval of the ratio: for a share Wilson's (1927, JASA 22)
// with as many independent requests as vary as much, and Student's t. If no error was
// seen it ends where none would be seen with a probability of 1 − level: at about 3/n
// for 95 % (Hanley & Lippman-Hand 1983, JAMA 249).
func (o seen) interval(level float64) (low, high float64) {
	if o.n == 0 {
		return nan, nan
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: o.df}.Quantile((1 + level) / 2)
	if o.mean {
		f := math.Exp(t * math.Sqrt(o.clump/o.n))
		return o.ratio() / f, o.ratio() * f
	}
	n, p := o.n/o.clump, o.ratio()
	if o.none() {
		return 0, 1 - math.Pow(1-level, 1/n)
	}
	centre := (p + t*t/(2*n)) / (1 + t*t/n)
	half := t / (1 + t*t/n) * math.Sqrt(p*(1-p)/n+t*t/(4*n*n))
	return max(centre-half, 0), min(centre+half, 1)
}

func (o seen) describe(s *series) string {
	ratio := o.ratio()
	switch {
	case o.mean:
		return fmt.Sprintf("it is %v", seconds(ratio))
	case s.c.Measure == "errors":
		return fmt.Sprintf("%.3g %% of requests fail", 100*ratio)
	}
	return fmt.Sprintf("%.3g %% of requests take longer than %v", 100*ratio, seconds(s.c.Limit))
}

// seconds converts float seconds to a duration.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond)
}
