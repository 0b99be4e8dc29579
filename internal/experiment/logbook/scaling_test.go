package logbook

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store/storetest"
)

func capacityReport(steps, slots int) api.SessionReport {
	nan := api.Float(math.NaN())
	x := &api.Capacity{
		Format: 1, Name: "shop at its limit", Service: "shop", Target: "http://127.0.0.1:8080", Mode: "rate", Unit: "requests/s", Objective: "p99 < 200ms",
		Arrivals: "poisson", Start: api.Float(epoch), End: nan, Bounds: []api.Float{0, 0.1, 0.2, 0.4}, Verdict: "found", Headline: "p99 < 200ms is kept up to 812 requests/s",
		Answer: &api.CapacityAnswer{Value: 812, Low: 799, High: 826, Level: 0.95, Rate: 811, Limit: "p99 < 200ms"},
		Law:    &api.ScalingLaw{R2: 0.99, Level: 0.95},
	}
	for i := range 400 {
		x.Law.Points = append(x.Law.Points, api.ScalingPoint{N: api.Float(i)})
	}
	for i := range steps {
		s := api.CapacityStep{Phase: "rise", X: api.Float(100 * i), Kept: "kept", StoppedAfter: nan, Queued: nan,
			Latency: api.BenchLatency{Bounds: []api.Float{0, 1}, Counts: []uint64{5}}}
		for j := range slots {
			s.Slots = append(s.Slots, api.CapacitySlot{Time: api.Float(j), Width: 1, Counts: []uint64{1, 2, 3}, Errors: 1})
		}
		x.Steps = append(x.Steps, s)
	}
	return api.SessionReport{Kind: KindCapacity, Name: x.Name, Service: x.Service, Start: api.Float(epoch), Capacity: x}
}

func simulationReport(layouts, work int) api.SessionReport {
	x := &api.Simulation{
		Format: 1, Name: "solr on more nodes", Service: "solr", File: "simulate: solr\n", Start: api.Float(epoch), End: api.Float(epoch + 2), Variable: "nodes",
		Headline: "from 4 to 6 nodes nothing is gained",
		Leaves:   []api.SimulationLeaf{{Class: "select", Weight: 1, Latency: api.BenchLatency{Bounds: []api.Float{0, 1}, Counts: []uint64{5}}}},
	}
	for i := range layouts {
		l := api.SimulationLayout{Name: fmt.Sprintf("%d nodes", i+1), X: api.Float(i + 1), Nodes: i + 1, Stable: true, Quantiles: map[string]api.ScalingValue{"0.99": {Value: 0.1}}, Leaf: map[string]api.Float{"0.99": 0.1}}
		for j := range work {
			l.Work = append(l.Work, api.SimulationWork{Kind: "leaf", Query: j, Start: api.Float(j), End: api.Float(j + 1)})
		}
		x.Layouts = append(x.Layouts, l)
	}
	return api.SessionReport{Kind: KindSimulation, Name: x.Name, Service: x.Service, Start: api.Float(epoch), Ended: true, Simulation: x}
}

