package sqltext

import (
	"strings"
	"testing"
	"time"
)

func TestStrip(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := Strip(in); got != want {
			t.Errorf("Strip(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	f("SELECT 1", "SELECT ?")
	f("SELECT * FROM users WHERE name = 'bob' AND age > 41.5e-3", "SELECT * FROM users WHERE name = ? AND age > ?")
	f("select a,b from t where id in (1, 2,3 , 4)", "select a,b from t where id in (?)")
	f("INSERT INTO t (a, b) VALUES (1, 'x'), (2, 'y'), (3,'z')", "INSERT INTO t (a, b) VALUES (?)")
	f("SELECT 'it''s secret', x", "SELECT ?, x")
	f(`SELECT 'it\'s secret', x`, "SELECT ?, x")
	f(`SELECT 'C:\', 'secret'`, "SELECT ?")
	f(`SELECT a FROM t WHERE p = 'C:\' AND q = 'secret'`, "SELECT a FROM t WHERE p = ? AND q = ?")
	f(`SELECT "secret" FROM "Users" u WHERE u."Name" = "bob"`, `SELECT ? FROM "Users" u WHERE u."Name" = ?`)
	f("SELECT `a` FROM `my table` WHERE [b] = 0xFF", "SELECT `a` FROM `my table` WHERE [b] = ?")
	f("SELECT $$it's secret$$, $tag$ a $$ b $tag$ FROM t", "SELECT ? FROM t")
	f("SELECT a -- secret\nFROM t /* hidden /* nested */ more */ WHERE b = 1", "SELECT a FROM t WHERE b = ?")
	f("SELECT a # secret\nFROM t", "SELECT a FROM t")
	f("SELECT a->>'key', b#>>'{a,b}' FROM t", "SELECT a->>?, b#>>? FROM t")
	f("SELECT a::int, :name, @p1, %s, %(x)s, $1, ?", "SELECT a::int, ?")
	f("SELECT t1.c2 FROM t1 WHERE x = -5 AND y - 5 > 0", "SELECT t1.c2 FROM t1 WHERE x = ? AND y - ? > ?")
	f("SELECT N'x', E'a\\'b', X'ff', B'01', q'[it's secret]', _utf8'x', U&'d'", "SELECT ?")
	f("SELECT 'unterminated secret", "SELECT ?")
	f("", "")
	f("x'", "x ?")
	f("   ", "")
	f("SELECT 'a\\", "SELECT ?")
	f("SELECT * FROM t LIMIT 10 OFFSET 20", "SELECT * FROM t LIMIT ? OFFSET ?")
	f("SELECT name FROM t WHERE ts > '2024-01-01 00:00:00'::timestamp", "SELECT name FROM t WHERE ts > ?::timestamp")
	f("EXEC proc 'a', 1", "EXEC proc ?")
	f("SELECT fn(1, a, 2)", "SELECT fn(?, a, ?)")
}

func TestSummary(t *testing.T) {
	f := func(in, verb, table string) {
		t.Helper()
		if v, tb := Summary(in); v != verb || tb != table {
			t.Errorf("Summary(%q) = %q %q, want %q %q", in, v, tb, verb, table)
		}
	}
	f("SELECT * FROM orders", "SELECT", "orders")
	f("select id, (select max(x) from inner_t) from public.orders o join users u on 1=1", "SELECT", "public.orders")
	f("SELECT extract(epoch FROM created) FROM orders", "SELECT", "orders")
	f("SELECT a IS DISTINCT FROM b FROM t", "SELECT", "t")
	f("SELECT 'x FROM y' FROM t", "SELECT", "t")
	f("SELECT 1", "SELECT", "")
	f("SELECT * FROM (SELECT * FROM orders) x", "SELECT", "orders")
	f("SELECT * FROM (orders JOIN users USING (id))", "SELECT", "orders")
	f(`SELECT * FROM "Order Items" WHERE 1=1`, "SELECT", "Order Items")
	f("SELECT * FROM `db`.`orders`", "SELECT", "db.orders")
	f("SELECT * FROM [dbo].[orders]", "SELECT", "dbo.orders")
	f("INSERT INTO orders (a) VALUES (1)", "INSERT", "orders")
	f("insert or replace into orders values (1)", "INSERT", "orders")
	f("INSERT IGNORE INTO orders SELECT * FROM x", "INSERT", "orders")
	f("REPLACE INTO orders VALUES (1)", "REPLACE", "orders")
	f("UPDATE orders SET a = 1 WHERE b = 2", "UPDATE", "orders")
	f("UPDATE ONLY orders SET a = 1", "UPDATE", "orders")
	f("DELETE FROM orders WHERE a = 1", "DELETE", "orders")
	f("DELETE o FROM orders o JOIN users u ON 1=1", "DELETE", "orders")
	f("WITH x AS (SELECT * FROM orders) SELECT * FROM x", "SELECT", "orders")
	f("WITH x(a) AS (SELECT 1), y AS MATERIALIZED (SELECT * FROM b) INSERT INTO c SELECT * FROM y", "INSERT", "c")
	f("WITH RECURSIVE t AS (SELECT 1) UPDATE orders SET a=1", "UPDATE", "orders")
	f("/* app='x' */ SELECT a FROM t -- end", "SELECT", "t")
	f("(SELECT a FROM t) UNION (SELECT b FROM u)", "SELECT", "t")
	f("EXPLAIN ANALYZE SELECT * FROM t", "SELECT", "t")
	f("CREATE TABLE IF NOT EXISTS t (id int)", "CREATE TABLE", "t")
	f("CREATE UNIQUE INDEX i ON t (a)", "CREATE INDEX", "t")
	f("ALTER TABLE t ADD COLUMN x int", "ALTER TABLE", "t")
	f("DROP TABLE t", "DROP TABLE", "t")
	f("TRUNCATE t", "TRUNCATE", "t")
	f("MERGE INTO t USING s ON 1=1", "MERGE", "t")
	f("CALL refresh_all()", "CALL", "refresh_all")
	f("BEGIN", "BEGIN", "")
	f("COMMIT;", "COMMIT", "")
	f("PRAGMA journal_mode=wal", "PRAGMA", "")
	f("begin immediate", "BEGIN", "")
	f("hello world", "", "")
	f("", "", "")
	f("42", "", "")
	f("SELECT", "SELECT", "")
	f("SELECT * FROM", "SELECT", "")
	f("SELECT * FROM t; DROP TABLE u", "SELECT", "t")
	f("SELECT * FROM ONLY t", "SELECT", "t")
	f("COPY orders FROM STDIN", "COPY", "orders")
}

func TestLooks(t *testing.T) {
	for s, want := range map[string]bool{
		"SELECT * FROM users WHERE id = 3": true,
		"UPDATE users SET a = 1":           true,
		"DELETE FROM x":                    true,
		"SELECT users":                     false,
		"update cart":                      false,
		"select plan":                      false,
		"GET /x":                           false,
		"set price from cache":             false,
	} {
		if got := Looks(s); got != want {
			t.Errorf("Looks(%q) = %v", s, got)
		}
	}
}

// TestLinear: no input makes the lexer look back and forth.
func TestLinear(t *testing.T) {
	for _, unit := range []string{"(", "'", "$", "$a", "/*", `\'`, "?,", "(?),", "WITH a AS (", "SELECT * FROM (", "q'[", "-", "%(", `"`, "[a"} {
		q := strings.Repeat(unit, 1<<20/len(unit))
		start := time.Now()
		Strip(q)
		Summary(q)
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%q repeated to 1 MiB took %v", unit, d)
		}
	}
}

// FuzzStrip plants a secret as a literal and expects not to find it again.
func FuzzStrip(f *testing.F) {
	for _, s := range []string{"SELECT * FROM t WHERE a = 'x'", `'\'`, "$$", "/*", `"a"."b"`, "q'(a)'", "WITH a AS (SELECT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Strip(s)
		if len(out) > 2*len(s)+2 || len(out) > MaxText+len(ellipsis) {
			t.Errorf("Strip(%q) grew to %q", s, out)
		}
		if again := Strip(out); again != out {
			t.Errorf("Strip(%q)\n is %q,\nthen %q", s, out, again)
		}
		Summary(s)
		Looks(s)
		if !strings.ContainsAny(s, "'\"`$\\[#-/") {
			q := s + " = 'zzsecretzz'"
			if strings.Contains(Strip(q), "zzsecretzz") {
				t.Errorf("Strip(%q) = %q", q, Strip(q))
			}
		}
	})
}
