package stat

import (
	"math"
	"slices"
)

// A view is one number per slot, of mean 0 over the series: what the slot has beyond its
// part. Σx/Σw over a stretch is the stretch's level.
type view struct {
	x, w  []float64 // w has mean 1 over the series
	least int       // least number of slots in a stretch whose mean is near normal
	value float64   // shares above it, NaN for numbers
	// centre is added to Σx/Σw to give a share, or 0 for numbers.
	centre float64
	// each is the number of observations of a slot, spread how much more a slot's share
	// varies than they alone explain: the variance at a share s is u/each + spread·u², u
	// = s(1−s), or s for counts. Each is 0 for numbers: their variance is the same at all
	// levels.
	each, spread float64
	kind         TallyKind
	// local says that steps are judged by what lies just beside them; see course.
	local  bool
	column int
}

// uneven returns the variance of one observation at a share or a count.
func (v *view) uneven(s float64) float64 {
	if v.kind == CountTally {
		return max(1e-9, s)
	}
	s = min(1-1e-9, max(1e-9, s))
	return s * (1 - s)
}

// fill sets x, from which the season's effect, if any, was subtracted, on the scale on
// which slots vary alike, centred and cut.
func (v *view) fill(x, effect []float64) {
	n := len(x)
	centred(x, v.w)
	if v.each == 0 {
		cut(x, 0)
		v.x = x
		return
	}
	u := v.uneven(v.centre)
	square := 0.0
	for _, d := range x {
		square += d * d / float64(n)
	}
	v.spread = max(0, square-u/v.each) / (u * u)
	if effect != nil { // where the season is high, slots vary more
		for t := range x {
			x[t] *= min(unevenest, v.deviation(0)/v.deviation(effect[t]))
		}
		moveToZero(x)
	}
	cut(x, math.Sqrt(u/v.each))
	v.x = x
}

// evened returns the difference between two levels on the scale on which slots vary
// alike at every level, in units of that at the first.
func (v *view) evened(from, to float64) float64 {
	if v.each == 0 {
		return to - from
	}
	const steps = 16
	sum := 0.0
	for i := range steps {
		sum += 1 / v.deviation(from+(to-from)*(float64(i)+0.5)/steps)
	}
	return (to - from) * sum / steps * v.deviation(from)
}

// deviation returns the standard deviation of slots at a level.
func (v *view) deviation(level float64) float64 {
	u := v.uneven(v.centre + level)
	return math.Sqrt(u/v.each + v.spread*u*u)
}

// seen holds the quantiles of the series at which shares are computed.
var seen = [...]float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.997, 0.999}

const (
	// enough is the number of observations on the rarer side of a quantile for a share
	// of a stretch to be near normal.
	enough = 8
	// heaviest bounds the weight of a slot of numbers, in units of the median slot's.
	heaviest = 2
	// thinnest is the share of a series whose slots may have fewer observations than what
	// a stretch is sure to have.
	thinnest = 0.1
	// unevenest bounds how many times more a slot counts where the season is low.
	unevenest = 2
	// Slots are cut at so many standard deviations beyond the medians of so many
	// before and after: a change lasts longer than that, see defaultLeast.
	cutAt  = 4
	beside = 9
)

// viewsOf returns the views of the slots [from, to) of a series; phases holds the
// position of each slot in its season, or is nil if no season is removed.
func viewsOf(whole *Series, phases []int, from, to int, o ChangeOptions) []view {
	s, n := whole.Slice(from, to), to-from
	counts := make([]float64, n)
	for t := range counts {
		counts[t] = s.effective(t)
	}
	fewest := thin(counts)
	if !(fewest > 0) {
		return nil
	}
	var views []view
	last := math.NaN()
	for _, p := range seen {
		v := s.quantile(p)
		if v == last {
			continue
		}
		at := s.placeOf(v)
		above := 1 - s.atMostAll(at)/s.total
		rare := min(above, 1-above)
		least := max(o.Least, int(math.Ceil(enough/(rare*fewest))))
		if !(rare > 0) || 2*least > n {
			continue
		}
		last = v
		x := sharesAbove(s, at)
		seen := view{least: least, value: v, centre: above}
		var effect []float64
		if phases != nil {
			by := seasonOf(sharesAbove(whole, at), phases, o.Season)
			effect = make([]float64, n)
			for t := range x {
				effect[t] = by[phases[from+t]]
				x[t] -= effect[t]
			}
		}
		seen.weigh(x, counts)
		seen.fill(x, effect)
		views = append(views, seen)
	}
	return views
}

