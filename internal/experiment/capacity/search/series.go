package search

import (
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/hist"
	"tailscope/internal/experiment/capacity/objective"
)

// series holds what a step showed of one condition, batch by batch: a ratio Σ num / Σ
// den that is to stay below target. For a share num counts requests beyond the limit;
// for a mean it is seconds.
type series struct {
	c        objective.Condition
	num, den []float64 // of what ended
	at       []float64 // seconds, the end of each batch
	due      []float64 // became due in it
	far      []float64 // of num, beyond farther times the limit
	spent    []float64 // seconds that those in den took together; of a quantile or max
	late     float64   // under way at the end of the last batch, and beyond the limit
	lateFar  float64   // and beyond farther times the limit
	lateSum  float64   // seconds that those in late have taken
	// Latencies of what ended while the step was discarded, and since; only for
	// conditions on a quantile or on the largest.
	discard float64
	latency [2]*hist.Histogram
}

// farther times the limit is well beyond it.
const farther = 1.5

// beyondMax is the allowed share of requests beyond a limit of the largest. It is so
// small that it takes many requests to show, and a few are no accident.
const beyondMax = 1e-4

// target returns what the ratio is to stay below.
func (s *series) target() float64 {
	switch s.c.Measure {
	case "quantile":
		return 1 - s.c.Quantile
	case "max":
		return beyondMax
	}
	return s.c.Limit
}

func (s *series) isMean() bool { return s.c.Measure == "mean" }

func (s *series) add(b objective.Batch) {
	e, w := b.Ended[s.c.Part], b.Waiting[s.c.Part]
	var num, den, far, spent float64
	switch {
	case s.c.Measure == "errors":
		num, den = float64(e.Errors), float64(e.Requests)
	case e.Latency == nil || e.Latency.Count == 0:
	case s.isMean():
		den = float64(e.Latency.Count)
		num = e.Latency.Mean() * den
	default:
		den = float64(e.Latency.Count)
		within, _, _ := e.Latency.AtMost(s.c.Limit)
		num = den - within
		within, _, _ = e.Latency.AtMost(farther * s.c.Limit)
		far = den - within
		spent = e.Latency.Mean() * den
		s.keep(e.Latency)
	}
	s.num, s.den = append(s.num, num), append(s.den, den)
	s.at, s.due = append(s.at, b.At.Seconds()), append(s.due, float64(w.Due))
	s.far, s.spent = append(s.far, far), append(s.spent, spent)
	s.late, s.lateFar = s.overdue(w, s.c.Limit), s.overdue(w, farther*s.c.Limit)
	s.lateSum = s.late * (s.c.Limit + w.Oldest.Seconds()) / 2
}

func (s *series) keep(h *hist.Histogram) {
	part := &s.latency[0]
	if len(s.at) > 0 && s.at[len(s.at)-1] >= s.discard-1e-9 {
		part = &s.latency[1]
	}
	if *part == nil {
		*part = h.Clone()
		return
	}
	if err := (*part).Merge(h); err != nil {
		*part = h.Clone() // of another kind than before: what is left is shown
	}
}

// overdue returns how many of the requests under way are surely beyond the limit: the
// oldest, and all that are more than came due within it.
func (s *series) overdue(w objective.Waiting, limit float64) float64 {
	if s.c.Measure == "errors" || w.UnderWay == 0 || w.Oldest.Seconds() <= limit {
		return 0
	}
	fresh, now := 0.0, s.at[len(s.at)-1]
	for i := len(s.at) - 1; i >= 0 && s.at[i] > now-limit; i-- {
		fresh += s.due[i]
	}
	return max(float64(w.UnderWay)-fresh, 1)
}

// sum returns the ratio's parts over what ended in (from, to] seconds, with what is
// overdue at the end. The last batch counts whatever its length.
func (s *series) sum(from, to float64) (num, den float64) {
	last := len(s.at) - 1
	for i := last; i >= 0 && (i == last || s.begin(i) >= from-1e-9); i-- {
		if s.at[i] <= to+1e-9 {
			num, den = num+s.num[i], den+s.den[i]
		}
	}
	extra := s.late
	den += extra
	if s.isMean() {
		extra = s.lateSum
	}
	return num + extra, den
}

func (s *series) begin(i int) float64 {
	if i == 0 {
		return 0
	}
	return s.at[i-1]
}

