//go:build servers

package probe

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/guard/check/spec"
	"tailscope/test/program"
)

// Servers are started by a thread that lives as long as they may.
func init() {
	lasting = append(lasting, goleak.IgnoreAnyFunction("tailscope/test/program.init.func1.1"))
}

const password = "hunter2-and-more"

// settle waits until a server that listens also lets in.
func settle(t *testing.T, db *sql.DB) {
	t.Helper()
	var err error
	for range 400 {
		if err = db.PingContext(t.Context()); err == nil {
			return
		}
		time.Sleep(25 * time.Millisecond) // another program's time
	}
	t.Fatal(err)
}

// asked is a question to a real database, and what should come of it.
type asked struct {
	query     string
	value     *float64
	text, err string
}

// askAll asks questions of a database within two seconds each, and looks for the
// password in all that is said.
func askAll(t *testing.T, p *Prober, driver, dsn string, questions []asked) {
	t.Helper()
	t.Setenv("PROBE_DSN", dsn)
	for _, c := range questions {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		r := p.Probe(ctx, &spec.Source{SQL: &spec.SQL{Driver: driver, DSN: spec.Text{Secret: &spec.Secret{Env: "PROBE_DSN"}}, Query: c.query}})
		cancel()
		want(t, driver+": "+c.query, r, c.value, "", c.text, c.err)
		if said := r.Text + errorText(r); strings.Contains(said, password) {
			t.Errorf("%s: the password is in %q", c.query, said)
		}
	}
}

// prepare runs statements as the checks' user would not.
func prepare(t *testing.T, p *Prober, of source, statements ...string) *sql.DB {
	t.Helper()
	o, err := p.pool(of, &secrets{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.release(o) })
	settle(t, o.db)
	for _, s := range statements {
		if _, err := o.db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return o.db
}

func TestPostgres(t *testing.T) {
	server, err := program.StartPostgres(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p := prober(t, Options{Now: func() time.Time { return today }})
	dsn := "postgres://postgres:" + password + "@" + server.Addr + "/postgres?sslmode=disable"
	db := prepare(t, p, source{"postgres", dsn},
		"CREATE TABLE orders (at date, n bigint, price numeric(20,4), open boolean)",
		"INSERT INTO orders VALUES ('2026-05-09', 12, 3.25, true), ('2026-05-08', 7, NULL, false)")
	askAll(t, p, "postgres", dsn, []asked{
		{"SELECT sum(n) FROM orders", is(19), "answered in", ""},
		{"SELECT price, n, at, open FROM orders WHERE at = '%%yyyy-MM-dd%%'", is(3.25), "", ""},
		{"SELECT price FROM orders WHERE at = '%%yyyy-MM-dd%[D-1]%%'", nil, "price is null", ""},
		{"SELECT 1::bool", is(1), "", ""},
		{"SELECT 2.5::real", is(2.5), "", ""},
		{"SELECT to_timestamp(1760000000.25)", is(1760000000.25), "", ""},
		{"SELECT 'NaN'::float8", nil, "", "not a finite number"},
		{"SELECT at FROM orders WHERE false", nil, "no row", ""},
		{"SELECT 'words'", nil, "", `"words" is not a number`},
		{"SELECT n FROM order", nil, "", "syntax error"},
		{"DELETE FROM orders", nil, "", "a check may only read"},
		{"INSERT INTO orders VALUES (now(), 1, 1, true) RETURNING n", nil, "", "a check may only read"},
		{"DROP TABLE orders", nil, "", "a check may only read"},
		{"SELECT 1; DROP TABLE orders", nil, "", "cannot insert multiple commands"},
		{"COMMIT", nil, "", "the query answers no column"},
		{"SELECT 1 FROM (SELECT pg_sleep(30)) AS s", nil, "", "make the query faster, or raise the check's timeout"},
		{"SELECT count(*) FROM orders", is(2), "", ""},
	})
	// What was too slow does not run on in the database.
	var running int
	for range 100 {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()").Scan(&running); err != nil {
			t.Fatal(err)
		}
		if running == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond) // another program's time
	}
	if running != 0 {
		t.Errorf("%d queries run on after their deadline", running)
	}
	// Connections are kept, and few.
	var connections int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tailscope'").Scan(&connections); err != nil {
		t.Fatal(err)
	}
	if connections > maxConnections {
		t.Errorf("%d connections, want at most %d", connections, maxConnections)
	}
	askAll(t, p, "postgres", strings.Replace(dsn, password, "wrong-"+password, 1), []asked{
		{"SELECT 1", nil, "", "password authentication failed"},
	})
}