// weigh sets by how much slots count, given their figures and how many independent
// observations each has: by the inverse of its deviation, so that slots vary alike where
// traffic, or the share of it that is sampled, rises or falls. Slots vary by more than
// their observations explain, and by as much more in all of them.
func (v *view) weigh(x, counts []float64) {
	u := v.uneven(v.centre)
	mean, n := 0.0, 0.0
	for t, c := range counts {
		mean, n = mean+c*x[t], n+c
	}
	mean /= n
	more := 0.0
	for t, c := range counts {
		if c > 0 {
			more += c*sq(x[t]-mean) - u
		}
	}
	more = max(0, more/n)
	v.w = make([]float64, len(counts))
	sum := 0.0
	for t, c := range counts {
		if c > 0 {
			v.w[t] = 1 / math.Sqrt(u/c+more)
			sum += v.w[t]
		}
	}
	one := 0.0 // the variance of a slot by its observations, in units of u
	for t, c := range counts {
		if v.w[t] *= float64(len(counts)) / sum; c > 0 {
			one += sq(v.w[t]) / c
		}
	}
	v.each = float64(len(counts)) / one
}

// thin returns how many observations a slot has in the stretches of a series that have
// the fewest.
func thin(counts []float64) float64 {
	var means []float64
	for part := range slices.Chunk(counts, defaultLeast) {
		sum := 0.0
		for _, c := range part {
			sum += c
		}
		if sum > 0 {
			means = append(means, sum/float64(len(part)))
		}
	}
	if len(means) == 0 {
		return 0
	}
	slices.Sort(means)
	return means[int(thinnest*float64(len(means)))]
}

// sharesAbove returns the share of each slot's observations above a place, 0 where there
// are none.
func sharesAbove(s *Series, at place) []float64 {
	x := make([]float64, s.Slots())
	for t := range x {
		if c := s.count(t); c > 0 {
			x[t] = 1 - s.atMost(t, at)/c
		}
	}
	return x
}

// medianOf returns the median of a column, or NaN if it is empty.
func medianOf(rows [][]float64, column int) float64 {
	var values []float64
	for _, row := range rows {
		if v := row[column]; !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return sortedMedian(values)
}

// cut limits what lies further out than cutAt standard deviations, no less than floor
// each, and moves the mean back to 0. Out is beyond the medians of the slots before and
// of those after: a lone slot is cut, and a step is not, however far it goes and however
// few slots lie on one side of it.
func cut(x []float64, floor float64) {
	sorted := slices.Clone(x)
	slices.Sort(sorted)
	mid := sorted[len(sorted)/2]
	for i, v := range sorted {
		sorted[i] = math.Abs(v - mid)
	}
	slices.Sort(sorted)
	far := cutAt * max(floor, 1.4826*sorted[len(sorted)/2])
	uncut := slices.Clone(x)
	whole := mediansOf(uncut, beside)
	median := func(from, to int) float64 {
		if to-from == beside {
			return whole[from]
		}
		window := slices.Clone(uncut[from:to])
		slices.Sort(window)
		return sortedMedian(window)
	}
	for t, v := range uncut {
		low, high := math.Inf(1), math.Inf(-1)
		if t > beside/2 { // at the ends there are too few on one side
			m := median(max(0, t-beside), t)
			low, high = m, m
		}
		if t+1 < len(x)-beside/2 {
			m := median(t+1, min(len(x), t+1+beside))
			low, high = min(low, m), max(high, m)
		}
		if low <= high {
			x[t] = min(high+far, max(low-far, v))
		}
	}
	moveToZero(x)
}

// mediansOf returns the median of each n values that follow each other, by where they begin.
func mediansOf(x []float64, n int) []float64 {
	if len(x) < n {
		return nil
	}
	window := slices.Clone(x[:n])
	slices.Sort(window)
	out := make([]float64, 0, len(x)-n+1)
	out = append(out, sortedMedian(window))
	for t := n; t < len(x); t++ {
		i, _ := slices.BinarySearch(window, x[t-n])
		for ; i+1 < n && window[i+1] < x[t]; i++ {
			window[i] = window[i+1]
		}
		for ; i > 0 && window[i-1] > x[t]; i-- {
			window[i] = window[i-1]
		}
		window[i] = x[t]
		out = append(out, sortedMedian(window))
	}
	return out
}

// sortedMedian returns the median of sorted values.
func sortedMedian(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func moveToZero(x []float64) {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for t := range x {
		x[t] -= mean
	}
}

// centred weighs what each slot has beyond the weighted mean.
func centred(x, weight []float64) {
	mean := 0.0
	for t, w := range weight {
		mean += w * x[t] / float64(len(x))
	}
	for t, w := range weight {
		x[t] = w * (x[t] - mean)
	}
}
