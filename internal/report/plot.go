package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// svg is a chart as it is drawn: axes that are linear or logarithmic, lines and
// marks in places of a view box. Colors are classes of the page.
type svg struct {
	b                        strings.Builder
	width, height            float64
	left, right, top, bottom float64
	x, y                     axis
}

// axis maps values to 0..1.
type axis struct {
	low, high float64
	log       bool
}

func (a axis) at(v float64) float64 {
	if a.log {
		v, a.low, a.high = math.Log(max(v, a.low)), math.Log(a.low), math.Log(a.high)
	}
	if a.high == a.low {
		return 0.5
	}
	return min(max((v-a.low)/(a.high-a.low), 0), 1)
}

func newSVG(width, height float64, x, y axis) *svg {
	return &svg{width: width, height: height, left: 58, right: 14, top: 12, bottom: 30, x: x, y: y}
}

func (s *svg) px(v float64) float64 { return s.left + s.x.at(v)*(s.width-s.left-s.right) }
func (s *svg) py(v float64) float64 { return s.height - s.bottom - s.y.at(v)*(s.height-s.top-s.bottom) }

// ticksY draws lines across with their labels.
func (s *svg) ticksY(values []float64, label func(float64) string) {
	for _, v := range values {
		y := s.py(v)
		fmt.Fprintf(&s.b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick end" x="%.1f" y="%.1f">%s</text>`,
			s.left, s.width-s.right, y, y, s.left-7, y+3.5, html.EscapeString(label(v)))
	}
}

func (s *svg) ticksX(values []float64, label func(float64) string) {
	for _, v := range values {
		x := s.px(v)
		fmt.Fprintf(&s.b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text class="tick middle" x="%.1f" y="%.1f">%s</text>`,
			x, x, s.top, s.height-s.bottom, x, s.height-s.bottom+16, html.EscapeString(label(v)))
	}
}

// line draws points in order; NaN parts it.
func (s *svg) line(class string, xs, ys []float64) {
	var d strings.Builder
	pen := "M"
	for i := range xs {
		if math.IsNaN(ys[i]) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&d, "%s%.1f %.1f", pen, s.px(xs[i]), s.py(ys[i]))
		if alone := pen == "M" && (i+1 == len(xs) || math.IsNaN(ys[i+1])); alone {
			d.WriteString("h.01") // a dot, by its round ends
		}
		pen = "L"
	}
	if d.Len() > 0 {
		fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, class, d.String())
	}
}

// band shades a stretch of the x axis, or marks a moment if it has no end.
func (s *svg) band(class string, from, to float64, title string) {
	x1, x2 := s.px(from), s.px(to)
	if math.IsNaN(to) || x2-x1 < 2 {
		x2 = x1 + 2
	}
	fmt.Fprintf(&s.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
		class, x1, s.top, x2-x1, s.height-s.top-s.bottom, html.EscapeString(title))
}

// note writes a text at the top of the chart.
func (s *svg) note(x float64, text string) {
	fmt.Fprintf(&s.b, `<text class="mark" x="%.1f" y="%.1f">%s</text>`, s.px(x)+4, s.top+10, html.EscapeString(text))
}

// hover adds an invisible column over each x, with a text of its values.
func (s *svg) hover(from, to float64, title string) {
	fmt.Fprintf(&s.b, `<rect class="hover" x="%.1f" y="%.1f" width="%.2f" height="%.1f"><title>%s</title></rect>`,
		s.px(from), s.top, max(s.px(to)-s.px(from), 0.5), s.height-s.top-s.bottom, html.EscapeString(title))
}

// dot draws a circle with a text.
func (s *svg) dot(class string, x, y, r float64, title string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class, s.px(x), s.py(y), r, html.EscapeString(title))
}

// stroke draws a straight line between two points.
func (s *svg) stroke(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, s.px(x1), s.py(y1), s.px(x2), s.py(y2))
}

func (s *svg) text(class string, x, y float64, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, html.EscapeString(text))
}

func (s *svg) html(label string) string {
	return fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/></svg>`, // nothing in it but numbers and escaped text
		s.width, s.height, html.EscapeString(label), s.b.String(), s.left, s.width-s.right, s.height-s.bottom, s.height-s.bottom)
}

// decades returns 1, 2 and 5 times powers of ten within a range, or only the powers if
// there are many.
func decades(low, high float64) []float64 {
	steps := []float64{1, 2, 5}
	if high/low > 300 {
		steps = steps[:1]
	}
	var out []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range steps {
			if v := m * math.Pow(10, e); v >= low*0.999 && v <= high*1.001 {
				out = append(out, v)
			}
		}
	}
	return out
}

// even returns about n round steps from 0 to high.
func even(high float64, n int) []float64 {
	if !(high > 0) {
		return []float64{0}
	}
	step := math.Pow(10, math.Floor(math.Log10(high/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if high/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var out []float64
	for v := 0.0; v <= high*1.0001; v += step {
		out = append(out, v)
	}
	return out
}

// logAxis returns a logarithmic axis around positive values; ok is false without any.
func logAxis(values ...[]float64) (a axis, ok bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, vs := range values {
		for _, v := range vs {
			if v > 0 && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if math.IsInf(low, 0) {
		return a, false
	}
	if high/low < 4 { // room around a flat line
		mid := math.Sqrt(low * high)
		low, high = min(low, mid/2), max(high, mid*2)
	}
	return axis{low / 1.15, high * 1.15, true}, true
}

// nines returns the number of nines of a share: 0.99 has 2. It is the x axis of the
// percentile chart, as in HdrHistogram's plots.
func nines(q float64) float64 { return -math.Log10(1 - q) }

// percentileChart draws latency by percentile, from due and from sent.
func percentileChart(r *api.BenchResult) string {
	most := nines(1 - 1/float64(max(r.Latency.Count, 10)))
	due := spectrum(&r.Latency, most)
	sent := spectrum(&r.Uncorrected, most)
	y, ok := logAxis(due.y, sent.y)
	if !ok {
		return ""
	}
	s := newSVG(620, 300, axis{0, most, false}, y)
	s.ticksY(decades(y.low, y.high), figure.Tick)
	ticks := []float64{0}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999} {
		if nines(q) < most*0.985 {
			ticks = append(ticks, nines(q))
		}
	}
	s.ticksX(ticks, func(v float64) string { return Digits(100*(1-math.Pow(10, -v))) + " %" })
	if r.Plan.Arrivals != "closed" {
		s.line("line due", due.x, due.y)
	}
	s.line("line sent", sent.x, sent.y)
	return s.html("latency by percentile, from when due and from when sent")
}

type curve struct{ x, y []float64 }

// spectrum returns a distribution's upper bounds by nines, until most.
func spectrum(l *api.BenchLatency, most float64) curve {
	var c curve
	total, below := uint64(0), uint64(0)
	for _, n := range l.Counts {
		total += n
	}
	if total == 0 || len(l.Bounds) != len(l.Counts)+1 {
		return c
	}
	c.x, c.y = append(c.x, 0), append(c.y, float64(l.Min))
	for i, n := range l.Counts {
		if below += n; n == 0 {
			continue
		}
		x := most
		if below < total {
			x = min(nines(float64(below)/float64(total)), most)
		}
		c.x, c.y = append(c.x, x), append(c.y, min(max(float64(l.Bounds[i+1]), float64(l.Min)), float64(l.Max)))
	}
	return c
}
