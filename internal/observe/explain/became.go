package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/series"
)

const (
	// Families of labels, of pairs, and of all requests share the probability of naming
	// anything without a cause.
	levelLabels = 0.03
	levelPairs  = 0.01
	levelWhole  = 0.003
	// levelWithin is the level at which a pair must stand out within each of its labels,
	// and a label must have risen by itself.
	levelWithin = 0.05
	// apart is the least ratio of a label's own movement to the common one.
	apart = 2
	// least is the least ratio of a share to the share before that matters.
	least = 1.2
	// mostCauses bounds the steps.
	mostCauses = 10
)

var inf = math.Inf(1)

// suspect is a label's value, a pair of them, or all requests (no labels).
type suspect struct {
	a, b   int32 // numbers of values; −1
	from   *strata
	inside float64
	change
	t float64 // gain by noise
	p float64
	// restUnknown: whether others rose as well is not known.
	restUnknown bool
}

// sums adds up all labels and pairs that are examined, without influences.
func (s *strata) sums(keep func(name, other string) bool, pairs bool) (singles, both []*suspect) {
	type two [2]int32
	index := map[two]*suspect{}
	for row := range s.rows {
		if s.explained[row] {
			continue
		}
		add := func(a, b int32) {
			c := index[two{a, b}]
			if c == nil {
				c = &suspect{a: a, b: b, from: s}
				index[two{a, b}] = c
				if b < 0 {
					singles = append(singles, c)
				} else {
					both = append(both, c)
				}
			}
			r := s.rows[row]
			r.influence = nil
			c.change.add(&r, 1)
			c.inside += s.inside[row]
		}
		numbers := s.values[row]
		for k, a := range numbers {
			if !s.looked[k] || s.v.list[a].Value == unread {
				continue
			}
			if keep(s.names[k], "") {
				add(a, -1)
			}
			for l := k + 1; pairs && l < len(numbers); l++ {
				if s.looked[l] && s.v.list[numbers[l]].Value != unread && keep(s.names[k], s.names[l]) {
					add(a, numbers[l])
				}
			}
		}
	}
	order := func(x, y *suspect) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) }
	slices.SortFunc(singles, order)
	slices.SortFunc(both, order)
	return singles, both
}

// split adds up the rows that no cause holds: those with the candidate's labels, and,
// among those with the labels of within, the others.
func (s *strata) split(c, within *suspect) (mine, rest change, others float64) {
	mine.influence, rest.influence = make([]float64, s.window+s.rest), make([]float64, s.window+s.rest)
	for row := range s.rows {
		if s.explained[row] {
			continue
		}
		if s.has(row, c) {
			mine.add(&s.rows[row], 1)
		} else if within == nil || s.has(row, within) {
			rest.add(&s.rows[row], 1)
			others += sum(s.table.rows[row].all[:s.window])
		}
	}
	return mine, rest, others
}

// What is only in a part of the rectangle makes its slots differ as noise does. They are also
// taken to be as noisy as those before, and no less than about the levels of one stretch of
// their own, at this part of a level: an outage inside is plain, and what began before keeps
// nearly all of it.
const ofStretch = 0.05

// test returns a change's interval and the probability of so large a gain without a
// cause. The variance is the slots', and no less than that of independent requests.
func (s *strata) test(c *change) effect {
	e := effect{size: c.gain, p: 1, low: -inf, high: inf}
	now, before := c.influence[:s.window], c.influence[s.window:]
	ratio := s.requestsBefore() / s.requestsNow() // of the variances, by the numbers of requests
	var variance, df float64
	part := e
	switch {
	case len(now) >= fewestSlots && len(before) >= fewestSlots:
		variance, df = ownVariance(c.influence) // the sum of either part is 0
		if c.gain > 0 {
			v, dfv := ownVariance(before)
			v *= 1 + ratio
			if about, dfa := ownVariance(append(aboutStretch(now), before...)); about > v {
				v, dfv = about, dfa
			}
			part.setInterval(max(v, c.noise), dfv)
		}
	case len(before) >= fewestSlots:
		variance, df = ownVariance(before)
		variance *= 1 + ratio
	case len(now) >= fewestSlots:
		variance, df = ownVariance(now)
		variance *= 1 + 1/ratio
	default:
		return e
	}
	e.setInterval(max(variance, c.noise), df)
	if part.ok {
		e.p, part.p = min(1, e.p/(1-ofStretch)), min(1, part.p/ofStretch)
		if part.p < e.p {
			e = part
		}
	}
	e.p /= 2 // of one side
	if !(e.size > 0) {
		e.p = 1
	}
	return e
}

