package stat

import (
	"fmt"
	"math"
	"slices"
)

// Side is one side of a comparison: one Series per stratum (operation × cohort), all of
// the same slots, in the same order on both sides. A side without strata is one Series.
type Side []*Series

func (s Side) slots() int {
	if len(s) == 0 {
		return 0
	}
	return s[0].Slots()
}

func checkSides(a, b Side, mix []float64, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(a) == 0 || len(a) != len(b) {
		return invalidf("%d and %d strata", len(a), len(b))
	}
	for i := range a {
		if a[i] == nil || b[i] == nil {
			return invalidf("stratum %d is missing", i)
		}
		if a[i].Slots() != a.slots() || b[i].Slots() != b.slots() {
			return invalidf("stratum %d has %d and %d slots, the first has %d and %d", i, a[i].Slots(), b[i].Slots(), a.slots(), b.slots())
		}
	}
	return checkShape(a.slots(), b.slots(), len(a), mix, o)
}

func checkShape(slotsA, slotsB, strata int, mix []float64, o Options) error {
	if o.Paired && slotsA != slotsB {
		return invalidf("paired sides of %d and %d slots", slotsA, slotsB)
	}
	if o.Blocks != nil {
		if err := o.Blocks.check(slotsA, slotsB, o); err != nil {
			return err
		}
	}
	if mix == nil {
		return nil
	}
	if len(mix) != strata {
		return invalidf("a mix of %d strata for %d", len(mix), strata)
	}
	sum := 0.0
	for _, w := range mix {
		if !(w >= 0) {
			return invalidf("weight %v in a mix", w)
		}
		sum += w
	}
	if !(math.Abs(sum-1) < 1e-9) {
		return invalidf("a mix that sums to %v, want 1", sum)
	}
	return nil
}

// Quantiles compares the p-quantiles, p in (0, 1), by their log ratio. With a nil mix
// they are those of all requests of a side; else of a mixture in which stratum i has the
// share mix[i] on both sides, see CommonMix.
//
// Slot t's influence is what it adds to the share of requests above the quantile beyond
// its part (Bahadur 1966); the interval of that share, Wilson's with the long-run
// variance, is mapped back to values through the distribution itself (Woodruff 1952), so
// no density is estimated; the two sides' intervals combine by Zou & Donner (2008).
// Paired sides: the influences' differences give the variance, which both sides'
// intervals share. An interval's end with less than one observation beyond it is open;
// if both are, there are too few data. Quantiles of 0 or less have no ratio: Effect is
// NaN.
func Quantiles(a, b Side, ps []float64, mix []float64, o Options) ([]Change, error) {
	if err := checkSides(a, b, mix, o); err != nil {
		return nil, err
	}
	if err := checkQuantiles(ps); err != nil {
		return nil, err
	}
	sp := newSpectrum(a.slots())
	out := make([]Change, len(ps))
	fa, fb := a.quantiles(ps, mix), b.quantiles(ps, mix)
	for i := range ps {
		out[i] = judge(fa[i], fb[i], true, sp, o)
	}
	return out, nil
}

func checkQuantiles(ps []float64) error {
	for _, p := range ps {
		if !(p > 0 && p < 1) {
			return invalidf("quantile %v, want one between 0 and 1", p)
		}
	}
	return nil
}

// Quantile is Quantiles for one p.
func Quantile(a, b Side, p float64, mix []float64, o Options) (Change, error) {
	c, err := Quantiles(a, b, []float64{p}, mix, o)
	if err != nil {
		return Change{}, err
	}
	return c[0], nil
}

// quantiles returns figures of a side, one for each p.
func (s Side) quantiles(ps []float64, mix []float64) []figure {
	d := s.mixture(mix)
	out := make([]figure, len(ps))
	var values, shares []float64
	for i, p := range ps {
		out[i] = d.figure(p)
		if out[i].short == "" {
			values, shares = append(values, out[i].value), append(shares, p)
		}
	}
	rows, load := d.above(values, shares), d.load()
	for i := range out {
		if out[i].short == "" {
			out[i].influence, out[i].load, rows = rows[0], load, rows[1:]
			out[i].of = &d
		}
	}
	return out
}

