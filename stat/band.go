package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// bandDraws is how many times the greatest deviation is drawn.
const bandDraws = 1000

// Band is Quantiles with simultaneous intervals: they hold at all of ps at once with the
// given confidence, as a band around the ratio as a function of the quantile. SE and P
// stay those of each quantile by itself.
//
// The bound is the sup-t of Montiel Olea & Plagborg-Møller (2019, J. Applied
// Econometrics 34): the quantile of the greatest deviation, in standard errors, of
// normal variables with the covariance of the cosines. The seed determines the draws.
func Band(a, b Side, ps []float64, mix []float64, seed uint64, o Options) ([]Change, error) {
	if err := checkSides(a, b, mix, o); err != nil {
		return nil, err
	}
	if o.Live != nil {
		return nil, invalidf("a band watched live")
	}
	if err := checkQuantiles(ps); err != nil {
		return nil, err
	}
	sp := newSpectrum(a.slots())
	figuresA, figuresB := a.quantiles(ps, mix), b.quantiles(ps, mix)
	points := make([]Change, len(ps))
	for i := range ps {
		points[i] = judge(figuresA[i], figuresB[i], true, sp, o)
	}
	// Each quantile's deviation is a sum over cosines of a part times a normal
	// variable; the variables are common to all quantiles.
	var parts [][]float64
	for i := range ps {
		if points[i].Short != "" || !(points[i].SE > 0) || math.IsInf(points[i].SE, 0) {
			continue
		}
		fa, fb := &figuresA[i], &figuresB[i]
		var ta, tb []float64
		var ka, kb float64
		if o.Blocks != nil {
			n := max(len(o.Blocks.A), len(o.Blocks.B))
			ta, tb = fa.sums(o.Blocks.A, n), fb.sums(o.Blocks.B, n)
			ka, kb = fa.slope(ta, n), fb.slope(tb, n)
			ta, tb = ta[1:], tb[1:]
		} else {
			k := points[i].Cosines
			ta, tb = sp.cosines(fa.influence), sp.of(len(fb.influence)).cosines(fb.influence)
			// The variance of a sum grows with the number of slots.
			ka, kb = fa.slope(ta, k)*math.Sqrt(float64(len(ta))), fb.slope(tb, k)*math.Sqrt(float64(len(tb)))
			ta, tb = ta[1:k+1], tb[1:k+1]
		}
		part := unit(ta, ka, tb, kb, o.Paired)
		if part != nil {
			parts = append(parts, part)
		}
	}
	if len(parts) < 2 {
		return points, nil
	}
	r := rand.New(rand.NewPCG(seed, 0x62616e64))
	greatest := make([]float64, bandDraws)
	normal := make([]float64, 2*maxCosines)
	for d := range greatest {
		for j := range normal {
			normal[j] = r.NormFloat64()
		}
		for _, part := range parts {
			sum := 0.0
			if o.Paired {
				for j, v := range part {
					sum += v * normal[j]
				}
			} else {
				k := len(part) / 2
				for j, v := range part[:k] {
					sum += v*normal[j] + part[k+j]*normal[maxCosines+j]
				}
			}
			greatest[d] = max(greatest[d], math.Abs(sum))
		}
	}
	slices.Sort(greatest)
	o.bound = greatest[min(bandDraws-1, int(math.Ceil(o.level()*bandDraws))-1)]
	for i := range points {
		points[i].CI = judge(figuresA[i], figuresB[i], true, sp, o).CI
	}
	return points, nil
}

// slope returns the derivative of the effect's scale by the figure's inner scale, over
// the range of its standard error.
func (f *figure) slope(transform []float64, cosines int) float64 {
	sum := 0.0
	for _, v := range transform[1 : cosines+1] {
		sum += v * v
	}
	se := math.Sqrt(sum / float64(cosines) * float64(len(transform)))
	if se == 0 {
		return 0
	}
	low, high := f.limits(se, 2)
	slope := (high - low) / (4 * se)
	if f.outer(f.at+se/1000) < f.outer(f.at-se/1000) {
		slope = -slope
	}
	return slope
}

// unit returns the part of each cosine in the deviation of B−A, scaled to a variance of
// 1, or nil if there is none.
func unit(ta []float64, ka float64, tb []float64, kb float64, paired bool) []float64 {
	var part []float64
	if paired {
		part = make([]float64, len(ta))
		for j := range part {
			part[j] = kb*tb[j] - ka*ta[j]
		}
	} else {
		for _, v := range ta {
			part = append(part, -ka*v)
		}
		for _, v := range tb {
			part = append(part, kb*v)
		}
	}
	sum := 0.0
	for _, v := range part {
		sum += v * v
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil
	}
	for j := range part {
		part[j] /= math.Sqrt(sum)
	}
	return part
}
