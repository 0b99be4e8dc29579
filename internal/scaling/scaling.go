// Package scaling fits the Universal Scalability Law: throughput over concurrency
//
//	X(N) = λN / (1 + σ(N−1) + κN(N−1))
//
// λ is the throughput of one request at a time, σ the share of the work that
// only one can do at a time (contention), κ what every pair costs to agree with
// each other (coherency). Without κ throughput nears the ceiling λ/σ; with it
// throughput has a peak, at N = √((1−σ)/κ), and falls beyond.
//
// How to call it: Fit takes points of any origin — the steps of a load test, or
// slots of what was stored, where N is rate × mean latency (Little 1961) — and
// gives the Law with an interval of every figure. Law.API is the form in which it
// is reported.
//
// What it stands on:
//
//   - the law: Gunther (2007), Guerrilla Capacity Planning, chapter 4 and 5
//   - least squares: Levenberg (1944), Marquardt (1963), with each bound
//     (σ in [0, 1], κ at least 0) held or free in turn and the best one kept
//   - intervals of a few steps: the profile likelihood, Bates & Watts (1988),
//     Nonlinear Regression Analysis and Its Applications, section 6.1; it respects
//     the bounds and is lopsided where the data are
//   - intervals of stored slots, which depend on their neighbours: the bootstrap
//     on blocks, Künsch (1989), Ann. Statist. 17
//
// Nothing here reads a clock, does I/O or starts goroutines.
package scaling

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tailscope/internal/figure"
)

// ErrTooLittle is returned for data that say nothing of a law; wrapped with what is
// missing.
var ErrTooLittle = errors.New("too little data")

// ErrNoLaw is returned for data in which what is answered does not follow from how
// many requests there are at a time; wrapped with what shows that.
var ErrNoLaw = errors.New("scaling is not fitted")

// Point is one step or one slot.
type Point struct {
	N    float64 // mean concurrency; greater than 0
	Rate float64 // requests a second; 0 or more
	Mean float64 // mean latency in seconds; only carried along
	Time float64 // Unix seconds, NaN of a step; only carried along
	// Left says that the point is shown and not fitted.
	Left bool
	// Configuration is only carried along; -1 for none.
	Configuration int
}

// Options say how a law is fitted. The zero value is that of a load test's steps.
type Options struct {
	// Level is the confidence of intervals; 0 stands for 0.95.
	Level float64
	// Block, if more than 0, says that points are in time order, and that
	// neighbours depend on each other over so many of them: intervals are then by
	// the bootstrap on blocks instead of the profile likelihood.
	Block int
	// Resamples is how many bootstrap samples are drawn; 0 stands for 400.
	Resamples int
	Seed      uint64
}

// Value is a figure with its interval. A figure that does not exist is NaN, and an
// end beyond all bounds infinite.
type Value struct{ Value, Low, High float64 }

// Law is what was fitted.
type Law struct {
	Lambda, Sigma, Kappa Value
	// PeakN is where throughput is highest and PeakRate that throughput; Value is
	// NaN if there is no peak (κ is 0), and Low then the least that data allow.
	PeakN, PeakRate Value
	Ceiling         Value   // λ/σ, NaN without contention
	Level           float64 // of the intervals
	R2              float64 // share of the rates' variance that the law explains
	Error           float64 // residual standard error, requests a second
	Lowest, Highest float64 // concurrency seen
	Points          []Point // all that were given
	Warnings        []string
}

// Rate returns the throughput at concurrency n.
func (l Law) Rate(n float64) float64 {
	return params{l.Lambda.Value, l.Sigma.Value, l.Kappa.Value}.rate(n)
}

// Fit returns the law through points. ErrTooLittle is returned for fewer than four
// points that may be fitted, or fewer than three different concurrencies, ErrNoLaw
// where load hardly changed or rates do not follow from it.
func Fit(points []Point, o Options) (Law, error) {
	if o.Level == 0 {
		o.Level = 0.95
	}
	if !(o.Level > 0 && o.Level < 1) {
		return Law{}, fmt.Errorf("level %v: must lie between 0 and 1", o.Level)
	}
	if o.Resamples == 0 {
		o.Resamples = 400
	}
	used, err := usable(points)
	if err != nil {
		return Law{}, err
	}
	if low, high := used.middle(o.Block > 0); high < leastRange*low {
		return Law{}, fmt.Errorf("%w: nearly always there were %s to %s requests at a time", ErrNoLaw, figure.ThreeDigits(low), figure.ThreeDigits(high))
	}
	best := used.fit(used.starts()...)
	l := Law{
		Level:  o.Level,
		Points: slices.Clone(points),
		Lowest: used.lowest(), Highest: used.highest(),
		Error: math.Sqrt(best.sse / float64(len(used.n)-3)),
		R2:    1 - best.sse/used.spread(),
	}
	if err := l.none(best.params); err != nil {
		return Law{}, err
	}
	var spans [figures]span
	if o.Block > 0 {
		spans = used.bootstrap(best, o)
	} else {
		spans = used.profile(best, o.Level)
	}
	for i, v := range []*Value{&l.Lambda, &l.Sigma, &l.Kappa, &l.PeakN, &l.PeakRate, &l.Ceiling} {
		*v = Value{best.figure(i), spans[i].low, spans[i].high}
	}
	l.Warnings = l.warn(len(used.n))
	return l, nil
}

func usable(points []Point) (data, error) {
	var d data
	different := map[float64]bool{}
	for i, p := range points {
		if p.Left {
			continue
		}
		if !(p.N > 0) || math.IsInf(p.N, 0) || !(p.Rate >= 0) || math.IsInf(p.Rate, 0) {
			return d, fmt.Errorf("point %d: concurrency %v with rate %v: both must be finite, the first greater than 0", i+1, p.N, p.Rate)
		}
		d.n = append(d.n, p.N)
		d.x = append(d.x, p.Rate)
		different[p.N] = true
	}
	if len(d.n) < 4 || len(different) < 3 {
		return d, fmt.Errorf("%w: %d points at %d concurrencies; the law has three coefficients and needs at least 4 points at 3 concurrencies",
			ErrTooLittle, len(d.n), len(different))
	}
	if slices.Max(d.x) == 0 {
		return d, fmt.Errorf("%w: no point has any throughput", ErrTooLittle)
	}
	return d, nil
}
