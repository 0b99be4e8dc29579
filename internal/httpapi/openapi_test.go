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
	"tailscope/internal/query"
)

// TestDocument keeps api/openapi.json, of which the page's types are made, what the
// server answers; UPDATE=1 rewrites it.
func TestDocument(t *testing.T) {
	_, body := fetch(t, serve(t, Options{Store: pebble(t)}), "/openapi.json")
	golden(t, "../../../api/openapi.json", indent(t, body))
}

// Each operation is in a group of the document, and it, its parameters and its errors are
// described. The errors have a schema.
func TestOperationsAreDescribed(t *testing.T) {
	type response struct {
		Ref, Description string
		Content          map[string]struct{ Schema described }
	}
	var doc struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			OperationID, Summary, Description string
			Tags                              []string
			Parameters                        []struct{ Name, Description string }
			Responses                         map[string]struct {
				Ref string `json:"$ref"`
			}
		}
		Components struct{ Responses map[string]response }
	}
	_, body := fetch(t, serve(t, Options{Store: pebble(t)}), "/openapi.json")
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	ids := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, o := range operations {
			ids[o.OperationID] = true
			if o.Summary == "" || o.Description == "" || o.Description == o.Summary {
				t.Errorf("%s %s (%s) is not described", method, path, o.OperationID)
			}
			if len(o.Tags) != 1 || o.Tags[0] == "" {
				t.Errorf("%s %s is in the groups %q, want one", method, path, o.Tags)
				continue
			}
			used[o.Tags[0]] = true
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: the parameter %s is not described", method, path, p.Name)
				}
			}
			for status := range errorDocs {
				r := doc.Components.Responses[strings.TrimPrefix(o.Responses[fmt.Sprint(status)].Ref, "#/components/responses/")]
				if r.Description == "" || r.Content["application/json"].Schema.Ref != schemaPrefix+"Error" {
					t.Errorf("%s %s: the status %d is described as %+v", method, path, status, r)
				}
			}
		}
	}
	for _, tag := range doc.Tags {
		if tag.Description == "" || !used[tag.Name] {
			t.Errorf("the group %q has no operation, or is not described", tag.Name)
		}
	}
	if len(doc.Tags) != len(used) {
		t.Errorf("operations are in %d groups, of which %d are described", len(used), len(doc.Tags))
	}
	for id := range operationDocs {
		if !ids[id] {
			t.Errorf("%s is described, and is not an operation", id)
		}
	}
	for _, code := range []string{query.CodeInvalid, query.CodeNotFound, query.CodeTooMany, query.CodeTooEarly, query.CodeUnavailable, "any other"} {
		if errorDocs[statusOf(code)] == "" {
			t.Errorf("errors of the code %q have the status %d, which is not described", code, statusOf(code))
		}
	}
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

// template returns the path of the document that answers path, which may hold an id; empty if
// there is none.
func (doc *document) template(path string) string {
	if _, ok := doc.Paths[path]; ok {
		return path
	}
	words := strings.Split(path, "/")
	for of := range doc.Paths {
		if named := strings.Split(of, "/"); len(named) == len(words) && slices.EqualFunc(named, words, func(a, b string) bool { return a == "{id}" || a == b }) {
			return of
		}
	}
	return ""
}

// checkAnswer reports where the body of a GET is not what the document says.
func (doc *document) checkAnswer(t *testing.T, path, body string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	doc.check(t, path, doc.Paths[doc.template(path)]["get"].Responses["200"].Content["application/json"].Schema, v)
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
