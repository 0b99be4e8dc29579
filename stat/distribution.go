package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Weighting is how differences of two distributions are weighted along the value axis.
type Weighting int

const (
	// Energy weighs by the width of a bucket, in the logarithm where all values
	// are positive: the energy distance (Székely & Rizzo 2013, J. Statist.
	// Planning and Inference 143).
	Energy Weighting = iota
	// CramerVonMises weighs by how many observations there are (Anderson 1962,
	// Ann. Math. Statist. 33).
	CramerVonMises
	// AndersonDarling weighs the tails more, by the inverse of the variance
	// (Pettitt 1976, Biometrika 63).
	AndersonDarling
)

const (
	// leastBlocks and mostBlocks bound the blocks a side of a permutation test. Fewer
	// leave no small probability; more cost time and add nothing.
	leastBlocks, mostBlocks = 8, 32
	// blockShortfall bounds the ratio of the variance of the sequence to that of
	// independent blocks cut from it, before blocks are made longer. The remaining ratio
	// is divided out of the statistic.
	blockShortfall = 1.1
)

// Whole is a test of whether whole distributions differ.
type Whole struct {
	// Distance is ∫(F_B−F_A)² with the weighting.
	Distance float64
	// Gap is the greatest |F_B−F_A|, and At the value where it is.
	Gap, At float64
	// P is the probability of such a Distance without a difference.
	P         float64
	Blocks    int // per side
	Resamples int
	Short     string // what was too little; empty if nothing was
}

// Distribution tests whether the distributions of the two sides, at a mix or of all
// requests (see Quantiles), are the same, by permuting blocks of slots: between the
// sides, or, if they are paired, within each pair of blocks. Blocks are so long that
// neighbours hardly depend on each other, by the spectrum fitted to the exceedances of
// the median and of the 90th percentile. The same seed gives the same answer; P counts
// the data themselves (Phipson & Smyth 2010, Statist. Appl. Genet. Molec. Biol. 9).
func Distribution(a, b Side, mix []float64, by Weighting, resamples int, seed uint64, o Options) (Whole, error) {
	if err := checkSides(a, b, mix, o); err != nil {
		return Whole{}, err
	}
	if resamples < 1 {
		return Whole{}, invalidf("%d resamples", resamples)
	}
	w := Whole{P: 1, Resamples: resamples, Distance: math.NaN(), Gap: math.NaN(), At: math.NaN()}
	da, db := a.mixture(mix), b.mixture(mix)
	if da.slots < minSlots || db.slots < minSlots {
		w.Short = "fewer than 20 slots with observations"
		return w, nil
	}
	axis := axisOf(da, db)
	weight := axis.weights(by, &da, &db)
	perSlot, inflation := blockLength(&da, &db, min(a.slots(), b.slots()), o.Paired)
	blocksA, blocksB := blocks(a.slots(), perSlot), blocks(b.slots(), perSlot)
	w.Blocks = min(blocksA, blocksB)

	// The contribution of each block to F_A−F_B if it belongs to A, and to F_B if it
	// belongs to B, beyond the distribution of both sides together.
	ua, va := axis.parts(&da, &db, blocksA)
	vb, ub := axis.parts(&db, &da, blocksB)
	add := append(ua, ub...) // as a member of A
	sub := append(va, vb...) // as a member of B
	diff := make([]float64, len(axis.edges))
	for i := range add {
		for j := range diff {
			if i < blocksA {
				diff[j] += add[i][j]
			} else {
				diff[j] -= sub[i][j]
			}
		}
	}
	w.Gap = 0
	for j, v := range diff {
		if math.Abs(v) > w.Gap {
			w.Gap, w.At = math.Abs(v), axis.edges[j]
		}
	}
	w.Distance = 0
	for j, v := range diff {
		w.Distance += weight[j] * v * v
	}
	root := make([]float64, len(weight))
	for j, v := range weight {
		root[j] = math.Sqrt(v)
	}
	r := rand.New(rand.NewPCG(seed, 0x7461696c73636f70))
	more := 0
	bar := w.Distance / inflation * (1 - 1e-9)
	form := newForm(add, sub, root)
	order := make([]int, len(add)) // A's are the first
	for i := range order {
		order[i] = i
	}
	for range resamples {
		for i := range blocksA {
			if !o.Paired {
				j := i + r.IntN(len(order)-i)
				order[i], order[j] = order[j], order[i]
			} else if r.Uint64()&1 == 0 {
				order[i], order[blocksA+i] = order[blocksA+i], order[i]
			}
		}
		if form.at(order[:blocksA]) >= bar {
			more++
		}
	}
	w.P = float64(more+1) / float64(resamples+1)
	return w, nil
}

