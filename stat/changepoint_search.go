package stat

import (
	"math"
	"slices"
)

// chances gives the probability of a gain of log likelihood without a change, measured
// on simulated series (see docs/statistics.md): where j changes are added together it is
// about exp((a−g)/slope), a growing with the logarithm of how many stretches a series
// can have, from least on. A sequence that persists gains more by chance, 1+persists·ln D
// times, where D is the ratio of the variance of its mean to that of independent slots,
// with the changes.
var chances = [...]struct{ least, base, room, slope float64 }{
	{2.65, 0.7, 0.6, 1},
	{0, 1.4, 1.5, 1.3},
	{0, 1.7, 1.9, 1.4},
}

const persists = 0.5

// nearby is by how much more a local fit gains by chance: it has as many places for a
// step as there are slots, however much they depend on each other; measured too.
const nearby = 0.75

// views is by how much the required gain falls with the logarithm of how many fewer
// views there are: views are alike.
const views = 0.4

// loose is how much likelier to be chance a division may be than the changes kept of it,
// as each change has to pass by itself again; measured too.
const loose = 2

// plainly bounds the probability, without a change, of a great step that is taken
// although the contrast with noise is greater elsewhere.
const plainly = 1e-4

// ahead is how many candidates are added before they must pass together: a pulse needs
// two.
const ahead = len(chances)

// wander returns how many times more the log likelihood gains by chance than with
// independent slots.
func wander(n noise) float64 { return 1 + persists*math.Log(max(1, n.dependence)) }

// chance returns the probability of a gain without a change.
func (c *changeSearch) chance(changes int, more, less []noise) (p float64, view int) {
	score, view := c.score(changes, more, less)
	return min(1, math.Exp(-score/chances[changes-1].slope)), view
}

// score returns the greatest gain of any view beyond that of chance.
func (c *changeSearch) score(changes int, more, less []noise) (most float64, view int) {
	most = math.Inf(-1)
	for k := range more {
		if g := c.scoreOf(k, changes, more[k], less[k]); g > most {
			most, view = g, k
		}
	}
	return most, view
}

// scoreOf returns the score of one view.
func (c *changeSearch) scoreOf(k, changes int, more, less noise) float64 {
	g := c.evened(k, less.elements, more.elements) * (more.evidence - less.evidence) / wander(more)
	return g - c.byChance(k, changes)
}

// byChance is the gain of so many changes of a view of which the probability is 1, as far
// as the law of small probabilities goes.
func (c *changeSearch) byChance(k, changes int) float64 {
	of := chances[changes-1]
	fewer := views * math.Log(float64(len(seen))/float64(len(c.views)))
	return max(of.least, of.base+of.room*math.Log(float64(c.n)/float64(c.views[k].least))) + c.nearby(k) - fewer
}

// evened returns by how much less the levels within stretches explain on the scale on
// which slots vary alike at every level. A share that wanders does so by a factor, so
// high levels are less of a surprise than with one variance for all.
func (c *changeSearch) evened(k int, before, after []element) float64 {
	less, more := c.boundsOf(before), c.boundsOf(after)
	plain, even := 0.0, 0.0
	j := 1
	for i := 1; i < len(less); i++ {
		whole := c.level(k, less[i-1], less[i])
		for ; j < len(more) && more[j] <= less[i]; j++ {
			level := c.level(k, more[j-1], more[j])
			n := float64(more[j] - more[j-1])
			plain += n * sq(level-whole)
			even += n * sq(c.views[k].evened(whole, level))
		}
	}
	if !(even < plain) {
		return 1
	}
	return even / plain
}

// boundsOf returns the ends of the stretches between elements.
func (c *changeSearch) boundsOf(elements []element) []int {
	bounds := []int{0, c.n}
	for _, e := range elements {
		if i, known := slices.BinarySearch(bounds, e.at); !known {
			bounds = slices.Insert(bounds, i, e.at)
		}
	}
	return bounds
}

// changeSearch finds change points in views of one stretch.
type changeSearch struct {
	views []view
	n     int
	o     ChangeOptions
	sp    *spectrum
	sumX  [][]float64 // per view, cumulative: sumX[t] is of slots before t
	sumW  [][]float64
	grown [][]float64 // per persistence: variance of the sum of n slots
	plain []float64   // that of independent slots
	base  [][]float64 // per view: its cosines, once they were used
	steps [][]float64 // per model: see squares
	wide  *transform
}

