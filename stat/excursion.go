package stat

import (
	"cmp"
	"math"
	"slices"
)

// Excursion is a stretch of slots in which events came much more or less often than before
// it and after it.
type Excursion struct {
	From, To int // slots [From, To)
	// Rate is events a slot in it, Before and After next to it; After is NaN if it lasts.
	Rate, Before, After float64
	Lasts               bool    // to the last slot
	P                   float64 // of one as clear anywhere in the slots, where there is none
}

const (
	// An excursion has at least twice the usual rate, or at most half of it. In an outage
	// at most outageShare is left, in each of its slots about outageSlot.
	excursionTimes          = 2.0
	outageShare, outageSlot = 0.1, 0.2
	// usualSlots are those next to an excursion that say what is usual, thrice its length
	// if that is more; beginSlots are the fewest before it.
	usualSlots, beginSlots = 30, 10
	// eventsInSlot are the fewest that slots are searched with; of fewer, several make one.
	eventsInSlot = 10
	// What comes more often than mostExcursions times is usual, but for sure outages. Up to
	// mostSearched are looked at, of which those at regular distances do not count.
	mostExcursions, mostSearched = 4, 30
	// regularly is the least number of excursions at one distance that are regular, whose lengths and
	// deviations differ at most by a factor of alike.
	regularly, alike = 3, 2.5
	// Events come in batches where at least pausesShare of slots are empty.
	pausesShare = 0.25
	// excursionDF are the degrees of freedom of the t distribution by which deviations
	// of a robust scale are judged: slots of rates have somewhat heavier tails than normal.
	excursionDF = 10
	// excursionLooks is how many lengths and directions count as searched by themselves.
	excursionLooks = 6
	excursionAlpha = 0.05
	// An outage that lasts has at least so many slots, one that is over shortestOutage.
	shortestLasting, shortestOutage = 6, 2
)

// FindExcursions finds the excursions of a rate of events in slots of equal length, in
// order of time: outages of any length, and others of at most longest slots. Counts are of
// events, or of weights that stand for them, of which squares is the sum of squares; NaN is
// a slot that was not measured, which is left out. What comes at regular distances all the
// time is left out: it is usual. It finds none where what is found comes again and again, but for outages
// that are sure.
//
// Square roots of counts have the same variance at any rate. What a stretch deviates by from
// what is beside it is held against a robust scale of the deviations of all stretches that
// are as long, so that a rate may move slowly, and noise may be of any size.
func FindExcursions(counts []float64, squares float64, longest int) []Excursion {
	s := newExcursionSearch(counts, squares)
	if len(s.x) < 2*beginSlots {
		return nil
	}
	out := s.withoutPauses(s.outages())
	if len(out) > mostExcursions && !s.surelyOutages(out) {
		return nil
	}
	longest = min(longest/s.each, len(s.x)/5)
	var others []Excursion
	for range mostSearched {
		x, ok := s.clearest(longest)
		if !ok {
			break
		}
		others = joined(others, x)
		s.leave(x.From, x.To)
	}
	if others = withoutRegular(others, len(s.x)); len(others) > mostExcursions {
		return nil
	}
	out = append(out, others...)
	for i := range out {
		x := &out[i]
		x.From, x.To = s.at[x.From], s.at[x.To-1]+s.each
		for _, v := range []*float64{&x.Rate, &x.Before, &x.After} {
			*v *= s.weight / float64(s.each)
		}
	}
	slices.SortFunc(out, func(x, y Excursion) int { return cmp.Compare(x.From, y.From) })
	return out
}

// surelyOutages reports whether many outages are those of what flaps, and not the pauses of
// what comes in batches: each is surer than one alone has to be, and they are a small part.
func (s *excursionSearch) surelyOutages(out []Excursion) bool {
	const surely, part = 0.02, 0.25
	slots := 0
	for _, x := range out {
		if x.P > surely {
			return false
		}
		slots += x.To - x.From
	}
	return float64(slots) <= part*float64(len(s.x))
}

