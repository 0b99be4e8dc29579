package rounds

import (
	"fmt"
	"math"
	"sort"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

// Rule is how the number of rounds came about, which the interval has to know.
// The zero value is a number that was fixed before.
type Rule struct {
	// Stage is the number of rounds of the first of two stages, of which the
	// variance alone decided how many rounds there are. The interval then takes
	// its variance from the first stage and its mean from all rounds (Stein 1945,
	// Ann. Math. Statist. 16). It is exact of every measure, not only of the one
	// that decided: the variances of the first stage are independent of its means.
	// Where the variance of all rounds makes a wider interval, as when a run was
	// disturbed after a first stage in which none was, that holds.
	Stage int
	// Live makes intervals that hold at every look, so that rounds may end as soon
	// as one says something, see live.
	Live bool
}

func (r Rule) least() int {
	if r.Live {
		return liveLeast
	}
	return Fewest
}

// Estimate is a mean of rounds' numbers with its interval.
type Estimate struct {
	Effect, Low, High float64
	SE, DF            float64 // standard error and degrees of freedom
	P                 float64 // of an effect as large when there is none; any look's if live
	N                 int
	live              bool
	// sure are the ends of the two one-sided intervals where they are not those of
	// Student's t about Effect.
	sure *[2]float64
}

// estimate of the numbers of rounds, in the order of the rounds.
func (r Rule) estimate(each []float64, level float64) Estimate {
	n := len(each)
	e := Estimate{Effect: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), P: 1, N: n, live: r.Live}
	if n == 0 {
		return e
	}
	e.Effect = meanOf(each)
	if n < 2 {
		return e
	}
	e.DF, e.SE = float64(n-1), deviation(each)/math.Sqrt(float64(n))
	if r.Stage > 1 && n > r.Stage {
		first := Estimate{DF: float64(r.Stage - 1), SE: deviation(each[:r.Stage]) / math.Sqrt(float64(n))}
		if first.critical(1-level)*first.SE > e.critical(1-level)*e.SE {
			e.DF, e.SE = first.DF, first.SE
		}
	}
	half := e.critical(1-level) * e.SE
	switch {
	case e.SE == 0 && (!r.Live || n >= liveLeast):
		e.Low, e.High = e.Effect, e.Effect
		if e.P = 0; e.Effect == 0 {
			e.P = 1
		}
		return e
	case e.SE == 0:
		return e
	}
	e.Low, e.High = e.Effect-half, e.Effect+half
	if r.Live {
		e.P = liveP(e.Effect/e.SE, n)
	} else {
		e.P = min(1, 2*tail(math.Abs(e.Effect)/e.SE, e.DF))
	}
	return e
}

// critical is half the width of the interval in standard errors.
func (e *Estimate) critical(alpha float64) float64 {
	if e.live {
		return liveCritical(alpha, e.N)
	}
	return critical(alpha/2, e.DF)
}

// within says that the effect is surely less than a margin, by two one-sided tests
// (Schuirmann 1987) or, if live, by the interval.
func (e *Estimate) within(margin, level float64) bool {
	if math.IsNaN(e.SE) || math.IsNaN(e.Effect) {
		return false
	}
	if e.live {
		return e.Low >= -margin && e.High <= margin
	}
	if e.sure != nil {
		return e.sure[0] > -margin && e.sure[1] < margin
	}
	if e.SE == 0 {
		return max(-e.Low, e.High) < margin
	}
	return e.High < margin+(e.critical(1-level)-critical(1-level, e.DF))*e.SE && e.Low > -margin-(e.critical(1-level)-critical(1-level, e.DF))*e.SE
}

// rounds is how many would make an effect of that size be found in nine cases of
// ten, +Inf if no number up to 10,000 does.
func (e *Estimate) rounds(effect, level float64) float64 {
	if !(e.SE > 0) {
		return math.Inf(1)
	}
	const most = 10_000
	s, least := e.SE*math.Sqrt(float64(e.N)), max(Fewest, e.N)
	more := sort.Search(most-least+1, func(i int) bool {
		n := least + i
		df := float64(n - 1)
		half := critical((1-level)/2, df)
		if e.live {
			half = liveCritical(1-level, n)
		}
		return (half+critical(0.1, df))*s/math.Sqrt(float64(n)) <= effect
	})
	if least+more > most {
		return math.Inf(1)
	}
	return float64(least + more)
}

// widen takes into a difference of shares what the counts alone leave open, for
// rounds without any error differ by nought, which says little of few requests:
// the interval is that of the rounds together with Newcombe's of the counts
// (1998, Statist. Med. 17, method 10), and the probability the greater one.
func (e *Estimate) widen(errorsA, a, errorsB, b uint64, level float64) {
	if a == 0 || b == 0 {
		return
	}
	z := math.Sqrt2 * math.Erfinv(level)
	d, low, high := newcombe(errorsA, a, errorsB, b, z)
	_, sureLow, sureHigh := newcombe(errorsA, a, errorsB, b, math.Sqrt2*math.Erfinv(2*level-1))
	one := critical(1-level, e.DF) * e.SE
	e.sure = &[2]float64{min(e.Effect-one, sureLow), max(e.Effect+one, sureHigh)}
	e.Low, e.High = min(e.Low, low), max(e.High, high)
	pooled := float64(errorsA+errorsB) / float64(a+b)
	counts := 1.0
	if se := math.Sqrt(pooled * (1 - pooled) * (1/float64(a) + 1/float64(b))); se > 0 {
		counts = math.Erfc(math.Abs(d) / se / math.Sqrt2)
	}
	e.P = max(e.P, counts)
	if e.SE == 0 {
		e.SE = (high - low) / 2 / z
	}
}

