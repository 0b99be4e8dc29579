package judge

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"tailscope/internal/figure"
)

// Sentence says what was found, and what more it needs.
func (f *Finding) Sentence() string {
	s := f.Claim()
	if f.Needs != "" && (f.Verdict == TooLittle || f.Verdict == NoEvidence || f.Verdict == Drifts) {
		s += "; " + f.Needs
	}
	return s
}

// Claim says what was found. It begins with a small letter: figure.Sentence makes a
// headline of it.
func (f *Finding) Claim() string {
	title, reference := f.title(f.Of), f.Against
	if f.With != "" {
		title += " with " + f.With
		reference = "with " + f.Against
	}
	// after puts the reference behind a word, if there is one.
	after := func(word string) string {
		if f.Against == "" {
			return ""
		}
		return " " + word + " " + reference
	}
	differs := Differs(f.Sides)
	if f.Against != "" {
		differs = "differs from " + f.Against
	}
	by := func(rest string) string {
		return fmt.Sprintf("%s %s by %s, %s %s", title, differs, f.signed(f.Effect), rest, f.interval(f.ends()))
	}
	switch {
	case f.Between != nil:
		return title + " " + f.betweenText(differs)
	case f.Verdict == TooLittle && f.Coming != "":
		return fmt.Sprintf("too early to judge %s: %s (%s)", title, f.Coming, f.Short)
	case f.Verdict == TooLittle:
		return "too little data to judge " + title + ": " + f.Short
	case f.Joint && f.Verdict == NoEvidence:
		return fmt.Sprintf("no evidence that %s depends on both of %s together %s", f.title(f.Of), f.With, f.interval(f.ends()))
	case f.Joint:
		return fmt.Sprintf("%s is %s from what each by itself adds up to %s", title, f.signed(f.Effect), f.interval(f.ends()))
	case f.Verdict == WithinTolerance && f.Gate != nil:
		return fmt.Sprintf("%s is within tolerance%s, %s %s", title, after("of"), f.Gate.Text(f.Figure), f.interval(f.ends()))
	case f.Verdict == NoEvidence && f.Gate != nil:
		return fmt.Sprintf("no evidence that %s %s by more than is allowed, %s %s", title, differs, f.Gate.Text(f.Figure), f.interval(f.ends()))
	case f.Verdict == Same:
		return fmt.Sprintf("%s is the same%s within %s %s", title, after("as"), f.MarginText(f.Margin), f.interval(f.ends()))
	case f.Verdict == NoEvidence && (f.Low > f.None() || f.High < f.None()): // but for how many were looked at
		return by("which is no evidence among so many figures")
	case f.Verdict == NoEvidence:
		return fmt.Sprintf("no evidence that %s %s %s", title, differs, f.interval(f.ends()))
	case f.Verdict == Drifts:
		if f.ByLoad && len(f.Beside) > 0 {
			return by("which the number of requests may explain, but not that of " + figure.Listed(f.Beside))
		}
		if f.ByLoad {
			return by("which the number of requests explains")
		}
		return by("which may be drift: it wanders for longer than the sides last")
	case f.Verdict == WithinFloor:
		return by("not surely more than " + f.Against + " from the primary")
	case f.Ratio && f.Effect >= 2:
		return fmt.Sprintf("%s is %s%s %s", title, f.timesAs(f.Effect, true), after("as"), f.interval(between(times(f.Low), times(f.High), "")))
	case f.Ratio && f.Effect > 0 && f.Effect <= 1/manyTimes:
		return fmt.Sprintf("%s is %s%s %s", title, f.timesAs(1/f.Effect, false), after("as"), f.interval(between(times(1/f.High), times(1/f.Low), "")))
	}
	size, low, high, write := f.shown(f.Effect), f.shown(f.Low), f.shown(f.High), digits
	if size < 0 {
		size, low, high = -size, -high, -low
		if f.Ratio {
			write = lessBy
		}
	}
	return fmt.Sprintf("%s is %s%s %s%s %s", title, write(size), f.suffix(), f.Adjective(), after("than"), f.interval(between(write(low), write(high), f.suffix())))
}

// Since begins what a sentence says of when something changed. SinceSecond and SinceMinute are
// the layouts of all of it but the interval.
const (
	Since       = "since "
	SinceSecond = Since + "2006-01-02 15:04:05 UTC"
	SinceMinute = Since + "2006-01-02 15:04 UTC"
)

