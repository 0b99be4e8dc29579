package sqltext

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Statements made of the dialects' literals keep none of them, whatever
// stands around, and come out the same when only literals differ.
func TestAppendKeepsNoLiteral(t *testing.T) {
	forms := []string{"'zq7'", "'it''s zq7'", "N'zq7'", `E'a\'zq7'`, "$$zq7$$", "$tag$ 'zq7 $tag$", "X'zq7'", "q'[zq7']'",
		"4777", "-4777", "4777.5e-3", "0x4777", ".4777", ":zq7", "@zq7", "$4777", "?", "%s", "%(zq7)s", "'zq7', 4777, 'zq7'"}
	heads := []string{"SELECT a.b, c FROM t WHERE d = #", "INSERT INTO t (a, b) VALUES (#)", "UPDATE t SET a = # WHERE b IN (#)",
		"SELECT * FROM t -- zq7 comment\nWHERE a > #", "SELECT /* zq7 ' */ f(#, a) FROM t", "CALL p(#)", "SELECT a FROM t WHERE b LIKE # ESCAPE #"}
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.SampledFrom(heads).Draw(t, "head")
		for strings.Contains(q, "#") {
			q = strings.Replace(q, "#", rapid.SampledFrom(forms).Draw(t, "form"), 1)
		}
		out := string(Append([]byte("before "), q))[len("before "):]
		if strings.Contains(out, "zq7") || strings.Contains(out, "777") {
			t.Fatalf("Append(%q) = %q", q, out)
		}
		if again := Strip(out); again != out {
			t.Fatalf("Append(%q) = %q, then %q", q, out, again)
		}
		other := strings.NewReplacer("zq7", "other", "777", "31").Replace(q)
		if got := Strip(other); got != out {
			t.Fatalf("Append(%q) = %q, but Append(%q) = %q", q, out, other, got)
		}
	})
}

func TestAppendBounds(t *testing.T) {
	rows := "INSERT INTO t (a) VALUES (1, 'x')" + strings.Repeat(", (2, 'it''s')", 1<<16)
	if got := Strip(rows); got != "INSERT INTO t (a) VALUES (?), (? ..." {
		t.Errorf("an insert of many rows: %q", got)
	}
	columns := "SELECT " + strings.Repeat("a_long_name, ", 1000) + "b FROM t"
	got := Strip(columns)
	if len(got) > MaxText || !strings.HasSuffix(got, ", a_long_name ...") && !strings.HasSuffix(got, "a_long_name, ...") {
		t.Errorf("many columns: %d bytes, %q", len(got), got[len(got)-40:])
	}
	if again := Strip(got); again != got {
		t.Errorf("shortened once more: %q", again[len(again)-40:])
	}
}

func BenchmarkAppend(b *testing.B) {
	q := "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.tenant = 'acme' AND o.state IN (1, 2, 3) ORDER BY o.created DESC LIMIT 20"
	var dst []byte
	b.SetBytes(int64(len(q)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Append(dst[:0], q)
	}
}
