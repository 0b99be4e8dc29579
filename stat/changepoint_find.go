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
	return f.keep(bounds)
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
	inner := make([]int, len(bounds))
	for i, at := range bounds {
		inner[i] = at - from
	}
	return c.chance(len(bounds)-2, c.noises(inner, false), c.noises([]int{0, to - from}, false))
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
	noise := c.noiseOf(k, []int{0, mid, n}, true)
	sum, far := noise.sum, 2*rejected*wander(noise)
	top := 0.0
	for t := 1; t < n; t++ {
		top = max(top, c.contrast(k, sum, 0, t, n))
	}
	p := ChangePoint{At: at, Low: at, High: at, Column: v.column, Value: v.value}
	for t := 1; t < n; t++ {
		if c.contrast(k, sum, 0, t, n) >= top-far {
			p.Low, p.High = min(p.Low, from+t), max(p.High, from+t)
		}
	}
	p.Before, p.After = v.centre+c.level(k, 0, mid), v.centre+c.level(k, mid, n)
	return p
}