// ofNow is what a sentence of the present says before a figure.
var ofNow = regexp.MustCompile(`([ \x{a0}])is([ \x{a0}]\d)`)

// Past returns the sentence of a finding that is over: p99 of shop was 2.8 times as slow.
func Past(sentence string) string { return ofNow.ReplaceAllString(sentence, "${1}was${2}") }

// Differs returns the verb of a sentence: a figure changed, or differs between two sides that
// have names.
func Differs(sides string) string {
	if sides == "" {
		return "changed"
	}
	return "differs between " + sides
}

// timesAs writes a ratio of 1 or more between two values: 2.7 times as slow.
func (f Figure) timesAs(ratio float64, rose bool) string {
	as := [2]string{"low", "high"}
	if f.Kind == Time {
		as = [2]string{"fast", "slow"}
	}
	word := as[0]
	if rose {
		word = as[1]
	}
	return times(ratio) + " times as " + word
}

// Adjective is the verdict behind "is 3 %".
func (f *Finding) Adjective() Verdict {
	switch f.Verdict {
	case MoreErrors:
		return Higher
	case FewerErrors:
		return Lower
	}
	return f.Verdict
}

// betweenText names the two values between which a quantile jumps, for few requests take a time
// between them, and says what the share of the upper ones did: that tells whether there was a
// change, and how large, where the ratio of the quantile does not.
func (f *Finding) betweenText(differs string) string {
	b := f.Between
	share := Finding{Figure: Figure{Kind: Errors}, Low: float64(b.Low), High: float64(b.High), Level: f.Level, Noise: math.NaN()}
	low, high := figure.Value(float64(b.Lower), f.Unit), figure.Value(float64(b.Upper), f.Unit)
	from, to := figure.Percent(float64(b.A)), figure.Percent(float64(b.B))
	went := fmt.Sprintf("the share near %s", high)
	switch moved := Moved(f.Verdict) || f.Verdict == Drifts; {
	case !moved:
		went = fmt.Sprintf("no evidence that %s %s, %s and %s", went, differs, from, to)
	case f.Against == "" && f.Sides == "":
		went += fmt.Sprintf(" went from %s to %s", from, to)
	default:
		went += fmt.Sprintf(" %s, %s and %s", differs, from, to)
	}
	if f.Verdict == Drifts {
		went += ", which may be drift"
	}
	return fmt.Sprintf("jumps between about %s and about %s, with little between: %s %s", low, high, went, share.interval(share.ends()))
}

// interval puts the ends of the interval into brackets, with the noise floor.
func (f *Finding) interval(ends string) string {
	s := fmt.Sprintf("(%s interval %s", figure.Percent(f.Level), ends)
	switch {
	case math.IsNaN(f.Noise):
	case math.IsInf(f.Noise, 0):
		s += "; noise floor not known"
	default:
		s += "; noise floor ±" + f.MarginText(f.Noise)
	}
	return s + ")"
}

// ends writes an interval that may hold none, with signs. Points are named once.
func (f *Finding) ends() string {
	low, high := f.signed(f.Low), f.signed(f.High)
	if !f.Ratio && f.Kind == Errors {
		if low == high {
			return low
		}
		low = strings.TrimSuffix(low, f.suffix())
	}
	return low + " … " + high
}

func (f *Finding) signed(effect float64) string {
	v := f.shown(effect)
	switch d := digits(math.Abs(v)); {
	case d == "":
		return "unknown"
	case d == "0":
		return "0" + f.suffix()
	case v < 0:
		return "−" + d + f.suffix()
	default:
		return "+" + d + f.suffix()
	}
}

// manyTimes is from where on what is left of a time says less in per cent, which
// all end at 100, than in how many times as fast it is.
const manyTimes = 20.0

func digits(v float64) string { return figure.Digits(v) }

// times writes a ratio: of thousands two significant digits, in groups of three.
func times(v float64) string {
	if !(v >= 999.5) || math.IsInf(v, 0) {
		return digits(v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return figure.Rounded(math.Round(v/unit) * unit)
}

// lessBy writes per cent that something is less by: 99.98 is not 100, for then
// nothing would be left.
func lessBy(v float64) string {
	if v > 99 && v < 100 {
		decimals := min(6, 1+int(math.Floor(-math.Log10(100-v)+1e-9)))
		if s := strconv.FormatFloat(v, 'f', decimals, 64); !strings.HasPrefix(s, "100") {
			return strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
	}
	return digits(v)
}

func between(low, high, unit string) string { return figure.Between(low, high, unit) }
