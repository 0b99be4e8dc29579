package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/judge"
)

// Interval is a change, as a ratio, with its interval.
type Interval struct {
	Name             string
	Verdict          judge.Verdict
	Ratio, Low, High float64
	Text             string // what was found
}

// Intervals adds changes to a page, drawn around no change. Text has them in tables.
func (d *Document) Intervals(name string, all []Interval) {
	d.Chart(Chart{Name: name, Plot: whiskers(all)})
}

// ends writes an interval of two texts, as all of them are written: LOW … HIGH. An end that
// is not known is - and reads ?.
func ends(low, high string) string {
	if low == "-" && high == "-" {
		return "-"
	}
	if low == "-" {
		low = "?"
	}
	if high == "-" {
		high = "?"
	}
	return low + " … " + high
}

// effectEnds writes the interval of an effect by write, both ends in one notation: those of a
// ratio as factors, ×0.02 … ×3.1 or ÷50 … ÷17, if one of them is beyond per cent. An end that rounds to
// nothing keeps its side, so that an interval that leaves out no change is not seen to touch it.
func effectEnds(low, high api.Float, ratio bool, write func(api.Float) string) string {
	if ratio && (beyondPercent(float64(low)) || beyondPercent(float64(high))) {
		write = func(v api.Float) string {
			switch x := float64(v); {
			case math.IsNaN(x) || math.IsInf(x, 0) || x == 0:
				return "-"
			case high <= 1:
				return "÷" + Digits(1/x)
			default:
				return "×" + Digits(x)
			}
		}
	}
	end := func(v api.Float) string {
		text, away := write(v), float64(v)
		if ratio {
			away--
		}
		if rest, nothing := strings.CutPrefix(text, "±"); nothing && math.Abs(away) > 1e-9 {
			return map[bool]string{true: "−", false: "+"}[away < 0] + rest
		}
		return text
	}
	return ends(end(low), end(high))
}

// beyondPercent reports whether a ratio reads better as a factor.
func beyondPercent(v float64) bool { return v >= 10 && !math.IsInf(v, 0) || v > 0 && v <= 0.05 }

// mostWhiskers bounds the lines of a chart of changes.
const mostWhiskers = 40

// roundRatios lists the ticks of an axis of ratios, on both sides of no change.
var roundRatios = []float64{1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10}

// whiskers draws effects with their intervals around no change.
func whiskers(all []Interval) string {
	all = slices.DeleteFunc(all, func(e Interval) bool { return !(e.Ratio > 0) })
	all = first(all, mostWhiskers)
	if len(all) == 0 {
		return ""
	}
	span := math.Log(1.02)
	for _, e := range all {
		for _, v := range []float64{e.Ratio, e.Low, e.High} {
			if v > 0 && !math.IsInf(v, 0) {
				span = max(span, min(math.Abs(math.Log(v))*1.08, math.Log(16)))
			}
		}
	}
	s := newSVG(620, float64(len(all))*22+50, axis{-span, span, false}, axis{-0.5, float64(len(all)) - 0.5, false})
	s.left = 200
	edge := roundRatios[0]
	for _, r := range roundRatios {
		if math.Log(r) < 0.85*span {
			edge = r
		}
	}
	s.ticksX([]float64{-math.Log(edge), 0, math.Log(edge)}, func(v float64) string {
		if v == 0 {
			return "no change"
		}
		return "× " + strconv.FormatFloat(math.Exp(v), 'g', 3, 64)
	})
	for i, e := range all {
		y := float64(len(all) - 1 - i)
		class := ""
		switch e.Verdict {
		case judge.Faster, judge.FewerErrors:
			class = " good"
		case judge.Slower, judge.MoreErrors:
			class = " worse"
		}
		low, high := -span, span
		if e.Low > 0 {
			low = math.Log(e.Low)
		}
		if e.High > 0 && !math.IsInf(e.High, 0) {
			high = math.Log(e.High)
		}
		s.stroke("whisker"+class, low, y, high, y)
		s.dot("dot"+class, math.Log(e.Ratio), y, 4, string(e.Verdict)+": "+e.Text)
		name := []rune(e.Name)
		if len(name) > 30 {
			name = append(name[:29], '…')
		}
		s.text("tick end", s.left-8, s.py(y)+4, string(name))
	}
	return s.html("effects with their intervals: " + Plural(len(all), "row"))
}
