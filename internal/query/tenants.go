package query

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// tenant is one tenant's sums while a page is being made.
type tenant struct {
	name             string
	requests, errors uint64
	sum              float64
	hist             *hist.Histogram // nil until buckets were read
	key              float64         // the asked quantile
}

func (t *tenant) mean() float64 { return t.sum / float64(t.requests) }

// tenantOrder returns the comparison of the asked order; byQuantile is the
// quantile that it needs, or nil.
func tenantOrder(r TenantsRequest) (func(a, b *tenant) int, *Quantile, error) {
	key, down := strings.TrimPrefix(r.Sort, "-"), true
	if key == "" {
		key = "requests"
	}
	var cmp func(a, b *tenant) int
	var byQuantile *Quantile
	switch key {
	case "requests", "share":
		cmp = func(a, b *tenant) int { return compare(a.requests, b.requests) }
	case "errors":
		cmp = func(a, b *tenant) int { return compare(a.errors, b.errors) }
	case "mean":
		cmp = func(a, b *tenant) int { return compare(a.mean(), b.mean()) }
	case "name":
		down = false
		cmp = func(a, b *tenant) int { return 0 }
	default:
		i := slices.IndexFunc(r.Quantiles, func(q Quantile) bool { return q.Key == key })
		if i < 0 {
			keys := []string{"requests", "errors", "mean", "name"}
			for _, q := range r.Quantiles {
				keys = append(keys, q.Key)
			}
			return nil, nil, Invalid("sort", "cannot sort by %s; write one of %s", quote(r.Sort), strings.Join(keys, ", "))
		}
		byQuantile = &r.Quantiles[i]
		cmp = func(a, b *tenant) int { return compare(a.key, b.key) }
	}
	if strings.HasPrefix(r.Sort, "-") {
		down = !down
	}
	return func(a, b *tenant) int {
		c := cmp(a, b)
		if down {
			c = -c
		}
		if c == 0 {
			c = strings.Compare(a.name, b.name)
			if key == "name" && down {
				c = -c
			}
		}
		return c
	}, byQuantile, nil
}

func compare[T uint64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// tenantsOf makes a page in two passes: counts of every tenant, then buckets
// of those on the page. Sorting by a quantile needs the buckets of all. found
// is how many tenants there are before the search.
func tenantsOf(ctx context.Context, st store.Store, sel *resolved, r TenantsRequest, order func(a, b *tenant) int, byQuantile *Quantile, by []string) (out *api.TenantsResponse, found int, err error) {
	q := sel.q
	q.By = by
	if byQuantile == nil {
		q.Measure = store.Moments
	}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	all, total, err := gatherTenants(res, byQuantile != nil)
	if err != nil {
		return nil, 0, err
	}
	search := strings.ToLower(r.Search)
	list := make([]*tenant, 0, len(all))
	for _, t := range all {
		if search == "" || strings.Contains(strings.ToLower(t.name), search) {
			if byQuantile != nil {
				t.key = t.hist.Quantile(byQuantile.Q)
			}
			list = append(list, t)
		}
	}
	slices.SortFunc(list, order)
	out = &api.TenantsResponse{Range: api.Range{Start: res.Start, End: res.End}, Total: len(list), Tenants: []api.Tenant{}}
	page := list[min(r.Offset, len(list)):min(r.Offset+r.Limit, len(list))]
	if byQuantile == nil && len(page) > 0 && len(r.Quantiles) > 0 {
		if err := readTenants(ctx, st, sel, page, by[:1]); err != nil {
			return nil, 0, err
		}
	}
	for _, t := range page {
		at := api.Tenant{
			Name: t.name, Requests: t.requests, Share: api.Float(float64(t.requests) / float64(total)), Errors: t.errors,
			Mean: api.Float(t.mean()), Quantiles: map[string]api.Float{},
		}
		if t.hist != nil {
			at.Quantiles, at.Error = quantiles(t.hist, r.Quantiles), api.Float(t.hist.RelativeError())
			at.Mean = api.Float(t.hist.Mean())
		}
		out.Tenants = append(out.Tenants, at)
	}
	return out, len(all), nil
}

func gatherTenants(res *store.Result, buckets bool) (map[string]*tenant, uint64, error) {
	all := make(map[string]*tenant, len(res.Groups))
	var total uint64
	for _, g := range res.Groups {
		name := g.Labels.Get(series.LabelTenant)
		if name == "" || len(g.Points) == 0 || g.Points[0].Hist == nil {
			continue // work done on nobody's behalf
		}
		h := g.Points[0].Hist
		t := all[name]
		if t == nil {
			t = &tenant{name: name}
			all[name] = t
		}
		total += h.Count
		t.requests += h.Count
		t.sum += h.Sum
		if g.Labels.Get(series.LabelStatus) == statusError {
			t.errors += h.Count
		}
		if !buckets {
			continue
		}
		if t.hist == nil {
			t.hist = h
		} else if err := t.hist.Merge(h); err != nil {
			return nil, 0, err
		}
	}
	return all, total, nil
}

// readTenants fills in the histograms of a page's tenants.
func readTenants(ctx context.Context, st store.Store, sel *resolved, page []*tenant, by []string) error {
	byName := make(map[string]*tenant, len(page))
	quoted := make([]string, 0, len(page))
	for _, t := range page {
		byName[t.name] = t
		quoted = append(quoted, regexp.QuoteMeta(t.name))
	}
	m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelTenant, strings.Join(quoted, "|"))
	if err != nil {
		return err
	}
	q := sel.q
	q.By = by
	q.Matchers = append(slices.Clone(q.Matchers), m)
	res, err := st.Query(ctx, q)
	if err != nil {
		return err
	}
	for _, g := range res.Groups {
		if t := byName[g.Labels.Get(series.LabelTenant)]; t != nil && len(g.Points) > 0 {
			t.hist = g.Points[0].Hist
		}
	}
	return nil
}
