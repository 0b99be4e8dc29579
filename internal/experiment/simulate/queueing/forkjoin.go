package queueing

import "math"

// ForkJoin is a query that asks Leaves queues at once, each with one server and
// exponential service, and waits for all.
type ForkJoin struct {
	Rate    float64 // queries a second, each to every queue
	Service float64 // mean of a leaf
	Leaves  int
}

// Harmonic returns H(n) = 1 + 1/2 + … + 1/n, the mean of the greatest of n
// exponentials of mean 1.
func Harmonic(n int) float64 {
	sum := 0.0
	for i := n; i > 0; i-- {
		sum += 1 / float64(i)
	}
	return sum
}

func (f ForkJoin) leaf() MMC { return MMC{f.Rate, f.Service, 1} }

// Response approximates the mean: exact for one leaf and for two ((12−ρ)/8 of one queue's,
// Flatto & Hahn 1984, SIAM J. Appl. Math. 44), within 5 % up to 32 (Nelson & Tantawi
// 1988, IEEE Trans. Computers 37).
func (f ForkJoin) Response() float64 {
	one, rho := f.leaf().Response(), f.leaf().Utilisation()
	if f.Leaves == 1 {
		return one
	}
	two := (12 - rho) / 8 * one
	ratio := Harmonic(f.Leaves) / Harmonic(2)
	return (ratio + 4.0/11*(1-ratio)*rho) * two
}

// Bounds returns bounds of the mean. Below: no leaf waits, or there is one leaf only.
// Above: leaves are independent, because they are associated, and the greatest of
// associated times is stochastically less (Nelson & Tantawi 1988; Esary, Proschan &
// Walkup 1967).
func (f ForkJoin) Bounds() (low, high float64) {
	one := f.leaf().Response()
	return max(one, f.Service*Harmonic(f.Leaves)), one * Harmonic(f.Leaves)
}

// QuantileBounds returns bounds of the p-quantile, for the same reasons.
func (f ForkJoin) QuantileBounds(p float64) (low, high float64) {
	each := math.Pow(p, 1/float64(f.Leaves))
	idle := -f.Service * math.Log1p(-each)
	return max(idle, f.leaf().Quantile(p)), f.leaf().Quantile(each)
}

// SplitMerge returns the mean if the next query is begun only when all leaves of the one
// before are done: one queue whose service is the slowest leaf. It is above Response.
func (f ForkJoin) SplitMerge() float64 {
	mean, variance := 0.0, 0.0
	for i := 1; i <= f.Leaves; i++ {
		each := f.Service / float64(i)
		mean, variance = mean+each, variance+each*each
	}
	return MG1{f.Rate, mean, variance + mean*mean}.Response()
}

// SlowestAtMost returns the share of queries whose slowest of n leaves takes at most some time,
// if a leaf's share is given and leaves are independent: F^n.
func SlowestAtMost(leaf float64, n int) float64 { return math.Pow(leaf, float64(n)) }

// HedgedAbove returns the share of leaves that take longer than t if, after a delay, another
// one is asked for the same, and the first answer counts; above is the share of one.
func HedgedAbove(above func(t float64) float64, delay, t float64) float64 {
	if t <= delay {
		return above(t)
	}
	return above(t) * above(t-delay)
}
