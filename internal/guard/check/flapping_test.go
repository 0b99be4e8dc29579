package check

import (
	"math"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
)

// While a check flaps its incident stays open and has no events: its states tell when it
// was OK. They end with the incident.
func TestIncidentThatFlapsHasItsStates(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	c := &condition{id: "orders", transitions: []transition{
		{At: at(0), State: event.OK}, {At: at(10), State: event.Critical}, {At: at(40), State: event.OK, Flaps: true}, {At: at(50), State: event.Critical, Flaps: true}, {At: at(60), State: event.OK, Flaps: true},
	}}
	incidentOf := func(id string, kinds ...event.Kind) *incident {
		k := api.Incident{ID: id, Kind: "check", Check: "orders", Start: api.UnixTime(at(10)), End: api.Float(math.NaN())}
		for _, kind := range kinds {
			k.Events = append(k.Events, api.IncidentEvent{Kind: string(kind)})
		}
		return &incident{Incident: k}
	}
	e := &Engine{
		o:          Options{Now: func() time.Time { return at(100) }},
		conditions: map[string]*condition{"orders": c},
		incidents:  map[string]*incident{"flaps": incidentOf("flaps", event.Opened, event.Flapping), "lasts": incidentOf("lasts", event.Opened), "closed": incidentOf("closed", event.Opened, event.Flapping)},
	}
	e.incidents["closed"].End = api.UnixTime(at(80))
	for _, k := range e.overlapping(IncidentsRequest{}) {
		if k.ID == "lasts" {
			if k.States != nil {
				t.Errorf("states %v of one that did not flap, want none", k.States)
			}
			continue
		}
		bad := 0.0
		for _, s := range k.States {
			if s.State == "CRITICAL" {
				bad += float64(s.End - s.Start)
			}
		}
		n := len(k.States)
		if n != 4 || bad != 40 || k.States[n-1].State != "OK" {
			t.Fatalf("critical for %v s in %v, want 40 s of four states, the last one OK", bad, k.States)
		}
		if end := k.States[n-1].End; end != k.End && !(math.IsNaN(float64(end)) && math.IsNaN(float64(k.End))) {
			t.Errorf("the last state of %s ends at %v, the incident at %v", k.ID, end, k.End)
		}
	}
}