// newcombe is the difference of two shares, b less a, with his interval.
func newcombe(errorsA, a, errorsB, b uint64, z float64) (d, low, high float64) {
	p, lowA, highA := wilson(errorsA, a, z)
	q, lowB, highB := wilson(errorsB, b, z)
	d = q - p
	return d, d - math.Hypot(q-lowB, highA-p), d + math.Hypot(highB-q, p-lowA)
}

// wilson is a share with Wilson's interval (1927, JASA 22).
func wilson(k, n uint64, z float64) (p, low, high float64) {
	N := float64(n)
	p = float64(k) / N
	middle := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	return p, max(0, middle-half), min(1, middle+half)
}

// liveLeast is the fewest rounds of which an interval that holds at every look is
// bounded.
const liveLeast = 4

// spread is the variance of the mixture over effects, in units of the rounds'
// variance. It is no choice of the data: with 4, intervals are near their tightest
// from eight rounds on.
const spread = 4

// liveCritical is half the width, in standard errors, of an interval that holds
// at every look. The mean of n normal numbers with unknown variance is held
// against a normal mixture over standardised effects; the ratio of likelihoods of
// the t-statistic is a test martingale whatever the variance is (Lai 1976, Ann.
// Statist. 4; Pérez-Ortiz, Lardy, de Heide & Grünwald 2024, Ann. Statist. 52), so
// by Ville's inequality it exceeds 1/alpha with a probability of at most alpha,
// at any look. This is the set of means at which it does not.
func liveCritical(alpha float64, n int) float64 {
	if n < 2 {
		return math.Inf(1)
	}
	nu, g := float64(n-1), 1+spread*float64(n)
	k := math.Pow(g/(alpha*alpha), 1/float64(n))
	if k >= g {
		return math.Inf(1)
	}
	return math.Sqrt(nu * (k - 1) / (1 - k/g))
}

// liveP is the least alpha whose interval leaves out an effect that lies t standard
// errors from nought.
func liveP(t float64, n int) float64 {
	nu, g := float64(n-1), 1+spread*float64(n)
	u := t * t / nu
	log := -math.Log(g)/2 + float64(n)/2*(math.Log1p(u)-math.Log1p(u/g))
	return min(1, math.Exp(-log))
}

func meanOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func deviation(v []float64) float64 {
	m, sum := meanOf(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

// tail is P(T > t) of Student's t.
func tail(t, df float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: df}.CDF(-t)
}

// criticals keeps what critical found, for it takes long and there are few.
var criticals sync.Map // of [2]float64: float64

// critical is the t with P(T > t) = p.
func critical(p, df float64) float64 {
	if known, ok := criticals.Load([2]float64{p, df}); ok {
		return known.(float64)
	}
	t := -distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(p)
	criticals.Store([2]float64{p, df}, t)
	return t
}

func needRounds(have, need int) string {
	if have == 0 {
		return "no round has every setting"
	}
	return fmt.Sprintf("%d of the %d rounds that an interval needs", have, need)
}

// Apart compares two sets of rounds that were not measured together: b less a, by
// Welch's test (1947, Biometrika 34).
func Apart(a, b []float64, level float64) Estimate {
	e := Estimate{Effect: math.NaN(), Low: math.Inf(-1), High: math.Inf(1), SE: math.NaN(), P: 1, N: min(len(a), len(b))}
	if e.N < Fewest {
		return e
	}
	return Difference(
		Estimate{Effect: meanOf(a), SE: deviation(a) / math.Sqrt(float64(len(a))), DF: float64(len(a) - 1)},
		Estimate{Effect: meanOf(b), SE: deviation(b) / math.Sqrt(float64(len(b))), DF: float64(len(b) - 1)}, level)
}

// DifferenceOfShares is b less a of two differences of shares that do not depend on
// each other, whose intervals are not symmetric: the difference's is made of theirs
// by the squares of their halves (Zou & Donner 2008, Statist. Med. 27), and its
// probability is such that it agrees with the interval.
func DifferenceOfShares(a, b Estimate, level float64) Estimate {
	e := Estimate{Effect: b.Effect - a.Effect, DF: min(a.DF, b.DF), N: min(a.N, b.N), P: 1}
	e.Low = e.Effect - math.Hypot(b.Effect-b.Low, a.High-a.Effect)
	e.High = e.Effect + math.Hypot(b.High-b.Effect, a.Effect-a.Low)
	z := math.Sqrt2 * math.Erfinv(level)
	e.SE = (e.High - e.Low) / 2 / z
	half := e.Effect - e.Low // towards nought
	if e.Effect < 0 {
		half = e.High - e.Effect
	}
	if half > 0 {
		e.P = math.Erfc(math.Abs(e.Effect) / half * z / math.Sqrt2)
	} else if e.Effect != 0 {
		e.P = 0
	}
	return e
}

// Difference is b less a, of two estimates that do not depend on each other, with
// degrees of freedom by Welch (1947) and Satterthwaite (1946).
func Difference(a, b Estimate, level float64) Estimate {
	va, vb := a.SE*a.SE, b.SE*b.SE
	e := Estimate{Effect: b.Effect - a.Effect, SE: math.Sqrt(va + vb), N: min(a.N, b.N)}
	if e.SE == 0 {
		e.Low, e.High = e.Effect, e.Effect
		if e.Effect == 0 {
			e.P = 1
		}
		return e
	}
	e.DF = (va + vb) * (va + vb) / (va*va/a.DF + vb*vb/b.DF)
	half := -distuv.StudentsT{Sigma: 1, Nu: e.DF}.Quantile((1-level)/2) * e.SE
	e.Low, e.High = e.Effect-half, e.Effect+half
	e.P = min(1, 2*tail(math.Abs(e.Effect)/e.SE, e.DF))
	return e
}
