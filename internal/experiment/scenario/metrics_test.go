package scenario

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAtPath(t *testing.T) {
	doc := []byte(`{"metrics": {"solr.jvm": {"gc.time": 7, "list": [1, {"x": "2.5"}]}}, "a": {"b": true}}`)
	for path, want := range map[string]float64{
		"metrics.solr.jvm.gc.time": 7, `metrics["solr.jvm"]["gc.time"]`: 7, "metrics.solr.jvm.list.1.x": 2.5, `metrics["solr.jvm"].list[0]`: 1,
	} {
		if got, err := atPath(doc, path); err != nil || got != want {
			t.Errorf("%s: %v %v", path, got, err)
		}
	}
	for _, path := range []string{"a.b", "a.c", "metrics.solr.jvm.list.2", "", "["} {
		if got, err := atPath(doc, path); err == nil {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestFamilies(t *testing.T) {
	m := Metrics{Families: []string{`gc_seconds_sum{gc="a"}`, "gc_seconds_sum", "heap_bytes"}, Scale: 1}
	got, err := m.families([]byte("# HELP x\ngc_seconds_sum{gc=\"a\"} 1\ngc_seconds_sum{gc=\"b\"} 2\nheap_bytes 3e6\n"))
	if err != nil || len(got) != 3 || got[0].value != 1 || got[1].value != 3 || !got[1].adds || got[1].unit != "seconds" || got[2].adds || got[2].unit != "bytes" {
		t.Errorf("%+v %v", got, err)
	}
	if err == nil && (got[0].name != m.Families[0] || got[1].name != "gc_seconds_sum") {
		t.Errorf("names %+v", got)
	}
	if _, err := m.families([]byte("other 1\n")); err == nil || !strings.Contains(err.Error(), "has no series gc_seconds_sum") {
		t.Error(err)
	}
}

// How documents become bodies.
func TestBatches(t *testing.T) {
	for _, tc := range []struct{ format, as, data, want string }{
		{"jsonl", "ndjson", "{\"a\":1}\n\n 2 \n3\n", "{\"a\":1}\n2\n|3\n"},
		{"jsonl", "json", "1\n2\n3", "[1,2]|[3]"},
		{"jsonl", "bulk", "1\n2\n3", "{}\n1\n{}\n2\n|{}\n3\n"},
		{"lines", "lines", "a b\n\nc\n", "a b\n\n|c\n"},
		{"lines", "json", "a\"\nb", `["a\"","b"]`},
		{"csv", "json", "x,y\n1,\"a\nb\"\n", `[{"x":"1","y":"a\nb"}]`},
		{"tsv", "ndjson", "x\ty\n1\tq\"\n", "{\"x\":\"1\",\"y\":\"q\\\"\"}\n"},
		{"jsonl", "single", "1\n2\n", "1|2"},
	} {
		l := &DataLoad{Format: tc.format, As: tc.as, Action: "{}", Batch: 2}
		if tc.as == "single" {
			l.Batch = 1
		}
		d, err := readDocuments(strings.NewReader(tc.data), "data", tc.format)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := d.batches(l, func(b batch) error { got = append(got, string(b.body)); return nil }); err != nil {
			t.Error(err)
		}
		if strings.Join(got, "|") != tc.want {
			t.Errorf("%s as %s: %q, want %q", tc.format, tc.as, got, tc.want)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add("{}\n1\n", "jsonl")
	f.Add("a,b\n1,2\n", "csv")
	f.Fuzz(func(t *testing.T, data, format string) {
		d, err := readDocuments(strings.NewReader(data), "data", format)
		for n := 0; err == nil; n++ {
			if _, err = d.next(); n > len(data)+1 {
				t.Fatal("it does not end")
			}
		}
		if !errors.Is(err, io.EOF) && err.Error() == "" {
			t.Fatal("an error without words")
		}
	})
}