// withoutPauses leaves out the outages that are as long as pauses of what comes in batches
// may be.
func (s *excursionSearch) withoutPauses(out []Excursion) []Excursion {
	var pauses []int // of the other slots
	slots, run := 0, 0
	at := 0
	for i, v := range s.given {
		for at < len(out) && i >= s.at[out[at].To-1]+s.each {
			at++
		}
		inside := at < len(out) && i >= s.at[out[at].From]
		if !inside && !math.IsNaN(v) {
			slots++
		}
		if v == 0 && !inside {
			run++
			continue
		}
		if run > 0 {
			pauses = append(pauses, run)
		}
		run = 0
	}
	if run > 0 {
		pauses = append(pauses, run)
	}
	return slices.DeleteFunc(out, func(x Excursion) bool {
		return PausesAsLong(pauses, slots, s.at[x.To-1]+s.each-s.at[x.From]) > excursionAlpha
	})
}

// PausesAsLong returns how many pauses of at least length slots are to be expected among as
// many slots, given the pauses in them, which are stretches of slots without events. The
// length of pauses is taken for exponential beyond that of all but the longest quarter. It
// returns 0 where hardly any slot is empty: then no pause is long.
func PausesAsLong(pauses []int, slots, length int) float64 {
	empty := 0
	for _, v := range pauses {
		empty += v
	}
	if empty == 0 || float64(empty) < pausesShare*float64(slots) {
		return 0
	}
	pauses = slices.Sorted(slices.Values(pauses))
	pauses = pauses[len(pauses)*3/4:]
	longer := float64(len(pauses))
	beyond := longer / 2 // slots cut half of one off each
	for _, v := range pauses[1:] {
		beyond += float64(v - pauses[0])
	}
	// The mean is that of few pauses: the predictive distribution is a power.
	return longer * math.Pow(1+float64(max(0, length-pauses[0]))/beyond, 1-longer)
}

// joined adds an excursion, which is the rest of a clearer one that it adjoins: a slot in which
// that began is partly filled.
func joined(all []Excursion, x Excursion) []Excursion {
	for i := range all {
		o := &all[i]
		if (o.To == x.From || x.To == o.From) && (o.Rate > o.Before) == (x.Rate > x.Before) {
			n, m := float64(o.To-o.From), float64(x.To-x.From)
			o.Rate = (o.Rate*n + x.Rate*m) / (n + m)
			o.From, o.To = min(o.From, x.From), max(o.To, x.To)
			return all
		}
	}
	return append(all, x)
}

// withoutRegular leaves out excursions that come at one distance from the beginning of all
// slots to their end and are alike, as a job does that runs every half hour.
func withoutRegular(all []Excursion, slots int) []Excursion {
	slices.SortFunc(all, func(x, y Excursion) int { return cmp.Compare(x.From, y.From) })
	ratio := func(x, y float64) bool { return max(x, y) <= alike*min(x, y) }
	similar := func(x, y *Excursion) bool {
		return ratio(float64(x.To-x.From), float64(y.To-y.From)) && (x.Rate > x.Before) == (y.Rate > y.Before) && ratio(x.Rate/x.Before, y.Rate/y.Before)
	}
	regular := make([]bool, len(all))
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			apart := all[j].From - all[i].From
			near := max(2, apart/30)
			row := []int{i}
			for k := i + 1; k < len(all); k++ {
				off := all[k].From - all[row[len(row)-1]].From - apart
				if similar(&all[i], &all[k]) && max(off, -off) <= near {
					row = append(row, k)
				}
			}
			last := all[row[len(row)-1]]
			if len(row) >= regularly && all[i].From <= apart+near && slots-last.From <= apart+near {
				for _, k := range row {
					regular[k] = true
				}
			}
		}
	}
	var out []Excursion
	for i, x := range all {
		if !regular[i] {
			out = append(out, x)
		}
	}
	return out
}

// excursionSearch is a search in slots that were measured, several of the given ones each.
type excursionSearch struct {
	given  []float64 // events of the given slots
	x      []float64 // independent events
	at     []int     // first given slot of each
	each   int
	weight float64 // of an event
	left   []bool
	// sum and n are the running sums, and numbers, of slots that are not left out.
	sum []float64
	n   []int
}

