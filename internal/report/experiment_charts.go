package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/judge"
)

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// dot is a circle with what it is.
func (s *svg) dot(class string, x, y, r float64, title string) {
	fmt.Fprintf(&s.b, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, class, s.px(x), s.py(y), r, template.HTMLEscapeString(title))
}

// stroke is a straight line between two points.
func (s *svg) stroke(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, s.px(x1), s.py(y1), s.px(x2), s.py(y2))
}

func (s *svg) text(class string, x, y float64, text string) {
	fmt.Fprintf(&s.b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`, class, x, y, template.HTMLEscapeString(text))
}

// mostCharts bounds the responses of a page.
const mostCharts = 12

// experimentCharts draws each query's figure of every setting, and the effects.
func experimentCharts(t *api.Experiment) []resourceChart {
	out := []resourceChart{{"Against the control, by what says most", experimentWhiskers(t)}}
	measure := roundMeasure(t)
	queries := map[string]bool{}
	for i := range t.Rounds {
		for q := range t.Rounds[i].Figures {
			queries[q] = true
		}
	}
	for _, q := range first(slices.Sorted(maps.Keys(queries)), mostCharts) {
		name := q
		if q == "" {
			name = "everything"
		}
		out = append(out, resourceChart{measure + " of " + name + " by " + t.Variable, settingsChart(t, q, measure)})
	}
	return out
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// settingsChart has a column for each setting: a dot for each round, hollow if it
// does not count; of a sweep the estimate with its interval, and shaded the
// settings that cannot be told from the best.
func settingsChart(t *api.Experiment, query, measure string) template.HTML {
	settings := slices.Clone(t.Settings)
	numbers := !slices.ContainsFunc(settings, func(s api.ExperimentSetting) bool { return IsNaN(s.X) })
	if numbers {
		slices.SortStableFunc(settings, func(a, b api.ExperimentSetting) int { return cmp.Compare(a.X, b.X) })
	}
	var curve *api.ExperimentCurve
	for i := range t.Curves {
		if t.Curves[i].Query == query && t.Curves[i].Measure == measure {
			curve = &t.Curves[i]
		}
	}
	place, last := map[string]int{}, 1
	for i, s := range settings {
		place[s.Name] = i
	}
	low, high := math.Inf(1), math.Inf(-1)
	reach := func(v api.Float) {
		if !IsNaN(v) {
			low, high = min(low, float64(v)), max(high, float64(v))
		}
	}
	for i := range t.Rounds {
		last = max(last, t.Rounds[i].Round)
		if v, ok := t.Rounds[i].Figures[query][measure]; ok && t.Rounds[i].Valid {
			reach(v)
		}
	}
	if curve != nil {
		for _, p := range curve.Points {
			reach(p.Low)
			reach(p.High)
		}
	}
	if math.IsInf(low, 0) {
		return ""
	}
	if low > high/2 {
		low -= (high - low) * 0.1
	} else {
		low = 0
	}
	switch {
	case high == low && low == 0:
		high = 0.1
	case high-low <= 1e-6*low:
		high = low * 1.1
	}
	s := newSVG(620, 280, axis{-0.5, float64(len(settings)) - 0.5, false}, axis{low, high + (high-low)*0.06, false})
	var ticks []float64
	step := even(high-low, 5)[1]
	for k := math.Ceil(low / step); k*step <= high*1.0001; k++ {
		ticks = append(ticks, k*step)
	}
	s.ticksY(ticks, func(v float64) string { return experimentFigure(measure, api.Float(v)) })
	every := max(1, (len(settings)+7)/8)
	for i, set := range settings {
		name := []rune(strings.TrimPrefix(set.Name, t.Variable+"="))
		if !IsNaN(set.X) {
			name = []rune(strings.TrimSpace(Digits(float64(set.X)) + " " + t.Unit))
		}
		if most := 86 * every / len(settings); len(name) > most {
			name = append(name[:max(most-1, 1)], '…')
		}
		if curve != nil && slices.Contains(curve.Candidates, set.Name) {
			s.band("best", float64(i)-0.48, float64(i)+0.48, "cannot be told from the best")
		}
		if i%every == 0 {
			s.text("tick middle", s.px(float64(i)), s.height-s.bottom+16, string(name))
		}
		if set.Control {
			s.text("mark middle", s.px(float64(i)), s.height-s.bottom-4, "control")
		}
		if curve != nil && curve.Best == set.Name {
			s.text("mark middle", s.px(float64(i)), s.top+10, "best")
		}
	}
	for i := range t.Rounds {
		r := &t.Rounds[i]
		v, ok := r.Figures[query][measure]
		k, known := place[r.Setting]
		if !ok || !known || IsNaN(v) {
			continue
		}
		class, title := "dot", fmt.Sprintf("%s, round %d: %s", r.Setting, r.Round, experimentFigure(measure, v))
		if !r.Valid {
			class, title = "dot hollow", title+", does not count: "+r.Why
		}
		s.dot(class, float64(k)+0.6*((float64(r.Round)-0.5)/float64(last)-0.5), float64(v), 3, title)
	}
	if curve != nil {
		xs, ys := make([]float64, len(settings)), make([]float64, len(settings))
		for i := range settings {
			xs[i], ys[i] = float64(i), math.NaN()
		}
		for _, p := range curve.Points {
			k, known := place[p.Setting]
			if !known {
				continue
			}
			ys[k] = float64(p.Value)
			if !IsNaN(p.Low) && !IsNaN(p.High) {
				s.stroke("line due", float64(k), float64(p.Low), float64(k), float64(p.High))
			}
		}
		if numbers {
			s.line("line due", xs, ys)
		}
	}
	return s.html(measure + " by setting")
}

// effect is one line of a chart of effects.
type effect struct {
	name             string
	verdict          judge.Verdict
	ratio, low, high float64
	title            string
}

// mostWhiskers bounds the lines of a chart of effects.
const mostWhiskers = 40

func experimentWhiskers(t *api.Experiment) template.HTML {
	var all []effect
	for i := range t.Rows {
		r := &t.Rows[i]
		m := experimentMeasure(r, r.Lead)
		name := r.Query
		switch {
		case r.Tenant != "":
			name = "tenant " + r.Tenant
		case name == "":
			name = "everything"
		}
		if m.Name != "errors" {
			all = append(all, effect{name: r.Setting + ", " + name, verdict: m.Verdict, ratio: float64(m.Effect), low: float64(m.Low), high: float64(m.High), title: m.Sentence})
		}
	}
	return whiskers(all)
}

func mirrorWhiskers(v *api.MirrorVerdict) template.HTML {
	var all []effect
	for i := range v.Measures {
		m := &v.Measures[i]
		if m.Name != "errors" {
			all = append(all, effect{name: strings.ReplaceAll(m.Name, "_", " "), verdict: m.Verdict, ratio: float64(m.Effect), low: float64(m.Low), high: float64(m.High), title: m.Sentence})
		}
	}
	return whiskers(all)
}

// roundRatios are what an axis of ratios is marked at, on both sides of no change.
var roundRatios = []float64{1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 5, 8, 10}

// whiskers draws effects with their intervals around no change.
func whiskers(all []effect) template.HTML {
	all = slices.DeleteFunc(all, func(e effect) bool { return !(e.ratio > 0) })
	all = first(all, mostWhiskers)
	if len(all) == 0 {
		return ""
	}
	span := math.Log(1.02)
	for _, e := range all {
		for _, v := range []float64{e.ratio, e.low, e.high} {
			if v > 0 && !math.IsInf(v, 0) {
				span = max(span, min(math.Abs(math.Log(v))*1.08, math.Log(16)))
			}
		}
	}
	s := newSVG(620, float64(len(all))*22+50, axis{-span, span, false}, axis{-0.5, float64(len(all)) - 0.5, false})
	s.left = 200
	edge := roundRatios[0]
	for _, r := range roundRatios {
		if math.Log(r) < 0.85*span {
			edge = r
		}
	}
	s.ticksX([]float64{-math.Log(edge), 0, math.Log(edge)}, func(v float64) string {
		if v == 0 {
			return "no change"
		}
		return "× " + strconv.FormatFloat(math.Exp(v), 'g', 3, 64)
	})
	for i, e := range all {
		y := float64(len(all) - 1 - i)
		class := ""
		switch e.verdict {
		case judge.Faster, judge.FewerErrors:
			class = " good"
		case judge.Slower, judge.MoreErrors:
			class = " worse"
		}
		low, high := -span, span
		if e.low > 0 {
			low = math.Log(e.low)
		}
		if e.high > 0 && !math.IsInf(e.high, 0) {
			high = math.Log(e.high)
		}
		s.stroke("whisker"+class, low, y, high, y)
		s.dot("dot"+class, math.Log(e.ratio), y, 4, string(e.verdict)+": "+e.title)
		name := []rune(e.name)
		if len(name) > 30 {
			name = append(name[:29], '…')
		}
		s.text("tick end", s.left-8, s.py(y)+4, string(name))
	}
	return s.html("effects with their intervals: " + Plural(len(all), "row"))
}
