package search

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// posterior is the distribution of the breaking load given the steps: probabilities of
// the loads of a grid.
//
// Near the load v* at which a condition breaks, its level (see seen.level) is a
// line in the logarithm of the load, with a slope below v* and another above: a
// queue near saturation is steeper above, a cliff is steep on both. Slopes are
// unknown between gentle and a cliff. This is how thresholds and slopes of
// perception are estimated, with steps that are placed where they tell most
// (Watson & Pelli 1983, Percept. Psychophys. 33; Kontsevich & Tyler 1999, Vision
// Res. 39); like Schütt, Harmeling, Macke & Wichmann (2016, Vision Res. 122) what
// is seen varies more than independent requests would.
//
//   - The likelihood of a step is the quasi-likelihood of its count with its clump
//     as dispersion (McCullagh & Nelder 1989, chapter 9), whose deviance is referred
//     to Student's t, as the dispersion is estimated.
//   - A step lies off the line by a part of its distance from v* and by a little at
//     any distance: a variance between steps, so that no step's length makes it
//     certain.
//   - With a probability that grows with distance, a step tells no more than on which
//     side of v* it is.
//
// Conditions are estimated each by itself; the objective breaks at the least of
// their v*, taken as independent.
type posterior struct {
	v     []float64 // ascending, evenly spaced
	mass  []float64 // of the objective, sums to 1
	first []float64 // probability that a condition is the one that breaks first
	slope []float64 // of a condition: typical, where it breaks
}

const (
	offLine   = 0.25 // standard deviation off the line, of the level there
	offStep   = 0.05 // and of any step
	astray    = 0.04 // probability that the line says nothing of a step at v*
	wander    = 0.15 // distance from v* at which it is most probable
	strayMost = 0.4  // that far away
	// A moment in which nearly all requests are beyond the limit comes near v* now
	// and then, but not farther below it.
	acuteFar  = 0.04
	acuteMost = 6.0
	gridSize  = 161
	margin    = 0.7 // beyond the bounds of the search
	// leastFactor keeps products of likelihoods above the least float.
	leastFactor = 1e-90
	tableMax    = 14.0
	tableBy     = 0.1
)

// slopes are the possible changes of the level by the logarithm of the load.
var slopes = func() []float64 {
	var out []float64
	for b := 1.5; b < 2000; b *= 1.7 {
		out = append(out, b)
	}
	return out
}()

// Likely slopes, as queues have them: for the 99th percentile of an M/M/1 4.6ρ/(1−ρ),
// for its mean ρ/(1−ρ), at a utilization ρ.
const (
	slopeShare  = 30.0
	slopeMean   = 6.0
	slopeSpread = 1.0 // of the logarithm
)

func likely(mean bool) []float64 {
	centre := slopeShare
	if mean {
		centre = slopeMean
	}
	out := make([]float64, len(slopes))
	for i, b := range slopes {
		d := math.Log(b/centre) / slopeSpread
		out[i] = math.Exp(-d * d / 2)
	}
	return out
}

// together is the prior of a slope below and one above, by how many slopes the second
// is beyond the first.
var together = func() [][]float64 {
	out := make([][]float64, len(slopes))
	for i := range slopes {
		out[i] = make([]float64, len(slopes))
		for j := range slopes {
			d := math.Log(slopes[j]/slopes[i]) - 0.3
			out[i][j] = math.Exp(-d * d)
		}
	}
	return out
}()

// table holds a step's likelihoods of levels, ready to be looked up.
type table struct {
	seen
	apart       []float64 // deviance in clumps, by level
	level       float64   // what was seen
	kept        float64   // likelihood if it says no more than that v* is beyond
	broken      float64
	information float64 // on the level
}

func newTable(o seen) *table {
	t := &table{seen: o}
	// The excess of Student's t over the normal distribution.
	beyond := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: o.df}.Quantile(0.975) / 1.96
	if o.stray && o.none() {
		beyond = 1 // as its interval has it
	}
	clump := o.clump * beyond * beyond
	for l := -tableMax; l <= tableMax+tableBy/2; l += tableBy {
		t.apart = append(t.apart, o.deviance(o.at(l))/clump)
	}
	if o.mean {
		t.level, t.information = o.level(o.ratio()), o.n/clump
	} else {
		p := (o.y + 0.5) / (o.n + 1)
		t.level, t.information = o.level(p), o.n*p*(1-p)/clump
	}
	const points = 40
	for i := range points {
		l := (float64(i) + 0.5) * 8 / points
		t.broken += math.Exp(-t.distance(l, 0)/2) / points
		t.kept += math.Exp(-t.distance(-l, 0)/2) / points
	}
	return t
}

