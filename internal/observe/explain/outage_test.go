package explain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// failures are two hours of a service of four operations and five tenants, of which requests
// fail independently, or in bursts: by a factor whose logarithm has a deviation and keeps a
// part of itself from slot to slot, for all of them and for each tenant.
type failures struct {
	perSecond        float64
	share            float64 // of the requests that fail, without an outage
	keeps, deviation float64
	outage           func(tenant string, second int) float64 // a share that fails, if above 0
}

const hours = 7200

// duration returns that of a request, whether it fails or not: one in ten is inside.
func (f *failures) duration(rng *rand.Rand) float64 { return 0.04 * math.Exp(1.57*rng.NormFloat64()) }

var statuses = []string{"ok", series.StatusError}

// explain asks about the second hour.
func (f *failures) explain(t *testing.T, seed uint64) *api.ExplainResponse {
	t.Helper()
	rng, slow := rand.New(rand.NewPCG(seed, 28)), rand.New(rand.NewPCG(seed, 29))
	out := querytest.NewWriter()
	walk := func() func() float64 {
		x := f.deviation * rng.NormFloat64()
		return func() float64 {
			x = f.keeps*x + f.deviation*math.Sqrt(1-f.keeps*f.keeps)*rng.NormFloat64()
			return math.Exp(x - f.deviation*f.deviation/2)
		}
	}
	all, of := walk(), map[string]func() float64{}
	for _, tenant := range tenants {
		of[tenant] = walk()
	}
	named := map[[3]string]labels.Labels{}
	for _, operation := range operations {
		for _, tenant := range tenants {
			for _, status := range statuses {
				named[[3]string{operation, tenant, status}] = labels.FromStrings(series.LabelService, "shop", series.LabelOperation, operation, series.LabelTenant, tenant,
					series.LabelStatus, status, series.LabelKind, "server", series.LabelComponent, "app")
			}
		}
	}
	for second := 0; second < hours; second += 10 {
		common := all()
		for _, tenant := range tenants {
			share := min(0.9, f.share*common*of[tenant]())
			if f.outage != nil {
				share = max(share, f.outage(tenant, second))
			}
			for _, operation := range operations {
				each := 10 * f.perSecond / float64(len(tenants)*len(operations))
				for i, mean := range []float64{each * (1 - share), each * share} {
					for range trials.Poisson(rng, mean) {
						out.Span(epoch+int64(second), named[[3]string{operation, tenant, statuses[i]}], f.duration(slow))
					}
				}
			}
		}
	}
	st := storetest.NewTwin()
	if err := out.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	r := ask(3600, 7200, 0.3, inf)
	r.Against, r.End = Before, time.Unix(epoch+hours, 0)
	return explained(t, st, r)
}

// An outage of ten or twenty minutes in the middle of the rectangle, of all or of one tenant, is
// told with who failed, how much, and when.
func TestOutageInside(t *testing.T) {
	n, first := trials.Of(10), trials.First()
	const start = 5100
	for _, c := range []struct {
		length    int
		perSecond float64
		who, want string
	}{
		{600, 0.5, "", "all requests: "}, {600, 2, "", "all requests: "}, {600, 10, "", "all requests: "}, {600, 10, "acme", "tenant acme: "},
		{1200, 0.5, "", "all requests: "}, {1200, 2, "", "all requests: "}, {1200, 2, "acme", "tenant acme: "}, {1200, 10, "acme", "tenant acme: "},
	} {
		t.Run(fmt.Sprintf("%d s at %g a second %s", c.length, c.perSecond, c.who), func(t *testing.T) {
			t.Parallel()
			right, dated, slow := 0, 0, 0
			for trial := range n {
				f := &failures{perSecond: c.perSecond, share: 0.005, outage: func(tenant string, second int) float64 {
					if (c.who == "" || tenant == c.who) && second >= start && second < start+c.length {
						return 0.25
					}
					return 0
				}}
				answer := f.explain(t, first+uint64(trial))
				if len(answer.Items) > 0 { // what fails is as slow as what does not
					slow++
					t.Log(answer.Sentence)
				}
				e := answer.Errors
				if !strings.HasPrefix(e.Sentence, c.want) {
					t.Log(e.Sentence)
					continue
				}
				right++
				const slot = 120
				w := e.Items[0].When
				if w != nil && max(w.Start-epoch-start, epoch+start-w.Start) <= slot && max(w.End-epoch-start-int64(c.length), epoch+start+int64(c.length)-w.End) <= slot &&
					w.Share > 0.15 && strings.Contains(e.Sentence, " ("+percent(float64(w.Share))+" from 2026-05-09 ") {
					dated++
				} else {
					t.Log(e.Sentence)
				}
			}
			t.Logf("%s: %d of %d right, %d with their time, %d named as slow", t.Name(), right, n, dated, slow)
			if slow > n/10 {
				t.Errorf("somebody became slow in %d of %d", slow, n)
			}
			if 10*right < 9*n || 10*dated < 8*n {
				t.Errorf("%d of %d right, %d with their time", right, n, dated)
			}
		})
	}
}

// Where requests fail as ever, however few there are, however they come in bursts, nobody is
// named.
func TestNoOutage(t *testing.T) {
	n, first := trials.Of(1), trials.First()
	named, all := 0, 0
	for _, rate := range []float64{0.5, 2, 10, 60} {
		for _, share := range []float64{0.005, 0.05} {
			for _, b := range []struct{ keeps, deviation float64 }{{0, 0}, {0.9, 0.5}, {0.95, 1}, {0.98, 0.7}} {
				for trial := range n {
					f := &failures{perSecond: rate, share: share, keeps: b.keeps, deviation: b.deviation}
					all++
					if e := f.explain(t, 1000+first+uint64(trial)).Errors; len(e.Items) > 0 {
						named++
						t.Logf("%g a second, %g fail, %+v: %s", rate, share, b, e.Sentence)
					}
				}
			}
		}
	}
	t.Logf("somebody named in %d of %d", named, all)
	if most := 0.05 * float64(all); float64(named) > most {
		t.Errorf("somebody named in %d of %d", named, all)
	}
}
