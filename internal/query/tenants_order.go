package query

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"tailscope/hist"
	"tailscope/internal/series"
)

// tenantOrder is what tenants are sorted by.
type tenantOrder struct {
	// key is what is compared, greatest first unless up is set; nil goes by name.
	key func(t *tenantTotal, i int, slow *slowTenants) float64
	// quantile is compared instead of key, if it is not nil.
	quantile *Quantile
	up       bool
}

// tenantKey reads the asked order.
func tenantKey(r TenantsRequest) (o tenantOrder, err error) {
	name := strings.TrimPrefix(r.Sort, "-")
	switch name {
	case "", "suffers":
		o.key = func(_ *tenantTotal, i int, slow *slowTenants) float64 { return slow.suffers[i] }
	case "requests", "share":
		o.key = func(t *tenantTotal, _ int, _ *slowTenants) float64 { return float64(t.requests) }
	case "errors":
		o.key = func(t *tenantTotal, _ int, _ *slowTenants) float64 { return float64(t.errors) }
	case "mean":
		o.key = func(t *tenantTotal, _ int, _ *slowTenants) float64 { return t.sum / float64(t.requests) }
	case "slow":
		o.key = func(_ *tenantTotal, i int, slow *slowTenants) float64 { return slow.share[i] }
	case "size":
		o.key = func(t *tenantTotal, _ int, _ *slowTenants) float64 { return r.List.Size(t.name) }
	case "cohort":
		o.key = func(t *tenantTotal, _ int, _ *slowTenants) float64 {
			return -float64(slices.Index(series.Cohorts, t.cohort))
		}
	case "name":
		o.up = true
	default:
		if o.quantile = quantileNamed(r.Quantiles, name); o.quantile == nil {
			keys := []string{"suffers", "requests", "errors", "mean", "slow", "cohort", "size", "name"}
			for _, q := range r.Quantiles {
				keys = append(keys, q.Key)
			}
			return o, Invalid("sort", "cannot sort by %s; write one of %s", quote(r.Sort), strings.Join(keys, ", "))
		}
	}
	if strings.HasPrefix(r.Sort, "-") {
		o.up = !o.up
	}
	return o, nil
}

// sort orders tenants, given by their places in the summary. Equals are in the
// order of their requests, then their names; what is not known comes last.
func (s *tenantSummary) sort(list []int, o tenantOrder, slow *slowTenants) error {
	if o.key == nil && o.quantile == nil { // places are in the order of names
		slices.Sort(list)
		if !o.up {
			slices.Reverse(list)
		}
		return nil
	}
	keys := make([]float64, len(s.tenants))
	var h hist.Histogram
	for _, i := range list {
		t := &s.tenants[i]
		if o.quantile != nil {
			if err := h.UnmarshalBinary(t.hist); err != nil {
				return err
			}
			keys[i] = h.Quantile(o.quantile.Q)
		} else {
			keys[i] = o.key(t, i, slow)
		}
		if math.IsNaN(keys[i]) {
			keys[i] = math.Inf(-1)
			if o.up {
				keys[i] = math.Inf(1)
			}
		}
	}
	slices.SortFunc(list, func(a, b int) int {
		c := cmp.Compare(keys[b], keys[a])
		if o.up {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(s.tenants[b].requests, s.tenants[a].requests), cmp.Compare(a, b))
	})
	return nil
}
