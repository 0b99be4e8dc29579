package explain

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/series"
	"tailscope/stat"
)

const (
	// worthLabel and worthPair are the least scores that are examined; mostTried bounds
	// how many labels, and how many pairs, are. Others count as tried without a finding.
	worthLabel = 1.5
	worthPair  = 2
	mostTried  = 200
)

// candidate is a label's value, or a pair of them: numbers of values.
type candidate struct {
	a, b    int32 // b is -1 for a label
	in, all float64
	from    *table
	counts  counts
	effect
	adjusted float64
	score    float64
}

// values numbers the labels' values.
type values struct {
	number map[labels.Label]int32
	list   []labels.Label
}

func (v *values) numberOf(l labels.Label) int32 {
	n, ok := v.number[l]
	if !ok {
		n = int32(len(v.list))
		v.number[l], v.list = n, append(v.list, l)
	}
	return n
}

// judge fills in what is over-represented.
func (q *question) judge(main, tenants *table, total counts) {
	main.drop(total)
	if tenants != nil && tenants != main {
		tenants.drop(total)
	}
	total = main.total()
	if main.window < fewestSlots && main.rest < fewestSlots {
		q.note("fewer than %d slots with %s are too few to tell how much shares vary: widen the range", fewestSlots, q.what)
		return
	}
	if main.window < fewestSlots {
		q.note("the rectangle's time has %s with %s, too few to tell how much shares vary there: that is taken from the rest of the range", figure.Counted(main.window, "slot"), q.what)
	}
	q.judged = true
	v := &values{number: map[labels.Label]int32{}}
	wi, wo := total.inside(), total.outside()

	singles, pairs := q.candidates(v, main, tenants)
	q.out.LabelsTried = len(singles)
	byValue := map[int32]*candidate{}
	for i := range singles {
		c := &singles[i]
		c.score = score(wi, wo, c.in, c.all-c.in)
		byValue[c.a] = c
	}
	q.absent(v, singles, wi, wo)
	tried := selectBest(singles, worthLabel)
	fillCounts(tried)
	for _, c := range tried {
		c.effect = compare(&total, &c.counts)
	}
	found := discoveries(tried, len(singles))
	q.perhaps(v, tried)

	q.out.PairsTried = len(pairs)
	for i := range pairs {
		c := &pairs[i]
		// A pair has to be over-represented within each of its labels too, or it adds
		// nothing to them.
		c.score = score(wi, wo, c.in, c.all-c.in)
		for _, of := range []int32{c.a, c.b} {
			if w := byValue[of]; w == nil || !(score(w.in, w.all-w.in, c.in, c.all-c.in) >= worthLabel) {
				c.score = 0
			}
		}
	}
	tried = selectBest(pairs, worthPair)
	fillCounts(tried)
	within := map[int32]*candidate{}
	var of []*candidate
	for _, c := range tried {
		for _, n := range []int32{c.a, c.b} {
			if within[n] == nil {
				within[n] = byValue[n]
				if byValue[n].counts.all == nil {
					of = append(of, byValue[n])
				}
			}
		}
	}
	fillCounts(of)
	for _, c := range tried {
		c.effect = compare(&total, &c.counts)
		for _, n := range []int32{c.a, c.b} {
			e := compare(&within[n].counts, &c.counts)
			if !e.ok || !(e.size > 0) {
				e.p = 1
			}
			c.p = max(c.p, e.p) // both must hold (Berger 1982, Technometrics 24)
		}
	}
	found = append(found, discoveries(tried, len(pairs))...)
	slices.SortFunc(found, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(y.low, x.low), cmp.Compare(y.size, x.size), cmp.Compare(x.b, y.b), cmp.Compare(x.a, y.a))
	})
	for _, c := range found[:min(len(found), q.Limit)] {
		q.out.Items = append(q.out.Items, q.item(v, c, found, total))
	}
	if len(found) > 0 {
		q.out.Sentence = q.out.Items[0].Sentence
	}
	if len(found) > q.Limit {
		q.note("%d more are over-represented: raise limit to see them", len(found)-q.Limit)
	}
}

