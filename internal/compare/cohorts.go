package compare

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// mostCohortTenants bounds the tenants of which every series is read. Of more,
// those in the small cohort are what is left of all requests without the others,
// and a cohort that has more by itself is small too.
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
	tenants, many := max(len(c.tenantCounts[0]), len(c.tenantCounts[1])), c.manyTenants()
	if many {
		tenants = 0
		for _, values := range members {
			tenants += len(values)
		}
	}
	longer := c.longer(len(c.a.strata) * tenants)
	type wanted struct {
		cohort string
		match  *labels.Matcher
	}
	var all []wanted
	var before []string // in cohorts that are read
	for _, cohort := range cohortNames {
		match, values := labels.MatchRegexp, members[cohort]
		if cohort == series.Small {
			match, values = labels.MatchNotRegexp, before
		}
		if len(values) == 0 || many && cohort == series.Small {
			continue
		}
		m, err := labels.NewMatcher(match, series.LabelTenant, series.Either(values...))
		if err != nil {
			return err
		}
		before = append(before, values...)
		all = append(all, wanted{cohort, m})
	}
	found := make([]*side, 2*len(all))
	g, reading := errgroup.WithContext(ctx)
	for i, of := range []*side{c.a, c.b} {
		for k, w := range all {
			g.Go(func() (err error) {
				found[i*len(all)+k], err = c.gather(reading, of.in(longer), longer, c.strataBy(), c.operationOf, append(c.only(i), w.match)...)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var rest [2]*side
	if many { // after the others: what came meanwhile is then in it
		var err error
		if rest[0], rest[1], err = c.both(ctx, c.a.in(longer), c.b.in(longer), longer); err != nil {
			return err
		}
	}
	fine := [2]*side{}
	for i, of := range []*side{c.a, c.b} {
		fine[i] = of.in(longer).side(longer)
		fine[i].name = of.name
		for k, w := range all {
			s := found[i*len(all)+k]
			if !s.gathered(longer) {
				return nil // it expired meanwhile
			}
			for name, x := range s.strata {
				name.cohort = w.cohort
				fine[i].strata[name] = x
			}
			if many && !rest[i].less(s) {
				return nil
			}
		}
		if !many {
			continue
		}
		if !rest[i].gathered(longer) {
			return nil
		}
		for name, x := range rest[i].strata {
			if x.requests > 0 {
				name.cohort = series.Small
				fine[i].strata[name] = x
			}
		}
	}
	c.fineA, c.fineB = fine[0], fine[1]
	return nil
}

// less takes away what another side of the same slots has; false if it has not
// all of that.
func (s *side) less(o *side) bool {
	for name, y := range o.strata {
		x := s.strata[name]
		if x == nil {
			return false
		}
		for _, cells := range [][2][]*hist.Histogram{{x.good, y.good}, {x.failed, y.failed}} {
			for i, h := range cells[1] {
				if count(h) > 0 && (cells[0][i] == nil || cells[0][i].Subtract(h) != nil) {
					return false
				}
				if count(cells[0][i]) == 0 {
					cells[0][i] = nil
				}
			}
		}
		x.requests, x.errors = x.requests-y.requests, x.errors-y.errors
	}
	return true
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

// manyTenants says that there are too many to read all of them.
func (c *comparison) manyTenants() bool {
	return max(len(c.tenantCounts[0]), len(c.tenantCounts[1])) > mostCohortTenants
}

// members are the tenants of each cohort but the small one; nil if all tenants
// are of one cohort.
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
	if totals[0] == 0 || totals[1] == 0 {
		return nil
	}
	cohorts := map[string][]string{}
	for name, v := range share {
		cohort := c.cohortOf(name, v)
		cohorts[cohort] = append(cohorts[cohort], name)
	}
	if len(cohorts) < 2 {
		return nil
	}
	delete(cohorts, series.Small) // it is what is left
	for cohort, names := range cohorts {
		if len(names) > mostCohortTenants {
			delete(cohorts, cohort)
		}
	}
	if len(cohorts) == 0 {
		return nil
	}
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
