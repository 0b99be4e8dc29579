package compare

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/series"
	"tailscope/stat"
)

// subject is what is compared, in words: GET /search of shop for acme.
func (c *comparison) subject() string {
	of := map[string]string{}
	var rest []string
	for _, m := range c.Matchers {
		switch m.Name {
		case series.LabelService, series.LabelOperation, series.LabelTenant, series.LabelComponent:
			if m.Type == labels.MatchEqual && m.Value != "" && of[m.Name] == "" {
				of[m.Name] = m.Value
				continue
			}
		}
		rest = append(rest, m.String())
	}
	var words []string
	if c.kind != ofSpans {
		words = append(words, c.Family)
	}
	add := func(before, v string) {
		if v != "" {
			if len(words) > 0 && before != "" {
				v = before + " " + v
			}
			words = append(words, v)
		}
	}
	if v := of[series.LabelComponent]; v != "" && c.Family == series.SpanSelf {
		add("", v+" time")
	} else {
		add("", v)
	}
	add("of", of[series.LabelOperation])
	add("of", of[series.LabelService])
	if len(words) == 0 {
		words = append(words, "all requests")
	}
	add("for", of[series.LabelTenant])
	if len(rest) > 0 {
		add("where", strings.Join(rest, ", "))
	}
	return strings.Join(words, " ")
}

// title is a measure in a sentence.
func (m measure) title(of string) string {
	switch m.name {
	case meanName:
		return "the mean of " + of
	case errorsName:
		return "the error ratio of " + of
	case apdexName:
		return "Apdex of " + of
	case rateName:
		return "the rate of " + of
	case eachName:
		return "the mean of " + of + " per request"
	}
	return m.name + " of " + of
}

// sentence says what a figure amounts to.
func (c *comparison) sentence(m measure, of string, f *api.CompareFigure) string {
	title, level := m.title(of), percent(c.Level)
	low, high := m.change100(float64(f.Low)), m.change100(float64(f.High))
	switch f.Verdict {
	case TooLittle:
		s := "too little data to judge " + title + ": " + f.Short
		return s + c.needs(f, "; about ", " a side may do")
	case Same:
		return fmt.Sprintf("%s is the same within %s (%s interval %s to %s)", title, m.margin100(c.Within), level, m.signed(low), m.signed(high))
	case NoEvidence:
		s := fmt.Sprintf("no evidence that %s changed (%s interval %s to %s)", title, level, m.signed(low), m.signed(high))
		return s + c.needs(f, "; a change of "+m.margin100(c.Within)+" needs about ", " a side")
	}
	ratio := float64(f.Effect)
	if m.scale == stat.LogRatio && ratio >= 2 {
		form := "%s is %s times as high (%s interval %s)"
		if m.up == Slower {
			form = "%s takes %s times as long (%s interval %s)"
		}
		return fmt.Sprintf(form, title, times(ratio), level, between(times(float64(f.Low)), times(float64(f.High)), ""))
	}
	if m.scale == stat.LogRatio && ratio > 0 && ratio <= 1/manyTimes {
		form := "%s is %s times lower (%s interval %s)"
		if m.up == Slower {
			form = "%s is %s times as fast (%s interval %s)"
		}
		return fmt.Sprintf(form, title, times(1/ratio), level, between(times(1/float64(f.High)), times(1/float64(f.Low)), ""))
	}
	size, write := m.change100(ratio), digits
	if size < 0 {
		size, low, high = -size, -high, -low
		if m.scale == stat.LogRatio {
			write = lessBy
		}
	}
	return fmt.Sprintf("%s is %s%s %s (%s interval %s)", title, write(size), m.suffix(), f.Verdict, level, between(write(low), write(high), m.suffix()))
}

// manyTimes is from where on what is left of a time says less in per cent, which
// all end at 100, than in how many times as fast it is.
const manyTimes = 20.0

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

func between(low, high, unit string) string {
	switch {
	case high == "":
		return low + unit + " or more"
	case low == "":
		return "up to " + high + unit
	}
	return low + "–" + high + unit
}

// needs says how much more data there should be, if that is known and is more.
func (c *comparison) needs(f *api.CompareFigure, before, after string) string {
	if v := float64(f.Needed); math.IsNaN(v) || v <= 1 {
		return ""
	}
	return before + duration(float64(f.NeededSeconds)) + after
}

// change100 is an effect in the units people read: per cent of change, points
// of a share, or a score.
func (m measure) change100(effect float64) float64 {
	switch {
	case m.scale == stat.LogRatio:
		return 100 * (effect - 1)
	case m.name == errorsName:
		return 100 * effect
	}
	return effect
}

func (m measure) suffix() string {
	switch {
	case m.scale == stat.LogRatio:
		return " %"
	case m.name == errorsName:
		return " points"
	case m.unit == "seconds":
		return " s"
	case m.unit == "bytes":
		return " bytes"
	}
	return ""
}

func (m measure) margin100(within float64) string {
	if m.scale == stat.LogRatio {
		return percent(within)
	}
	return digits(m.change100(m.margin)) + m.suffix()
}

func (m measure) signed(v float64) string {
	switch d := digits(math.Abs(v)); {
	case d == "":
		return "unknown"
	case d == "0":
		return "0" + m.suffix()
	case v < 0:
		return "−" + d + m.suffix()
	default:
		return "+" + d + m.suffix()
	}
}

func percent(share float64) string { return digits(100*share) + " %" }

// digits writes two significant digits, or all before the point; nothing for
// what is not a number.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ""
	case a < 1e-6:
		return "0"
	case a >= 9.95:
		if a < 99.95 && math.Abs(v-math.Round(v)) > 0.0499 && a > 99 {
			return strconv.FormatFloat(v, 'f', 1, 64) // 99.9 is not 100
		}
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'f', 1-int(math.Floor(math.Log10(a))), 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// duration writes seconds as people plan: 40 s, 25 min, 3 h, 2 d.
func duration(seconds float64) string {
	switch {
	case seconds < 90:
		return digits(math.Ceil(seconds)) + " s"
	case seconds < 90*60:
		return digits(math.Ceil(seconds/60)) + " min"
	case seconds < 36*3600:
		return digits(math.Ceil(seconds/3600)) + " h"
	}
	return digits(math.Ceil(seconds/86400)) + " days"
}

func quote(s string) string { return strconv.Quote(s) }

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// either matches any of the values.
func either(values ...string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

func clock(t int64) string { return time.Unix(t, 0).UTC().Format("2006-01-02 15:04") }
