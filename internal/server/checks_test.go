package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

const checksOf = `receivers:
  log: {file: {path: %q}}
checks:
  front page:
    every: 1s
    value: {http: {url: %q, measure: status}}
    threshold: {must: "<", of: 299, critical: 0}
    receivers: log
    soft: 1
  twice:
    after: front page
    value: '{check="front page"}[0] * 2'
`

// Checks run in a server, are asked for through its API and its metrics, and are
// read again: wrong ones change nothing.
func TestChecks(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "well") }))
	defer site.Close()
	dir := t.TempDir()
	name := filepath.Join(dir, "checks.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(checksOf, filepath.Join(dir, "events.json"), site.URL)
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.OTLPGRPC, cfg.OTLPHTTP = filepath.Join(dir, "data"), "127.0.0.1:0", "", ""
	cfg.Checks, cfg.PageURL = []string{filepath.Join(dir, "*.yaml")}, "https://tailscope.example"

	if _, err := Start(t.Context(), Settings{Config: cfg}); err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("without a file: %v", err)
	}
	write(strings.Replace(text, "every", "evry", 1))
	if _, err := Start(t.Context(), Settings{Config: cfg}); err == nil || !strings.Contains(err.Error(), name+":5:5: unknown key evry in check front page: did you mean every?") {
		t.Errorf("with a mistake: %v", err)
	}
	write(text)
	s, err := Start(t.Context(), Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	c := &client.Client{Address: s.Addr()}
	front := func() *api.Check {
		t.Helper()
		r, err := c.RunCheck(t.Context(), "front page")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := front(); r.Value != 200 || r.Level != "OK" || r.Source != "http" {
		t.Errorf("got %+v", r)
	}

	write(strings.Replace(text, "log: {", "lg: {", 1))
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown receiver log") {
		t.Errorf("got %v", err)
	}
	list, err := c.Checks(t.Context(), api.ChecksRequest{})
	if err != nil || list.Total != 2 || !strings.Contains(list.Problem, "unknown receiver log") || len(list.Files) != 1 || list.Files[0] != name {
		t.Errorf("got %+v, %v", list, err)
	}
	write(strings.ReplaceAll(strings.Replace(text, "of: 299", "of: 100", 1), "twice", "double"))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err = c.Checks(t.Context(), api.ChecksRequest{}); err != nil || list.Total != 2 || list.Problem != "" {
		t.Errorf("got %+v, %v", list, err)
	}
	if r := front(); r.Level != "CRITICAL" || r.State != "CRITICAL" || r.Incident == nil {
		t.Errorf("against the new threshold: %+v", r)
	}

	var body string
	const spooled = `tailscope_receiver_spooled{receiver="log"} 0` // the receiver takes its time
	for end := time.Now().Add(30 * time.Second); !strings.Contains(body, spooled) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, body = get(t, "http://"+s.Addr()+"/metrics")
	}
	for _, want := range []string{"tailscope_check_runs_total ", `tailscope_checks{state="PENDING"}`, spooled, "tailscope_check_lag_seconds "} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// A directory restored from a store that servers shared goes on with their checks, whichever of
// them was the first of that store.
func TestChecksOfARestoredDirectory(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"))
	file := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(file, []byte("checks: {up: {every: 1h, value: {tcp: {address: 127.0.0.1:1}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Checks = []string{file}
	st, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: filepath.Join(cfg.Data, "store")})
	if err != nil {
		t.Fatal(err)
	}
	window := fmt.Appendf(nil, `{"id": "w", "name": "disks", "checks": ["up"], "start": 1, "end": %d}`, time.Now().Add(time.Hour).Unix())
	for kind, records := range map[string][]store.RecordWrite{
		"servers": {{Key: "first", Value: []byte("0123456789abcdef")}},
		"checks":  {{Key: "mw", Value: window}, {Key: "d", Value: []byte(`["down"]`)}, {Key: "f", Value: []byte("0123456789abcdef")}},
	} {
		if _, err := st.PutRecords(t.Context(), kind, records...); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Settings{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	c := &client.Client{Address: s.Addr()}
	if r, err := c.Maintenance(t.Context()); err != nil || len(r.Windows) != 1 || r.Windows[0].ID != "w" {
		t.Errorf("maintenance: %+v, %v, want that of the shared store", r, err)
	}
	if r, err := c.Checks(t.Context(), api.ChecksRequest{}); err != nil || r.Trouble != "" {
		t.Errorf("a server alone says %q, %v", r.Trouble, err)
	}
}
