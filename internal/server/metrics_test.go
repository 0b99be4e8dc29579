package server

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every path of the API is counted under a name of its own.
func TestHandlerNames(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	_, body := get(t, "http://"+s.Addr()+"/openapi.json")
	var doc struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Paths) < 15 {
		t.Fatalf("%d paths, %v", len(doc.Paths), err)
	}
	for path := range doc.Paths {
		if name := handlerName(path); name != strings.Split(path, "/")[3] {
			t.Errorf("%s is counted as %s", path, name)
		}
	}
	if name := handlerName("/api/v1/made/up"); name != "other" {
		t.Errorf("what is asked for becomes a label: %s", name)
	}
}