// seen is the evidence of a step on a condition.
type seen struct {
	of     *series
	v      float64 // where: the log of the load
	y, n   float64 // num and den of what is measured
	target float64
	mean   bool
	took   float64 // seconds measured
	// clump is the variance of y relative to as many independent requests, and df the
	// degrees of freedom of its estimate; 0 without one.
	clump, df float64
	stray     bool // errors, of which no step had more than allowed
	acute     bool // it broke, by what a moment showed of this condition
}

// measure sums up what came after discard. The clumping of slow requests cannot be
// estimated from themselves, since few clumps come in a step. It is estimated from
// all latencies, whose mean varies more than that of independent ones by the same
// factor: in queues the two are nearly the same, see the test.
func (s *series) measure(v float64, discard time.Duration) seen {
	o := seen{of: s, v: v, target: s.target(), mean: s.isMean()}
	if len(s.at) == 0 {
		return o
	}
	from, end := discard.Seconds(), s.at[len(s.at)-1]
	if end <= from { // it ended before its time: something is better than nothing
		from = 0
	}
	o.took = end - from
	if o.y, o.n = s.sum(from, end); o.n == 0 {
		return o
	}
	first := len(s.at)
	for first > 0 && s.begin(first-1) >= from-1e-9 {
		first--
	}
	cosines := int(max(2, min(math.Round(o.took*slowest), 24)))
	if len(s.at)-first < 4*cosines {
		return o
	}
	ratio := o.y / o.n
	switch {
	case s.isMean():
		o.clump = long(s.num[first:], s.den[first:], cosines) / (ratio * ratio)
		o.df = float64(cosines)
	case s.c.Measure == "errors":
		if o.y > 0 {
			o.clump = long(s.num[first:], s.den[first:], cosines) / (ratio * max(1-ratio, 0.02))
			// Few clumps say little of how they vary.
			o.df = min(float64(cosines), o.y/max(o.clump, 1))
		}
	default:
		if v := s.variance(); v > 0 {
			o.clump = long(s.spent[first:], s.den[first:], cosines) / v
			o.df = float64(cosines)
		}
	}
	return o
}

// slowest is the highest frequency, in half-periods a second, of slow changes.
const slowest = 0.24

// long returns the long-run variance of a ratio of sums, times their number: that of
// slow changes of the batches' residuals, the mean square of their first cosines
// (Müller 2007, J. Econometrics 141).
func long(num, den []float64, cosines int) float64 {
	var y, n float64
	for i := range num {
		y, n = y+num[i], n+den[i]
	}
	if n == 0 {
		return 0
	}
	squares := 0.0
	for b := 1; b <= cosines; b++ {
		sum := 0.0
		for i := range num {
			sum += (num[i] - y/n*den[i]) * math.Cos(math.Pi*float64(b)*(float64(i)+0.5)/float64(len(num)))
		}
		squares += 2 * sum * sum
	}
	return squares / float64(cosines) / n
}

// variance returns the variance of the latencies, as if they were independent.
func (s *series) variance() float64 {
	h := s.latency[1]
	if h == nil {
		h = s.latency[0]
	}
	if h == nil || h.Count == 0 {
		return 0
	}
	mean, squares := h.Mean(), 0.0
	for b := range h.All() {
		d := (b.Lower+b.Upper)/2 - mean
		squares += float64(b.Count) * d * d
	}
	return squares / float64(h.Count)
}

// quantiles returns the figure that belongs to a share of slow requests, the quantile
// above which so many lie, and its interval: the limits that the share beyond them
// does not contradict by the score test that interval inverts (Woodruff 1952, JASA
// 47). So a limit is within it exactly when the condition is unclear. An end is NaN
// if too few requests leave it open; both are for the largest.
func (s *series) quantiles(o seen, level float64) (value, low, high float64) {
	h := s.latency[1]
	if h == nil {
		h = s.latency[0]
	}
	switch {
	case h == nil:
		return nan, nan, nan
	case s.c.Measure == "max":
		return h.Max, nan, nan
	}
	value, low, high = h.Quantile(s.c.Quantile), nan, nan
	if o.n == 0 { // what there is ended before the step was measured
		return value, low, high
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: o.df}.Quantile((1 + level) / 2)
	half := t * math.Sqrt(o.target*(1-o.target)*o.clump/o.n)
	if most := o.target + half; most < 1 {
		low = h.Quantile(1 - most)
	}
	if least := o.target - half; least > 0 {
		high = h.Quantile(1 - least)
	}
	return value, low, high
}

var nan = math.NaN()
