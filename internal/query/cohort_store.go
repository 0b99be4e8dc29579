package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// cohortTime is the shortest time, in seconds, whose requests put tenants into cohorts:
// a shorter question takes those of the time before its end.
const cohortTime = 3600

// WithCohorts returns st with the label cohort to match and to group by in questions of
// span families, which have tenants instead. A matcher of cohorts is replaced by one of the
// tenants that are in them over the question's range. Their shares are of the requests of
// all tenants that the other matchers select. The list, if there is one, makes the cohorts.
func WithCohorts(st store.Store, list *series.TenantList) store.Store {
	return cohortStore{Store: st, list: list}
}

type cohortStore struct {
	store.Store
	list    *series.TenantList
	settled map[string][]string // tenants of each cohort; nil: those of the question's range
}

// cohortsOfStore returns st as it knows cohorts, or one that makes them by share.
func cohortsOfStore(st store.Store) cohortStore {
	if s, ok := st.(cohortStore); ok {
		return s
	}
	return cohortStore{Store: st}
}

// MatchTenants replaces matchers of cohorts as WithCohorts does, for a question that
// asks the store for several ranges and means the tenants of all of them.
func MatchTenants(ctx context.Context, st store.Store, family string, ms []*labels.Matcher, start, end int64) ([]*labels.Matcher, error) {
	return cohortsOfStore(st).tenants(ctx, family, ms, start, end)
}

func (s cohortStore) tenants(ctx context.Context, family string, ms []*labels.Matcher, start, end int64) ([]*labels.Matcher, error) {
	if !IsSpanFamily(family) || !named(ms, series.LabelCohort) {
		return ms, nil
	}
	rest := without(ms, series.LabelCohort)
	match, err := cohortsOf(ms)
	if err != nil {
		return nil, err
	}
	members, err := s.members(ctx, family, rest, start, end)
	if err != nil {
		return nil, err
	}
	return append(rest, tenantsIn(members, match)...), nil
}

// members returns the tenants of each cohort among what ms match, but for the tenant.
func (s cohortStore) members(ctx context.Context, family string, ms []*labels.Matcher, start, end int64) (map[string][]string, error) {
	if s.settled != nil {
		return s.settled, nil
	}
	return cohortMembers(ctx, s.Store, Selection{
		Family: family, Matchers: ms, Start: time.Unix(min(start, end-cohortTime), 0), End: time.Unix(end, 0),
	}, s.list)
}

// cohortMatchers returns the matchers of cohorts among ms, with cohorts as they are written
// here, and refuses those that match none.
func cohortMatchers(ms []*labels.Matcher) ([]*labels.Matcher, error) {
	of := only(ms, series.LabelCohort)
	texts := make([]string, len(of))
	for i, m := range of {
		texts[i] = m.String()
		if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
			name := m.Value
			if err := checkCohort("match", &name); err != nil {
				return nil, err
			}
			of[i] = labels.MustNewMatcher(m.Type, m.Name, name)
		}
	}
	if !matchAll(of, "") && !slices.ContainsFunc(series.Cohorts, func(cohort string) bool { return matchAll(of, cohort) }) {
		return nil, Invalid("match", "no cohort matches %s; there are %s", strings.Join(texts, " and "), strings.Join(series.Cohorts, ", "))
	}
	return of, nil
}

func matchAll(ms []*labels.Matcher, value string) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(value) })
}

// cohortsOf returns a function that reports whether the matchers of cohorts among ms
// match a cohort; of "" whether they match who has no tenant.
func cohortsOf(ms []*labels.Matcher) (func(cohort string) bool, error) {
	of, err := cohortMatchers(ms)
	return func(cohort string) bool { return matchAll(of, cohort) }, err
}

// tenantsIn returns matchers of the tenants in the cohorts that match. Tenants that are
// not among the members are small.
func tenantsIn(members map[string][]string, match func(cohort string) bool) []*labels.Matcher {
	var in, out []string
	for _, cohort := range series.Cohorts {
		if match(cohort) {
			in = append(in, members[cohort]...)
		} else {
			out = append(out, members[cohort]...)
		}
	}
	nobody := match("")
	some := labels.MustNewMatcher(labels.MatchNotEqual, series.LabelTenant, "")
	switch {
	case match(series.Small) && nobody && len(out) == 0:
		return nil
	case match(series.Small):
		var ms []*labels.Matcher
		if !nobody {
			ms = append(ms, some)
		}
		if len(out) > 0 {
			ms = append(ms, labels.MustNewMatcher(labels.MatchNotRegexp, series.LabelTenant, series.Either(out...)))
		}
		return ms
	case nobody:
		in = append(in, "")
	case len(in) == 0:
		return []*labels.Matcher{some, labels.MustNewMatcher(labels.MatchEqual, series.LabelTenant, "")}
	}
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, series.LabelTenant, series.Either(in...))}
}

func (s cohortStore) Query(ctx context.Context, q store.Query) (_ *store.Result, err error) {
	if byCohort(q.Family, q.By) {
		return s.queryByCohort(ctx, q)
	}
	if q.Matchers, err = s.tenants(ctx, q.Family, q.Matchers, q.Start, q.End); err != nil {
		return nil, err
	}
	return s.Store.Query(ctx, q)
}

func (s cohortStore) LabelNames(ctx context.Context, family string, view series.View, ms []*labels.Matcher, start, end int64) ([]string, error) {
	ms, err := s.tenants(ctx, family, ms, start, end)
	if err != nil {
		return nil, err
	}
	return s.Store.LabelNames(ctx, family, view, ms, start, end)
}

func (s cohortStore) LabelValues(ctx context.Context, family string, view series.View, name string, ms []*labels.Matcher, start, end int64) ([]string, error) {
	if byCohort(family, []string{name}) {
		return s.cohorts(ctx, family, ms, start, end)
	}
	ms, err := s.tenants(ctx, family, ms, start, end)
	if err != nil {
		return nil, err
	}
	return s.Store.LabelValues(ctx, family, view, name, ms, start, end)
}

// cohorts returns, sorted, those that have tenants among what ms match.
func (s cohortStore) cohorts(ctx context.Context, family string, ms []*labels.Matcher, start, end int64) ([]string, error) {
	match, err := cohortsOf(ms)
	if err != nil {
		return nil, err
	}
	members, err := s.members(ctx, family, without(ms, series.LabelCohort), start, end)
	if err != nil {
		return nil, err
	}
	of := only(ms, series.LabelTenant)
	asked := func(tenant string) bool { return matchAll(of, tenant) }
	out := slices.DeleteFunc(slices.Clone(series.Cohorts), func(c string) bool { return !match(c) || !slices.ContainsFunc(members[c], asked) })
	slices.Sort(out)
	return out, nil
}

func (s cohortStore) Series(ctx context.Context, family string, view series.View, ms []*labels.Matcher, start, end int64) ([]series.Series, error) {
	ms, err := s.tenants(ctx, family, ms, start, end)
	if err != nil {
		return nil, err
	}
	return s.Store.Series(ctx, family, view, ms, start, end)
}
