package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestViewOf(t *testing.T) {
	for _, c := range []struct {
		family string
		names  []string
		want   series.View
		ok     bool
	}{
		{series.SpanDuration, nil, series.Total, true},
		{series.SpanDuration, []string{"service", "kind", "status", "version", "region"}, series.Total, true},
		{series.SpanDuration, []string{"service", "operation"}, series.Marginal, true},
		{series.SpanSelf, []string{"instance"}, series.Marginal, true},
		{series.SpanDuration, []string{"operation", "tenant"}, series.Full, true},
		{series.SpanDuration, []string{"instance", "tenant"}, series.Full, false},
		{"http_server_duration_seconds", []string{"instance", "tenant"}, series.Full, true},
	} {
		if v, ok := ViewOf(c.family, c.names...); v != c.want || ok != c.ok {
			t.Errorf("%s %v: got %v, %v; want %v, %v", c.family, c.names, v, ok, c.want, c.ok)
		}
	}
}

// A step is round, as fine as was allowed, and cuts a range into columns that
// cover it and are no more than was asked for.
func TestChosenStepsFitTheWidth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := time.Unix(rapid.Int64Range(0, 1<<33).Draw(rt, "start"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns"))
		end := start.Add(time.Duration(rapid.Int64Range(1, 1e17).Draw(rt, "length")))
		g := Grid{Width: rapid.SampledFrom([]int{0, 2, 60, 300, 1280, MaxColumns}).Draw(rt, "width"), Step: rapid.SampledFrom([]int64{0, 0, 10, 15, 60, 3600}).Draw(rt, "step")}
		interval := rapid.SampledFrom([]int64{0, 15, 60, 300, 100_000}).Draw(rt, "interval")
		step, err := g.choose(start, end, interval)
		if err != nil {
			if g.Step == 0 || g.Width != 0 {
				rt.Fatal(err)
			}
			return // too many columns of a length that was insisted upon
		}
		a, b := align(start, end, step)
		switch {
		case step%10 != 0 || step < interval || step < g.Step:
			rt.Fatalf("step %d is finer than allowed", step)
		case a%step != 0 || b%step != 0 || a > start.Unix() || time.Unix(b, 0).Before(end) || start.Unix()-a >= step || b-end.Unix() > step:
			rt.Fatalf("[%d, %d) by %d does not cover [%s, %s) closely", a, b, step, start, end)
		case g.Width > 0 && (b-a)/step > int64(g.Width), (b-a)/step > MaxColumns:
			rt.Fatalf("%d columns are more than %d", (b-a)/step, g.Width)
		}
		if i := slices.Index(steps[:], step); g.Step == 0 && i > 0 && steps[i-1] >= max(10, interval) {
			width := g.Width
			if width == 0 {
				width = 300
			}
			if a, b := align(start, end, steps[i-1]); (b-a)/steps[i-1] <= int64(width) {
				rt.Fatalf("step %d would have fitted as well as %d", steps[i-1], step)
			}
		}
	})
}

// A heatmap loses nothing: its cells add up to the distribution, every
// observation is in a row that holds its value, and rows are few enough.
func TestHeatmapHoldsEveryObservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, w := storetest.NewTwin(), querytest.NewWriter()
		s := series.Series{Family: "x"}
		signed := rapid.Bool().Draw(rt, "signed")
		type seen struct {
			slot int64
			v    float64
		}
		var all []seen
		for range rapid.IntRange(1, 60).Draw(rt, "n") {
			o := seen{rapid.Int64Range(0, 20).Draw(rt, "slot"), math.Exp(rapid.Float64Range(-12, 8).Draw(rt, "log"))}
			if signed && rapid.Bool().Draw(rt, "minus") {
				o.v = -o.v
			}
			if rapid.IntRange(0, 9).Draw(rt, "zero") == 0 {
				o.v = 0
			}
			all = append(all, o)
			w.Observe(epoch+o.slot*10, s, o.v)
		}
		if err := w.Put(context.Background(), st, 1); err != nil {
			rt.Fatal(err)
		}
		limit := rapid.SampledFrom([]int{0, 40, 100, 2000}).Draw(rt, "rows")
		sel := Selection{Family: "x", Start: at(epoch), End: at(epoch + 210)}
		got, err := Heatmap(context.Background(), st, HeatmapRequest{Selection: sel, Grid: Grid{Step: 10}, Rows: limit})
		if err != nil {
			rt.Fatal(err)
		}
		if limit > 0 && len(got.Bounds)-1 > limit {
			rt.Fatalf("%d rows, want at most %d", len(got.Bounds)-1, limit)
		}
		for i := 1; i < len(got.Bounds); i++ {
			low, high := float64(got.Bounds[i-1]), float64(got.Bounds[i])
			if !(low < high) {
				rt.Fatalf("bounds %v are not ascending", got.Bounds)
			}
			if low > 0 && high/low-1 > float64(got.Error)*(1+1e-9) {
				if !(got.Bounds[0] == 0 && i == 1) { // the row around zero has no relative error
					rt.Fatalf("row (%v, %v] is wider than the error %v", low, high, got.Error)
				}
			}
		}
		want := map[[2]int64]uint64{}
		for _, o := range all {
			row := -1
			for i := 1; i < len(got.Bounds); i++ {
				low, high := float64(got.Bounds[i-1]), float64(got.Bounds[i])
				inside := o.v > low && o.v <= high
				if high <= 0 && !(low < 0 && high == 0) || o.v < 0 && low < 0 {
					inside = o.v >= low && o.v < high
				}
				if o.v == 0 && low <= 0 && high > 0 {
					inside = true
				}
				if inside {
					row = i - 1
				}
			}
			if row < 0 {
				rt.Fatalf("no row holds %v: %v", o.v, got.Bounds)
			}
			want[[2]int64{epoch + o.slot*10, int64(row)}]++
		}
		var total, maxCell uint64
		for _, c := range got.Columns {
			var sum uint64
			for i, row := range c.Rows {
				sum += c.Counts[i]
				maxCell = max(maxCell, c.Counts[i])
				if k := [2]int64{c.Start, int64(row)}; want[k] != c.Counts[i] {
					rt.Fatalf("cell %v holds %d, want %d (row %v to %v)", k, c.Counts[i], want[k], got.Bounds[row], got.Bounds[row+1])
				}
			}
			if sum != c.Count {
				rt.Fatalf("column of %d adds up to %d", c.Count, sum)
			}
			total += sum
		}
		if total != uint64(len(all)) || got.Count != total || got.MaxCell != maxCell {
			rt.Fatalf("holds %d (says %d), largest %d (says %d); want %d", total, got.Count, maxCell, got.MaxCell, len(all))
		}
	})
}

