package stat

import (
	"math"
	"slices"
)

// TallyKind says how the ratio of a tally varies from slot to slot.
type TallyKind int

const (
	ShareTally TallyKind = iota // Num of Den observations: failed requests
	CountTally                  // Num events during Den: requests and seconds
	ValueTally                  // any other ratio: bytes and requests, sums and samples
)

// ChangePointsOfTally is ChangePoints for a ratio of two sums, slot by slot: slots whose
// Den is 0 are skipped. Before and After are the ratios of the stretches' sums.
func ChangePointsOfTally(t Tally, kind TallyKind, o ChangeOptions) ([]ChangePoint, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if len(t.Num) != len(t.Den) {
		return nil, invalidf("a tally of %d and %d slots", len(t.Num), len(t.Den))
	}
	for i, d := range t.Den {
		if !(d >= 0) || math.IsInf(d, 0) || math.IsNaN(t.Num[i]) || math.IsInf(t.Num[i], 0) {
			return nil, invalidf("slot %d has %v of %v", i, t.Num[i], d)
		}
	}
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	some := Tally{NumSquares: t.NumSquares, DenSquares: t.DenSquares}
	var kept []int
	for i, d := range t.Den {
		if d > 0 {
			some.Num, some.Den, kept = append(some.Num, t.Num[i]), append(some.Den, d), append(kept, i)
		}
	}
	if len(kept) < 2*o.Least {
		return nil, nil
	}
	var effect []float64 // of the season, by slot
	if seasonal(len(t.Num), o) {
		effect = some.season(kept, o.Season)
	}
	points := expandPoints(findChanges(len(kept), o, func(from, to int) []view {
		v, ok := some.view(kind, effect, from, to, o)
		if !ok {
			return nil
		}
		return []view{v}
	}), kept, 1)
	from := 0
	for i := range points {
		to := len(t.Num)
		if i+1 < len(points) {
			to = points[i+1].At
		}
		points[i].Value = math.NaN()
		points[i].Before, points[i].After = t.ratio(from, points[i].At), t.ratio(points[i].At, to)
		from = points[i].At
	}
	return points, nil
}

// each returns how many observations one independent one stands for.
func (t Tally) each(kind TallyKind) float64 {
	n, squares := 0.0, t.DenSquares
	counts := t.Den
	if kind == CountTally {
		counts, squares = t.Num, t.NumSquares
	}
	for _, v := range counts {
		n += v
	}
	return n / max(1, effective(n, squares))
}

// ratio returns the ratio of the sums of the slots [from, to).
func (t Tally) ratio(from, to int) float64 {
	num, den := 0.0, 0.0
	for i := from; i < to; i++ {
		num, den = num+t.Num[i], den+t.Den[i]
	}
	return num / den
}

// season returns by how much the ratio of each slot exceeds the mean over all at its
// time of the season.
func (t Tally) season(kept []int, season int) []float64 {
	ratios, phases := make([]float64, len(kept)), make([]int, len(kept))
	for i, at := range kept {
		ratios[i], phases[i] = t.Num[i]/t.Den[i], at%season
	}
	by := seasonOf(ratios, phases, season)
	out := make([]float64, len(kept))
	for i, p := range phases {
		out[i] = by[p]
	}
	return out
}

// view returns the view of the slots [from, to), false if they are all alike.
func (t Tally) view(kind TallyKind, season []float64, from, to int, o ChangeOptions) (view, bool) {
	n := to - from
	x, weight := make([]float64, n), slices.Clone(t.Den[from:to])
	sum := 0.0
	for i := range weight {
		x[i] = t.Num[from+i] / t.Den[from+i]
		sum += weight[i]
	}
	each := sum / float64(n)
	ordered := slices.Clone(weight)
	slices.Sort(ordered)
	most := heaviest * ordered[n/2]
	sum = 0
	for i := range weight {
		weight[i] = min(most, weight[i])
		sum += weight[i]
	}
	for i := range weight {
		weight[i] *= float64(n) / sum
	}
	if slices.Min(x) == slices.Max(x) {
		return view{}, false
	}
	centre := t.ratio(from, to)
	v := view{w: weight, least: o.Least, value: math.NaN(), centre: centre, kind: kind}
	rare := 0.0 // events of a slot
	switch kind {
	case ShareTally:
		rare = min(centre, 1-centre) * each
	case CountTally:
		rare = centre * each
	}
	if kind != ValueTally {
		if !(rare > 0) {
			return view{}, false
		}
		one := max(1, t.each(kind))
		rare /= one
		v.each = each / one
		v.least = max(o.Least, int(math.Ceil(enough/rare)))
	}
	if 2*v.least > n {
		return view{}, false
	}
	var effect []float64
	if season != nil {
		effect = season[from:to]
		for i := range x {
			x[i] -= effect[i]
		}
	}
	v.fill(x, effect)
	return v, true
}