// Both are kept whole, listed without what is long, found by their words, and
// stopped like any other; the store has them after a restart.
func TestCapacityAndSimulationInTheLogBook(t *testing.T) {
	ctx, c, st := t.Context(), newClock(), storetest.NewTwin()
	o := Options{Store: st, Now: c.read}
	r := New(o)
	for id, p := range map[string]api.SessionReport{"c": capacityReport(3, 5), "s": simulationReport(40, 6)} {
		p.Bench = benchReport().Bench // of another kind: not kept
		if _, err := r.Report(ctx, id, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Change(ctx, "c", api.MirrorChange{Stop: true}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Change(ctx, "c", api.MirrorChange{Paused: new(bool)})
	if fails(t, "a pause", err, query.CodeInvalid, "body"); !strings.Contains(err.Error(), "a search for capacity can be stopped") {
		t.Error(err)
	}
	if reply, err := r.Report(ctx, "c", capacityReport(4, 5)); err != nil || !reply.Stop {
		t.Errorf("%+v, %v", reply, err)
	}
	last := capacityReport(4, 5)
	last.Ended, last.Capacity.End = true, api.Float(epoch+60)
	if _, err := r.Report(ctx, "c", last); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Registry{r, New(o)} {
		x, err := r.Get(ctx, "c")
		if err != nil || len(x.Capacity.Steps) != 4 || len(x.Capacity.Steps[0].Slots) != 5 || x.Bench != nil || x.End != api.Float(epoch+60) || x.Headline != last.Capacity.Headline {
			t.Fatalf("%+v, %v", x, err)
		}
		x, err = r.Get(ctx, "s")
		if err != nil || len(x.Simulation.Layouts) != 40 || len(x.Simulation.Layouts[39].Work) != 6 || x.Simulation.File == "" || x.State != Ended {
			t.Fatalf("%+v, %v", x, err)
		}
		for search, want := range map[string]string{"200ms rate": "c", "found": "c", "nodes solr": "s"} {
			list, err := r.List(ctx, ListRequest{Search: search, Start: time.Unix(0, 0), End: time.Unix(1<<40, 0)})
			if err != nil || list.Total != 1 || list.Sessions[0].ID != want {
				t.Fatalf("%s: %+v, %v", search, list, err)
			}
			b, _ := json.Marshal(list.Sessions[0])
			if len(b) > 16<<10 || strings.Contains(string(b), `"work"`) || strings.Contains(string(b), `"simulate: solr`) || strings.Contains(string(b), `:null,"next"`) {
				t.Errorf("%s: %d bytes listed: %.2000s", search, len(b), b)
			}
			switch x := list.Sessions[0]; {
			case x.Capacity != nil && (len(x.Capacity.Steps) > 0 || len(x.Capacity.Law.Points) > 0 || x.Capacity.Answer.Value != 812):
				t.Errorf("%+v", x.Capacity)
			case x.Simulation != nil && (len(x.Simulation.Layouts) != briefSettings || x.Simulation.Layouts[3].Quantiles["0.99"].Value != 0.1):
				t.Errorf("%+v", x.Simulation)
			}
		}
	}
}

// What is too long is cut, and said; what fits is whole.
func TestLongCapacityAndSimulation(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	long := capacityReport(40, 600)
	if _, err := r.Report(ctx, "c", long); err != nil {
		t.Fatal(err)
	}
	x, err := r.Get(ctx, "c")
	if err != nil || len(x.Cut) != 3 || len(x.Capacity.Law.Points) != keptPoints {
		t.Fatalf("%v, %v", x.Cut, err)
	}
	s := x.Capacity.Steps[0]
	if len(s.Slots) != 150 || s.Slots[1].Time != 4 || s.Slots[1].Width != 4 || s.Slots[1].Errors != 4 || fmt.Sprint(s.Slots[1].Counts) != "[4 8 12]" || len(s.Latency.Counts) != 0 {
		t.Errorf("%d slots, %+v", len(s.Slots), s.Slots[1])
	}
	if _, err := r.Report(ctx, "s", simulationReport(10, 2000)); err != nil {
		t.Fatal(err)
	}
	x, err = r.Get(ctx, "s")
	if err != nil || len(x.Cut) != 1 || len(x.Simulation.Layouts[0].Work) != 2000 || len(x.Simulation.Layouts[9].Work) != 2000 || len(x.Simulation.Layouts[5].Work) != 0 {
		t.Fatalf("%v, %v", x.Cut, err)
	}
}

func TestRefusedCapacityAndSimulation(t *testing.T) {
	ctx, c := t.Context(), newClock()
	r := New(Options{Store: storetest.NewTwin(), Now: c.read})
	for field, change := range map[string]func(*api.Capacity){
		"capacity.mode":                        func(x *api.Capacity) { x.Mode = "guess" },
		"capacity.verdict":                     func(x *api.Capacity) { x.Verdict = "fine" },
		"capacity.start":                       func(x *api.Capacity) { x.Start = -1 },
		"capacity.steps":                       func(x *api.Capacity) { x.Steps = make([]api.CapacityStep, maxSteps+1) },
		"capacity.steps[1].kept":               func(x *api.Capacity) { x.Steps[1].Kept = "" },
		"capacity.steps[0].slots[2]":           func(x *api.Capacity) { x.Steps[0].Slots[2].Counts = []uint64{1} },
		"capacity.steps[0].objectives[0].kept": func(x *api.Capacity) { x.Steps[0].Objectives = make([]api.CapacityObjective, 1) },
		"capacity.steps[0].latency":            func(x *api.Capacity) { x.Steps[0].Latency.Bounds = nil },
		"capacity.answer.value":                func(x *api.Capacity) { x.Answer.Value = api.Float(math.Inf(1)) },
	} {
		p := capacityReport(2, 3)
		change(p.Capacity)
		_, err := r.Report(ctx, "c", p)
		fails(t, field, err, query.CodeInvalid, field)
	}
	for field, change := range map[string]func(*api.Simulation){
		"simulation.layouts[1].name":         func(x *api.Simulation) { x.Layouts[1].Name = x.Layouts[0].Name },
		"simulation.layouts":                 func(x *api.Simulation) { x.Layouts = make([]api.SimulationLayout, maxLayouts+1) },
		"simulation.leaves":                  func(x *api.Simulation) { x.Leaves = make([]api.SimulationLeaf, maxLeaves+1) },
		"simulation.layouts[0].work[0].kind": func(x *api.Simulation) { x.Layouts[0].Work[0].Kind = "nap" },
		"simulation.end":                     func(x *api.Simulation) { x.End = 1 },
	} {
		p := simulationReport(2, 3)
		change(p.Simulation)
		_, err := r.Report(ctx, "s", p)
		fails(t, field, err, query.CodeInvalid, field)
	}
	_, err := r.Report(ctx, "s", api.SessionReport{Kind: KindSimulation, Name: "x", Service: "x", Start: 1})
	fails(t, "no document", err, query.CodeInvalid, "simulation")
}
