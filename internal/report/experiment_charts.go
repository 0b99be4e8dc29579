package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tailscope/api"
)

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// mostCharts bounds the responses of a page.
const mostCharts = 12

// experimentCharts draws each query's figure of every setting, and the effects.
func experimentCharts(t *api.Experiment) []Chart {
	var out []Chart
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
		out = append(out, Chart{Name: measure + " of " + name + " by " + t.Variable, Plot: settingsChart(t, q, measure)})
	}
	return out
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// settingsChart draws a column for each setting: a dot for each round, hollow if it does
// not count. Of a sweep it draws the estimate with its interval, and shades the settings
// that do not differ from the best.
func settingsChart(t *api.Experiment, query, measure string) string {
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

// experimentIntervals returns the changes of an experiment's rows, each by its most
// important measure.
func experimentIntervals(t *api.Experiment) []Interval {
	var all []Interval
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
			all = append(all, Interval{Name: r.Setting + ", " + name, Verdict: m.Verdict, Ratio: float64(m.Effect), Low: float64(m.Low), High: float64(m.High), Text: m.Sentence})
		}
	}
	return all
}