// The nearest slot is the nearest, however far it is.
func TestNearestSlot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, w := storetest.NewTwin(), querytest.NewWriter()
		var slots []int64
		for range rapid.IntRange(1, 6).Draw(rt, "n") {
			far := math.Exp(rapid.Float64Range(0, 16).Draw(rt, "log distance"))
			if rapid.Bool().Draw(rt, "before") {
				far = -far
			}
			slots = append(slots, series.Base.Slot(epoch+int64(far)))
			w.Observe(slots[len(slots)-1], series.Series{Family: "x"}, 1)
		}
		if err := w.Put(context.Background(), st, 1); err != nil {
			rt.Fatal(err)
		}
		got, err := Nearest(context.Background(), st, NearestRequest{Selection: Selection{Family: "x"}, Time: at(epoch)})
		if err != nil {
			rt.Fatal(err)
		}
		best := int64(math.MaxInt64)
		for _, s := range slots {
			best = min(best, away(epoch, s, 10))
		}
		if len(got.Series) != 1 {
			rt.Fatalf("%d answers", len(got.Series))
		}
		if d := away(epoch, int64(got.Series[0].Time), 10); d != best {
			rt.Fatalf("found a slot %d s away, the nearest is %d s away: %v", d, best, slots)
		}
	})
}

func TestNearestSlotIsNowhere(t *testing.T) {
	got, err := Nearest(context.Background(), storetest.NewTwin(), NearestRequest{Time: at(epoch)})
	if err != nil || len(got.Series) != 0 {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
}

// Each query reads the view that is just detailed enough.
func TestQueriesReadTheCoarsestView(t *testing.T) {
	w := querytest.NewWriter()
	querytest.Shop(w)
	st := &spy{Store: storetest.NewTwin()}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	sel := func(ms ...*labels.Matcher) Selection {
		return Selection{Start: at(epoch), End: at(epoch + 3600), Matchers: ms}
	}
	eq := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, n, v) }
	e := engineOver(st)
	prom := func(q string) func() error {
		return func() error { return run(t, e, q, at(epoch+3600)).Err }
	}
	for _, c := range []struct {
		name string
		ask  func() error
		want series.View
	}{
		{"services", func() error { _, err := Services(ctx, st, ServicesRequest{Selection: sel()}); return err }, series.Total},
		{"heatmap", func() error {
			_, err := Heatmap(ctx, st, HeatmapRequest{Selection: sel(eq("service", "checkout"))})
			return err
		}, series.Total},
		{"heatmap of an operation", func() error {
			_, err := Heatmap(ctx, st, HeatmapRequest{Selection: sel(eq("operation", "POST /order"))})
			return err
		}, series.Marginal},
		{"timeline by tenant", func() error {
			_, err := Timeline(ctx, st, TimelineRequest{Selection: sel(), By: []string{"tenant"}})
			return err
		}, series.Full},
		{"distribution of an instance", func() error {
			_, err := Distribution(ctx, st, DistributionRequest{Selection: sel(eq("instance", "pod-a"))})
			return err
		}, series.Marginal},
		{"sum of rates", prom(`sum(rate(span_duration_seconds[5m]))`), series.Total},
		{"rates", prom(`rate(span_duration_seconds{service="batch"}[5m])`), series.Marginal},
		{"sum by tenant", prom(`sum by (tenant) (rate(span_duration_seconds[5m]))`), series.Full},
		{"instant", prom(`span_duration_seconds`), series.Marginal},
		{"instant of a tenant", prom(`span_duration_seconds{tenant="acme"}`), series.Full},
	} {
		st.queries = nil
		if err := c.ask(); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, q := range st.queries {
			if q.View != c.want {
				t.Errorf("%s read view %d, want %d", c.name, q.View, c.want)
			}
		}
		if len(st.queries) == 0 {
			t.Errorf("%s read nothing", c.name)
		}
	}
}

