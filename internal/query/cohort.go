package query

import (
	"context"
	"slices"
	"sort"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Spans know their tenant, not its cohort: a question by cohort is asked once
// for each, of the tenants that are in it over the whole range.

// byCohort says that by names the cohort of a span family's tenants. Families
// of the breakdown have a label of that name.
func byCohort(family string, by []string) bool {
	return (family == "" || IsSpanFamily(family)) && slices.Contains(by, series.LabelCohort)
}

// cohortSelection is a selection of one cohort's tenants.
type cohortSelection struct {
	name string
	Selection
}

// eachCohort cuts a selection into cohorts, the largest first. Who belongs to
// which is what Tenants answers of the same selection and range.
func eachCohort(ctx context.Context, st store.Store, sel Selection, list *series.TenantList) ([]cohortSelection, error) {
	match, err := cohortsOf(sel.Matchers)
	if err != nil {
		return nil, err
	}
	sel.Matchers = without(sel.Matchers, series.LabelCohort)
	members, err := cohortMembers(ctx, st, sel, list)
	if err != nil {
		return nil, err
	}
	var out []cohortSelection
	for _, name := range series.Cohorts {
		if len(members[name]) == 0 || !match(name) {
			continue
		}
		one := cohortSelection{name, sel}
		one.Matchers = append(slices.Clone(sel.Matchers), tenantsIn(members, func(cohort string) bool { return cohort == name })...)
		out = append(out, one)
	}
	return out, nil
}

// cohortMembers are the tenants of each cohort.
func cohortMembers(ctx context.Context, st store.Store, sel Selection, list *series.TenantList) (map[string][]string, error) {
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

// withoutCohort is by without it.
func withoutCohort(by []string) []string {
	return slices.DeleteFunc(slices.Clone(by), func(s string) bool { return s == series.LabelCohort })
}

// timelineByCohort asks of every cohort; all in the same steps.
func timelineByCohort(ctx context.Context, st store.Store, r TimelineRequest) (*api.TimelineResponse, error) {
	cohorts, err := eachCohort(ctx, st, r.Selection, r.List)
	if err != nil {
		return nil, err
	}
	one := r
	one.By = withoutCohort(r.By)
	if len(cohorts) == 0 { // nothing, in its steps
		out, err := Timeline(ctx, st, one)
		if err == nil {
			out.Groups = []api.TimelineGroup{}
		}
		return out, err
	}
	var out *api.TimelineResponse
	for i := 0; i < len(cohorts); i++ {
		one.Selection = cohorts[i].Selection
		part, err := Timeline(ctx, st, one)
		if err != nil {
			return nil, err
		}
		if out != nil && (part.Step != out.Step || part.Start != out.Start || len(part.Times) != len(out.Times)) {
			// Some are kept in coarser slots, or are too many for fine ones.
			one.Step = max(part.Step, out.Step)
			i, out = -1, nil
			continue
		}
		for j := range part.Groups {
			part.Groups[j].Labels[series.LabelCohort] = cohorts[i].name
		}
		if out == nil {
			out = part
			continue
		}
		out.Slot = max(out.Slot, part.Slot)
		out.Groups = append(out.Groups, part.Groups...)
	}
	return out, checkGroups(len(out.Groups))
}

// distributionByCohort asks of every cohort.
func distributionByCohort(ctx context.Context, st store.Store, r DistributionRequest) (*api.DistributionResponse, error) {
	cohorts, err := eachCohort(ctx, st, r.Selection, r.List)
	if err != nil {
		return nil, err
	}
	one := r
	one.By = withoutCohort(r.By)
	if len(cohorts) == 0 {
		out, err := Distribution(ctx, st, one)
		if err == nil {
			out.Groups = []api.DistributionGroup{}
		}
		return out, err
	}
	var out *api.DistributionResponse
	for _, c := range cohorts {
		one.Selection = c.Selection
		part, err := Distribution(ctx, st, one)
		if err != nil {
			return nil, err
		}
		for j := range part.Groups {
			part.Groups[j].Labels[series.LabelCohort] = c.name
		}
		if out == nil {
			out = part
			continue
		}
		out.Start, out.End, out.Slot = min(out.Start, part.Start), max(out.End, part.End), max(out.Slot, part.Slot)
		out.Groups = append(out.Groups, part.Groups...)
	}
	if r.Limit > 0 && len(out.Groups) > r.Limit {
		sort.SliceStable(out.Groups, func(i, j int) bool { return out.Groups[i].Count > out.Groups[j].Count })
		out.Groups = out.Groups[:r.Limit]
	}
	return out, checkGroups(len(out.Groups))
}
