package compare

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/figure"
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

// ownTenants is the most tenants, the heaviest, that are strata of their own, and
// ownShare the least share of requests that such a tenant has. Beside them are movedTenants,
// lighter ones whose share moved the most: in a cohort a slow one that begins would look as
// though the others had become slower.
const (
	ownTenants   = 20
	ownShare     = 0.001
	movedTenants = 10
)

// cohorts counts the requests of tenants, and cuts operations into the heaviest
// tenants and the cohorts of all others. A tenant's share is the mean of its shares
// of the two sides, so that its cohort is the same on both.
func (c *comparison) cohorts(ctx context.Context) error {
	if ok, err := c.countTenants(ctx); err != nil || !ok {
		return err
	}
	shares := c.tenantShares()
	own := c.ownOf(shares)
	members := c.members(shares, own)
	if members == nil {
		return nil
	}
	tenants, many := max(len(c.tenantCounts[0]), len(c.tenantCounts[1])), c.manyTenants()
	if many {
		tenants = len(own)
		for _, values := range members {
			tenants += len(values)
		}
	}
	longer := c.longer(len(c.a.strata) * tenants)
	type wanted struct {
		cohort string // empty where the strata have theirs
		match  *labels.Matcher
		by     []string
		name   func(labels.Labels) operation
	}
	var all []wanted
	var before []string // in what is read
	if len(own) > 0 {
		m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(own...))
		if err != nil {
			return err
		}
		before = append(before, own...)
		all = append(all, wanted{"", m, append(c.strataBy(), series.LabelTenant), func(l labels.Labels) operation {
			o := c.operationOfTenant(l)
			o.cohort = c.cohortOf(o.tenant, shares[o.tenant])
			return o
		}})
	}
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
		all = append(all, wanted{cohort, m, c.strataBy(), c.operationOf})
	}
	found := make([]*side, 2*len(all))
	g, reading := errgroup.WithContext(ctx)
	for i, of := range []*side{c.a, c.b} {
		for k, w := range all {
			g.Go(func() (err error) {
				found[i*len(all)+k], err = c.gather(reading, of.in(longer), longer, w.by, w.name, append(c.only(i), w.match)...)
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
				if w.cohort != "" {
					name.cohort = w.cohort
				}
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
			if x.seen.Count > 0 {
				name.cohort = series.Small
				fine[i].strata[name] = x
			}
		}
	}
	c.fineA, c.fineB = fine[0], fine[1]
	c.each = sync.OnceValues(func() (*[2]*side, error) { return c.readEach(ctx) })
	return nil
}

// less takes away what another side of the same slots has of the same operations;
// false if it has not all of that.
func (s *side) less(o *side) bool {
	for name, y := range o.strata {
		x := s.strata[operation{service: name.service, operation: name.operation, environment: name.environment}]
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
		x.countAll()
	}
	return true
}

// countTenants counts requests by tenant; ok is false where tenants are not
// told apart: beside instances, with which they are not kept, when one is asked for, and
// between cohorts, none of whose tenants is in both.
func (c *comparison) countTenants(ctx context.Context) (ok bool, err error) {
	names := []string{series.LabelTenant, series.LabelOperation, c.Label}
	for _, m := range c.Matchers {
		if m.Name == series.LabelTenant && m.Type == labels.MatchEqual && m.Value != "" {
			return false, nil
		}
		names = append(names, m.Name)
	}
	if _, ok := query.ViewOf(c.Family, names...); !ok || c.Label == series.LabelTenant || c.Label == series.LabelCohort {
		return false, nil
	}
	var counts [2]map[string]hist.Moment
	g, ctx := errgroup.WithContext(ctx)
	for i, of := range []*side{c.a, c.b} {
		g.Go(func() (err error) {
			counts[i], c.tenantFailed[i], err = c.countTenantsOf(ctx, i, of)
			// A tenant's share is of all requests, also where some tenants are asked for.
			c.tenantTotals[i] = totalOf(counts[i]).Count
			maps.DeleteFunc(counts[i], func(name string, _ hist.Moment) bool { return !c.asksFor(name) })
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	c.tenantCounts = counts
	return true, nil
}

// countTenantsOf returns the requests of each tenant on a side, whichever are asked for, and
// those of them that failed.
func (c *comparison) countTenantsOf(ctx context.Context, i int, of *side) (counts map[string]hist.Moment, failed map[string]uint64, err error) {
	counts, failed = map[string]hist.Moment{}, map[string]uint64{}
	for _, w := range of.where().ranges(of.step) {
		sel := c.within(w, c.only(i)...)
		sel.Matchers = slices.DeleteFunc(sel.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelTenant })
		found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Whole: true, By: []string{series.LabelTenant}, Measure: store.Moments})
		if err != nil {
			return nil, nil, err
		}
		for _, g := range found.Groups {
			name := g.Labels.Get(series.LabelTenant)
			n := counts[name]
			n.Merge(g.Moment(0))
			counts[name] = n
			if g.Failed[0] != nil {
				failed[name] += g.Failed[0].Count
			}
		}
	}
	return counts, failed, nil
}

// asksFor reports whether a tenant is among those that are asked for.
func (c *comparison) asksFor(tenant string) bool {
	return !slices.ContainsFunc(c.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelTenant && !m.Matches(tenant) })
}

