package probe

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"tailscope/internal/guard/check/event"
)

// maxPerf bounds the performance data that is kept of one run: each is a series.
const maxPerf = 100

// parseOutput reads what a plugin wrote, after the Monitoring Plugins Development
// Guidelines, section 2, and the Nagios plugin API: a line of text, after a bar
// performance data; then more text, and after another bar more performance data
// to the end. Text is the first line's. Performance data that cannot be read is
// left out.
func parseOutput(out string) (text string, perf []event.Perf) {
	first, rest, _ := strings.Cut(out, "\n")
	text, data, _ := strings.Cut(first, "|")
	_, more, _ := strings.Cut(rest, "|")
	return strings.TrimSpace(text), parsePerf(data + " " + strings.ReplaceAll(more, "\n", " "))
}

// parsePerf reads performance data: 'label'=value[UOM];[warn];[crit];[min];[max],
// parted by spaces. A quote within a quoted label is doubled. A value U is NaN:
// the plugin could not tell it.
func parsePerf(s string) []event.Perf {
	var all []event.Perf
	for len(all) < maxPerf {
		s = strings.TrimLeft(s, " \t\r")
		if s == "" {
			return all
		}
		label, rest, ok := perfLabel(s)
		data, next := rest, ""
		if i := strings.IndexAny(rest, " \t\r"); i >= 0 {
			data, next = rest[:i], rest[i:]
		}
		s = next
		if !ok {
			continue
		}
		if p, ok := perfValue(data); ok {
			p.Label = label
			all = append(all, p)
		}
	}
	return all
}

// perfLabel reads a label and its equals sign. If there is none, rest is what
// follows the word that is not a label.
func perfLabel(s string) (label, rest string, ok bool) {
	if s[0] != '\'' {
		end := strings.IndexAny(s, "= \t\r")
		if end <= 0 || s[end] != '=' {
			return "", s, false
		}
		return s[:end], s[end+1:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '\'':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '\'':
			i++
			b.WriteByte('\'')
		case i+1 < len(s) && s[i+1] == '=' && b.Len() > 0:
			return b.String(), s[i+2:], true
		default:
			return "", s[i+1:], false
		}
	}
	return "", "", false
}

var perfNumber = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`)

func perfValue(s string) (event.Perf, bool) {
	p := event.Perf{Warning: math.NaN(), Critical: math.NaN(), Low: math.NaN(), High: math.NaN()}
	fields := strings.Split(s, ";")
	text := perfNumber.FindString(fields[0])
	switch {
	case text != "":
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return p, false
		}
		p.Value, p.Unit = v, fields[0][len(text):]
		if strings.ContainsAny(p.Unit, "0123456789,.'\"") {
			return p, false // 1,5 or 1.2.3: not what it seems to be
		}
	case fields[0] == "U":
		p.Value = math.NaN()
	default:
		return p, false
	}
	for i, to := range []*float64{&p.Warning, &p.Critical} {
		if len(fields) > i+1 {
			if r, err := parseRange(fields[i+1]); err == nil {
				*to = r.outer()
			}
		}
	}
	for i, to := range []*float64{&p.Low, &p.High} {
		if len(fields) > i+3 {
			if v, err := strconv.ParseFloat(fields[i+3], 64); err == nil && !math.IsInf(v, 0) {
				*to = v
			}
		}
	}
	return p, true
}

// valueRange is a range of the Monitoring Plugins Development Guidelines, section
// 2.5: 10 is 0 to 10, 10: has no end, ~:5 no start, and a value outside is bad,
// ends being inside; @10:20 turns it round.
type valueRange struct {
	Start, End float64 // closed; may be infinite
	Inside     bool    // a value inside is bad
}

func parseRange(s string) (valueRange, error) {
	r := valueRange{Start: 0, End: math.Inf(1)}
	text, inside := strings.CutPrefix(s, "@")
	r.Inside = inside
	start, end, two := strings.Cut(text, ":")
	if !two {
		start, end = "", text
	}
	var err error
	bound := func(s string, to *float64) {
		v, e := strconv.ParseFloat(s, 64)
		if e != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			err = fmt.Errorf("%q is not a range", s)
			return
		}
		*to = v
	}
	switch {
	case start == "~":
		r.Start = math.Inf(-1)
	case start != "":
		bound(start, &r.Start)
	}
	if end != "" || !two {
		bound(end, &r.End)
	}
	if err == nil && r.Start > r.End {
		err = fmt.Errorf("%q is not a range: it ends before it starts", s)
	}
	return r, err
}

// bad reports whether a plugin alerts on v.
func (r valueRange) bad(v float64) bool { return (v >= r.Start && v <= r.End) == r.Inside }

// outer is the bound that rising values meet: the end of what is good, or where
// what is bad begins; the other bound where that one is not a number; NaN if
// neither is.
func (r valueRange) outer() float64 {
	first, second := r.End, r.Start
	if r.Inside {
		first, second = second, first
	}
	for _, v := range []float64{first, second} {
		if !math.IsInf(v, 0) {
			return v
		}
	}
	return math.NaN()
}
