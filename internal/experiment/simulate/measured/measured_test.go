package measured

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/experiment/simulate"
	"tailscope/internal/experiment/simulate/spec"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
	"tailscope/internal/strictyaml"
)

const (
	fanOut  = 8
	perSlot = 100
	length  = 30 // slots of 10 s
)

func request(service, operation, status string) labels.Labels {
	return labels.FromStrings(series.LabelService, service, series.LabelOperation, operation, series.LabelKind, "server",
		series.LabelStatus, status, series.LabelComponent, "app", series.LabelTenant, "acme")
}

// search returns a front that asks eight leaves, whose times share a factor of each slot and,
// within a query, half of their normal score's variance but for apart. Traces are kept as
// the server keeps them: the slowest of each slot, and one for each minute and bucket of
// durations.
func search(t *testing.T, likeness float64) store.Store {
	t.Helper()
	w, r := querytest.NewWriter(), rand.New(rand.NewPCG(1, 2))
	var kept []store.Trace
	type bucket struct{ minute, octave int }
	seen := map[bucket]bool{}
	id := uint64(0)
	for slot := range length {
		at := querytest.Epoch + int64(10*slot)
		factor := 1 + 0.5*math.Sin(float64(slot)/5)
		var slowest store.Trace
		longest := int64(0)
		for range perSlot {
			id++
			start := at*1e9 + r.Int64N(8e9)
			shared, last := r.NormFloat64(), 0.0
			var tr store.Trace
			binary.BigEndian.PutUint64(tr.ID[:], id)
			for leaf := range fanOut {
				z := math.Sqrt(likeness)*shared + math.Sqrt(1-likeness)*r.NormFloat64()
				d := 0.01 * factor * math.Exp(0.6*z)
				last = max(last, d)
				w.Span(at, request("leaf", "search", "ok"), d)
				tr.Entries = append(tr.Entries, store.TraceEntry{Span: [8]byte{1, byte(leaf)}, Service: "leaf", Operation: "search", StartNanos: start, DurationNanos: int64(d * 1e9)})
			}
			whole := last + 0.001
			w.Span(at, request("front", "GET /q", "ok"), whole)
			tr.Entries = append(tr.Entries, store.TraceEntry{Span: [8]byte{2}, Service: "front", Operation: "GET /q", StartNanos: start - 5e5, DurationNanos: int64(whole * 1e9), Why: store.WhySlow})
			if b := (bucket{slot / 6, int(math.Floor(2 * math.Log2(whole)))}); !seen[b] {
				seen[b] = true
				example := tr
				example.Entries = slices.Clone(tr.Entries)
				example.Entries[fanOut].Why = store.WhyExemplar
				kept = append(kept, example)
			}
			if d := int64(whole * 1e9); d > longest {
				slowest, longest = tr, d
			}
		}
		if !slices.ContainsFunc(kept, func(tr store.Trace) bool { return tr.ID == slowest.ID }) {
			kept = append(kept, slowest)
		}
		w.Span(at, request("leaf", "ping", "ok"), 0.0005)
		w.Span(at, request("leaf", "search", "error"), 3)
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if err := st.PutTraces(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	return st
}

func asked(step int64) Request {
	return Request{Service: "leaf", Start: time.Unix(querytest.Epoch, 0), End: time.Unix(querytest.Epoch+10*length, 0), Step: step}
}

func TestRead(t *testing.T) {
	st := search(t, 0.5)
	got, err := Read(t.Context(), st, asked(0))
	if err != nil {
		t.Fatal(err)
	}
	if got.Step != 10 || len(got.Classes) != 2 || got.Classes[0].Class != "search" || got.Classes[0].Count != length*perSlot*fanOut || got.Classes[0].Failed != length || len(got.Classes[0].Slots) != length {
		t.Fatalf("%d classes by %d s, the first %s of %d, %d failed", len(got.Classes), got.Step, got.Classes[0].Class, got.Classes[0].Count, got.Classes[0].Failed)
	}
	sum := uint64(0)
	for _, n := range got.Classes[0].Slots[3].Counts {
		sum += n
	}
	if sum != perSlot*fanOut {
		t.Errorf("%d observations in a slot", sum)
	}
	// As a file it says the same.
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := ofFile("leaves.json", b)
	if err != nil || len(sources) != 2 {
		t.Fatalf("%d classes, %v", len(sources), err)
	}
	s := sources[0]
	slow, quick := s.slots[8].Quantile(0.5), s.slots[24].Quantile(0.5)
	for _, c := range []struct{ slot, got float64 }{{8, slow}, {24, quick}} {
		if want := 0.01 * (1 + 0.5*math.Sin(c.slot/5)); math.Abs(c.got/want-1) > 0.1 {
			t.Errorf("median of slot %g is %g, want about %g", c.slot, c.got, want)
		}
	}
	if s.count != got.Classes[0].Count || s.traces < fewestTraces || s.step != 10 {
		t.Errorf("%+v", s)
	}
	if one, err := Read(t.Context(), st, Request{Service: "leaf", Operation: "ping", Start: asked(0).Start, End: asked(0).End}); err != nil || len(one.Classes) != 1 || one.Step == 10 {
		t.Errorf("thin slots stay apart: %+v, %v", one, err)
	}
}

// Likeness is found although slow traces are kept more often than they come.
func TestTogether(t *testing.T) {
	for _, want := range []float64{0, 0.3, 0.7} {
		got, err := Read(t.Context(), search(t, want), asked(10))
		if err != nil {
			t.Fatal(err)
		}
		c := got.Classes[0]
		if v := c.Together; c.FanOut != fanOut || math.Abs(float64(v.Value)-want) > 0.15 || float64(v.Low) > want || float64(v.High) < want {
			t.Errorf("%g: %.3f (%.3f to %.3f) of %d traces with %g leaves", want, v.Value, v.Low, v.High, c.Traces, c.FanOut)
		}
	}
}

func TestNothingToRead(t *testing.T) {
	st := search(t, 0)
	for _, c := range []struct {
		change func(*Request)
		want   string
	}{
		{func(r *Request) { r.Service = "leafs" }, `did you mean "leaf"`},
		{func(r *Request) { r.Operation = "serch" }, `did you mean "search"`},
		{func(r *Request) { r.Start = r.Start.Add(-time.Hour); r.End = r.Start.Add(time.Minute) }, "widen the range"},
		{func(r *Request) { r.Service = "" }, "write service="},
		{func(r *Request) { r.Step = 10; r.Start = r.Start.Add(-48 * time.Hour) }, "more than 720 slots"},
		{func(r *Request) { r.Classes = 999 }, "not between"},
	} {
		r := asked(0)
		c.change(&r)
		_, err := Read(t.Context(), st, r)
		if err == nil || query.AsError(err) == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

const stored = `simulate: search
leaves:
  - from: {service: leaf, since: 5m, every: 10s}
layout: {nodes: 8, shards: 8, threads: 4, cores: 4, rate: 10}
`

func load(t *testing.T, file string, from Sources) (*Measured, string) {
	t.Helper()
	s, problems := spec.Read("s.yaml", []byte(file))
	if len(problems) > 0 {
		t.Fatal(strictyaml.Error(problems))
	}
	m, problems, err := Load(t.Context(), s, from)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) > 0 {
		return nil, strictyaml.Error(problems).Error()
	}
	if err := m.Model.Validate(); err != nil {
		t.Fatal(err)
	}
	return m, ""
}

// What is simulated on idle nodes is what was seen of the front, as the moment and the
// query make leaves alike; without them it is not.
func TestLoadFromStore(t *testing.T) {
	st := search(t, 0.5)
	from := Sources{Store: func(ctx context.Context, f spec.From) (*api.Leaves, error) {
		r := asked(int64(f.Every.Seconds()))
		r.Service = f.Service
		return Read(ctx, st, r)
	}}
	m, wrong := load(t, stored, from)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if len(m.Leaves) != 2 || m.Leaves[0].Slots != length || m.Model.Every != 10 || m.Service != "leaf" || math.Abs(float64(m.Leaves[0].Weight)-0.9987) > 1e-3 {
		t.Fatalf("%+v", m.Leaves)
	}
	quantile := func(m simulate.Model, name string) float64 {
		r, err := simulate.Run(t.Context(), m, simulate.Layout{Nodes: 8, Shards: 8, Rate: 10}, simulate.Options{Queries: 30_000})
		if err != nil {
			t.Fatal(err)
		}
		return float64(r.Quantiles[name].Value)
	}
	front, err := Read(t.Context(), st, Request{Service: "front", Start: asked(0).Start, End: asked(0).End})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := ofLeaves(front)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]float64{"0.5": 0.5, "0.99": 0.99} {
		want := seen[0].whole.Quantile(p) - 0.001
		if got := quantile(m.Model, name); math.Abs(got/want-1) > 0.08 {
			t.Errorf("%s quantile %g, seen %g", name, got, want)
		}
	}
	apart, _ := load(t, stored+"moments: none\n", from)
	apart.Model.Classes[0].Together = 0
	if got, want := quantile(apart.Model, "0.5"), seen[0].whole.Quantile(0.5)-0.001; got/want < 1.15 {
		t.Errorf("the median of leaves that have nothing to do with each other is %g, seen %g", got, want)
	}
}

func TestLoadFiles(t *testing.T) {
	bench := `{"format":1,"name":"leaf","queries":[{"name":"term","uncorrected":{"count":30000,"min":0.001,"max":0.3,"bounds":[0,0.01,0.1,0.3],"counts":[20000,9000,1000]}},
		{"name":"facet","uncorrected":{"count":20000,"min":0.02,"max":0.3,"bounds":[0,0.1,0.3],"counts":[10000,10000]}}]}`
	files := map[string]string{"bench.json": bench, "one.json": `{"id":"x","bench":` + bench + `}`, "few.txt": "# of one leaf\n5ms\n0.006\n\n7ms\n", "bad.txt": "5ms\nfive\n", "other.json": `{"a":1}`, "empty.txt": ""}
	from := Sources{File: func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fmt.Errorf("no file %s", name)
	}}
	const layout = "layout: {nodes: 4, shards: 4, threads: 1, rate: 10}\n"
	m, wrong := load(t, "simulate: x\nleaves: [{from: {file: bench.json, shards: 4}}]\n"+layout, from)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if len(m.Leaves) != 2 || m.Leaves[0].Weight != 0.6 || m.Leaves[1].Class != "facet" || m.Leaves[0].Shards != 4 || math.Abs(m.Model.Classes[0].Sizes[0].Slots[0].Quantile(0.5)-0.00775) > 1e-4 {
		t.Errorf("%+v", m.Leaves)
	}
	m, wrong = load(t, "simulate: x\nleaves:\n  - {name: t, weight: 3, from: [{file: one.json, query: term, shards: 4}, {file: bench.json, query: facet, shards: 2}]}\n  - {name: g, weight: 1, from: {takes: 5ms}}\n"+layout, from)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if c := m.Model.Classes; len(c) != 2 || c[0].Name != "t" || c[0].Weight != 0.75 || len(c[0].Sizes) != 2 || c[0].Sizes[0].Shards != 2 || !strings.HasPrefix(m.Leaves[0].Source, "of 2 shards bench.json: the run of load leaf, 20,000 answered requests; of 4 shards") {
		t.Errorf("%+v %+v", c, m.Leaves)
	}
	for file, want := range map[string]string{
		"leaves: [{from: {file: few.txt}}]":                                     "2:17: p99 of queries that ask 4 leaves is decided by the slowest 0.25 % of leaves, and of few.txt there are 3 observations, of which 0.0075 are that slow: measure 3,985",
		"asks: p99.9\nleaves: [{from: {file: bench.json}}]":                     "and of term, facet the one with the fewest has 20,000 observations, of which 5 are that slow: measure 39,985 of each, or name the operation that matters, or write asks: p99",
		"leaves: [{from: {file: bad.txt}}]":                                     `line 2: "five" is not a duration`,
		"leaves: [{from: {file: other.json}}]":                                  "neither a result of tailscope bench",
		"leaves: [{from: {file: empty.txt}}]":                                   "it is empty",
		"leaves: [{from: {file: gone.json}}]":                                   "no file gone.json",
		"leaves: [{from: {file: bench.json, query: tern}}]":                     "did you mean term",
		"leaves: [{from: {service: solr}}]":                                     "leaves of solr are in a server's store",
		"leaves: [{from: {file: bench.json}}, {from: {takes: 5ms}}]":            "nothing says how many queries are of which",
		"leaves: [{weight: 2, from: {file: bench.json}}, {from: {takes: 5ms}}]": "this one does not",
	} {
		if _, wrong := load(t, "simulate: x\n"+file+"\n"+layout, from); !strings.Contains(wrong, want) {
			t.Errorf("%s\n  says %s\n  want %s", file, wrong, want)
		}
	}
}

// A class of which there is hardly one request in a slot is not a class whose leaves are all
// alike: neighbours share what they took.
func TestRareClassesShareSlots(t *testing.T) {
	doc := &api.Leaves{Format: 1, Range: api.Range{End: 5000}, Step: 10}
	for i := range 12 {
		doc.Bounds = append(doc.Bounds, api.Float(0.001*float64(i)))
	}
	often, rare := api.LeafClass{Class: "often"}, api.LeafClass{Class: "rare"}
	for i := range int64(500) {
		often.Slots = append(often.Slots, api.LeafSlot{Time: 10 * i, Min: 0.001, Max: 0.002, At: []int{1}, Counts: []uint64{300}})
		if i%2 == 0 {
			at := int(i/2) % 11
			rare.Slots = append(rare.Slots, api.LeafSlot{Time: 10 * i, Min: doc.Bounds[at], Max: doc.Bounds[at+1], At: []int{at}, Counts: []uint64{1}})
		}
	}
	doc.Classes = []api.LeafClass{often, rare}
	found, err := ofLeaves(doc)
	if err != nil {
		t.Fatal(err)
	}
	if s := found[0]; s.slots[0] == s.slots[1] || s.slots[0].Observations() != 300 {
		t.Error("slots with enough in them are one")
	}
	s := found[1]
	if s.slots[0] == nil || s.slots[1] != nil || s.slots[0] != s.slots[498] || s.slots[0].Observations() != 250 || s.counts[0] != 1 || s.counts[1] != 0 {
		t.Errorf("slots of a rare class: %v", s.counts[:4])
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"format":1,"start":0,"end":20,"step":10,"bounds":[0,1,2],"classes":[{"class":"a","slots":[{"time":10,"min":0.5,"max":1.5,"at":[0,1],"counts":[3,4]}]}]}`))
	f.Add([]byte(`{"name":"x","uncorrected":{"count":1,"bounds":[0,1],"counts":[1]}}`))
	f.Add([]byte("5ms\n0.1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		sources, err := ofFile("f", content)
		if (err == nil) != (len(sources) > 0) {
			t.Fatalf("%d classes, %v", len(sources), err)
		}
		for _, s := range sources {
			if s.whole == nil || s.count == 0 || !(s.whole.Mean() >= 0) {
				t.Fatalf("%+v", s)
			}
		}
	})
}
