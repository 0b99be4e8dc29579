package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
)

// simulationCharts draws quantiles and the utilisation of nodes over what is varied, a
// chart for each curve, on the same scale.
func simulationCharts(s *api.Simulation) []Chart {
	var curves []string
	of := map[string][]*api.SimulationLayout{}
	for i := range s.Layouts {
		l := &s.Layouts[i]
		if !slices.Contains(curves, l.Curve) {
			curves = append(curves, l.Curve)
		}
		of[l.Curve] = append(of[l.Curve], l)
	}
	low, most := math.Inf(1), 0.0
	for i := range s.Layouts {
		for _, q := range []string{"0.5", "0.95", "0.99"} {
			if v := float64(s.Layouts[i].Quantiles[q].Value); v > 0 {
				low, most = min(low, v), max(most, v)
			}
		}
		if v := float64(s.Layouts[i].NoQueue["0.99"]); v > 0 {
			low = min(low, v)
		}
	}
	y := axis{0, most * 1.06, false}
	if most > tall*low {
		y = axis{low / 1.2, most * 1.2, true}
	}
	by := "by layout"
	if s.Variable != "" {
		by = "by " + s.Variable
	}
	var out []Chart
	if len(curves) > 1 && most > 0 {
		names, plot := curvesChart(y, first(curves, len(curveClasses)), of)
		out = append(out, Chart{Name: "p99 of queries " + by, Legend: names, Plot: plot})
	}
	for _, c := range first(curves, mostCharts/2) {
		name := ""
		if c != "" {
			name = ", " + c
		}
		if most > 0 {
			out = append(out, Chart{Name: "Queries " + by + name, Legend: []string{"p50=p50", "p95=late", "p99=p99", "p99 if none waited=sent"}, Plot: layoutChart(of[c], y, s.Variable)})
		}
		out = append(out, Chart{Name: "How busy nodes are" + name, Legend: busyLegend(of[c]), Plot: busyChart(of[c], s.Variable)})
	}
	return out
}

// tall is the ratio from which on a chart of durations is logarithmic.
const tall = 15

// curveClasses lists the classes of curves, in order.
var curveClasses = []string{"due", "late", "p50", "sent", "bad", "max"}

// curvesChart draws p99 of every curve.
func curvesChart(y axis, curves []string, of map[string][]*api.SimulationLayout) (names []string, plot string) {
	all := of[curves[0]]
	xs, numbers := places(all)
	c := layoutAxes(all, xs, numbers, y, func(v float64) string { return SecondsUnit.Value(api.Float(v)) })
	for i, curve := range curves {
		xs, _ := places(of[curve])
		ys := make([]float64, len(xs))
		for k, l := range of[curve] {
			v := l.Quantiles["0.99"]
			if ys[k] = float64(v.Value); !IsNaN(v.Low) && !IsNaN(v.High) {
				c.stroke("line "+curveClasses[i], xs[k], float64(v.Low), xs[k], float64(v.High))
			}
		}
		figures(c, "line "+curveClasses[i], xs, ys, numbers)
		names = append(names, curve+"="+curveClasses[i])
	}
	for i := range all {
		title := ""
		for _, curve := range curves {
			if i < len(of[curve]) {
				title += of[curve][i].Name + ": p99 " + SecondsUnit.Value(of[curve][i].Quantiles["0.99"].Value) + "; "
			}
		}
		layoutHover(c, xs, i, strings.TrimSuffix(title, "; "))
	}
	return names, c.html("p99 of queries, all curves")
}

// places returns the x of layouts: what is varied if that is a number, else their order.
func places(layouts []*api.SimulationLayout) (xs []float64, numbers bool) {
	numbers = len(layouts) > 1
	for i, l := range layouts {
		numbers = numbers && !IsNaN(l.X) && (i == 0 || l.X > layouts[i-1].X)
	}
	for i, l := range layouts {
		if numbers {
			xs = append(xs, float64(l.X))
		} else {
			xs = append(xs, float64(i))
		}
	}
	return xs, numbers
}

