package stat

import (
	"math"
	"slices"
)

const (
	// fewestOfFew is the least number of slots of a stretch of few events. The heaviest slot of
	// the side with more of them does not count, so that one burst is not a change.
	fewestOfFew = 3
	// soonEnough is the number of slots, in those that changes are apart, of which the usual
	// search may need as many: where it does with that, nothing else is searched.
	soonEnough = 2
	// fewLooks is the number of stretches for each slot that are as if searched independently. It
	// was measured.
	fewLooks = 8
	// fewViews is the number of shares above quantiles that are as if searched independently.
	fewViews = 2
)

// fewSeen holds the quantiles above which shares of few observations are searched.
var fewSeen = [...]float64{0.5, 0.75, 0.9, 0.99}

// fewEvents is a share of which so few happen, or do not, that a stretch as long as a mean needs
// to be near normal holds far more than is needed to be sure: eight errors at 1 % of one
// request a second take a quarter of an hour, and ten of them in a minute are no chance.
type fewEvents struct {
	Tally
	value          float64   // of which it is the share above; NaN of another share
	num, den       []float64 // independent observations of each slot
	sumNum, sumDen []float64
}

// fewOf returns the independent observations of a share.
func (t Tally) fewOf() *fewEvents {
	s := &fewEvents{Tally: t, value: math.NaN(), num: make([]float64, len(t.Num)), den: make([]float64, len(t.Num))}
	for i, e := range t.Each {
		s.num[i], s.den[i] = t.Num[i]/e, t.Den[i]/e
	}
	s.sumNum, s.sumDen = cumulative(s.num), cumulative(s.den)
	return s
}

// sums returns the events and the observations of the slots [from, to).
func (s *fewEvents) sums(from, to int) (num, den float64) {
	return s.sumNum[to] - s.sumNum[from], s.sumDen[to] - s.sumDen[from]
}

// least returns the fewest slots whose share is near normal.
func (s *fewEvents) least(from, to int) int {
	num, den := s.sums(from, to)
	rare := min(num, den-num) / den * thin(s.den[from:to])
	if !(rare > 0) {
		return to - from
	}
	return min(to-from, int(math.Ceil(enough/rare)))
}

// evidence returns the log likelihood ratio of two shares of num of den and of the rest of all
// over one share. A division as uneven has a probability of about exp of its negative.
func evidence(num, den, allNum, allDen float64) float64 {
	share := allNum / allDen
	return evidenceOf(num, den, share) + evidenceOf(allNum-num, allDen-den, share)
}

// evidenceOf returns the log likelihood ratio of num of den over a share.
func evidenceOf(num, den, share float64) (sum float64) {
	if num > 0 {
		sum += num * math.Log(num/(den*share))
	}
	if num < den {
		sum += (den - num) * math.Log((den-num)/(den*(1-share)))
	}
	return sum
}

// clearest returns the stretch within the slots [from, to) that differs most from the rest of
// them, and the log of the probability that one differs as much by chance anywhere in so many
// slots. The stretch is the last slots, longest of them at most, or lies between others and then
// has defaultLeast at least: a shorter one is a spike.
func (s *fewEvents) clearest(from, to, longest, slots int) (a, b int, logP float64) {
	allNum, allDen := s.sums(from, to)
	if !(allNum > 0 && allNum < allDen) {
		return 0, 0, 0
	}
	share, by := allNum/allDen, math.Log(fewLooks*float64(slots))
	try := func(lo, hi int) {
		num, den := s.sums(lo, hi)
		if !(den > 0 && den < allDen) || sq(num-den*share) < by*den*share*(1-share)*(1-den/allDen) {
			return // far from evident
		}
		if by-evidence(num, den, allNum, allDen) >= logP {
			return
		}
		if p := by - s.evidence(from, to, lo, hi); p < logP {
			a, b, logP = lo, hi, p
		}
	}
	for lo := to - longest; lo <= to-fewestOfFew; lo++ {
		try(lo, to)
	}
	for length := defaultLeast; length <= longest; length = max(length+1, length*4/3) {
		for lo := from; lo+length < to; lo++ {
			try(lo, lo+length)
		}
	}
	return a, b, logP
}

// evidence returns that of a stretch [lo, hi) of the slots [from, to) without the heaviest slot
// of the side with more events, over how much more the rest varies than by chance, in stretches
// as long.
func (s *fewEvents) evidence(from, to, lo, hi int) float64 {
	num, den := s.sums(lo, hi)
	allNum, allDen := s.sums(from, to)
	rest := (allNum - num) / (allDen - den)
	inside := num/den > rest
	at, most := -1, 0.0
	for i := from; i < to; i++ {
		if (lo <= i && i < hi) == inside && s.num[i] > most {
			at, most = i, s.num[i]
		}
	}
	if at >= 0 {
		allNum, allDen = allNum-s.num[at], allDen-s.den[at]
		if inside {
			num, den = num-s.num[at], den-s.den[at]
		}
	}
	if !(allNum > 0 && den > 0 && den < allDen) || num/den > (allNum-num)/(allDen-den) != inside {
		return 0
	}
	return evidence(num, den, allNum, allDen) / s.varies(from, to, lo, hi, rest)
}

