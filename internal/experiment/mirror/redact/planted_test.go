package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is in a text that is not JSON as a whole, or is a form that does not say
// so, is secret too.
func TestPlanted(t *testing.T) {
	r := newRedactor(t)
	const secret = "hunter2hunter"
	for _, tc := range []struct{ what, out string }{
		{"events", string(r.Body("text/event-stream", []byte("event: x\ndata: {\"a\":1,\"password\":\"hunter2hunter\"}\n\n")))},
		{"events of numbers", string(r.Body("text/event-stream", []byte("data: {\"pin\": 4711, \"secret\":\"hunter2hunter\"}\n\n")))},
		{"a page with state", string(r.Body("text/html", []byte(`<script>var s={"csrfToken" : "hunter2hunter","a":2}</script>`)))},
		{"a page with escaped state", string(r.Body("text/html", []byte(`<script>var s="{\"csrfToken\":\"hunter2hunter\"}"</script>`)))},
		{"a callback", string(r.Body("application/javascript", []byte(`call({"token":"hunter2hunter"})`)))},
		{"an object", string(r.Body("text/plain", []byte(`x {"credentials":{"user":"joe","word":"hunter2hunter"}}`)))},
		{"a mark of byte order", string(r.Body("text/plain", []byte("\xef\xbb\xbf{\"password\":\"hunter2hunter\"}")))},
		{"a form that says nothing", string(r.Body("", []byte("password=hunter2hunter&a=1")))},
		{"a form as text", string(r.Body("text/plain", []byte("password=hunter2hunter")))},
		{"a form in JSON", string(r.Body("application/json", []byte(`{"body":"password=hunter2hunter&a=1"}`)))},
		{"JSON after a space in JSON", string(r.Body("application/json", []byte(`{"body":" {\"password\":\"hunter2hunter\"}"}`)))},
		{"JSON cut in JSON", string(r.Body("application/json", []byte(`{"body":"{\"password\":\"hunter2hunter\", \"a\":"}`)))},
		{"JSON in quotes in JSON", string(r.Body("application/json", []byte(`{"body":"\"{\\\"password\\\":\\\"hunter2hunter\\\"}\""}`)))},
		{"a header with a form", r.Header("X-Query", "token=hunter2hunter&a=1")},
		{"a header with JSON cut", r.Header("X-State", `{"password":"hunter2hunter`)},
		{"a header with JSON", r.Header("X-State", `v1 {"password":"hunter2hunter"}`)},
		{"a log line", r.Text(`level=info password=hunter2hunter user=joe`)},
		{"a quote in a quoted value", r.Text(`password="x\"hunter2hunter" user=joe`)},
		{"a quoted value that does not end", r.Text(`password="x hunter2hunter`)},
		{"a quoted value", r.Text(`level=info password="hunter2hunter x" user=joe`)},
	} {
		if strings.Contains(tc.out, secret) || strings.Contains(tc.out, "4711") {
			t.Errorf("%s: %s", tc.what, tc.out)
		}
	}
	deep := `{"password":"hunter2hunter"}`
	for range 7 {
		b := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(deep)
		deep = `{"a":"` + b + `"}`
		if out := string(r.Body("application/json", []byte(deep))); strings.Contains(out, secret) {
			t.Errorf("deep: %s", out)
		}
	}
	for _, same := range []string{
		`a "note": nothing here`, `{"a":1} and {"b":2}`, `x=1&y=2`, `text/html;q=0.9, a=b`, `"quoted": "text"`, `W/"abc="`,
		`level=info msg="all is well"`, `"password": null`, `"password":true,"pin":false`,
	} {
		if out := r.Text(same); out != same {
			t.Errorf("%s became %s", same, out)
		}
	}
}

// Of JSON within a text, escaped as often as it may be and cut anywhere, no
// secret field survives.
func TestNothingSurvivesInText(t *testing.T) {
	r := newRedactor(t)
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[g-z]{6}[a-zA-Z0-9/+ "'\\%&=;é:,{}]{0,20}[g-z]{4}`).Draw(t, "secret")
		leaf := rapid.SampledFrom([]any{secret, []any{1, secret}, map[string]any{"x": "y", "z": secret}}).Draw(t, "leaf")
		name := rapid.SampledFrom([]string{"password", "api_key", "accessToken", "client-secret"}).Draw(t, "name")
		other := rapid.SampledFrom([]any{"a\"b", 1, nil, "", map[string]any{"c": "d"}}).Draw(t, "other")
		text, _ := json.Marshal(map[string]any{"a": other, name: leaf})
		for range rapid.IntRange(0, 2).Draw(t, "escaped") {
			text, _ = json.Marshal(string(text))
		}
		s := rapid.SampledFrom([]string{"data: ", "x=1 ", "<script>s=", `"`, "f("}).Draw(t, "before") + string(text)
		s = s[:rapid.IntRange(0, len(s)).Draw(t, "cut")]
		if out := r.Text(s); strings.Contains(out, secret[:6]) {
			t.Fatalf("%q became %q", s, out)
		}
	})
}