// layoutAxes makes a chart with its axes.
func layoutAxes(layouts []*api.SimulationLayout, xs []float64, numbers bool, y axis, label func(float64) string) *svg {
	low, high := xs[0], xs[len(xs)-1]
	edge := max((high-low)*0.03, 0.02)
	if !numbers {
		edge = 0.5 // all are equally wide
	}
	s := newSVG(620, 280, axis{low - edge, high + edge, false}, y)
	ticks := even(y.high/1.06, 5)
	if y.log {
		ticks = decades(y.low, y.high)
	}
	s.ticksY(ticks, label)
	if numbers {
		ticks = even(high, 8)
		if len(xs) <= 8 {
			ticks = xs
		}
		s.ticksX(slices.DeleteFunc(slices.Clone(ticks), func(v float64) bool { return v < low-edge || v > high+edge }), func(v float64) string { return Digits(v) })
		return s
	}
	every := max(1, (len(xs)+5)/6)
	for i, l := range layouts {
		name := []rune(l.Name)
		if room := 96 * every / len(layouts); len(name) > room {
			name = append(name[:max(room-1, 1)], '…')
		}
		if i%every == 0 {
			s.text("tick middle", s.px(xs[i]), s.height-s.bottom+16, string(name))
		}
	}
	return s
}

// figures are joined by a line only where there is something between them: layouts that
// just differ have a level each.
func figures(s *svg, class string, xs, ys []float64, numbers bool) {
	if numbers {
		s.line(class, xs, ys)
		return
	}
	for i, y := range ys {
		if !math.IsNaN(y) {
			s.stroke(class, xs[i]-0.32, y, xs[i]+0.32, y)
		}
	}
}

func layoutChart(layouts []*api.SimulationLayout, y axis, variable string) string {
	xs, numbers := places(layouts)
	s := layoutAxes(layouts, xs, numbers, y, func(v float64) string { return SecondsUnit.Value(api.Float(v)) })
	for _, q := range []struct{ name, class string }{{"0.5", "line p50"}, {"0.95", "line late"}, {"0.99", "line p99"}} {
		ys := make([]float64, len(layouts))
		for i, l := range layouts {
			v := l.Quantiles[q.name]
			if ys[i] = float64(v.Value); q.name == "0.99" && !IsNaN(v.Low) && !IsNaN(v.High) {
				s.stroke("line p99", xs[i], float64(v.Low), xs[i], float64(v.High))
			}
		}
		figures(s, q.class, xs, ys, numbers)
	}
	idle := make([]float64, len(layouts))
	for i, l := range layouts {
		if idle[i] = math.NaN(); l.NoQueue["0.99"] > 0 {
			idle[i] = float64(l.NoQueue["0.99"])
		}
	}
	figures(s, "line sent", xs, idle, numbers)
	for i, l := range layouts {
		title := fmt.Sprintf("%s: p50 %s, p95 %s, p99 %s; %s of the fullest node", l.Name, SecondsUnit.Value(l.Quantiles["0.5"].Value), SecondsUnit.Value(l.Quantiles["0.95"].Value), SecondsUnit.Value(l.Quantiles["0.99"].Value), Plural(l.Rounds, "round"))
		if !l.Stable {
			title = l.Name + ": " + l.Why
		}
		layoutHover(s, xs, i, title)
	}
	return s.html("quantiles of queries by " + variable)
}

// layoutHover adds the text of a layout, up to half way to its neighbours.
func layoutHover(s *svg, xs []float64, i int, title string) {
	from, to := s.x.low, s.x.high
	if i > 0 {
		from = (xs[i-1] + xs[i]) / 2
	}
	if i+1 < len(xs) {
		to = (xs[i] + xs[i+1]) / 2
	}
	s.hover(from, to, title)
}

func busyLegend(layouts []*api.SimulationLayout) []string {
	out := []string{"all nodes=due", "the busiest=sent"}
	if slices.ContainsFunc(layouts, func(l *api.SimulationLayout) bool { return !IsNaN(l.Aggregator) }) {
		out = append(out, "aggregators=late")
	}
	return out
}

func busyChart(layouts []*api.SimulationLayout, variable string) string {
	xs, numbers := places(layouts)
	s := layoutAxes(layouts, xs, numbers, axis{0, 1.06, false}, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })
	for _, of := range []struct {
		class string
		value func(*api.SimulationLayout) api.Float
	}{
		{"line due", func(l *api.SimulationLayout) api.Float { return l.Utilisation }},
		{"line sent", func(l *api.SimulationLayout) api.Float { return l.Busiest }},
		{"line late", func(l *api.SimulationLayout) api.Float { return l.Aggregator }},
	} {
		ys := make([]float64, len(layouts))
		for i, l := range layouts {
			ys[i] = float64(of.value(l))
		}
		figures(s, of.class, xs, ys, numbers)
	}
	for i, l := range layouts {
		layoutHover(s, xs, i, fmt.Sprintf("%s: %s busy, the busiest %s", l.Name, Percent(l.Utilisation), Percent(l.Busiest)))
	}
	return s.html("how busy nodes are by " + variable)
}
