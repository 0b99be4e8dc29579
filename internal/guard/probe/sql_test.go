package probe

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/spec"
)

// database makes a file of SQLite with some orders in it.
func database(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop #1 %.db")
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer("%", "%25", "#", "%23", " ", "%20").Replace(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"CREATE TABLE orders (day TEXT, n INTEGER, note TEXT)",
		"INSERT INTO orders VALUES ('2026-05-09', 12, 'hunter2'), ('2026-05-08', 7, NULL)",
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestSQLite(t *testing.T) {
	path := database(t)
	p := prober(t, Options{Now: func() time.Time { return today }, Timeout: 30 * time.Second})
	for _, c := range []struct {
		query     string
		value     *float64
		text, err string
	}{
		{"SELECT sum(n) FROM orders", is(19), "answered in", ""},
		{"SELECT n, note, day FROM orders WHERE day = '%%yyyy-MM-dd%%'", is(12), "", ""},
		{"SELECT n FROM orders WHERE day = '%%yyyy-MM-dd%[D-1]%%'", is(7), "", ""},
		{"SELECT n FROM orders ORDER BY n", is(7), "", ""},
		{"SELECT avg(n) FROM orders", is(9.5), "", ""},
		{"SELECT '1,204'", is(1204), "", ""},
		{"SELECT n > 10 FROM orders", is(1), "", ""},
		{"SELECT n FROM orders WHERE n > 100", nil, "the query found no row", ""},
		{"SELECT sum(n) FROM orders WHERE n > 100", nil, "sum(n) is null", ""},
		{"SELECT day FROM orders", nil, "", `column day: "2026-05-09" is not a number`},
		{"SELECT n FROM order", nil, "", "syntax error"},
		{"SELECT x FROM orders", nil, "", "no such column: x"},
		{"DELETE FROM orders RETURNING n", nil, "", "readonly"},
		{"INSERT INTO orders VALUES ('x', 1, '')", nil, "", "readonly"},
		{"SELECT 9e999", nil, "", "not a finite number"},
		{"WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f) SELECT count(*) FROM f", nil, "", "make the query faster, or raise the check's timeout"},
		{"SELECT count(*) FROM orders", is(2), "", ""}, // all of them are still there, and the connection works
	} {
		ctx, cancel := t.Context(), func() {}
		if strings.HasPrefix(c.query, "WITH RECURSIVE") { // which does not end
			ctx, cancel = context.WithTimeout(ctx, time.Second)
		}
		r := p.Probe(ctx, &spec.Source{SQL: &spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: path}, Query: c.query}})
		cancel()
		want(t, c.query, r, c.value, "", c.text, c.err)
	}
	missing := filepath.Join(t.TempDir(), "none.db")
	r := measure(t, p, spec.Source{SQL: &spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: missing}, Query: "SELECT 1"}})
	want(t, "no file", r, nil, "", "", "unable to open database file")
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Error("a database was made by asking it")
	}
}

func TestSQLDSN(t *testing.T) {
	t.Setenv("PROBE_DSN", "postgres://ann:hunter2@127.0.0.1:1/shop?sslmode=sideways")
	p := prober(t, Options{})
	secret := &spec.Secret{Env: "PROBE_DSN"}
	for _, c := range []struct {
		s    spec.SQL
		want string
	}{
		{spec.SQL{Driver: "postgres", DSN: spec.Text{Secret: secret}}, "the dsn cannot be read; write postgres://"},
		{spec.SQL{Driver: "mysql", DSN: spec.Text{Secret: secret}}, "the dsn cannot be read; write mysql://"},
		{spec.SQL{Driver: "sqlite", DSN: spec.Text{Secret: secret}}, ""},
		{spec.SQL{Driver: "oracle", DSN: spec.Text{Plain: "x"}}, `no driver "oracle"; write postgres, mysql or sqlite`},
		{spec.SQL{Driver: "postgres", DSN: spec.Text{Plain: "postgres://ann:hunter2@127.0.0.1:1/shop"}}, "no connection to the database"},
		{spec.SQL{Driver: "mysql", DSN: spec.Text{Plain: "ann:hunter2@tcp(127.0.0.1:1)/shop"}}, "no connection to the database"},
		{spec.SQL{Driver: "mysql", DSN: spec.Text{Plain: "mysql://ann:hunter2@127.0.0.1:1/shop"}}, "no connection to the database"},
		{spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: ""}}, "write the path"},
	} {
		c.s.Query = "SELECT 1"
		r := measure(t, p, spec.Source{SQL: &c.s})
		got := errorText(r) + r.Text
		if !r.Null || !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s %s: got %q, want %q", c.s.Driver, c.s.DSN, got, c.want)
		}
	}
}