func newChangeSearch(views []view, n int, o ChangeOptions) *changeSearch {
	c := &changeSearch{views: views, n: n, o: o, sp: newSpectrum(n), base: make([][]float64, len(views)), steps: make([][]float64, models)}
	for _, v := range views {
		c.sumX, c.sumW = append(c.sumX, cumulative(v.x)), append(c.sumW, cumulative(v.w))
	}
	c.plain = make([]float64, n+1)
	for i := range c.plain {
		c.plain[i] = float64(i)
	}
	for _, phi := range persistence {
		g := make([]float64, n+1)
		power := 1.0
		for i := 1; i <= n; i++ {
			power *= phi
			m := float64(i)
			g[i] = m*(1+phi)/(1-phi) - 2*phi*(1-power)/sq(1-phi)
		}
		c.grown = append(c.grown, g)
	}
	return c
}

func cumulative(x []float64) []float64 {
	sum := make([]float64, len(x)+1)
	for i, v := range x {
		sum[i+1] = sum[i] + v
	}
	return sum
}

// noise describes the rest of a view without its levels between changes.
type noise struct {
	elements   []element
	evidence   float64   // log likelihood, averaged over models
	dependence float64   // the ratio of the variance of a mean to that of independent slots
	sum        []float64 // variance of the sum of so many slots
}

// noiseOf returns the noise of a view with elements; with sums also the variance of
// sums. Where a slope of the whole stretch explains as much as a change must, it is one
// of them.
func (c *changeSearch) noiseOf(k int, elements []element, sums bool) noise {
	out, _ := c.courseOf(k, elements, sums)
	return out.noise
}

func (c *changeSearch) courseOf(k int, elements []element, sums bool) (course, []element) {
	out := c.fit(k, elements, sums)
	if !c.views[k].local {
		out.elements = elements
		return out, elements
	}
	sloped := append([]element{{0, true}}, elements...)
	slope := c.fit(k, sloped, sums)
	slope.evidence -= c.required(k) * wander(slope.noise)
	if slope.evidence > out.evidence {
		out, elements = slope, sloped
	}
	out.elements = elements
	return out, elements
}

func (c *changeSearch) nearby(k int) float64 {
	if c.views[k].local {
		return nearby
	}
	return 0
}

// required is the gain of one change, without dependence.
func (c *changeSearch) required(k int) float64 {
	return c.byChance(k, 1) + chances[0].slope*math.Log(1/c.o.Alpha)
}

// level returns the mean of a view over [from, to).
func (c *changeSearch) level(k, from, to int) float64 {
	w := c.sumW[k][to] - c.sumW[k][from]
	if !(w > 0) {
		return 0
	}
	return (c.sumX[k][to] - c.sumX[k][from]) / w
}

// contrast returns the square of the difference of levels before and after at, in units
// of its variance.
func (c *changeSearch) contrast(k int, sum []float64, from, at, to int) float64 {
	x, w := c.sumX[k], c.sumW[k]
	wl, wr := w[at]-w[from], w[to]-w[at]
	if !(wl > 0 && wr > 0) {
		return 0
	}
	d := (x[at]-x[from])/wl - (x[to]-x[at])/wr
	l, r := sum[at-from], sum[to-at]
	variance := l/(wl*wl) + r/(wr*wr) - (sum[to-from]-l-r)/(wl*wr)
	if !(variance > 0) {
		return 0
	}
	return d * d / variance
}

// best returns the split of a stretch with the greatest contrast in any interval within
// it; at is 0 if there is none.
func (c *changeSearch) best(noises []noise, from, to int) (at int, most float64) {
	for k := range c.views {
		least := c.views[k].least
		length := float64(to - from)
		for ; length >= float64(2*least); length /= math.Sqrt2 {
			size := int(length)
			steps := 2*int(math.Ceil(float64(to-from)/length)) - 1
			for i := range steps {
				lo := from
				if steps > 1 {
					lo += i * (to - from - size) / (steps - 1)
				}
				if t, z := c.greatest(k, noises[k].sum, lo, lo+size); z > most {
					at, most = t, z
				}
			}
		}
	}
	return at, most
}

func (c *changeSearch) noises(elements []element, sums bool) []noise {
	out := make([]noise, len(c.views))
	for k := range out {
		out[k] = c.noiseOf(k, elements, sums)
	}
	return out
}

