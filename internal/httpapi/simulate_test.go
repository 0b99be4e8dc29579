package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// leafServer has an hour of leaves, of two operations.
func leafServer(t *testing.T) (fetched func(path string, params ...string) (int, string), sent func(file string) (int, string)) {
	t.Helper()
	w := querytest.NewWriter()
	span := func(at int64, operation string, seconds float64) {
		w.Span(at, labels.FromStrings(series.LabelService, "solr", series.LabelOperation, operation, series.LabelKind, "server",
			series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelTenant, "acme"), seconds)
	}
	for slot := range int64(60) {
		for i := range 600 {
			span(querytest.Epoch+60*slot, "select", 0.002+0.00002*float64(i))
		}
		span(querytest.Epoch+60*slot, "facet", 0.05)
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, Options{Store: st, MaxWait: 50 * time.Millisecond})
	return func(path string, params ...string) (int, string) { return fetch(t, srv, path, params...) },
		func(file string) (int, string) {
			b, err := json.Marshal(api.SimulateRequest{File: file})
			if err != nil {
				t.Fatal(err)
			}
			return send(t, srv, "POST", "/api/v1/simulate", string(b))
		}
}

func TestLeaves(t *testing.T) {
	fetched, _ := leafServer(t)
	code, body := fetched("/api/v1/leaves", "match", `{service="solr"}`, "step", "60")
	l := decodeJSON[api.Leaves](t, body)
	if code != 200 || len(l.Classes) != 2 || l.Classes[0].Class != "select" || l.Classes[0].Count != 36_000 || len(l.Classes[0].Slots) != 60 || l.Step != 60 || l.Classes[0].Traces != 0 {
		t.Errorf("%d %.300s", code, body)
	}
	for params, want := range map[string]string{
		`{operation="select"}`:                "write match={service=",
		`{service="sol"}`:                     `did you mean \"solr\"`,
		`span_self_seconds{service="solr"}`:   "leave the family",
		`{service="solr",operation="seelct"}`: `did you mean \"select\"`,
	} {
		if code, body := fetched("/api/v1/leaves", "match", params); code < 400 || code > 404 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.500s", params, code, body)
		}
	}
	if code, body := fetched("/api/v1/leaves", "match", `{service="solr"}`, "step", "-5"); code != 400 || !strings.Contains(body, "not positive") {
		t.Errorf("%d %s", code, body)
	}
}

const simulated = `simulate: solr on more nodes
queries: 2k
leaves:
  - from: {service: solr, operation: select, since: 1h, shards: 16}
layout: {shards: 16, threads: 1, cores: 1, rate: 5}
vary: {nodes: [4, 6, 8, 16]}
`

func TestSimulate(t *testing.T) {
	_, sent := leafServer(t)
	code, body := sent(simulated)
	if code != 200 {
		t.Fatal(body)
	}
	s := decodeJSON[api.Simulation](t, body)
	if len(s.Layouts) != 4 || s.Variable != "nodes" || s.Service != "solr" || s.File != simulated || s.Leaves[0].Observations != 36_000 || s.Leaves[0].Slots != 60 {
		t.Fatalf("%.500s", body)
	}
	p50 := func(i int) float64 { return float64(s.Layouts[i].Quantiles["0.5"].Value) }
	// 16 shards on 6 nodes take as many rounds as 3 of them take: not fewer than on 7,
	// and twice as many are on 8 as on 16.
	if s.Layouts[0].Rounds != 4 || s.Layouts[1].Rounds != 3 || s.Layouts[2].Rounds != 2 || p50(2)/p50(3) < 1.3 || len(s.Layouts[0].Work) == 0 {
		t.Errorf("rounds %d %d %d, p50 %g and %g, %d units of work", s.Layouts[0].Rounds, s.Layouts[1].Rounds, s.Layouts[2].Rounds, p50(2), p50(3), len(s.Layouts[0].Work))
	}
	if !strings.HasPrefix(s.Headline, "p99 of queries is ") || !strings.Contains(s.Headline, "95 % interval") || !strings.Contains(s.Headline, "and lowest, with 16 nodes") {
		t.Error(s.Headline)
	}
	if _, again := sent(simulated); decodeJSON[api.Simulation](t, again).Headline != s.Headline {
		t.Error("another answer with the same seed")
	}
}

func TestSimulateErrors(t *testing.T) {
	_, sent := leafServer(t)
	for _, c := range []struct {
		change, to string
		says       string
	}{
		{"nodes: [4", "node: [4", `simulation:6:8: vary: node is not a key of layouts that has one value: did you mean nodes?`},
		{"service: solr", "service: sol", `did you mean \"solr\"`},
		{"{service: solr, operation: select, since: 1h, shards: 16}", "{file: leaf.json}", "the server reads no files"},
		{"operation: select", "operation: facet", "there are 60 observations"},
		{"2k", "10M", "run tailscope simulate FILE on a machine of your own"},
		{"since: 1h", "start: yesterday", `\"yesterday\" is not a time`},
	} {
		code, body := sent(strings.Replace(simulated, c.change, c.to, 1))
		if code != 400 || !strings.Contains(body, c.says) || !strings.Contains(body, `"field":"file"`) {
			t.Errorf("%s: %d %.500s", c.to, code, body)
		}
	}
	if code, body := sent(" "); code != 400 || !strings.Contains(body, "nothing to simulate") {
		t.Errorf("%d %s", code, body)
	}
	code, body := sent(strings.Replace(simulated, "rate: 5}", "rate: 500}", 1))
	if s := decodeJSON[api.Simulation](t, body); code != 200 || s.Layouts[0].Stable || !strings.Contains(s.Headline, "none of 4 layouts can keep up") || !strings.Contains(fmt.Sprint(s.Warnings), "unstable") {
		t.Errorf("%d %.800s", code, body)
	}
}
