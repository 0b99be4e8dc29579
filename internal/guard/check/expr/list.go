package expr

import (
	"math"
	"slices"

	"tailscope/hist"
)

// What functions make of lists. They may reorder what they are given, which is
// never empty but for count; NaN and infinities become null.

func listSum(_ *evaluation, v []float64, _ float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum
}

func listMean(_ *evaluation, v []float64, _ float64) float64 { return mean(v) }

func mean(v []float64) float64 {
	sum, n := 0.0, float64(len(v))
	for _, x := range v {
		sum += x
	}
	if math.IsInf(sum, 0) {
		// The sum is beyond what a number can be; the mean is not.
		sum = 0
		for _, x := range v {
			sum += x / n
		}
		return sum
	}
	return sum / n
}

func listMin(_ *evaluation, v []float64, _ float64) float64 { return slices.Min(v) }
func listMax(_ *evaluation, v []float64, _ float64) float64 { return slices.Max(v) }

func listStddev(_ *evaluation, v []float64, _ float64) float64 {
	m, squares := mean(v), 0.0
	for _, x := range v {
		squares += (x - m) * (x - m)
	}
	return math.Sqrt(squares / float64(len(v)))
}

// quantile interpolates between the two values about rank q·(n-1), which is
// Hyndman and Fan's definition 7 and PromQL's quantile_over_time.
func quantile(v []float64, q float64) float64 {
	if !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	slices.Sort(v)
	rank := q * float64(len(v)-1)
	i := int(rank)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	// Halves, because the difference of two finite numbers need not be finite.
	part := rank - float64(i)
	return v[i]*(1-part) + v[i+1]*part
}

// atMost is the share of v that is at most limit.
func atMost(v []float64, limit float64) float64 {
	n := 0
	for _, x := range v {
		if x <= limit {
			n++
		}
	}
	return float64(n) / float64(len(v))
}

func distAtMost(h *hist.Histogram, limit float64) float64 {
	n, _, _ := h.AtMost(limit)
	return n / float64(h.Count)
}

// listMad is the median of |x - median|, not scaled to resemble a standard
// deviation.
func listMad(e *evaluation, v []float64, _ float64) float64 {
	_, mad := spread(e, v)
	return mad
}

// spread returns the median of v and the median distance from it, and leaves v
// sorted.
func spread(e *evaluation, v []float64) (median, mad float64) {
	median = quantile(v, 0.5)
	mark := len(e.values)
	e.values = append(e.values, v...)
	away := e.values[mark:]
	for i, x := range away {
		away[i] = math.Abs(x - median)
	}
	mad = quantile(away, 0.5)
	e.values = e.values[:mark]
	return median, mad
}

// listAvgMad is the mean of those nearer to the median than times·mad. If mad is
// 0, at least half of all equal the median, and that is the answer; times 0 and
// less leave none.
func listAvgMad(e *evaluation, v []float64, times float64) float64 {
	median, mad := spread(e, v)
	if mad == 0 && times > 0 {
		return median
	}
	n := 0
	for _, x := range v {
		if math.Abs(x-median) < times*mad {
			v[n] = x
			n++
		}
	}
	return mean(v[:n])
}

func round(a []float64) float64 {
	decimals := 0.0
	if len(a) == 2 {
		decimals = math.Trunc(a[1])
	}
	scale := math.Pow(10, math.Abs(decimals))
	var r float64
	if decimals < 0 {
		r = math.Round(a[0]/scale) * scale
	} else {
		r = math.Round(a[0]*scale) / scale
	}
	if math.IsNaN(r) || math.IsInf(r, 0) {
		// So many decimals are more than the number has, or more than it has digits.
		if decimals > 0 {
			return a[0]
		}
		return 0
	}
	return r
}
