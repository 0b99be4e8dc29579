package stat

import (
	"math"
	"slices"
)

// changeFinder divides a series, and then its parts, each viewed by itself: the
// quantiles of a part are not those of the whole, nor is its noise.
type changeFinder struct {
	look func(from, to int) []view
	o    ChangeOptions
	seen map[[2]int]*changeSearch
}

func findChanges(n int, o ChangeOptions, look func(from, to int) []view) []ChangePoint {
	f := &changeFinder{look: look, o: o, seen: map[[2]int]*changeSearch{}}
	bounds := []int{0, n}
	for i := 1; i < len(bounds) && len(bounds)-2 < o.Most; {
		from, to := bounds[i-1], bounds[i]
		inner := f.search(from, to).split()
		if inner == nil {
			i++
			continue
		}
		for j, at := range inner[1 : len(inner)-1] {
			bounds = slices.Insert(bounds, i+j, from+at)
		}
	}
	return f.withKinks(f.keep(bounds), n)
}

// withKinks adds the bend of each stretch without a step that has one, where a slope
// begins, ends or changes and the level does not. One is enough, or in a series without a
// step two that go opposite ways: what bends the same way again is a curve, and what walks
// at random between steps bends by chance.
func (f *changeFinder) withKinks(points []ChangePoint, n int) []ChangePoint {
	var out []ChangePoint
	from := 0
	for i := range len(points) + 1 {
		to := n
		if i < len(points) {
			to = points[i].At
		}
		kinks := f.kinks(from, to, len(points)+1, false)
		if len(kinks) == 0 && len(points) == 0 {
			kinks = f.kinks(from, to, 1, true)
		}
		out = append(out, kinks...)
		if i < len(points) {
			out = append(out, points[i])
		}
		from = to
	}
	return out
}

// kinks returns the bend of the slots [from, to), one of so many stretches that are
// searched, or its two bends; none if they are likely to be chance.
func (f *changeFinder) kinks(from, to, stretches int, two bool) (out []ChangePoint) {
	if to-from < 2*f.o.Least {
		return nil
	}
	c := f.search(from, to)
	found, k, p := c.bend(two)
	if p *= float64(stretches); p > f.o.Alpha {
		return nil
	}
	ends := []int{0}
	for _, b := range found {
		ends = append(ends, b.at)
	}
	ends = append(ends, c.n)
	for i, b := range found {
		x := f.describe(from, from+b.at, to, k)
		x.Kink, x.P = true, p
		low, high := b.between()
		x.Low, x.High = from+low, from+high
		x.Before, x.After = c.views[k].centre+c.level(k, ends[i], b.at), c.views[k].centre+c.level(k, b.at, ends[i+2])
		out = append(out, x)
	}
	return out
}

// search returns a search in the slots [from, to).
func (f *changeFinder) search(from, to int) *changeSearch {
	key := [2]int{from, to}
	c := f.seen[key]
	if c == nil {
		c = newChangeSearch(f.look(from, to), to-from, f.o)
		f.seen[key] = c
	}
	return c
}

// chance returns the probability that the changes between the first bound and the last
// arise without one, and the view that shows them best.
func (f *changeFinder) chance(bounds []int) (p float64, view int) {
	from, to := bounds[0], bounds[len(bounds)-1]
	c := f.search(from, to)
	if len(c.views) == 0 {
		return 1, 0
	}
	var elements []element
	for _, at := range bounds[1 : len(bounds)-1] {
		elements = append(elements, element{at: at - from})
	}
	return c.chance(len(elements), c.noises(elements, false), c.noises(nil, false))
}

// keep moves each change to where it is clearest between its neighbours, and drops the
// weakest until each is unlikely to be chance, alone and together with either neighbour.
func (f *changeFinder) keep(bounds []int) []ChangePoint {
	for {
		for i := 1; i < len(bounds)-1; i++ {
			from, to := bounds[i-1], bounds[i+1]
			c := f.search(from, to)
			if at := c.moved(bounds[i] - from); at > 0 {
				bounds[i] = from + at
			}
		}
		changes := len(bounds) - 2
		p, views := make([]float64, changes), make([]int, changes)
		for i := range changes {
			p[i], views[i] = f.chance(bounds[i : i+3])
		}
		for i := 1; i < changes; i++ {
			both, _ := f.chance(bounds[i-1 : i+3])
			p[i-1], p[i] = max(p[i-1], both), max(p[i], both)
		}
		weakest, most := 0, 0.0
		for i, v := range p {
			if v > most {
				weakest, most = i+1, v
			}
		}
		if most <= f.o.Alpha {
			out := make([]ChangePoint, changes)
			for i := range out {
				out[i] = f.describe(bounds[i], bounds[i+1], bounds[i+2], views[i])
				out[i].P = p[i]
			}
			return out
		}
		bounds = slices.Delete(bounds, weakest, weakest+1)
	}
}

// rejected is by how much the log likelihood ratio of a moment may fall short of the
// greatest: −ln(1−√0.95).
var rejected = -math.Log(1 - math.Sqrt(0.95))

func (f *changeFinder) describe(from, at, to, k int) ChangePoint {
	c := f.search(from, to)
	v := &c.views[k]
	n, mid := to-from, at-from
	p := ChangePoint{At: at, Low: at, High: at, Column: v.column, Value: v.value}
	with := c.fit(k, []element{{at: mid}}, true)
	var gains []float64 // of the log likelihood, in units of the variance with the change
	if v.local {
		p.Kink = c.kinked(k, mid)
		without := c.under(c.fit(k, nil, false), with.model)
		gains = c.gains(&without)
		for t := range gains {
			gains[t] *= without.unit / with.unit
		}
	} else {
		gains = make([]float64, n)
		for t := 1; t < n; t++ {
			gains[t] = c.contrast(k, with.sum, 0, t, n) / 2
		}
	}
	far := slices.Max(gains) - rejected*wander(with.noise)
	for t := 1; t < n && !math.IsInf(with.evidence, 1); t++ { // what leaves no variance is exact
		if gains[t] >= far {
			p.Low, p.High = min(p.Low, from+t), max(p.High, from+t)
		}
	}
	p.Before, p.After = v.centre+c.level(k, 0, mid), v.centre+c.level(k, mid, n)
	return p
}
