package scaling

import (
	"fmt"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
)

// narrow is the range of concurrency, highest over lowest, below which a law is
// hardly more than a line; few is how many points are hardly more than coefficients.
const (
	narrow = 4
	few    = 6
)

// leastRange is the range of nearly all concurrencies, and leastR2 the share of the
// rates' variance, below which there is no law.
const (
	leastRange = 2
	leastR2    = 0.1
)

// middle is between which concurrencies nearly all points lie: single ones of
// hundreds show no range. Of points in order of time, which nobody chose, three are single
// ones at least: a stop of a minute or two makes requests pile up at any load.
func (d data) middle(inTime bool) (low, high float64) {
	n := slices.Clone(d.n)
	slices.Sort(n)
	out := len(n) / 40
	if inTime {
		out = max(out, min(3, len(n)/8))
	}
	return n[out], n[len(n)-1-out]
}

// none says why what was fitted is no law.
func (l Law) none(p params) error {
	switch peak := p.figure(peakN); {
	case !(l.R2 >= leastR2):
		return fmt.Errorf("%w: how many requests are answered hardly depends on how many there are at a time (R² %s)", ErrNoLaw, figure.ThreeDigits(max(0, l.R2)))
	case p[kappa] > 0 && !(peak >= 1):
		return fmt.Errorf("%w: less is answered the more requests there are at a time, from the first on: something else than load makes them slow", ErrNoLaw)
	}
	return nil
}

func (l Law) warn(count int) []string {
	var w []string
	if count < few {
		w = append(w, fmt.Sprintf("only %d points for three coefficients: take at least %d", count, few))
	}
	if l.Highest < narrow*l.Lowest {
		w = append(w, fmt.Sprintf("concurrency ranges only from %s to %s: the law is hardly more than a line there; measure from light load to near the limit",
			figure.Quantity(l.Lowest, ""), figure.Quantity(l.Highest, "")))
	}
	if l.Sigma.Low <= 0 && l.Kappa.Low <= 0 && l.bend() {
		w = append(w, "throughput grows in proportion to concurrency as far as was seen: nothing tells where that ends; measure at more load")
	} else if l.PeakN.Value > l.Highest {
		w = append(w, fmt.Sprintf("the peak at %s lies beyond the highest concurrency that was seen, %s: it is extrapolated",
			figure.ThreeDigits(l.PeakN.Value), figure.Quantity(l.Highest, "")))
	}
	if p, ok := l.beyond(); ok {
		w = append(w, fmt.Sprintf("the peak is of the curve: what is left out answered %s requests/s with %s at a time, where the curve has %s; throughput levels off there rather than falls",
			figure.ThreeDigits(p.Rate), figure.ThreeDigits(p.N), figure.ThreeDigits(l.Rate(p.N))))
	}
	if l.R2 < 0.8 {
		w = append(w, fmt.Sprintf("the law explains only %.0f %% of how rates differ: something else than concurrency moves them", 100*max(0, l.R2)))
	}
	return w
}

// beyond is the point that is not fitted and contradicts most that throughput falls
// beyond the peak: more was answered than at the peak, at more concurrency.
func (l Law) beyond() (most Point, ok bool) {
	for _, p := range l.Points {
		if p.Left && p.N > l.PeakN.High && p.Rate > l.PeakRate.High && p.Rate > most.Rate { // no figure is more than NaN
			most, ok = p, true
		}
	}
	return most, ok
}

// bend says whether a law without any σ and κ is within the intervals: efficiency at
// the highest concurrency that was seen may be 1.
func (l Law) bend() bool {
	loss := func(s, k float64) float64 { return (l.Highest - 1) * (s + k*l.Highest) }
	return loss(l.Sigma.Value, l.Kappa.Value) < 0.05
}

// Sentence says what the law amounts to.
func (l Law) Sentence() string {
	level := figure.Percent(l.Level)
	interval := func(v Value) string {
		switch {
		case math.IsInf(v.High, 1):
			return fmt.Sprintf("%s interval from %s", level, figure.ThreeDigits(v.Low))
		default:
			return fmt.Sprintf("%s interval %s … %s", level, figure.ThreeDigits(v.Low), figure.ThreeDigits(v.High))
		}
	}
	switch {
	case !math.IsNaN(l.PeakN.Value) && l.PeakN.Value <= 1000*l.Highest:
		return fmt.Sprintf("throughput peaks at %s requests/s (%s) with %s requests at a time (%s)",
			figure.ThreeDigits(l.PeakRate.Value), interval(l.PeakRate), figure.ThreeDigits(l.PeakN.Value), interval(l.PeakN))
	case !math.IsNaN(l.Ceiling.Value) && l.Ceiling.Value <= 1000*l.Rate(l.Highest):
		return fmt.Sprintf("throughput nears %s requests/s (%s) and has no peak that data show", figure.ThreeDigits(l.Ceiling.Value), interval(l.Ceiling))
	}
	return fmt.Sprintf("throughput grows in proportion to concurrency, by %s requests/s each (%s), as far as was seen", figure.ThreeDigits(l.Lambda.Value), interval(l.Lambda))
}

// API returns the form in which a law is reported. Source is steps or stored.
func (l Law) API(source string) *api.ScalingLaw {
	value := func(v Value) api.ScalingValue {
		return api.ScalingValue{Value: api.Float(v.Value), Low: api.Float(v.Low), High: api.Float(v.High)}
	}
	return &api.ScalingLaw{
		Lambda: value(l.Lambda), Sigma: value(l.Sigma), Kappa: value(l.Kappa),
		PeakN: value(l.PeakN), PeakRate: value(l.PeakRate), Ceiling: value(l.Ceiling),
		Level: api.Float(l.Level), R2: api.Float(l.R2), Error: api.Float(l.Error), Highest: api.Float(l.Highest),
		Points: APIPoints(l.Points), Source: source, Sentence: l.Sentence(), Warnings: append([]string{}, l.Warnings...),
	}
}

// APIPoints returns the form in which points are reported, never nil.
func APIPoints(points []Point) []api.ScalingPoint {
	out := make([]api.ScalingPoint, len(points))
	for i, p := range points {
		out[i] = api.ScalingPoint{N: api.Float(p.N), Rate: api.Float(p.Rate), Mean: api.Float(p.Mean), Time: api.Float(p.Time), Left: p.Left, Configuration: p.Configuration}
	}
	return out
}
