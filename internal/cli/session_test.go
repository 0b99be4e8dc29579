package cli

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report"
	"tailscope/internal/report/reporttest"
)

func sessionFixture() (*api.Session, *api.MirrorVerdictResponse) {
	nan := api.Float(math.NaN())
	const start = 1778313600
	account := func(dropped, failed map[string]uint64, paired uint64) *api.MirrorAccount {
		return &api.MirrorAccount{Offered: 50_000, Dropped: dropped, Failed: failed, Mirrored: paired + report.Sum(failed), Answered: paired, Paired: paired}
	}
	target := func(name, role string, using, servers int, a *api.MirrorAccount) api.MirrorTarget {
		return api.MirrorTarget{Name: name, Role: role, Servers: make([]api.MirrorServer, servers), Using: using, Amplify: 1, Account: a, Diverged: nan}
	}
	x := &api.Session{
		ID: "5f1c0de5f1c0de11", Kind: "mirror", Name: "new cache", Service: "shop", Start: start, End: start + 1800, Updated: start + 1800, State: "ended",
		Headline: "p99 of GET /search is 38 % faster than control (95 % interval 33 … 42 %; noise floor ±3 %), everything else: no evidence of change",
		Mirror: &api.MirrorState{
			Mode: "http", Listen: "127.0.0.1:8080", Primary: target("primary", "primary", 1, 1, nil),
			Shadows: []api.MirrorTarget{
				target("control", "control", 2, 2, account(nil, nil, 50_000)),
				target("candidate", "candidate", 2, 3, account(map[string]uint64{"queue_full": 700, "refused": 12}, map[string]uint64{"timeout": 40}, 49_248)),
			},
			Requests: 100_123, Skipped: map[string]uint64{"share": 50_000, "unsafe": 123}, Failed: map[string]uint64{},
		},
	}
	measure := func(name string, verdict api.Verdict, a, b, effect, low, high, noise api.Float) api.MirrorMeasure {
		return api.MirrorMeasure{Name: name, Reference: a, Candidate: b, Effect: effect, Low: low, High: high, Floor: 1.01, FloorLow: 0.98, FloorHigh: 1.03, Noise: noise, P: 0.001, Adjusted: 0.004, Verdict: verdict, Sentence: "a sentence"}
	}
	measures := []api.MirrorMeasure{
		measure("ratio", "no evidence", 1, 1.002, 1.002, 0.991, 1.013, 0.03),
		measure("p99", "faster", 0.1, 0.062, 0.62, 0.58, 0.67, 0.03),
		measure("p99.9", "too little data", nan, nan, nan, nan, nan, nan),
		measure("errors", "more errors", 0.001, 0.0062, 0.0052, 0.004, 0.0064, 0.0004),
		measure("bytes", "same", 2048, 2050, 1.001, 0.99, 1.01, 0.02),
	}
	v := &api.MirrorVerdictResponse{
		Range: api.Range{Start: start, End: start + 1800}, ID: x.ID, Slot: 10, Level: 0.95, Slots: 180,
		Candidates: []api.MirrorVerdict{{
			Candidate: "candidate", Against: "control", Verdict: "mixed", Headline: x.Headline, Requests: 49_248, Measures: measures,
			Operations: []api.MirrorRow{
				{Name: "GET /search", Requests: 9000, Verdict: "faster", Lead: "p99", Measures: []api.MirrorMeasure{measures[0], measures[1]}},
				{Name: "GET /cart/{id}", Requests: 40_248, Verdict: "no evidence", Lead: "ratio", Measures: []api.MirrorMeasure{measures[0], measures[0]}},
			},
			Tenants: []api.MirrorRow{}, OperationsJudged: 7,
		}},
		Warnings: []api.CompareWarning{{Code: "dropped", Text: "1.4 % of the copies meant for candidate were dropped (queue full 700)"}},
	}
	return x, v
}

