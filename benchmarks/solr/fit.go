package solr

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tailscope/internal/experiment/simulate"
)

// Measured is all that was measured of leaves, and of whole queries to one and to two
// shards. Nothing of queries to more is in it.
type Measured struct {
	Classes []Class
	Leaves  map[int][]Pair // by the number of shards; Whole is used of 1 and 2 alone
	// Neighbours is the share by which work takes longer while the other core is busy.
	Neighbours float64
}

// Parts is the time of a class's queries beside that of leaves, in seconds.
type Parts struct {
	Name string
	// Gather is CPU time for each query, whatever its shards: receiving it, sending
	// requests, fetching the fields of what is shown, the answer.
	Gather Estimate
	// Again is CPU time for each leaf that is asked a second time, which happens only
	// where there are several: to refine the counts of a facet.
	Again Estimate
	// Apart is time for each query to several shards in which one core at most is busy:
	// threads wake each other, rounds end when their last leaf does.
	Apart Estimate
	// Idle is time for each leaf in which no core is busy.
	Idle Estimate
}

// Estimate is a mean with its standard error.
type Estimate struct{ Value, Error float64 }

// ErrTooFew reports that classes were asked too rarely to estimate what they have in
// common.
var ErrTooFew = errors.New("too few questions")

// few is the least number of values of a class that say something of it.
const few = 10

// Parts tells what a query costs beside its leaves. A query of one leaf takes
//
//	gather + leaf
//
// of CPU time, and idle more; one of two leaves, which run on a core each,
//
//	gather + leaf + leaf + 2 again of CPU time, and
//	idle + gather + the longer leaf + again + apart of time,
//
// each leaf longer by Neighbours. So with collections of one and two shards each part
// follows from what was measured, question by question. Gather and again cannot both
// be told of one class: a class whose query costs less than its leaves alone is asked
// once, any other gathers for what others gather.
//
// What classes have in common they learn from each other, since each has few
// questions: by shrinkage (DerSimonian & Laird 1986, Controlled Clinical Trials 7).
func (m Measured) Parts() ([]Parts, error) {
	n := len(m.Classes)
	gather, apart, idle := make([][]float64, n), make([][]float64, n), make([][]float64, n)
	two, more := m.Leaves[2], 1+m.Neighbours
	for _, p := range two {
		// Both alone are 2 gather + leaves, together 1 gather + leaves · more.
		sum := p.Leaves[0].CPU + p.Leaves[1].CPU
		gather[p.Class] = append(gather[p.Class], (sum*more-p.Whole.CPU)/(2*more-1))
	}
	for _, p := range slices.Concat(m.Leaves[1], two) {
		for _, l := range p.Leaves {
			idle[p.Class] = append(idle[p.Class], l.Wall-l.CPU)
		}
	}
	gathers, again, err := together(gather, 10)
	if err != nil {
		return nil, err
	}
	idles, _, err := together(idle, 4)
	if err != nil {
		return nil, err
	}
	for i := range again { // what the class gathers less than others is what it asks again
		again[i].Value *= -(2*more - 1) / (2 * more)
	}
	for _, p := range two {
		g, a := gathers[p.Class].Value, again[p.Class].Value
		longer := max(p.Leaves[0].CPU, p.Leaves[1].CPU) - g + a
		apart[p.Class] = append(apart[p.Class], p.Whole.Wall-idles[p.Class].Value-g-longer*more)
	}
	aparts, _, err := together(apart, 4)
	if err != nil {
		return nil, err
	}
	parts := make([]Parts, n)
	for i := range parts {
		parts[i] = Parts{m.Classes[i].Name, gathers[i], again[i], aparts[i], idles[i]}
	}
	return parts, nil
}

// together estimates the mean of each class, drawn towards that of all by as much as
// classes' own errors explain the differences between them. A class that is surely
// below nothing has that of the others, and how far it is off is in below; one with
// fewer than ten values has that of the others too. One in trim
// is left out of each class at either end: a collection of garbage hits one question
// and is none of its parts.
func together(values [][]float64, trim int) (all, below []Estimate, err error) {
	own := make([]Estimate, len(values))
	var sumW, sumWX, sumWW, known float64
	for i, v := range values {
		own[i] = Estimate{0, math.Inf(1)}
		if len(v) >= few {
			own[i] = trimmed(v, trim)
		}
		if w := own[i].weight(); w > 0 {
			sumW, sumWX, sumWW, known = sumW+w, sumWX+w*own[i].Value, sumWW+w*w, known+1
		}
	}
	if known < 2 {
		return nil, nil, fmt.Errorf("%w: %g of %d kinds say what queries cost beside leaves", ErrTooFew, known, len(own))
	}
	mean, q := sumWX/sumW, 0.0
	for _, e := range own {
		q += e.weight() * (e.Value - mean) * (e.Value - mean)
	}
	between := 0.0
	if known > 1 {
		between = max(0, (q-(known-1))/(sumW-sumWW/sumW))
	}
	all, below = make([]Estimate, len(own)), make([]Estimate, len(own))
	for i, e := range own {
		if e.weight() == 0 {
			all[i] = Estimate{mean, math.Sqrt(between + 1/sumW)}
			if math.IsInf(e.Error, 1) {
				continue
			}
			below[i] = Estimate{e.Value - mean, math.Sqrt(between + e.Error*e.Error)}
			continue
		}
		share := between / (between + e.Error*e.Error)
		all[i] = Estimate{max(0, share*e.Value+(1-share)*mean), math.Sqrt(share*e.Error*e.Error + (1-share)/sumW)}
	}
	return all, below, nil
}

