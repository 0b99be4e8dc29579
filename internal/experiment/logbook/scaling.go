package logbook

import (
	"fmt"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/query"
)

// Bounds of searches for capacity and of simulations.
const (
	maxSteps   = 1000
	maxLayouts = 512
	maxLeaves  = 256
	keptWork   = 2   // layouts whose work is kept of a long simulation
	keptPoints = 300 // of a fitted law
)

// Words of searches and simulations.
var (
	modes            = []string{"rate", "mirror", "servers", "fit"}
	keptWords        = []string{search.Kept, search.Broken, search.Unclear}
	capacityVerdicts = append([]api.CapacityVerdict{""}, search.Verdicts...)
	workKinds        = []string{"leaf", "hedge", "merge", "pause"}
)

func checkCapacity(x *api.Capacity) error {
	if err := oneOf("capacity.mode", x.Mode, modes); err != nil {
		return err
	}
	if err := oneOf("capacity.verdict", x.Verdict, capacityVerdicts); err != nil {
		return err
	}
	if len(x.Steps) > maxSteps {
		return query.Invalid("capacity.steps", "%d steps are more than %d; send the last ones", len(x.Steps), maxSteps)
	}
	for i := range x.Steps {
		s, field := &x.Steps[i], fmt.Sprintf("capacity.steps[%d]", i)
		if err := oneOf(field+".kept", s.Kept, keptWords); err != nil {
			return err
		}
		for j := range s.Slots {
			if n := len(s.Slots[j].Counts); n > 0 && n != len(x.Bounds)-1 {
				return query.Invalid(fmt.Sprintf("%s.slots[%d]", field, j), "a slot of %d counts does not fit capacity.bounds, which has %d; send one bound more than counts", n, len(x.Bounds))
			}
		}
		for j := range s.Objectives {
			if err := oneOf(fmt.Sprintf("%s.objectives[%d].kept", field, j), s.Objectives[j].Kept, keptWords); err != nil {
				return err
			}
		}
	}
	return checkSpan("capacity", x.Start, x.End)
}

func checkSimulation(x *api.Simulation) error {
	switch {
	case len(x.Layouts) > maxLayouts:
		return query.Invalid("simulation.layouts", "%d layouts are more than %d", len(x.Layouts), maxLayouts)
	case len(x.Leaves) > maxLeaves:
		return query.Invalid("simulation.leaves", "%d classes of leaves are more than %d", len(x.Leaves), maxLeaves)
	}
	known := map[string]bool{}
	for i := range x.Layouts {
		l, field := &x.Layouts[i], fmt.Sprintf("simulation.layouts[%d]", i)
		if err := checkText(field+".name", l.Name, "8 nodes"); err != nil {
			return err
		}
		if known[l.Name] {
			return query.Invalid(field+".name", "two layouts are named %q; give each a name of its own", l.Name)
		}
		known[l.Name] = true
		for j := range l.Work {
			if err := oneOf(fmt.Sprintf("%s.work[%d].kind", field, j), l.Work[j].Kind, workKinds); err != nil {
				return err
			}
		}
	}
	return checkSpan("simulation", x.Start, x.End)
}

// briefCapacity returns the part of a search that a list shows: no steps.
func briefCapacity(x *api.Capacity) *api.Capacity {
	out := &api.Capacity{
		Format: x.Format, Name: x.Name, Service: x.Service, Target: x.Target, Command: x.Command, Mode: x.Mode, Unit: x.Unit,
		Objective: x.Objective, Arrivals: x.Arrivals, Seed: x.Seed, Start: x.Start, End: x.End, Answer: x.Answer, Progress: x.Progress,
		Restored: x.Restored, RestoreError: x.RestoreError, Failed: x.Failed, Verdict: x.Verdict, Headline: x.Headline,
	}
	if x.Law != nil {
		law := *x.Law
		law.Points = nil
		out.Law = &law
	}
	return out
}

// briefSimulation keeps the names and figures of the first layouts.
func briefSimulation(x *api.Simulation) *api.Simulation {
	out := &api.Simulation{
		Format: x.Format, Name: x.Name, Service: x.Service, Command: x.Command, Seed: x.Seed, Start: x.Start, End: x.End, Seconds: x.Seconds,
		Variable: x.Variable, Progress: x.Progress, Failed: x.Failed, Headline: x.Headline,
	}
	for _, l := range first(x.Layouts, briefSettings) {
		l.NoQueue, l.Leaf, l.Work = nil, nil, nil
		out.Layouts = append(out.Layouts, l)
	}
	return out
}

func cutStepBuckets(p *api.SessionReport) string {
	any := false
	for i := range p.Capacity.Steps {
		s := &p.Capacity.Steps[i]
		for _, l := range []*api.BenchLatency{&s.Latency, &s.Uncorrected} {
			any = any || len(l.Counts) > 0
			l.Bounds, l.Counts = nil, nil
		}
	}
	if !any {
		return ""
	}
	return "the distributions of steps: figures and slots are kept"
}

func cutPoints(p *api.SessionReport) string {
	law := p.Capacity.Law
	if law == nil || len(law.Points) <= keptPoints {
		return ""
	}
	short := *law
	short.Points = nil
	for i := range keptPoints {
		short.Points = append(short.Points, law.Points[i*len(law.Points)/keptPoints])
	}
	p.Capacity.Law = &short
	return "points of the law: each of so many is kept"
}

// cutStepSlots merges slots by fours.
func cutStepSlots(p *api.SessionReport) string {
	const together = 4
	any := false
	for i := range p.Capacity.Steps {
		s := &p.Capacity.Steps[i]
		if len(s.Slots) <= 2*together {
			continue
		}
		any = true
		var short []api.CapacitySlot
		for j, slot := range s.Slots {
			if j%together == 0 {
				counts := make([]uint64, max(0, len(p.Capacity.Bounds)-1))
				short = append(short, api.CapacitySlot{Time: slot.Time, Counts: counts})
			}
			to := &short[len(short)-1]
			to.Width, to.Errors = to.Width+slot.Width, to.Errors+slot.Errors
			for k, n := range slot.Counts {
				to.Counts[k] += n
			}
		}
		s.Slots = short
	}
	if !any {
		return ""
	}
	return "slots of steps: four of them are kept as one"
}

func cutAllStepSlots(p *api.SessionReport) string {
	any := false
	for i := range p.Capacity.Steps {
		any = any || len(p.Capacity.Steps[i].Slots) > 0
		p.Capacity.Steps[i].Slots = []api.CapacitySlot{}
	}
	if !any {
		return ""
	}
	return "slots of steps"
}

// cutMostWork keeps the work of the first layout and of the last.
func cutMostWork(p *api.SessionReport) string {
	layouts := p.Simulation.Layouts
	if len(layouts) <= keptWork {
		return ""
	}
	return dropWork(layouts[1 : len(layouts)-1])
}

func cutWork(p *api.SessionReport) string { return dropWork(p.Simulation.Layouts) }

func dropWork(layouts []api.SimulationLayout) string {
	any := false
	for i := range layouts {
		any = any || len(layouts[i].Work) > 0
		layouts[i].Work = nil
	}
	if !any {
		return ""
	}
	return "work units of layouts to be watched"
}

func cutLeafBuckets(p *api.SessionReport) string {
	any := false
	for i := range p.Simulation.Leaves {
		l := &p.Simulation.Leaves[i].Latency
		any = any || len(l.Counts) > 0
		l.Bounds, l.Counts = nil, nil
	}
	if !any {
		return ""
	}
	return "the distributions of leaves: figures alone are kept"
}
