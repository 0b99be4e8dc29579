package query

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Slowness unless said otherwise.
const (
	DefaultSlow = 1.0  // seconds from which a request is slow
	DefaultRare = 0.01 // share of slow requests up to which they are rare
)

// TenantsRequest asks who sends the traffic and what they see.
type TenantsRequest struct {
	Selection
	Quantiles []Quantile
	// Sort is suffers (default), requests, errors, mean, slow, cohort, size, name, or a
	// quantile's key; a leading - turns it round. Those who suffer are the tenants with surely
	// more than one failed request in a hundred, then those with the longest p99, by the lower
	// end of its interval. Those with too few requests for an interval come last.
	Sort    string
	Search  string // part of a tenant's name, in any case
	Cohort  string // only tenants of this cohort; empty: all
	NotRare bool   // only tenants for whom slow requests are not rare
	Slow    float64
	Rare    float64
	Offset  int
	Limit   int // default 50
	// List, if there is one, makes the cohorts.
	List *series.TenantList
	// Cache keeps what was read, for the next page or order; nil keeps nothing.
	Cache *TenantCache
	Now   time.Time // for the cache
}

func (r *TenantsRequest) check() error {
	if err := checkLimit(&r.Limit, 50, 1000); err != nil {
		return err
	}
	if r.Offset < 0 {
		return Invalid("offset", "offset %d is negative; write 0 or more", r.Offset)
	}
	if r.Slow == 0 {
		r.Slow = DefaultSlow
	}
	if !(r.Slow > 0) || math.IsInf(r.Slow, 0) {
		return Invalid("slow", "a request cannot be slow from %g s; write a time above 0, such as 1s", r.Slow)
	}
	if r.Rare == 0 {
		r.Rare = DefaultRare
	}
	if !(r.Rare > 0 && r.Rare < 1) {
		return Invalid("rare", "a share of %g is not between 0 and 1; write one such as 0.01", r.Rare)
	}
	return checkCohort("cohort", &r.Cohort)
}

// checkCohort refuses unknown cohorts, and takes very-large too.
func checkCohort(field string, name *string) error {
	*name = strings.ReplaceAll(*name, "-", " ")
	if *name != "" && !slices.Contains(series.Cohorts, *name) {
		return Invalid(field, "there is no cohort %s; write one of %s", quote(*name), strings.Join(series.Cohorts, ", "))
	}
	return nil
}

// Tenants lists tenants, a page at a time, beside all cohorts. Requests are
// spans of kind server or consumer, or all when the selection has neither. The
// range is widened to whole slots, of which there are some thirty to sixty.
//
// What is read is a distribution for every tenant, by one question to the
// store; then slots of those alone whose interval is wanted: the tenants on the
// page, and those who may be the ones for whom slow requests are not rare.
func Tenants(ctx context.Context, st store.Store, r TenantsRequest) (*api.TenantsResponse, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.Cohort == "" && (r.Family == "" || IsSpanFamily(r.Family)) {
		for _, m := range only(r.Matchers, series.LabelCohort) {
			if m.Type != labels.MatchEqual || r.Cohort != "" {
				return nil, Invalid("match", "tenants are listed of one cohort; write cohort=\"large\"")
			}
			r.Cohort = m.Value
		}
		if err := checkCohort("match", &r.Cohort); err != nil {
			return nil, err
		}
		r.Matchers = without(r.Matchers, series.LabelCohort)
	}
	key, err := tenantKey(r)
	if err != nil {
		return nil, err
	}
	all, err := r.Cache.summary(ctx, st, r)
	if err != nil {
		return nil, err
	}
	slow, err := all.slowness(ctx, st, r.Slow)
	if err != nil {
		return nil, err
	}
	defer slow.done()
	if err := slow.judge(ctx, r.Rare); err != nil {
		return nil, err
	}
	list := make([]int, 0, len(all.tenants))
	search := strings.ToLower(r.Search)
	for i := range all.tenants {
		t := &all.tenants[i]
		if r.Cohort != "" && t.cohort != r.Cohort || search != "" && !strings.Contains(strings.ToLower(t.name), search) ||
			r.NotRare && !slow.notRare(i, r.Rare) {
			continue
		}
		list = append(list, i)
	}
	if err := all.sort(list, key, slow); err != nil {
		return nil, err
	}
	page := list[min(r.Offset, len(list)):min(r.Offset+r.Limit, len(list))]
	if err := slow.know(ctx, page); err != nil {
		return nil, err
	}
	out := &api.TenantsResponse{
		Range: api.Range{Start: all.start, End: all.end}, Total: len(list), Tenants: []api.Tenant{}, Cohorts: []api.TenantCohort{},
		Slow: api.Float(r.Slow), Rare: api.Float(r.Rare), CohortsBy: r.List.By(),
	}
	for _, v := range Bands {
		out.Bands = append(out.Bands, api.Float(v))
	}
	var h hist.Histogram
	for _, i := range page {
		if err := h.UnmarshalBinary(all.tenants[i].hist); err != nil {
			return nil, err
		}
		at := all.tenant(i, &h, r)
		slow.fill(&at, i, r.Rare)
		out.Tenants = append(out.Tenants, at)
	}
	for i := range all.cohorts {
		out.Cohorts = append(out.Cohorts, all.cohort(&all.cohorts[i], slow, r))
	}
	out.Everyone = all.cohort(&all.everyone, slow, r)
	return out, nil
}

func (s *tenantSummary) tenant(i int, h *hist.Histogram, r TenantsRequest) api.Tenant {
	t := &s.tenants[i]
	return api.Tenant{
		Name: t.name, Requests: t.requests, Effective: Effective(h.Moment()), Share: api.Float(s.share(t.requests)), Errors: t.errors,
		Mean: api.Float(h.Mean()), Quantiles: quantiles(h, r.Quantiles), Error: api.Float(h.RelativeError()),
		Cohort: t.cohort, Size: api.Float(r.List.Size(t.name)), InBands: inBands(h),
	}
}

func (s *tenantSummary) cohort(c *cohortTotal, slow *slowTenants, r TenantsRequest) api.TenantCohort {
	out := api.TenantCohort{
		Name: c.name, Tenants: c.tenants, Requests: c.requests, Effective: Effective(c.hist.Moment()), Share: api.Float(s.share(c.requests)), Errors: c.errors,
		Mean: api.Float(c.hist.Mean()), Quantiles: quantiles(c.hist, r.Quantiles), Error: api.Float(c.hist.RelativeError()),
		InBands: inBands(c.hist), SlowShare: api.Float(above(c.hist, r.Slow)),
	}
	for i := range s.tenants {
		if (c == &s.everyone || s.tenants[i].cohort == c.name) && slow.notRare(i, r.Rare) {
			out.NotRare++
		}
	}
	return out
}

// share is that of all tenants' requests.
func (s *tenantSummary) share(requests uint64) float64 {
	return float64(requests) / float64(s.everyone.requests)
}