// form is the weighted square of Σ_{A} add − Σ_{B} sub, as a quadratic form in
// who belongs to A: |Σ_{A}(add+sub) − Σ sub|².
type form struct {
	square [][]float64 // (add+sub)_i · (add+sub)_j
	linear []float64   // (add+sub)_i · Σ sub
	rest   float64     // |Σ sub|²
}

func newForm(add, sub [][]float64, root []float64) *form {
	n := len(add)
	f := &form{square: make([][]float64, n), linear: make([]float64, n)}
	whole := make([]float64, len(root))
	for i := range n {
		for j, w := range root {
			whole[j] += sub[i][j] * w
			add[i][j] = (add[i][j] + sub[i][j]) * w
		}
	}
	dot := func(x, y []float64) (sum float64) {
		for j := range x {
			sum += x[j] * y[j]
		}
		return sum
	}
	f.rest = dot(whole, whole)
	for i := range n {
		f.square[i] = make([]float64, n)
		f.linear[i] = dot(add[i], whole)
		for j := range i + 1 {
			f.square[i][j] = dot(add[i], add[j])
			f.square[j][i] = f.square[i][j]
		}
	}
	return f
}

func (f *form) at(members []int) float64 {
	sum, pairs := f.rest, 0.0
	for k, i := range members {
		row := f.square[i]
		sum += row[i] - 2*f.linear[i]
		for _, j := range members[:k] {
			pairs += row[j]
		}
	}
	return sum + 2*pairs
}

// axis holds the values at which distributions are compared.
type axis struct{ edges []float64 }

