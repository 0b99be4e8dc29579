package report

import (
	"fmt"
	"math"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// capacityFigures returns the answer and the figures beside it.
func capacityFigures(c *api.Capacity) (out []Figure) {
	if a := c.Answer; a != nil {
		out = append(out, Figure{c.Unit, Number.Value(a.Value), answerInterval(a)})
		if !IsNaN(a.Rate) {
			out = append(out, Figure{"answered a second", PerTime(a.Rate), "there"})
		}
		if a.Limit != "" {
			out = append(out, Figure{"breaks first", a.Limit, "of " + c.Objective})
		}
	}
	if l := c.Law; l != nil && !IsNaN(l.PeakRate.Value) {
		out = append(out, Figure{"peak by the law", PerTime(l.PeakRate.Value), "with " + Number.Value(l.PeakN.Value) + " at a time"})
	}
	return out
}

// capacityCharts draws the steps, the objective, the law, and where time went.
func capacityCharts(d *Document, c *api.Capacity) {
	if steps := stepPictures(c); len(steps) > 0 {
		d.Heading("Steps: latency over time, all on the same scales")
		for _, chart := range steps {
			d.Chart(chart)
		}
		d.Line("Darker is more requests; the dashed line is the objective's limit. Time is from the step's start; what comes after the load was taken away is shown too.")
	}
	d.Chart(Chart{Name: "The objective over " + c.Unit, Legend: []string{"limit=bad", "bars are intervals; the band is the answer's"}, Plot: objectiveChart(c)})
	d.Chart(Chart{Name: "Throughput over requests at a time", Legend: []string{"Universal Scalability Law=due", "step=dot good", "hollow: left out"}, Plot: lawChart(c)})
	d.Chart(Chart{Name: "Where the mean request's time went", Legend: []string{"worked=dot good", "queued, by the target's word=dot worse", "waited for a connection=dot"}, Plot: timesChart(c)})
}

// answerInterval writes the known ends of the answer's interval.
func answerInterval(a *api.CapacityAnswer) string {
	name := fmt.Sprintf("%.0f %% interval ", 100*float64(a.Level))
	switch low, high := IsNaN(a.Low), IsNaN(a.High); {
	case low && high:
		return name + "wider than what was held"
	case low:
		return name + "no more than " + Number.Value(a.High)
	case high:
		return name + "at least " + Number.Value(a.Low)
	}
	return name + ends(Number.Value(a.Low), Number.Value(a.High))
}

// stepPictures returns the steps' heatmaps, to stand side by side, on the same scales.
func stepPictures(c *api.Capacity) []Chart {
	first, last, most, long := len(c.Bounds), 0, 0.0, 0.0
	for i := range c.Steps {
		for _, slot := range c.Steps[i].Slots {
			long = max(long, float64(slot.Time+slot.Width))
			for k, n := range slot.Counts {
				if n > 0 {
					first, last, most = min(first, k), max(last, k), max(most, float64(n))
				}
			}
		}
	}
	if first > last || last+1 >= len(c.Bounds) {
		return nil
	}
	low := max(float64(c.Bounds[first]), float64(c.Bounds[min(first+1, len(c.Bounds)-1)])/2, 1e-6)
	y := axis{low, float64(c.Bounds[min(last+1, len(c.Bounds)-1)]), true}
	var out []Chart
	for i := range c.Steps {
		s := &c.Steps[i]
		pic := newSVG(300, 220, axis{0, long, false}, y)
		pic.left = 46
		pic.ticksY(decades(y.low, y.high), figure.Tick)
		pic.ticksX(even(long, 4), benchSpan)
		for _, slot := range s.Slots {
			for k, n := range slot.Counts {
				if n == 0 {
					continue
				}
				x1, x2 := pic.px(float64(slot.Time)), pic.px(float64(slot.Time+slot.Width))
				y1, y2 := pic.py(float64(c.Bounds[k+1])), pic.py(max(float64(c.Bounds[k]), low))
				fmt.Fprintf(&pic.b, `<rect class="heat" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.2f"><title>%s: %d between %s and %s</title></rect>`,
					x1, y1, max(x2-x1-0.3, 0.5), max(y2-y1, 1), 0.12+0.88*math.Sqrt(float64(n)/most), benchSpan(float64(slot.Time)), n, figure.Seconds(float64(c.Bounds[k])), figure.Seconds(float64(c.Bounds[k+1])))
			}
		}
		for _, o := range s.Objectives {
			if !strings.Contains(o.Text, "errors") {
				pic.stroke("line bad thin", 0, float64(o.Limit), long, float64(o.Limit))
			}
		}
		out = append(out, Chart{Name: fmt.Sprintf("%s, %s: %s", StepName(c, s), s.Phase, cameOut(c, s)), Small: true, Plot: pic.html("latency over the time of the step at " + StepName(c, s))})
	}
	return out
}

// lawChart draws throughput over concurrency, with the law.
func lawChart(c *api.Capacity) string {
	l := c.Law
	if l == nil || len(l.Points) == 0 {
		return ""
	}
	wide, high := 0.0, 0.0
	for _, p := range l.Points {
		if !p.Left {
			wide, high = max(wide, float64(p.N)), max(high, float64(p.Rate))
		}
	}
	wide, high = wide*1.15, high*1.25
	s := newSVG(620, 300, axis{0, wide, false}, axis{0, high, false})
	s.ticksY(even(high, 5), func(v float64) string { return PerTime(api.Float(v)) })
	s.ticksX(even(wide, 8), Digits)
	var xs, ys []float64
	const points = 100
	for i := range points {
		n := max(wide*float64(i)/(points-1), 0.01)
		rate := float64(l.Lambda.Value) * n / (1 + float64(l.Sigma.Value)*(n-1) + float64(l.Kappa.Value)*n*(n-1))
		xs, ys = append(xs, n), append(ys, rate)
	}
	s.line("line due", xs, ys)
	for _, p := range l.Points {
		class := "dot good"
		if p.Left {
			if float64(p.N) > wide {
				continue
			}
			class = "dot hollow"
		}
		s.dot(class, float64(p.N), float64(p.Rate), 4, fmt.Sprintf("%s with %s at a time", PerTime(p.Rate), Number.Value(p.N)))
	}
	return s.html("requests answered a second over requests at a time, and the law that was fitted")
}

// objectiveChart draws, for each step, the figure of its first condition of latency.
func objectiveChart(c *api.Capacity) string {
	var values, bounds []float64
	var xs []float64
	limit := math.NaN()
	for i := range c.Steps {
		s := &c.Steps[i]
		for _, o := range s.Objectives {
			if strings.Contains(o.Text, "errors") {
				continue
			}
			limit = float64(o.Limit)
			xs = append(xs, float64(s.X))
			values = append(values, float64(o.Value), float64(o.Low), float64(o.High))
			break
		}
	}
	bounds = append(bounds, values...)
	y, ok := logAxis(append(bounds, limit))
	x, okX := logAxis(xs)
	if !ok || !okX {
		return ""
	}
	s := newSVG(620, 300, x, y)
	s.ticksY(decades(y.low, y.high), figure.Tick)
	s.ticksX(decades(x.low, x.high), Digits)
	if a := c.Answer; a != nil && !IsNaN(a.Low) && !IsNaN(a.High) {
		s.band("best", float64(a.Low), float64(a.High), "the answer's interval")
	}
	s.stroke("line bad", x.low, limit, x.high, limit)
	k := 0
	for i := range c.Steps {
		st := &c.Steps[i]
		for _, o := range st.Objectives {
			if strings.Contains(o.Text, "errors") {
				continue
			}
			v, low, high := values[3*k], values[3*k+1], values[3*k+2]
			k++
			class := map[string]string{"kept": "good", "broken": "worse"}[o.Kept]
			if low > 0 || high > 0 { // an end that is not known is the picture's
				s.stroke("whisker "+class, float64(st.X), orEdge(low, y.low), float64(st.X), orEdge(high, y.high))
			}
			if v > 0 {
				s.dot("dot "+class, float64(st.X), v, 4, fmt.Sprintf("%s: %s %s", StepName(c, st), o.Text, SecondsUnit.Value(o.Value)))
			}
			break
		}
	}
	return s.html("the objective's latency over " + c.Unit)
}

// orEdge returns v, or otherwise if v is not known.
func orEdge(v, otherwise float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return otherwise
}

// timesChart draws where the mean request's time went, by step in the order of X.
func timesChart(c *api.Capacity) string {
	var xs, waited, queued, worked, all []float64
	for i := range c.Steps {
		s := &c.Steps[i]
		if IsNaN(s.Worked) {
			continue
		}
		xs = append(xs, float64(s.X))
		waited, queued, worked = append(waited, float64(s.Waited)), append(queued, float64(s.Queued)), append(worked, float64(s.Worked))
	}
	all = append(append(append(all, waited...), queued...), worked...)
	x, okX := logAxis(xs)
	y, ok := logAxis(all)
	if !ok || !okX {
		return ""
	}
	y.low = max(y.low, y.high/1e4)
	s := newSVG(620, 300, x, y)
	s.ticksY(decades(y.low, y.high), figure.Tick)
	s.ticksX(decades(x.low, x.high), Digits)
	for i := range xs {
		for _, at := range []struct {
			class string
			v     float64
			what  string
		}{{"dot", waited[i], "waited for a connection"}, {"dot worse", queued[i], "queued"}, {"dot good", worked[i], "worked"}} {
			if at.v > 0 {
				s.dot(at.class, xs[i], at.v, 4, fmt.Sprintf("%s %s at %s", at.what, figure.Seconds(at.v), Digits(xs[i])))
			}
		}
	}
	return s.html("where the mean request's time went, over " + c.Unit)
}