// candidates returns elements that may be added: the split with the greatest contrast in
// any interval, and the step and the bend that are likeliest in any view beside what is
// there.
func (c *changeSearch) candidates(elements []element, now []noise) []element {
	var out []element
	at, most := 0, 0.0
	bounds := c.boundsOf(elements)
	for i := 1; i < len(bounds); i++ {
		if t, z := c.best(now, bounds[i-1], bounds[i]); z > most {
			at, most = t, z
		}
	}
	if at > 0 {
		out = append(out, element{at: at})
	}
	var step element
	mostStep := 0.0
	for k := range c.views {
		if !c.views[k].local {
			continue
		}
		f, with := c.courseOf(k, elements, false)
		if t, g := c.likeliestStep(k, &f, with); g > mostStep {
			step, mostStep = element{at: t}, g
		}
	}
	if step.at > 0 {
		out = append(out, step)
	}
	return out
}

// split returns the first moments found that divide the stretch, bounds 0 and n
// included, or nil if there are none.
func (c *changeSearch) split() []int {
	base := c.noises(nil, true)
	now := base
	var elements []element
	for tried := 1; tried <= ahead; tried++ {
		var added []element
		var after []noise
		most := math.Inf(-1)
		for _, e := range c.candidates(elements, now) {
			with := append(slices.Clone(elements), e)
			noises := c.noises(with, true)
			if score, _ := c.score(tried, noises, base); score > most {
				added, after, most = with, noises, score
			}
		}
		if added == nil {
			break
		}
		elements, now = added, after
		p, _ := c.chance(tried, now, base)
		if tried == 1 && c.mayBePlain() {
			if t, q := c.likeliest(base); q < min(p, plainly) {
				p, elements = q, []element{{at: t}}
				now = c.noises(elements, true)
			}
		}
		if p <= loose*c.o.Alpha {
			return c.boundsOf(elements)
		}
	}
	return nil
}

// moved returns where the moment that divides the stretch in two is clearest, given its
// supposed place, or 0 if nowhere.
func (c *changeSearch) moved(from int) int {
	base := c.noises(nil, false)
	if !slices.ContainsFunc(c.views, func(v view) bool { return v.local }) {
		at := c.clearest(c.noises([]element{{at: from}}, true))
		if at == 0 {
			return 0
		}
		best, p := c.likeliest(base)
		if q, _ := c.chance(1, c.noises([]element{{at: at}}, false), base); p < plainly && p < q {
			return best
		}
		return at
	}
	best, most := 0, math.Inf(-1)
	try := func(at int) {
		if at == 0 {
			return
		}
		if s, _ := c.score(1, c.noises([]element{{at: at}}, false), base); s > most {
			best, most = at, s
		}
	}
	try(from)
	for k := range c.views { // under the noise that is left with the moment
		if !c.views[k].local {
			continue
		}
		f := c.under(c.fit(k, nil, false), c.fit(k, []element{{at: from}}, false).model)
		t, _ := c.likeliestStep(k, &f, nil)
		try(t)
	}
	if t, q := c.likeliest(base); q < plainly {
		try(t)
	}
	return best
}

// bendGrid is about how many places of a bend are tried in a stretch: the fit hardly
// changes from one slot to the next.
const bendGrid = 48

// bends are the places of a grid at which a view may bend.
type bends struct {
	places    []int
	gains     []float64 // of the log likelihood, over one slope or level of all
	likeliest course
	at        int // where that bends; 0 if nowhere
}

// between returns the first and the last place that the likelihood ratio does not reject.
func (b *bends) between() (low, high int) {
	low, high = b.at, b.at
	far := slices.Max(b.gains) - rejected*wander(b.likeliest.noise)
	for i, t := range b.places {
		if b.gains[i] >= far {
			low, high = min(low, t), max(high, t)
		}
	}
	return low, high
}

// bendsOf returns the bends of a view, or those beside another one that go the other way; none
// of a view that does not vary.
func (c *changeSearch) bendsOf(k, other int) (out bends) {
	least := c.views[k].least
	base := max(c.fit(k, nil, false).evidence, c.fit(k, []element{{0, true}}, false).evidence)
	if math.IsInf(base, 1) {
		return out // it does not vary
	}
	step := max(1, (c.n-2*least)/bendGrid)
	for t := least; t <= c.n-least; t += step {
		elements := []element{{0, true}, {t, true}}
		if other > 0 {
			if max(other-t, t-other) < least {
				continue
			}
			elements = append(elements, element{other, true})
		}
		f := c.fit(k, elements, false)
		if other > 0 && f.effects[1]*f.effects[2] >= 0 {
			continue
		}
		g := f.evidence - base
		if len(out.gains) == 0 || g > slices.Max(out.gains) {
			out.likeliest, out.at = f, t
		}
		out.places, out.gains = append(out.places, t), append(out.gains, g)
	}
	return out
}