// varies returns how many times more the slots of [from, to) beside [lo, hi) vary in stretches
// as long, about their share, than by chance: by the mean of their squares, and by the most
// uneven, for tails may be heavier.
func (s *fewEvents) varies(from, to, lo, hi int, rest float64) float64 {
	if !(rest > 0 && rest < 1) {
		return 1
	}
	inside := s.share(lo, hi) > rest
	length := max(1, min(hi-lo, (to-from-hi+lo)/8))
	sum, n, most := 0.0, 0.0, 0.0
	block := func(i, j int) {
		num, den := s.sums(i, j)
		if !(den > 0) {
			return
		}
		sum, n = sum+sq(num-den*rest)/(den*rest*(1-rest)), n+1
		if num > den*rest == inside {
			most = max(most, evidenceOf(num, den, rest))
		}
	}
	for i := lo; i-length >= from; i -= length {
		block(i-length, i)
	}
	for i := hi; i+length <= to; i += length {
		block(i, i+length)
	}
	return max(1, sum/max(1, n), most/(1+math.Log(max(1, n))))
}

// share returns that of the slots [from, to).
func (s *fewEvents) share(from, to int) float64 {
	num, den := s.sums(from, to)
	return num / den
}

// fewFound is a stretch that few events tell from the rest of another one.
type fewFound struct {
	from, to int
	p        float64 // of one as clear by chance
	of       *fewEvents
}

// few returns what is clearest of at most longest of the slots [from, to), among so many.
func (s *fewEvents) few(from, to, longest, slots int) fewFound {
	a, b, logP := s.clearest(from, to, min(longest, (to-from)/2), slots)
	return fewFound{from: a, to: b, p: math.Exp(logP), of: s}
}

// sure returns the probability of a change at a slot as clear by chance, among so many slots,
// given what is beside it in [from, to).
func (s *fewEvents) sure(from, at, to, slots int) float64 {
	if min(at-from, to-at) < fewestOfFew {
		return 1
	}
	lo, hi := at, to
	if at-from < to-at {
		lo, hi = from, at
	}
	return min(1, fewLooks*float64(slots)*math.Exp(-s.evidence(from, to, lo, hi)))
}

// boundsOf returns the slots between which the changes before and after point i lie.
func boundsOf(points []ChangePoint, i, n int) (from, to int) {
	if from, to = 0, n; i > 0 {
		from = points[i-1].At
	}
	if i+1 < len(points) {
		to = points[i+1].At
	}
	return from, to
}

// surer lowers the probability of a point that few events are surer of, at most longest of
// them on one side.
func (s *fewEvents) surer(p *ChangePoint, from, to, longest, slots int) {
	if min(p.At-from, to-p.At) <= longest {
		p.P = min(p.P, s.sure(from, p.At, to, slots))
	}
}

// withFew adds changes of few events to points, which are among n slots, given what is found
// in the slots [from, to). What is found began or ended where that by itself is sure.
func withFew(points []ChangePoint, n int, o ChangeOptions, find func(from, to int) fewFound) []ChangePoint {
	for i := 0; i <= len(points) && len(points) < o.Most; {
		from, to := 0, n
		if i > 0 {
			from = points[i-1].At
		}
		if i < len(points) {
			to = points[i].At
		}
		added := find(from, to).points(from, to, n, o)
		if len(added) == 0 {
			i++
			continue
		}
		points = slices.Insert(points, i, added...)
	}
	return points
}

// points returns the beginning and the end of what was found in the slots [from, to), those of
// them that are sure.
func (x fewFound) points(from, to, slots int, o ChangeOptions) (out []ChangePoint) {
	if x.p > o.Alpha {
		return nil
	}
	ends := []int{x.from, x.to}
	for i := 0; i < len(ends); {
		before, after := from, to
		if i > 0 {
			before = ends[i-1]
		}
		if i+1 < len(ends) {
			after = ends[i+1]
		}
		if before < ends[i] && x.of.sure(before, ends[i], after, slots) <= o.Alpha {
			i++
			continue
		}
		ends, i = slices.Delete(ends, i, i+1), 0
	}
	for _, at := range ends {
		out = append(out, ChangePoint{At: at, P: x.p, Value: x.of.value})
	}
	for i := range out {
		p := &out[i]
		before, after := boundsOf(out, i, to)
		before = max(before, from)
		x.of.date(p, ShareTally, before, after, true)
		p.Before, p.After = x.of.ratio(before, p.At), x.of.ratio(p.At, after)
	}
	return out
}

// withFew adds to points, which were found among groups of k slots, those of few
// observations above or below a value, and dates all of them to a slot.
func (s *Series) withFew(points []ChangePoint, k int, o ChangeOptions) []ChangePoint {
	n, longest := s.Slots(), k*o.Least*3/2
	all := make([]int, n)
	for t := range all {
		all[t] = t
	}
	points = expandPoints(points, all, k)
	for i := range points {
		p := &points[i]
		from, to := boundsOf(points, i, n)
		of := s.shareAbove(p.Value)
		of.date(p, ShareTally, from, to, false)
		of.surer(p, from, to, longest, fewViews*n)
	}
	return withFew(points, n, o, func(from, to int) fewFound {
		best, last := fewFound{p: 1}, math.NaN()
		part := s.Slice(from, to)
		for _, q := range fewSeen {
			v := part.quantile(q)
			if v == last {
				continue
			}
			last = v
			if x := s.shareAbove(v).few(from, to, longest, fewViews*n); x.p < best.p {
				best = x
			}
		}
		return best
	})
}

// shareAbove returns the share of observations above a value, with what each stands for.
func (s *Series) shareAbove(value float64) *fewEvents {
	t := s.above(value)
	t.Each = make([]float64, s.Slots())
	for i, n := range t.Den {
		t.Each[i] = n / s.effective(i)
	}
	out := t.fewOf()
	out.value = value
	return out
}
