package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"tailscope/api"
	"tailscope/internal/figure"
	"unicode/utf8"
)

// OrNone returns s, or (none) if it is empty.
func OrNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// Ratio writes two decimals.
func Ratio(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(float64(f), 'f', 2, 64)
}

// Score writes an Apdex with two decimals. Fewer than all satisfied never read as all, nor some as none.
func Score(f api.Float) string {
	if f > 0 && f < 1 {
		f = min(max(f, 0.01), 0.99)
	}
	return Ratio(f)
}

// Pad right-aligns s in n characters.
func Pad(s string, n int) string {
	return strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0)) + s
}

// SortedQuantiles returns the keys of a quantile map in rising order.
func SortedQuantiles[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return keys
}

// Plural writes a count of a noun: no step, 1 step, 3 steps.
func Plural(n int, noun string) string {
	if n == 0 {
		return "no " + noun
	}
	return figure.Counted(n, noun)
}

// Bytes writes 812 MB.
func Bytes(n int64) string {
	f, unit := float64(n), 0
	for f >= 1000 && unit < 4 {
		f /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", f, [...]string{"B", "kB", "MB", "GB", "TB"}[unit])
}

// At writes a quantile of a latency.
func At(l api.BenchLatency, q string) string { return SecondsUnit.Value(l.Quantiles[q]) }

// IsNaN reports whether a figure is not known.
func IsNaN(f api.Float) bool { return math.IsNaN(float64(f)) }
