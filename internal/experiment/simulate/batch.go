package simulate

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/api"
)

var quantiles = []struct {
	name string
	p    float64
}{{"0.5", 0.5}, {"0.75", 0.75}, {"0.9", 0.9}, {"0.95", 0.95}, {"0.99", 0.99}, {"0.999", 0.999}}

var nan = api.Float(math.NaN())

// batches are latencies of counted queries, cut into a hundred parts.
type batches struct {
	all   []float64   // sorted
	parts [][]float64 // each sorted
	mean  float64
	time  spread // of parts' means
}

const batchCount = 100

// newBatches reorders the parts.
func newBatches(parts [][]float64) *batches {
	b := &batches{parts: parts}
	var means []float64
	n := 0
	for _, part := range parts {
		means = append(means, mean(part))
		slices.Sort(part)
		b.mean += means[len(means)-1] * float64(len(part))
		n += len(part)
	}
	b.mean /= float64(n)
	b.time = newSpread(means, mean(means))
	all := b.parts
	for len(all) > 1 {
		all = pairs(all)
	}
	b.all = all[0]
	return b
}

// inOrder cuts latencies of counted queries in order of arrival.
func inOrder(latency []float64) [][]float64 {
	parts := make([][]float64, batchCount)
	for i := range parts {
		parts[i] = latency[i*len(latency)/batchCount : (i+1)*len(latency)/batchCount]
	}
	return parts
}

// cut cuts latencies of counted queries in order of arrival or, if moments differ, by
// the elapsed part of the moment in which a query arrives. Then each part contains
// all moments, and parts differ by chance alone: moments are fixed.
func (p *plan) cut(latency []float64) [][]float64 {
	if p.slots == 1 || p.Arrivals == Closed {
		return inOrder(latency)
	}
	parts := make([][]float64, batchCount)
	for q, l := range latency {
		_, passed := math.Modf((p.arrive[p.warm+q]-p.counting())/p.dwell + 1e6)
		i := min(int(passed*batchCount), batchCount-1)
		parts[i] = append(parts[i], l)
	}
	if slices.ContainsFunc(parts, func(part []float64) bool { return len(part) == 0 }) {
		return inOrder(latency) // they keep time with the moments
	}
	return parts
}

// spread is the uncertainty of the mean of batches' figures against a run without
// end.
type spread struct {
	half float64 // of the 95 % interval
	free float64 // how many independent batches they are worth
}

// newSpread joins batches into fifty, or into fewer and longer ones until neighbours
// are hardly correlated (Fishman 1978, ACM TOMS 4). The correlation is that of all
// batches, as of a first-order autoregression, with Kendall's correction of the bias
// (1954, Biometrika 41). What is left of it between ten widens the interval, and
// reduces its degrees of freedom.
func newSpread(of []float64, mean float64) spread {
	n := float64(len(of))
	follow := correlation(of, mean)
	if follow < 1.645/math.Sqrt(n) { // no more than chance gives
		follow = 0
	} else {
		follow = min(0.99, follow+(1+4*follow)/n)
	}
	s := spread{free: n * (1 - follow) / (1 + follow)}
	joined, left := 0, 0.0
	for _, joined = range []int{2, 5, 10} {
		if left = math.Pow(follow, float64(joined)); left < 0.1 {
			break
		}
	}
	sum := 0.0
	for i := 0; i+joined <= len(of); i += joined {
		d := 0.0
		for _, v := range of[i : i+joined] {
			d += (v - mean) / float64(joined)
		}
		sum += d * d
	}
	count := float64(len(of) / joined)
	t := distuv.StudentsT{Sigma: 1, Nu: max(1, min(count, s.free)-1)}.Quantile(0.975)
	s.half = t * math.Sqrt(sum/(count-1)/count*(1+left)/(1-left))
	return s
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// correlation returns the correlation of neighbours.
func correlation(of []float64, mean float64) float64 {
	num, den := 0.0, 0.0
	for i, v := range of {
		den += (v - mean) * (v - mean)
		if i > 0 {
			num += (v - mean) * (of[i-1] - mean)
		}
	}
	if den == 0 {
		return 0
	}
	return num / den
}

// settled reports whether the run is long against the time in which queues change.
func (b *batches) settled() bool { return b.time.free >= 20 }

func (b *batches) meanValue() api.ScalingValue {
	return api.ScalingValue{Value: api.Float(b.mean), Low: api.Float(max(0, b.mean-b.time.half)), High: api.Float(b.mean + b.time.half)}
}

// quantile returns a quantile with its interval: that of the share above it, turned
// into quantiles (Woodruff 1952, JASA 47). The quantile is NaN if fewer than five
// queries lie above it, and the interval if it may be that none do.
func (b *batches) quantile(p float64) api.ScalingValue {
	out := api.ScalingValue{Value: nan, Low: nan, High: nan}
	n := float64(len(b.all))
	if n*(1-p) < 5 {
		return out
	}
	value := sorted(b.all, p)
	out.Value = api.Float(value)
	shares := make([]float64, len(b.parts))
	for i, part := range b.parts {
		shares[i] = float64(sort.SearchFloat64s(part, value)) / float64(len(part))
	}
	half := newSpread(shares, mean(shares)).half
	if p+half < 1-0.5/n {
		out.Low, out.High = api.Float(sorted(b.all, max(0, p-half))), api.Float(sorted(b.all, p+half))
	}
	return out
}

// pairs merges sorted neighbours.
func pairs(parts [][]float64) [][]float64 {
	var out [][]float64
	for i := 0; i < len(parts); i += 2 {
		if i+1 == len(parts) {
			out = append(out, parts[i])
			break
		}
		a, b := parts[i], parts[i+1]
		both := make([]float64, 0, len(a)+len(b))
		for len(a) > 0 && len(b) > 0 {
			if b[0] < a[0] {
				both, b = append(both, b[0]), b[1:]
			} else {
				both, a = append(both, a[0]), a[1:]
			}
		}
		out = append(out, append(append(both, a...), b...))
	}
	return out
}

// sorted returns the p-quantile of sorted values: the smallest that is not below a
// share p of them.
func sorted(values []float64, p float64) float64 {
	return values[min(len(values)-1, max(0, int(math.Ceil(p*float64(len(values))-1e-9))-1))]
}