// manyTenants says that there are too many to read all of them.
func (c *comparison) manyTenants() bool {
	return max(len(c.tenantCounts[0]), len(c.tenantCounts[1])) > mostCohortTenants
}

// tenantShares returns the mean of each tenant's shares of the two sides' requests;
// nil if a side has no requests.
func (c *comparison) tenantShares() map[string]float64 {
	totals := c.tenantTotals
	if totals[0] == 0 || totals[1] == 0 {
		return nil
	}
	shares := map[string]float64{}
	for i, counts := range c.tenantCounts {
		for name, n := range counts {
			shares[name] += float64(n.Count) / float64(totals[i]) / 2
		}
	}
	return shares
}

// mostOwn returns how many tenants can be strata of their own beside all cohorts in
// each operation that is not rare.
func (c *comparison) mostOwn() int {
	operations := 0
	for name := range c.a.strata {
		if min(c.a.effective(name), c.b.effective(name)) >= rare {
			operations++
		}
	}
	return max(0, min(ownTenants+movedTenants, mostStrata/max(1, operations)-len(cohortNames)))
}

// ownOf returns the tenants to be strata of their own, sorted by name: the heaviest, and of
// the others those whose share surely moved the most.
func (c *comparison) ownOf(shares map[string]float64) []string {
	most := c.mostOwn()
	least := 0.0 // of those that are asked for
	for _, share := range shares {
		least += ownShare * share
	}
	heavy := heaviestOf(shares, least, min(most, ownTenants))
	type mover struct {
		name string
		by   float64
	}
	var movers []mover
	totalA, totalB := totalOf(c.tenantCounts[0]), totalOf(c.tenantCounts[1])
	for name := range shares {
		a, b := c.tenantCounts[0][name], c.tenantCounts[1][name]
		if name == "" || name == series.Other || slices.Contains(heavy, name) {
			continue
		}
		if math.Abs(scoreOf(a.Effective(), b.Effective(), totalB.Effective()/totalA.Effective())) > sureMember {
			movers = append(movers, mover{name, math.Abs(float64(a.Count)/float64(totalA.Count) - float64(b.Count)/float64(totalB.Count))})
		}
	}
	slices.SortFunc(movers, func(x, y mover) int { return cmp.Or(cmp.Compare(y.by, x.by), cmp.Compare(x.name, y.name)) })
	movers = movers[:min(len(movers), most/3)]
	own := heaviestOf(shares, least, min(ownTenants, most-len(movers)))
	for _, m := range movers {
		own = append(own, m.name)
	}
	slices.Sort(own)
	return own
}

// totalOf returns the moment of the requests of all tenants.
func totalOf(counts map[string]hist.Moment) (all hist.Moment) {
	for _, n := range counts {
		all.Merge(n)
	}
	return all
}

// heaviestOf returns at most so many tenants of at least a share to be strata of their own,
// sorted by name.
func heaviestOf(shares map[string]float64, least float64, most int) []string {
	var names []string
	for name, v := range shares {
		if name != "" && name != series.Other && v >= least {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(shares[y], shares[x]), cmp.Compare(x, y)) })
	names = names[:min(len(names), most)]
	slices.Sort(names)
	return names
}

// members returns the tenants of each cohort but the small one, without those that
// are strata of their own; nil if all tenants are in one stratum.
func (c *comparison) members(shares map[string]float64, own []string) map[string][]string {
	cohorts := map[string][]string{}
	for name, v := range shares {
		if _, found := slices.BinarySearch(own, name); found {
			continue
		}
		cohort := c.cohortOf(name, v)
		cohorts[cohort] = append(cohorts[cohort], name)
	}
	if len(cohorts)+len(own) < 2 {
		return nil
	}
	delete(cohorts, series.Small) // it is what is left
	for cohort, names := range cohorts {
		if len(names) > mostCohortTenants {
			delete(cohorts, cohort)
		}
	}
	if len(cohorts)+len(own) == 0 {
		return nil
	}
	for _, names := range cohorts {
		slices.Sort(names)
	}
	return cohorts
}

// strataName is what strata are called.
func (c *comparison) strataName() string {
	if c.kind != ofSpans {
		return "series"
	}
	names := []string{"operations"}
	if len(c.environments) > 0 {
		names = append(names, "environments")
	}
	if c.fineA != c.a {
		names = append(names, "tenants")
	}
	return figure.Listed(names)
}

func (c *comparison) strataLabels() []string {
	if c.kind != ofSpans {
		return append([]string{}, c.by...)
	}
	out := []string{series.LabelService, series.LabelOperation}
	out = slices.DeleteFunc(out, func(s string) bool { return s == c.Label })
	if len(c.environments) > 0 {
		out = append(out, series.LabelEnvironment)
	}
	if c.fineA != c.a {
		out = append(out, series.LabelCohort, series.LabelTenant)
	}
	return out
}
