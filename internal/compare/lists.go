package compare

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/stat"
)

// mostTenants bounds the tenants that are judged, those with the most requests; each has
// leastTenant requests on both sides, of whose median enough are then beyond it.
const (
	mostTenants = 200
	leastTenant = 2 * sureBeyond
)

// row is an operation or a tenant: what it is called, and what there is of it.
type row struct {
	api  api.CompareRow
	of   string
	raw  *strata // all of it together; one
	like *strata // what it is made of, at a common mix; nil if it is one thing
}

// measuresOfRow are the measures that rows are judged by: OfRows; without it of those that
// were asked for p50, p95, p99 and errors, or all of them where none of the four is.
func (c *comparison) measuresOfRow() []measure {
	asked := c.asked()
	if c.kind == ofNumbers {
		return asked
	}
	few := slices.DeleteFunc(slices.Clone(asked), func(m measure) bool {
		if len(c.OfRows) > 0 {
			return !slices.Contains(c.OfRows, m.Name)
		}
		return m.q != 0.5 && m.q != 0.95 && m.q != 0.99 && m.Name != judge.ErrorShare
	})
	if len(few) == 0 {
		few = asked
	}
	return slices.DeleteFunc(few, func(m measure) bool { return m.Name == judge.Rate })
}

// labelRows lists the series of numbers that have labels of their own.
func (c *comparison) labelRows(each []*strata, names []operation) error {
	if len(c.by) == 0 {
		return nil
	}
	var kept []int
	for i, name := range names[:min(len(names), mostStrata)] {
		if name.operation != "" && sum(each[i].valuesA[0].Den) > 0 && sum(each[i].valuesB[0].Den) > 0 {
			kept = append(kept, i)
		}
	}
	return c.list(&c.out.Operations, len(kept), func(i int) (row, error) {
		name := names[kept[i]]
		return row{api: rowOf(c.a, c.b, name), of: c.of + " where " + name.operation, raw: each[kept[i]]}, nil
	})
}

// sameAs reports whether two strata are of the same operation of a service.
func (o operation) sameAs(p operation) bool {
	return o.service == p.service && o.operation == p.operation
}

// operations lists the operations that are strata of their own, each with its
// environments and tenants in the same shares on both sides.
func (c *comparison) operations(s *strata) error {
	if c.kind == ofObservations && len(c.by) == 0 {
		return nil
	}
	var kept []int // of several environments the first stands for all
	for i, name := range s.single {
		known := slices.ContainsFunc(kept, func(k int) bool { return s.single[k].sameAs(name) })
		if pooled := c.a.strata[name] == nil && c.b.strata[name] == nil; !known && !pooled {
			kept = append(kept, i)
		}
	}
	return c.list(&c.out.Operations, len(kept), func(i int) (r row, err error) {
		name := s.single[kept[i]]
		if c.hasEnvironments(name.service) {
			if r, err = c.rowOfAll(c.a.only(name.sameAs), c.b.only(name.sameAs), cmp.Or(name.operation, name.service)); err != nil {
				return r, err
			}
			r.api.Service, r.api.Operation = name.service, name.operation
		} else {
			r = row{api: rowOf(c.a, c.b, name), of: cmp.Or(name.operation, name.service), raw: s.only(kept[i])}
		}
		if c.fineA != c.a {
			r.like, err = c.alike(c.fineA.only(name.sameAs), c.fineB.only(name.sameAs))
		}
		return r, err
	})
}

// alike cuts two parts of the sides into strata at a common mix; nil if they are one
// stratum, or if no stratum is on both sides.
func (c *comparison) alike(a, b *side) (*strata, error) {
	s, err := c.strata(a, b)
	if err != nil || len(s.a) < 2 && !s.apart {
		return nil, err
	}
	return s, nil
}

// only returns the strata of a side that are wanted. They are shared with s.
func (s *side) only(wanted func(operation) bool) *side {
	out := *s
	out.strata = map[operation]*stratum{}
	for name, x := range s.strata {
		if wanted(name) {
			out.strata[name] = x
		}
	}
	return &out
}

// rowOf returns the row of strata, before its measures are judged.
func rowOf(a, b *side, names ...operation) api.CompareRow {
	out := api.CompareRow{MeanA: api.Float(a.mean(names)), MeanB: api.Float(b.mean(names))}
	for _, name := range names {
		out.Service, out.Operation = name.service, name.operation
	}
	of := func(s *side) (requests, effective uint64) {
		m := s.seen(names...)
		return m.Count, query.Effective(m)
	}
	out.RequestsA, out.EffectiveA = of(a)
	out.RequestsB, out.EffectiveB = of(b)
	return out
}

// mean returns the mean of all observations of strata; NaN if there are none, or if
// they are of numbers.
func (s *side) mean(names []operation) float64 {
	n, total := uint64(0), 0.0
	for _, name := range names {
		x := s.strata[name]
		if x == nil {
			continue
		}
		for _, cells := range [][]*hist.Histogram{x.good, x.failed} {
			for _, h := range cells {
				if h != nil {
					n, total = n+h.Count, total+h.Sum
				}
			}
		}
	}
	return total / float64(n) // 0/0 is NaN
}