// stretchOf returns the stretch [from, to) of x that exceeds the rest the most, in standard
// errors. Both have a tenth of the slots at least, so that a burst is not one; of x in which
// none exceeds the rest it is all of it.
func stretchOf(x []float64) (from, to int) {
	n, least := len(x), (len(x)+9)/10
	until := make([]float64, n+1) // sums
	for i, v := range x {
		until[i+1] = until[i] + v
	}
	to = n
	most := 0.0
	for i := range x {
		for j := i + least; j <= n && n-(j-i) >= least; j++ {
			k := float64(j - i)
			if above := (until[j] - until[i] - until[n]*k/float64(n)) / math.Sqrt(k*(float64(n)-k)); above > most {
				from, to, most = i, j, above
			}
		}
	}
	return from, to
}

// aboutStretch returns x about the means of the stretch and of the rest.
func aboutStretch(x []float64) []float64 {
	from, to := stretchOf(x)
	rest := centre(slices.Concat(x[:from], x[to:]))
	return slices.Concat(rest[:from], centre(x[from:to]), rest[from:])
}

func (s *strata) requestsNow() (n float64) {
	for i := range s.list {
		n += s.list[i].now
	}
	return n
}

func (s *strata) requestsBefore() (n float64) {
	for i := range s.list {
		n += s.list[i].before
	}
	return n
}

// stands reports whether a candidate stands out from the others of within, nil for all:
// its p times tried is at most level, and its gain is several times theirs.
func (s *strata) stands(c, within *suspect, tried, level float64) (p float64, ok bool) {
	mine, rest, others := s.split(c, within)
	if others < fewest {
		return 1, false
	}
	own, moved := mine.less(&rest)
	if moved > 0 && mine.gain < apart*moved {
		return 1, false
	}
	e := s.test(&own)
	p = min(1, e.p*tried)
	return p, e.ok && p <= level
}

// above reports whether the interval leaves out 0.
func (e *effect) above() bool { return e.ok && e.low > 0 }

// judgeBefore names who became slow, and, of requests, whose fail more often.
func (q *question) judgeBefore(main, tenants *table) {
	total := main.total()
	main.drop(total)
	if tenants != nil && tenants != main {
		tenants.drop(total)
	}
	if main.window < fewestSlots && main.rest < fewestSlots {
		q.note("fewer than %d slots with %s are too few to tell how much shares vary: widen the range", fewestSlots, q.what)
		return
	}
	if main.window < fewestSlots {
		q.note("the rectangle's time has %s with %s, too few to tell how much shares vary there: that is taken from the time before", figure.Counted(main.window, "slot"), q.what)
	}
	q.judged = true
	all, instances := together(main, tenants)
	tables := []*table{all}
	if instances != nil {
		tables = append(tables, instances)
	}
	if q.Family == series.SpanDuration && !q.matches(series.LabelStatus) {
		q.judgeErrors(tables)
	}
	x := q.causes(tables, "are inside", "were")
	q.out.Sentence = x.told
	q.out.Items, q.out.LabelsTried, q.out.PairsTried = x.items, x.labelsTried, x.pairsTried
	q.out.Before.Now, q.out.Before.Share = api.Float(x.now), api.Float(x.before)
}

// judgeErrors names whose requests fail more often, whatever they take.
func (q *question) judgeErrors(tables []*table) {
	var failed []*table
	for _, t := range tables {
		failed = append(failed, t.failed())
	}
	x := q.causes(failed, "fail", "did")
	total := failed[0].total()
	b := q.out.Before
	q.out.Errors = &api.ExplainErrors{
		Start: b.Start, End: b.End, Failed: q.counted(sum(total.in[:failed[0].window])), Now: api.Float(x.now), Share: api.Float(x.before), Items: x.items, Sentence: x.told,
	}
}

