package probe

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestNumberAt(t *testing.T) {
	const doc = `{"data":{"items":[{"count":3},{"count":" 1,204.5 "}],"a.b":true,"off":false,"none":null,"#":4,"big":1e400}}`
	for _, c := range []struct {
		path string
		want float64
		null bool
		err  string
	}{
		{"data.items.0.count", 3, false, ""},
		{"data.items.1.count", 1204.5, false, ""},
		{"data.items.-1.count", 1204.5, false, ""},
		{"data.items.#", 2, false, ""},
		{`data.a\.b`, 1, false, ""},
		{"data.off", 0, false, ""},
		{"data.none", 0, true, ""},
		{"data.#", 4, false, ""}, // a member of that name comes first
		{"#", 1, false, ""},
		{"data.items", 0, false, "items is a list, not a number; lengthen"},
		{"", 0, false, "the body is an object, not a number"},
		{"data.item", 0, false, `data has no "item"; it has #, a.b, big, items, none, off`},
		{"data.items.2.count", 0, false, "has 2 elements and none at 2"},
		{"data.items.first", 0, false, "write a place in it from 0"},
		{"data.off.x", 0, false, "off is a truth value and has no"},
		{"data.big", 0, false, "is not a number"},
		{"data..x", 0, false, `has no ""`},
	} {
		got, null, err := numberAt([]byte(doc), c.path)
		if got != c.want || null != c.null || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v, %v", c.path, got, null, err)
		}
	}
	for doc, want := range map[string]string{
		"":        "is not JSON",
		"<html>":  "is not JSON",
		"1 2":     "goes on",
		`"NaN"`:   "not a finite number",
		`"-inf"`:  "not a finite number",
		`"words"`: `"words" is not a number`,
	} {
		if _, _, err := numberAt([]byte(doc), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", doc, err)
		}
	}
	if v, _, err := numberAt([]byte("\ufeff{\"a\":1}"), "a"); v != 1 || err != nil {
		t.Errorf("after a byte order mark: got %v, %v", v, err)
	}
	if v, _, err := numberAt([]byte("-12.5\n"), ""); v != -12.5 || err != nil {
		t.Errorf("a bare number: got %v, %v", v, err)
	}
}

func TestNumber(t *testing.T) {
	for s, want := range map[string]float64{"1": 1, " -2.5e3\n": -2500, "1,234,567.8": 1234567.8, "+0": 0} {
		if v, err := number(s); v != want || err != nil {
			t.Errorf("%q: got %v, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "1,5", "12,34", "0x", "1 2", "NaN", "Inf", strings.Repeat("y", 100)} {
		if v, err := number(s); err == nil || len(err.Error()) > 150 {
			t.Errorf("%q: got %v, %v", s, v, err)
		}
	}
}

// Whatever a server answers, a value is a finite number, and errors are short.
func FuzzNumberAt(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"2"}]}`), "a.1.b")
	f.Add([]byte(`[[],null,true,1e999]`), "-1")
	f.Add([]byte(`{"a.b":{"":3}}`), `a\.b.`)
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		v, null, err := numberAt(doc, path)
		if math.IsNaN(v) || math.IsInf(v, 0) || (null || err != nil) && v != 0 {
			t.Fatalf("got %v, %v, %v", v, null, err)
		}
		if err == nil && !json.Valid(bytes.TrimPrefix(doc, []byte("\ufeff"))) {
			t.Fatalf("%q is no JSON but has %v", doc, v)
		}
	})
}

func FuzzNumberMatching(f *testing.F) {
	f.Add([]byte("queue: 17 waiting"), `queue: ([0-9]+)`)
	f.Add([]byte("1e308"), `.*`)
	f.Add([]byte("x"), `(y)?x`)
	f.Fuzz(func(t *testing.T, body []byte, pattern string) {
		v, null, err := numberMatching(body, pattern)
		if math.IsNaN(v) || math.IsInf(v, 0) || null || err != nil && v != 0 {
			t.Fatalf("got %v, %v, %v", v, null, err)
		}
	})
}
