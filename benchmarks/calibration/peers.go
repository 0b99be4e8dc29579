package calibration

import (
	"math"
	"math/rand/v2"
	"slices"
)

// What other tools do, for comparison. Each returns whether it alarms at 5 %.

const z975 = 1.959963984540054

// MannWhitneyRequests is the rank test on single requests (Mann & Whitney
// 1947), normal approximation with the correction for ties that buckets make.
func MannWhitneyRequests(a, b *Counts) bool {
	var na, nb, rank, ties, below float64
	sumA, sumB := a.between(0, len(a.Slots)), b.between(0, len(b.Slots))
	for i, ca := range sumA {
		cb := sumB[i]
		n := ca + cb
		rank += ca * (below + (n+1)/2)
		ties += n*n*n - n
		below += n
		na += ca
		nb += cb
	}
	n := na + nb
	u := rank - na*(na+1)/2
	variance := na * nb / 12 * (n + 1 - ties/(n*(n-1)))
	return math.Abs(u-na*nb/2) > z975*math.Sqrt(variance)
}

// MannWhitneySlots is the rank test on the slots' quantiles, one number a slot,
// as Kayenta judges canaries.
func MannWhitneySlots(a, b *Counts, p float64) bool {
	va, vb := a.slotQuantiles(p), b.slotQuantiles(p)
	type item struct {
		v float64
		a bool
	}
	all := make([]item, 0, len(va)+len(vb))
	for _, v := range va {
		all = append(all, item{v, true})
	}
	for _, v := range vb {
		all = append(all, item{v, false})
	}
	slices.SortFunc(all, func(x, y item) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	var rank, ties float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		for k := i; k < j; k++ {
			if all[k].a {
				rank += float64(i+j+1) / 2
			}
		}
		n := float64(j - i)
		ties += n*n*n - n
		i = j
	}
	na, nb := float64(len(va)), float64(len(vb))
	n := na + nb
	u := rank - na*(na+1)/2
	return math.Abs(u-na*nb/2) > z975*math.Sqrt(na*nb/12*(n+1-ties/(n*(n-1))))
}

