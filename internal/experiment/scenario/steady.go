package scenario

import (
	"fmt"
	"math"
	"slices"

	"tailscope/hist"
)

// leastSlots is the number of slots that a judgement needs.
const leastSlots = 10

// calmInRow is the number of judgements in a row that must find no drift, so that a
// lucky one does not end the warm-up.
const calmInRow = 2

// steadiness judges whether latency still drifts, from the figures of slots.
//
// It judges the later half of all slots, so that the stretch grows while cold slots
// leave it. A figure (p50, p99, mean, on the logarithm) drifts by the slope of Theil
// and Sen times the length of the stretch (Sen 1968, JASA 63), whose interval is that
// of Gilbert (1987, Statistical Methods for Environmental Pollution Monitoring,
// 16.5). Whether there is a trend at all is tested as by Mann (1945, Econometrica 13)
// and Kendall, with the variance widened for slots that resemble their neighbours
// (Hamed & Rao 1998, J. Hydrology 204; autocorrelation without the bias of short
// stretches: Hamed 2009, J. Hydrology 368). A figure is steady if the interval lies
// within the margin, or if the drift does and the test finds no trend. If slots
// differ so much that the interval is wider than the margin to either side, it is
// also steady once a long stretch shows nothing like a trend: then there is only
// noise.
type steadiness struct {
	margin float64
	p50    []float64
	p99    []float64
	mean   []float64
	inRow  int
	last   []trend // of the latest judgement
	window int
}

// add adds a slot and reports whether latency is steady.
func (s *steadiness) add(h *hist.Histogram) bool {
	s.p50 = append(s.p50, math.Log(h.Quantile(0.5)))
	s.p99 = append(s.p99, math.Log(h.Quantile(0.99)))
	s.mean = append(s.mean, math.Log(h.Mean()))
	n := len(s.p50)
	if n < leastSlots {
		return false
	}
	s.window = max(leastSlots, (n+1)/2)
	s.last = s.last[:0]
	steady := true
	for _, f := range []struct {
		name string
		x    []float64
	}{{"p50", s.p50}, {"p99", s.p99}, {"mean", s.mean}} {
		t := trendOf(f.x[n-s.window:])
		t.name = f.name
		s.last = append(s.last, t)
		steady = steady && t.steady(s.margin)
	}
	if !steady {
		s.inRow = 0
		return false
	}
	s.inRow++
	return s.inRow >= calmInRow
}

// slots returns the number of slots.
func (s *steadiness) slots() int { return len(s.p50) }

// String returns the figures of the latest judgement.
func (s *steadiness) String() string {
	if len(s.last) == 0 {
		return fmt.Sprintf("%d slots with answers are too few to judge", s.slots())
	}
	text := fmt.Sprintf("over the last %d slots", s.window)
	for i, t := range s.last {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		text += fmt.Sprintf("%s%s drifts by %s (%s to %s, trend p=%.2g)", sep, t.name, percent(t.change), percent(t.low), percent(t.high), t.p)
	}
	return text
}

// percent writes a difference of logarithms.
func percent(d float64) string {
	if math.IsInf(d, 0) || math.IsNaN(d) {
		return "unknown"
	}
	return fmt.Sprintf("%+.1f %%", 100*math.Expm1(d))
}

// trend is the change of a figure over a stretch of slots; differences of logarithms.
type trend struct {
	name              string
	change, low, high float64 // over the whole stretch, with an interval of 90 %
	p                 float64 // Mann and Kendall's, both sides
	slots             int
}

// longStretch is the number of slots that show that there is nothing but noise, quiet
// the least probability of the test then.
const (
	longStretch = 2 * leastSlots
	quiet       = 0.3
)

func (t trend) steady(margin float64) bool {
	m := math.Log1p(margin)
	if math.Abs(t.low) <= m && math.Abs(t.high) <= m {
		return true
	}
	if math.Abs(t.change) <= m {
		return t.p > 0.05
	}
	return t.slots >= longStretch && t.p > quiet && t.low < -m && t.high > m
}

// trendOf judges a stretch of at least leastSlots values.
func trendOf(x []float64) trend {
	n := len(x)
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return trend{change: math.NaN(), low: math.Inf(-1), high: math.Inf(1)}
		}
	}
	slopes := make([]float64, 0, n*(n-1)/2)
	s := 0
	for i := range x {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, (x[j]-x[i])/float64(j-i))
			s += sign(x[j] - x[i])
		}
	}
	slices.Sort(slopes)
	slope := middle(slopes)
	deviation := math.Sqrt(kendallVariance(x) * resemblance(x, slope))
	t := trend{p: 1, slots: n}
	if deviation > 0 && s != 0 {
		z := (math.Abs(float64(s)) - 1) / deviation // with the correction for continuity
		t.p = math.Erfc(z / math.Sqrt2)
	}
	const z90 = 1.6448536269514722
	over, all := float64(n-1), float64(len(slopes))
	at := func(rank float64) float64 { // from 1
		switch i := int(math.Round(rank)); {
		case i < 1:
			return math.Inf(-1)
		case i > len(slopes):
			return math.Inf(1)
		default:
			return slopes[i-1]
		}
	}
	t.change = slope * over
	t.low, t.high = at((all-z90*deviation)/2)*over, at((all+z90*deviation)/2+1)*over
	return t
}

func sign(v float64) int {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

// middle returns the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// kendallVariance returns the variance of Kendall's S without a trend, ties
// considered.
func kendallVariance(x []float64) float64 {
	of := func(n float64) float64 { return n * (n - 1) * (2*n + 5) / 18 }
	v := of(float64(len(x)))
	sorted := slices.Sorted(slices.Values(x))
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		v -= of(float64(j - i))
		i = j
	}
	return max(v, 0)
}

// resemblance returns the factor by which the variance of S grows because slots
// resemble their neighbours: Hamed & Rao's for an autoregression of first order. Its
// coefficient is the autocorrelation of the ranks of the residuals, corrected for the
// bias of short stretches. The factor is at least 1: a stretch is not longer than it
// is.
func resemblance(x []float64, slope float64) float64 {
	n := len(x)
	left := make([]float64, n)
	for i, v := range x {
		left[i] = v - slope*float64(i)
	}
	r := ranks(left)
	mean, whole := float64(n+1)/2, 0.0
	for _, v := range r {
		whole += (v - mean) * (v - mean)
	}
	if whole == 0 {
		return 1
	}
	f, share := float64(n), 0.0
	for i := 1; i < n; i++ {
		share += (r[i-1] - mean) * (r[i] - mean)
	}
	share = min((f*share/whole+2)/(f-4), 0.95)
	sum, c := 0.0, 1.0
	for l := 1.0; l < f && share > 0; l++ {
		c *= share
		sum += (f - l) * (f - l - 1) * (f - l - 2) * c
	}
	return 1 + 2/(f*(f-1)*(f-2))*sum
}

// ranks returns the ranks from 1; equal values get their mean.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return sign(x[a] - x[b]) })
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return out
}
