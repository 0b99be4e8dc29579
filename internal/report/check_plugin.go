package report

import (
	"math"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// PluginLine returns a check as a Nagios plugin prints it: the level, the value with its
// bounds, a bar, performance data. The bounds are written from
// the threshold outwards, as in 11000 > W > 9900 > C > 7700.
func PluginLine(c *api.Check) string {
	var b strings.Builder
	level := c.Level
	if level == "" {
		level = c.State
	}
	b.WriteString(level + " " + strings.ReplaceAll(c.ID, "|", "/"))
	if !math.IsNaN(float64(c.Value)) {
		b.WriteString(" = " + pluginValue(c.Value, c.Unit))
	} else {
		b.WriteString(" = null")
	}
	if text := bandsText(c.Bands, c.Unit); text != "" {
		b.WriteString(" (" + text + ")")
	}
	if c.Text != "" && c.Text != plainNumber(float64(c.Value)) && c.Text != figure.Quantity(float64(c.Value), c.Unit) {
		b.WriteString(": " + strings.ReplaceAll(c.Text, "|", "/"))
	}
	if math.IsNaN(float64(c.Value)) {
		return b.String()
	}
	b.WriteString(" | " + perfLabel(c.ID) + "=" + perfNumber(c.Value) + figure.PluginUnit(c.Unit))
	perf := ";" + perfRange(c.Bands.LowWarning, c.Bands.HighWarning) + ";" + perfRange(c.Bands.LowCritical, c.Bands.HighCritical)
	b.WriteString(strings.TrimRight(perf, ";"))
	if known(c.Bands.Threshold) {
		b.WriteString(" threshold=" + perfNumber(c.Bands.Threshold) + figure.PluginUnit(c.Unit))
	}
	return b.String()
}

func known(f api.Float) bool { return !math.IsNaN(float64(f)) }

// bandsText writes bounds from the threshold outwards, NA if there are none.
func bandsText(b api.CheckBands, unit string) string {
	low := known(b.LowWarning) || known(b.LowCritical)
	high := known(b.HighWarning) || known(b.HighCritical)
	if !low && !high {
		if known(b.Threshold) {
			return boundText(b.Threshold, unit)
		}
		return "NA"
	}
	var parts []string
	add := func(name string, f api.Float) {
		if known(f) {
			parts = append(parts, name, boundText(f, unit))
		}
	}
	number := func(f api.Float) {
		if known(f) {
			parts = append(parts, boundText(f, unit))
		}
	}
	switch {
	case low && high: // from the lowest to the highest
		for _, f := range []struct {
			bound api.Float
			name  string
		}{{b.LowCritical, "C"}, {b.LowWarning, "W"}} {
			if known(f.bound) {
				parts = append(parts, boundText(f.bound, unit), f.name)
			}
		}
		number(b.Threshold)
		add("W", b.HighWarning)
		add("C", b.HighCritical)
		return strings.Join(parts, " < ")
	case low:
		number(b.Threshold)
		add("W", b.LowWarning)
		add("C", b.LowCritical)
		return strings.Join(parts, " > ")
	}
	number(b.Threshold)
	add("W", b.HighWarning)
	add("C", b.HighCritical)
	return strings.Join(parts, " < ")
}

// perfRange returns the range outside of which a value is bad, as plugins write it.
func perfRange(low, high api.Float) string {
	switch {
	case known(low) && known(high):
		return perfNumber(low) + ":" + perfNumber(high)
	case known(low):
		return perfNumber(low) + ":"
	case known(high):
		return "~:" + perfNumber(high)
	}
	return ""
}

func perfLabel(s string) string {
	s = strings.NewReplacer("=", "_", "|", "/").Replace(s)
	if strings.ContainsAny(s, " '\"") {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return s
}

// perfNumber writes a number with digits, a dot and a minus alone, as the plugin
// guidelines ask: readers of performance data do not know exponents. Twelve digits leave
// out errors of arithmetic.
func perfNumber(f api.Float) string {
	v, err := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', 12, 64), 64)
	if err != nil {
		v = float64(f)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// pluginValue writes a value as people read it where its unit is known, else its number and unit as plugins do.
func pluginValue(f api.Float, unit string) string {
	if figure.UnitOf(unit) != "" {
		return boundText(f, unit)
	}
	return boundText(f, unit) + unit
}

// boundText writes a bound as pluginValue writes its value, but for a unit that only stands behind the value.
func boundText(f api.Float, unit string) string {
	if figure.UnitOf(unit) != "" {
		return figure.Quantity(float64(f), unit)
	}
	return plainNumber(float64(f))
}

// plainNumber writes a number in full, up to its significant digits.
func plainNumber(v float64) string {
	s := strconv.FormatFloat(v, 'g', 6, 64)
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		s = strconv.FormatFloat(v, 'f', -1, 64)
	}
	return s
}
