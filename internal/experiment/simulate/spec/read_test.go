package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"tailscope/internal/experiment/simulate"
	"tailscope/internal/strictyaml"
)

const whole = `simulate: search on more nodes
seed: 7
queries: 20k
asks: p99
currency: €
leaves:
  - name: term
    weight: 80%
    from: {service: solr, operation: GET /select, since: 2h, every: 1m, shards: 4}
    fixed: 500us
    together: 0.2
    waits: 10%
    after: {query: 1ms, leaf: 20us}
  - name: facet
    weight: 20%
    from:
      - {file: facet-8.json, query: facet, shards: 8}
      - {takes: {lognormal: {median: 8ms, p99: 60ms}}, shards: 4}
  - name: ping
    weight: 1%
    from: {takes: 1ms}
layout:
  shards: 16
  threads: 2
  cores: 2
  rate: 3000/m
  pause: {every: 30s, lasts: {exponential: 200ms}}
  hedge: {quantile: p95, cancel: yes}
  replicas: 2
  nodes: 8
  aggregator: {after: {query: 1ms, leaf: 50us}, nodes: 1, cores: 4}
  price: 0.4
layouts:
  - {name: binary, split: binary}
  - {name: arbitrary, split: arbitrary, aggregator: {nodes: 2}}
vary: {nodes: 3..5}
`

func TestRead(t *testing.T) {
	s, problems := Read("s.yaml", []byte(whole))
	if len(problems) > 0 {
		t.Fatal(strictyaml.Error(problems))
	}
	if s.Name != "search on more nodes" || s.Seed != 7 || s.Queries != 20_000 || s.Asks != 0.99 || s.Moments != All || s.Variable != "nodes" || s.Currency != "€" || !s.Stores() {
		t.Errorf("%+v", s)
	}
	term, facet, ping := s.Leaves[0], s.Leaves[1], s.Leaves[2]
	if f := term.From[0]; term.Weight != 0.8 || term.Fixed != 0.0005 || term.Together != 0.2 || term.Waits != 0.1 || f.Shards != 4 || f.Since.Hours() != 2 || f.Every.Minutes() != 1 || *term.After != (simulate.Cost{Query: 0.001, Leaf: 2e-5}) {
		t.Errorf("%+v", term)
	}
	if len(facet.From) != 2 || facet.From[0].Shards != 4 || facet.From[1].File != "facet-8.json" || !math.IsNaN(facet.Together) {
		t.Errorf("%+v", facet)
	}
	if d := facet.From[0].Takes; math.Abs(d.Quantile(0.5)-0.008) > 1e-5 || math.Abs(d.Quantile(0.99)-0.06) > 1e-4 {
		t.Errorf("log-normal: %g, %g", d.Quantile(0.5), d.Quantile(0.99))
	}
	if ping.From[0].Said != "always 1ms" {
		t.Errorf("%+v", ping.From[0])
	}
	var names []string
	for _, l := range s.Layouts {
		names = append(names, fmt.Sprintf("%s|%s|%g|%d|%d", l.Name, l.Curve, l.X, l.InShards(), l.Aggregator.Nodes))
	}
	const want = "3 nodes, binary|binary|3|16|1; 4 nodes, binary|binary|4|16|1; 5 nodes, binary|binary|5|16|1; " +
		"3 nodes, arbitrary|arbitrary|3|18|2; 4 nodes, arbitrary|arbitrary|4|16|2; 5 nodes, arbitrary|arbitrary|5|20|2"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	l := s.Layouts[4]
	if l.Rate != 50 || l.Hedge.Quantile != 0.95 || !l.Hedge.Cancel || l.Pause.Every != 30 || math.Abs(l.Pause.Lasts.Mean()-0.2) > 1e-3 || l.Aggregator.Cores != 4 || l.Aggregator.After.Leaf != 5e-5 || l.Price != 0.4 {
		t.Errorf("%+v", l)
	}
}

