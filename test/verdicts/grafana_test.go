package verdicts

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// panel is a graph of Grafana over a Prometheus data source with its defaults: scrapes of
// 15 s, no least step, questions by POST.
type panel struct {
	shown  time.Duration // the dashboard's range
	points int           // as wide as the graph is
	until  time.Duration // end of the range, after epoch
}

const scrape = 15 * time.Second

// interval returns $__interval, which is also the step: the range over the points, rounded
// as Grafana does, and at least the time between scrapes.
func (p panel) interval() time.Duration {
	rounded := []struct{ below, is time.Duration }{ // from 12.5 s on; less is below the scrapes
		{17500 * time.Millisecond, 15 * time.Second}, {25 * time.Second, 20 * time.Second}, {45 * time.Second, 30 * time.Second},
		{90 * time.Second, time.Minute}, {210 * time.Second, 2 * time.Minute}, {450 * time.Second, 5 * time.Minute},
	}
	for _, r := range rounded {
		if p.shown/time.Duration(p.points) < r.below {
			return max(r.is, scrape)
		}
	}
	return 10 * time.Minute
}

// rateInterval returns $__rate_interval: four scrapes, or a step and a scrape.
func (p panel) rateInterval() time.Duration { return max(p.interval()+scrape, 4*scrape) }

// point is a value at a moment, in time after epoch.
type point struct {
	at    time.Duration
	value float64
}

// ask asks as Grafana's backend does: ends are rounded down to whole steps.
func (w *world) ask(p panel, query string) (points []point) {
	w.t.Helper()
	step := p.interval()
	end := epoch.Add(p.until)
	align := func(t time.Time) string { return strconv.FormatInt(t.Truncate(step).Unix(), 10) }
	form := url.Values{
		"query": {strings.ReplaceAll(query, "$__rate_interval", p.rateInterval().String())},
		"start": {align(end.Add(-p.shown))}, "end": {align(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}
	res, err := http.PostForm("http://"+w.server.Addr()+"/prometheus/api/v1/query_range", form)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Status string
		Data   struct {
			Result []struct{ Values [][2]any }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Status != "success" || len(answer.Data.Result) != 1 {
		w.t.Fatalf("%v is answered %s %+v, %v", form, res.Status, answer, err)
	}
	for _, v := range answer.Data.Result[0].Values {
		text, _ := v[1].(string)
		x, err := strconv.ParseFloat(text, 64)
		at, ok := v[0].(float64)
		if err != nil || !ok {
			w.t.Fatalf("%v is answered with the value %v", form, v)
		}
		points = append(points, point{time.Duration(at*1e9) - time.Duration(epoch.UnixNano()), x})
	}
	return points
}

// Grafana's graphs of rates are right at its defaults, of which $__rate_interval is
// [1m15s] where a point is a minute: within 1 % of the traffic in the window that ends with
// the last whole slot, steady or not, and quantiles within the error of a bucket. What its
// backend asks is made here, by its published rules; TestGrafanaBackend has the backend itself.
func TestGrafanaAtItsDefaults(t *testing.T) {
	testPanels(t, func(w *world) func(panel, string) []point { return w.ask })
}

// testPanels tests graphs over steady and changing traffic. asking returns what asks a world.
func testPanels(t *testing.T, asking func(*world) func(panel, string) []point) {
	const length = 40 * time.Minute
	for _, traffic := range []struct {
		name string
		rate func(slot int) float64 // requests a second of a slot, whole ones in 10 s
	}{
		{"steady", func(int) float64 { return 20 }},
		{"a wave of ten minutes", func(slot int) float64 {
			return math.Round(200+100*math.Sin(2*math.Pi*float64(slot)/60)) / 10
		}},
	} {
		t.Run(traffic.name, func(t *testing.T) {
			w := newWorld(t, 1)
			sum := []float64{0} // requests up to the end of each slot
			for i := range int(length / slot) {
				r := traffic.rate(i)
				// One in ten takes four times as long.
				w.send(slot, load{service: "shop", operation: "GET /cart", perSecond: 0.9 * r, median: 0.05, steady: true},
					load{service: "shop", operation: "GET /cart", perSecond: 0.1 * r, median: 0.2, steady: true})
				sum = append(sum, sum[i]+10*r)
			}
			w.advance(time.Minute)
			ask := asking(w)
			passed := func(at time.Duration) float64 {
				i := min(int(at/slot), len(sum)-2)
				return sum[i] + (sum[i+1]-sum[i])*float64(at-time.Duration(i)*slot)/float64(slot)
			}
			rates, quantiles := 0, 0
			for _, of := range []struct {
				shown  time.Duration
				points int
				window string // what $__rate_interval comes to
			}{
				{15 * time.Minute, 1000, "1m0s"}, {time.Hour, 150, "1m0s"}, {time.Hour, 100, "1m0s"}, {3 * time.Hour, 200, "1m15s"}, {6 * time.Hour, 200, "2m15s"}, {12 * time.Hour, 150, "5m15s"},
			} {
				for _, until := range []time.Duration{36 * time.Minute, 36*time.Minute + 7*time.Second, 37*time.Minute + 43*time.Second} {
					p := panel{of.shown, of.points, until}
					if got := p.rateInterval().String(); got != of.window {
						t.Fatalf("$__rate_interval of %s over %d points is %s, want %s", of.shown, of.points, got, of.window)
					}
					window := p.rateInterval()
					within := func(query string, allowed float64, want func(from, to time.Duration) float64) (n int) {
						for _, x := range ask(p, query) {
							to := x.at / slot * slot
							if to-window < 0 {
								continue
							}
							n++
							if off := x.value/want(to-window, to) - 1; !(math.Abs(off) <= allowed) {
								t.Errorf("%s of %s over %d points until %s, at %s: %g is off by %.2f %%, want at most %g %%", query, of.shown, of.points, until, x.at, x.value, 100*off, 100*allowed)
							}
						}
						return n
					}
					const rate = `sum(rate(span_duration_seconds{service="shop"}[$__rate_interval]))`
					rates += within("histogram_count("+rate+")", 0.01, func(from, to time.Duration) float64 { return (passed(to) - passed(from)) / (to - from).Seconds() })
					quantiles += within("histogram_quantile(0.5, "+rate+")", 0.022, func(_, _ time.Duration) float64 { return 0.05 })
					quantiles += within("histogram_quantile(0.95, "+rate+")", 0.022, func(_, _ time.Duration) float64 { return 0.2 })
				}
			}
			t.Logf("%d rates, %d quantiles", rates, quantiles)
			if rates < 500 {
				t.Errorf("%d rates were asked, want 500 at least", rates)
			}
		})
	}
}
