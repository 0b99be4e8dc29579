package report

import (
	"fmt"
	"math"

	"tailscope/api"
	"tailscope/internal/figure"
)

// benchFigures returns the most important numbers.
func benchFigures(r *api.BenchResult) []Figure {
	beside := func(sent string) string {
		if r.Plan.Arrivals == "closed" {
			return "from when sent"
		}
		return "from when sent " + sent
	}
	asked := "closed loop"
	if !IsNaN(r.Asked) {
		asked = "of " + PerTime(r.Asked) + " asked for"
	}
	out := []Figure{{"rate", PerTime(r.Rate), asked}}
	for _, q := range []string{"0.5", "0.99", "0.999"} {
		out = append(out, Figure{QuantileName(q), At(r.Latency, q), beside(At(r.Uncorrected, q))})
	}
	return append(out, Figure{"max", SecondsUnit.Value(r.Latency.Max), beside(SecondsUnit.Value(r.Uncorrected.Max))},
		Figure{"errors", figure.Thousands(r.Account.Errors), "of " + figure.Thousands(r.Account.Sent) + " sent"})
}

// benchCharts draws latency by percentile and over time, the requests sent, and their
// lateness.
func benchCharts(d *Document, r *api.BenchResult) {
	percentiles := []string{"from when due=due", "from when sent=sent"}
	if r.Plan.Arrivals == "closed" {
		percentiles = percentiles[1:]
	}
	rates := []string{"due=sent", "answered=due"}
	if r.Account.Errors > 0 {
		rates = append(rates, "errors=bad")
	}
	d.Chart(Chart{Name: "Latency by percentile", Legend: percentiles, Plot: percentileChart(r)})
	d.Chart(Chart{Name: "Latency over time", Legend: []string{"median=p50", "p99=p99", "max=max"}, Plot: timeChart(r)})
	d.Chart(Chart{Name: "Requests a second", Legend: rates, Plot: rateChart(r)})
	d.Chart(Chart{Name: "The generator's own lateness", Legend: []string{"late although a connection was free, p99=late", "latency, p99=p99"}, Plot: lateChart(r)})
}

// timed is the frame of charts over the run's time, with phases and events.
type timed struct {
	*svg
	r     *api.BenchResult
	x     []float64 // middle of slots, seconds from the start
	start float64
}

func newTimed(r *api.BenchResult, height float64, y axis) *timed {
	t := &timed{r: r, start: float64(r.Start)}
	end := 0.0
	for _, s := range r.Timeline {
		t.x = append(t.x, float64(s.Time+s.Width/2)-t.start)
		if s.Due > 0 { // what comes after are answers
			end = max(end, float64(s.Time+s.Width)-t.start)
		}
	}
	t.svg = newSVG(620, height, axis{0, max(end, 1), false}, y)
	return t
}

// frame draws the background of the lines.
func (t *timed) frame(values []float64, label func(float64) string) {
	for i, e := range t.r.Events {
		from, to := float64(e.Time)-t.start, float64(e.End)-t.start
		if from > t.svg.x.high || e.Kind == "command" || e.Kind == "load" || e.Kind == "warm_up" {
			continue
		}
		title := e.Kind + " " + e.Name
		switch {
		case e.Kind != "phase":
			t.band("fault", from, to, title+" "+e.Text)
		case i%2 == 1:
			t.band("phase", from, to, title)
		}
	}
	t.ticksY(values, label)
	t.ticksX(even(t.svg.x.high, 8), benchSpan)
	for _, e := range t.r.Events {
		if from := float64(e.Time) - t.start; e.Kind == "phase" && from <= t.svg.x.high && len(t.r.Phases) <= 8 {
			t.note(from, e.Name)
		}
	}
}

// hovers adds a text of values to each slot.
func (t *timed) hovers(text func(api.BenchSlot) string) {
	for i, s := range t.r.Timeline {
		half := float64(s.Width) / 2
		t.hover(t.x[i]-half, t.x[i]+half, benchSpan(float64(s.Time)-t.start)+": "+text(s))
	}
}

func slotsOf(r *api.BenchResult, of func(api.BenchSlot) float64) []float64 {
	out := make([]float64, len(r.Timeline))
	for i, s := range r.Timeline {
		out[i] = of(s)
	}
	return out
}