// weight returns the inverse of the variance, or 0 of what is surely below nothing.
func (e Estimate) weight() float64 {
	if e.Value+3*e.Error < 0 {
		return 0
	}
	return 1 / (e.Error * e.Error)
}

// trimmed returns the mean without one in trim at either end, its error by the winsorized
// variance (Tukey & McLaughlin 1963, Sankhya A 25).
func trimmed(v []float64, trim int) Estimate {
	v = slices.Sorted(slices.Values(v))
	n, g := len(v), len(v)/trim
	var sum, mean, squares float64
	at := func(i int) float64 { return v[min(max(i, g), n-1-g)] }
	for i := range v {
		mean += at(i) / float64(n)
		if i >= g && i < n-g {
			sum += v[i]
		}
	}
	for i := range v {
		squares += (at(i) - mean) * (at(i) - mean)
	}
	// 1e-9: a nanosecond is as well as anything is known.
	return Estimate{sum / float64(n-2*g), max(1e-9, math.Sqrt(squares*float64(n)/float64(n-1))/float64(n-2*g))}
}

// Model returns the input of simulate for a collection of that many shards: leaves as
// they were measured at that size, and the other parts as one and two shards showed
// them.
func (m Measured) Model(shards int, parts []Parts) (simulate.Model, error) {
	leaves := make([][][]float64, len(m.Classes))
	for _, p := range m.Leaves[shards] {
		one := make([]float64, len(p.Leaves))
		for i, l := range p.Leaves {
			one[i] = max(0, l.CPU-parts[p.Class].Gather.Value+parts[p.Class].Again.Value)
		}
		leaves[p.Class] = append(leaves[p.Class], one)
	}
	var model simulate.Model
	for i, c := range m.Classes {
		var all []float64
		for _, one := range leaves[i] {
			all = append(all, one...)
		}
		d, err := simulate.FromSamples(all)
		if err != nil {
			return model, fmt.Errorf("%s at %d shards: %w", c.Name, shards, err)
		}
		model.Classes = append(model.Classes, simulate.Class{
			Name: c.Name, Weight: c.Weight, Together: Together(leaves[i]),
			Sizes: []simulate.Size{{Shards: float64(shards), Slots: []*simulate.Distribution{d}}},
			// Half of it before the leaves is as good as any: with one query at a time it
			// makes no difference, with several next to none.
			Before: &simulate.Cost{Query: parts[i].Gather.Value / 2},
			After:  &simulate.Cost{Query: parts[i].Gather.Value/2 + parts[i].Apart.Value},
		})
	}
	return model, nil
}

// Layout returns the machine: both nodes of Solr share its two cores, and do what the
// aggregator would.
func (m Measured) Layout(shards int, parts []Parts) simulate.Layout {
	idle := 0.0
	for i, p := range parts {
		idle += m.Classes[i].Weight * p.Idle.Value
	}
	return simulate.Layout{
		Name: fmt.Sprintf("%d shards", shards), X: float64(shards), Nodes: 1, Shards: shards, Cores: 2,
		Neighbours: m.Neighbours, Network: max(0, idle), Arrivals: simulate.Closed, Users: 1,
	}
}

// Together returns how alike the leaves of one query are: the correlation of their normal
// scores within queries (by pairs, Fisher 1925, Statistical Methods for Research
// Workers, VII), in [0, 1].
func Together(queries [][]float64) float64 {
	type place struct{ query, leaf int }
	var all []place
	for q := range queries {
		for l := range queries[q] {
			all = append(all, place{q, l})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		x, y := queries[a.query][a.leaf], queries[b.query][b.leaf]
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	sums, squares, total := make([]float64, len(queries)), make([]float64, len(queries)), 0.0
	for rank, p := range all {
		z := math.Sqrt2 * math.Erfinv(2*(float64(rank)+0.5)/float64(len(all))-1)
		sums[p.query] += z
		squares[p.query] += z * z
		total += z * z
	}
	pairs, products := 0.0, 0.0
	for q := range queries {
		n := float64(len(queries[q]))
		pairs += n * (n - 1)
		products += sums[q]*sums[q] - squares[q]
	}
	if pairs == 0 || total == 0 {
		return 0
	}
	return min(1, max(0, products/pairs/(total/float64(len(all)))))
}
