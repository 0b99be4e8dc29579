package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/trials"
)

// Stationary traffic has no more changes than the searched series may have by chance,
// whether each request is sent or one of 8 or 32 that stands for as many, or some of each
// sampler, and also where the sampler changes midway. TAILSCOPE_TRIALS sets how often twelve services are tried.
func TestSampledTrafficHasNoChanges(t *testing.T) {
	times := trials.Of(4)
	const services, slots, requests = 12, 360, 64
	for _, c := range []struct {
		name    string
		weights []uint64
		then    []uint64 // from the middle on; as before if nil
	}{
		{"1", []uint64{1}, nil}, {"8", []uint64{8}, nil}, {"32", []uint64{32}, nil}, {"1, 8 and 32", []uint64{1, 8, 32}, nil},
		{"change midway from 1 to 32", []uint64{1}, []uint64{32}}, {"change midway from 8 to 1", []uint64{8}, []uint64{1}},
	} {
		r := rand.New(rand.NewPCG(18, 1))
		changes, changed, answers := 0, 0, 0
		for range times {
			w := querytest.NewWriter()
			for s := range services {
				lb := labels.NewBuilder(labels.FromStrings(series.LabelService, fmt.Sprintf("service-%02d", s), series.LabelOperation, "GET /item", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app"))
				full := lb.Labels()
				total := lb.Del(series.LabelOperation).Labels()
				median := 0.01 * math.Exp(2*r.Float64())
				for slot := range int64(slots) {
					h := hist.New(hist.DefaultSchema)
					weights := c.weights
					if c.then != nil && slot >= slots/2 {
						weights = c.then
					}
					for range trials.Poisson(r, requests) {
						if n := weights[r.IntN(len(weights))]; r.Uint64N(n) == 0 {
							d := median * math.Exp(0.6*r.NormFloat64())
							if r.IntN(200) == 0 {
								d *= 20
							}
							_ = h.RecordNanos(int64(1e9*d), n)
						}
					}
					for view, l := range map[series.View]labels.Labels{series.Full: full, series.Marginal: full, series.Total: total} {
						if err := w.Merge(epoch+10*slot, series.Series{Family: series.SpanDuration, View: view, Labels: l}, h); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			st := pebble(t, t.TempDir())
			out := found(t, NewFinder(put(t, st, w)), asked(0, 10*slots))
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			of := map[string]bool{}
			for _, x := range out.Changes {
				of[x.Service] = true
				t.Log(x.Sentence)
			}
			if changes, changed = changes+len(out.Changes), changed+len(of); len(of) > 0 {
				answers++
			}
		}
		t.Logf("weights %s: %d changes in %d of %d services that did not change, in %d of %d answers", c.name, changes, changed, times*services, answers, times)
		// An answer is adjusted for all that it searched: one in 20 may find something.
		if most := float64(times) * discovery; float64(answers) > most+3*math.Sqrt(most) {
			t.Errorf("weights %s: changes in %d of %d answers", c.name, answers, times)
		}
	}
}
