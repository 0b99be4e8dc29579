// Package reporttest has what tests of reports and views share: results to write, and
// the texts that are expected.
package reporttest

import (
	_ "embed"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tailscope/api"
)

// Begin is when everything in these tests happens: 2026-03-01 12:00:00 UTC.
const Begin = 1772366400

var update = flag.Bool("update", false, "rewrite testdata")

// Golden compares got with a file in testdata of the package under test.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

//go:embed testdata/bench.json
var benchJSON []byte

// Bench returns a run of load.
func Bench(t *testing.T) *api.BenchResult { return read[api.BenchResult](t, benchJSON) }

//go:embed testdata/searched.json
var capacityJSON []byte

// Capacity returns a search that found an answer in three steps.
func Capacity(t *testing.T) *api.Capacity { return read[api.Capacity](t, capacityJSON) }

func read[T any](t *testing.T, content []byte) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal(content, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Session returns the state of a mirror session with a control and a pool of candidates.
func Session() api.MirrorState {
	none := api.Float(math.NaN())
	return api.MirrorState{
		Mode: "http", Listen: "127.0.0.1:8080",
		Primary: api.MirrorTarget{Name: "primary", Role: "primary", Servers: []api.MirrorServer{{URL: "http://a:8081"}}, Using: 1, Amplify: 1, Diverged: none},
		Shadows: []api.MirrorTarget{
			{Name: "control", Role: "control", Servers: []api.MirrorServer{{URL: "http://c:8081"}}, Using: 1, Amplify: 1, Diverged: none,
				Account: &api.MirrorAccount{Offered: 102_200, Mirrored: 102_200, Answered: 102_200, Paired: 102_190, Unpaired: 10, BufferBound: 1 << 26}},
			{Name: "candidate", Role: "candidate", Using: 2, Amplify: 2.5, Diverged: Begin + 60, DivergedWhy: "POST /cart was not copied (queue full)",
				Servers: []api.MirrorServer{{URL: "http://b:8082"}, {URL: "http://b:8083", Down: "connection refused"}, {URL: "http://b:8084"}},
				Account: &api.MirrorAccount{Offered: 255_500, Queued: 12, Dropped: map[string]uint64{"queue_full": 1204, "refused": 3}, Mirrored: 254_281,
					Waiting: 7, Failed: map[string]uint64{"timed_out": 30, "reset": 30}, Answered: 254_214, Pairing: 4, Paired: 254_200, Unpaired: 10, Buffered: 48_128, BufferBound: 1 << 26}},
		},
		Requests: 102_400, Skipped: map[string]uint64{"unsafe": 190, "upgrade": 10}, Failed: map[string]uint64{"reset": 5},
		Settings: api.MirrorSettings{Share: 1},
		Differences: &api.MirrorDifferences{Compared: 1200, Skipped: map[string]uint64{"too_long": 3},
			Rows: []api.MirrorDifference{{Place: "body .price", Real: true}, {Place: "header date"}}},
		Recording: &api.MirrorRecording{Path: "session.rec", Requests: 102_400, Dropped: 8, Bytes: 12_345_678},
	}
}
