package cli

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report/reporttest"
)

// changesFixture is a change of a service, with that of its operation, and one
// that is confirmed, of the errors alone.
func changesFixture() *api.ChangesResponse {
	nan := api.Float(math.NaN())
	measure := func(name, scale string, verdict api.Verdict, change api.Way, a, b, effect, low, high api.Float) api.CompareMeasure {
		return api.CompareMeasure{Name: name, Scale: scale, Verdict: verdict, Change: change, Adjusted: 0.002, Sentence: "a sentence",
			Raw: api.CompareFigure{A: a, B: b, Effect: effect, Low: low, High: high, P: 0.001, Verdict: verdict, Error: 0.0219, Needed: nan, NeededSeconds: nan}}
	}
	slower := []api.CompareMeasure{
		measure("p50", "ratio", "same", "", 0.012, 0.0121, 1.01, 0.98, 1.03),
		measure("p95", "ratio", "slower", "worse", 0.051, 0.0704, 1.38, 1.33, 1.42),
		measure("p99", "ratio", "too little data", "", 0.21, 0.29, 1.38, nan, nan),
		measure("errors", "difference", "higher", "worse", 0.001, 0.01, 0.009, 0.008, 0.0101),
		measure("rate", "ratio", "higher", "", 20, 31, 1.55, 1.5, 1.6),
	}
	like := slower[1].Raw
	like.Effect, like.Low, like.High = 1.4, 1.34, 1.45
	whole := append([]api.CompareMeasure{}, slower...)
	whole[1].Like = &like
	const at = 1778316000
	return &api.ChangesResponse{
		Range: api.Range{Start: 1778313600, End: 1778317200}, Slot: 10, Searched: 51,
		Notes: []string{"3 operations with fewer requests were not searched; ask for more with operations, or for one by match"},
		Events: []api.ChangeEvent{{Time: at, Low: at - 20, High: at + 20, Changes: []string{"5f1c0de5f1c0de13", "5f1c0de5f1c0de11", "5f1c0de5f1c0de12"},
			Services: []api.ChangeService{{Service: "payments", CalledBy: []string{"shop"}}, {Service: "shop", CalledBy: []string{}}},
			Sentence: "Payments and shop changed at one moment; payments moved too, and is called by shop, at 2026-05-09 08:40:00 UTC"}},
		Changes: []api.Change{
			{ID: "5f1c0de5f1c0de13", Time: at, Low: at, High: at, Service: "payments", Part: &api.ChangePart{Service: "payments", Component: "db", Operation: "SELECT cards", System: "postgresql"},
				Found: []string{"calls"}, P: 0.0001, Verdict: "regression", Name: "more calls of SELECT cards (postgresql)", Status: "new", Near: []api.Mark{},
				Measures: []api.CompareMeasure{
					measure("calls_per_request", "ratio", "higher", "worse", 2, 9, 4.5, 4.4, 4.6),
					measure("time_per_request", "ratio", "no evidence", "", 0.0065, 0.0066, 1.015, 0.99, 1.03),
				},
				Headline: "calls of SELECT cards (postgresql) per request of payments 2 → 9, 4.5 times as many (95 % interval 4.4 … 4.6)", Sentence: "a sentence"},
			{ID: "5f1c0de5f1c0de11", Time: at, Low: at - 30, High: at + 20, Service: "shop", Found: []string{"durations", "rate"}, P: 0.0004, Measures: whole, Verdict: "regression",
				Shape:    &api.Shape{Kind: "step", Sentence: "p95 of shop is at one level before, 51 ms, and at another after, 70.4 ms", Usual: 0.051, Value: 0.0704},
				Who:      &api.ChangeWho{Tenants: []string{"acme"}, TenantsJudged: 12, Operations: []string{"GET /search", "GET /cart"}, OperationsJudged: 5, Sentence: "of 12 tenants acme moved; of 5 operations GET /search and GET /cart moved"},
				Headline: "p95 of shop is 40 % slower (95 % interval 34 … 45 %)", Sentence: "a sentence", Name: "p95 of shop slower", Status: "new",
				Near: []api.Mark{{ID: "m1", Name: "deploy \x1b[1m1.4", Time: at - 60}}, Operations: []string{"GET /search", "GET /cart"}},
			{ID: "5f1c0de5f1c0de12", Time: at, Low: at, High: at, Service: "shop", Under: "5f1c0de5f1c0de11", Operation: "GET /search", Found: []string{"durations"}, P: 0.001, Measures: slower, Verdict: "regression",
				Headline: "p95 of GET /search of shop is 38 % slower (95 % interval 33 … 42 %)", Sentence: "a sentence", Name: "p95 of GET /search slower", Status: "confirmed",
				Mark: "5f1c0de5f1c0de12", Near: []api.Mark{}},
		},
	}
}