// distance returns minus twice the log-likelihood of a level, with a variance between
// steps added.
func (t *table) distance(level, variance float64) float64 {
	at := (min(max(level, -tableMax), tableMax) + tableMax) / tableBy
	i := min(int(at), len(t.apart)-2)
	f := at - float64(i)
	apart := t.apart[i]*(1-f) + t.apart[i+1]*f
	if variance == 0 {
		return apart
	}
	// The deviance is the square of the distance by the information.
	if d := level - t.level; math.Abs(d) > 1e-3 {
		apart /= 1 + variance*apart/(d*d)
	}
	return apart + math.Log1p(variance*t.information)
}

// judge estimates the load at which the objective breaks.
func (s *Search) judge(also ...*Watch) *posterior {
	steps := append(s.steps[:len(s.steps):len(s.steps)], also...)
	tables := make([][]*table, len(s.o.Objective))
	for i := range tables {
		for _, w := range steps {
			if o := s.pooled(i, w.measured(i)); o.n > 0 {
				tables[i] = append(tables[i], newTable(o))
			}
		}
	}
	p := newPosterior(s.lowest-margin, s.highest+margin, tables)
	low, high := p.quantile(1e-5), p.quantile(1-1e-5)
	by := p.v[1] - p.v[0]
	return newPosterior(low-by, high+by, tables)
}

func newPosterior(from, to float64, tables [][]*table) *posterior {
	p := &posterior{v: make([]float64, gridSize), mass: make([]float64, gridSize), first: make([]float64, len(tables)), slope: make([]float64, len(tables))}
	for k := range p.v {
		p.v[k] = from + (to-from)*float64(k)/float64(gridSize-1)
	}
	each := make([][]float64, len(tables))
	for i := range tables {
		each[i], p.slope[i] = p.condition(tables[i])
	}
	// The least of several: one breaks here and all others no earlier.
	beyond := make([]float64, len(tables))
	for i := range beyond {
		beyond[i] = 1
	}
	for k := range p.v {
		for i := range each {
			here := each[i][k]
			for j := range each {
				if j != i {
					here *= max(beyond[j]-each[j][k]/2, 0)
				}
			}
			p.mass[k] += here
			p.first[i] += here
		}
		for i := range each {
			beyond[i] -= each[i][k]
		}
	}
	normalize(p.mass)
	normalize(p.first)
	return p
}

// condition returns the posterior of one condition, and its slope.
func (p *posterior) condition(tables []*table) (mass []float64, slope float64) {
	mass = make([]float64, len(p.v))
	prior := likely(len(tables) > 0 && tables[0].mean)
	below, above := make([]float64, len(slopes)), make([]float64, len(slopes))
	logs, slopeOf := make([]float64, len(p.v)), make([]float64, len(p.v))
	for k, v := range p.v {
		for i := range slopes {
			below[i], above[i] = 1, 1
		}
		scale := 0.0
		for _, t := range tables {
			d := t.v - v
			if t.acute && d < 0 {
				scale -= min(-d/acuteFar, acuteMost)
			}
			sides, side := below, t.kept
			if d > 0 {
				sides, side = above, t.broken
			}
			most := strayMost
			if t.of.c.Measure == "errors" {
				most = 1
			}
			stray := astray + (most-astray)*(1-math.Exp(-d*d/(2*wander*wander)))
			for i, b := range slopes {
				level := b * d
				line := math.Exp(-t.distance(level, offLine*offLine*level*level+offStep*offStep) / 2)
				sides[i] *= max((1-stray)*line+stray*side, leastFactor)
			}
			if most := slices.Max(sides); most < 1e-100 {
				scale += math.Log(most)
				for i := range sides {
					sides[i] /= most
				}
			}
		}
		total, sum := 0.0, 0.0
		for i := range slopes {
			for j := range slopes {
				w := prior[i] * together[i][j] * below[i] * above[j]
				total += w
				sum += w * (math.Log(slopes[i]) + math.Log(slopes[j])) / 2
			}
		}
		logs[k] = math.Log(total) + scale
		slopeOf[k] = sum / total
	}
	most := math.Inf(-1)
	for _, l := range logs {
		most = max(most, l)
	}
	for k := range mass {
		mass[k] = math.Exp(logs[k] - most)
	}
	normalize(mass)
	for k := range mass {
		slope += mass[k] * slopeOf[k]
	}
	return mass, math.Exp(slope)
}

func normalize(w []float64) {
	sum := 0.0
	for _, v := range w {
		sum += v
	}
	if sum > 0 {
		for i := range w {
			w[i] /= sum
		}
	}
}

// quantile returns a quantile of the load at which the objective breaks.
func (p *posterior) quantile(q float64) float64 {
	sum, half := 0.0, (p.v[1]-p.v[0])/2
	for k, m := range p.mass {
		if sum+m >= q && m > 0 {
			return p.v[k] - half + 2*half*(q-sum)/m
		}
		sum += m
	}
	return p.v[len(p.v)-1] + half
}

// below returns the probability that the objective breaks before a load.
func (p *posterior) below(v float64) float64 {
	sum, by := 0.0, p.v[1]-p.v[0]
	for k, m := range p.mass {
		sum += m * min(max((v-p.v[k])/by+0.5, 0), 1)
	}
	return sum
}
