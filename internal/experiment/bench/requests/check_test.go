package requests

import (
	"encoding/json"
	"strings"
	"testing"

	"tailscope/internal/experiment/bench/load"
)

const answer = `{"responseHeader": {"status": 0, "params": {"q": "a, b", "a.b": true}}, "docs": [{"id": "7"}, {"id": "ß\u00df"}, [1, -2.5e3]], "none": null}`

func TestChecks(t *testing.T) {
	header := []load.Field{{Name: "Content-Type", Value: "application/json; charset=utf-8"}, {Name: "X-Two", Value: "a"}, {Name: "x-two", Value: "b"}}
	for _, c := range []struct {
		check Check
		want  string // the check that fails; empty if none does
	}{
		{Check{}, ""},
		{Check{Status: []string{"200"}}, ""},
		{Check{Status: []string{"404", "2xx"}}, ""},
		{Check{Status: []string{"201..299", "404"}}, "status 201..299 or 404"},
		{Check{Header: map[string]string{"x-two": "b", "Content-Type": "~ ^application/json"}}, ""},
		{Check{Header: map[string]string{"X-Three": "*"}}, "header x-three: *"},
		{Check{Header: map[string]string{"X-Two": "c"}}, "header x-two: c"},
		{Check{Contains: []string{"responseHeader", "a, b"}}, ""},
		{Check{Contains: []string{"docs", "absent"}}, `body contains "absent"`},
		{Check{Matches: []string{`"id": *"\d+"`}}, ""},
		{Check{Matches: []string{`^\[`}}, `body matches ^\[`},
		{Check{Size: "> 100"}, ""},
		{Check{Size: "1kB..2MB"}, "size 1kB..2MB"},
		{Check{Size: "< 10 MiB"}, ""},
		{Check{JSON: map[string]string{"responseHeader.status": "0"}}, ""},
		{Check{JSON: map[string]string{"$.responseHeader.status": "= 0.0"}}, ""},
		{Check{JSON: map[string]string{"responseHeader.status": "!= 0"}}, "json responseHeader.status != 0"},
		{Check{JSON: map[string]string{`responseHeader.params["a.b"]`: "true"}}, ""},
		{Check{JSON: map[string]string{"responseHeader.params.q": "a, b"}}, ""},
		{Check{JSON: map[string]string{"docs[0].id": "7", "docs[1].id": "ßß", "docs[2][1]": "< -2000"}}, ""},
		{Check{JSON: map[string]string{"docs[2][0]": "> 1"}}, "json docs[2][0] > 1"},
		{Check{JSON: map[string]string{"docs[3]": "*"}}, "json docs[3] * "},
		{Check{JSON: map[string]string{"docs": "*", "none": "null"}}, ""},
		{Check{JSON: map[string]string{"responseHeader.params.q": "~ ^a,"}}, ""},
		{Check{JSON: map[string]string{"absent.below": "*"}}, "json absent.below * "},
		{Check{Status: []string{"500"}, Contains: []string{"absent"}}, "status 500"}, // the first that fails
	} {
		ck := &checker{}
		if faults := ck.add(0, &c.check); faults != nil {
			t.Errorf("%+v: %v", c.check, faults)
			continue
		}
		got := ""
		if i := ck.Check(0, 200, header, []byte(answer)); i >= 0 {
			got = ck.names[i]
		}
		if got != c.want {
			t.Errorf("%+v: fails %q, want %q", c.check, got, c.want)
		}
		h, b := ck.Wants(0)
		if wantHeader, wantBody := c.check.Header != nil || c.check.Size != "", len(c.check.Contains)+len(c.check.Matches)+len(c.check.JSON) > 0 || c.check.Size != ""; h != wantHeader || b != wantBody {
			t.Errorf("%+v: wants %v, %v", c.check, h, b)
		}
	}
}

// A body longer than what is kept is as long as its header says.
func TestSizeOfALongBody(t *testing.T) {
	ck := &checker{}
	ck.add(0, &Check{Size: "> 1MB"})
	if i := ck.Check(0, 200, []load.Field{{Name: "content-length", Value: "2000000"}}, make([]byte, 1000)); i != -1 {
		t.Error("2 MB are taken for 1,000 bytes")
	}
}