func newExcursionSearch(counts []float64, squares float64) *excursionSearch {
	s := &excursionSearch{given: counts, each: 1, weight: 1}
	all, measured := 0.0, 0
	for _, c := range counts {
		if !math.IsNaN(c) {
			all, measured = all+c, measured+1
		}
	}
	if all == 0 {
		return s
	}
	s.weight = all / effective(all, squares)
	for s.each < measured && all/s.weight*float64(s.each) < eventsInSlot*float64(measured) {
		s.each++
	}
	sum, n := 0.0, 0
	for i, c := range counts {
		if math.IsNaN(c) {
			sum, n = 0, 0 // slots of a sum are next to each other
			continue
		}
		if sum, n = sum+c/s.weight, n+1; n == s.each {
			s.x, s.at = append(s.x, sum), append(s.at, i+1-n)
			sum, n = 0, 0
		}
	}
	s.left = make([]bool, len(s.x))
	s.add()
	return s
}

func (s *excursionSearch) add() {
	s.sum, s.n = make([]float64, len(s.x)+1), make([]int, len(s.x)+1)
	for i, v := range s.x {
		s.sum[i+1], s.n[i+1] = s.sum[i], s.n[i]
		if !s.left[i] {
			s.sum[i+1], s.n[i+1] = s.sum[i]+v, s.n[i]+1
		}
	}
}

func (s *excursionSearch) leave(from, to int) {
	for i := from; i < to; i++ {
		s.left[i] = true
	}
	s.add()
}

// mean returns that of the slots [from, to) that are not left out, NaN if all are.
func (s *excursionSearch) mean(from, to int) float64 {
	from, to = max(0, from), min(len(s.x), to)
	if from >= to || s.n[to] == s.n[from] {
		return math.NaN()
	}
	return (s.sum[to] - s.sum[from]) / float64(s.n[to]-s.n[from])
}

// before and after return the rate beside [from, to).
func (s *excursionSearch) before(from, to int) float64 {
	lo := s.back(from, max(usualSlots, 3*(to-from)))
	return s.mean(lo, from)
}

func (s *excursionSearch) after(from, to int) float64 {
	return s.mean(to, to+max(usualSlots, 3*(to-from)))
}

// back returns the slot before which there are so many others, not left out, up to from.
func (s *excursionSearch) back(from, many int) int {
	for from > 0 && many > 0 {
		if from--; !s.left[from] {
			many--
		}
	}
	return from
}

// deviation returns how far a sum of slots is from another, in standard deviations of
// independent events.
func deviation(sum, usual float64) float64 { return 2 * (math.Sqrt(sum) - math.Sqrt(usual)) }

