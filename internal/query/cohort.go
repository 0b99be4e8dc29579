package query

import (
	"context"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Spans know their tenant, not its cohort: a question by cohort is asked once
// for each, of the tenants that are in it.

// byCohort says that by names the cohort of a span family's tenants. Families
// of the breakdown have a label of that name.
func byCohort(family string, by []string) bool {
	return (family == "" || IsSpanFamily(family)) && slices.Contains(by, series.LabelCohort)
}

// settleCohorts returns st with the tenants in each cohort as they are over sel, whatever
// range a question is of.
func settleCohorts(ctx context.Context, st store.Store, sel Selection) (store.Store, error) {
	s := cohortsOfStore(st)
	sel.Matchers = without(sel.Matchers, series.LabelCohort)
	members, err := cohortMembers(ctx, s.Store, sel, s.list)
	if err != nil {
		return nil, err
	}
	if members == nil {
		members = map[string][]string{}
	}
	s.settled = members
	return s, nil
}

// settleNamed settles cohorts for an answer by cohort, which leaves out what has no tenant.
func settleNamed(ctx context.Context, st store.Store, sel *Selection) (store.Store, error) {
	if _, err := cohortsOf(sel.Matchers); err != nil {
		return nil, err
	}
	settled, err := settleCohorts(ctx, st, *sel)
	sel.Matchers = append(slices.Clone(sel.Matchers), labels.MustNewMatcher(labels.MatchNotEqual, series.LabelCohort, ""))
	return settled, err
}

// queryByCohort answers a question that is grouped by cohort, or of each series with its
// cohort. Groups are in the order of cohorts, the largest first.
func (s cohortStore) queryByCohort(ctx context.Context, q store.Query) (*store.Result, error) {
	match, err := cohortsOf(q.Matchers)
	if err != nil {
		return nil, err
	}
	rest := without(q.Matchers, series.LabelCohort)
	members, err := s.members(ctx, q.Family, rest, q.Start, q.End)
	if err != nil {
		return nil, err
	}
	one := q
	one.By = slices.DeleteFunc(slices.Clone(q.By), func(name string) bool { return name == series.LabelCohort })
	var out *store.Result
	for _, cohort := range append(slices.Clone(series.Cohorts), "") {
		// Small is asked for in any case: it holds who is not among the members.
		if !match(cohort) || len(members[cohort]) == 0 && cohort != series.Small && cohort != "" {
			continue
		}
		one.Matchers = append(slices.Clone(rest), tenantsIn(members, func(c string) bool { return c == cohort })...)
		part, err := s.Store.Query(ctx, one)
		if err != nil {
			return nil, err
		}
		for i, g := range part.Groups {
			part.Groups[i].Labels = labels.NewBuilder(g.Labels).Set(series.LabelCohort, cohort).Labels()
		}
		if out == nil {
			out = part
			continue
		}
		out.Start, out.End, out.Resolution = min(out.Start, part.Start), max(out.End, part.End), max(out.Resolution, part.Resolution)
		out.Series, out.PointsRead = out.Series+part.Series, out.PointsRead+part.PointsRead
		out.Groups = append(out.Groups, part.Groups...)
	}
	if out == nil { // nothing, in its range
		one.Matchers = append(slices.Clone(rest), tenantsIn(nil, func(string) bool { return false })...)
		return s.Store.Query(ctx, one)
	}
	if q.TopK > 0 && len(out.Groups) > q.TopK {
		sort.SliceStable(out.Groups, func(i, j int) bool { return groupCount(out.Groups[i]) > groupCount(out.Groups[j]) })
		out.Groups = out.Groups[:q.TopK]
	}
	return out, nil
}

// cohortMembers returns the tenants of each cohort. A tenant's share is of the requests of
// all tenants, also where sel names some of them.
func cohortMembers(ctx context.Context, st store.Store, sel Selection, list *series.TenantList) (map[string][]string, error) {
	sel.Matchers = without(sel.Matchers, series.LabelTenant)
	r, _, err := resolveTenants(ctx, st, sel)
	if err != nil {
		return nil, err
	}
	r.q.By, r.q.Measure = []string{series.LabelTenant}, store.Moments
	asked := []*resolved{r}
	if !named(r.q.Matchers, series.LabelKind) {
		narrowed, err := r.onlyRequests()
		if err != nil {
			return nil, err
		}
		asked = []*resolved{narrowed, r}
	}
	for _, r := range asked {
		res, err := st.Query(ctx, r.q)
		if err != nil {
			return nil, err
		}
		counts, total := map[string]uint64{}, uint64(0)
		for _, g := range res.Groups {
			if name := g.Labels.Get(series.LabelTenant); name != "" && len(g.Points) > 0 && g.Points[0].Hist != nil {
				counts[name] += g.Points[0].Hist.Count
				total += g.Points[0].Hist.Count
			}
		}
		if total == 0 {
			continue
		}
		members := map[string][]string{}
		for name, n := range counts {
			cohort := list.CohortOf(name, float64(n)/float64(total))
			members[cohort] = append(members[cohort], name)
		}
		for _, names := range members {
			slices.Sort(names)
		}
		return members, nil
	}
	return nil, nil
}