// failed returns the table without status, of which the requests that failed are inside.
func (t *table) failed() *table {
	out := &table{window: t.window, rest: t.rest, both: true, slots: t.slots, index: map[string]int{}}
	var buf []byte
	for i, l := range t.labels {
		of := counts{make([]float64, len(t.rows[i].all)), t.rows[i].all}
		if l.Get(series.LabelStatus) == series.StatusError {
			of.in = of.all
		}
		var row *counts
		row, buf = out.row(labels.NewBuilder(l).Del(series.LabelStatus).Labels(), buf)
		row.add(of, 1)
	}
	return out
}

// causes holds the named causes, in the order in which they were found.
type causes struct {
	*question
	v                       *values
	parts                   []*strata
	labelsTried, pairsTried int
	now, before             float64 // shares of all requests that are inside, like for like
	items                   []api.ExplainItem
	are, were               string // inside, in words
	told                    string // whose the increase is
}

// causes names causes, one after the other: the one that accounts for the most among those
// that stand out; its requests are then left out (Zhang, Assunção & Kulldorff 2010, Journal
// of Probability and Statistics, proceed alike). What is inside is told as are and were.
func (q *question) causes(tables []*table, are, were string) *causes {
	v := &values{number: map[labels.Label]int32{}}
	x := &causes{question: q, v: v, items: []api.ExplainItem{}, are: are, were: were}
	for _, t := range tables {
		x.parts = append(x.parts, newStrata(t, v, q.Labels))
	}
	keep := func(i int) func(name, other string) bool {
		return func(name, other string) bool {
			return i == 0 || besideTenant(name) || besideTenant(other)
		}
	}
	root := x.parts[0]
	whole := &suspect{a: -1, b: -1, from: root}
	whole.change, _, _ = root.split(whole, nil)
	x.now, x.before, _ = root.shares(whole)
	for len(x.items) < mostCauses {
		var singles, both []*suspect
		for i, s := range x.parts {
			a, b := s.sums(keep(i), !q.Alone)
			singles, both = append(singles, slices.DeleteFunc(a, q.isSuccess)...), append(both, slices.DeleteFunc(b, q.isSuccess)...)
		}
		if len(x.items) == 0 {
			x.labelsTried, x.pairsTried = len(singles), len(both)
		}
		named := x.next(slices.Concat(singles, both), bar{inside: fewest, labels: float64(x.labelsTried) * q.tries, pairs: float64(x.pairsTried) * q.tries})
		if named == nil {
			named = x.others(slices.Concat(singles, both))
		}
		if named == nil {
			break
		}
		x.name(named, whole.gain)
		if named.a < 0 || named.restUnknown {
			break
		}
		remove(x.parts, named)
	}
	x.arrange()
	return x
}

// others returns whose the increase is of the requests that no cause holds, if it is sure: of
// all of them, or of the candidate of which alone it is less likely without a cause. As
// something rose for sure, a candidate is tested by itself, and not among as many as were tried.
// Where it does not stand out, and the rest did not surely rise as well, it is of the candidate,
// and not known of the rest.
func (x *causes) others(among []*suspect) *suspect {
	root := x.parts[0]
	all := &suspect{a: -1, b: -1, from: root}
	all.change, _, _ = root.split(all, nil)
	e := root.test(&all.change)
	left := root.left()
	if !e.above() || e.p*x.tries > levelWhole || !all.matters() || left < fewest {
		return nil
	}
	all.p = e.p
	return cmp.Or(x.next(among, bar{t: all.gain / math.Sqrt(all.noise), inside: min(fewest, left/2), labels: 1, pairs: 1}), x.likeliest(among, all), all)
}

