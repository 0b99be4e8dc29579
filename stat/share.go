package stat

import (
	"fmt"
	"math"
)

// Share is a share of observations, such as that of slow ones, with its
// interval.
type Share struct {
	Value float64  // NaN without observations
	CI    Interval // NaN where too little is known
	Short string   // what was too little for an interval; empty if it was enough
}

// EachShare estimates Σ Num / Σ Den, a share in [0, 1], of each tally by itself;
// all are of the same slots. Slot t's influence is Num_t − share·Den_t. The
// interval is Wilson's (1927) with the number of independent observations that
// has the same long-run variance (Korn & Graubard 1998), at most as many as
// there are (or say as much, where they stand for several), and Student's t with the degrees
// of freedom of the variance. A tally needs 20
// slots with observations.
func EachShare(tallies []Tally, o Options) ([]Share, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	out := make([]Share, len(tallies))
	var sp *spectrum
	for i, t := range tallies {
		if len(t.Num) != len(t.Den) || len(t.Num) != len(tallies[0].Num) {
			return nil, invalidf("tally %d has %d and %d slots, the first has %d", i, len(t.Num), len(t.Den), len(tallies[0].Num))
		}
		if sp == nil {
			sp = newSpectrum(len(t.Num))
		}
		f := ratioOf([]Tally{t}, nil, Difference, true)
		out[i] = f.alone(sp, o)
	}
	return out, nil
}

// alone returns a share by itself.
func (f *figure) alone(sp *spectrum, o Options) Share {
	s := Share{Value: f.value, CI: Interval{math.NaN(), math.NaN()}, Short: f.short}
	if s.Short == "" && f.slots < minSlots {
		s.Short = fmt.Sprintf("%d slots with observations, at least %d are needed", f.slots, minSlots)
	}
	if s.Short != "" {
		return s
	}
	c := sp.cosines(f.influence)
	found := sp.fit(c)
	se := math.Sqrt(found.covariance(c, c))
	n, crit := f.effective, o.critical(found.degrees(se), len(c), len(c))
	if se > 0 {
		n = min(n, f.at*(1-f.at)/(se*se))
	}
	if 0 < f.at && f.at < 1 && float64(len(c)) < minIndependent*found.dependence {
		s.Short = fmt.Sprintf("slots depend on each other so much that %d say no more than %.1f independent ones; %d are needed",
			len(c), float64(len(c))/found.dependence, minIndependent)
		return s
	}
	s.CI.Low, s.CI.High = wilson(f.at, n, crit)
	return s
}