// slotsAbove returns each slot's influence on the share of the mixture above a value, and
// the share.
func (d *mixture) slotsAbove(v float64) (influence []float64, share float64) {
	return d.above([]float64{v}, nil)[0], 1 - d.atMost(v)
}

// load returns the number of observations of each slot.
func (d *mixture) load() []float64 {
	if len(d.strata) == 0 {
		return nil
	}
	out := make([]float64, d.strata[0].Slots())
	for _, x := range d.strata {
		for t := range out {
			out[t] += x.count(t)
		}
	}
	return out
}

// figure returns a quantile without its influence.
func (d *mixture) figure(p float64) figure {
	f := figure{value: math.NaN(), at: 1 - p, share: true, count: d.count, effective: d.effective, slots: d.slots}
	if !(d.count > 0) {
		f.short = "no observations"
		f.outer = func(float64) float64 { return math.NaN() }
		return f
	}
	f.value = d.quantile(p)
	above, below := d.around(f.value)
	// A limit that leaves less than one observation beyond it is unknown.
	f.outer = func(share float64) float64 {
		switch {
		case share*above < 1 && share < 1-p:
			return math.Inf(1)
		case (1-share)*below < 1 && share > 1-p:
			return math.Inf(-1)
		}
		v := d.quantile(1 - share)
		if !(v > 0) {
			if share > 1-p {
				return math.Inf(-1)
			}
			return math.NaN()
		}
		return math.Log(v)
	}
	if !(f.value > 0) {
		f.short = fmt.Sprintf("the quantile is %v, which has no ratio", f.value)
		return f
	}
	f.err = d.err
	return f
}

// mixture is the distribution of a side at a mix, or of all its requests.
type mixture struct {
	strata []*Series
	weight []float64
	raw    bool
	count  float64 // observations of the strata in it
	// effective is the number of independent observations that say as much as all.
	effective float64
	slots     int // that have observations
	err       float64
}

func (s Side) mixture(mix []float64) mixture {
	d := mixture{raw: mix == nil}
	total, squares := 0.0, 0.0
	for _, x := range s {
		total += x.total
	}
	for i, x := range s {
		w := 0.0
		switch {
		case x.total == 0:
		case d.raw:
			w = x.total / total
		default:
			w = mix[i]
		}
		if w > 0 {
			d.strata, d.weight = append(d.strata, x), append(d.weight, w)
			d.count += x.total
			squares += x.squaresOfAll()
			d.err = max(d.err, x.err)
		} else if !d.raw && mix[i] > 0 {
			return mixture{raw: d.raw} // a stratum of the mix has no observations here
		}
	}
	d.effective = effective(d.count, squares)
	if len(d.strata) == 1 {
		d.slots = d.strata[0].occupied
		return d
	}
	for t := range s.slots() {
		for _, x := range d.strata {
			if x.count(t) > 0 {
				d.slots++
				break
			}
		}
	}
	return d
}

// around returns how many observations of equal weight would say as much of the
// shares above and below a value, as numbers of the whole (Kish 1965, Survey Sampling,
// section 11.7). They are count where each observation has the same weight, and fewer
// where it stands for several, or the mix lets a few of a stratum stand for many.
func (d *mixture) around(v float64) (above, below float64) {
	if d.raw || len(d.strata) == 1 {
		return d.effective, d.effective
	}
	var massAbove, massBelow, squaresAbove, squaresBelow float64
	for i, x := range d.strata {
		at := x.atMostAll(x.placeOf(v)) / x.total
		each := d.weight[i] / x.alone // weight of an independent observation
		massAbove += d.weight[i] * (1 - at)
		massBelow += d.weight[i] * at
		squaresAbove += d.weight[i] * (1 - at) * each
		squaresBelow += d.weight[i] * at * each
	}
	above, below = d.effective, d.effective
	if squaresAbove > 0 {
		above = massAbove / squaresAbove
	}
	if squaresBelow > 0 {
		below = massBelow / squaresBelow
	}
	return above, below
}

