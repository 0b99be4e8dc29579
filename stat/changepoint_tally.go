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
	if t.Each != nil && len(t.Each) != len(t.Den) {
		return nil, invalidf("a tally of %d slots with weights of %d", len(t.Den), len(t.Each))
	}
	t.Each = t.each(kind)
	some := Tally{NumSquares: t.NumSquares, DenSquares: t.DenSquares}
	var kept []int
	for i, d := range t.Den {
		if d > 0 {
			some.Num, some.Den, some.Each, kept = append(some.Num, t.Num[i]), append(some.Den, d), append(some.Each, t.Each[i]), append(kept, i)
		}
	}
	if len(kept) < 2*o.Least {
		return nil, nil
	}
	seen := some.seen(kind, kept, len(t.Num), o)
	points := expandPoints(findChanges(len(kept), o, func(from, to int) []view {
		v, ok := seen.view(from, to, o)
		if !ok {
			return nil
		}
		return []view{v}
	}), kept, 1)
	for i := range points {
		if from, to := boundsOf(points, i, len(t.Num)); kind != ValueTally {
			t.date(&points[i], kind, from, to, false)
		}
	}
	if kind == ShareTally && !seasonal(len(t.Num), o) {
		points = t.fewOf().with(points, o)
	}
	for i := range points {
		from, to := boundsOf(points, i, len(t.Num))
		points[i].Value = math.NaN()
		points[i].Before, points[i].After = t.ratio(from, points[i].At), t.ratio(points[i].At, to)
	}
	return points, nil
}

// with adds changes of few events to points, where a mean of as many slots as a change needs
// is not near normal.
func (s *fewEvents) with(points []ChangePoint, o ChangeOptions) []ChangePoint {
	n := len(s.Num)
	for i := range points {
		from, to := boundsOf(points, i, n)
		if least := s.least(from, to); least > soonEnough*o.Least {
			s.surer(&points[i], from, to, 2*least, n)
		}
	}
	return withFew(points, n, o, func(from, to int) fewFound {
		least := s.least(from, to)
		if least <= soonEnough*o.Least {
			return fewFound{p: 1}
		}
		return s.few(from, to, 2*least, n)
	})
}

// date moves a change, which lies among the slots [from, to), to where few events say that
// it is likeliest within its interval, and widens the interval to the moments that they do
// not reject: as binomial or Poisson numbers about the ratios before and after, of which the
// lower varies less. Where all slots on one side are alike, as where there was no error, their
// deviation is 0 and says nothing: the interval is then that of the events alone, as it is if
// they are all that is known. Each observation stands for itself; one that stands for several
// is known no better by them.
func (t Tally) date(p *ChangePoint, kind TallyKind, from, to int, alone bool) {
	before, after := t.usual(kind, from, p.At), t.usual(kind, p.At, to)
	if before == after {
		return
	}
	event, other := math.Log(after/before), after-before // by one more of Num, and of Den
	if kind == ShareTally {
		other = -math.Log((1 - after) / (1 - before))
		event += other
	}
	low, high := p.Low, p.High
	if alone || kind == ShareTally && (t.alike(from, p.At) || t.alike(p.At, to)) {
		low, high = from+1, to-1
		p.Low, p.High = to, from
	}
	// The likelihood of a change at each slot over that of one at from.
	gains := make([]float64, to-from)
	sum, most := 0.0, math.Inf(-1)
	at := p.At
	for i := from; i < to; i++ {
		gains[i-from] = sum
		if sum > most && t.Den[i] > 0 && low <= i && i <= high {
			at, most = i, sum
		}
		sum += (t.Den[i]*other - t.Num[i]*event) / t.Each[i]
	}
	p.At = at
	for i, g := range gains {
		if i == 0 || g < most-rejected {
			continue
		}
		if t.Den[from+i-1] > 0 {
			p.Low = min(p.Low, from+i)
		}
		if t.Den[from+i] > 0 {
			p.High = max(p.High, from+i)
		}
	}
}

// usual returns the ratio of the slots [from, to) with half an observation of either kind
// more, so that what did not happen in them may happen (Jeffreys 1946).
func (t Tally) usual(kind TallyKind, from, to int) float64 {
	num, den := 0.5, 0.0
	if kind == ShareTally {
		den = 1
	}
	for i := from; i < to; i++ {
		num, den = num+t.Num[i]/t.Each[i], den+t.Den[i]/t.Each[i]
	}
	return num / den
}

