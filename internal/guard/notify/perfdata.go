package notify

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/event"
)

// lateAfter is the age from which a result's text has the time of measurement: NSCA's server takes
// the time of arrival.
const lateAfter = 30 * time.Second

// pluginOutput returns a result as a Nagios plugin prints it: a line of text, a bar,
// performance data. It has at most most bytes; the text is cut first.
func pluginOutput(r *event.Result, most int, late time.Duration) string {
	text := resultText(r)
	if late > lateAfter {
		text += " (measured " + r.Time.UTC().Format("2006-01-02 15:04:05Z") + ")"
	}
	text = clean(text, "|")
	var perf strings.Builder
	for _, p := range perfdata(r) {
		if perf.Len()+len(p)+1 > most-min(len(text), most/4)-3 {
			break
		}
		perf.WriteByte(' ')
		perf.WriteString(p)
	}
	if perf.Len() == 0 {
		return truncate(text, most)
	}
	return truncate(text, most-perf.Len()-2) + " |" + perf.String()
}

// resultText returns one line for people: the measurement's text, or the value beside
// its threshold.
func resultText(r *event.Result) string {
	var b strings.Builder
	b.WriteString(r.Level.String())
	switch {
	case r.Reading.Err != nil:
		b.WriteString(" - ")
		b.WriteString(r.Reading.Err.Error())
	case r.Reading.Null || isNaN(r.Reading.Value):
		b.WriteString(" - no value")
	default:
		b.WriteString(" - ")
		b.WriteString(figure.Quantity(r.Reading.Value, r.Unit))
	}
	if t := r.Bands.Threshold; !isNaN(t) {
		b.WriteString(", threshold ")
		b.WriteString(figure.Quantity(t, r.Unit))
		if r.Bands.Rule != "" {
			b.WriteString(" by ")
			b.WriteString(r.Bands.Rule)
		}
	}
	if r.Reading.Text != "" && r.Reading.Err == nil {
		b.WriteString(": ")
		b.WriteString(r.Reading.Text)
	}
	return b.String()
}

// perfdata returns the value with its ranges, then threshold, warning and critical as
// data of their own, so that they can be drawn, then the data of a command.
// https://nagios-plugins.org/doc/guidelines.html#AEN200
func perfdata(r *event.Result) []string {
	var list []string
	unit := figure.PluginUnit(r.Unit)
	b := r.Bands
	if !r.Reading.Null && finite(r.Reading.Value) {
		list = append(list, "value="+formatNumber(r.Reading.Value)+unit+";"+perfRange(b.LowWarning, b.HighWarning)+";"+perfRange(b.LowCritical, b.HighCritical))
	}
	for _, n := range bandNames(b) {
		list = append(list, n.name+"="+formatNumber(n.value)+unit)
	}
	for _, p := range r.Reading.Perf {
		if !finite(p.Value) {
			continue
		}
		s := perfLabel(p.Label) + "=" + formatNumber(p.Value) + figure.PluginUnit(p.Unit) +
			";" + bound(p.Warning) + ";" + bound(p.Critical) + ";" + bound(p.Low) + ";" + bound(p.High)
		list = append(list, strings.TrimRight(s, ";"))
	}
	return list
}

type namedBand struct {
	name  string
	value float64
}

// bandNames returns the bounds that are set: threshold, warning and critical, or with
// bounds on either side low_warning, high_warning and so on.
func bandNames(b event.Bands) []namedBand {
	var list []namedBand
	add := func(name string, v float64) {
		if finite(v) {
			list = append(list, namedBand{name, v})
		}
	}
	add("threshold", b.Threshold)
	low := finite(b.LowWarning) || finite(b.LowCritical)
	high := finite(b.HighWarning) || finite(b.HighCritical)
	if low && high {
		add("low_warning", b.LowWarning)
		add("low_critical", b.LowCritical)
		add("high_warning", b.HighWarning)
		add("high_critical", b.HighCritical)
		return list
	}
	add("warning", b.LowWarning)
	add("warning", b.HighWarning)
	add("critical", b.LowCritical)
	add("critical", b.HighCritical)
	return list
}

// perfRange returns the range of good values: low:high, low: or ~:high.
func perfRange(low, high float64) string {
	switch {
	case finite(low) && finite(high):
		return formatNumber(low) + ":" + formatNumber(high)
	case finite(low):
		return formatNumber(low) + ":"
	case finite(high):
		return "~:" + formatNumber(high)
	}
	return ""
}

func bound(v float64) string {
	if !finite(v) {
		return ""
	}
	return formatNumber(v)
}

// formatNumber writes numbers without an exponent, which readers of Nagios' data do not
// know.
func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// formatShort returns a number for people.
func formatShort(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func perfLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\'' || r == '=' {
			return '_'
		}
		return r
	}, clean(s, "|"))
	if strings.ContainsAny(s, " ;") || s == "" {
		return "'" + s + "'"
	}
	return s
}

// clean returns s as one line: control characters become spaces, and so do those of
// more. Bytes that are not UTF-8 become the replacement character.
func clean(s, more string) string {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune(more, r) }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if bad(r) && r != utf8.RuneError {
			return ' '
		}
		return r
	}, s))
}

// truncate shortens s to at most n bytes, between characters.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); n-- {
	}
	return s[:n]
}
