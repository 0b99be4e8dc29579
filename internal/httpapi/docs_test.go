package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocs keeps the table of questions in docs/api.md what /openapi.json says.
func TestDocs(t *testing.T) {
	srv := shop(t, Options{})
	_, body := fetch(t, srv, "/openapi.json")
	var doc struct {
		Paths map[string]struct {
			Get *struct {
				Summary    string
				Parameters []struct {
					Name, Description string
					Schema            struct{ Description string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| GET | answers | parameters |\n| --- | --- | --- |\n")
	order := []string{"services", "distribution", "heatmap", "timeline", "scaling", "leaves", "tenants", "labels", "nearest", "explain", "breakdown", "operations", "callers", "traces", "traces/{id}", "families", "compare", "changes", "apdex", "sla", "apdex-targets", "marks", "marks/{id}", "sessions", "sessions/{id}", "sessions/{id}/verdict", "checks", "check", "incidents", "maintenance", "status", "cluster"}
	type meaning struct{ parameter, text string }
	said := map[meaning][]string{} // in which questions
	meanings := map[string]int{}
	for _, name := range order {
		p := doc.Paths["/api/v1/"+name]
		if p.Get == nil {
			t.Fatalf("%s is not in the document", name)
		}
		var names []string
		for _, a := range p.Get.Parameters {
			names = append(names, "`"+a.Name+"`")
			m := meaning{a.Name, a.Description}
			if m.text == "" {
				m.text = a.Schema.Description
			}
			if m.text == "" {
				t.Errorf("%s of %s is not described", a.Name, name)
			}
			if said[m] == nil {
				meanings[a.Name]++
			}
			said[m] = append(said[m], name)
		}
		fmt.Fprintf(&b, "| `/api/v1/%s` | %s | %s |\n", name, p.Get.Summary, strings.Join(names, " "))
	}
	for path, p := range doc.Paths {
		if p.Get != nil && !slices.Contains(order, strings.TrimPrefix(path, "/api/v1/")) {
			t.Errorf("%s is not in docs/api.md", path)
		}
	}
	b.WriteString("\n| parameter | |\n| --- | --- |\n")
	list := make([]meaning, 0, len(said))
	for m := range said {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b meaning) int {
		return cmp.Or(strings.Compare(a.parameter, b.parameter), len(said[b])-len(said[a]), strings.Compare(a.text, b.text))
	})
	for i, m := range list {
		of := ""
		if meanings[m.parameter] > 1 && i > 0 && list[i-1].parameter == m.parameter {
			of = " of " + strings.Join(said[m], ", ")
		}
		fmt.Fprintf(&b, "| `%s`%s | %s |\n", m.parameter, of, m.text)
	}

	const path = "../../docs/api.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "./internal/httpapi -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatal("docs/api.md has lost its marks")
	}
	want := head + "./internal/httpapi -->\n" + b.String() + "<!-- end -->" + tail
	if string(text) == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatal("docs/api.md is behind /openapi.json; UPDATE=1 go test -run TestDocs ./internal/httpapi rewrites it")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
