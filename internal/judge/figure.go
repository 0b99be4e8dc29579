package judge

import "strings"

// Figure is something that is measured, and how it is compared.
type Figure struct {
	Name  string // p99, mean, errors, cpu_per_request
	Kind  Kind
	Ratio bool // two values are compared by their ratio, else by their difference
	Sense Sense
	Unit  string // of a difference of amounts: seconds, bytes or empty
}

// Kind is what a figure is of; it chooses the words.
type Kind int

const (
	Amount Kind = iota // lower, higher
	Time               // faster, slower
	Errors             // their share of requests: fewer errors, more errors
)

// Sense is which way a figure should go.
type Sense int

const (
	LessIsBetter Sense = iota
	MoreIsBetter
	NeitherIsBetter
)

// Names of figures.
const (
	Mean       = "mean"
	ErrorShare = "errors"
	Apdex      = "apdex"
	Rate       = "rate"        // per second
	PerRequest = "per_request" // the mean for each request
	Ratio      = "ratio"       // the median of the ratios of single requests' durations on two servers
	FirstByte  = "first_byte"
	Bytes      = "bytes"
)

// Durations names quantiles and the mean together, as a search for changes does.
const Durations = "durations"

// MarginOfErrors is the difference of two shares of errors within which they are
// the same.
const MarginOfErrors = 0.001

// Reading is the order in which figures are read: those that say most come first.
var Reading = []string{Ratio, "p99", "p95", "p50", ErrorShare, PerRequest, Mean, "p90", "p75", "p99.9", "p999", Rate, Apdex, FirstByte, Bytes}

// leading are the figures that may stand for those before them: those that every comparison of
// requests judges, so that one event is headed by one figure wherever it is told, and p99.9,
// without which what the slowest hundredth did is told as a little of p99.
var leading = []string{"p99", "p95", "p50", ErrorShare, "p99.9", "p999"}

// Title returns the name of a figure in a sentence: p99 of GET /search.
func Title(name, of string) string {
	switch name {
	case Mean, PerRequest:
		name = "the mean"
	case ErrorShare:
		name = "the share of errors"
	case Apdex:
		name = "Apdex"
	case Rate:
		name = "the rate"
	case Ratio:
		name = "the typical request"
	case FirstByte:
		name = "the median to the first byte"
	case Bytes:
		name = "the mean size of answers"
	case "p999":
		name = "p99.9"
	default:
		name = strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), "per request", "a request")
	}
	if of != "" {
		name += " of " + of
	}
	return name
}

func (f Figure) title(of string) string {
	if f.Name == PerRequest {
		return Title(f.Name, of) + " per request"
	}
	return Title(f.Name, of)
}

// word is the verdict of a figure that rose or fell.
func (f Figure) word(rose bool) Verdict {
	words := [2]Verdict{Lower, Higher}
	switch f.Kind {
	case Time:
		words = [2]Verdict{Faster, Slower}
	case Errors:
		words = [2]Verdict{FewerErrors, MoreErrors}
	}
	if rose {
		return words[1]
	}
	return words[0]
}

// Way is Better or Worse if a verdict is news of the figure, and empty if it is not
// or nobody knows which it is.
func (f Figure) Way(v Verdict) Way {
	rose := v == f.word(true)
	if f.Sense == NeitherIsBetter || !rose && v != f.word(false) {
		return ""
	}
	if rose == (f.Sense == MoreIsBetter) {
		return Better
	}
	return Worse
}

// None is the effect of no difference.
func (f Figure) None() float64 {
	if f.Ratio {
		return 1
	}
	return 0
}

// shown is an effect in the units in which people read it: per cent of change,
// points of a share, or the figure's own.
func (f Figure) shown(effect float64) float64 {
	if f.Ratio || f.Kind == Errors {
		return 100 * (effect - f.None())
	}
	return effect
}

// suffix is the unit of what shown returns.
func (f Figure) suffix() string {
	switch {
	case f.Ratio:
		return " %"
	case f.Kind == Errors:
		return " points"
	case f.Unit == "seconds":
		return " s"
	case f.Unit == "bytes":
		return " bytes"
	}
	return ""
}

// MarginText writes a margin of sameness: 5 %, 0.1 points.
func (f Figure) MarginText(margin float64) string {
	return digits(f.shown(margin+f.None())) + f.suffix()
}
