package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

// A printed definition is the same check, without templates.
func TestPrintedIsReadAgain(t *testing.T) {
	f, problems := Read([]string{exampleFile}, Options{})
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	rest, _, _ := strings.Cut(string(text), "\ntemplates:")
	rest, _, _ = strings.Cut(rest, "\nmaintenance:")
	printed := rest + "\nchecks:\n"
	for i := range f.Checks {
		printed += strings.TrimPrefix(f.Checks[i].YAML(), "checks:\n")
	}
	back, problems := read(t, printed)
	if len(problems) > 0 {
		t.Fatal(told(problems), printed)
	}
	if len(back.Checks) != len(f.Checks) {
		t.Fatalf("%d checks became %d", len(f.Checks), len(back.Checks))
	}
	byName := map[string]Check{}
	for _, c := range back.Checks {
		byName[c.Name] = c
	}
	for _, want := range f.Checks {
		got := byName[want.Name]
		if a, b := flat(got), flat(want); a != b {
			t.Errorf("%s became\n%s\nof\n%s", want.Name, a, b)
		}
	}
}

// flat is what a check says, without where it says it and with expressions as text.
func flat(c Check) string {
	c.File, c.Line, c.plan = "", 0, nil
	e := c.Value.Expr
	c.Value.Expr = nil
	s := fmt.Sprint(e)
	if c.Threshold != nil {
		t := *c.Threshold
		s += fmt.Sprint(t.Of.Expr)
		t.Of.Expr = nil
		b, _ := json.Marshal(t)
		s += string(b)
		c.Threshold = nil
	}
	if c.Each != nil {
		s += fmt.Sprint(c.Each.Series.Matchers)
		each := *c.Each
		each.Series.Matchers = nil
		s += fmt.Sprintf("%+v", each)
		c.Each = nil
	}
	if q := c.Value.Query; q != nil {
		s += fmt.Sprint(q.Series.Matchers, q.Series.Family, q.Measure, q.T, q.Over)
		c.Value.Query = nil
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return s + string(b)
}

func TestPrintedScalars(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`), rapid.SampledFrom([]string{"true", "1", "1.0", "", " ", "null", "~", "1e3", "0x1", "2026-01-01", "on", "- a", "a: b", "#", "a #b", "'", `"`, "é", "10%", "\x00", "\u2028", "*a", "&a", "!x", "{", "@", "`", "? a", "1:30"})).
			Filter(func(s string) bool { return !strings.ContainsRune(s, '\ufffd') && strings.ToValidUTF8(s, "") == s }).Draw(rt, "text")
		var got map[string]any
		doc := "a: " + scalarText(text, false) + "\n"
		if err := yaml.Unmarshal([]byte(doc), &got); err != nil {
			rt.Fatalf("%q was printed as %s: %v", text, doc, err)
		}
		if got["a"] != text {
			rt.Fatalf("%q was printed as %s and read as %q", text, doc, got["a"])
		}
	})
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Setenv("TAILSCOPE_TEST_SECRET", "hunter2")
	s := Secret{Env: "TAILSCOPE_TEST_SECRET"}
	type holder struct {
		S  Secret
		P  *Secret
		Of map[string]Secret
	}
	h := holder{s, &s, map[string]Secret{"a": s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", h)
	}
	b, err := json.Marshal(h)
	out.Write(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = yaml.Marshal(h); err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", s, "holder", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", s, "pointer", &s)
	if strings.Contains(out.String(), "hunter2") {
		t.Errorf("the secret is in\n%s", out.String())
	}
	if n := strings.Count(out.String(), "from $TAILSCOPE_TEST_SECRET"); n < 15 {
		t.Errorf("where it comes from is said only %d times in\n%s", n, out.String())
	}
	if f := reflect.TypeFor[Secret](); f.NumField() != 2 {
		t.Errorf("a Secret holds more than where it comes from: %v", f)
	}
}

func TestAddressesAreRedacted(t *testing.T) {
	f, problems := read(t, "checks:\n  a: {every: 10s, value: {http: {url: 'https://user@x/y?api_key=hunter2&q=1'}}}\n")
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	if got := f.Checks[0].YAML(); strings.Contains(got, "hunter2") || !strings.Contains(got, "api_key=redacted") {
		t.Error(got)
	}
}

func TestSecretsAreNamed(t *testing.T) {
	f, problems := read(t, `receivers:
  chat: {webhook: {url: {env: CHAT_URL}, headers: {X-Team: shop, Authorization: {file: /run/token}}, secret: {env: SIGN}}}
checks:
  rows: {every: 1m, value: {sql: {driver: mysql, dsn: {env: DSN}, query: select 1}}}
  disk: {every: 1m, value: {command: {args: [check_disk], env: {LANG: C, TOKEN: {env: TOKEN}}}}}
`)
	if len(problems) > 0 {
		t.Fatal(told(problems))
	}
	w := f.Receivers["chat"].Webhook
	if w.URL.Plain != "" || *w.URL.Secret != (Secret{Env: "CHAT_URL"}) || *w.Secret != (Secret{Env: "SIGN"}) ||
		*w.Headers["Authorization"].Secret != (Secret{File: "/run/token"}) || w.Headers["X-Team"] != (Text{Plain: "shop"}) || len(w.Headers) != 2 {
		t.Errorf("got %+v", w)
	}
	for _, c := range f.Checks {
		if s := c.Value.SQL; s != nil && (s.DSN.Plain != "" || *s.DSN.Secret != (Secret{Env: "DSN"})) {
			t.Errorf("got %+v", s)
		}
		if k := c.Value.Command; k != nil && (k.Env["LANG"] != (Text{Plain: "C"}) || len(k.Env) != 2 || *k.Env["TOKEN"].Secret != (Secret{Env: "TOKEN"})) {
			t.Errorf("got %+v", k)
		}
	}
}

func FuzzRead(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add(eachFile)
	f.Add("checks:\n  a: {every: 10s, value: {http: {url: 'https://x/$a'}}, each: {series: x, by: a}}\n")
	f.Add("a: &x [1]\nb: *x\n<<: {}\n")
	f.Add("checks: {? : y}")
	f.Add("checks:\n  a:\n    value: |\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, problems := Read([]string{"problem.go"}, Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		if (file == nil) != (len(problems) > 0) {
			t.Fatalf("%v and %v", file, problems)
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range problems {
			if p.Message == "" || p.Line > lines+1 || p.Column < 0 {
				t.Fatalf("%+v of %d lines", p, lines)
			}
		}
		if file == nil {
			return
		}
		for i := range file.Checks {
			c := &file.Checks[i]
			_ = c.YAML()
			if c.Each != nil {
				of := map[string]string{}
				for _, name := range c.Each.By {
					of[name] = `x"'{}`
				}
				_, _ = c.Instance(of)
			}
		}
	})
}
