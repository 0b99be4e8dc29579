//go:build servers

package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx

	"tailscope/api"
	"tailscope/client"
	"tailscope/test/program"
)

const databasePassword = "hunter2-and-more"

// TestChecks guards a table of PostgreSQL, nginx by a request, a TCP connection
// and a plugin of Nagios, and what is computed from one of them; breaks them, and
// kills the server while they are broken.
func TestChecks(t *testing.T) {
	t.Parallel()
	database, err := program.StartPostgres(t.Context(), databasePassword)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	dsn := "postgres://postgres:" + databasePassword + "@" + database.Addr + "/postgres?sslmode=disable"
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	await(t, "the database lets in", func() string { return errorText(db.PingContext(t.Context())) })
	jobs := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	jobs("CREATE TABLE jobs (id serial)")
	jobs("INSERT INTO jobs SELECT FROM generate_series(1, 5)")
	web, err := program.StartNginx(t.Context(), t.TempDir(), `server { listen $ADDR; location / { default_type application/json; return 200 '{"queues": [{"waiting": 17}]}'; } }`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Kill)
	host, port, err := net.SplitHostPort(web.Addr)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	events := filepath.Join(dir, "events.jsonl")
	definitions := filepath.Join(dir, "checks.yaml")
	write(t, filepath.Join(dir, "dsn"), dsn+"\n")
	write(t, definitions, fmt.Sprintf(`
receivers:
  log: {file: {path: %[1]q}}
templates:
  often: {every: 1s, soft: 2 of 3, receivers: [log]}
checks:
  jobs:
    template: often
    value: {sql: {driver: postgres, dsn: {file: %[2]q}, query: SELECT count(*) FROM jobs}}
    threshold: {must: "<", of: 10, warning: 0, critical: 100%%}
  twice: {after: jobs, receivers: [log], value: '{check="jobs"}[0] * 2'}
  web: {template: often, value: {http: {url: "http://%[3]s/", json: queues.0.waiting}}}
  port: {template: often, value: {tcp: {address: "%[3]s"}}}
  plugin: {template: often, value: {command: {args: [/usr/lib/nagios/plugins/check_tcp, -H, %[4]q, -p, %[5]q]}}}
`, events, filepath.Join(dir, "dsn"), web.Addr, host, port))
	data := filepath.Join(dir, "data")
	s := startIn(t, data, "--checks", definitions)
	states := func(s *server, want string) {
		t.Helper()
		c := client.Client{Address: s.URL}
		await(t, want, func() string {
			all, err := c.Checks(t.Context(), api.ChecksRequest{})
			if err != nil {
				return err.Error()
			}
			is := map[string]string{}
			for _, k := range all.Checks {
				is[k.ID] = k.State
			}
			got := ""
			for _, id := range []string{"jobs", "twice", "web", "port", "plugin"} {
				got += id + " " + is[id] + ", "
			}
			if got = strings.TrimSuffix(got, ", "); got == want {
				return ""
			}
			return got
		})
	}
	states(s, "jobs OK, twice OK, web OK, port OK, plugin OK")
	for id, want := range map[string]float64{"jobs": 5, "web": 17} {
		if k := check(t, s, id); float64(k.Value) != want {
			t.Errorf("%s is %v, want %v", id, k.Value, want)
		}
	}
	await(t, "twice the jobs", func() string {
		if k := check(t, s, "twice"); k.Value != 10 {
			return fmt.Sprint(k.Value, k.Text)
		}
		return ""
	})

	jobs("INSERT INTO jobs SELECT FROM generate_series(1, 10)")
	web.Kill()
	states(s, "jobs WARNING, twice OK, web CRITICAL, port CRITICAL, plugin CRITICAL")
	incident := check(t, s, "jobs").Incident
	if incident == nil {
		t.Fatal("no incident is open")
	}
	if _, err := (&client.Client{Address: s.URL}).AcknowledgeCheck(t.Context(), "jobs", api.Ack{User: "ann", Comment: "more workers"}); err != nil {
		t.Fatal(err)
	}

	s.Kill()
	s = startIn(t, data, "--checks", definitions)
	states(s, "jobs WARNING, twice OK, web CRITICAL, port CRITICAL, plugin CRITICAL")
	if k := check(t, s, "jobs"); k.Incident == nil || k.Incident.ID != incident.ID || k.Incident.Acked == nil || k.Incident.Acked.User != "ann" {
		t.Errorf("after a crash the incident %s is %+v", incident.ID, k.Incident)
	}
	jobs("DELETE FROM jobs WHERE id > 5")
	states(s, "jobs OK, twice OK, web CRITICAL, port CRITICAL, plugin CRITICAL")

	// Values are series like any others.
	await(t, "the value in PromQL", func() string {
		var out struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		_, _, body, err := s.fetch("/prometheus/api/v1/query", map[string]string{"query": `max_over_time(check_value{check="jobs"}[5m])`})
		if err != nil || json.Unmarshal(body, &out) != nil || len(out.Data.Result) != 1 || out.Data.Result[0].Value[1] != "15" {
			return string(body)
		}
		return ""
	})
	// Receivers were notified of everything in order. They may be notified again,
	// under the same number, of events shortly before the crash.
	var told []string
	await(t, "the incident's end is told", func() string {
		text, err := os.ReadFile(events)
		if err != nil {
			return err.Error()
		}
		told = nil
		last := 0
		for line := range bytes.Lines(text) {
			var e struct {
				Incident string
				Seq      int
				Kind     string
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return err.Error()
			}
			if e.Incident == incident.ID && e.Seq > last {
				last = e.Seq
				told = append(told, e.Kind)
			}
		}
		if got := strings.Join(told, " "); got != "opened acknowledged resolved" {
			return got
		}
		return ""
	})
	for name, text := range map[string]string{"the log": s.Log(), "the check": fmt.Sprintf("%+v", whole(t, s, "jobs"))} {
		if strings.Contains(text, databasePassword) {
			t.Errorf("%s holds the password", name)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// await waits until missing says that nothing is.
func await(t *testing.T, what string, missing func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for {
		got := missing()
		if got == "" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("want %s; it is %s", what, got)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func whole(t *testing.T, s *server, id string) *api.CheckResponse {
	t.Helper()
	c := client.Client{Address: s.URL}
	r, err := c.Check(t.Context(), api.CheckRequest{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func check(t *testing.T, s *server, id string) api.Check { return whole(t, s, id).Check }
