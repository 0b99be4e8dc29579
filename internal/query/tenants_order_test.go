package query

import (
	"errors"
	"testing"
)

// Tenants are sorted by p99 as operations are: a quantile goes by either name.
func TestTenantsSortedByAPercentile(t *testing.T) {
	qs := []Quantile{{"0.5", 0.5}, {"0.999", 0.999}}
	for _, c := range []struct {
		sort string
		want float64
		up   bool
	}{{"0.5", 0.5, false}, {"p50", 0.5, false}, {"-p50", 0.5, true}, {"p99.9", 0.999, false}} {
		o, err := tenantKey(TenantsRequest{Sort: c.sort, Quantiles: qs})
		if err != nil || o.quantile == nil || o.quantile.Q != c.want || o.up != c.up {
			t.Errorf("%s: got %+v, %v", c.sort, o, err)
		}
	}
	for _, sort := range []string{"p99", "pp", "0.99"} {
		var invalid *Error
		if _, err := tenantKey(TenantsRequest{Sort: sort, Quantiles: qs}); !errors.As(err, &invalid) || invalid.Field != "sort" {
			t.Errorf("%s was not asked for: %v", sort, err)
		}
	}
}
