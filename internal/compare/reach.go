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
	Judged, Sure int  // rows that were judged, and that surely changed
	Rest         Rest // empty if none was judged
}

// Rest says what all rows together tell of those that are not sure. Its values are the API's.
type Rest string

const (
	RestOpen  Rest = "open"  // they may have changed, and may not have
	RestStays Rest = "stays" // at most half of all rows changed
	RestMost  Rest = "most"  // more than half of all rows changed
	RestAll   Rest = "all"   // at least four fifths did, and all may have
)

// byReach are the Rests, that of the fewest rows first.
var byReach = []Rest{RestOpen, RestStays, RestMost, RestAll}

// ReachOf returns how far a measure's change reached among rows. Sure reports whether the
// measure surely changed for a row, in the way that is asked for. A row with an interval is
// judged. Each changed by about as much as others did, or not at all: the share that changed
// has the interval in which a mixture of both explains the rows, within 1.92 of the log of
// the largest likelihood (95 %).
func ReachOf(rows []api.CompareRow, measure string, sure func(*api.CompareRow, *api.CompareMeasure) bool) Reach {
	out := Reach{Rest: RestOpen}
	var all, unsure []estimate
	sum, weights := 0.0, 0.0 // of the effects on those that surely changed
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
		all = append(all, estimate{effect, deviation})
		if is {
			w := 1 / (deviation * deviation)
			sum, weights = sum+w*effect, weights+w
		} else {
			unsure = append(unsure, estimate{effect, deviation})
		}
	}
	switch {
	case out.Judged == 0:
		out.Rest = ""
	case out.Sure > 0 && out.Sure == out.Judged:
		out.Rest = RestAll
	case weights == 0:
	case !slices.ContainsFunc(unsure, func(x estimate) bool { return x.mayBe(sum / weights / 2) }):
		out.Rest = RestStays
	default:
		switch low, high := shareOf(all, sum/weights); {
		case low >= 0.8 && high == 1:
			out.Rest = RestAll
		case low > 0.5:
			out.Rest = RestMost
		case high <= 0.5:
			out.Rest = RestStays
		}
	}
	return out
}

// estimate is the effect on a row, with its standard error.
type estimate struct{ effect, deviation float64 }

// mayBe reports whether the effect may be as large as size, to its side.
func (x estimate) mayBe(size float64) bool {
	const surely = 2.576 // standard errors, of 1 %
	return x.effect*math.Copysign(1, size)+surely*x.deviation >= math.Abs(size)
}

// shareOf returns the interval, in twentieths, of the share of rows that changed, given the
// effect on those that surely did, which is larger than that on others: chance made them sure.
func shareOf(rows []estimate, sure float64) (low, high float64) {
	const twentieths, sizes, spread, within = 20, 30, 0.3, 1.92
	normal := func(x estimate, mean, spread float64) float64 {
		d := math.Hypot(x.deviation, spread)
		return math.Exp(-(x.effect-mean)*(x.effect-mean)/(2*d*d)) / d
	}
	none := make([]float64, len(rows))
	for i, x := range rows {
		none[i] = normal(x, 0, 0)
	}
	var logs [twentieths + 1]float64
	for k := range logs {
		logs[k] = math.Inf(-1)
	}
	for n := range sizes {
		size := sure * float64(n+1) * 1.2 / sizes
		some := make([]float64, len(rows))
		for i, x := range rows {
			some[i] = normal(x, size, spread*math.Abs(size))
		}
		for k := range logs {
			share, sum := float64(k)/twentieths, 0.0
			for i := range rows {
				sum += math.Log(max(share*some[i]+(1-share)*none[i], 1e-300))
			}
			logs[k] = max(logs[k], sum)
		}
	}
	best := slices.Max(logs[:])
	low, high = 1, 0
	for k, l := range logs {
		if l >= best-within {
			share := float64(k) / twentieths
			low, high = min(low, share), max(high, share)
		}
	}
	return low, high
}

// RestOf returns what is known of the rows that did not surely change, by the measure that
// says the most: the median, p95 or errors.
func RestOf(rows []api.CompareRow, sure func(*api.CompareRow, *api.CompareMeasure) bool) Rest {
	rest := RestOpen
	for _, name := range []string{"p50", "p95", judge.ErrorShare} {
		if r := ReachOf(rows, name, sure); r.Sure < r.Judged || r.Judged == len(rows) { // else nothing is known of the others
			rest = byReach[max(slices.Index(byReach, rest), slices.Index(byReach, r.Rest))]
		}
	}
	return rest
}

// Few reports whether the change surely is of at most half of the rows, and not of most.
func (r Reach) Few() bool {
	return r.Judged >= 2 && r.Sure > 0 && 2*r.Sure <= r.Judged && r.Rest != RestMost && r.Rest != RestAll
}

// Text names those that a change reached, and what they did if verb is not empty: all 70
// tenants changed, 12 of them surely. It never says of some that they alone changed where the
// others may have as well.
func (r Reach) Text(noun, verb string) string {
	of := figure.Counted(r.Judged, noun)
	if verb != "" {
		of += " " + verb
	}
	surely := ""
	if r.Sure < r.Judged {
		surely = fmt.Sprintf(", %d of them surely", r.Sure)
	}
	switch {
	case r.Rest == RestAll && r.Judged > 1:
		return "all " + of + surely
	case r.Rest == RestMost:
		return "most of " + of + surely
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

// reach is ReachOf the rows of a list that changed in a way, for the measure of the first that
// surely did; the measure is nil if none did.
func (c *comparison) reach(list []api.CompareRow, way judge.Way) (Reach, *api.CompareMeasure) {
	lead := firstLead(list, way, c.Within)
	if lead == nil {
		return Reach{}, nil
	}
	return ReachOf(list, lead.Name, func(r *api.CompareRow, _ *api.CompareMeasure) bool { return c.wentIn(r, way) }), lead
}
