package stat

import "math"

// Spike is a stretch of slots in which a share of observations is far above what it is
// elsewhere, and after which it is as it was.
type Spike struct {
	From, To int // slots [From, To)
	// Share is the share of observations in the spike, Usual in the reference.
	Share, Usual float64
	// Which is the tally in which the spike is clearest.
	Which int
	// P is the probability of an excess as great by accident, at most Alpha.
	P float64
}

// SpikeOptions configures FindSpike. The zero value looks for a spike anywhere in all
// slots, with the others as the reference.
type SpikeOptions struct {
	// Reference are the slots [0], [1] that say what is usual and how it varies; those of
	// a spike are left out. Default all slots.
	Reference [2]int
	// Starts are the slots [0], [1] in which a spike begins. Default all slots.
	Starts [2]int
	// Looks is how many tallies and lengths count as searched by themselves; default twice
	// the number of tallies, which are much alike.
	Looks int
	// Alpha is the probability of a spike where there is none; default 0.01.
	Alpha float64
}

const (
	defaultSpikeAlpha = 0.01
	// leastStretches is how many stretches as long as a spike the reference has at least.
	leastStretches = 5
	// leastExcess bounds the greatest excess of the reference from below, in standard
	// errors of independent requests, and leastBeyond the observations of a spike.
	leastExcess = 3.0
	leastBeyond = 3
	// spikeTail is the index of the Pareto tail of excesses where it is known when a spike
	// begins, and rangeTail where each slot is searched.
	spikeTail, rangeTail = 3.0, 2.0
	// At most leftAtOnce of the excess of a spike is left in as many slots after it as it
	// has, backFewest at least, and at most leftLater in the backMost after it.
	backFewest, backMost  = 3, 60
	leftAtOnce, leftLater = 0.25, 0.1
)

// FindSpike finds the clearest spike of shares, ok if there is one. Num of a tally counts
// the observations of interest, such as those slower than a quantile, and Den all.
//
// A stretch is compared with stretches of the reference that are as long, by the excess
// of its share in standard errors of independent observations. Slots depend on each other
// and are not normal, so no quantile of a distribution is the bound: it is the greatest
// excess of the reference, times what an excess of a Pareto tail reaches with
// probability Alpha, for as many stretches, lengths and tallies as are searched. A
// reference with spikes of its own therefore hides others like them. A spike begins and
// ends where half of its excess is left; slots without observations at its beginning are
// its own if the reference has hardly any, for while everything stands still nothing ends.
// What stays is not a spike: at most a quarter of the excess is left in as many slots after
// it, and a tenth in the 60 after it.
func FindSpike(tallies []Tally, o SpikeOptions) (s Spike, ok bool, err error) {
	if o.Alpha == 0 {
		o.Alpha = defaultSpikeAlpha
	}
	if !(o.Alpha > 0 && o.Alpha < 1) {
		return s, false, invalidf("a probability of %v of a false spike, want one between 0 and 1", o.Alpha)
	}
	if len(tallies) == 0 {
		return s, false, nil
	}
	n := len(tallies[0].Num)
	for i, t := range tallies {
		if len(t.Num) != n || len(t.Den) != n {
			return s, false, invalidf("tally %d has %d and %d slots, the first has %d", i, len(t.Num), len(t.Den), n)
		}
	}
	for _, r := range []*[2]int{&o.Reference, &o.Starts} {
		if *r == [2]int{} {
			*r = [2]int{0, n}
		}
		if r[0] < 0 || r[1] > n || r[0] > r[1] {
			return s, false, invalidf("slots %d to %d of %d", r[0], r[1], n)
		}
	}
	if o.Looks == 0 {
		o.Looks = 2 * len(tallies)
	}
	for i := range tallies {
		search := &spikeSearch{o, newSums(tallies[i])}
		for _, length := range search.lengths() {
			found := search.clearest(length)
			if found.P > o.Alpha || ok && found.P >= s.P {
				continue
			}
			if found.From, found.To = search.ends(found); search.isBack(found) {
				found.Which = i
				s, ok = found, true
			}
		}
	}
	return s, ok, nil
}

// sums are the running sums of a tally: element t is the sum before slot t. Sampled
// observations count as their effective number (Kish 1965).
type sums struct {
	num, den []float64
	occupied []int // slots with observations
}

func newSums(t Tally) sums {
	n := len(t.Num)
	s := sums{num: make([]float64, n+1), den: make([]float64, n+1), occupied: make([]int, n+1)}
	all := 0.0
	for _, d := range t.Den {
		all += d
	}
	each := 1.0
	if all > 0 {
		each = effective(all, t.DenSquares) / all
	}
	for i := range n {
		s.num[i+1], s.den[i+1], s.occupied[i+1] = s.num[i]+each*t.Num[i], s.den[i]+each*t.Den[i], s.occupied[i]
		if t.Den[i] > 0 {
			s.occupied[i+1]++
		}
	}
	return s
}