func axisOf(sides ...mixture) axis {
	var edges []float64
	for _, d := range sides {
		for _, x := range d.strata {
			for i, n := range x.counts {
				if n > 0 {
					edges = append(edges, x.edges[i], x.edges[i+1])
				}
			}
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	return axis{slices.DeleteFunc(edges, func(v float64) bool { return math.IsInf(v, 0) })}
}

// weights returns the weights of the differences at the edges.
func (x axis) weights(by Weighting, da, db *mixture) []float64 {
	n := len(x.edges)
	w := make([]float64, n)
	if by == Energy {
		for j := range n {
			lo, hi := x.edges[max(0, j-1)], x.edges[min(n-1, j+1)]
			if x.edges[0] > 0 {
				lo, hi = math.Log(lo), math.Log(hi)
			}
			w[j] = (hi - lo) / 2
		}
		return w
	}
	share := da.count / (da.count + db.count)
	h := make([]float64, n)
	for j, v := range x.edges {
		h[j] = share*da.atMost(v) + (1-share)*db.atMost(v)
	}
	for j := range n {
		w[j] = (h[min(n-1, j+1)] - h[max(0, j-1)]) / 2
		if by == AndersonDarling {
			if v := h[j] * (1 - h[j]); v > 0 {
				w[j] /= v
			} else {
				w[j] = 0
			}
		}
	}
	return w
}

// parts cuts a side into blocks and returns the contribution of each to the side's own
// distribution, and to the other side's if it belonged there, beyond what the joint
// distribution would give for as many observations.
func (x axis) parts(own, other *mixture, n int) (mine, theirs [][]float64) {
	mine, theirs = make([][]float64, n), make([][]float64, n)
	for b := range n {
		mine[b], theirs[b] = make([]float64, len(x.edges)), make([]float64, len(x.edges))
	}
	both := make([]float64, len(x.edges)) // of all observations
	if own.raw {
		for j, v := range x.edges {
			both[j] = (own.count*own.atMost(v) + other.count*other.atMost(v)) / (own.count + other.count)
		}
	}
	for i, s := range own.strata {
		places := make([]place, len(x.edges))
		centre := both
		if !own.raw {
			centre = make([]float64, len(x.edges))
		}
		var wMine, wTheirs float64
		if own.raw {
			wMine, wTheirs = 1/own.count, 1/other.count
		} else { // a mix is of strata that both sides have
			wMine, wTheirs = own.weight[i]/s.total, other.weight[i]/other.strata[i].total
		}
		for j, v := range x.edges {
			places[j] = s.placeOf(v)
			if !own.raw {
				o := other.strata[i]
				centre[j] = (s.atMostAll(places[j]) + o.atMostAll(o.placeOf(v))) / (s.total + o.total)
			}
		}
		sums := make([]float64, len(s.counts))
		for b := range n {
			clear(sums)
			total := 0.0
			for t := b * s.Slots() / n; t < (b+1)*s.Slots()/n; t++ {
				below := 0.0
				for k, c := range s.cum[s.start[t]:s.start[t+1]] {
					sums[int(s.first[t])+k] += c - below
					below = c
				}
				total += below
			}
			for k := 1; k < len(sums); k++ {
				sums[k] += sums[k-1]
			}
			for j, p := range places {
				under := 0.0
				if p.bucket > 0 {
					under = sums[p.bucket-1]
				}
				v := under + p.share*(sums[p.bucket]-under) - total*centre[j]
				mine[b][j] += wMine * v
				theirs[b][j] += wTheirs * v
			}
		}
	}
	return mine, theirs
}

func blocks(slots, each int) int { return max(1, min(mostBlocks, slots/each)) }

// blockLength returns the number of slots in a block, and the ratio of the sequence's
// variance to that of independent blocks of that length.
func blockLength(da, db *mixture, slots int, paired bool) (each int, inflation float64) {
	sp := newSpectrum(da.strata[0].Slots())
	var weights [][]float64
	for _, p := range []float64{0.5, 0.9} {
		v := (da.quantile(p) + db.quantile(p)) / 2
		ta, tb := da.above([]float64{v}, nil)[0], db.above([]float64{v}, nil)[0]
		logs := make([]float64, models)
		if paired {
			for t := range tb {
				tb[t] -= ta[t]
			}
			sp.likelihood(logs, sp.cosines(tb))
		} else {
			sp.likelihood(logs, sp.cosines(ta))
			other := sp.of(len(tb))
			other.likelihood(logs, other.cosines(tb))
		}
		weights = append(weights, posterior(logs))
	}
	short := func(each int) (mean float64) {
		for _, w := range weights {
			mean += shortfall(w, each) / float64(len(weights))
		}
		return mean
	}
	longest := max(1, slots/leastBlocks)
	each = max(1, (slots+mostBlocks-1)/mostBlocks)
	for each < longest && short(each) > blockShortfall {
		each = min(longest, each+max(1, each/8))
	}
	return each, short(each)
}

// shortfall returns the ratio of a sequence's long-run variance to that of independent
// blocks of it, if the models have these probabilities.
func shortfall(weight []float64, each int) float64 {
	sum, i := weight[0], 1
	n := float64(each)
	for _, phi := range persistence {
		// Σ_{|k|<n} (1−|k|/n) φ^|k|
		block := (1+phi)/(1-phi) - 2*phi*(1-math.Pow(phi, n))/(n*sq(1-phi))
		for _, share := range signal {
			sum += weight[i] * zero(phi, share) / (1 - share + share*block)
			i++
		}
	}
	return sum
}