// candidates returns all labels' values and pairs with enough observations. Those with
// tenants come from the table that has them.
func (q *question) candidates(v *values, main, tenants *table) (singles, pairs []candidate) {
	type sums struct{ in, all float64 }
	tables := []*table{main}
	if tenants != nil && tenants != main {
		tables = append(tables, tenants)
	}
	whole := 0.0
	for _, r := range main.rows {
		whole += sum(r.all)
	}
	for i, t := range tables {
		names := t.names(q.Labels)
		all := map[int32]*sums{}
		both := map[[2]int32]*sums{}
		for r, row := range t.rows {
			in, n := sum(row.in), sum(row.all)
			numbers, tenant := make([]int32, 0, len(names)), -1
			for k, name := range names {
				if name == series.LabelTenant {
					tenant = k
				}
				numbers = append(numbers, v.numberOf(labels.Label{Name: name, Value: t.labels[r].Get(name)}))
			}
			for k, x := range numbers {
				if i > 0 && k != tenant {
					continue // the first table has them
				}
				if all[x] == nil {
					all[x] = &sums{}
				}
				all[x].in, all[x].all = all[x].in+in, all[x].all+n
			}
			if t.values = append(t.values, numbers); q.Alone {
				continue
			}
			for k, x := range numbers {
				for l := k + 1; l < len(numbers); l++ {
					if i > 0 && k != tenant && l != tenant {
						continue
					}
					p := [2]int32{x, numbers[l]}
					if both[p] == nil {
						both[p] = &sums{}
					}
					both[p].in, both[p].all = both[p].in+in, both[p].all+n
				}
			}
		}
		for x, s := range all {
			if s.all >= fewest && s.all < whole {
				singles = append(singles, candidate{a: x, b: -1, in: s.in, all: s.all, from: t})
			}
		}
		for p, s := range both {
			if s.all >= fewest && s.all < whole {
				pairs = append(pairs, candidate{a: p[0], b: p[1], in: s.in, all: s.all, from: t})
			}
		}
	}
	order := func(x, y candidate) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) }
	slices.SortFunc(singles, order)
	slices.SortFunc(pairs, order)
	return singles, pairs
}

// names returns the labels whose values differ, sorted; with only, those among it.
func (t *table) names(only []string) []string {
	first := map[string]string{}
	rows := map[string]int{}
	differs := map[string]bool{}
	for _, l := range t.labels {
		l.Range(func(x labels.Label) {
			if rows[x.Name]++; rows[x.Name] == 1 {
				first[x.Name] = x.Value
			} else if first[x.Name] != x.Value {
				differs[x.Name] = true
			}
		})
	}
	var out []string
	for name, n := range rows {
		if (differs[name] || n < len(t.labels)) && (len(only) == 0 || slices.Contains(only, name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// selectBest returns the candidates with a sufficient score and enough observations inside.
func selectBest(all []candidate, worth float64) []*candidate {
	var out []*candidate
	for i := range all {
		if c := &all[i]; c.in >= fewest && c.score >= worth {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(x, y *candidate) int { return cmp.Compare(y.score, x.score) })
	return out[:min(len(out), mostTried)]
}

// fillCounts adds up the counts of candidates by slot.
func fillCounts(of []*candidate) {
	for _, c := range of {
		c.counts = c.from.empty()
		for i, row := range c.from.rows {
			if n := c.from.values[i]; slices.Contains(n, c.a) && (c.b < 0 || slices.Contains(n, c.b)) {
				c.counts.add(row, 1)
			}
		}
	}
}

// discoveries returns the over-represented ones at the false discovery rate, among
// looked candidates.
func discoveries(tried []*candidate, looked int) (out []*candidate) {
	p := make([]float64, looked)
	for i := range p {
		p[i] = 1
	}
	for i, c := range tried {
		if c.ok && c.size > 0 {
			p[i] = c.p
		}
	}
	adjusted := stat.BenjaminiHochberg(p)
	for i, c := range tried {
		if c.adjusted = adjusted[i]; c.adjusted <= discovery && c.low > 0 {
			out = append(out, c)
		}
	}
	return out
}

func (q *question) item(v *values, c *candidate, found []*candidate, total counts) api.ExplainItem {
	in, all := c.counts.inside(), sum(c.counts.all)
	out := api.ExplainItem{
		Labels: v.labels(c.a, c.b), Inside: q.counted(in), Outside: q.counted(all - in), InsideShare: api.Float(c.effect.in),
		OutsideShare: api.Float(c.effect.out), Effect: api.Float(c.size), EffLow: api.Float(c.low), EffHigh: api.Float(c.high),
		Lift: api.Float(math.NaN()), Adjusted: api.Float(c.adjusted),
	}
	if c.effect.out > 0 {
		out.Lift = api.Float(c.effect.in / c.effect.out)
	}
	if c.b < 0 {
		// Find the pair that accounts for it: without that pair, it is not
		// over-represented any more.
		for _, p := range found {
			if p.b < 0 || p.a != c.a && p.b != c.a {
				continue
			}
			rest := counts{slices.Clone(c.counts.in), slices.Clone(c.counts.all)}
			rest.add(p.counts, -1)
			if e := compare(&total, &rest); !(e.size > 0 && e.p <= discovery) {
				out.Through = v.labels(p.a, p.b)
				break
			}
		}
	}
	out.Sentence = q.sentence(v, c, &out)
	return out
}

// labels returns the values of numbers; −1 is none.
func (v *values) labels(numbers ...int32) api.Labels {
	out := api.Labels{}
	for _, n := range numbers {
		if n >= 0 {
			out[v.list[n].Name] = v.list[n].Value
		}
	}
	return out
}
