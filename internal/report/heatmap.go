package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/figure"
)

// HeatmapOptions configures a heatmap in a terminal: time from left to right, values from
// below to above, by the logarithm as the buckets are. With colours a line
// holds two rows (the upper and the lower half of a block); without, one row
// of characters that darken.
type HeatmapOptions struct {
	Width, Height int // of the whole picture in characters, without the legend
	Colors        bool
	Zone          *time.Location

	unit Unit
}

// ramp goes from few to many in the 256-colour palette; it climbs in
// lightness all the way, so that it also reads without colour vision.
var ramp = []int{60, 61, 97, 133, 169, 168, 204, 203, 209, 215, 221, 227}

// shades are the same without colours.
const shades = ".:-=+*#%@"

// Columns returns the number of steps that fit beside the axis.
func (p HeatmapOptions) Columns() int { return max(p.Width-AxisWidth, 10) }

// Rows returns the number of rows of buckets that the picture can show.
func (p HeatmapOptions) Rows() int {
	if p.Colors {
		return 2 * p.Height
	}
	return p.Height
}

// Heatmap returns a heatmap with the marks below it and a summary. CSV has each occupied
// cell.
func Heatmap(h *api.HeatmapResponse, p HeatmapOptions, marks []api.Mark, all []api.DistributionGroup) *Document {
	d := &Document{Name: "heatmap", Data: h}
	p.unit = UnitOf(h.Family)
	lines := p.draw(h, marks)
	if len(all) > 0 {
		lines = append(lines, strings.Repeat(" ", AxisWidth)+summary(all[0], h.Family, p.unit))
	}
	d.Picture(lines)
	var rows [][]string
	for _, c := range h.Columns {
		for i, row := range c.Rows {
			if row+1 < len(h.Bounds) {
				rows = append(rows, []string{unixSeconds(c.Start), Raw(h.Bounds[row]), Raw(h.Bounds[row+1]), whole(c.Counts[i])})
			}
		}
	}
	d.Sheet([]string{"start", "low", "high", "count"}, rows)
	return d
}

// summary writes a distribution in one line.
func summary(g api.DistributionGroup, family string, u Unit) string {
	what := " observations"
	if ofSpans(family) {
		what = " requests"
	}
	parts := []string{figure.Thousands(g.Count) + what, "mean " + u.Value(g.Mean)}
	for _, name := range SortedQuantiles(g.Quantiles) {
		parts = append(parts, QuantileName(name)+" "+u.Value(g.Quantiles[name]))
	}
	return strings.Join(append(parts, "max "+u.Value(g.Max)), "  ")
}

