package compare

import (
	"fmt"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// Reach says how many of the rows of a list a change reached. Of many rows with few requests
// each, only some can surely be told to have changed where all did.
type Reach struct {
	Judged, Sure int // rows that were judged, and that surely changed
	Rest         Rest
}

// Rest is what is known of the rows that are not sure, taken together.
type Rest int

const (
	RestOpen  Rest = iota // they may have changed as much, and may not have
	RestStays             // they changed less than half as much, or not at all
	RestMost              // they surely changed too, at least half as much on average
	RestAll               // they surely changed too, and all rows may have changed alike
)

// ReachOf returns how far a measure's change reached among rows. Sure reports whether the
// measure surely changed for a row, in the way that is asked for. A row with an interval is
// judged. Effects are averaged by the widths of their intervals, and held to be alike unless
// Cochran's Q says otherwise at 1 % (Cochran 1954, Biometrics 10).
func ReachOf(rows []api.CompareRow, measure string, sure func(*api.CompareRow, *api.CompareMeasure) bool) Reach {
	var out Reach
	var all, told, rest pool
	for i := range rows {
		r := &rows[i]
		k := slices.IndexFunc(r.Measures, func(m api.CompareMeasure) bool { return m.Name == measure })
		if k < 0 {
			continue
		}
		m := &r.Measures[k]
		is := sure(r, m)
		effect, deviation, ok := known(m)
		if !ok && !is {
			continue
		}
		if out.Judged++; is {
			out.Sure++
		}
		if !ok {
			continue
		}
		all.add(effect, deviation)
		if is {
			told.add(effect, deviation)
		} else {
			rest.add(effect, deviation)
		}
	}
	const surely = 2.576 // standard errors, of 1 %
	switch effect, deviation := rest.mean(); {
	case out.Sure > 0 && out.Sure == out.Judged:
		out.Rest = RestAll
	case rest.n == 0 || told.n == 0:
	default:
		same, _ := told.mean()
		toward := effect * math.Copysign(1, same)
		switch size := math.Abs(same); {
		case toward > surely*deviation && all.alike():
			out.Rest = RestAll
		case toward > surely*deviation && toward >= size/2:
			out.Rest = RestMost
		case toward+surely*deviation < size/2 || toward > surely*deviation:
			out.Rest = RestStays
		}
	}
	return out
}

// Few reports whether the change surely is of at most half of the rows, and not of most.
func (r Reach) Few() bool {
	return r.Judged >= 2 && r.Sure > 0 && 2*r.Sure <= r.Judged && r.Rest != RestMost && r.Rest != RestAll
}

// Text names those that a change reached, as "all 70 tenants". It never says of some that
// they alone changed where the others may have as well.
func (r Reach) Text(noun string) string {
	of := figure.Counted(r.Judged, noun)
	switch {
	case r.Rest == RestAll && r.Judged > 1:
		return "all " + of
	case r.Rest == RestMost:
		return fmt.Sprintf("most of %s, %d of which can be told by themselves", of, r.Sure)
	case r.Rest == RestOpen && r.Sure < r.Judged:
		return fmt.Sprintf("%d of %s, and maybe others", r.Sure, of)
	}
	return fmt.Sprintf("%d of %s", r.Sure, of)
}

// known returns the effect of a measure on the scale on which effects add up, and its
// standard error by the interval; ok is false without one. Figures are known to a bucket.
func known(m *api.CompareMeasure) (effect, deviation float64, ok bool) {
	const ofRatio, ofDifference = 0.01, 1e-6 // least deviations
	f := m.Judged()
	low, high, least := float64(f.Low), float64(f.High), ofDifference
	if m.Scale == scaleName(stat.LogRatio) {
		low, high, least = math.Log(low), math.Log(high), ofRatio
	}
	effect, deviation = effectOf(m), max(least, (high-low)/(2*1.96))
	return effect, deviation, !math.IsNaN(effect+deviation) && !math.IsInf(effect+deviation, 0)
}

// pool is a mean of effects, weighted by how well each is known.
type pool struct {
	n                       int
	weights, sum, ofSquares float64
}

func (p *pool) add(effect, deviation float64) {
	w := 1 / (deviation * deviation)
	p.n, p.weights, p.sum, p.ofSquares = p.n+1, p.weights+w, p.sum+w*effect, p.ofSquares+w*effect*effect
}

func (p *pool) mean() (effect, deviation float64) {
	return p.sum / p.weights, 1 / math.Sqrt(p.weights)
}

// alike reports whether the effects differ by no more than their intervals let expect: Q is
// below the 99 % point of chi-square, by the approximation of Wilson & Hilferty (1931).
func (p *pool) alike() bool {
	if p.n < 2 {
		return true
	}
	df := float64(p.n - 1)
	q := p.ofSquares - p.sum*p.sum/p.weights
	return q <= df*math.Pow(1-2/(9*df)+2.326*math.Sqrt(2/(9*df)), 3)
}

// reach is ReachOf the rows of a list for the measure of the first that surely changed in a
// way; the measure is nil if none did.
func (c *comparison) reach(list []api.CompareRow, way judge.Way) (Reach, *api.CompareMeasure) {
	lead := firstLead(list, way, c.Within)
	if lead == nil {
		return Reach{}, nil
	}
	return ReachOf(list, lead.Name, func(r *api.CompareRow, _ *api.CompareMeasure) bool { return rowLead(r, way, c.Within) != nil }), lead
}
