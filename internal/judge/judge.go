// Package judge says what was found: one ladder from a finding to its verdict,
// from several findings to one verdict, and one grammar of sentences.
//
// A Finding is a figure, the effect on it with its interval, the evidence, and
// what more it needs. Whoever compares fills in these: two windows, the sides of a
// mark (internal/compare, internal/judge/marks), a mirror's legs with their noise
// floor (internal/judge/legs), the rounds of an experiment and its gate
// (internal/judge/rounds, internal/experiment). The statistics are theirs and
// package stat's; the words are here, so that one finding reads the same wherever
// it stands.
package judge

import (
	"math"

	"tailscope/api"
	"tailscope/stat"
)

// Verdict is the word for a finding or for several.
type Verdict = api.Verdict

// Verdicts of one figure.
const (
	TooLittle   Verdict = "too little data"
	NoEvidence  Verdict = "no evidence" // of a change, nor of sameness
	WithinFloor Verdict = "within the noise floor"
	Drifts      Verdict = "drifts" // it changed, as it also does by itself
	Same        Verdict = "same"   // within the margin
	// WithinTolerance is of a figure with a gate: surely no more than it allows.
	WithinTolerance Verdict = "within tolerance"
	Faster          Verdict = "faster"
	Slower          Verdict = "slower"
	FewerErrors     Verdict = "fewer errors"
	MoreErrors      Verdict = "more errors"
	Lower           Verdict = "lower" // rates, sizes, scores
	Higher          Verdict = "higher"
)

// Verdicts of several figures, beside the above.
const (
	Regression  Verdict = "regression"
	Improvement Verdict = "improvement"
	Mixed       Verdict = "mixed"
	Changed     Verdict = "changed" // of a figure of which nobody knows whether more is better
)

// Way is how news of a figure is: Better, Worse, or empty where nobody knows.
type Way = api.Way

// Ways in which a figure can go.
const (
	Better Way = "better"
	Worse  Way = "worse"
)

// Verdicts are all verdicts.
var Verdicts = []Verdict{
	Faster, Slower, FewerErrors, MoreErrors, Lower, Higher, Regression, Improvement, Mixed, Changed, Same, WithinTolerance, Drifts, NoEvidence, TooLittle, WithinFloor,
}

// Opposite says that one of two verdicts is a regression and the other an improvement.
func Opposite(v, w Verdict) bool {
	return v == Regression && w == Improvement || v == Improvement && w == Regression
}

// Moved says that a verdict claims a change.
func Moved(v Verdict) bool {
	switch v {
	case Faster, Slower, FewerErrors, MoreErrors, Lower, Higher, Regression, Improvement, Mixed, Changed:
		return true
	}
	return false
}

// Finding is what was found of one figure.
type Finding struct {
	Figure
	Of      string // whose figure it is, such as GET /search of shop; may be empty
	With    string // the setting under which it was measured; may be empty
	Against string // name of what it is compared with; empty for the time before
	// Sides names both sides, such as tenant acme and everybody else, where the figure differs
	// between them rather than changed; empty for times.
	Sides string
	// Effect is a ratio, or a difference, as the figure says, with its interval. An
	// end that is not known is NaN.
	Effect, Low, High float64
	Level             float64 // confidence of the interval
	Margin            float64 // within which the figure is the same, on the scale of the figure
	// Noise is how far from none an effect has to be to be outside the noise floor, as
	// a share or a difference; +Inf if the floor is not known, NaN without a floor.
	Noise float64
	// Joint says that the effect is an interaction: what two variables change together
	// beyond what each changes by itself.
	Joint bool
	// Beside names figures that surely went the same way, of one that drifts by the load:
	// that explains no more than this one, if it does.
	Beside []string
	Gate   *Gate // what is allowed, nil if no more than a margin of sameness was asked for
	// Between is the bumps that a quantile lies between, nil if it does not; the verdict is
	// then of the share of the upper one.
	Between *api.CompareBumps

	Evidence
	Verdict Verdict
	Needs   string // a clause: how much more data would tell
	// Coming is a clause, of what is too little only because the newest data are still
	// coming: when they can be judged.
	Coming string
}

// Evidence is what statistics say of an effect.
type Evidence struct {
	Short  string // what is too little for an interval
	Same   bool   // the effect surely lies within the margin
	Sure   bool   // there is an effect, allowing for all that was looked at
	Hidden bool   // there is one, and the noise floor may hide as much
	Drifts bool   // there is one, and the slots may make it by themselves
	ByLoad bool   // of one that drifts: the number of requests explains it
	// Tolerated says that the effect surely is no more than a gate allows.
	Tolerated bool
}

// EvidenceOf reads what stat says.
func EvidenceOf(v stat.Verdict, short string) Evidence {
	return Evidence{Short: short, Same: v == stat.Same, Sure: v == stat.Less || v == stat.More, Drifts: v == stat.Drifts}
}

// Conclude gives the finding its verdict.
func (f *Finding) Conclude() {
	switch {
	case f.Short == "" && f.Hidden && math.IsInf(f.Noise, 1):
		f.Short, f.Verdict = "the noise floor is not known", TooLittle
	case f.Short != "":
		f.Verdict = TooLittle
	case f.Tolerated:
		f.Verdict = WithinTolerance
	case f.Same:
		f.Verdict = Same
	case f.Sure:
		f.Verdict = f.word(f.Effect > f.None())
	case f.Hidden:
		f.Verdict = WithinFloor
	case f.Drifts:
		f.Verdict = Drifts
	default:
		f.Verdict = NoEvidence
	}
}

// Margins returns how large an effect seems, and how large it is at least by its
// interval, in margins of sameness. Both are 0 without a margin.
func (f *Finding) Margins() (seems, certain float64) {
	if !(f.Margin > 0) {
		return 0, 0
	}
	size := func(v float64) float64 { return v / f.Margin }
	if f.Ratio {
		size = func(v float64) float64 { return math.Log(v) / math.Log1p(f.Margin) }
	}
	return math.Abs(size(f.Effect)), max(0, size(f.Low), -size(f.High))
}