func TestBadChecksSayWhatToWrite(t *testing.T) {
	for _, c := range []struct {
		check Check
		want  string
	}{
		{Check{Status: []string{"ok"}}, `check.status "ok" is not a status: write 200, 2xx or 200..204`},
		{Check{Status: []string{"300..200"}}, `check.status "300..200" is not a status: write 200, 2xx or 200..204`},
		{Check{Size: "big"}, `check.size "big" is not a number of bytes: write > 100, < 2MB, 1kB..2MB or 512`},
		{Check{Size: "2kB..1kB"}, `check.size 1kB is not above 2kB: write > 100, < 2MB, 1kB..2MB or 512`},
		{Check{Contains: []string{""}}, `check.contains the text is empty, and every body contains that: write a text, or size: > 0 for any body at all`},
		{Check{Header: map[string]string{"a b": "c"}}, `check.header "a b" is not a name of a header field: write the value by the name: content-type: application/json`},
		{Check{JSON: map[string]string{"a..b": "1"}}, "check.json a..b: a name is missing (hint: write names with a point between, such as responseHeader.status): "},
		{Check{JSON: map[string]string{"a[x]": "1"}}, "check.json a[x]: [x] is not an element (hint: write [0] for the first): "},
		{Check{JSON: map[string]string{"a": "> many"}}, `check.json a: > compares numbers, and "many" is none (hint: write a: > 10): `},
	} {
		faults := (&checker{}).add(0, &c.check)
		if len(faults) != 1 {
			t.Errorf("%+v: %v", c.check, faults)
			continue
		}
		if got := faults[0].field + " " + faults[0].text + ": " + faults[0].hint; got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
	if faults := (&checker{}).add(0, &Check{Matches: []string{"("}, Header: map[string]string{"A": "~("}}); len(faults) != 2 {
		t.Errorf("%v", faults)
	}
}

func TestChecksDoNotAllocate(t *testing.T) {
	ck := &checker{}
	ck.add(0, &Check{Status: []string{"200"}, Header: map[string]string{"X-Two": "b"}, Contains: []string{"docs"}, Matches: []string{`"id":`}, Size: "> 1",
		JSON: map[string]string{"responseHeader.status": "0", "docs[0].id": "7", "responseHeader.params.q": "a, b"}})
	header, body := []load.Field{{Name: "X-Two", Value: "b"}}, []byte(answer)
	if n := testing.AllocsPerRun(1000, func() {
		if ck.Check(0, 200, header, body) != -1 {
			t.Fatal("it fails")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What find returns of good JSON is what encoding/json finds there.
func FuzzFind(f *testing.F) {
	f.Add(answer, "responseHeader.params.q")
	f.Add(answer, "docs[2][1]")
	f.Add(`[{"a":"\"}"},{"a":[]}]`, "[1].a")
	f.Add(`{"a" : 1 , "b":{}}`, "b")
	f.Fuzz(func(t *testing.T, text, path string) {
		steps, err := parsePath(path)
		if err != nil {
			if !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%q: no hint in %v", path, err)
			}
			return
		}
		got, ok := find([]byte(text), steps)
		if !json.Valid([]byte(text)) || twice(json.NewDecoder(strings.NewReader(text))) {
			return
		}
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return
		}
		found := true
		for _, s := range steps {
			if s.index >= 0 {
				list, is := v.([]any)
				if found = found && is && s.index < len(list); !found {
					break
				}
				v = list[s.index]
				continue
			}
			object, is := v.(map[string]any)
			if found = found && is; !found {
				break
			}
			if v, found = object[s.key]; !found {
				break
			}
		}
		if found != ok {
			t.Fatalf("%q in %q: found %q, %v; want %v", path, text, got, ok, found)
		}
		if !found {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q in %q: %q", path, text, got)
		}
	})
}

// twice reports whether a key comes twice in an object, of which package json takes
// the last and find the first.
func twice(d *json.Decoder) bool {
	type level struct {
		keys map[string]bool // nil of an array
		key  bool            // one comes next
	}
	var open []level
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 && open[n-1].keys != nil {
			if open[n-1].key {
				if open[n-1].keys[token.(string)] {
					return true
				}
				open[n-1].keys[token.(string)], open[n-1].key = true, false
				continue
			}
			open[n-1].key = true
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}