func TestNames(t *testing.T) {
	const leaves = "simulate: x\nleaves: [{from: {takes: 5ms}}]\n"
	for file, want := range map[string]string{
		"layout: {nodes: 4, shards: 8, rate: 5}\n":                                                                  "x ",
		"layout: {shards: 8, rate: 5}\nlayouts: [{nodes: 1}, {nodes: 6, threads: 2}]\n":                             "1 node , 6 nodes, 2 threads ",
		"layout: {nodes: 4, shards: 8, rate: 5, replicas: 2}\nvary: {hedge.after: [20ms, 50ms]}\n":                  "hedge.after 20ms , hedge.after 50ms ",
		"layout: {nodes: 4, shards: 8}\nvary: {rate: [5, 60/m]}\n":                                                  "rate 5 , rate 60/m ",
		"layout: {nodes: 4, shards: 8, rate: 5}\nlayouts: [{}, {pause: {every: 1s, lasts: 50ms}}, {speed: 150%}]\n": "layout 1 , pause , speed 150% ",
	} {
		s, problems := Read("s.yaml", []byte(leaves+file))
		if len(problems) > 0 {
			t.Error(strictyaml.Error(problems))
			continue
		}
		got := ""
		for _, l := range s.Layouts {
			got += ", " + l.Name + " " + l.Curve
		}
		if got != ", "+want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
	if got := fmt.Sprint(between(1, 512)); !strings.HasPrefix(got, "[1 2 ") || !strings.HasSuffix(got, " 512]") || len(between(1, 512)) > 32 {
		t.Errorf("1..512: %s", got)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "simulation needs simulate"},
		{"simulate: x\nleafs: []\n", "2:1: unknown key leafs in simulation: did you mean leaves"},
		{"leaves: [{from: {servce: solr}}]", `1:18: unknown key servce in from: did you mean service`},
		{"leaves: [{from: {service: solr, file: x.json}}]", "from names two sources"},
		{"leaves: [{from: {operation: x}}]", "operation is of a service"},
		{"leaves: [{from: {takes: 5}}]", "a duration needs a unit: write 5ms"},
		{"leaves: [{from: {takes: {quantiles: {p50: 5ms, max: 4ms}}}}]", "quantiles do not rise"},
		{"leaves: [{from: {takes: {quantiles: {p50: 5ms}}}}]", "need min and max"},
		{"leaves: [{from: [{takes: 5ms, shards: 4}, {takes: 4ms}]}]", "does not say of how many"},
		{"leaves: [{from: [{takes: 5ms, shards: 4}, {takes: 4ms, shards: 4}]}]", "of 4 shards"},
		{"leaves: [{name: a, from: {takes: 5ms}}, {name: a, from: {takes: 5ms}}]", "two classes are named a"},
		{fiveMs + "layout: {nodes: 4, shards: 8, rat: 5}", "2:31: unknown key rat in layout: did you mean rate"},
		{fiveMs + "layout: {nodes: 4, shards: 8}", "layout needs rate: write rate: 50"},
		{fiveMs + "layout: {nodes: 4, rate: 8}", "layout needs shards"},
		{fiveMs + "layout: {nodes: four, shards: 8, rate: 8}", `nodes: "four" is out of range`},
		{fiveMs + "layout: {nodes: 4, shards: 8, rate: 8, split: binry}", "did you mean binary"},
		{fiveMs + "layout: {nodes: 4, shards: 8, rate: 8, hedge: {after: 5ms}}", "2:40: layout: hedge: no other replica to ask"},
		{fiveMs + "layout: {nodes: 4, shards: 8, arrivals: closed}", "users: 0"},
		{fiveMs + "layout: {nodes: 4, shards: 8, rate: 8}\nlayouts: [{nodes: 4}, {nodes: 4}]", `two layouts are named "4 nodes"`},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {node: [4]}", "did you mean nodes"},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: 4..}", `"4.." is not a range`},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: 1..1000000000}", `is not a range`},
		{fiveMs + "layout: {nodes: 100000, shards: 8, rate: 8}", "from 1 to 10000"},
		{fiveMs + "layout: {nodes: 2, shards: 8, rate: 8, aggregator: {nodes: 1, cores: 1e12}}", "2:40: layout: aggregator: 1e+12 cores"},
		{"leaves: []\n", "leaves has no entry"},
		{"leaves: [{from: {takes: 0s}}]", "leaves that take no time"},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: [4, 4]}", "vary has 4 twice"},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: [1, -4]}", `3:19: nodes: "-4" is out of range`},
		{fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: [1], shards: [1]}", "vary is not one key"},
		{fiveMs + "asks: p100\n", `"p100" is not a quantile`},
		{fiveMs + "asks: p0\n", `"p0" is not a quantile`},
		{fiveMs + "queries: 10\n", "write a number from 1000 to 20M"},
	} {
		if !strings.Contains(c.file, "simulate:") && c.file != "" {
			c.file = "simulate: x\n" + c.file
			if c.want[1] == ':' { // a line below the name
				c.want = string(c.want[0]+1) + c.want[1:]
			}
		}
		s, problems := Read("s.yaml", []byte(c.file))
		if err := strictyaml.Error(problems); s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  says %v\n  want %s", c.file, err, c.want)
		}
	}
}

const fiveMs = "leaves: [{from: {takes: 5ms}}]\n"

// The schema has every key, and takes what is read.
func TestSchema(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[file](), reflect.TypeFor[layout](), reflect.TypeFor[from]()} {
		for _, wrong := range strictyaml.Undescribed(of, leaves) {
			if !strings.HasSuffix(wrong, "has no words") {
				t.Error(wrong)
			}
		}
	}
	var schema struct {
		Required   []string
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	if len(schema.Required) != 2 || len(schema.Properties) != len(strictyaml.KeysOf(reflect.TypeFor[file]())) || schema.Defs["layout"].Properties["nodes"] == nil || schema.Defs["from"].Properties["takes"] == nil {
		t.Errorf("%+v", schema)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("simulate: x\n" + fiveMs + "layout: {shards: 8, rate: 8}\nvary: {nodes: 1..9}")
	f.Fuzz(func(t *testing.T, file string) {
		s, problems := Read("s.yaml", []byte(file))
		if (s == nil) == (len(problems) == 0) {
			t.Fatal("neither a simulation nor a problem, or both")
		}
		if s == nil {
			return
		}
		for _, l := range s.Layouts {
			if err := l.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