// sessionServer answers for one session, and notes what it is asked.
func sessionServer(t *testing.T) (*httptest.Server, *[]string) {
	t.Helper()
	x, v := sessionFixture()
	asked := new([]string)
	mux := http.NewServeMux()
	for path, answer := range map[string]any{
		"GET /api/v1/sessions":              &api.SessionsResponse{Sessions: []api.Session{*x}},
		"GET /api/v1/sessions/{id}":         x,
		"GET /api/v1/sessions/{id}/verdict": v,
		"PATCH /api/v1/sessions/{id}":       &api.MirrorChange{Number: 1, Stop: true},
		"DELETE /api/v1/sessions/{id}":      nil,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			*asked = append(*asked, strings.TrimSuffix(r.Method+" "+r.URL.Path+" "+unescape(r.URL.RawQuery), " "))
			if answer == nil {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		})
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv, asked
}

func TestSessionOutput(t *testing.T) {
	const id = "5f1c0de5f1c0de11"
	for _, tc := range []struct{ file, args, asked string }{
		{"sessions.txt", "session list --since 7d --state ended", "GET /api/v1/sessions end=now&start=now-7d&state=ended"},
		{"sessions.csv", "session list --format csv", "GET /api/v1/sessions end=now"},
		{"session-show.txt", "session show " + id, "GET /api/v1/sessions/" + id},
		{"session-report.txt", "report session " + id, "GET /api/v1/sessions/" + id},
		{"session-report.md", "report session --format markdown " + id, "GET /api/v1/sessions/" + id},
		{"session-report.json", "report session --format json " + id, "GET /api/v1/sessions/" + id},
	} {
		srv, asked := sessionServer(t)
		out, stderr, code := run(t, append(strings.Fields(tc.args), "--server", srv.URL)...)
		if code != exitOK || stderr != "" {
			t.Fatalf("%s: exit code %d, %s", tc.args, code, stderr)
		}
		reporttest.Golden(t, tc.file, out)
		if (*asked)[0] != tc.asked {
			t.Errorf("asked %s, want %s", (*asked)[0], tc.asked)
		}
	}
	srv, asked := sessionServer(t)
	file := filepath.Join(t.TempDir(), "report.md")
	if _, stderr, code := run(t, "report", "session", id, "--format", "markdown", "--output", file, "--measures", "ratio,p99", "--limit", "3", "--server", srv.URL); code != exitOK {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	want := "GET /api/v1/sessions/" + id + "/verdict limit=3&measures=ratio,p99"
	if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "## candidate: p99 of GET /search") || (*asked)[1] != want {
		t.Errorf("asked %v, wrote %.60s, %v", *asked, b, err)
	}
}

// What is claimed stays, for the headline may be about it.
func TestBriefKeepsWhatIsClaimed(t *testing.T) {
	m := func(name string, verdict api.Verdict) api.MirrorMeasure {
		return api.MirrorMeasure{Name: name, Verdict: verdict}
	}
	v := &api.MirrorVerdictResponse{Candidates: []api.MirrorVerdict{{Measures: []api.MirrorMeasure{
		m("ratio", "no evidence"), m("p75", "same"), m("p99.9", "too little data"), m("first_byte", "slower"), m("bytes", "higher"),
	}, Operations: make([]api.MirrorRow, 9)}}}
	shorten(v)
	var names []string
	for _, x := range v.Candidates[0].Measures {
		names = append(names, x.Name)
	}
	if got := strings.Join(names, " "); got != "ratio first_byte bytes" || len(v.Candidates[0].Operations) != 5 {
		t.Errorf("%s, %d operations", got, len(v.Candidates[0].Operations))
	}
}

func TestSessionDo(t *testing.T) {
	for args, want := range map[string]string{
		"session stop x":   "PATCH /api/v1/sessions/x",
		"session forget x": "DELETE /api/v1/sessions/x",
	} {
		srv, asked := sessionServer(t)
		if _, stderr, code := run(t, append(strings.Fields(args), "--server", srv.URL)...); code != exitOK || len(*asked) != 1 || (*asked)[0] != want {
			t.Errorf("%s: exit code %d, %s, asked %v", args, code, stderr, *asked)
		}
	}
	for args, hint := range map[string]string{
		"session":                     "",
		"session remove x":            "list, show, stop or forget",
		"session show":                "the id of a session",
		"report session":              "the id of a session",
		"report session x --limit 0":  "write 1 or more",
		"session list --format excel": "table, json, csv",
	} {
		_, stderr, code := run(t, strings.Fields(args)...)
		if (code == exitOK) != (hint == "") || !strings.Contains(stderr, hint) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
}