func (c *Counts) slotQuantiles(p float64) []float64 {
	out := make([]float64, 0, len(c.Slots))
	for t, row := range c.Slots {
		if v := quantileOf(row[:c.Used[t][1]], p); !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// quantileOf returns the log of the p-quantile of bucket counts, NaN without any.
func quantileOf(row []float64, p float64) float64 {
	total := 0.0
	for _, n := range row {
		total += n
	}
	if total == 0 {
		return math.NaN()
	}
	above := (1 - p) * total
	for i := len(row) - 1; i >= 0; i-- {
		if row[i] > 0 && row[i] >= above {
			return (float64(lowest-1+i) + 1 - above/row[i]) * math.Ln2 / perOctave
		}
		above -= row[i]
	}
	return math.NaN()
}

// Bootstrap is the percentile interval of the log ratio of quantiles by the
// stationary bootstrap (Politis & Romano 1994, JASA 89) of slots, with the mean
// block length of Politis & White (2004, Econometric Reviews 23; corrected 2009).
func Bootstrap(r *rand.Rand, a, b *Counts, p float64, resamples int) bool {
	effects := make([]float64, resamples)
	sa, sb := newTail(a, p), newTail(b, p)
	for i := range effects {
		effects[i] = sb.resample(r) - sa.resample(r)
	}
	slices.Sort(effects)
	k := int(0.025 * float64(resamples))
	return effects[k] > 0 || effects[resamples-1-k] < 0
}

// tail is the part of a side that a resampled high quantile can need: per slot,
// the requests in the buckets around it and above.
type tail struct {
	p      float64
	length float64 // mean of the blocks
	from   int     // first bucket kept
	n      []float64
	where  [][]int
	sum    []float64
}

func newTail(c *Counts, p float64) *tail {
	all := c.between(0, len(c.Slots))
	t := &tail{p: p, n: make([]float64, len(c.Slots)), where: make([][]int, len(c.Slots))}
	total := 0.0
	for s, row := range c.Slots {
		for _, v := range row[c.Used[s][0]:c.Used[s][1]] {
			t.n[s] += v
		}
		total += t.n[s]
	}
	// Five times the share above p is far beyond what resampling moves.
	left := min(1, 5*(1-p)) * total
	t.from = len(all)
	for t.from > 0 && left > 0 {
		t.from--
		left -= all[t.from]
	}
	t.sum = make([]float64, len(all)-t.from)
	exceed := make([]float64, len(c.Slots))
	bar := int(math.Ceil(quantileOf(all, p)*perOctave/math.Ln2)) - lowest
	for s, row := range c.Slots {
		for i := t.from; i < c.Used[s][1]; i++ {
			for range int(row[i]) {
				t.where[s] = append(t.where[s], i-t.from)
				if i > bar {
					exceed[s]++
				}
			}
		}
	}
	t.length = politisWhite(exceed)
	return t
}

func (t *tail) resample(r *rand.Rand) float64 {
	clear(t.sum)
	total := 0.0
	s := 0
	for i := range t.n {
		if s = (s + 1) % len(t.n); i == 0 || r.Float64()*t.length < 1 {
			s = r.IntN(len(t.n))
		}
		total += t.n[s]
		for _, k := range t.where[s] {
			t.sum[k]++
		}
	}
	above := (1 - t.p) * total
	for i := len(t.sum) - 1; i >= 0; i-- {
		if t.sum[i] > 0 && t.sum[i] >= above {
			return (float64(lowest-1+t.from+i) + 1 - above/t.sum[i]) * math.Ln2 / perOctave
		}
		above -= t.sum[i]
	}
	return float64(lowest-1+t.from) * math.Ln2 / perOctave
}

// politisWhite returns the automatic block length of the stationary bootstrap.
func politisWhite(z []float64) float64 {
	n := len(z)
	mean := 0.0
	for _, v := range z {
		mean += v / float64(n)
	}
	longest := int(math.Ceil(math.Sqrt(float64(n)))) + max(5, int(math.Sqrt(math.Log10(float64(n)))))
	cov := make([]float64, 2*longest+1)
	for k := range cov {
		for t := k; t < n; t++ {
			cov[k] += (z[t] - mean) * (z[t-k] - mean) / float64(n)
		}
	}
	if cov[0] == 0 {
		return 1
	}
	bar := 2 * math.Sqrt(math.Log10(float64(n))/float64(n))
	run := max(5, int(math.Sqrt(math.Log10(float64(n)))))
	m := longest
	for k, quiet := 1, 0; k < len(cov); k++ {
		if math.Abs(cov[k]/cov[0]) < bar {
			if quiet++; quiet == run {
				m = k - run
				break
			}
		} else {
			quiet = 0
		}
	}
	m = min(max(1, 2*m), longest)
	var g, spectrum float64
	for k := -m; k <= m; k++ {
		x := math.Abs(float64(k)) / float64(m)
		w := 1.0
		if x > 0.5 {
			w = 2 * (1 - x)
		}
		c := cov[max(k, -k)]
		g += w * math.Abs(float64(k)) * c
		spectrum += w * c
	}
	d := 2 * spectrum * spectrum
	if !(d > 0) {
		return 1
	}
	length := math.Cbrt(2 * g * g / d * float64(n))
	return max(1, min(length, math.Ceil(min(3*math.Sqrt(float64(n)), float64(n)/3))))
}

// BatchMeans is Welch's t interval over the log quantiles of ten batches of
// slots a side (Law & Carson 1979, Oper. Res. 27).
func BatchMeans(a, b *Counts, p float64) bool {
	ma, va := a.batches(p, 10)
	mb, vb := b.batches(p, 10)
	df := (va + vb) * (va + vb) / (va*va/9 + vb*vb/9)
	return math.Abs(mb-ma) > studentQuantile(df)*math.Sqrt(va+vb)
}

// between adds up slots.
func (c *Counts) between(from, to int) []float64 {
	row := make([]float64, len(edges)-1)
	for t := from; t < to; t++ {
		for k := c.Used[t][0]; k < c.Used[t][1]; k++ {
			row[k] += c.Slots[t][k]
		}
	}
	return row
}

func (c *Counts) batches(p float64, n int) (mean, variance float64) {
	v := make([]float64, n)
	for i := range v {
		v[i] = quantileOf(c.between(i*len(c.Slots)/n, (i+1)*len(c.Slots)/n), p)
		mean += v[i] / float64(n)
	}
	for _, x := range v {
		variance += (x - mean) * (x - mean) / float64(n-1) / float64(n)
	}
	return mean, variance
}