// spikeSearch is a search in one tally.
type spikeSearch struct {
	SpikeOptions
	sums
}

func (s *spikeSearch) slots() int { return len(s.num) - 1 }

// outside returns the parts of the reference before and after [from, to).
func (s *spikeSearch) outside(from, to int) [2][2]int {
	lo, hi := s.Reference[0], s.Reference[1]
	return [2][2]int{{lo, max(lo, min(hi, from))}, {min(hi, max(lo, to)), hi}}
}

// usual returns the share of the reference outside [from, to), and how many of its slots
// have observations.
func (s *spikeSearch) usual(from, to int) (share float64, occupied, slots int) {
	var num, den float64
	for _, r := range s.outside(from, to) {
		num, den = num+s.num[r[1]]-s.num[r[0]], den+s.den[r[1]]-s.den[r[0]]
		occupied, slots = occupied+s.occupied[r[1]]-s.occupied[r[0]], slots+r[1]-r[0]
	}
	return num / den, occupied, slots
}

// share returns that of [from, to), NaN without observations.
func (s *spikeSearch) share(from, to int) float64 {
	return (s.num[to] - s.num[from]) / (s.den[to] - s.den[from])
}

// excess returns how far the share of [from, to) is above the usual, in standard errors of
// independent observations.
func (s *spikeSearch) excess(from, to int, usual float64) float64 {
	den := s.den[to] - s.den[from]
	if !(den > 0) {
		return 0
	}
	// A share of which the reference has none still has the variance of one in a while.
	p := min(1-1e-6, max(usual, 1/(1+s.den[s.Reference[1]]-s.den[s.Reference[0]])))
	return (s.share(from, to) - usual) * math.Sqrt(den/(p*(1-p)))
}

// lengths returns those of the stretches that are searched: 1, 2, 3, 4, 6, 8, 12, ….
func (s *spikeSearch) lengths() []int {
	var out []int
	for l := 1; l*leastStretches <= s.Reference[1]-s.Reference[0]; l = max(l+1, l*4/3) {
		out = append(out, l)
	}
	return out
}

// clearest returns the stretch of a length with the greatest excess among those that
// begin where a spike may. Its P is 1 if there is none.
func (s *spikeSearch) clearest(length int) (best Spike) {
	best.P = 1
	most := 0.0
	usual, _, _ := s.usual(0, 0)
	for i := s.Starts[0]; i < s.Starts[1] && i+length <= s.slots(); i++ {
		if z := s.excess(i, i+length, usual); z > most && s.num[i+length]-s.num[i] >= leastBeyond {
			most, best.From, best.To = z, i, i+length
		}
	}
	if most == 0 {
		return best
	}
	var slots int
	best.Usual, _, slots = s.usual(best.From, best.To)
	best.Share = s.share(best.From, best.To)
	most = s.excess(best.From, best.To, best.Usual)
	if math.IsNaN(best.Usual) || slots < leastStretches*length {
		return best
	}
	greatest := leastExcess
	for _, r := range s.outside(best.From, best.To) {
		for i := r[0]; i+length <= r[1]; i++ {
			greatest = max(greatest, s.excess(i, i+length, best.Usual))
		}
	}
	if most > greatest {
		// Of w stretches beside n of the reference, one exceeds r times the greatest of these
		// with probability w/(n+w)·r^−index in a Pareto tail.
		tail := spikeTail
		if s.Starts[1]-s.Starts[0] == s.slots() {
			tail = rangeTail
		}
		w, n := float64(s.Starts[1]-s.Starts[0])/float64(length)+1, float64(slots)/float64(length)
		best.P = min(1, float64(s.Looks)*w/(n+w)*math.Pow(greatest/most, tail))
	}
	return best
}

// ends returns where a spike begins and ends.
func (s *spikeSearch) ends(x Spike) (from, to int) {
	from, to = x.From, x.To
	half := x.Usual + (x.Share-x.Usual)/2
	high := func(i int) bool { return s.share(i, i+1) >= half }
	empty := func(i int) bool { return s.occupied[i+1] == s.occupied[i] }
	for from+1 < to && !high(from) {
		from++
	}
	for to-1 > from && !high(to-1) {
		to--
	}
	for from > s.Starts[0] && high(from-1) {
		from--
	}
	// One slot without observations, or a lower one, does not end it if the next is high.
	for to < s.slots() && (high(to) || to+1 < s.slots() && high(to+1)) {
		to++
	}
	if _, occupied, slots := s.usual(from, to); 10*occupied >= 9*slots {
		for from > 0 && empty(from-1) {
			from--
		}
	}
	return from, to
}