func TestChangesOutput(t *testing.T) {
	for file, format := range map[string]string{"changes.txt": "table", "changes.csv": "csv", "changes.json": "json"} {
		srv, asked := answering(t, changesFixture())
		out, stderr, code := run(t, "changes", "list", "--service", "shop", "--since", "1d", "--operations", "5", "--status", "all", "--format", format, "--server", srv.URL)
		if code != exitOK || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", format, code, stderr)
		}
		reporttest.Golden(t, file, out)
		if want := `GET /api/v1/changes end=now&match={service="shop"}&operations=5&start=now-1d&status=all`; unescape((*asked)[0]) != want {
			t.Errorf("asked %s, want %s", unescape((*asked)[0]), want)
		}
	}
	srv, _ := answering(t, &api.ChangesResponse{Slot: 60, Searched: 1})
	if out, _, code := run(t, "changes", "list", "--status", "confirmed", "--server", srv.URL); code != exitOK || out != "no confirmed change in 1 series, searched in slots of 60 s\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	if out, _, code := run(t, "changes", "list", "--server", srv.URL); code != exitOK || out != "no change in 1 series, searched in slots of 60 s\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// A change is decided of as it was found.
func TestChangesDecide(t *testing.T) {
	for args, want := range map[string]api.ChangeDecision{
		"confirm 5f1c0de5f1c0de11":                    {Status: "confirmed", Name: "p95 of shop slower", Description: "p95 of shop is 40 % slower (95 % interval 34 … 45 %)"},
		"confirm 5f1c0de5f1c0de11 --name index":       {Status: "confirmed", Name: "index", Description: "p95 of shop is 40 % slower (95 % interval 34 … 45 %)"},
		"dismiss 5f1c0de5f1c0de11 --since 2d":         {Status: "dismissed"},
		"undo 5f1c0de5f1c0de11 --service shop":        {Status: "new"},
		"confirm 5f1c0de5f1c0de11 --description why!": {Status: "confirmed", Name: "p95 of shop slower", Description: "why!"},
	} {
		srv, asked := answering(t, changesFixture())
		_, stderr, code := run(t, append(append([]string{"changes"}, strings.Fields(args)...), "--server", srv.URL)...)
		if code != exitOK || len(*asked) != 2 || !strings.Contains((*asked)[0], "status=all") {
			t.Fatalf("%s: exit code %d, %s; asked %q", args, code, stderr, *asked)
		}
		body, ok := strings.CutPrefix((*asked)[1], "POST /api/v1/changes  ")
		var got api.ChangeDecision
		if err := json.Unmarshal([]byte(body), &got); !ok || err != nil {
			t.Fatalf("%s: asked %q, %v", args, (*asked)[1], err)
		}
		want.ID, want.Time, want.Low, want.High, want.Service = "5f1c0de5f1c0de11", 1778316000, 1778315970, 1778316020, "shop"
		if got != want {
			t.Errorf("%s: decided %+v, want %+v", args, got, want)
		}
	}
	srv, _ := answering(t, changesFixture())
	for args, want := range map[string]string{
		"confirm":           "tailscope: tailscope changes confirm needs the id of a change",
		"dismiss 77":        "tailscope: no change \"77\" was found in that range\nhint: write the --since",
		"list --format xml": "write one of table, json, csv",
	} {
		if _, stderr, code := run(t, append(append([]string{"changes"}, strings.Fields(args)...), "--server", srv.URL)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s; want %s", args, code, stderr, want)
		}
	}
	if _, stderr, code := run(t, "changes", "accept"); code != exitUsage || !strings.Contains(stderr, "hint: write tailscope changes list, confirm, dismiss or undo") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