// scale returns the robust standard deviation of stretches of a length, at least that of
// independent events.
func (s *excursionSearch) scale(length int) float64 {
	var all []float64
	for i := beginSlots; i+length+beginSlots <= len(s.x); i += max(1, length/2) {
		if s.n[i+length]-s.n[i] < length {
			continue
		}
		usual := (s.before(i, i+length) + s.after(i, i+length)) / 2
		if v := deviation(s.sum[i+length]-s.sum[i], usual*float64(length)); !math.IsNaN(v) {
			all = append(all, math.Abs(v))
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return max(1, 1.4826*all[len(all)/2])
}

// without returns the search with the slots [from, to) left out as well.
func (s *excursionSearch) without(from, to int) *excursionSearch {
	out := *s
	out.left = slices.Clone(s.left)
	out.leave(from, to)
	return &out
}

// probability returns that of so many standard deviations in any stretch.
func (s *excursionSearch) probability(deviations float64) float64 {
	return min(1, excursionLooks*float64(len(s.x))*tail(deviations, excursionDF))
}

// outages finds the stretches of any length with hardly an event, and leaves them out with
// the slots in which they may have begun and ended.
func (s *excursionSearch) outages() (out []Excursion) {
	scales := map[int]float64{}
	scale := func(length int) float64 {
		if scales[length] == 0 {
			scales[length] = s.scale(length)
		}
		return scales[length]
	}
	for i := beginSlots; i < len(s.x); i++ {
		usual := s.before(i, i)
		if !(s.x[i] <= outageSlot*usual) {
			continue
		}
		to := i + 1
		// One slot of what stays low does not end it.
		for to < len(s.x) && (s.x[to] <= outageSlot*usual || s.mean(to, to+beginSlots) <= outageSlot*usual) {
			to++
		}
		length := to - i
		long := min(length, usualSlots) // longer ones are as sure
		rest := s.mean(i, to)
		lasts := to == len(s.x)
		least := shortestOutage
		if lasts {
			least = shortestLasting
		}
		after := math.Inf(1)
		if !lasts {
			after = s.mean(to+1, to+1+usualSlots)
		}
		if rest > outageShare*usual || rest > outageSlot*after {
			i = min(to, i+usualSlots) - 1 // what stops later is held against what is usual by then
			continue
		}
		p := 1.0
		if length*s.each >= least {
			deviates, of := -deviation(rest*float64(long), usual*float64(long)), max(1, min(long, len(s.x)/10))
			if length < beginSlots {
				p = s.probability(deviates / scale(of))
			} else { // so long a stretch is beside many others, and would be the scale
				p = s.probability(deviates / s.without(i, to).scale(of))
			}
		}
		if p > excursionAlpha {
			i = to - 1
			continue
		}
		x := Excursion{From: i, To: to, Rate: rest, Before: usual, After: math.NaN(), Lasts: lasts, P: p}
		// The slots in which it began and ended are partly filled.
		from := i
		if s.x[i-1] < 0.8*usual {
			from--
		}
		if to < len(s.x) {
			x.After = s.mean(to+1, to+1+usualSlots)
			to++
		}
		s.leave(from, to)
		if n := len(out); n > 0 && from <= out[n-1].To+2 { // it was interrupted for a moment
			last := &out[n-1]
			last.Rate = (last.Rate*float64(last.To-last.From) + x.Rate*float64(x.To-x.From)) / float64(x.To-last.From)
			last.To, last.After, last.Lasts, last.P = x.To, x.After, x.Lasts, min(last.P, x.P)
		} else {
			out = append(out, x)
		}
		i = to - 1
	}
	return out
}

// clearest returns the clearest excursion of at most so many slots.
func (s *excursionSearch) clearest(longest int) (best Excursion, ok bool) {
	most := 0.0
	for length := 1; length <= longest; length = max(length+1, length*4/3) {
		scale := s.scale(length)
		after := max(backFewest, length)
		for i := beginSlots; i+length+after <= len(s.x); i++ {
			to := i + length
			if s.n[to]-s.n[i] < length || s.n[i]-s.n[s.back(i, beginSlots)] < beginSlots {
				continue
			}
			sum, n := s.sum[to]-s.sum[i], float64(length)
			before, behind := s.before(i, to), s.after(i, to)
			var score float64
			if high := max(before, behind); sum >= excursionTimes*high*n {
				score = deviation(sum, high*n)
			} else if low := min(before, behind); sum*excursionTimes <= low*n {
				score = -deviation(sum, low*n)
			}
			if score /= scale; score > most {
				most = score
				best = Excursion{From: i, To: to, Rate: sum / n, Before: before, After: behind, P: s.probability(score)}
			}
		}
	}
	if most == 0 || best.P > excursionAlpha {
		return best, false
	}
	s.ends(&best)
	return best, true
}

// ends lets an excursion begin and end where half of its height is left. One slot that is
// nearer to the usual does not end it.
func (s *excursionSearch) ends(x *Excursion) {
	usual := (x.Before + x.After) / 2
	beyond := func(i int) bool {
		return i >= 0 && i < len(s.x) && !s.left[i] && math.Abs(s.x[i]-usual) >= math.Abs(x.Rate-usual)/2 && (s.x[i] > usual) == (x.Rate > usual)
	}
	for x.To-x.From > 1 && !beyond(x.From) {
		x.From++
	}
	for x.To-x.From > 1 && !beyond(x.To-1) {
		x.To--
	}
	for beyond(x.From-1) || beyond(x.From-2) {
		x.From--
	}
	for beyond(x.To) || beyond(x.To+1) {
		x.To++
	}
	x.Rate, x.Before, x.After = s.mean(x.From, x.To), s.before(x.From, x.To), s.after(x.From, x.To)
}
