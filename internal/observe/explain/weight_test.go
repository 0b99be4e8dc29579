package explain

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// Requests of which one in 32 was sampled explain what as many unsampled ones do, and
// count for 32 times as many.
func TestSampledRequests(t *testing.T) {
	for _, perSlot := range []int{1, 8} {
		for _, against := range []string{Rest, Before} {
			var answers [2]string
			for i, weight := range []uint64{1, 32} {
				rng := rand.New(rand.NewPCG(18, uint64(perSlot)))
				w := querytest.NewWriter()
				w.Weight = weight
				for slot := range 360 {
					for range perSlot {
						operation, tenant, status, instance, seconds := usual(rng, slot)
						if tenant == "acme" && slot >= 200 {
							seconds *= 4
						}
						w.Span(epoch+int64(slot)*10, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, operation, series.LabelTenant, tenant,
							series.LabelStatus, status, series.LabelInstance, instance, series.LabelKind, "server", series.LabelComponent, "app"), seconds)
					}
				}
				st := storetest.NewTwin()
				if err := w.Put(t.Context(), st, 1); err != nil {
					t.Fatal(err)
				}
				r := ask(2000, 3600, 0.06, 2)
				if r.Against = against; against == Before {
					r.BeforeStart, r.BeforeEnd = time.Unix(epoch, 0), time.Unix(epoch+2000, 0)
				}
				out := explained(t, st, r)
				if out.Inside%weight != 0 || out.Inside == 0 {
					t.Errorf("weight %d: %d inside", weight, out.Inside)
				}
				answers[i] = told(out, weight)
			}
			if answers[0] != answers[1] {
				t.Errorf("%d a slot against %s: weight 1:\n%s\nweight 32:\n%s", perSlot, against, answers[0], answers[1])
			}
		}
	}
}

// Numbers of sampled requests are as many with their tenants as without, but for rounding:
// nothing is left that would be of no tenant.
func TestNothingIsLeftOfTenants(t *testing.T) {
	const slots, each = 30, 2.7
	main := &table{window: slots, index: map[string]int{}}
	byTenant := &table{window: slots, index: map[string]int{}}
	rng := rand.New(rand.NewPCG(18, 3))
	for _, operation := range operations {
		sums := make([]float64, slots)
		for _, tenant := range tenants {
			row, _ := byTenant.row(labels.FromStrings(series.LabelOperation, operation, series.LabelTenant, tenant), nil)
			for slot := range sums {
				n := float64(rng.IntN(30))
				row.all[slot], sums[slot] = n/each, sums[slot]+n
			}
		}
		row, _ := main.row(labels.FromStrings(series.LabelOperation, operation), nil)
		for slot, n := range sums {
			row.all[slot] = n / each
		}
	}
	if all, _ := together(main, byTenant); len(all.rows) != len(operations)*len(tenants) {
		t.Errorf("%d rows of %d operations of %d tenants", len(all.rows), len(operations), len(tenants))
	}
}

// told returns what an answer says, with its counts by weight.
func told(r *api.ExplainResponse, weight uint64) string {
	out := fmt.Sprintln(r.Inside/weight, r.Outside/weight, r.Notes)
	for _, i := range r.Items {
		out += fmt.Sprintf("%s: %d, %d, %.6g %.6g %.6g, %.6g\n", i.Sentence, i.Inside/weight, i.Outside/weight, i.Effect, i.EffLow, i.EffHigh, i.Adjusted)
	}
	return out
}