func timeChart(r *api.BenchResult) string {
	p50 := slotsOf(r, func(s api.BenchSlot) float64 { return float64(s.P50) })
	p99 := slotsOf(r, func(s api.BenchSlot) float64 { return float64(s.P99) })
	most := slotsOf(r, func(s api.BenchSlot) float64 { return float64(s.Max) })
	y, ok := logAxis(p50, p99, most)
	if !ok {
		return ""
	}
	t := newTimed(r, 300, y)
	t.frame(decades(y.low, y.high), figure.Tick)
	t.line("line max", t.x, most)
	t.line("line p99", t.x, p99)
	t.line("line p50", t.x, p50)
	t.hovers(func(s api.BenchSlot) string {
		return fmt.Sprintf("p50 %s, p99 %s, max %s, %s errors", SecondsUnit.Value(s.P50), SecondsUnit.Value(s.P99), SecondsUnit.Value(s.Max), figure.Thousands(s.Errors))
	})
	return t.html("latency by when requests were due: p50, p99 and maximum")
}

// rateChart draws requests due and answered a second, and errors.
func rateChart(r *api.BenchResult) string {
	each := func(of func(api.BenchSlot) uint64) []float64 {
		return slotsOf(r, func(s api.BenchSlot) float64 { return float64(of(s)) / float64(s.Width) })
	}
	due, answered, errors := each(func(s api.BenchSlot) uint64 { return s.Due }), each(func(s api.BenchSlot) uint64 { return s.Answered }), each(func(s api.BenchSlot) uint64 { return s.Errors })
	high, failed := 0.0, false
	for i := range due {
		high = max(high, due[i], answered[i])
		failed = failed || errors[i] > 0
	}
	if high == 0 {
		return ""
	}
	for i := len(due) - 1; i >= 0 && due[i] == 0; i-- {
		due[i], answered[i], errors[i] = math.NaN(), math.NaN(), math.NaN()
	}
	t := newTimed(r, 220, axis{0, high * 1.08, false})
	t.frame(even(high, 5), func(v float64) string { return Digits(v) })
	t.line("line sent", t.x, due)
	t.line("line due", t.x, answered)
	if failed {
		t.line("line bad", t.x, errors)
	}
	t.hovers(func(s api.BenchSlot) string {
		return fmt.Sprintf("%s due, %s answered, %s errors, %s waiting at its end", figure.Thousands(s.Due), figure.Thousands(s.Answered), figure.Thousands(s.Errors), figure.Thousands(s.Waiting))
	})
	return t.html("requests due and answered a second")
}

// lateChart draws the lateness of the generator beside the latency it measured.
func lateChart(r *api.BenchResult) string {
	late := slotsOf(r, func(s api.BenchSlot) float64 { return float64(s.Late) })
	p99 := slotsOf(r, func(s api.BenchSlot) float64 { return float64(s.P99) })
	y, ok := logAxis(late, p99)
	if !ok || r.Plan.Arrivals == "closed" {
		return ""
	}
	t := newTimed(r, 220, y)
	t.frame(decades(y.low, y.high), figure.Tick)
	t.line("line p99", t.x, p99)
	t.line("line late", t.x, late)
	t.hovers(func(s api.BenchSlot) string {
		return fmt.Sprintf("late p99 %s, latency p99 %s", SecondsUnit.Value(s.Late), SecondsUnit.Value(s.P99))
	})
	return t.html("how late the generator was at p99, beside the latency measured there")
}

// readingChart draws one reading of a process.
func readingChart(r *api.BenchResult, x *api.BenchResource) string {
	if len(x.Values) < 2 || len(x.Times) != len(x.Values) {
		return ""
	}
	var xs, ys []float64
	high := 0.0
	for i, v := range x.Values {
		xs, ys = append(xs, float64(x.Times[i]-r.Start)), append(ys, float64(v))
		if !math.IsNaN(float64(v)) {
			high = max(high, float64(v))
		}
	}
	if high == 0 {
		return ""
	}
	t := newTimed(r, 150, axis{0, high * 1.08, false})
	t.frame(even(high, 3), func(v float64) string { return reading(api.Float(v), x.Unit) })
	t.line("line due", xs, ys)
	return t.html(x.Process + " " + x.Name)
}