// isBack reports whether the share after a spike is as it was before: at once, and in the
// ten minutes of slots of 10 s after it, for what stays moves up and down as well.
func (s *spikeSearch) isBack(x Spike) bool {
	seen, at := 0, x.To
	within := func(least int, left float64) bool {
		for ; at < s.slots() && seen < least; at++ {
			seen += s.occupied[at+1] - s.occupied[at]
		}
		return s.share(x.To, at)-x.Usual <= left*(s.share(x.From, x.To)-x.Usual)
	}
	least := min(backMost, max(backFewest, x.To-x.From))
	return within(least, leftAtOnce) && seen == least && within(backMost, leftLater)
}

// spikeBounds are the bounds that the requests of a spike lie beyond: quantiles of the
// reference, the last one three times over, which few requests reach by themselves.
var spikeBounds = []struct{ quantile, times float64 }{{0.5, 1}, {0.9, 1}, {0.99, 1}, {0.99, 3}}

// Beyond returns how many observations of each slot lie beyond the median, the 90th and
// the 99th percentile of slots [from, to), and three times that: the tallies by which
// FindSpike sees that requests took longer for a while.
func (s *Series) Beyond(from, to int) []Tally {
	part := s.Slice(from, to)
	out := make([]Tally, 0, len(spikeBounds))
	for _, b := range spikeBounds {
		if part.total > 0 {
			out = append(out, s.above(b.times*part.quantile(b.quantile)))
		}
	}
	return out
}

// above returns how many observations of each slot lie above v.
func (s *Series) above(v float64) Tally {
	at := s.placeOf(v)
	t := Tally{Num: make([]float64, s.Slots()), Den: make([]float64, s.Slots()), DenSquares: s.squaresOfAll()}
	for i := range t.Num {
		t.Den[i] = s.count(i)
		t.Num[i] = t.Den[i] - s.atMost(i, at)
	}
	return t
}

// Trend is how what lies before and after a moment differ.
type Trend int

const (
	Unclear Trend = iota // neither a step nor a drift is plainly the better description
	Step                 // one level before, another after
	Drift                // a line through both
)

func (t Trend) String() string { return [...]string{"unclear", "step", "drift"}[t] }

const (
	trendBlocks = 4   // of either side
	trendBetter = 2.5 // how many times less is left by one description than by the other
)

// StepOrDrift reports whether the p-quantile of all observations, which differs between
// side A and side B, which follows it, differs by a step or by a drift. Each side is
// divided into four blocks; the squares that a step between the sides leaves of the
// logarithms of their quantiles are compared with those that a line leaves. It says
// nothing about whether there is a difference.
func StepOrDrift(a, b Side, p float64) Trend {
	return trendOf(a.slots(), b.slots(), func(side, from, to int) float64 {
		of := make(Side, len(a))
		for i, x := range []Side{a, b}[side] {
			of[i] = x.Slice(from, to)
		}
		return math.Log(of.quantile(p))
	})
}

// StepOrDriftOf is StepOrDrift for a ratio of two sums, and its own scale.
func StepOrDriftOf(a, b Tally) Trend {
	return trendOf(len(a.Num), len(b.Num), func(side, from, to int) float64 {
		t := []Tally{a, b}[side]
		num, den := 0.0, 0.0
		for i := from; i < to; i++ {
			num, den = num+t.Num[i], den+t.Den[i]
		}
		return num / den
	})
}

// quantile returns that of all observations, NaN if there are none.
func (s Side) quantile(p float64) float64 {
	if d := s.mixture(nil); d.count > 0 {
		return d.quantile(p)
	}
	return math.NaN()
}

func trendOf(slotsA, slotsB int, value func(side, from, to int) float64) Trend {
	var y, x []float64
	for side, n := range []int{slotsA, slotsB} {
		for k := range trendBlocks {
			v := value(side, k*n/trendBlocks, (k+1)*n/trendBlocks)
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return Unclear
			}
			// Sides may be of unequal length, and time is what a drift goes by.
			y, x = append(y, v), append(x, float64(side*slotsA)+(float64(k)+0.5)/trendBlocks*float64(n))
		}
	}
	first, second := mean(y[:trendBlocks]), mean(y[trendBlocks:])
	var step float64
	for i, v := range y {
		if i < trendBlocks {
			step += sq(v - first)
		} else {
			step += sq(v - second)
		}
	}
	mx, my := mean(x), mean(y)
	var sxx, sxy, syy float64
	for i := range y {
		sxx, sxy, syy = sxx+sq(x[i]-mx), sxy+(x[i]-mx)*(y[i]-my), syy+sq(y[i]-my)
	}
	line := syy - sxy*sxy/sxx
	switch {
	case step*trendBetter < line:
		return Step
	case line*trendBetter < step:
		return Drift
	}
	return Unclear
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