func TestMariaDB(t *testing.T) {
	server, err := program.StartMariaDB(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	p := prober(t, Options{Now: func() time.Time { return today }})
	dsn := "mysql://root:" + password + "@" + server.Addr + "/test"
	prepare(t, p, source{"mysql", dsn},
		"CREATE TABLE orders (at date, n bigint, price decimal(20,4), open boolean)",
		"INSERT INTO orders VALUES ('2026-05-09', 12, 3.25, true), ('2026-05-08', 7, NULL, false)")
	askAll(t, p, "mysql", dsn, []asked{
		{"SELECT sum(n) FROM orders", is(19), "answered in", ""},
		{"SELECT price, n, at, open FROM orders WHERE at = '%%yyyy-MM-dd%%'", is(3.25), "", ""},
		{"SELECT price FROM orders WHERE at = '%%yyyy-MM-dd%[D-1]%%'", nil, "price is null", ""},
		{"SELECT 2.5e0", is(2.5), "", ""},
		{"SELECT 18446744073709551615", is(18446744073709551615), "", ""},
		{"SELECT n FROM orders WHERE false", nil, "no row", ""},
		{"SELECT 'words'", nil, "", `"words" is not a number`},
		{"SELECT n FROM ordres", nil, "", "doesn't exist"},
		{"DELETE FROM orders", nil, "", "a check may only read"},
		{"INSERT INTO orders VALUES (now(), 1, 1, true)", nil, "", "a check may only read"},
		{"DROP TABLE orders", nil, "", "a check may only read"},
		{"SELECT 1; DROP TABLE orders", nil, "", "error in your SQL syntax"},
		{"SELECT 1 FROM (SELECT sleep(30)) AS s", nil, "", "make the query faster, or raise the check's timeout"},
		{"SELECT count(*) FROM orders", is(2), "", ""},
	})
	askAll(t, p, "mysql", strings.Replace(dsn, password, "wrong-"+password, 1), []asked{
		{"SELECT 1", nil, "", "Access denied"},
	})
}

func TestNginx(t *testing.T) {
	server, err := program.StartNginx(t.Context(), t.TempDir(), `
server {
	listen $ADDR;
	location = /health { default_type application/json; return 200 '{"queues": [{"name": "mail", "waiting": 17}]}'; }
	location = /old { return 301 /health; }
	location = /down { return 503 'no'; }
	location = /status { stub_status; }
}`)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	p := prober(t, Options{})
	url := "http://" + server.Addr
	want(t, "json", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/health", Measure: "json", JSON: "queues.0.waiting"}}), is(17), "", "200 OK, 45 bytes", "")
	want(t, "redirect", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/old", Measure: "status"}}), is(200), "", "200", "")
	want(t, "down", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/down", Measure: "status"}}), is(503), "CRITICAL", "503", "")
	want(t, "stub status", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/status", Measure: "regexp", Regexp: `Active connections: ([0-9]+)`}}), is(1), "", "", "")
	want(t, "missing", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/none", Measure: "status", Expect: []int{404}}}), is(404), "", "404", "")
	greeting := measure(t, p, spec.Source{TCP: &spec.TCP{Address: server.Addr, Send: "GET /none HTTP/1.0\r\n\r\n", Expect: `^HTTP/1\.1 404`}})
	want(t, "tcp", greeting, &greeting.Value, "", "404", "")
	server.Kill()
	want(t, "killed", measure(t, p, spec.Source{HTTP: &spec.HTTP{URL: url + "/health"}}), nil, "CRITICAL", "", "refuses connections")
}

// The plugins of Debian's monitoring-plugins-basic.
func TestMonitoringPlugins(t *testing.T) {
	const dir = "/usr/lib/nagios/plugins/"
	if _, err := exec.LookPath(dir + "check_tcp"); err != nil {
		t.Fatal("monitoring-plugins-basic is not installed: run scripts/install-servers")
	}
	server, err := program.StartNginx(t.Context(), t.TempDir(), `server { listen $ADDR; location / { return 200 'hello'; } }`)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	p := prober(t, Options{})
	run := func(label string, args ...string) string {
		args[0] = dir + args[0]
		r := measure(t, p, spec.Source{Command: &spec.Command{Args: args, Label: label}})
		if !r.Null && !(r.Value >= 0 && r.Value < 1e4) {
			t.Errorf("%v: value %v", args, r.Value)
		}
		var labels []string
		for _, p := range r.Perf {
			labels = append(labels, p.Label+" "+p.Unit)
		}
		text, _, _ := strings.Cut(r.Text, " -")
		return fmt.Sprintf("%s|%s|%v|%s|%s", levelOf(r), text, r.Null, strings.Join(labels, ","), errorText(r))
	}
	for _, c := range []struct {
		label, want string
		args        []string
	}{
		{"time", "OK|TCP OK|false|time s|", []string{"check_tcp", "-H", host, "-p", port}},
		{"", "OK|TCP OK|false|time s|", []string{"check_tcp", "-H", host, "-p", port, "-w", "4", "-c", "5"}},
		{"", "CRITICAL|connect to address 127.0.0.1 and port 1: Connection refused|true||", []string{"check_tcp", "-H", "127.0.0.1", "-p", "1"}},
		{"size", "OK|HTTP OK: HTTP/1.1 200 OK|false|time s,size B|", []string{"check_http", "-H", host, "-p", port}},
		{"", "CRITICAL|HTTP CRITICAL: HTTP/1.1 200 OK|false|time s,size B|", []string{"check_http", "-H", host, "-p", port, "-s", "goodbye"}},
		{"load5", "OK|LOAD OK|false|load1 ,load5 ,load15 |", []string{"check_load", "-w", "9000,9000,9000", "-c", "9999,9999,9999"}},
		{"load60", `OK|LOAD OK|true|load1 ,load5 ,load15 |no label "load60" among the performance data; it has load1, load5, load15`, []string{"check_load", "-w", "9000,9000,9000", "-c", "9999,9999,9999"}},
		{"", "WARNING|WARNING: as told|true||", []string{"check_dummy", "1", "as told"}},
		{"", "UNKNOWN|UNKNOWN|true||", []string{"check_dummy", "3"}},
	} {
		if got := run(c.label, c.args...); got != c.want {
			t.Errorf("%v:\ngot  %s\nwant %s", c.args, got, c.want)
		}
	}
}
