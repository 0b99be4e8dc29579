package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/internal/trials"
)

// Of a minute with some fifteen requests inside, all are named only where all became slow: where
// a label with a half of the requests did, or one of few, it is, and that of the rest it is not
// known is said where that is so.
func TestFewInside(t *testing.T) {
	n, first := trials.Of(20), trials.First()
	shop := func(most float64) draw {
		return func(rng *rand.Rand, _ int) (string, string, string, string, float64) {
			o := rng.IntN(4)
			tenant := "acme"
			if x := rng.Float64(); x > most {
				tenant = fmt.Sprint("tenant-", int(11*(x-most)/(1-most)))
			}
			return operations[o], tenant, "ok", anyOf(rng, instances), 0.05 * float64(o+1) * math.Exp(0.4*rng.NormFloat64())
		}
	}
	acme := func(factor float64) func(operation, tenant string) float64 {
		return func(_, tenant string) float64 {
			if tenant == "acme" {
				return factor
			}
			return 1
		}
	}
	cart := func(operation, _ string) float64 {
		if operation == "GET /cart" {
			return 2.5
		}
		return 1
	}
	every := func(factor float64) func(operation, tenant string) float64 {
		return func(string, string) float64 { return factor }
	}
	for _, c := range []struct {
		name, want string // the sentence's beginning, in eight of ten trials that name anything
		perSlot    int
		low        float64
		next       draw
		slower     func(operation, tenant string) float64
	}{
		{"a tenant", "tenant acme: ", 20, 0.05, usual, acme(3)},
		{"a tenant, none before", "tenant acme: ", 20, 0.15, usual, acme(8)},
		{"an operation", "operation GET /cart: ", 20, 0.05, usual, cart},
		{"a tenant of twelve", "tenant acme: ", 40, 0.3, shop(1. / 12), acme(3)},
		{"a tenant with half of the requests", "tenant acme: ", 12, 0.3, shop(0.5), acme(1.8)},
		{"a tenant with a third of the requests", "tenant acme: ", 12, 0.3, shop(0.33), acme(2)},
		{"all", "all requests: ", 20, 0.05, usual, every(1.6)},
		{"all more", "all requests: ", 20, 0.15, usual, every(5)},
		{"all of twelve tenants", "all requests: ", 12, 0.3, shop(1. / 12), every(1.6)},
		{"nobody", "", 20, 0.05, usual, every(1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			named, right := 0, 0
			for trial := range n {
				st := send(t, 7000+first+uint64(trial), 186, c.perSlot, func(rng *rand.Rand, slot int) (string, string, string, string, float64) {
					operation, tenant, status, instance, seconds := c.next(rng, slot)
					if slot >= 180 {
						seconds *= c.slower(operation, tenant)
					}
					return operation, tenant, status, instance, seconds
				})
				r := ask(1800, 1860, c.low, inf)
				r.Against = Before
				out := explained(t, st, r)
				if len(out.Items) == 0 {
					continue
				}
				named++
				unknown := strings.HasSuffix(out.Sentence, "; it is not known whether more of the others are inside as well: draw a longer rectangle")
				if c.want != "" && (strings.HasPrefix(out.Sentence, c.want) || c.want == "all requests: " && unknown) {
					right++
				} else {
					t.Log(out.Inside, "inside:", out.Sentence)
				}
			}
			t.Logf("%s: %d named in %d, %d right", t.Name(), named, n, right)
			if c.want == "" && named > n/10 || c.want != "" && (10*right < 8*named || 2*named < n) {
				t.Errorf("%d of %d named, %d right", named, n, right)
			}
		})
	}
}
