package httpapi

import (
	"context"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/query"
)

// tenantCacheBytes bounds what is kept of tenants for the next page or order.
const tenantCacheBytes = 64 << 20

func (s *server) tenants(ctx context.Context, in *api.TenantsRequest) (*api.TenantsResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := query.TenantsRequest{Selection: sel, Sort: in.Sort, Search: in.Search, Cohort: in.Cohort,
		NotRare: in.NotRare, Slow: in.Slow.Seconds(), Rare: float64(in.Rare), Offset: in.Offset, Limit: in.Limit,
		List: s.TenantList, Cache: s.tenantCache, Now: s.Now()}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	return query.Tenants(ctx, s.Store, r)
}

// parseShare reads a share between 0 and 1, or a percentage; 0 if empty.
func parseShare(field, text string) (api.Share, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return 0, query.Invalid(field, "%s is not a share between 0 and 1; write one such as 0.01 or 1%%", quote(text))
	}
	return api.Share(v), nil
}