// draw returns the lines of the heatmap with its axes, the marks below and a legend.
func (p HeatmapOptions) draw(h *api.HeatmapResponse, marks []api.Mark) []string {
	var b strings.Builder
	grid, low, high := p.grid(h)
	// Lines end where their content does.
	endLine := func(line string) { b.WriteString(strings.TrimRight(line, " ") + "\n") }
	lines := len(grid)
	if p.Colors {
		lines = (len(grid) + 1) / 2
	}
	for line := range lines {
		// The topmost line comes first; row 0 is the lowest.
		var upper, lower []uint64
		var bound api.Float
		if p.Colors {
			top := 2*(lines-1-line) + 1
			lower = grid[top-1]
			bound = high[top-1]
			if top < len(grid) {
				upper, bound = grid[top], high[top]
			}
		} else {
			lower = grid[lines-1-line]
			bound = high[lines-1-line]
		}
		label := ""
		if line%4 == 0 || line == lines-1 {
			label = p.unit.Value(bound)
		}
		endLine(Pad(label, AxisWidth-1) + " " + p.line(upper, lower, h.MaxCell))
	}
	b.WriteString(Pad(p.unit.Value(low), AxisWidth-1) + " ")
	p.timeAxis(&b, h, marks)
	p.legend(&b, h)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// grid sorts the cells into rows of equal bucket counts, lowest first. It
// returns the lower bound of the lowest and the upper bound of each.
func (p HeatmapOptions) grid(h *api.HeatmapResponse) (grid [][]uint64, low api.Float, high []api.Float) {
	buckets := max(len(h.Bounds)-1, 1)
	per := (buckets + p.Rows() - 1) / p.Rows()
	n := (buckets + per - 1) / per
	grid = make([][]uint64, n)
	high = make([]api.Float, n)
	cols, stretch := p.steps(h), p.stretch(h)
	for i := range grid {
		grid[i] = make([]uint64, cols*stretch)
		if len(h.Bounds) > 0 {
			high[i] = h.Bounds[min((i+1)*per, len(h.Bounds)-1)]
		}
	}
	for _, c := range h.Columns {
		x := int((c.Start - h.Start) / h.Step)
		if x < 0 || x >= cols {
			continue
		}
		for i, row := range c.Rows {
			for k := range stretch {
				grid[row/per][x*stretch+k] += c.Counts[i]
			}
		}
	}
	if len(h.Bounds) > 0 {
		low = h.Bounds[0]
	}
	return grid, low, high
}

func (p HeatmapOptions) steps(h *api.HeatmapResponse) int {
	if h.Step <= 0 {
		return 0
	}
	return int((h.End - h.Start + h.Step - 1) / h.Step)
}

// stretch returns the number of characters of a step: more than one if slots are too long
// to fill the width.
func (p HeatmapOptions) stretch(h *api.HeatmapResponse) int {
	return max(p.Columns()/max(p.steps(h), 1), 1)
}

// line draws two rows, or without colours one.
func (p HeatmapOptions) line(upper, lower []uint64, most uint64) string {
	var b strings.Builder
	if !p.Colors {
		text := make([]byte, len(lower))
		for x, n := range lower {
			text[x] = ' '
			if n > 0 {
				text[x] = shades[level(n, most, len(shades))]
			}
		}
		return string(text)
	}
	fg, bg := -1, -1 // colours in force; -1 is the terminal's own
	for x := range lower {
		up, down := -1, -1
		if upper != nil && upper[x] > 0 {
			up = ramp[level(upper[x], most, len(ramp))]
		}
		if lower[x] > 0 {
			down = ramp[level(lower[x], most, len(ramp))]
		}
		// A half that is empty shows the terminal's own background, so the
		// other is drawn by the block that leaves it free.
		glyph, wantFG, wantBG := " ", -1, -1
		switch {
		case up >= 0 && down >= 0:
			glyph, wantFG, wantBG = "▀", up, down
		case up >= 0:
			glyph, wantFG = "▀", up
		case down >= 0:
			glyph, wantFG = "▄", down
		}
		if wantBG != bg {
			if wantBG < 0 {
				b.WriteString("\x1b[49m")
			} else {
				fmt.Fprintf(&b, "\x1b[48;5;%dm", wantBG)
			}
			bg = wantBG
		}
		if wantFG >= 0 && wantFG != fg {
			fmt.Fprintf(&b, "\x1b[38;5;%dm", wantFG)
			fg = wantFG
		}
		b.WriteString(glyph)
	}
	if fg >= 0 || bg >= 0 {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// level places n in [1, most] on a scale of so many levels, by the logarithm:
// a lone slow request must not vanish beside ten thousand quick ones.
func level(n, most uint64, levels int) int {
	if most <= 1 {
		return levels - 1
	}
	share := math.Log1p(float64(n-1)) / math.Log(float64(most))
	return min(int(share*float64(levels)), levels-1)
}

func (p HeatmapOptions) timeAxis(b *strings.Builder, h *api.HeatmapResponse, marks []api.Mark) {
	stretch := p.stretch(h)
	cols := p.steps(h) * stretch
	at := func(x int) int64 { return h.Start + int64(x)*h.Step/int64(stretch) }
	layout, every := "15:04", 12
	switch span := h.End - h.Start; {
	case span <= 20*60:
		layout, every = "15:04:05", 14
	case span > 36*3600:
		layout, every = "Jan 2 15:04", 18
	}
	axis := []rune(strings.Repeat("─", cols))
	labels := []rune(strings.Repeat(" ", cols+len(layout)))
	for x := 0; x+len(layout) <= cols; x += every {
		axis[x] = '┴'
		copy(labels[x:], []rune(time.Unix(at(x), 0).In(p.Zone).Format(layout)))
	}
	b.WriteString(string(axis) + "\n")
	indent := strings.Repeat(" ", AxisWidth)
	b.WriteString(strings.TrimRight(indent+string(labels), " ") + "\n")

	slices.SortFunc(marks, func(x, y api.Mark) int { return int(float64(x.Time) - float64(y.Time)) })
	for _, m := range marks {
		x := int((int64(m.Time) - h.Start) * int64(stretch) / max(h.Step, 1))
		if int64(m.Time) < h.Start || x >= cols {
			continue
		}
		text := Printable(m.Name) + " " + time.Unix(int64(m.Time), 0).In(p.Zone).Format("15:04:05")
		// The text stands on the side on which it fits.
		if n := utf8.RuneCountInString(text) + 1; x+1+n > cols && x >= n {
			b.WriteString(indent + strings.Repeat(" ", x-n) + text + " ▲\n")
		} else {
			b.WriteString(indent + strings.Repeat(" ", x) + "▲ " + text + "\n")
		}
	}
}

func (p HeatmapOptions) legend(b *strings.Builder, h *api.HeatmapResponse) {
	indent := strings.Repeat(" ", AxisWidth)
	fmt.Fprintf(b, "%s1 ", indent)
	if p.Colors {
		for _, c := range ramp {
			fmt.Fprintf(b, "\x1b[48;5;%dm ", c)
		}
		b.WriteString("\x1b[0m")
	} else {
		b.WriteString(shades)
	}
	fmt.Fprintf(b, " %s per cell of %s\n", figure.Thousands(h.MaxCell), figure.Span(float64(h.Step)))
}