// likeliest returns the label with most of the increase of all that exceeds its rest the most,
// by noise, where the rest did not surely rise; nil if there is none.
func (x *causes) likeliest(among []*suspect, all *suspect) (best *suspect) {
	const part, most = 0.5, 0.8 // of the increase at least, and of the requests at most
	requests, highest := all.from.requestsOf(all), 0.0
	for _, c := range among {
		if c.b >= 0 || c.gain < part*all.gain || c.from.requestsOf(c) > most*requests || c.isOutcome() {
			continue
		}
		mine, rest, _ := c.from.split(c, nil)
		own, _ := mine.less(&rest)
		t := own.gain / math.Sqrt(own.noise)
		if e, others := c.from.test(&mine), c.from.test(&rest); !(t > highest) || !e.above() || e.p > levelWithin || others.above() || !c.matters() {
			continue
		}
		c.change, c.p, c.restUnknown = mine, all.p, true
		best, highest = c, t
	}
	return best
}

// left returns how many of the requests that no cause holds lie inside now.
func (s *strata) left() (n float64) {
	for row, x := range s.inside {
		if !s.explained[row] {
			n += x
		}
	}
	return n
}

// bar is what a candidate has to pass: more than t of its gain by noise, and so many requests
// inside, and to stand out among so many labels or pairs.
type bar struct{ t, inside, labels, pairs float64 }

