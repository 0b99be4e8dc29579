package cli

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

func explainFixture() *api.ExplainResponse {
	pair := api.Labels{"tenant": "acme", "operation": "GET /search"}
	return &api.ExplainResponse{
		Range: api.Range{Start: begin, End: begin + 3600}, Family: "span_duration_seconds", From: begin + 1200, To: begin + 2400, Low: 0.2, High: api.Float(math.NaN()),
		Inside: 1204, Outside: 121610, LabelsTried: 14, PairsTried: 31, Notes: []string{"2 more are over-represented: raise limit to see them"},
		Items: []api.ExplainItem{
			{Labels: pair, Inside: 740, Outside: 1216, InsideShare: 0.6146, OutsideShare: 0.01, Effect: 0.6046, EffLow: 0.55, EffHigh: 0.66, Lift: 61.46, Adjusted: 1e-9},
			{Labels: api.Labels{"tenant": "acme"}, Inside: 746, Outside: 4864, InsideShare: 0.6196, OutsideShare: 0.04, Effect: 0.5796, EffLow: 0.51, EffHigh: 0.64, Lift: 15.5, Adjusted: 1e-9, Through: pair},
			{Labels: api.Labels{"tenant": ""}, Inside: 12, InsideShare: 0.00997, Effect: 0.00997, EffLow: 0.0004, EffHigh: 0.02, Lift: api.Float(math.NaN()), Adjusted: 0.03},
		},
	}
}

func explainBefore() *api.ExplainResponse {
	return &api.ExplainResponse{
		Range: api.Range{Start: begin, End: begin + 3600}, Family: "span_duration_seconds", Against: "before", From: begin + 1200, To: begin + 2400, Low: 0.2, High: api.Float(math.NaN()),
		Before:   &api.ExplainBefore{Start: begin, End: begin + 1200, Mark: "m1", Name: "deploy 1.4", Inside: 402, Count: 40000, Share: 0.01, Now: 0.03},
		Sentence: "tenant acme: 13 % of its requests are inside, 4.0 % were before (+9.3 points, 95 % interval 8.1 … 10), 71 % of the increase; 29 % is of all others",
		Inside:   1204, Outside: 38796, LabelsTried: 14, PairsTried: 31,
		Items: []api.ExplainItem{
			{Labels: api.Labels{"tenant": "acme"}, Inside: 746, Outside: 4864, InsideShare: 0.133, OutsideShare: 0.04, Effect: 0.093, EffLow: 0.081, EffHigh: 0.105, Lift: 3.3, Adjusted: 1e-9, Part: 0.71},
			{Labels: api.Labels{}, Inside: 458, Outside: 33932, InsideShare: 0.0133, OutsideShare: 0.0061, Effect: 0.0072, EffLow: 0.002, EffHigh: 0.012, Lift: 2.2, Adjusted: 0.004, Part: 0.29},
		},
		Errors: &api.ExplainErrors{Start: begin, End: begin + 1200, Failed: 210, Share: 0.002, Now: 0.006,
			Sentence: "tenant initech: 16 % of its requests fail, 0.4 % did before (+15 points, 95 % interval 12 … 18), more than the increase: others decreased", Items: []api.ExplainItem{
				{Labels: api.Labels{"tenant": "initech"}, Inside: 190, Outside: 1010, InsideShare: 0.158, OutsideShare: 0.004, Effect: 0.154, EffLow: 0.12, EffHigh: 0.18, Lift: 39, Adjusted: 1e-9, Part: 1.2},
			}},
	}
}

func TestExplain(t *testing.T) {
	answer := explainFixture()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.Query().Encode())
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("TAILSCOPE_SERVER", srv.URL)
	explain := func(args ...string) string {
		t.Helper()
		out, stderr, code := run(t, append([]string{"query", "explain"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: %d, %s", args, code, stderr)
		}
		return out
	}
	reporttest.Golden(t, "explain.txt", explain("--service", "shop", "--low", "200ms"))
	reporttest.Golden(t, "explain.csv", explain("--service", "shop", "--low", "200ms", "--format", "csv"))
	if out := explain("--low", "1", "--format", "json"); !strings.Contains(out, `"effect_low": 0.55`) {
		t.Errorf("as JSON: %s", out)
	}
	before := explainBefore()
	answer = before
	reporttest.Golden(t, "explain-before.txt", explain("--service", "shop", "--low", "200ms"))
	reporttest.Golden(t, "explain-before.csv", explain("--service", "shop", "--low", "200ms", "--format", "csv"))
	before.Items, before.Sentence = nil, "nothing became slower here than it was from 10:00:00 to 10:30:00 UTC"
	if out := explain("--service", "shop", "--low", "200ms", "--against", "before"); !strings.Contains(out, "\nnothing became slower here than it was from 10:00:00 to 10:30:00 UTC\n") {
		t.Errorf("without a cause: %s", out)
	}
	answer = explainFixture()
	asked = nil
	if explain("--service", "shop", "--environment", "production", "--low", "1"); len(asked) != 1 || !strings.Contains(asked[0], "%2Cenvironment%3D%22production%22%2C") {
		t.Errorf("of an environment: asked %v", asked)
	}
	asked = nil
	explain("--match", `{kind="server"}`, "--start", "1", "--end", "9", "--from", "2", "--to", "3", "--low", "250ms", "--high", "1.5", "--labels", "tenant,operation", "--alone", "--limit", "5", "--before", "4..5")
	want := "/api/v1/explain?before=4%2F5&end=9&from=2&high=1.5&labels=tenant%2Coperation&limit=5&low=0.25&match=%7Bkind%3D%22server%22%7D&pairs=false&start=1&to=3"
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("asked %v\nwant  %s", asked, want)
	}
	answer.Items, answer.Low, answer.High, answer.Notes, answer.Sentence = nil, api.Float(math.NaN()), 0.1, nil, "nothing is over-represented: the rectangle looks like the rest"
	if out := explain("--high", "0.1"); !strings.Contains(out, "up to 100 ms\nnothing is over-represented") {
		t.Errorf("of nothing: %s", out)
	}
	answer.LabelsTried, answer.Sentence = 0, "there is nothing to tell apart: every label has one value"
	if out := explain("--high", "0.1"); !strings.Contains(out, "every label has one value") {
		t.Errorf("of one value: %s", out)
	}
	answer.Notes, answer.Sentence = []string{"fewer than 20 slots"}, ""
	if out := explain("--high", "0.1"); strings.Contains(out, "every label") || strings.Contains(out, "nothing is") || !strings.Contains(out, "note: fewer than 20") {
		t.Errorf("of few slots: %s", out)
	}
	for _, c := range [][]string{{}, {"--low", "slow"}, {"--low", "NaN"}, {"--low", "1", "more"}, {"--low", "1", "--before", "yesterday"}, {"--low", "1", "--before", "now..noon"}} {
		if out, stderr, code := run(t, append([]string{"query", "explain"}, c...)...); code != 2 || out != "" || stderr == "" {
			t.Errorf("%v: %d, %s%s", c, code, out, stderr)
		}
	}
}
