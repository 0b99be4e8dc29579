package compare

import (
	"math"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/series"
)

// OfSingleTenants reports that a cohort changed for single tenants, which are named in its
// place: it has one only, or one alone makes most of the change, or at most half of its
// tenants can have changed, given how many of those judged by themselves did. One that is
// not judged, as one of few requests, may have changed too.
func OfSingleTenants(cohort *api.CompareRow, changed, judged int) bool {
	if cohort.Tenants == 1 && changed > 0 || cohort.Alone != "" {
		return true
	}
	may := changed + cohort.Tenants - judged
	return changed > 0 && cohort.Tenants > 0 && 2*may <= cohort.Tenants
}

// nameAlone names the tenant of each cohort that changed which makes most of that by itself.
func (c *comparison) nameAlone(cohorts []api.CompareRow) {
	shares := c.tenantShares()
	for i := range cohorts {
		row := &cohorts[i]
		of := map[string]float64{} // its tenants, by their shares of requests
		for name, share := range shares {
			if name != "" && name != series.Other && c.cohortOf(name, share) == row.Cohort {
				of[name] = share
			}
		}
		names := map[string]bool{}
		for j := range row.Measures {
			switch m := &row.Measures[j]; {
			case m.Change == "":
			case m.Name == judge.ErrorShare:
				names[aloneOf(of, c.failedMore)] = true
			default:
				names[aloneOf(of, c.tookMore)] = true
			}
		}
		if len(names) == 1 {
			for name := range names {
				row.Alone = name
			}
		}
	}
}

// aloneOf returns the one of several tenants that makes more than half of all that moved,
// either way, and twice its share of their requests at least; empty if there is none.
func aloneOf(tenants map[string]float64, more func(name string) float64) (alone string) {
	sum, most, requests := 0.0, 0.0, 0.0
	for name, share := range tenants {
		v := math.Abs(more(name))
		if sum, requests = sum+v, requests+share; v > most {
			alone, most = name, v
		}
	}
	if most <= sum/2 || most/sum < 2*tenants[alone]/requests {
		return ""
	}
	return alone
}

// tookMore returns how many seconds more the requests of a tenant take on side B; 0 for one
// that a side has not.
func (c *comparison) tookMore(name string) float64 {
	a, b := c.tenantCounts[0][name], c.tenantCounts[1][name]
	if a.Count == 0 || b.Count == 0 {
		return 0
	}
	return b.Sum - a.Sum*float64(b.Count)/float64(a.Count)
}

// failedMore returns how many more requests of a tenant fail on side B; 0 for one that a side
// has not.
func (c *comparison) failedMore(name string) float64 {
	a, b := c.tenantCounts[0][name], c.tenantCounts[1][name]
	if a.Count == 0 || b.Count == 0 {
		return 0
	}
	return float64(c.tenantFailed[1][name]) - float64(c.tenantFailed[0][name])*float64(b.Count)/float64(a.Count)
}
