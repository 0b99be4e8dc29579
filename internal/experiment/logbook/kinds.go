package logbook

import (
	"math"
	"reflect"

	"tailscope/api"
)

// documentKind describes one kind of sessions: its document, the one field of a
// report that is kept, and how that is checked and, if it is too long, cut.
type documentKind struct {
	said  string // in a sentence
	field string // of a report, as JSON and as Go have it
	name  string
	most  int // bytes of a report as JSON
	check func(*api.SessionReport) error
	// cuttings are tried in order.
	cuttings []cutting
}

var kinds = map[string]*documentKind{
	KindMirror: {
		said: "a mirror session", field: "mirror", name: "Mirror", most: maxReport,
		check:    func(p *api.SessionReport) error { return checkMirror(p.Mirror) },
		cuttings: []cutting{cutExamples},
	},
	KindBench: {
		said: "a run of load", field: "bench", name: "Bench", most: maxWhole,
		check:    func(p *api.SessionReport) error { return checkBench(p.Bench) },
		cuttings: []cutting{cutBuckets, cutTimeline, cutResources, cutConfiguration, cutNames, cutEvents},
	},
	KindExperiment: {
		said: "an experiment", field: "experiment", name: "Experiment", most: maxWhole,
		check:    func(p *api.SessionReport) error { return checkExperiment(p.Experiment) },
		cuttings: []cutting{cutFigures, cutQueries, cutConfiguration, cutEvents, cutRows, cutFiles},
	},
	KindCapacity: {
		said: "a search for capacity", field: "capacity", name: "Capacity", most: maxWhole,
		check:    func(p *api.SessionReport) error { return checkCapacity(p.Capacity) },
		cuttings: []cutting{cutStepBuckets, cutConfiguration, cutPoints, cutStepSlots, cutEvents, cutAllStepSlots},
	},
	KindSimulation: {
		said: "a simulation", field: "simulation", name: "Simulation", most: maxWhole,
		check:    func(p *api.SessionReport) error { return checkSimulation(p.Simulation) },
		cuttings: []cutting{cutMostWork, cutLeafBuckets, cutWork},
	},
}

// document returns a pointer to the document of a report; it may be nil.
func (k *documentKind) document(p *api.SessionReport) any { return k.in(p).Interface() }

func (k *documentKind) in(p *api.SessionReport) reflect.Value {
	return reflect.ValueOf(p).Elem().FieldByName(k.name)
}

func (k *documentKind) missing(p *api.SessionReport) bool { return k.in(p).IsNil() }

// alone returns a report without the documents of other kinds.
func (k *documentKind) alone(p *api.SessionReport) api.SessionReport {
	out := api.SessionReport{Kind: p.Kind, Name: p.Name, Service: p.Service, Start: p.Start, Ended: p.Ended}
	k.in(&out).Set(k.in(p))
	return out
}

// headline returns the document's own headline; that of a mirror session is made
// here.
func (k *documentKind) headline(p *api.SessionReport) string {
	if f := k.in(p).Elem().FieldByName("Headline"); f.IsValid() {
		return f.String()
	}
	return ""
}

// end returns when the document says that it ended, NaN if it does not.
func (k *documentKind) end(p *api.SessionReport) api.Float {
	if !k.missing(p) {
		if f := k.in(p).Elem().FieldByName("End"); f.IsValid() {
			return f.Interface().(api.Float)
		}
	}
	return api.Float(math.NaN())
}