func (d *mixture) atMost(v float64) float64 {
	sum := 0.0
	for i, x := range d.strata {
		sum += d.weight[i] * x.atMostAll(x.placeOf(v)) / x.total
	}
	return sum
}

// quantile returns the value that a share p of the mixture is at or below.
func (d *mixture) quantile(p float64) float64 {
	if len(d.strata) == 1 {
		return d.strata[0].quantile(p)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range d.strata {
		v := x.quantile(p)
		low, high = min(low, v), max(high, v)
	}
	// The mixture's quantile lies between those of its parts. Within a bucket the
	// distribution is close to a line: where the line meets p, and just beside
	// that, is tried before the middle.
	const near = 1e-13
	below, above := math.NaN(), math.NaN() // at low and high, less p
	try := func(v float64) {
		switch f := d.atMost(v) - p; {
		case !(v > low && v < high):
		case f < 0:
			low, below = v, f
		default:
			high, above = v, f
		}
	}
	for range 60 {
		mid := (low + high) / 2
		if low > 0 && high > 2*low {
			mid = math.Sqrt(low * high)
		}
		if mid <= low || mid >= high {
			break
		}
		try(mid)
		if line := low + (high-low)*below/(below-above); line > low && line < high {
			try(line)
			if line == high {
				try(high - near*math.Abs(high))
			} else {
				try(low + near*math.Abs(low))
			}
		}
		if high-low <= 2*near*math.Abs(high) {
			break
		}
	}
	return high
}

// above returns, for each v, each slot's influence on the share of the mixture above it.
// Where v is the greatest value, many observations may be equal to it: ps, if not nil,
// holds the share of the mixture that counts as at most v.
func (d *mixture) above(vs, ps []float64) [][]float64 {
	z := make([][]float64, len(vs))
	if len(vs) == 0 {
		return z
	}
	whole, places := make([]float64, len(vs)), make([][]place, len(vs))
	for k, v := range vs {
		z[k] = make([]float64, d.strata[0].Slots())
		for _, x := range d.strata {
			places[k] = append(places[k], x.placeOf(v))
		}
		if ps != nil {
			d.within(places[k], v, ps[k])
		}
		whole[k] = d.below(places[k])
	}
	below := make([]float64, len(vs))
	for i, x := range d.strata {
		scale := d.weight[i] / x.total
		if d.raw {
			scale = 1 / d.count
		}
		for k := range vs {
			below[k] = x.atMostAll(places[k][i]) / x.total
			if d.raw {
				below[k] = whole[k]
			}
		}
		for t := range d.strata[0].Slots() {
			n := x.count(t)
			if n == 0 {
				continue
			}
			for k := range vs {
				z[k][t] += scale * (n*below[k] - x.atMost(t, places[k][i]))
			}
		}
	}
	return z
}

// below returns the share of the mixture at or below a place of each stratum.
func (d *mixture) below(places []place) float64 {
	sum := 0.0
	for i, x := range d.strata {
		sum += d.weight[i] * x.atMostAll(places[i]) / x.total
	}
	return sum
}

// within moves the places of strata whose greatest value is v, such as a time limit,
// into the observations equal to it, until a share p of the mixture is below: otherwise
// a slot with more of them than others would look like any other.
func (d *mixture) within(places []place, v, p float64) {
	const near = 1e-12
	inner := slices.Clone(places)
	for i, x := range d.strata {
		if v >= x.max && v <= x.max*(1+near) {
			inner[i] = x.spreadOf(x.max)
		}
	}
	all, least := d.below(places), d.below(inner)
	if !(all > p && all > least) {
		return
	}
	out := min(1, (all-p)/(all-least))
	for i := range places {
		if inner[i] != places[i] { // between them is the rest of one bucket
			places[i] = place{inner[i].bucket, 1 - out*(1-inner[i].share)}
		}
	}
}
