package query

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// tenantSummary is every tenant's requests in a range: all that a page of any
// order, search or cohort is made of. Nothing of it changes once it is made but
// slow, which is guarded.
type tenantSummary struct {
	start, end int64
	slot       int64       // seconds of a slot that intervals are made on
	q          store.Query // the selection of requests
	tenants    []tenantTotal
	cohorts    []cohortTotal // that have tenants, the largest first
	everyone   cohortTotal

	slow slowStore
}

// tenantTotal is one tenant's requests.
type tenantTotal struct {
	name             string
	cohort           string
	requests, errors uint64
	sum              float64 // seconds
	hist             []byte  // in compact form
}

type cohortTotal struct {
	name             string
	tenants          int
	requests, errors uint64
	hist             *hist.Histogram
}

// fewestTenantSlots is about how many slots the interval of a tenant is made on.
const fewestTenantSlots = 30

// tenantSlot is the longest of the usual steps that leaves enough of them.
func tenantSlot(start, end int64) int64 {
	slot := steps[0]
	for _, s := range steps {
		if (end-start)/s >= fewestTenantSlots {
			slot = s
		}
	}
	return slot
}

// readTenants reads the summary of what r selects.
func readTenants(ctx context.Context, st store.Store, r TenantsRequest) (*tenantSummary, error) {
	sel, by, err := resolveTenants(ctx, st, r.Selection)
	if err != nil {
		return nil, err
	}
	cohortOf := r.List.CohortOf
	if named(r.Matchers, series.LabelTenant) { // a share of those alone makes no cohort
		members, err := cohortMembers(ctx, st, r.Selection, r.List)
		if err != nil {
			return nil, err
		}
		cohortOf = func(tenant string, _ float64) string {
			for cohort, names := range members {
				if _, found := slices.BinarySearch(names, tenant); found {
					return cohort
				}
			}
			return series.Small
		}
	}
	if sel.span && !named(sel.q.Matchers, series.LabelKind) {
		narrowed, err := sel.onlyRequests()
		if err != nil {
			return nil, err
		}
		if s, err := gatherTenants(ctx, st, narrowed.q, by, cohortOf); err != nil || len(s.tenants) > 0 {
			return s, err
		}
	}
	return gatherTenants(ctx, st, sel.q, by, cohortOf)
}

// resolveTenants resolves a selection of tenants, in whole slots. Metrics may
// carry a tenant, but neither kind nor status of a span.
func resolveTenants(ctx context.Context, st store.Store, at Selection) (sel *resolved, by []string, err error) {
	by = []string{series.LabelTenant}
	if sel, err = resolve(ctx, st, at, by); err != nil {
		return nil, nil, err
	}
	if err = sel.wantDistribution("tenants"); err != nil {
		return nil, nil, err
	}
	if sel.span {
		by = append(by, series.LabelStatus)
	}
	sel.q.Start, sel.q.End = align(at.Start, at.End, tenantSlot(sel.q.Start, sel.q.End))
	return sel, by, nil
}

// onlyRequests narrows a selection of spans to requests.
func (r *resolved) onlyRequests() (*resolved, error) {
	m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelKind, "server|consumer")
	if err != nil {
		return nil, err
	}
	narrowed := *r
	narrowed.q.Matchers = append(slices.Clone(r.q.Matchers), m)
	return &narrowed, nil
}

func named(ms []*labels.Matcher, label string) bool {
	return slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == label })
}

// gatherTenants asks the store. Work done on nobody's behalf is left out. CohortOf returns
// the cohort of a tenant by its share of all requests.
func gatherTenants(ctx context.Context, st store.Store, q store.Query, by []string, cohortOf func(tenant string, share float64) string) (*tenantSummary, error) {
	q.By = by
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	s := &tenantSummary{start: res.Start, end: res.End, q: q, slot: tenantSlot(q.Start, q.End)}
	s.everyone = cohortTotal{name: "everyone", hist: hist.New(hist.MaxSchema)}
	// Groups are sorted by labels, status before tenant.
	hists := map[string]*hist.Histogram{}
	at := map[string]int{}
	for _, g := range res.Groups {
		name := g.Labels.Get(series.LabelTenant)
		if name == "" || len(g.Points) == 0 || g.Points[0].Hist == nil || g.Points[0].Hist.Count == 0 {
			continue
		}
		h := g.Points[0].Hist
		i, ok := at[name]
		if !ok {
			i = len(s.tenants)
			at[name] = i
			s.tenants = append(s.tenants, tenantTotal{name: name})
		}
		t := &s.tenants[i]
		t.requests += h.Count
		if g.Labels.Get(series.LabelStatus) == statusError {
			t.errors += h.Count
		}
		if sum := hists[name]; sum == nil {
			hists[name] = h
		} else if err := sum.Merge(h); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.tenants, func(a, b tenantTotal) int { return strings.Compare(a.name, b.name) })
	for i := range s.tenants {
		s.everyone.requests += s.tenants[i].requests
	}
	return s, s.finish(hists, cohortOf)
}

// finish packs histograms and adds cohorts up.
func (s *tenantSummary) finish(hists map[string]*hist.Histogram, cohortOf func(tenant string, share float64) string) error {
	byName := map[string]*cohortTotal{}
	for i := range s.tenants {
		t := &s.tenants[i]
		h := hists[t.name]
		packed, err := h.AppendBinary(nil)
		if err != nil {
			return err
		}
		t.sum, t.hist = h.Sum, slices.Clip(packed)
		t.cohort = cohortOf(t.name, s.share(t.requests))
		c := byName[t.cohort]
		if c == nil {
			c = &cohortTotal{name: t.cohort, hist: hist.New(hist.MaxSchema)}
			byName[t.cohort] = c
		}
		c.tenants++
		c.requests += t.requests
		c.errors += t.errors
		if err := c.hist.Merge(h); err != nil {
			return err
		}
	}
	for _, name := range series.Cohorts {
		c := byName[name]
		if c == nil {
			continue
		}
		s.cohorts = append(s.cohorts, *c)
		s.everyone.tenants += c.tenants
		s.everyone.errors += c.errors
		if err := s.everyone.hist.Merge(c.hist); err != nil {
			return err
		}
	}
	return nil
}

// bytes is about what the summary takes.
func (s *tenantSummary) bytes() int64 {
	n := int64(4096)
	for i := range s.tenants {
		n += 128 + int64(len(s.tenants[i].name)+cap(s.tenants[i].hist))
	}
	return n
}

// anyTenant matches one of the names.
func anyTenant(match labels.MatchType, names []string) (*labels.Matcher, error) {
	return labels.NewMatcher(match, series.LabelTenant, series.Either(names...))
}
