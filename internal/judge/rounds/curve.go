package rounds

import (
	"fmt"
	"math"
	"slices"

	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// Curve is one measure of one key over the settings, and which of them may be the
// best.
type Curve struct {
	Key     Key
	Measure string
	Lower   bool // less is better
	Points  []Point
	// Best has the best figure. Candidates, in the order of settings, are those that
	// cannot be told from the best.
	Best        int
	Candidates  []int
	XLow, XHigh float64
	Sentence    string
}

// Point is one setting of a curve.
type Point struct {
	Setting          int
	X                float64
	Value, Low, High float64
	BestIn           float64 // share of rounds in which it was best
}

// Curves are the responses of durations, of a closed loop's rate and of the measure
// that decides, of each key. Places are the settings' x, NaN where there is none.
//
// The set of candidates holds the setting that is truly best with the confidence
// of the intervals: a setting is left out if some other is better beyond the
// one-sided interval of their difference within rounds, at a level divided by the
// number of others. These are Hsu's multiple comparisons with the best (1984, Ann.
// Statist. 12) for settings whose figures depend on each other, as those of one
// round do, by Bonferroni's inequality (Nelson & Matejcik 1995, Management Sci.
// 41). Nothing is assumed of the curve's shape: between settings that were not
// measured nothing is said.
//
// The interval of a point is that of its figure with what the rounds share taken
// out (Loftus & Masson 1994, Psychon. Bull. Rev. 1; Morey 2008, Tutor. Quant.
// Methods Psychol. 4), so that points of one curve can be set against each other.
func Curves(in Input, places []float64) []Curve {
	in.defaults()
	t := tabulate(in.Runs)
	var out []Curve
	for _, k := range t.keys() {
		if k.Tenant != "" {
			continue
		}
		for _, name := range t.measures(&in) {
			if duration(name) || name == judge.Rate && in.Closed || name == in.Decides && !difference(name) {
				if c, ok := t.curve(&in, k, name, places); ok {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func (t *table) curve(in *Input, k Key, name string, places []float64) (Curve, bool) {
	n := len(in.Settings)
	var logs [][]float64 // of complete rounds, by setting
	for _, round := range t.rounds {
		row := make([]float64, n)
		for s := range n {
			row[s] = math.NaN()
			if r := t.runs[[2]int{round, s}]; r != nil {
				if v, ok := r.Cells[k].Values[name]; ok && v > 0 {
					row[s] = math.Log(v)
				}
			}
		}
		if !slices.ContainsFunc(row, math.IsNaN) {
			logs = append(logs, row)
		}
	}
	if len(logs) < max(Fewest, in.Rule.Stage) || n < 2 {
		return Curve{}, false
	}
	c := Curve{Key: k, Measure: name, Lower: Lower(name), XLow: math.NaN(), XHigh: math.NaN()}
	sign := 1.0 // less is better of sign·log
	if !c.Lower {
		sign = -1
	}
	grand, best := 0.0, make([]int, n)
	for _, row := range logs {
		grand += meanOf(row) / float64(len(logs))
		least := 0
		for s := range row {
			if sign*row[s] < sign*row[least] {
				least = s
			}
		}
		best[least]++
	}
	widen := math.Sqrt(float64(n) / float64(n-1))
	for s := range n {
		shared, own := make([]float64, len(logs)), make([]float64, len(logs))
		for i, row := range logs {
			own[i] = row[s]
			shared[i] = row[s] - meanOf(row) + grand
		}
		e := in.Rule.estimate(shared, in.Level)
		half := (e.High - e.Low) / 2 * widen
		m := meanOf(own)
		c.Points = append(c.Points, Point{Setting: s, X: places[s], Value: math.Exp(m), Low: math.Exp(m - half), High: math.Exp(m + half), BestIn: float64(best[s]) / float64(len(logs))})
		if sign*m < sign*math.Log(c.Points[c.Best].Value) {
			c.Best = s
		}
	}
	for s := range n {
		if !in.Rule.beaten(logs, s, sign, in.Level) {
			c.Candidates = append(c.Candidates, s)
			if x := places[s]; !math.IsNaN(x) {
				if !(c.XLow <= x) {
					c.XLow = x
				}
				if !(c.XHigh >= x) {
					c.XHigh = x
				}
			}
		}
	}
	if !slices.Contains(c.Candidates, c.Best) { // the first of equals
		c.Candidates = append(c.Candidates, c.Best)
		slices.Sort(c.Candidates)
	}
	c.Sentence = c.sentence(in)
	return c, true
}

// beaten says that some other setting is surely better than s.
func (r Rule) beaten(logs [][]float64, s int, sign, level float64) bool {
	n := len(logs[0])
	alpha := (1 - level) / float64(n-1)
	for j := range n {
		if j == s {
			continue
		}
		each := make([]float64, len(logs))
		for i, row := range logs {
			each[i] = sign * (row[s] - row[j])
		}
		e := r.estimate(each, level)
		half := critical(alpha, e.DF)
		if r.Live {
			half = liveCritical(alpha, e.N) // of two sides: more than is asked
		}
		if e.Effect > 0 && e.Effect > half*e.SE {
			return true
		}
	}
	return false
}

func (c *Curve) sentence(in *Input) string {
	way := "lowest"
	if !c.Lower {
		way = "highest"
	}
	title := judge.Title(c.Measure, c.Key.Of())
	best := in.Settings[c.Best]
	var others []string
	for _, s := range c.Candidates {
		if s != c.Best {
			others = append(others, in.Settings[s])
		}
	}
	switch {
	case len(others) == 0:
		return fmt.Sprintf("%s is %s with %s, surely so among all %d (%s confidence)", title, way, best, len(in.Settings), figure.Percent(in.Level))
	case len(others) == len(in.Settings)-1:
		return fmt.Sprintf("%s is %s with %s, from which none of the others can be told (%s confidence)", title, way, best, figure.Percent(in.Level))
	}
	return fmt.Sprintf("%s is %s with %s, from which %s cannot be told (%s confidence)", title, way, best, figure.Listed(others), figure.Percent(in.Level)) + c.span(in)
}

// span is the interval of the optimum in words, if it is wider than one setting.
func (c *Curve) span(in *Input) string {
	if !(c.XLow < c.XHigh) {
		return ""
	}
	var low, high string
	for _, p := range c.Points {
		switch p.X {
		case c.XLow:
			low = in.Settings[p.Setting]
		case c.XHigh:
			high = in.Settings[p.Setting]
		}
	}
	return ": the best of those measured lies from " + low + " to " + high
}
