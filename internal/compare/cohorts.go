package compare

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// mostCohortTenants bounds the tenants of which operations are cut into
// cohorts: every series of all of them is read.
const mostCohortTenants = 2000

// cohortNames, the largest first; what is in none of the others is small.
var cohortNames = []string{series.VeryLarge, series.Large, series.Medium, series.Small}

// cohorts counts the requests of tenants, and cuts operations into the cohorts
// of their tenants. A tenant's cohort is that of its share of both sides'
// requests together, the mean of its two shares, so it is the same on both.
func (c *comparison) cohorts(ctx context.Context) error {
	if ok, err := c.countTenants(ctx); err != nil || !ok {
		return err
	}
	members := c.members()
	if members == nil {
		return nil
	}
	fine := [2]*side{}
	for i, of := range []*side{c.a, c.b} {
		s := of.where().side(of.step)
		s.name = of.name
		var before []string // in cohorts that were read
		for _, cohort := range cohortNames {
			match, values := labels.MatchRegexp, members[cohort]
			if cohort == series.Small {
				match, values = labels.MatchNotRegexp, before
			}
			if len(values) == 0 {
				continue
			}
			m, err := labels.NewMatcher(match, series.LabelTenant, either(values...))
			if err != nil {
				return err
			}
			before = append(before, values...)
			found, err := c.gather(ctx, of.where(), of.step, c.strataBy(), c.operationOf, append(c.only(i), m)...)
			if err != nil {
				return err
			}
			if !found.gathered(of.step) {
				return nil // it expired meanwhile
			}
			for name, x := range found.strata {
				name.cohort = cohort
				s.strata[name] = x
			}
		}
		fine[i] = s
	}
	c.fineA, c.fineB = fine[0], fine[1]
	return nil
}

// countTenants counts requests by tenant; ok is false where tenants are not
// told apart: beside instances, with which they are not kept, and when one is
// asked for.
func (c *comparison) countTenants(ctx context.Context) (ok bool, err error) {
	names := []string{series.LabelTenant, series.LabelOperation, c.Label}
	for _, m := range c.Matchers {
		if m.Name == series.LabelTenant && m.Type == labels.MatchEqual && m.Value != "" {
			return false, nil
		}
		names = append(names, m.Name)
	}
	if _, ok := query.ViewOf(c.Family, names...); !ok || c.Label == series.LabelTenant {
		return false, nil
	}
	var counts [2]map[string]uint64
	for i, of := range []*side{c.a, c.b} {
		counts[i] = map[string]uint64{}
		for _, w := range of.where().ranges(of.step) {
			found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w, c.only(i)...), Whole: true, By: []string{series.LabelTenant}, Measure: store.Moments})
			if err != nil {
				return false, err
			}
			for _, g := range found.Groups {
				counts[i][g.Labels.Get(series.LabelTenant)] += g.Count(0)
			}
		}
	}
	c.tenantCounts = counts
	return true, nil
}

// members are the tenants of each cohort but the small one; nil if all tenants
// are of one cohort, or too many.
func (c *comparison) members() map[string][]string {
	counts := c.tenantCounts
	var totals [2]uint64
	share := map[string]float64{}
	for i := range counts {
		for _, n := range counts[i] {
			totals[i] += n
		}
		for name, n := range counts[i] {
			share[name] += float64(n) / float64(totals[i]) / 2
		}
	}
	if len(share) > mostCohortTenants || totals[0] == 0 || totals[1] == 0 {
		return nil
	}
	cohorts := map[string][]string{}
	for name, v := range share {
		cohort := series.Small
		if name != "" && name != series.Other {
			cohort = series.Cohort(v)
		}
		cohorts[cohort] = append(cohorts[cohort], name)
	}
	if len(cohorts) < 2 {
		return nil
	}
	delete(cohorts, series.Small) // it is what is left
	for _, names := range cohorts {
		slices.Sort(names)
	}
	return cohorts
}

// strataName is what strata are called.
func (c *comparison) strataName() string {
	switch {
	case c.kind != ofSpans:
		return "series"
	case c.fineA != c.a:
		return "operations and cohorts"
	}
	return "operations"
}

func (c *comparison) strataLabels() []string {
	if c.kind != ofSpans {
		return append([]string{}, c.by...)
	}
	out := []string{series.LabelService, series.LabelOperation}
	out = slices.DeleteFunc(out, func(s string) bool { return s == c.Label })
	if c.fineA != c.a {
		out = append(out, series.LabelCohort)
	}
	return out
}
