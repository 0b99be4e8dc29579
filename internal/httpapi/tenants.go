package httpapi

import (
	"context"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/query"
)

type tenantsInput struct {
	Selection
	Q       List     `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	Sort    string   `query:"sort" doc:"requests, errors, mean, slow, cohort, size, name or one of the quantiles; a leading minus turns it round"`
	Search  string   `query:"search" doc:"part of a tenant's name"`
	Cohort  string   `query:"cohort" doc:"only tenants of this cohort: very large, large, medium or small"`
	NotRare Bool     `query:"not_rare" doc:"only tenants for whom slow requests are not rare"`
	Slow    Duration `query:"slow" doc:"from when a request is slow; 1s unless said otherwise"`
	Rare    string   `query:"rare" doc:"the share of slow requests up to which they are rare, such as 0.01 or 1%; 0.01 unless said otherwise"`
	Offset  Int      `query:"offset" doc:"tenants to pass over"`
	Limit   Int      `query:"limit" doc:"tenants to answer, at most 1000"`
}

// tenantCacheBytes bounds what is kept of tenants for the next page or order.
const tenantCacheBytes = 64 << 20

func (s *server) tenants(ctx context.Context, in *tenantsInput) (*api.TenantsResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.TenantsRequest{Selection: sel, Sort: in.Sort, Search: in.Search, Cohort: in.Cohort,
		List: s.TenantList, Cache: s.tenantCache, Now: s.Now()}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	if r.NotRare, err = in.NotRare.Parse("not_rare"); err != nil {
		return nil, err
	}
	if in.Slow != "" {
		d, err := in.Slow.Parse("slow")
		if err != nil {
			return nil, err
		}
		if d <= 0 {
			return nil, query.Invalid("slow", "%s is not above 0; write a time such as 1s or 500ms", quote(string(in.Slow)))
		}
		r.Slow = d.Seconds()
	}
	if r.Rare, err = parseShare("rare", in.Rare); err != nil {
		return nil, err
	}
	if r.Offset, err = in.Offset.Parse("offset"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return query.Tenants(ctx, s.Store, r)
}

// parseShare reads a share between 0 and 1, or a percentage; 0 if empty.
func parseShare(field, text string) (float64, error) {
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
	return v, nil
}
