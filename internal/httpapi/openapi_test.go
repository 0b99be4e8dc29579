package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tailscope/api"
)

// TestDocument keeps api/openapi.json, of which the page's types are made, what the
// server answers; UPDATE=1 rewrites it.
func TestDocument(t *testing.T) {
	_, body := fetch(t, serve(t, Options{Store: pebble(t)}), "/openapi.json")
	golden(t, "../../../api/openapi.json", indent(t, body))
}

// described is one schema of /openapi.json, as far as answers need it.
type described struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Enum                 []any
	Properties           map[string]*described
	AdditionalProperties *described // of values without a name; Type false where there are none
	Required             []string
	Items                *described
}

func (s *described) UnmarshalJSON(b []byte) error {
	if string(b) == "false" {
		s.Type = false
		return nil
	}
	type plain described
	return json.Unmarshal(b, (*plain)(s))
}

// document is /openapi.json.
type document struct {
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct{ Schema *described }
		}
	}
	Components struct{ Schemas map[string]*described }
}

func readDocument(t *testing.T, srv *httptest.Server) (doc document) {
	t.Helper()
	_, body := fetch(t, srv, "/openapi.json")
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// checkAnswer reports where the body of a GET is not what the document says.
func (doc *document) checkAnswer(t *testing.T, path, body string) {
	t.Helper()
	described, ok := doc.Paths[path]
	if !ok {
		described = doc.Paths[path[:strings.LastIndexByte(path, '/')]+"/{id}"]
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	doc.check(t, path, described["get"].Responses["200"].Content["application/json"].Schema, v)
}

// check reports where v, which stands at a place, is not what the schema says.
func (doc *document) check(t *testing.T, at string, s *described, v any) {
	t.Helper()
	if s.Ref != "" {
		s = doc.Components.Schemas[s.Ref[len(schemaPrefix):]]
	}
	is := "null"
	switch v := v.(type) {
	case bool:
		is = "boolean"
	case float64:
		is = "number"
	case string:
		is = "string"
		if s.Enum != nil && !slices.Contains(s.Enum, any(v)) {
			t.Errorf("%s is %q, said to be one of %q", at, v, s.Enum)
		}
	case []any:
		is = "array"
		for _, x := range v {
			doc.check(t, at+"[]", s.Items, x)
		}
	case map[string]any:
		is = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				t.Errorf("%s lacks %s", at, name)
			}
		}
		for name, x := range v {
			if p := cmp.Or(s.Properties[name], s.AdditionalProperties); p == nil || p.Type == false {
				t.Errorf("%s has %s, of which nothing is said", at, name)
			} else {
				doc.check(t, at+"."+name, p, x)
			}
		}
	}
	types := []string{fmt.Sprint(s.Type)}
	if several, ok := s.Type.([]any); ok {
		types = nil
		for _, one := range several {
			types = append(types, fmt.Sprint(one))
		}
	}
	if s.Type != nil && !slices.Contains(types, is) && !(is == "number" && slices.Contains(types, "integer")) {
		t.Errorf("%s is %s, said to be %v", at, is, types)
	}
}

// Answers are what the document says they are, null included.
func TestAnswersAreAsDescribed(t *testing.T) {
	asDescribed(t, shop(t, Options{}), map[string]string{
		"services": "", "distribution": "q=0.5", "heatmap": "", "timeline": "", "labels": "", "tenants": "", "families": "", "status": "", "checks": "", "incidents": "", "maintenance": "", "marks": "", "sessions": "",
		"apdex": "", "apdex-targets": "", "sla": `match={service="nobody"}`, "breakdown": `match={service="checkout"}`, "operations": "", "traces": "",
		"compare": "a=now-60m/now-30m&b=now-30m/now",
		"explain": "match={service=\"checkout\"}&low=0.01",
	})
}

// asDescribed asks questions, by path and parameters.
func asDescribed(t *testing.T, srv *httptest.Server, questions map[string]string) {
	t.Helper()
	doc := readDocument(t, srv)
	for path, query := range questions {
		path = "/api/v1/" + path
		status, body := fetch(t, srv, path+"?"+query)
		if status != 200 {
			t.Fatalf("%s: status %d, %s", path, status, body)
		}
		doc.checkAnswer(t, path, body)
	}
}

// Answers have no list or map that is null, however little they hold, and writing
// them changes nothing of what they are made of.
func TestAnswersOfNothingAreAsDescribed(t *testing.T) {
	doc := readDocument(t, serve(t, Options{Store: pebble(t)}))
	session := api.Session{
		Kind: "mirror", State: api.Running,
		Mirror: &api.MirrorState{
			Mode: "http", Primary: api.MirrorTarget{Role: "primary"}, Shadows: []api.MirrorTarget{{Role: "control", Account: &api.MirrorAccount{}}},
			Differences: &api.MirrorDifferences{Examples: []api.MirrorExample{{}}},
			Seen:        &api.MirrorSeen{Targets: []api.MirrorSight{{Operations: map[string]api.MirrorSight{"a": {}}}}},
		},
		Bench:      &api.BenchResult{Plan: api.BenchPlan{Arrivals: "closed"}, Queries: []api.BenchQuery{{}, {Checks: map[string]uint64{"a": 1}}}},
		Experiment: &api.Experiment{Design: "sweep", Stopping: api.ExperimentStopping{Rule: "fixed"}, Verdict: "same", Rounds: []api.ExperimentRun{{Figures: map[string]map[string]api.Float{"": nil, "a": {"p50": 1}}}}},
		Capacity:   &api.Capacity{Mode: "rate", Steps: []api.CapacityStep{{Phase: "rise", Kept: "kept"}}},
		Simulation: &api.Simulation{Layouts: []api.SimulationLayout{{}}},
	}
	for name, answer := range map[string]any{
		"Session":               &session,
		"SessionsResponse":      &api.SessionsResponse{Sessions: []api.Session{session}},
		"CompareResponse":       &api.CompareResponse{Verdict: "same", Curve: &api.CompareCurve{}, Heat: &api.CompareHeat{Expected: "slot"}},
		"CheckResponse":         &api.CheckResponse{Check: api.Check{Source: "sql", State: "OK", Level: "OK"}, Null: "skip"},
		"CheckBacktestResponse": &api.CheckBacktestResponse{Before: &api.BacktestSummary{}},
		"BreakdownResponse":     &api.BreakdownResponse{Band: &api.Band{}, Components: []api.BreakdownComponent{{}}},
		"TimelineResponse":      &api.TimelineResponse{Groups: []api.TimelineGroup{{Quantiles: map[string][]api.Float{"0.5": nil}}}},
		"HeatmapResponse":       &api.HeatmapResponse{Columns: []api.HeatmapColumn{{}}},
	} {
		before, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		if err := marshal(&body, answer); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		doc.check(t, name, doc.Components.Schemas[name], v)
		after, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, after) {
			t.Errorf("%s was changed:\n%s\nbefore\n%s", name, after, before)
		}
		// What is written reads as the same, but for what was nil.
		again := reflect.New(reflect.TypeOf(answer).Elem()).Interface()
		if err := json.Unmarshal(body.Bytes(), again); err != nil {
			t.Fatal(err)
		}
		var second bytes.Buffer
		if err := marshal(&second, again); err != nil || !bytes.Equal(body.Bytes(), second.Bytes()) {
			t.Errorf("%s is written, read and written again as\n%s\nthe first time\n%s", name, second.Bytes(), body.Bytes())
		}
	}
}
