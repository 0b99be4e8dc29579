package sla

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
)

// Among tenants that are all alike none is the worst, however their requests were
// sampled; one that is worse is named.
func TestWorstTenantOfSampledRequests(t *testing.T) {
	const trials, tenants, sampled = 15, 16, 200
	end := at(t, "2026-05-18T00:00:00Z")
	for _, c := range []struct {
		name    string
		weights []uint64
	}{{"1", []uint64{1}}, {"8", []uint64{8}}, {"32", []uint64{32}}, {"1, 8 and 32", []uint64{1, 8, 32}}} {
		for _, worse := range []bool{false, true} {
			r := rand.New(rand.NewPCG(18, 2))
			named := 0
			for range trials {
				w := querytest.NewWriter()
				for i := range tenants {
					name := fmt.Sprintf("tenant-%02d", i)
					frustrated := 0.02
					if worse && i == 7 {
						frustrated = 0.2
					}
					for range sampled * len(c.weights) {
						seconds := 0.1
						if r.Float64() < frustrated {
							seconds = 3
						}
						w.Weight = c.weights[r.IntN(len(c.weights))]
						put(w, end.Unix()-500, 1, seconds, series.LabelTenant, name)
					}
				}
				out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 1}, 0)
				row := out.Rows[0]
				if effective := row.Effective; len(c.weights) == 1 && c.weights[0] > 1 && effective != tenants*sampled || row.Requests == tenants*sampled != (effective == 0) {
					t.Fatalf("weights %s: %d requests, effective %d", c.name, row.Requests, effective)
				}
				if row.Worst != nil && (!worse || row.Worst.Name == "tenant-07") {
					named++
				}
			}
			t.Logf("weights %s, one worse %v: named in %d of %d", c.name, worse, named, trials)
			if !worse && named > 1 || worse && named < trials*9/10 {
				t.Errorf("weights %s, one worse %v: a tenant is named in %d of %d", c.name, worse, named, trials)
			}
		}
	}
}