// spy remembers queries.
type spy struct {
	store.Store
	queries []store.Query
}

func (s *spy) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	s.queries = append(s.queries, q)
	return s.Store.Query(ctx, q)
}

// Totals must not depend on how a question cuts them: the sum over groups,
// over steps and over services is the same.
func TestAnswersAgree(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	counts := querytest.Shop(w)
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	total := uint64(0)
	for _, n := range counts {
		total += uint64(n)
	}
	sel := Selection{Start: at(epoch), End: at(epoch + 3600)}
	for _, by := range [][]string{nil, {"service"}, {"tenant"}, {"operation", "status"}, {"instance"}} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			d, err := Distribution(ctx, st, DistributionRequest{Selection: sel, By: by})
			if err != nil {
				t.Fatal(err)
			}
			tl, err := Timeline(ctx, st, TimelineRequest{Selection: sel, By: by, Grid: Grid{Step: 300}})
			if err != nil {
				t.Fatal(err)
			}
			var a, b uint64
			for _, g := range d.Groups {
				a += g.Count
			}
			for _, g := range tl.Groups {
				for _, n := range g.Count {
					b += n
				}
			}
			if a != total || b != total {
				t.Errorf("distribution counts %d, timeline %d; want %d", a, b, total)
			}
		})
	}
	sv, err := Services(ctx, st, ServicesRequest{Selection: sel})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sv.Services {
		want := counts[[2]string{s.Name, "server"}]
		if s.Name == "batch" { // it has no requests of its own, so all its spans are
			want = counts[[2]string{"batch", "internal"}]
		}
		if s.Requests != uint64(want) {
			t.Errorf("%s has %d requests, want %d", s.Name, s.Requests, want)
		}
	}
	tn, err := Tenants(ctx, st, TenantsRequest{Selection: sel, Sort: "requests", Limit: 2, Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	if tn.Total != 4 || len(tn.Tenants) != 2 || tn.Tenants[0].Requests < tn.Tenants[1].Requests {
		t.Errorf("tenants: %+v", tn)
	}
}

func TestApdex(t *testing.T) {
	h := hist.New(hist.DefaultSchema)
	for _, v := range []float64{0.1, 0.2, 0.3, 0.9, 1.5, 3} { // 3 satisfied, 2 tolerating, 1 frustrated
		if err := h.Record(v); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := ScoreApdex(h, 0, 0.5).Score, (3+2/2.0)/6; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := ScoreApdex(h, 2, 0.5).Score, (3+2/2.0)/8; math.Abs(got-want) > 1e-9 {
		t.Errorf("with two failed: got %v, want %v", got, want)
	}
	if got := ScoreApdex(hist.New(5), 3, 0.5).Score; got != 0 {
		t.Errorf("all failed: got %v, want 0", got)
	}
	if got := ScoreApdex(nil, 0, 0.5).Score; !math.IsNaN(got) {
		t.Errorf("nothing: got %v, want NaN", got)
	}
}

func TestNearestName(t *testing.T) {
	for name, want := range map[string]string{"tennant": "tenant", "oparation": "operation", "srvice": "service", "": "kind"} {
		if got := NearestName(name, series.SpanLabels); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// The last step of a range that ends in its middle is not over: its rate is
// over what there was of it.
func TestRateOfAnUnfinishedStep(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for i := range int64(90) {
		w.Span(epoch+i, labels.FromStrings("service", "s", "kind", "server"), 0.01)
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	sel := Selection{Start: at(epoch), End: at(epoch + 90)}
	tl, err := Timeline(context.Background(), st, TimelineRequest{Selection: sel, Grid: Grid{Step: 60}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tl.Groups[0].Rate); got != "[1 1]" {
		t.Errorf("rates %s, want [1 1]", got)
	}
	sv, err := Services(context.Background(), st, ServicesRequest{Selection: sel, Grid: Grid{Step: 60}})
	if err != nil {
		t.Fatal(err)
	}
	if s := sv.Services[0]; s.Rate != 1 || fmt.Sprint(s.Sparkline.Rate) != "[1 1]" {
		t.Errorf("rate %v, sparkline %v; want 1 throughout", s.Rate, s.Sparkline.Rate)
	}
}