// bend returns the likeliest bend of a local view, or the likeliest two, and the
// probability of as many as clear without them; there are none if the view has none.
func (c *changeSearch) bend(two bool) (found []bends, view int, p float64) {
	most, changes := math.Inf(-1), 1
	if two {
		changes = 2
	}
	for k := range c.views {
		if !c.views[k].local || c.n < (changes+1)*c.views[k].least {
			continue
		}
		here := []bends{c.bendsOf(k, 0)}
		if here[0].at == 0 {
			continue
		}
		if two {
			// One of two bends alone may be anywhere between: each is looked for beside the other.
			for at := here[0].at; len(here) < 4 && at > 0; at = here[len(here)-1].at {
				here = append(here, c.bendsOf(k, at))
			}
			if here = here[len(here)-2:]; here[0].at == 0 || here[1].at == 0 {
				continue
			}
		}
		last := &here[len(here)-1]
		gain := slices.Max(last.gains) - float64(changes)*kinkBy
		if s := gain/wander(last.likeliest.noise) - c.byChance(k, changes); s > most {
			found, view, most = here, k, s
		}
	}
	if two && len(found) > 0 && found[0].at > found[1].at {
		found[0], found[1] = found[1], found[0]
	}
	return found, view, min(1, math.Exp(-most/chances[changes-1].slope))
}

// kinked says that a view bends about a moment rather than jumps at it.
func (c *changeSearch) kinked(k, at int) bool {
	step := c.fit(k, []element{{0, true}, {at: at}}, false).evidence
	for _, t := range []int{at - c.views[k].least/2, at, at + c.views[k].least/2} {
		if t > 0 && t < c.n && c.fit(k, []element{{0, true}, {t, true}}, false).evidence > step+kinkBy {
			return true
		}
	}
	return false
}

// kinkBy is how much likelier a bend must be than a step.
const kinkBy = 2

// clearest returns where the contrast of the stretch's two sides is greatest.
func (c *changeSearch) clearest(noises []noise) (at int) {
	most := 0.0
	for k := range c.views {
		if t, z := c.greatest(k, noises[k].sum, 0, c.n); z > most {
			at, most = t, z
		}
	}
	return at
}

// under returns a course without elements as another model sees it.
func (c *changeSearch) under(f course, model int) course {
	f.model = model
	z := slices.Clone(f.columns[0])
	c.over(z, model)
	f.unit = dot(z, f.columns[0]) / float64(c.n-1)
	return f
}

// likeliest returns the moment that divides the stretch best in one view or another,
// each by the split that leaves the least variance, and the probability that it is
// chance. A great step by itself looks like noise that persists, by which all contrasts
// are small alike and others may be greater.
func (c *changeSearch) likeliest(base []noise) (at int, p float64) {
	most := math.Inf(-1)
	for k := range c.views {
		if t, _ := c.greatest(k, c.plain, 0, c.n); t > 0 {
			more := c.noiseOf(k, []element{{at: t}}, false)
			if s := c.scoreOf(k, 1, more, base[k]); s > most {
				at, most = t, s
			}
		}
	}
	if at == 0 {
		return 0, 1
	}
	p, _ = c.chance(1, c.noises([]element{{at: at}}, false), base)
	return at, p
}

// mayBePlain reports whether a split of the whole stretch gains enough in any view that likeliest
// may find one that is plain: that of independent slots, of which none that persist gains more.
func (c *changeSearch) mayBePlain() bool {
	for k := range c.views {
		_, most := c.greatest(k, c.plain, 0, c.n)
		whole := 0.0
		for _, x := range c.views[k].x {
			whole += x * x
		}
		if gain := -float64(c.n-1) / 2 * math.Log(max(0, 1-most/whole)); !(gain < -math.Log(plainly)) {
			return true
		}
	}
	return false
}

// greatest returns the split of the slots [from, to) of a view with the greatest contrast; at
// is 0 if there is none. It compares products, for most of a search are these comparisons.
func (c *changeSearch) greatest(k int, sum []float64, from, to int) (at int, most float64) {
	x, w, least := c.sumX[k], c.sumW[k], c.views[k].least
	x0, w0, x1, w1, whole := x[from], w[from], x[to], w[to], sum[to-from]
	for t := from + least; t <= to-least; t++ {
		wl, wr := w[t]-w0, w1-w[t]
		if !(wl > 0 && wr > 0) {
			continue
		}
		l, r := sum[t-from], sum[to-t]
		d := (x[t]-x0)*wr - (x1-x[t])*wl
		if variance := l*wr*wr + r*wl*wl - (whole-l-r)*wl*wr; variance > 0 && d*d > most*variance {
			at, most = t, d*d/variance
		}
	}
	return at, most
}
