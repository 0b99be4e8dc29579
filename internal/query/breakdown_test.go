package query

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// orders is a store that tests read only.
func orders(t *testing.T) store.Store {
	t.Helper()
	st, err := ordersOnce()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

var ordersOnce = sync.OnceValues(func() (store.Store, error) { return newOrders() })

func newOrders() (store.Store, error) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	querytest.Orders(w)
	return st, w.Put(context.Background(), st, 1)
}

// during selects the half hour of querytest.Orders.
func during(pairs ...string) Selection {
	sel := Selection{Start: time.Unix(querytest.Epoch+1800, 0), End: time.Unix(querytest.Epoch+3600, 0)}
	for i := 0; i < len(pairs); i += 2 {
		sel.Matchers = append(sel.Matchers, labels.MustNewMatcher(labels.MatchEqual, pairs[i], pairs[i+1]))
	}
	return sel
}

func near(t *testing.T, what string, got api.Float, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func component(t *testing.T, out *api.BreakdownResponse, name string) (api.BreakdownComponent, api.BandComponent) {
	t.Helper()
	i := slices.IndexFunc(out.Components, func(c api.BreakdownComponent) bool { return c.Component == name })
	if i < 0 {
		t.Fatalf("there is no component %s", name)
	}
	if out.Band == nil {
		return out.Components[i], api.BandComponent{}
	}
	return out.Components[i], out.Band.Components[i]
}

func partNamed(t *testing.T, out *api.BreakdownResponse, operation string) api.BreakdownPart {
	t.Helper()
	i := slices.IndexFunc(out.Parts, func(p api.BreakdownPart) bool { return p.Operation == operation })
	if i < 0 {
		t.Fatalf("there is no part %s", operation)
	}
	return out.Parts[i]
}

var usualQuantiles = []Quantile{{"0.5", 0.5}, {"0.99", 0.99}}

// Time that passes in a service that was called is that service's, however many components
// both have.
func TestBreakdownOfServices(t *testing.T) {
	out, err := Breakdown(context.Background(), orders(t), BreakdownRequest{
		Selection: during("service", "shop", "operation", "POST /order"), Grid: Grid{Step: 60},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]float64{"app": {0.070, 0.050}, "db": {0.060, 0.020}} // stock, shop
	for name, each := range want {
		c, _ := component(t, out, name)
		if len(c.Services) != 2 || c.Services[0].Service != "stock" || c.Services[1].Service != "shop" {
			t.Fatalf("%s is of %+v", name, c.Services)
		}
		for i, seconds := range each {
			s := c.Services[i]
			near(t, name+" of "+s.Service, s.Seconds, 180*seconds)
			near(t, "its share", s.Share, seconds/0.2)
			near(t, "its share of the critical path", s.CriticalShare, seconds/0.2)
		}
		near(t, name+" in all", c.Services[0].Seconds+c.Services[1].Seconds, float64(c.Seconds))
	}
	if out, err = Breakdown(context.Background(), orders(t), BreakdownRequest{
		Selection: during("service", "shop", "operation", "GET /orders"), Grid: Grid{Step: 60},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Components {
		if c.Services != nil {
			t.Errorf("%s is of shop alone: %+v", c.Component, c.Services)
		}
	}
}

// 180 slots of nine requests of 0.1 s and one of 1 s: the breakdown answers
// what they were made of, in all, over time, and of the tenth that is slow.
func TestBreakdown(t *testing.T) {
	out, err := Breakdown(context.Background(), orders(t), BreakdownRequest{
		Selection: during("service", "shop", "operation", "GET /orders"), Grid: Grid{Step: 60}, Quantiles: usualQuantiles, Limit: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if out.Total != 1800 || len(out.Times) != 30 || out.Requests[7] != 60 || out.Step != 60 || out.Times[1] != querytest.Epoch+1860 {
		t.Errorf("got %d requests, %d steps of %d s with %d each", out.Total, len(out.Times), out.Step, out.Requests[7])
	}
	seconds := 1620*0.1 + 180*1.0
	near(t, "seconds", out.Seconds, seconds)
	var names []string
	for _, c := range out.Components {
		names = append(names, c.Component)
	}
	if got := strings.Join(names, " "); got != "app db cache external queue" {
		t.Errorf("components are %s", got)
	}
	db, dbBand := component(t, out, "db")
	dbSeconds := 1620*0.054 + 180*0.954
	near(t, "db", db.Seconds, dbSeconds)
	near(t, "share of db", db.Share, dbSeconds/seconds)
	near(t, "db in a minute", db.Self[0], dbSeconds/30)
	near(t, "critical path of db in a minute", db.Critical[0], dbSeconds/30)
	if q := float64(db.Quantiles["0.5"]); math.Abs(q-0.054) > 0.022*0.054 {
		t.Errorf("half of the requests spend %v s in the database, want 0.054", q)
	}
	queue, _ := component(t, out, "queue")
	near(t, "queue", queue.Seconds, 1800*0.005)
	cache, _ := component(t, out, "cache")
	near(t, "cache", cache.Seconds, 18*0.010)
	near(t, "critical path of the cache", cache.CriticalShare, 18*0.025/seconds)

	b := out.Band
	if b.Requests != 180 || b.Low >= 1 || b.Low < 0.97 || !math.IsInf(float64(b.High), 1) || b.Above != 0.95 {
		t.Errorf("above the 95th percentile are %d requests in (%v, %v]", b.Requests, b.Low, b.High)
	}
	near(t, "mean of the band", b.Mean, 1)
	near(t, "db in the band", dbBand.Band.Seconds, 0.954)
	near(t, "share of db in the band", dbBand.Band.Share, 0.954)
	near(t, "calls of db in the band", dbBand.Band.Calls, 13)
	if b.Typical.Requests != 1620 || b.Typical.High < 0.1 || b.Typical.High > 0.103 {
		t.Errorf("typical are %d requests up to %v", b.Typical.Requests, b.Typical.High)
	}
	near(t, "typical mean", b.Typical.Mean, 0.1)
	near(t, "db of the typical", dbBand.Typical.Seconds, 0.054)

	first := out.Parts[0]
	if first.Operation != "SELECT orders" || first.Calls != 1800 || first.Requests != 1800 || first.Repeated != 0 || first.NPlusOne {
		t.Errorf("the first part is %+v", first)
	}
	near(t, "share of the first part in the band", first.Band.Share, 0.93)
	near(t, "the first part over time", first.Self[0], 54*0.03+6*0.93)
	items := partNamed(t, out, "SELECT items")
	if !items.NPlusOne || items.Repeated != 1800 || items.Calls != 12*1800 {
		t.Errorf("twelve equal queries in one request: %+v", items)
	}
	near(t, "items per request", items.PerRequest, 12)
	near(t, "mean of a query", items.Mean, 0.002)
	if items.Self != nil {
		t.Error("the fourth part has steps, though two were asked for")
	}
	if got := partNamed(t, out, "GET /orders"); got.NPlusOne || got.Mean == 0 {
		t.Errorf("the request's own part is %+v", got)
	}

	if len(out.FanOuts) != 1 || len(out.FanOuts[0].Instances) != 3 {
		t.Fatalf("fan-outs: %+v", out.FanOuts)
	}
	last := map[string]api.FanOutInstance{}
	for _, i := range out.FanOuts[0].Instances {
		last[i.Instance] = i
	}
	if last["cache-1"].Last != 0 || last["cache-2"].Last != 9 || last["cache-3"].Last != 9 || last["cache-1"].Calls != 18 {
		t.Errorf("last to end: %+v", last)
	}
	near(t, "share of being last", last["cache-2"].Share, 0.5)
	if !math.IsNaN(float64(last["cache-2"].BandShare)) {
		t.Errorf("nobody was last in the band, but the share is %v", last["cache-2"].BandShare)
	}
}

// Shares of every kind add up to one.
func TestBreakdownSharesAddUp(t *testing.T) {
	st := orders(t)
	for _, match := range [][]string{{"service", "shop"}, {"service", "shop", "cohort", series.Large}, {"service", "stock"}, {"service", "shop", "tenant", "globex"}} {
		out, err := Breakdown(context.Background(), st, BreakdownRequest{Selection: during(match...), Quantiles: usualQuantiles})
		if err != nil {
			t.Fatal(err)
		}
		var all, parts, band, typical, bandParts, over float64
		for i, c := range out.Components {
			if c.Component == series.ComponentQueue {
				continue
			}
			all += float64(c.Share)
			for _, s := range c.Self {
				over += float64(s)
			}
			if out.Band != nil {
				band += float64(out.Band.Components[i].Band.Share)
				typical += float64(out.Band.Components[i].Typical.Share)
			}
		}
		near(t, "components", api.Float(all), 1)
		near(t, "over time", api.Float(over), float64(out.Seconds))
		if out.Band == nil {
			if len(out.Parts) > 0 || !strings.Contains(out.Note, "not by tenant") {
				t.Errorf("by tenant there are %d parts and the note %q", len(out.Parts), out.Note)
			}
			continue
		}
		for _, p := range out.Parts {
			if p.Component != series.ComponentQueue {
				parts += float64(p.Share)
				bandParts += float64(p.Band.Share)
			}
		}
		for what, got := range map[string]float64{"parts": parts, "band": band, "typical": typical, "parts of the band": bandParts} {
			near(t, what, api.Float(got), 1)
		}
	}
}

func TestBreakdownByTenant(t *testing.T) {
	out, err := Breakdown(context.Background(), orders(t), BreakdownRequest{Selection: during("service", "shop", "tenant", "globex"), Quantiles: usualQuantiles})
	if err != nil {
		t.Fatal(err)
	}
	// Two of ten requests of each slot are globex's, one of them slow.
	near(t, "seconds", out.Seconds, 180*1.1)
	if out.Total != 360 {
		t.Errorf("got %d requests, want 360", out.Total)
	}
	db, _ := component(t, out, "db")
	near(t, "db", db.Seconds, 180*(0.054+0.954))
}

// The clocks of services that meet in the requests are answered, others are not.
func TestBreakdownSkews(t *testing.T) {
	for service, want := range map[string]int{"shop": 1, "stock": 0} {
		out, err := Breakdown(context.Background(), orders(t), BreakdownRequest{Selection: during("service", service)})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Skews) != want {
			t.Errorf("%s: got %+v", service, out.Skews)
			continue
		}
		if want == 1 && (out.Skews[0].Service != "stock" || out.Skews[0].Peer != "shop" || out.Skews[0].Calls != 180 || math.Abs(float64(out.Skews[0].Median)-0.25) > 0.006) {
			t.Errorf("got %+v", out.Skews[0])
		}
	}
}

// The bounds of a band are those of buckets, the nearest to what was asked.
func TestBandChoosesWholeBuckets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hist.New(hist.DefaultSchema)
		values := rapid.SliceOfN(rapid.Float64Range(1e-6, 100), 1, 200).Draw(rt, "durations")
		for _, v := range values {
			if err := h.Record(v); err != nil {
				rt.Fatal(err)
			}
		}
		within := func(b buckets) (n uint64) {
			low, high := b.seconds()
			for _, v := range values {
				if v > low && v <= high {
					n++
				}
			}
			return n
		}
		above := rapid.Float64Range(0.01, 0.999).Draw(rt, "above")
		b := Band{Above: above}.choose(h)
		n := b.count(h)
		if n != within(b) || n == 0 {
			rt.Fatalf("above %v are %d requests, counted %d", above, within(b), n)
		}
		asked := (1 - above) * float64(len(values))
		for _, by := range []int64{-1, 1} {
			other := buckets{b.schema, b.low + by, noHigh}
			if m := other.count(h); m > 0 && math.Abs(float64(m)-asked) < math.Abs(float64(n)-asked)-1e-9 {
				rt.Fatalf("above %v are %d requests, but %d are nearer to %v", above, n, m, asked)
			}
		}
		low := rapid.Float64Range(1e-6, 50).Draw(rt, "low")
		high := low * rapid.Float64Range(1.0001, 50).Draw(rt, "ratio")
		b = Band{Low: low, High: high}.choose(h)
		gotLow, gotHigh := b.seconds()
		if b.count(h) != within(b) || gotLow >= gotHigh || math.Abs(math.Log2(gotLow/low)) > 1.0001/32 || math.Abs(math.Log2(gotHigh/high)) > 1.0001/32 {
			rt.Fatalf("(%v, %v] became (%v, %v] with %d requests, counted %d", low, high, gotLow, gotHigh, within(b), b.count(h))
		}
		m, n := upTo(h, 0.5)
		if n != m.count(h) || n != within(m) || 2*n < uint64(len(values)) {
			rt.Fatalf("%d of %d requests are typical, counted %d", within(m), len(values), n)
		}
	})
}

// Requests that took no time at all are typical and in no tail.
func TestBandOfZeroDurations(t *testing.T) {
	h := hist.New(hist.DefaultSchema)
	for range 9 {
		if err := h.Record(0); err != nil {
			t.Fatal(err)
		}
	}
	if got := (Band{Above: 0.95}).choose(h).count(h); got != 9 {
		t.Errorf("all are alike, so all are the tail: got %d", got)
	}
	if err := h.Record(1); err != nil {
		t.Fatal(err)
	}
	if got := (Band{Above: 0.9}).choose(h).count(h); got != 1 {
		t.Errorf("one is slower: got %d", got)
	}
	if b, n := upTo(h, 0.5); n != 9 || b.count(h) != 9 {
		t.Errorf("nine are typical: got %d, counted %d", n, b.count(h))
	}
	if got := (Band{High: 0.5}).choose(h).count(h); got != 9 {
		t.Errorf("nine are faster: got %d", got)
	}
	// Calls may lie in coarser buckets than requests.
	coarse := h.Clone()
	coarse.Reduce(2)
	if got := (Band{Low: 0.5}).choose(h).count(coarse); got != 1 {
		t.Errorf("one is slower, in coarse buckets: got %d", got)
	}
}

func TestNPlusOne(t *testing.T) {
	for _, c := range []struct {
		component            string
		calls, with, repeats uint64
		want                 bool
	}{
		{"db", 100, 100, 0, false},
		{"db", 499, 100, 4, false},
		{"db", 500, 100, 0, true}, // five calls per request that calls
		{"cache", 500, 100, 0, true},
		{"external", 150, 100, 5, true}, // a twentieth makes ten or more
		{"external", 150, 100, 4, false},
		{"app", 5000, 100, 100, false},
		{"messaging", 5000, 100, 100, false},
		{"db", 0, 0, 0, false},
	} {
		if got := NPlusOne(c.component, c.calls, c.with, c.repeats); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// Without a breakdown the answer says why.
func TestBreakdownNote(t *testing.T) {
	st, err := newOrders()
	if err != nil {
		t.Fatal(err)
	}
	w := querytest.NewWriter()
	w.Span(querytest.Epoch+3590, labels.FromStrings("service", "fresh", "operation", "GET /", "kind", "server", "status", "ok", "component", "app"), 0.1)
	w.Span(querytest.Epoch+1800, labels.FromStrings("service", "alone", "operation", "GET /", "kind", "server", "status", "ok", "component", "app"), 0.1)
	if err := w.Put(context.Background(), st, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		match []string
		note  string
	}{
		{[]string{"service", "nobody"}, "sent no spans"},
		{[]string{"service", "job"}, "sends no entry spans"},
		{[]string{"service", "fresh"}, "about 20 s after"},
		{[]string{"service", "alone"}, "without their traces"},
		{[]string{"service", "shop", "operation", "GET /nothing"}, "no request that matches"},
	} {
		out, err := Breakdown(context.Background(), st, BreakdownRequest{Selection: during(c.match...), Now: time.Unix(querytest.Epoch+3600, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.Note, c.note) || out.Components == nil || out.Total != 0 || len(out.Times) == 0 {
			t.Errorf("%v: got note %q, want %q; %d requests", c.match, out.Note, c.note, out.Total)
		}
	}
}

// Where requests lack a breakdown the answer says how many, but not of what is
// too fresh, nor of the few that are always under way.
func TestBreakdownCoverage(t *testing.T) {
	const second = time.Second
	request := func(at int64) querytest.Request {
		return querytest.Request{At: at, Service: "shop", Operation: "GET /", Cohort: "small", Duration: second,
			Parts: []querytest.Part{{Service: "shop", Component: "app", Operation: "GET /", Self: second, Critical: second, Calls: 1}}}
	}
	for _, c := range []struct {
		name         string
		whole, alone int // requests with and without a breakdown
		aloneAt      int64
		match        []string
		note         string
		weight, sent uint64 // of requests that are broken down; of spans
	}{
		{"all", 100, 0, 0, nil, "", 1, 1},
		{"half", 100, 100, 2000, nil, "of 200 requests 100 were broken down", 1, 1},
		{"a few", 100, 2, 2000, nil, "", 1, 1},
		{"too fresh", 100, 100, 3590, nil, "", 1, 1},
		{"of a cohort", 100, 100, 2000, []string{"cohort", "small"}, "", 1, 1},
		{"one in four", 100, 300, 2400, nil, "about 1 in 4 requests was broken down and counts", 4, 1},
		{"one in four, about", 100, 310, 2400, nil, "about 1 in 4 requests was broken down and counts", 4, 1},
		{"one in four of half", 100, 700, 2400, nil, "; of 800 requests 400 were broken down", 4, 1},
		{"one in four of a cohort", 100, 300, 2400, []string{"cohort", "small"}, "about 1 in 4 requests", 4, 1},
		{"sampled by the sender", 100, 0, 2400, nil, "", 3, 3},
		{"one in two of those", 100, 100, 2400, nil, "about 1 in 2 requests", 6, 3},
	} {
		w := querytest.NewWriter()
		w.Weight = c.sent
		for i := range c.whole {
			r := request(querytest.Epoch + 2400 + int64(i))
			r.Weight = c.weight
			w.Request(r)
		}
		for range c.alone {
			w.Span(querytest.Epoch+c.aloneAt, labels.FromStrings("service", "shop", "operation", "GET /", "kind", "server", "status", "ok", "component", "app"), 1)
		}
		st := storetest.NewTwin()
		if err := w.Put(context.Background(), st, 1); err != nil {
			t.Fatal(err)
		}
		out, err := Breakdown(context.Background(), st, BreakdownRequest{
			Selection: during(append([]string{"service", "shop"}, c.match...)...), Now: time.Unix(querytest.Epoch+3600, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if out.Total != uint64(c.whole)*c.weight || (c.note == "") != (out.Note == "") || !strings.Contains(out.Note, c.note) {
			t.Errorf("%s: %d requests, note %q, want %q", c.name, out.Total, out.Note, c.note)
		}
	}
}

func TestBreakdownRefuses(t *testing.T) {
	for _, c := range []struct {
		r     BreakdownRequest
		field string
	}{
		{BreakdownRequest{Selection: during()}, "match"},
		{BreakdownRequest{Selection: during("service", "shop", "component", "db")}, "match"},
		{BreakdownRequest{Selection: during("service", "shop", "cohort", "large", "tenant", "acme")}, "match"},
		{BreakdownRequest{Selection: during("service", "shop"), Band: Band{Above: 0.9, Low: 1}}, "above"},
		{BreakdownRequest{Selection: during("service", "shop"), Band: Band{Low: 2, High: 1}}, "high"},
		{BreakdownRequest{Selection: during("service", "shop"), Limit: 1000}, "limit"},
	} {
		_, err := Breakdown(context.Background(), orders(t), c.r)
		var e *Error
		if !errors.As(err, &e) || e.Field != c.field || e.Code != CodeInvalid {
			t.Errorf("%+v: got %v, want %s at fault", c.r, err, c.field)
		}
	}
}
