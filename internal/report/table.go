package report

import (
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

// Printable escapes control and invisible characters as Go does: \x1b, \n. Names come
// from whoever sends spans.
func Printable(s string) string {
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

// Table is rows of text under a header. Columns named in right are numbers.
type Table struct {
	Header []string
	Right  []bool
	Rows   [][]string

	Total  bool         // the last row is all of those before
	Faint  map[int]bool // rows that say little
	Shares [][3]float64 // of each row, drawn by a page behind a column
	Behind int
}

// Columns returns a table without rows. A > before a name sets its column to the right,
// as numbers are.
func Columns(names ...string) *Table {
	t := &Table{}
	for _, name := range names {
		name, right := strings.CutPrefix(name, ">")
		t.Column(name, right)
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Column adds a column.
func (t *Table) Column(name string, right bool) {
	t.Header = append(t.Header, name)
	t.Right = append(t.Right, right)
}

// Write prints the columns two spaces apart.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, len(t.Header))
	lines := [][]string{t.Header}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Printable(cell)
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
			if t.Right[i] {
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

// Raw writes a number for scripts: seconds, in full; empty if it is not known.
func Raw(f api.Float) string {
	if v := float64(f); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// Unit writes values of a family for people.
type Unit uint8

const (
	Number Unit = iota
	SecondsUnit
	bytesUnit
)

func UnitOf(family string) Unit {
	switch {
	case strings.HasSuffix(family, "_seconds"):
		return SecondsUnit
	case strings.HasSuffix(family, "_bytes"):
		return bytesUnit
	}
	return Number
}

// Value writes a number with three significant digits and its unit: 850µs,
// 12.3ms, 1.23s, 2m05s.
func (u Unit) Value(f api.Float) string {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	switch u {
	case SecondsUnit:
		return Seconds(v)
	case bytesUnit:
		for _, s := range []struct {
			n    string
			size float64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if math.Abs(v) >= s.size {
				return Digits(v/s.size) + s.n
			}
		}
		return Digits(v) + "B"
	}
	return Digits(v)
}

func Seconds(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0s"
	case a < 0.9995e-6:
		return Digits(v*1e9) + "ns"
	case a < 0.9995e-3:
		return Digits(v*1e6) + "µs"
	case a < 0.9995:
		return Digits(v*1e3) + "ms"
	case a < 119.95:
		return Digits(v) + "s"
	}
	return figure.Duration(time.Duration(v * 1e9).Round(time.Second))
}

// Digits writes v with three significant digits, without an exponent where
// people would not write one.
func Digits(v float64) string {
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

// Percent writes a share; small ones keep a significant digit or two.
func Percent(f api.Float) string {
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

// QuantileName writes 0.99 as p99 and 0.999 as p99.9.
func QuantileName(q string) string {
	f, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return q
	}
	return figure.Percentile(f)
}