// list judges n rows beside each other; rowAt returns one of them.
func (c *comparison) list(to *[]api.CompareRow, n int, rowAt func(i int) (row, error)) error {
	rows := make([]api.CompareRow, n)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range rows {
		g.Go(func() error {
			r, err := rowAt(i)
			if err == nil {
				r.api.Measures, err = c.rowMeasures(&r)
			}
			rows[i] = r.api
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	*to = c.ranked(rows)
	return nil
}

func (c *comparison) rowMeasures(r *row) ([]api.CompareMeasure, error) {
	var out []api.CompareMeasure
	for _, m := range c.measuresOfRow() {
		measure, _, err := c.judged(m, r.raw, r.like, orNone(r.of))
		if err != nil {
			return nil, err
		}
		out = append(out, measure)
	}
	return out, nil
}

// ranked adjusts the probabilities of all measures of all rows, and puts those
// first that changed the most.
func (c *comparison) ranked(rows []api.CompareRow) []api.CompareRow {
	var all []*api.CompareMeasure
	for i := range rows {
		for j := range rows[i].Measures {
			all = append(all, &rows[i].Measures[j])
		}
	}
	p := func(m *api.CompareMeasure) float64 {
		if m.Name == judge.ErrorShare && m.Raw.A == 0 && m.Raw.B == 0 {
			return math.NaN() // nothing failed, and nothing was tested
		}
		return float64(m.Judged().P)
	}
	judge.Adjust(all, p, func(m *api.CompareMeasure, p float64) { m.Adjusted = api.Float(p) })
	rows = judge.Ranked(rows, func(r *api.CompareRow) judge.Rank {
		size := 0.0
		r.Adjusted = api.Float(math.NaN())
		for i := range r.Measures {
			m := &r.Measures[i]
			if !(r.Adjusted <= m.Adjusted) && !math.IsNaN(float64(m.Adjusted)) {
				r.Adjusted = m.Adjusted
			}
			if judge.Moved(m.Verdict) && m.Adjusted <= discovery {
				r.Changed = true
				size = max(size, c.sizeOf(m))
			}
		}
		return judge.Rank{Changed: r.Changed, Size: size, P: orOne(r.Adjusted)}
	})
	return rows
}

// sizeOf is how large a change seems, so that changes of times and of errors can be put in
// order: in margins of sameness, or the effect itself of what has none.
func (c *comparison) sizeOf(m *api.CompareMeasure) float64 {
	if seems, _ := margins(m, c.Within); seems > 0 {
		return seems
	}
	return math.Abs(effectOf(m))
}

func orOne(p api.Float) float64 {
	if math.IsNaN(float64(p)) {
		return 1
	}
	return float64(p)
}

// tenants lists tenants, each with its operations in the same shares on both sides,
// where they can be told apart: not beside instances.
func (c *comparison) tenants(ctx context.Context) error {
	chosen := c.heaviest()
	if !c.RowsApart {
		if err := c.light(ctx); err != nil {
			return err
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	longer := c.longer(len(c.a.strata) * len(chosen))
	each := max(1, len(c.a.strata)*(c.a.in(longer).side(longer).slots()+c.b.in(longer).side(longer).slots()))
	chosen = chosen[:min(len(chosen), max(ownTenants, manyPoints/each))]
	sides, err := c.ofTenants(ctx, chosen, longer)
	if sides == nil || err != nil {
		return err
	}
	var shares map[string]float64
	if slices.Contains(c.Include, IncludeCohorts) {
		shares = c.tenantShares()
	}
	return c.list(&c.out.Tenants, len(chosen), func(i int) (row, error) {
		of := func(o operation) bool { return o.tenant == chosen[i] }
		r, err := c.rowOfAll(sides[0].only(of), sides[1].only(of), c.of+" for "+chosen[i])
		if r.api.Tenant = chosen[i]; shares != nil {
			r.api.Cohort = c.cohortOf(chosen[i], shares[chosen[i]])
		}
		return r, err
	})
}

// light judges the tenants with too few requests to be in the list, together, each with its
// operations in the same shares. Where they are too many to be read it does not.
func (c *comparison) light(ctx context.Context) error {
	var light []string
	for name, n := range c.tenantCounts[0] {
		other := c.tenantCounts[1][name]
		if known := name != "" && name != series.Other; known && other.Count > 0 && min(n.Effective(), other.Effective()) < leastTenant {
			light = append(light, name)
		}
	}
	longer := c.longer(len(c.a.strata) * len(light))
	if points := len(light) * len(c.a.strata) * (c.a.in(longer).side(longer).slots() + c.b.in(longer).side(longer).slots()); points == 0 || points > manyPoints {
		return nil
	}
	slices.Sort(light)
	sides, err := c.ofTenants(ctx, light, longer)
	if sides == nil || err != nil || min(sides[0].effective(), sides[1].effective()) < leastTenant {
		return err
	}
	return c.list(&c.lightRows, 1, func(int) (row, error) {
		r, err := c.rowOfAll(sides[0], sides[1], "")
		r.api.Tenants = len(light)
		r.of = c.titleOf(&r.api)
		return r, err
	})
}

// lightTenants names the row of tenants that are judged together.
func lightTenants(r *api.CompareRow) string {
	return figure.Counted(r.Tenants, "light tenant") + " together"
}

// nameLight answers what was found of the tenants that are judged together.
func (c *comparison) nameLight() {
	if len(c.lightRows) == 0 {
		return
	}
	r := &c.lightRows[0]
	c.out.Light = &api.CompareLight{CompareRow: *r, Sentence: "no evidence that " + c.of + " " + judge.Differs(c.nameSides()) + " for " + lightTenants(r)}
	if lead := Lead(r.Measures, c.found, c.Within); lead != nil {
		c.out.Light.Sentence = lead.Sentence
	}
}

// ofTenants reads some tenants, each by itself, in slots of a length; nil if what is kept of
// them became less meanwhile.
func (c *comparison) ofTenants(ctx context.Context, names []string, step int64) (*[2]*side, error) {
	tenant, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(names...))
	if err != nil {
		return nil, err
	}
	var sides [2]*side
	g, ctx := errgroup.WithContext(ctx)
	for i, of := range []*side{c.a, c.b} {
		g.Go(func() (err error) {
			sides[i], err = c.gather(ctx, of.in(step), step, append(c.strataBy(), series.LabelTenant), c.operationOfTenant, append(c.only(i), tenant)...)
			return err
		})
	}
	if err := g.Wait(); err != nil || !sides[0].gathered(step) || !sides[1].gathered(step) {
		return nil, err
	}
	return &sides, nil
}

// rowOfAll returns the row of all strata of two parts of the sides.
func (c *comparison) rowOfAll(a, b *side, of string) (row, error) {
	names := namesOf(a, b)
	r := row{api: rowOf(a, b, names...), of: of}
	r.api.Service, r.api.Operation = "", ""
	ca, err := c.column(a, names)
	if err != nil {
		return r, err
	}
	cb, err := c.column(b, names)
	if err != nil {
		return r, err
	}
	r.raw = &strata{
		a: stat.Side{ca.series}, b: stat.Side{cb.series}, errorsA: []stat.Tally{ca.errors}, errorsB: []stat.Tally{cb.errors},
		apdexA: []stat.Tally{ca.apdex}, apdexB: []stat.Tally{cb.apdex},
	}
	r.like, err = c.alike(a, b)
	return r, err
}

// cohortRows lists the cohorts with enough requests on both sides, each with its
// operations and tenants in the same shares, if they are asked for. It reads nothing more:
// the strata that are compared like for like have their cohorts.
func (c *comparison) cohortRows() error {
	if !slices.Contains(c.Include, IncludeCohorts) || c.fineA == c.a {
		return nil
	}
	in := func(s *side, cohort string) *side {
		return s.only(func(o operation) bool { return o.cohort == cohort })
	}
	var chosen []string
	for _, cohort := range cohortNames {
		if min(in(c.fineA, cohort).effective(), in(c.fineB, cohort).effective()) >= rare {
			chosen = append(chosen, cohort)
		}
	}
	counts := c.countCohorts()
	defer func() { c.nameAlone(c.out.Cohorts) }()
	return c.list(&c.out.Cohorts, len(chosen), func(i int) (row, error) {
		r, err := c.rowOfAll(in(c.fineA, chosen[i]), in(c.fineB, chosen[i]), c.of+" for "+chosen[i]+" tenants")
		r.api.Cohort, r.api.Tenants = chosen[i], counts[chosen[i]]
		return r, err
	})
}

// countCohorts returns how many tenants with requests on both sides each cohort has; 0 where
// some of them are not told apart.
func (c *comparison) countCohorts() map[string]int {
	out, unknown := map[string]int{}, ""
	for name, share := range c.tenantShares() {
		a, b := c.tenantCounts[0][name], c.tenantCounts[1][name]
		switch cohort := c.cohortOf(name, share); {
		case name == "" || name == series.Other:
			unknown = cohort
		case a.Count > 0 && b.Count > 0:
			out[cohort]++
		}
	}
	delete(out, unknown)
	return out
}

// heaviest are the tenants that have enough requests on both sides.
func (c *comparison) heaviest() []string {
	counts := c.tenantCounts
	var names []string
	for name, n := range counts[0] {
		if other := counts[1][name]; name != "" && name != series.Other && min(n.Effective(), other.Effective()) >= leastTenant {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[0][y].Count+counts[1][y].Count, counts[0][x].Count+counts[1][x].Count), cmp.Compare(x, y))
	})
	return names[:min(len(names), mostTenants)]
}
