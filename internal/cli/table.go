package cli

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/figure"
)

// printable writes what a terminal would obey or not show as Go would: \x1b, \n.
// Names come from whoever sends spans.
func printable(s string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if plain(r) {
			b.WriteString(s[:n])
		} else {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// table is rows of text under a header. Columns named in right are numbers.
type table struct {
	header []string
	right  []bool
	rows   [][]string
}

func (t *table) column(name string, right bool) {
	t.header = append(t.header, name)
	t.right = append(t.right, right)
}

// write prints the columns two spaces apart.
func (t *table) write(w io.Writer) error {
	width := make([]int, len(t.header))
	lines := [][]string{t.header}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		lines = append(lines, cells)
	}
	for _, row := range lines {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range lines {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if t.right[i] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCSV(w io.Writer, header []string, rows [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	return out.WriteAll(rows)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// raw is a number as scripts want it: seconds, in full; empty if there is none.
func raw(f api.Float) string {
	if v := float64(f); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// unit is how values of a family are written for people.
type unit uint8

const (
	plain unit = iota
	secondsUnit
	bytesUnit
)

func unitOf(family string) unit {
	switch {
	case strings.HasSuffix(family, "_seconds"):
		return secondsUnit
	case strings.HasSuffix(family, "_bytes"):
		return bytesUnit
	}
	return plain
}

// value writes a number with three significant digits and its unit: 850µs,
// 12.3ms, 1.23s, 2m05s.
func (u unit) value(f api.Float) string {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	switch u {
	case secondsUnit:
		return formatSeconds(v)
	case bytesUnit:
		for _, s := range []struct {
			n    string
			size float64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if math.Abs(v) >= s.size {
				return digits(v/s.size) + s.n
			}
		}
		return digits(v) + "B"
	}
	return digits(v)
}

func formatSeconds(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0s"
	case a < 0.9995e-6:
		return digits(v*1e9) + "ns"
	case a < 0.9995e-3:
		return digits(v*1e6) + "µs"
	case a < 0.9995:
		return digits(v*1e3) + "ms"
	case a < 119.95:
		return digits(v) + "s"
	}
	return figure.Duration(time.Duration(v * 1e9).Round(time.Second))
}

// digits writes v with three significant digits, without an exponent where
// people would not write one.
func digits(v float64) string {
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case a >= 1e15 || a < 1e-6:
		return strconv.FormatFloat(v, 'e', 2, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	decimals := 2 - int(math.Floor(math.Log10(a)))
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// percent writes a share; small ones keep a significant digit or two.
func percent(f api.Float) string {
	v := 100 * float64(f)
	switch {
	case math.IsNaN(v):
		return "-"
	case v == 0 || v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + "%"
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64) + "%"
	}
	return strconv.FormatFloat(v, 'g', 2, 64) + "%"
}

// quantileName writes 0.99 as p99 and 0.999 as p99.9.
func quantileName(q string) string {
	f, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return q
	}
	return "p" + strconv.FormatFloat(math.Round(f*1e8)/1e6, 'f', -1, 64)
}
