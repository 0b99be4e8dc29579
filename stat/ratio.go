package stat

import (
	"fmt"
	"math"
)

// minEvents is the least number of events (errors) of each side for a ratio of shares:
// with fewer, its interval excludes the truth too often. Their difference needs none.
const minEvents = 10

// Tally is a ratio of two sums over the same slots: errors and requests, time
// and calls, seconds and slots.
type Tally struct {
	Num, Den []float64
	// NumSquares and DenSquares are Σw² of all observations in Num and in Den where they
	// stand for w each, as sampled ones do; 0 where they stand for themselves.
	NumSquares, DenSquares float64
	// Each holds, slot by slot, how many observations one independent one of the Den of a
	// share, or of the Num of a count, stands for; nil if that is the same in all slots. 0 is
	// as in the slot before. Change points rest on it.
	Each []float64
}

// effective returns how many independent observations say as much as so many with those
// squares (Kish 1965).
func effective(n, squares float64) float64 {
	if squares > n {
		return n / squares * n
	}
	return n
}

// Apdex returns the tally whose ratio is the Apdex of a series: observations up to
// target count 1, up to four times that ½ (Apdex Technical Specification 1.1).
func Apdex(s *Series, target float64) Tally {
	t := Tally{Num: make([]float64, s.Slots()), Den: make([]float64, s.Slots())}
	t.DenSquares = s.squaresOfAll()
	p1, p4 := s.placeOf(target), s.placeOf(4*target)
	for i := range t.Num {
		t.Num[i] = (s.atMost(i, p1) + s.atMost(i, p4)) / 2
		t.Den[i] = s.count(i)
	}
	return t
}

// Scale is how two sides' figures are compared.
type Scale int

const (
	Difference Scale = iota // B−A
	LogRatio                // ln(B/A)
)

// Shares compares Σ Num / Σ Den where that is a share in [0, 1], such as the
// error ratio or Apdex; strata and mix are those of Quantiles. Slot t's
// influence is Num_t − share·Den_t; each side's interval is Wilson's (1927)
// with the number of independent observations that has the same variance (Korn
// & Graubard 1998), and both combine by Zou & Donner (2008). A share of 0 has a
// difference but no ratio.
func Shares(a, b []Tally, mix []float64, scale Scale, o Options) (Change, error) {
	return ratios(a, b, mix, scale, true, o)
}

// Ratios compares Σ Num / Σ Den for any sums, with intervals that are symmetric
// on the scale of the comparison (Student's t).
func Ratios(a, b []Tally, mix []float64, scale Scale, o Options) (Change, error) {
	return ratios(a, b, mix, scale, false, o)
}

// Mean compares means by their log ratio; strata and mix are those of Quantiles. Slot
// t's influence is its sum less the mean for each observation. Means of 0 or less have
// no ratio; unknown sums have no mean.
func Mean(a, b Side, mix []float64, o Options) (Change, error) {
	if err := checkSides(a, b, mix, o); err != nil {
		return Change{}, err
	}
	da, db := a.mixture(mix), b.mixture(mix)
	c, err := ratios(a.Sums(), b.Sums(), mix, LogRatio, false, o, &da, &db)
	if math.IsNaN(c.A+c.B) && c.Short == "" {
		c.Short = "sums are not known"
	}
	return c, err
}

// Sums returns the sum of the observations of each slot of each stratum, and their number.
func (s Side) Sums() []Tally {
	out := make([]Tally, len(s))
	for i, x := range s {
		out[i] = Tally{Num: x.sum, Den: make([]float64, x.Slots()), DenSquares: x.squaresOfAll()}
		for t := range out[i].Den {
			out[i].Den[t] = x.count(t)
		}
	}
	return out
}

func ratios(a, b []Tally, mix []float64, scale Scale, share bool, o Options, of ...*mixture) (Change, error) {
	if err := o.check(); err != nil {
		return Change{}, err
	}
	if len(a) == 0 || len(a) != len(b) {
		return Change{}, invalidf("%d and %d strata", len(a), len(b))
	}
	na, nb := len(a[0].Num), len(b[0].Num)
	for i := range a {
		if len(a[i].Num) != na || len(a[i].Den) != na || len(b[i].Num) != nb || len(b[i].Den) != nb {
			return Change{}, invalidf("stratum %d has unequal numbers of slots", i)
		}
	}
	if err := checkShape(na, nb, len(a), mix, o); err != nil {
		return Change{}, err
	}
	fa, fb := ratioOf(a, mix, scale, share), ratioOf(b, mix, scale, share)
	if len(of) == 2 {
		fa.of, fb.of = of[0], of[1]
	}
	return judge(fa, fb, scale == LogRatio, newSpectrum(na), o), nil
}

func ratioOf(strata []Tally, mix []float64, scale Scale, share bool) figure {
	slots := len(strata[0].Num)
	f := figure{value: math.NaN(), share: share, influence: make([]float64, slots)}
	f.outer = func(v float64) float64 { return v }
	if scale == LogRatio && share {
		f.outer = math.Log
	}
	var num, den, numSquares, denSquares float64
	value, missing := 0.0, false
	for i, s := range strata {
		var n, d float64
		for t := range s.Num {
			n += s.Num[t]
			d += s.Den[t]
		}
		num, den = num+n, den+d
		numSquares, denSquares = numSquares+max(n, s.NumSquares), denSquares+max(d, s.DenSquares)
		if mix != nil && mix[i] > 0 {
			missing = missing || !(d > 0)
			value += mix[i] * n / d
		}
	}
	f.count, f.effective = den, effective(den, denSquares)
	if mix == nil {
		value = num / den
		missing = !(den > 0)
	}
	if missing {
		f.short = "no observations"
		return f
	}
	f.value, f.at = value, value
	for i, s := range strata {
		w, centre := 1/den, value
		if mix != nil {
			if mix[i] == 0 {
				continue
			}
			var n, d float64
			for t := range s.Num {
				n += s.Num[t]
				d += s.Den[t]
			}
			w, centre = mix[i]/d, n/d
		}
		for t := range s.Num {
			f.influence[t] += w * (s.Num[t] - centre*s.Den[t])
		}
	}
	f.load = make([]float64, slots)
	for t := range slots {
		for _, s := range strata {
			f.load[t] += s.Den[t]
		}
		if f.load[t] > 0 {
			f.slots++
		}
	}
	if events := effective(num, numSquares); scale == LogRatio && share && events < minEvents {
		f.short = fmt.Sprintf("%.3g events, at least %d are needed for a ratio", events, minEvents)
	}
	if scale == LogRatio && !share {
		if !(value > 0) {
			f.short = "not above 0, which has no ratio"
			f.outer = func(float64) float64 { return math.NaN() }
			return f
		}
		f.at = math.Log(value)
		for t := range f.influence {
			f.influence[t] /= value
		}
	}
	return f
}
