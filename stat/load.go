package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

const (
	// sureLoad is the χ² that the dependence of a figure on the load comes to at least
	// before load is taken to explain it: 1 % of what three terms come to by chance is
	// beyond.
	sureLoad = 11.3
	// Requests are counted in blocks of at most blockSlots slots, so that their own noise
	// hides little of how many were to come; a side has leastLoadBlocks at least.
	blockSlots      = 6
	leastLoadBlocks = 20
)

// atEqualLoad reports that the load explains a change: blocks of slots with more requests
// differ within the sides as the sides do, and nothing is sure of what is left at equal
// load. The share of a block's requests above one value, the same on both sides (or its
// mean or ratio), is regressed on a cubic of the log of their number and on the side
// (analysis of covariance; Cochran 1957, Biometrics 13). What is left has the long-run
// variance of its residuals.
func (c *Change) atEqualLoad(a, b *figure, o Options) bool {
	perBlock := min(blockSlots, max(1, min(len(a.load), len(b.load))*2/(3*leastLoadBlocks)))
	value := math.Sqrt(a.value * b.value)
	blocks := a.blocks(value, perBlock)
	ofA := len(blocks)
	blocks = append(blocks, b.blocks(value, perBlock)...)
	if min(ofA, len(blocks)-ofA) < leastLoadBlocks {
		return false
	}
	w, y, side, x := columns(blocks, ofA)
	// How much of the figure the load explains within the sides.
	within := slices.Clone(y)
	s := slices.Clone(side)
	one := w.ones()
	w.less(within, one)
	w.less(s, one)
	raw := w.dot(within, s) / w.dot(s, s)
	w.less(within, s)
	whole := w.dot(within, within)
	for _, term := range w.orthogonal(one, s, x) {
		w.less(within, term)
	}
	independentSlots := float64(len(a.influence)+len(b.influence)) / max(1, c.Dependence)
	if !(whole > 0) || !((1-w.dot(within, within)/whole)*independentSlots > sureLoad) {
		return false
	}
	// What is left of the side beside the load is what its effect is seen by (Frisch &
	// Waugh 1933, Econometrica 1).
	w.less(side, one)
	for _, term := range w.orthogonal(one, nil, x) {
		w.less(side, term)
	}
	seen := w.dot(side, side)
	if !(seen > 1e-9*w.dot(one, one)) {
		return true // the sides have no load in common
	}
	left := Change{Effect: w.dot(side, y) / seen, Level: c.Level}
	if math.Abs(left.Effect) >= math.Abs(raw) {
		return false
	}
	influence := make([]float64, len(blocks))
	for i := range influence {
		influence[i] = w[i] * side[i] * within[i] / seen
	}
	same := func(v float64) float64 { return v }
	left.apart(&figure{outer: same, influence: influence[:ofA]}, &figure{at: left.Effect, outer: same, influence: influence[ofA:]}, newSpectrum(ofA), Options{Level: o.Level})
	return math.Abs(left.Effect) <= o.critical(left.DF, len(a.influence), len(b.influence))*left.SE
}

// block is a block of slots: its figure, the log of its requests a slot, and their number.
type block struct{ figure, load, requests float64 }

// blocks returns the blocks of a side that have requests, of so many slots each; none if
// the number of requests is not known, or always the same. The figure of a distribution's
// quantile is the share above value.
func (f *figure) blocks(value float64, slots int) (out []block) {
	if len(f.load) == 0 || slices.Min(f.load) == slices.Max(f.load) {
		return nil
	}
	z, centre, unit := f.influence, f.value, floats.Sum(f.load)
	if f.of != nil && f.share {
		z, centre = f.of.slotsAbove(value)
	}
	if !f.share && f.at != f.value { // on the log scale
		unit *= f.value
	}
	for from := 0; from+slots <= len(z); from += slots {
		requests := floats.Sum(f.load[from : from+slots])
		if requests > 0 {
			out = append(out, block{centre + unit*floats.Sum(z[from:from+slots])/requests, math.Log(requests / float64(slots)), requests})
		}
	}
	return out
}

// weights are those of observations in a regression.
type weights []float64

// columns returns the weights of blocks, their figures, whether they are of side B, and
// their loads in deviations from the mean; the first so many are of side A.
func columns(blocks []block, ofA int) (w weights, y, side, x []float64) {
	for i, b := range blocks {
		w, y, x = append(w, b.requests), append(y, b.figure), append(x, b.load)
		side = append(side, 0)
		if i >= ofA {
			side[i] = 1
		}
	}
	one := w.ones()
	w.less(x, one)
	if deviation := math.Sqrt(w.dot(x, x) / w.dot(one, one)); deviation > 0 {
		for i := range x {
			x[i] /= deviation
		}
	}
	return w, y, side, x
}

func (w weights) ones() []float64 {
	one := make([]float64, len(w))
	for i := range one {
		one[i] = 1
	}
	return one
}

func (w weights) dot(u, v []float64) (total float64) {
	for i := range w {
		total += w[i] * u[i] * v[i]
	}
	return total
}

// less takes from u what it has of v.
func (w weights) less(u, v []float64) {
	if d := w.dot(v, v); d > 1e-12 {
		f := w.dot(u, v) / d
		for i := range u {
			u[i] -= f * v[i]
		}
	}
}

// orthogonal returns x, x² and x³ less what they have of one, of side if it is not nil, and
// of each other (Gram & Schmidt, twice for the sake of rounding).
func (w weights) orthogonal(one, side, x []float64) (terms [][]float64) {
	power := slices.Clone(one)
	for range 3 {
		for i := range power {
			power[i] *= x[i]
		}
		term := slices.Clone(power)
		for range 2 {
			w.less(term, one)
			if side != nil {
				w.less(term, side)
			}
			for _, t := range terms {
				w.less(term, t)
			}
		}
		terms = append(terms, term)
	}
	return terms
}
