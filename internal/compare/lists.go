package compare

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/stat"
)

// mostTenants bounds the tenants that are judged, those with the most requests.
const mostTenants = 200

// rowMeasures are those of a row, all raw: a row is one stratum.
var rowMeasures = []measure{quantileMeasure("p50", 0.5), quantileMeasure("p95", 0.95), quantileMeasure("p99", 0.99)}

// operations lists the operations that are strata of their own.
func (c *comparison) operations(s *strata) error {
	var rows []api.CompareRow
	for i, name := range s.single {
		row := api.CompareRow{Service: name.service, Operation: name.operation, RequestsA: c.a.requestsOf(name), RequestsB: c.b.requestsOf(name)}
		of := name.operation
		if of == "" {
			of = name.service
		}
		var err error
		if row.Measures, err = c.rowMeasures(s.only(i), of); err != nil {
			return err
		}
		rows = append(rows, row)
	}
	c.out.Operations = c.ranked(rows)
	return nil
}

func (c *comparison) rowMeasures(s *strata, of string) ([]api.CompareMeasure, error) {
	var out []api.CompareMeasure
	for _, m := range rowMeasures {
		x, err := m.change(s, nil, c.opts)
		if err != nil {
			return nil, err
		}
		f := c.figure(m, x)
		out = append(out, api.CompareMeasure{Name: m.name, Scale: scaleName(m.scale), Raw: f, Verdict: f.Verdict, Change: m.direction(f.Verdict), Sentence: c.sentence(m, orNone(of), &f)})
	}
	return out, nil
}

// ranked adjusts the probabilities of all measures of all rows, and puts those
// first that changed the most.
func (c *comparison) ranked(rows []api.CompareRow) []api.CompareRow {
	var p []float64
	for _, r := range rows {
		for _, m := range r.Measures {
			p = append(p, float64(m.Raw.P))
		}
	}
	adjusted := stat.BenjaminiHochberg(p)
	size := make(map[*api.CompareMeasure]float64)
	largest := func(r *api.CompareRow) (v float64) {
		for i := range r.Measures {
			v = max(v, size[&r.Measures[i]])
		}
		return v
	}
	for i := range rows {
		r := &rows[i]
		r.Adjusted = api.Float(math.NaN())
		for j := range r.Measures {
			m := &r.Measures[j]
			m.Adjusted = api.Float(adjusted[i*len(rowMeasures)+j])
			if !(r.Adjusted <= m.Adjusted) && !math.IsNaN(float64(m.Adjusted)) {
				r.Adjusted = m.Adjusted
			}
			if m.Change != "" && m.Adjusted <= discovery {
				r.Changed = true
				size[m] = math.Abs(math.Log(float64(m.Raw.Effect)))
			}
		}
	}
	slices.SortStableFunc(rows, func(x, y api.CompareRow) int {
		switch {
		case x.Changed != y.Changed:
			if x.Changed {
				return -1
			}
			return 1
		case x.Changed:
			return cmp.Compare(largest(&y), largest(&x))
		}
		return cmp.Compare(orOne(x.Adjusted), orOne(y.Adjusted))
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
	tenant, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, either(chosen...))
	if err != nil {
		return err
	}
	var sides [2]*side
	for i, of := range []*side{c.a, c.b} {
		found, err := c.requests(ctx, of.span, c.step, []string{series.LabelTenant}, append(c.only(i), tenant)...)
		if err != nil {
			return err
		}
		if found.Step != c.step || found.Start != of.start || found.End != of.end {
			return nil // it expired meanwhile
		}
		s := newSide(found)
		for j := range found.Groups {
			if err := s.add(operation{operation: found.Groups[j].Labels.Get(series.LabelTenant)}, &found.Groups[j]); err != nil {
				return err
			}
		}
		sides[i] = s
	}
	var rows []api.CompareRow
	for _, name := range chosen {
		key := []operation{{operation: name}}
		a, err := c.column(sides[0], key)
		if err != nil {
			return err
		}
		b, err := c.column(sides[1], key)
		if err != nil {
			return err
		}
		row := api.CompareRow{Tenant: name, RequestsA: sides[0].requestsOf(key[0]), RequestsB: sides[1].requestsOf(key[0])}
		if row.Measures, err = c.rowMeasures(&strata{a: stat.Side{a.series}, b: stat.Side{b.series}}, name); err != nil {
			return err
		}
		rows = append(rows, row)
	}
	c.out.Tenants = c.ranked(rows)
	return nil
}

// only matches the value of the label that side i has.
func (c *comparison) only(i int) []*labels.Matcher {
	if c.Label == "" {
		return nil
	}
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, c.Label, []string{c.ValueA, c.ValueB}[i])}
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
