package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"tailscope/api"
)

// AxisWidth is the width of the labels beside a picture, in characters: "1234.5ms ".
const AxisWidth = 9

// The height of a curve in lines, and its greatest width in characters.
const curveHeight, curveWidth = 11, 72

// RatioPicture draws the ratio at every quantile within its band, by the
// logarithm: quantiles from left to right, the tail spread out.
func RatioPicture(c *api.CompareCurve, width int) []string {
	known := func(f api.Float) bool { return f > 0 && !math.IsInf(float64(f), 0) }
	top := 0.0 // the greatest distance from 1 that is shown
	var ends []float64
	for i, r := range c.Ratio {
		if known(r) {
			top = max(top, 1.2*math.Abs(math.Log(float64(r))))
		}
		for _, end := range []api.Float{c.Low[i], c.High[i]} {
			if known(end) {
				ends = append(ends, math.Abs(math.Log(float64(end))))
			}
		}
	}
	// Some ends of the band may be far away: most of them are drawn.
	if slices.Sort(ends); len(ends) > 0 {
		top = max(top, ends[len(ends)*3/4])
	}
	if len(c.Ps) < 2 || top == 0 {
		return nil
	}
	half := curveHeight / 2
	rowOf := func(f api.Float, unknown int) int { // 0 is the middle
		if !known(f) {
			return unknown
		}
		return min(half, max(-half, int(math.Round(math.Log(float64(f))/top*float64(half)))))
	}
	columns := min(curveWidth, max(20, width-AxisWidth))
	low, high := math.Log1p(-float64(c.Ps[0])), math.Log1p(-float64(c.Ps[len(c.Ps)-1]))
	indexAt := func(x int) int {
		p := api.Float(-math.Expm1(low + (high-low)*float64(x)/float64(columns-1)))
		best := 0
		for i, v := range c.Ps {
			if math.Abs(float64(v-p)) < math.Abs(float64(c.Ps[best]-p)) {
				best = i
			}
		}
		return best
	}
	grid := make([][]rune, 2*half+1)
	for y := range grid {
		grid[y] = []rune(strings.Repeat(" ", columns))
	}
	for x := range columns {
		i := indexAt(x)
		for y := range grid {
			at := half - y
			if at == 0 {
				grid[y][x] = '┄'
			}
			if at >= rowOf(c.Low[i], -half) && at <= rowOf(c.High[i], half) && (known(c.Low[i]) || known(c.High[i])) {
				grid[y][x] = '░'
			}
			if known(c.Ratio[i]) && at == rowOf(c.Ratio[i], 0) {
				grid[y][x] = '━'
			}
		}
	}
	var lines []string
	for y, row := range grid {
		label := ""
		if y%(half) == 0 || y == half {
			label = change(api.Float(math.Exp(top * float64(half-y) / float64(half))))
			if y == half {
				label = "same"
			}
		}
		lines = append(lines, strings.TrimRight(Pad(label, AxisWidth-1)+" "+string(row), " "))
	}
	axis, names := []rune(strings.Repeat("─", columns)), []rune(strings.Repeat(" ", columns+4))
	for _, q := range []string{"0.01", "0.5", "0.75", "0.9", "0.95", "0.99", "0.999"} {
		name := QuantileName(q)
		p, _ := strconv.ParseFloat(q, 64)
		x := int(math.Round((math.Log1p(-p) - low) / (high - low) * float64(columns-1)))
		if x < 0 || x >= columns || x > 0 && names[x-1] != ' ' {
			continue
		}
		axis[x] = '┴'
		copy(names[x:], []rune(name))
	}
	indent := strings.Repeat(" ", AxisWidth)
	return append(lines, indent+string(axis), strings.TrimRight(indent+string(names), " "))
}

// drawn describes what a picture shows.
func (d *Comparison) drawn() string {
	c := d.R.Curve
	s := "B against A at every quantile"
	if c.LikeForLike {
		s += ", like for like"
	}
	return s + "; the band (░) holds at all of them at once, with " + trimPercent(d.R.Level) + " confidence"
}