// alike reports whether all slots of [from, to) have none of what is counted, or nothing else.
func (t Tally) alike(from, to int) bool {
	none, all := true, true
	for i := from; i < to; i++ {
		none, all = none && t.Num[i] == 0, all && t.Num[i] == t.Den[i]
	}
	return none || all
}

// each returns how many observations one independent one stands for, slot by slot; at
// least 1.
func (t Tally) each(kind TallyKind) []float64 {
	n, squares := 0.0, t.DenSquares
	counts := t.Den
	if kind == CountTally {
		counts, squares = t.Num, t.NumSquares
	}
	for _, v := range counts {
		n += v
	}
	out := make([]float64, len(counts))
	last := n / max(1, effective(n, squares))
	if i := slices.IndexFunc(t.Each, func(e float64) bool { return e > 0 }); i >= 0 {
		last = t.Each[i]
	}
	for i := range out {
		if t.Each != nil && t.Each[i] > 0 {
			last = t.Each[i]
		}
		out[i] = max(1, last)
	}
	return out
}

// ratio returns the ratio of the sums of the slots [from, to).
func (t Tally) ratio(from, to int) float64 {
	num, den := 0.0, 0.0
	for i := from; i < to; i++ {
		num, den = num+t.Num[i], den+t.Den[i]
	}
	return num / den
}

// seenTally is a tally as it is searched: the ratios of its slots, by their logarithms
// if they are values that are all positive, as those vary by a factor.
type seenTally struct {
	Tally
	kind   TallyKind
	x      []float64
	effect []float64 // of the season; nil if none is removed
}

// seen returns a tally whose slots are the kept ones of so many as it is searched.
func (t Tally) seen(kind TallyKind, kept []int, slots int, o ChangeOptions) seenTally {
	out := seenTally{Tally: t, kind: kind, x: make([]float64, len(kept))}
	positive := kind == ValueTally
	for i, d := range t.Den {
		if d > 0 {
			out.x[i] = t.Num[i] / d
			positive = positive && out.x[i] > 0
		}
	}
	if positive {
		for i, d := range t.Den {
			if d > 0 {
				out.x[i] = math.Log(out.x[i])
			}
		}
	}
	if seasonal(slots, o) {
		var known []float64
		var phases []int
		for i, at := range kept {
			if t.Den[i] > 0 {
				known, phases = append(known, out.x[i]), append(phases, at%o.Season)
			}
		}
		by := seasonOf(known, phases, o.Season)
		out.effect = make([]float64, len(kept))
		for i, at := range kept {
			out.effect[i] = by[at%o.Season]
		}
	}
	return out
}

// view returns the view of the slots [from, to), false if they are all alike or too few
// are known.
func (t *seenTally) view(from, to int, o ChangeOptions) (view, bool) {
	n, kind := to-from, t.kind
	x := slices.Clone(t.x[from:to])
	low, high := math.Inf(1), math.Inf(-1)
	counts := make([]float64, n)
	var ordered []float64
	for i, d := range t.Den[from:to] {
		if d > 0 {
			low, high = min(low, x[i]), max(high, x[i])
			if kind != ValueTally {
				counts[i] = d / t.Each[from+i]
			}
			ordered = append(ordered, d)
		}
	}
	if !(low < high) || len(ordered) < 2*o.Least {
		return view{}, false
	}
	v := view{least: o.Least, value: math.NaN(), centre: t.ratio(from, to), kind: kind, local: kind == ValueTally}
	if kind == ValueTally {
		v.w = slices.Clone(t.Den[from:to])
		slices.Sort(ordered)
		most, sum := heaviest*ordered[len(ordered)/2], 0.0
		for i, w := range v.w {
			v.w[i] = min(most, w)
			sum += v.w[i]
		}
		for i := range v.w {
			v.w[i] *= float64(n) / sum
		}
	} else {
		rare := v.centre // of an observation, or in a second
		if kind == ShareTally {
			rare = min(rare, 1-rare)
		}
		if !(rare > 0) {
			return view{}, false
		}
		v.least = max(o.Least, int(math.Ceil(enough/(rare*thin(counts)))))
	}
	if 2*v.least > n {
		return view{}, false
	}
	var effect []float64
	if t.effect != nil {
		effect = t.effect[from:to]
		for i := range x {
			x[i] -= effect[i]
		}
	}
	if kind != ValueTally {
		v.weigh(x, counts)
	}
	v.fill(x, effect)
	return v, true
}
