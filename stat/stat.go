// Package stat judges whether a distribution changed, on blocks of slots and
// never on requests.
//
// A side is a sequence of slots, equally long and in time order, each with a
// distribution (Series). A figure of a side, such as a quantile or a mean, is
// close to a sum over slots of what each contributes (its influence function),
// so its variance is the long-run variance of that sum: neighbouring slots
// depend on each other, and requests within a slot all the more. It is
// estimated by equal-weighted cosines, whose number follows the dependence
// found in the data, and referred to Student's t. Two sides that were measured
// in the same slots are judged by the difference of their influences, where
// what moves both cancels.
//
// How to call it: build a Series of each side, ask Quantile, Mean, ErrorRatio,
// Apdex or Distribution for a Change, and read the interval. Mix gives the
// like-for-like figure: strata reweighted to a common mix.
//
// What it stands on:
//
//   - influence of a quantile: Bahadur (1966), Ann. Math. Statist. 37; an
//     interval without a density, by inverting the interval of the share above
//     it: Woodruff (1952), JASA 47; Francisco & Fuller (1991), Ann. Statist. 19
//   - long-run variance by equal-weighted cosines with Student's t: Müller
//     (2007), J. Econometrics 141; Lazarus, Lewis, Stock & Watson (2018), JBES
//     36, "HAR inference: recommendations for practice"
//   - the spectrum's shape by Whittle's likelihood (1953), Ark. Mat. 2, of a
//     first-order autoregression with noise on top, averaged over the models'
//     posterior
//   - slots that remember: fractional noise (Granger & Joyeux 1980, J. Time
//     Series Anal. 1) under noise, against those autoregressions
//   - a change that load explains: analysis of covariance, Cochran (1957),
//     Biometrics 13
//   - two intervals into one of the difference: Zou & Donner (2008), Statist.
//     Med. 27, "MOVER"; degrees of freedom: Welch (1947), Biometrika 34
//   - shares near nought: Wilson (1927), JASA 22, with an effective sample
//     size as Korn & Graubard (1998), Survey Methodology 24
//
// Nothing here reads a clock, does I/O, logs or starts goroutines; values may
// be read by many goroutines at once. Random choices follow a seed.
package stat

import (
	"errors"
	"math"
)

// ErrInvalid is returned for input without a meaning; wrapped with the cause.
var ErrInvalid = errors.New("invalid input")

// Interval is closed; an end may be infinite, or NaN if it is unknown.
type Interval struct{ Low, High float64 }

// Contains reports whether v lies in the interval.
func (i Interval) Contains(v float64) bool { return i.Low <= v && v <= i.High }

// Options configures how sides are compared. The zero value compares two windows that
// differ in time, at a confidence of 95 %.
type Options struct {
	// Level is the confidence of intervals; default 0.95.
	Level float64
	// Paired declares that slot t of one side is the same time as slot t of the other
	// (mirror, blue/green). Both need the same number of slots.
	Paired bool
	// Apart is the number of slots from the start of side A to the start of side B, below 0
	// if B is the earlier; default that of sides that adjoin. What has a long memory
	// differs more the farther sides are apart.
	Apart int
	// Live, if not nil, makes intervals that hold however often they are looked at while
	// data arrive.
	Live *Live
	// Blocks, if not nil, are the stretches that the slots of either side are of.
	Blocks *Blocks

	bound float64 // of a band, in standard errors of a normal variable; 0 if none
}

func (o Options) level() float64 {
	if o.Level == 0 {
		return 0.95
	}
	return o.Level
}

func (o Options) check() error {
	if l := o.level(); !(l > 0 && l < 1) {
		return invalidf("confidence level %v, want one between 0 and 1", l)
	}
	return nil
}

// Change is the difference of a figure between side A and side B.
type Change struct {
	A, B float64 // the figure on each side; NaN where there is none
	// Effect is ln(B/A) if Log is set, else B−A. NaN if it does not exist.
	Effect float64
	Log    bool
	// CI holds Effect with confidence Level; infinite where data are too few.
	CI    Interval
	Level float64
	// SE is the standard error of Effect, DF its degrees of freedom.
	SE, DF float64
	// P is the probability of an effect as large without a difference, to either side; 1
	// if it is unknown. It is below 1−Level exactly when CI excludes 0.
	P float64
	// Cosines is the number used to estimate the variance on each side, and Dependence
	// the ratio of the variance of a mean to that of independent slots: 1 for
	// independent ones, above 1 for persistent ones.
	Cosines    int
	Dependence float64
	// Slots with observations, and observations, of either side.
	SlotsA, SlotsB int
	CountA, CountB float64
	// EffectiveA and EffectiveB are how many independent observations say as much: fewer
	// where observations stand for several (Kish 1965).
	EffectiveA, EffectiveB float64
	// Drifts says that CI excludes 0 and the slots may make such an effect by themselves:
	// they remember, or change slowly, for as long as the sides last; or, with ByLoad, the
	// numbers of requests explain it.
	Drifts, ByLoad bool
	// ErrorA and ErrorB bound the relative error of A and B from buckets, which is not
	// part of CI. They are 0 if there is none.
	ErrorA, ErrorB float64
	// Short states which data were too few for an interval; empty if they were enough.
	Short string

	ofB float64 // the share of the variance that is B's
	// What P was made of: how far intervals of some standard errors reach below and above
	// Effect, how many CI has, slots, and how it was asked for.
	reach   func(crit float64) (below, above float64)
	crit    float64
	slotsOf [2]int
	options Options
}

// Ratio returns B/A with its interval if Log is set, else NaN.
func (c Change) Ratio() (ratio float64, ci Interval) {
	if !c.Log {
		return math.NaN(), Interval{math.NaN(), math.NaN()}
	}
	return math.Exp(c.Effect), Interval{math.Exp(c.CI.Low), math.Exp(c.CI.High)}
}
