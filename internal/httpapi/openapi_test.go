package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
)

// described is one schema of /openapi.json, as far as answers need it.
type described struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Properties           map[string]*described
	AdditionalProperties any
	Required             []string
	Items                *described
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
	_, body := fetch(t, srv, "/openapi.json")
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema *described }
			}
		}
		Components struct{ Schemas map[string]*described }
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	for path, query := range questions {
		path = "/api/v1/" + path
		status, body := fetch(t, srv, path+"?"+query)
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil || status != 200 {
			t.Fatalf("%s: status %d, %v", path, status, err)
		}
		check := func(s *described, v any) {}
		at := path
		check = func(s *described, v any) {
			if s.Ref != "" {
				s = doc.Components.Schemas[s.Ref[len("#/components/schemas/"):]]
			}
			is := "null"
			switch v := v.(type) {
			case bool:
				is = "boolean"
			case float64:
				is = "number"
			case string:
				is = "string"
			case []any:
				is = "array"
				for _, x := range v {
					check(s.Items, x)
				}
			case map[string]any:
				is = "object"
				for _, name := range s.Required {
					if _, ok := v[name]; !ok {
						t.Errorf("%s lacks %s", at, name)
					}
				}
				for name, x := range v {
					if p := s.Properties[name]; p != nil {
						was := at
						at += "." + name
						check(p, x)
						at = was
					} else if s.AdditionalProperties == false {
						t.Errorf("%s has %s, of which nothing is said", at, name)
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
		check(doc.Paths[path]["get"].Responses["200"].Content["application/json"].Schema, v)
	}
}
