package cli

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tailscope/api"
)

func TestCluster(t *testing.T) {
	unknown := api.Float(math.NaN())
	r := api.ClusterResponse{Now: begin, Server: "aaaa", Store: "clickhouse://ch1:8123,ch2:8123/tailscope?cluster=main",
		Servers: []api.ClusterServer{
			{Name: "aaaa", Version: "1.0", Since: begin - 7200, Alive: true, Works: []string{"maintenance"}},
			{Name: "bbbb", Version: "1.0", Since: begin - 60, Seen: 25, Lag: 90, Ahead: -12, Problems: []string{"The disk is full."}},
		},
		Nodes: []api.ClusterNode{
			{Host: "ch1:8123", Shard: 1, First: true, Answers: true, Away: unknown, Version: "26.7.2", Parts: 1234, Rows: 5e6, Bytes: 2e9, Free: 3, Total: 4, Statements: 99},
			{Host: "ch2:8123", Shard: 2, Away: begin - 300, Free: unknown, Total: unknown, Statements: 50, Failed: 4},
		},
		Agents:   []api.Agent{{Name: "edge", Version: "1.0", Heard: begin - 3, SpoolFiles: 2, SpoolBytes: 4000, WaitingSince: begin - 20, Frames: 7, Duplicates: 1}},
		Findings: []api.ClusterFinding{{Where: "ch2:8123", What: "it does not answer", Costs: "Questions fail.", Next: "start it"}},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	code, out, errs := command(t, "", "cluster", "--server", srv.URL)
	want := `clickhouse://ch1:8123,ch2:8123/tailscope?cluster=main

ch2:8123: it does not answer
  Questions fail.
  next: start it

server  alive  runs for  seen   lag  clock  does for all  version  address
aaaa    yes         2 h   0 s   0 s    0 s  maintenance   1.0
bbbb    no            -  25 s  90 s  −12 s  (none)        1.0
bbbb is degraded: The disk is full.

node              shard  answers        parts       rows  on disk    free  statements  failed  version
ch1:8123 (first)      1  yes            1,234  5,000,000     2 GB  75.0 %          99       0  26.7.2
ch2:8123              2  no, for 5 min      -          -        -       -          50       4  (none)

agent  heard  waits  in files  since  frames  again  refused  version
edge     3 s   4 kB         2   20 s       7      1        0  1.0
`
	if code != exitOK || out != want {
		t.Errorf("exit %d, %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if code, out, _ := command(t, "", "cluster", "--server", srv.URL, "--format", "json"); code != exitOK || !strings.Contains(out, `"where": "ch2:8123"`) {
		t.Errorf("JSON: exit %d\n%s", code, out)
	}
}

func TestDoctorOfStore(t *testing.T) {
	code, out, errs := command(t, "", "doctor", "--store", "clickhouse://me:secret@127.0.0.1:1/tailscope")
	if code != exitFailed || errs != "" || strings.Contains(out, "secret") || !strings.Contains(out, "127.0.0.1:1: it does not answer: ") || !strings.Contains(out, "Nothing is stored and no question is answered") || !strings.Contains(out, "  next: start it") {
		t.Errorf("no ClickHouse: exit %d, %q\n%s", code, errs, out)
	}
	for _, args := range [][]string{{"dir"}, {"--repair"}, {"--acknowledge"}, {"--data", "dir"}} {
		if code, _, errs := command(t, "", append([]string{"doctor", "--store", "clickhouse://me:secret@a/b"}, args...)...); code != exitUsage || !strings.Contains(errs, "hint: ") || strings.Contains(errs, "secret") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	if code, _, errs := command(t, "", "doctor", "--store", "http://a/b"); code != exitUsage || !strings.Contains(errs, "is not an address of ClickHouse") {
		t.Errorf("not an address: exit %d, %s", code, errs)
	}
}