// next returns the candidate that accounts for the most of those that pass the bar.
func (x *causes) next(among []*suspect, least bar) *suspect {
	var list []*suspect
	for _, c := range among {
		// No test's p is below that of independent requests.
		if c.t = c.gain / math.Sqrt(c.noise); c.inside >= least.inside && c.t > least.t && distuv.UnitNormal.Survival(c.t) <= levelWithin && !c.isOutcome() {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(x, y *suspect) int { return cmp.Compare(y.t, x.t) })
	for _, c := range list[:min(len(list), mostTried)] {
		tried, level := least.labels, levelLabels
		if c.b >= 0 {
			tried, level = least.pairs, levelPairs
		}
		mine, _, _ := c.from.split(c, nil)
		if e := c.from.test(&mine); !e.above() || e.p > levelWithin || !c.matters() {
			continue
		}
		var ok bool
		if c.p, ok = c.from.stands(c, nil, tried, level); !ok {
			continue
		}
		if c.b >= 0 && !(c.withinLabel(c.a) && c.withinLabel(c.b)) {
			continue
		}
		c.change = mine
		if c.b < 0 {
			return cmp.Or(c.narrower(list), c)
		}
		return c
	}
	return nil
}

// matters reports whether a share grew enough to be named.
func (c *suspect) matters() bool {
	now, before, _ := c.from.shares(c)
	return now >= least*before
}

// narrower returns the pair of a label that accounts for all of it, or for most where the rest
// did not surely rise, if the label's other requests would be inside more often had they moved
// as the pair's did.
func (c *suspect) narrower(list []*suspect) *suspect {
	const (
		all  = 0.9
		most = 0.5
		sure = 3 // standard errors
	)
	for _, p := range list {
		if p.b < 0 || p.from != c.from || p.a != c.a && p.b != c.a || p.gain < most*c.gain {
			continue
		}
		now, before, weight := p.from.shares(p)
		shift := distuv.UnitNormal.Quantile(smooth(now, weight)) - distuv.UnitNormal.Quantile(smooth(before, weight))
		expected, variance, seen := 0.0, 0.0, map[int]bool{}
		_, rest, _ := p.from.split(p, c)
		if e := p.from.test(&rest); p.gain < all*c.gain && e.above() {
			continue
		}
		for row, at := range p.from.of {
			x := &p.from.list[at]
			if seen[at] || x.weight == 0 || p.from.explained[row] || p.from.has(row, p) || !p.from.has(row, c) {
				continue
			}
			seen[at] = true
			was := smooth(x.was, x.weight)
			share := distuv.UnitNormal.CDF(distuv.UnitNormal.Quantile(was) + shift)
			expected += x.weight * (share - was)
			variance += x.weight * share * (1 - share)
		}
		// Among the requests of c the pair stands out by this, so it has to among the other label's.
		other := p.a
		if other == c.a {
			other = p.b
		}
		if expected-rest.gain <= sure*math.Sqrt(variance) || !p.withinLabel(other) {
			continue
		}
		p.change, _, _ = p.from.split(p, nil)
		p.p = c.p
		return p
	}
	return nil
}

// smooth returns a share of n requests that is neither 0 nor 1.
func smooth(share, n float64) float64 { return (share*n + 0.5) / (n + 1) }

// withinLabel reports whether a pair stands out among the requests of one of its labels.
func (c *suspect) withinLabel(n int32) bool {
	_, ok := c.from.stands(c, &suspect{a: n, b: -1}, 1, levelWithin)
	return ok
}

// remove leaves out the requests of a cause. A table that does not have one of its labels
// leaves out as much of each row as the cause has of all requests like it.
func remove(parts []*strata, c *suspect) {
	without := func(s *strata, row int) string {
		out := []byte{}
		for k, name := range s.names {
			if name != series.LabelTenant && !besideTenant(name) {
				out = append(out, key(s.values[row][k:k+1])...)
			}
		}
		return string(out)
	}
	like := map[string]*change{}
	now := map[string]float64{}
	for row := range c.from.rows {
		if !c.from.explained[row] && c.from.has(row, c) {
			k := without(c.from, row)
			if like[k] == nil {
				like[k] = &change{}
			}
			like[k].add(&c.from.rows[row], 1)
			c.from.explained[row] = true
		}
	}
	for _, s := range parts {
		if s == c.from {
			continue
		}
		own := true
		for _, n := range []int32{c.a, c.b} {
			own = own && (n < 0 || slices.Contains(s.names, s.v.list[n].Name))
		}
		if own {
			for row := range s.rows {
				if s.has(row, c) {
					s.explained[row] = true
				}
			}
			continue
		}
		for row := range s.rows {
			if !s.explained[row] {
				now[without(s, row)] += s.list[s.of[row]].now
			}
		}
		for row := range s.rows {
			k := without(s, row)
			if x := like[k]; x != nil && !s.explained[row] && now[k] > 0 {
				factor := s.list[s.of[row]].now / now[k]
				noise := max(0, s.rows[row].noise-factor*x.noise)
				s.rows[row].add(x, -factor)
				s.rows[row].noise = noise
			}
		}
	}
}

// shares returns the shares of a candidate's requests that lie inside now and did before,
// like for like, and the weight of their difference.
func (s *strata) shares(c *suspect) (now, before, weight float64) {
	seen := make([]bool, len(s.list))
	in := 0.0
	for row, at := range s.of {
		x := &s.list[at]
		if s.explained[row] || x.weight == 0 {
			continue
		}
		if s.has(row, c) {
			in += x.weight / x.now * s.inside[row]
		}
		if !seen[at] && s.hasBut(row, c) {
			seen[at] = true
			weight += x.weight
		}
	}
	now = in / weight
	if before = now - c.gain/weight; math.Abs(before) < 1e-9*now { // what rounding leaves of 0
		before = 0
	}
	return now, before, weight
}

// hasBut reports whether a row has the candidate's labels, whatever its status.
func (s *strata) hasBut(row int, c *suspect) bool {
	for _, n := range []int32{c.a, c.b} {
		if n >= 0 && s.v.list[n].Name != series.LabelStatus && !slices.Contains(s.values[row], n) {
			return false
		}
	}
	return true
}

// isSuccess reports whether a candidate is of requests that did not fail, where nearly all did
// not: what they do beyond the few that did is what all do.
func (q *question) isSuccess(c *suspect) bool {
	const nearly = 0.9
	s := c.from
	if !q.span || !slices.ContainsFunc([]int32{c.a, c.b}, func(n int32) bool {
		return n >= 0 && s.v.list[n].Name == series.LabelStatus && s.v.list[n].Value != series.StatusError
	}) {
		return false
	}
	of, all := 0.0, 0.0
	for row := range s.of {
		if s.hasBut(row, c) {
			n := sum(s.table.rows[row].all[:s.window])
			if all += n; s.has(row, c) {
				of += n
			}
		}
	}
	return of >= nearly*all
}

// isOutcome reports whether a candidate with a status gained what the same requests of other
// status lost: as slow as before, more of them failed, or fewer.
func (c *suspect) isOutcome() bool {
	const (
		part = 0.5 // of its gain, which is left if all of status are taken together
		sure = 3   // standard errors
	)
	s := c.from
	if !slices.ContainsFunc([]int32{c.a, c.b}, func(n int32) bool { return n >= 0 && s.v.list[n].Name == series.LabelStatus }) {
		return false
	}
	var all change
	for row := range s.of {
		if !s.explained[row] && s.hasBut(row, c) {
			all.gain, all.noise = all.gain+s.rows[row].gain, all.noise+s.rows[row].noise
		}
	}
	return all.gain < part*c.gain || all.gain < sure*math.Sqrt(all.noise)
}

// name lists a cause.
func (x *causes) name(c *suspect, all float64) {
	s := c.from
	now, before, weight := s.shares(c)
	var share change
	share.add(&c.change, 1/weight)
	share.noise = c.noise / sq(weight)
	e := s.test(&share)
	in, n := 0.0, 0.0
	for row := range s.rows {
		if !s.explained[row] && s.has(row, c) {
			in += s.inside[row]
			n += sum(s.table.rows[row].all[:s.window])
		}
	}
	out := api.ExplainItem{
		Labels: x.v.labels(c.a, c.b), Inside: x.counted(in), Outside: x.counted(max(0, n-in)), InsideShare: api.Float(now), OutsideShare: api.Float(max(0, before)),
		Effect: api.Float(e.size), EffLow: api.Float(e.low), EffHigh: api.Float(e.high), Lift: api.Float(math.NaN()), Adjusted: api.Float(c.p),
		RestUnknown: c.restUnknown, When: s.when(c),
	}
	if before > 0 {
		out.Lift = api.Float(now / before)
	}
	if all > 0 {
		out.Part = api.Float(c.gain / all)
	}
	x.items = append(x.items, out)
}

// when returns the part of the rectangle's time that holds nearly all of a cause's increase,
// nil if there is none that is surely shorter.
func (s *strata) when(c *suspect) *api.ExplainWhen {
	const (
		nearly  = 0.8
		longest = 0.75 // of the rectangle's slots
		sure    = 4    // standard errors
	)
	more, in, all := make([]float64, s.window), make([]float64, s.window), make([]float64, s.window)
	seen := make([]bool, len(s.list))
	for row, at := range s.of {
		x := &s.list[at]
		if s.explained[row] || x.weight == 0 {
			continue
		}
		if s.has(row, c) {
			for t := range more {
				more[t] += s.rows[row].influence[t] + s.rows[row].gain*x.n[t]/x.now
				in[t] += s.table.rows[row].in[t]
			}
		}
		if !seen[at] && s.hasBut(row, c) {
			seen[at] = true
			for t := range all {
				all[t] += x.n[t]
			}
		}
	}
	from, to := stretchOf(more)
	k, rest := float64(to-from), float64(s.window-(to-from))
	if s.window < fewestSlots || k > longest*float64(s.window) || sum(more[from:to]) < nearly*sum(more) {
		return nil
	}
	between := sum(more[from:to])/k - (sum(more)-sum(more[from:to]))/rest
	variance := 0.0
	for _, v := range aboutStretch(more) {
		variance += sq(v) / (k + rest - 2)
	}
	if between < sure*math.Sqrt(variance*(1/k+1/rest)) {
		return nil
	}
	return &api.ExplainWhen{Start: s.slots[from].start, End: s.slots[to-1].end, Share: api.Float(sum(in[from:to]) / sum(all[from:to]))}
}

// requestsOf returns the requests of a candidate now that no cause holds, whatever their status.
func (s *strata) requestsOf(c *suspect) (n float64) {
	seen := make([]bool, len(s.list))
	for row, at := range s.of {
		if !seen[at] && !s.explained[row] && s.hasBut(row, c) {
			seen[at] = true
			n += s.list[at].now
		}
	}
	return n
}

// arrange puts the cause of most of the increase first, and writes the sentences.
func (x *causes) arrange() {
	slices.SortStableFunc(x.items, func(a, b api.ExplainItem) int { return cmp.Compare(b.Part, a.Part) })
	for i := range x.items {
		x.items[i].Sentence = x.sentence(i)
	}
	x.told = x.headline()
	x.items = x.items[:min(len(x.items), x.Limit)]
}
