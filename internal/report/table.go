package report

import (
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// tableWidth is the width of a line of a table, in characters.
const tableWidth = 120

// Write prints the columns two spaces apart, in lines of at most tableWidth. Names that are too
// long end in …, and sentences go on in the next line. Figures are whole: if their columns do not
// fit beside each other, the rest stand below, beside the first columns again.
func (t *Table) Write(w io.Writer) error {
	columns := make([]column, len(t.Header))
	for i, name := range t.Header {
		cells := []string{name}
		for _, row := range t.Rows {
			cell := ""
			if i < len(row) {
				cell = Printable(row[i])
			}
			cells = append(cells, cell)
		}
		columns[i] = newColumn(cells, t.Right[i])
	}
	narrow(columns)
	lead := columns[:leading(columns)]
	var b strings.Builder
	for rest := columns; len(rest) > 0; {
		n := fitting(rest, len(lead))
		writeColumns(&b, rest[:n])
		if rest = rest[n:]; len(rest) > 0 {
			rest = slices.Concat(lead, rest)
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// column is a column of a table with the width that it gets.
type column struct {
	cells        []string // the heading, then those of the rows
	right        bool
	prose        bool // sentences, which go on in the next line
	width, least int
}

const (
	sentenceWords = 5  // cells of so many are sentences
	leastName     = 16 // width to which a column of names is narrowed
	leastSentence = 24
)

// letters matches what figures, intervals and times do not have.
var letters = regexp.MustCompile(`\pL{4}`)

func newColumn(cells []string, right bool) column {
	c := column{cells: cells, right: right}
	named, whole := false, cells[0] == "id" // ids and addresses are to be copied
	for i, cell := range cells {
		c.width = max(c.width, utf8.RuneCountInString(cell))
		named, whole = named || i > 0 && letters.MatchString(cell), whole || strings.Contains(cell, "://")
		c.prose = c.prose || i > 0 && len(strings.Fields(cell)) >= sentenceWords
	}
	switch c.least = c.width; {
	case right || !named || whole:
		c.prose = false
	case c.prose:
		c.least = min(c.width, max(leastSentence, utf8.RuneCountInString(cells[0])))
	default:
		c.least = min(c.width, max(leastName, utf8.RuneCountInString(cells[0])))
	}
	return c
}

// narrow takes width from the widest columns of names and sentences until all fit beside each
// other. If they cannot, columns only leave room for another beside them.
func narrow(columns []column) {
	total, least := -2, -2
	for _, c := range columns {
		total, least = total+c.width+2, least+c.least+2
	}
	if least > tableWidth {
		for i := range columns {
			c := &columns[i]
			most := tableWidth / 3
			if i > 0 {
				most = tableWidth/2 - 2
			}
			c.width = max(c.least, min(c.width, most))
		}
		return
	}
	for ; total > tableWidth; total-- {
		widest := -1
		for i, c := range columns {
			if c.width > c.least && (widest < 0 || c.width > columns[widest].width) {
				widest = i
			}
		}
		columns[widest].width--
	}
}

// leading returns how many of the first columns tell rows apart, of names alone and of at most
// half of a line; at least one.
func leading(columns []column) int {
	width := columns[0].width
	for n := 1; ; n++ {
		seen := map[string]bool{}
		for row := range columns[0].cells {
			key := ""
			for _, c := range columns[:n] {
				key += c.cells[row] + "\x00"
			}
			seen[key] = true
		}
		if len(seen) == len(columns[0].cells) || n == len(columns) || columns[n].right {
			return n
		}
		if width += 2 + columns[n].width; width > tableWidth/2 {
			return n
		}
	}
}

// fitting returns how many of the first columns fit beside each other, at least one more than
// lead.
func fitting(columns []column, lead int) int {
	total := -2
	for i, c := range columns {
		if total += c.width + 2; total > tableWidth && i > lead {
			return i
		}
	}
	return len(columns)
}

func writeColumns(b *strings.Builder, columns []column) {
	lines := make([][]string, len(columns))
	for row := range columns[0].cells {
		tallest := 0
		for i, c := range columns {
			lines[i] = c.lines(c.cells[row])
			tallest = max(tallest, len(lines[i]))
		}
		for n := range tallest {
			var line strings.Builder
			for i, c := range columns {
				cell := ""
				if n < len(lines[i]) {
					cell = lines[i][n]
				}
				if i > 0 {
					line.WriteString("  ")
				}
				if c.right {
					line.WriteString(strings.Repeat(" ", c.width-utf8.RuneCountInString(cell)) + cell)
				} else {
					line.WriteString(padRight(cell, c.width))
				}
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
}

// lines returns a cell as it fits the column.
func (c *column) lines(cell string) []string {
	if utf8.RuneCountInString(cell) <= c.width {
		return []string{cell}
	}
	if !c.prose {
		return []string{cut(cell, c.width)}
	}
	var out []string
	line := ""
	for _, w := range strings.Fields(cell) {
		w = cut(w, c.width)
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) <= c.width:
			line += " " + w
		default:
			out, line = append(out, line), w
		}
	}
	return append(out, line)
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

// Value writes a number with three significant digits and its unit, as figure.Value does.
func (u Unit) Value(f api.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case u == SecondsUnit:
		return figure.Seconds(v)
	case u == bytesUnit:
		return figure.Value(v, "bytes")
	default:
		return Digits(v)
	}
}

// Tick writes a bound that somebody chose, without zeros at its end.
func (u Unit) Tick(f api.Float) string {
	if u == SecondsUnit {
		return figure.Tick(float64(f))
	}
	return u.Value(f)
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

// Percent writes a share that is held against an objective: it has more digits than figure.Ratio, so
// that 1.01 % does not read as the 1 % that it exceeds.
func Percent(f api.Float) string {
	v := 100 * float64(f)
	switch {
	case math.IsNaN(v):
		return "-"
	case v == 0 || v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	case v >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(v, 'g', 2, 64) + " %"
}

// ratio writes a measured share as figure.Ratio does.
func ratio(f api.Float) string { return figure.Ratio(float64(f)) }

// QuantileName writes 0.99 as p99 and 0.999 as p99.9.
func QuantileName(q string) string {
	f, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return q
	}
	return figure.Percentile(f)
}
