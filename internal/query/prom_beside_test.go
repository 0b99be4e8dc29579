package query

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// scraped is a counter as Prometheus would have scraped it: a storage.Queryable of
// one series.
type scraped []promSample

func (s scraped) Querier(int64, int64) (storage.Querier, error) { return s, nil }
func (s scraped) Close() error                                  { return nil }
func (s scraped) Select(ctx context.Context, _ bool, _ *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	return &promSet{ctx: ctx, series: []*promSeries{{ctx, labels.FromStrings(labels.MetricName, "x_total"), s}}}
}
func (s scraped) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (s scraped) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// A rate is that of the window that ends with the last whole slot, to within 1 %, of
// steady and of changing traffic. Beside it stand Prometheus' rates of a counter that
// it scrapes every 15 s, which have windows that hold only one sample.
func TestRatesBesidePrometheus(t *testing.T) {
	ctx := context.Background()
	for _, traffic := range []struct {
		name   string
		passed func(s float64) float64 // requests since the beginning
	}{
		{"steady", func(s float64) float64 { return 20 * s }},
		{"wave of ten minutes", func(s float64) float64 { return 20*s + 600/(2*math.Pi)*10*(1-math.Cos(2*math.Pi*s/600)) }},
	} {
		w := querytest.NewWriter()
		slow := labels.FromStrings("a", "b")
		for slot := int64(0); slot < 3600; slot += 10 {
			h := hist.New(hist.DefaultSchema)
			n := math.Round(traffic.passed(float64(slot+10))) - math.Round(traffic.passed(float64(slot)))
			if err := h.RecordN(0.1, uint64(n)); err != nil {
				t.Fatal(err)
			}
			if err := w.Merge(epoch+slot, series.Series{Family: "x_seconds", Labels: slow}, h); err != nil {
				t.Fatal(err)
			}
		}
		st := storetest.NewTwin()
		if err := w.Put(ctx, st, 1); err != nil {
			t.Fatal(err)
		}
		var counter scraped
		for s := 4.0; s < 3600; s += 15 {
			counter = append(counter, promSample{t: epoch*1000 + int64(s*1000), v: math.Floor(traffic.passed(s))})
		}
		theirs := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
		for _, window := range []float64{15, 45, 60, 75, 90, 420} {
			for _, step := range []float64{7, 15, 60} {
				start, end := at(epoch+907), at(epoch+3500)
				interval := time.Duration(step) * time.Second
				worst := func(slot float64, q promql.Query, err error) float64 {
					if err != nil {
						t.Fatal(err)
					}
					defer q.Close()
					m, err := q.Exec(ctx).Matrix()
					if err != nil {
						t.Fatal(err)
					}
					if len(m) == 0 {
						return math.Inf(1)
					}
					off := 0.0
					for _, p := range m[0].Floats {
						s := float64(p.T)/1000 - float64(epoch)
						s = math.Floor(s/slot) * slot
						truth := (traffic.passed(s) - traffic.passed(s-window)) / window
						off = max(off, math.Abs(p.F/truth-1))
					}
					return off
				}
				ask := func() (promql.Query, error) {
					return engineOver(st).Range(ctx, nil, fmt.Sprintf("histogram_count(rate(x_seconds[%gs]))", window), start, end, interval)
				}
				q, err := ask()
				ours := worst(10, q, err)
				q, err = ask()
				atOnce := worst(0.001, q, err)
				q, err = theirs.NewRangeQuery(ctx, counter, nil, fmt.Sprintf("rate(x_total[%gs])", window), start, end, interval)
				prometheus := worst(0.001, q, err)
				t.Logf("%s, window %g s, step %g s: off by at most %.2f %%, with up to 10 s that it lags %.2f %%; Prometheus %.2f %%", traffic.name, window, step, ours*100, atOnce*100, prometheus*100)
				if ours > 0.01 {
					t.Errorf("%s, window %g s, step %g s: off by %.2f %%, want at most 1 %%", traffic.name, window, step, ours*100)
				}
				if traffic.name == "steady" && atOnce > math.Min(0.01, prometheus+1e-9) {
					t.Errorf("%s, window %g s, step %g s: off by %.2f %%, Prometheus by %.2f %%", traffic.name, window, step, atOnce*100, prometheus*100)
				}
			}
		}
	}
}
