package requests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
)

// wellFormed reports whether a request would be read as what it is: one request
// line, header fields, and a body of the length that is said.
func wellFormed(wire []byte) bool {
	head, body, ok := strings.Cut(string(wire), "\r\n\r\n")
	if !ok {
		return false
	}
	lines := strings.Split(head, "\r\n")
	if strings.Count(lines[0], " ") != 2 || !strings.HasSuffix(lines[0], " HTTP/1.1") {
		return false
	}
	length := 0
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || name == "" || strings.ContainsAny(line, "\r\n\x00") {
			return false
		}
		if strings.EqualFold(name, "Content-Length") {
			if json.Unmarshal([]byte(value), &length) != nil {
				return false
			}
		}
	}
	return length == len(body)
}

func check(t *testing.T, s requests.Spec) {
	s.Now = nil
	set, err := requests.Compile(s)
	if err != nil {
		return
	}
	defer set.Close()
	src, err := set.Source(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var r load.Request
	for range 20 {
		if !src.Next(&r) {
			break
		}
		if !wellFormed(r.Wire) {
			t.Fatalf("%q", r.Wire)
		}
		if r.Query >= len(set.Queries()) || r.Tenant >= len(set.Tenants()) {
			t.Fatalf("query %d, tenant %d", r.Query, r.Tenant)
		}
	}
}

// Whatever rows hold, requests stay one request each, and bodies of JSON JSON.
func FuzzData(f *testing.F) {
	f.Add("w,n\na b,1\n\"x\r\nHost: evil\",2\n", false)
	f.Add("{\"w\": \"a\\r\\n\\r\\nGET / HTTP/1.1\", \"n\": {\"m\": [1]}}\n", true)
	f.Add("w\n\xff\xfe\n", false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string, jsonl bool) {
		name := filepath.Join(dir, "data.csv")
		if jsonl {
			name = filepath.Join(dir, "data.jsonl")
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, requests.Spec{Base: "http://h", Tenant: "header:X-W", Queries: []requests.Query{
			{Request: "POST /{{w}}?q={{w}}", Data: name, Body: `{"w": "{{w}}"}`, Header: []load.Field{{Name: "X-W", Value: "{{w|raw}}"}}},
			{Request: "GET /{{w|raw}}", Data: name, AtEnd: "once"}}})
	})
}

func FuzzTargets(f *testing.F) {
	f.Add("GET /a\nX: y\n\nhttp://h/b\n# no\nPOST /c\n@file\n")
	f.Add("\xef\xbb\xbfGET http://h\r\n\r\nGET http://h?x\r\n")
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("body"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, "targets"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, requests.Spec{Dir: dir, Targets: "targets"})
	})
}

func FuzzTemplates(f *testing.F) {
	f.Add("GET /a?q={{v}}&{{random 3..5}}", `{"a": "{{v}}", "\"": {{seq}}}`, "x: y")
	f.Add(`POST http://h/{{v|raw}}/{{ uuid }}`, `\{{a}} {{now ms}}`, "{{v}}")
	f.Add("/a{{", "}}{{}}", "\r\n")
	f.Fuzz(func(t *testing.T, request, body, value string) {
		check(t, requests.Spec{Base: "http://h", Vars: map[string]string{"v": value}, Header: []load.Field{{Name: "X-V", Value: "{{v}}"}},
			Queries: []requests.Query{{Request: request, Body: body}, {Request: "/plain"}}})
	})
}
