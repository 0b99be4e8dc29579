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
	"tailscope/internal/judge"
	"tailscope/internal/series"
	"tailscope/stat"
)

// mostTenants bounds the tenants that are judged, those with the most requests.
const mostTenants = 200

// rowMeasures are those of a row, all raw: a row is one stratum.
func (c *comparison) measuresOfRow() []measure {
	if c.kind == ofNumbers {
		return c.measuresOf()
	}
	return slices.DeleteFunc(slices.Clone(c.measuresOf()), func(m measure) bool { return m.q != 0.5 && m.q != 0.95 && m.q != 0.99 })
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
	return c.list(&c.out.Operations, len(kept), func(i int) (api.CompareRow, *strata, string, error) {
		name := names[kept[i]]
		row := rowOf(c.a, c.b, name)
		return row, each[kept[i]], c.of + " where " + name.operation, nil
	})
}

// operations lists the operations that are strata of their own.
func (c *comparison) operations(s *strata) error {
	if c.kind == ofObservations && len(c.by) == 0 {
		return nil
	}
	return c.list(&c.out.Operations, len(s.single), func(i int) (api.CompareRow, *strata, string, error) {
		name := s.single[i]
		row := rowOf(c.a, c.b, name)
		if name.operation == "" {
			return row, s.only(i), name.service, nil
		}
		return row, s.only(i), name.operation, nil
	})
}

// rowOf is the row of a stratum, before its measures are judged.
func rowOf(a, b *side, name operation) api.CompareRow {
	return api.CompareRow{
		Service: name.service, Operation: name.operation, RequestsA: a.requestsOf(name), RequestsB: b.requestsOf(name),
		MeanA: api.Float(a.strata[name].mean()), MeanB: api.Float(b.strata[name].mean()),
	}
}

// mean is that of all observations; NaN if there are none, or of numbers.
func (x *stratum) mean() float64 {
	if x == nil {
		return math.NaN()
	}
	n, total := uint64(0), 0.0
	for _, cells := range [][]*hist.Histogram{x.good, x.failed} {
		for _, h := range cells {
			if h != nil {
				n, total = n+h.Count, total+h.Sum
			}
		}
	}
	return total / float64(n) // 0/0 is NaN
}

// list judges n rows beside each other: row says whose a row is, what there is
// of it, and what it is called.
func (c *comparison) list(to *[]api.CompareRow, n int, row func(i int) (api.CompareRow, *strata, string, error)) error {
	rows := make([]api.CompareRow, n)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range rows {
		g.Go(func() error {
			r, s, of, err := row(i)
			if err == nil {
				r.Measures, err = c.rowMeasures(s, of)
			}
			rows[i] = r
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	*to = c.ranked(rows)
	return nil
}

func (c *comparison) rowMeasures(s *strata, of string) ([]api.CompareMeasure, error) {
	var out []api.CompareMeasure
	for _, m := range c.measuresOfRow() {
		m = m.over(s)
		x, err := m.change(s, nil, c.opts)
		if err != nil {
			return nil, err
		}
		f := c.figure(m, x)
		out = append(out, api.CompareMeasure{Name: m.Name, Scale: scaleName(m.scale()), Raw: f, Verdict: f.Verdict, Change: m.Way(f.Verdict), Sentence: c.finding(m, orNone(of), &f).Sentence()})
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
	judge.Adjust(all, func(m *api.CompareMeasure) float64 { return float64(m.Raw.P) }, func(m *api.CompareMeasure, p float64) { m.Adjusted = api.Float(p) })
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
				of := float64(m.Raw.Effect)
				if m.Scale == scaleName(stat.LogRatio) {
					of = math.Log(of)
				}
				size = max(size, math.Abs(of))
			}
		}
		return judge.Rank{Changed: r.Changed, Size: size, P: orOne(r.Adjusted)}
	})
	return append([]api.CompareRow{}, rows[:min(len(rows), c.Limit)]...)
}

func orOne(p api.Float) float64 {
	if math.IsNaN(float64(p)) {
		return 1
	}
	return float64(p)
}

// tenants lists tenants, where they can be told apart: not beside instances.
func (c *comparison) tenants(ctx context.Context) error {
	chosen := c.heaviest()
	if len(chosen) == 0 {
		return nil
	}
	tenant, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(chosen...))
	if err != nil {
		return err
	}
	longer := c.longer(len(c.a.strata) * len(chosen))
	var sides [2]*side
	g, ctx := errgroup.WithContext(ctx)
	for i, of := range []*side{c.a, c.b} {
		g.Go(func() (err error) {
			nameOf := func(l labels.Labels) operation { return operation{operation: l.Get(series.LabelTenant)} }
			sides[i], err = c.gather(ctx, of.in(longer), longer, []string{series.LabelTenant}, nameOf, append(c.only(i), tenant)...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if !sides[0].gathered(longer) || !sides[1].gathered(longer) {
		return nil // it expired meanwhile
	}
	return c.list(&c.out.Tenants, len(chosen), func(i int) (row api.CompareRow, s *strata, of string, err error) {
		key := []operation{{operation: chosen[i]}}
		a, err := c.column(sides[0], key)
		if err != nil {
			return row, nil, "", err
		}
		b, err := c.column(sides[1], key)
		row = rowOf(sides[0], sides[1], key[0])
		row.Operation, row.Tenant = "", chosen[i]
		return row, &strata{a: stat.Side{a.series}, b: stat.Side{b.series}}, chosen[i], err
	})
}

// heaviest are the tenants that have enough requests on both sides.
func (c *comparison) heaviest() []string {
	counts := c.tenantCounts
	var names []string
	for name, n := range counts[0] {
		if name != "" && name != series.Other && min(n, counts[1][name]) >= rare {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[0][y]+counts[1][y], counts[0][x]+counts[1][x]), cmp.Compare(x, y))
	})
	return names[:min(len(names), mostTenants)]
}
