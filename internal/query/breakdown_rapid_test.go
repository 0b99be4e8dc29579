package query

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// What a band answers per request is what counting the requests between its
// bounds one by one comes to, whatever they are made of, from any store.
func TestBandIsItsRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, settle := anyStore(t, rt)
		w := querytest.NewWriter()
		var all []querytest.Request
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			r := querytest.Request{
				At: epoch + rapid.Int64Range(0, 599).Draw(rt, "at"), Service: "s", Operation: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "operation"),
				Cohort: rapid.SampledFrom([]string{series.Small, series.Large}).Draw(rt, "cohort"), Tenant: "t",
			}
			for i := range rapid.IntRange(1, 4).Draw(rt, "parts") {
				p := querytest.Part{Service: "s", Component: componentOrder[i], Operation: fmt.Sprint("part", rapid.IntRange(0, 2).Draw(rt, "part")), Calls: rapid.IntRange(1, 12).Draw(rt, "calls")}
				p.Self = time.Duration(math.Exp(rapid.Float64Range(0, 14).Draw(rt, "log"))) * time.Microsecond
				p.Critical = p.Self / time.Microsecond / 2 * time.Microsecond
				r.Duration += p.Self
				r.Parts = append(r.Parts, p)
			}
			all = append(all, r)
			w.Request(r)
		}
		if err := w.Put(context.Background(), st, 1); err != nil {
			rt.Fatal(err)
		}
		settle()
		req := BreakdownRequest{Selection: during("service", "s", "operation", "a")}
		req.Start, req.End = at(epoch), at(epoch+600)
		switch rapid.IntRange(0, 3).Draw(rt, "band") {
		case 1:
			req.Above = rapid.Float64Range(0.05, 0.99).Draw(rt, "above")
		case 2:
			req.Low = math.Exp(rapid.Float64Range(-12, 1).Draw(rt, "low"))
		case 3:
			req.Low = math.Exp(rapid.Float64Range(-12, 1).Draw(rt, "low"))
			req.High = req.Low * rapid.Float64Range(1.01, 1000).Draw(rt, "ratio")
		}
		out, err := Breakdown(context.Background(), st, req)
		if err != nil {
			rt.Fatal(err)
		}
		if out.Band == nil {
			for _, r := range all {
				if r.Operation == "a" {
					rt.Fatalf("there is no band, but a request: %+v", out)
				}
			}
			return
		}
		type sum struct{ self, critical, calls float64 }
		for what, band := range map[string]struct {
			low, high float64
			requests  uint64
			mean      api.Float
			get       func(*api.BreakdownPart) *api.PartIn
		}{
			"band":    {float64(out.Band.Low), float64(out.Band.High), out.Band.Requests, out.Band.Mean, func(p *api.BreakdownPart) *api.PartIn { return p.Band }},
			"typical": {0, float64(out.Band.Typical.High), out.Band.Typical.Requests, out.Band.Typical.Mean, func(p *api.BreakdownPart) *api.PartIn { return p.Typical }},
		} {
			var n uint64
			var total float64
			sums := map[partKey]*sum{}
			for _, r := range all {
				if d := r.Duration.Seconds(); r.Operation != "a" || d <= band.low || d > band.high {
					continue
				}
				n++
				total += r.Duration.Seconds()
				for _, p := range r.Parts {
					k := partKey{service: p.Service, component: p.Component, operation: p.Operation}
					if sums[k] == nil {
						sums[k] = &sum{}
					}
					sums[k].self += p.Self.Seconds()
					sums[k].critical += p.Critical.Seconds()
					sums[k].calls += float64(p.Calls)
				}
			}
			same := func(got api.Float, want float64) bool {
				return math.Abs(float64(got)-want) <= 1e-9*max(1, want) || math.IsNaN(float64(got)) && math.IsNaN(want)
			}
			if band.requests != n || !same(band.mean, total/float64(n)) {
				rt.Fatalf("%s (%v, %v] has %d requests of mean %v, want %d of %v", what, band.low, band.high, band.requests, band.mean, n, total/float64(n))
			}
			for i := range out.Parts {
				p := &out.Parts[i]
				want := sums[partKey{p.Service, p.Component, p.Operation, p.System}]
				if want == nil {
					want = &sum{}
				}
				got := band.get(p)
				if !same(got.Seconds, want.self/float64(n)) || !same(got.Critical, want.critical/float64(n)) || !same(got.Calls, want.calls/float64(n)) || !same(got.Share, want.self/total) {
					rt.Fatalf("%s (%v, %v] of %d requests: %s %s is %+v, want %+v in all", what, band.low, band.high, n, p.Component, p.Operation, *got, *want)
				}
			}
		}
	})
}

// A service of many parts is answered in minutes, unless that would be few
// columns or tens of seconds were asked for.
func TestBreakdownStepGrowsWithParts(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for i := range 60 {
		w.Request(querytest.Request{At: epoch + int64(i)*60, Service: "s", Operation: "o", Duration: time.Second,
			Parts: []querytest.Part{{Service: "s", Component: "app", Operation: fmt.Sprint(i), Self: time.Second, Calls: 1}}})
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seconds int64
		grid    Grid
		want    int64
	}{
		{3600, Grid{Width: 1000}, 60},
		{3600, Grid{Width: 40}, 120},
		{3600, Grid{Step: 10}, 10},
		{1740, Grid{Width: 1000}, 10}, // 60 parts are few enough for 29 columns not to be worth it
		{540, Grid{Width: 1000}, 10},
	} {
		r := BreakdownRequest{Selection: during("service", "s"), Grid: c.grid}
		r.Start, r.End = at(epoch), at(epoch+c.seconds)
		out, err := Breakdown(context.Background(), st, r)
		if err != nil {
			t.Fatal(err)
		}
		if out.Step != c.want || out.Total != uint64(c.seconds/60) || float64(out.Seconds) != float64(c.seconds/60) {
			t.Errorf("%d s, %+v: a step of %d s, want %d; %d requests of %v s", c.seconds, c.grid, out.Step, c.want, out.Total, out.Seconds)
		}
	}
}

// The parts with the least time are left out when there are very many; what is
// answered of components has them still.
func TestBreakdownOfVeryManyParts(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	const n = maxParts + 7
	for i := range n {
		w.Request(querytest.Request{At: epoch, Service: "s", Operation: "o", Duration: time.Second,
			Parts: []querytest.Part{{Service: "s", Component: "app", Operation: fmt.Sprint(i), Self: time.Second, Calls: 1}}})
	}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	r := BreakdownRequest{Selection: during("service", "s")}
	r.Start, r.End = at(epoch), at(epoch+60)
	out, err := Breakdown(context.Background(), st, r)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Parts) != maxParts || !strings.Contains(out.Note, "the 7 parts") || float64(out.Components[0].Seconds) != n || float64(out.Components[0].Share) != 1 {
		t.Errorf("%d parts, note %q, %v s in %s", len(out.Parts), out.Note, out.Components[0].Seconds, out.Components[0].Component)
	}
}