func TestMySQLAddress(t *testing.T) {
	c, err := mysqlConfig("mysql://ann:p%40ss@db.example/shop?tls=preferred")
	if err != nil || c.User != "ann" || c.Passwd != "p@ss" || c.Addr != "db.example:3306" || c.DBName != "shop" || c.TLSConfig != "preferred" {
		t.Errorf("got %+v, %v", c, err)
	}
}

// Connections to a database that nobody asks any more are closed.
func TestPoolsAreClosed(t *testing.T) {
	now := today
	p := prober(t, Options{Now: func() time.Time { return now }, Idle: time.Minute})
	ask := func() {
		t.Helper()
		r := measure(t, p, spec.Source{SQL: &spec.SQL{Driver: "sqlite", DSN: spec.Text{Plain: "file:" + strings.ReplaceAll(database(t), "%", "%25") + "?cache=private"}, Query: "SELECT count(*) FROM orders"}})
		want(t, "count", r, is(2), "", "", "")
	}
	ask()
	now = now.Add(time.Minute)
	ask()
	if len(p.pools) != 2 {
		t.Errorf("%d databases are kept, want 2", len(p.pools))
	}
	now = now.Add(time.Minute + time.Second)
	ask()
	if len(p.pools) != 1 {
		t.Errorf("%d databases are kept, want 1", len(p.pools))
	}
}

func TestReplaceDates(t *testing.T) {
	at := time.Date(2028, 3, 31, 7, 5, 9, 0, time.UTC)
	for _, c := range [][2]string{
		{"%%yyyy-MM-dd%%", "2028-03-31"},
		{"a %%yy.MM.dd%[D-1]%% b %%yyyyMMdd%[D+1]%%", "a 28.03.30 b 20280401"},
		{"%%yyyy-MM-dd%[M-1]%%", "2028-02-29"},
		{"%%yyyy-MM-dd%[M11]%%", "2029-02-28"},
		{"%%yyyy-MM-dd%[Y-1]%%", "2027-03-31"},
		{"%%M/d%%", "3/31"},
		{"%%HH:mm:ss%%", "07:05:09"},
		{"%%yyyy-MM-dd HH%[D-31]%%", "2028-02-29 07"},
		{"LIKE '%%abc%%'", "LIKE '%%abc%%'"},
		{"%%yyy%%", "%%yyy%%"},
		{"%%%% 5 %% 6", "%%%% 5 %% 6"},
		{"%%yyyy%[W-1]%%", "%%yyyy%[W-1]%%"},
		{"100%", "100%"},
	} {
		if got := replaceDates(c[0], at); got != c[1] {
			t.Errorf("%s: got %s, want %s", c[0], got, c[1])
		}
	}
	leap := time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC)
	if got := replaceDates("%%yyyy-MM-dd%[Y-1]%%", leap); got != "2027-02-28" {
		t.Errorf("a year before a leap day is %s", got)
	}
}

// Dates bring nothing but digits and what stood there already into a query.
func FuzzReplaceDates(f *testing.F) {
	f.Add("SELECT '%%yyyy-MM-dd%[D-1]%%'", int64(1_800_000_000))
	f.Add("%%%[Y+99999]%%yy%%", int64(0))
	f.Fuzz(func(t *testing.T, query string, at int64) {
		at %= 1 << 40
		got := replaceDates(query, time.Unix(at, 0).UTC())
		for _, r := range got {
			if !strings.ContainsRune(query, r) && !strings.ContainsRune("0123456789-", r) {
				t.Fatalf("%q became %q", query, got)
			}
		}
	})
}
