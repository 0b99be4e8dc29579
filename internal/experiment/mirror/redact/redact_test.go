package redact

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newRedactor(t testing.TB, rules ...string) *Redactor {
	t.Helper()
	r, err := New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shown replaces markers by <n>, the n-th different one.
func shown(s string) string {
	seen := map[string]string{}
	return regexp.MustCompile(`redacted-[0-9a-f]{10}`).ReplaceAllStringFunc(s, func(m string) string {
		if seen[m] == "" {
			seen[m] = fmt.Sprintf("<%d>", len(seen)+1)
		}
		return seen[m]
	})
}

func TestHeader(t *testing.T) {
	r := newRedactor(t, "header:X-Internal", "header:acme-*", `value:\b\d{4}-\d{4}\b`)
	f := func(name, value, want string) {
		t.Helper()
		if got := shown(r.Header(name, value)); got != want {
			t.Errorf("%s: %s became %s, want %s", name, value, got, want)
		}
	}
	f("Authorization", "Basic dXNlcjpwYXNz", "<1>")
	f("cookie", "sid=1; theme=dark", "<1>")
	f("Set-Cookie", "sid=1; Path=/", "<1>")
	f("X-Api-Key", "k", "<1>")
	f("X-ACCESS_TOKEN", "k", "<1>")
	f("X-Internal", "k", "<1>")
	f("Acme-Anything", "k", "<1>")
	f("Authorization", "", "")
	f("Accept", "text/html;q=0.9", "text/html;q=0.9")
	f("X-Note", "card 1234-5678 ok", "card <1> ok")
	f("X-Note", "1234-5678 1234-5678 8765-4321", "<1> <1> <2>")
	f("Referer", "http://a/b?q=1&token=s3cret", "http://a/b?q=1&token=<1>")
	f("Location", "http://joe:pw@a/b", "http://<1>@a/b")
	f("X-Note", "BASIC dXNlcjpwYXNz and so on", "<1> and so on")
	f("X-Forwarded-Auth-Info", "Bearer abcdefghij.k", "<1>")
}

func TestTarget(t *testing.T) {
	r := newRedactor(t, "query:q")
	f := func(target, want string) {
		t.Helper()
		if got := shown(r.Target(target)); got != want {
			t.Errorf("%s became %s, want %s", target, got, want)
		}
	}
	f("/search?q=shoes&page=2", "/search?q=<1>&page=2")
	f("/a?page=2#access_token=1", "/a?page=2#access_token=<1>")
	f("/a?api%5Fkey=1", "/a?api%5Fkey=<1>")
	f(`/a?token=x"y`, `/a?token=<1>`)
	f("/a?user[password]=1&b=2", "/a?user[password]=<1>&b=2")
	f("/a?next=%2Fb%3Ftoken%3D1", "/a?next=%2Fb%3Ftoken%3D<1>")
	f("/a?filter=%7B%22password%22%3A%22x%22%7D", "/a?filter=%7B%22password%22%3A%22<1>%22%7D")
	f("/plain", "/plain")
	f("*", "*")
}

func TestBody(t *testing.T) {
	r := newRedactor(t, "json:.user.email", "json:items[].card", "json:nick")
	f := func(contentType, body, want string) {
		t.Helper()
		if got := shown(string(r.Body(contentType, []byte(body)))); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", body, got, want)
		}
	}
	const asJSON = "application/json; charset=utf-8"
	f(asJSON, `{"a": 1,  "b":[true,null]}`, `{"a": 1,  "b":[true,null]}`)
	f(asJSON, `{"user":{"email":"a@b", "name":"A"}}`, `{"user":{"email":"<1>","name":"A"}}`)
	f(asJSON, `{"email":"a@b"}`, `{"email":"a@b"}`)
	f(asJSON, `{"items":[{"card":12},{"card":"12"}, {"card":13}]}`, `{"items":[{"card":"<1>"},{"card":"<1>"},{"card":"<2>"}]}`)
	f(asJSON, `{"nick":{"deep":[1,2]},"x":1.0}`, `{"nick":"<1>","x":1.0}`)
	f(asJSON, `{"pass\u0077ord":"x"}`, `{"password":"<1>"}`)
	f(asJSON, `{"password":null}`, `{"password":null}`)
	f(asJSON, `{"a":"{\"password\":\"x\"}"}`, `{"a":"{\"password\":\"<1>\"}"}`)
	f(asJSON, `{"url":"/x?a=1&token=2"}`, `{"url":"/x?a=1&token=<1>"}`)
	f(asJSON, `{"token":"a"} {"token":"a"}`, `{"token":"<1>"}`+"\n"+`{"token":"<1>"}`)
	f(asJSON, `{"a":1,"password":"cut he`, `{"a":1,"password":"<1>"`)
	f(asJSON, `no json at all`, `"<1>"`)
	f("", `{"password":"x"}`, `{"password":"<1>"}`)
	f("application/x-www-form-urlencoded", "user=joe&password=a%20b", "user=joe&password=<1>")
	f("text/plain", "see eyJhbGciOi.eyJzdWIiOi.c2ln for it", "see <1> for it")
	f("text/plain", "plain", "plain")
	f("multipart/form-data; boundary=B",
		"--B\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2\r\n--B\r\nContent-Disposition: form-data; name=\"doc\"\r\nContent-Type: application/json\r\n\r\n{\"pin\":1}\r\n--B--\r\n",
		"--B\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n<1>\r\n--B\r\nContent-Disposition: form-data; name=\"doc\"\r\nContent-Type: application/json\r\n\r\n{\"pin\":\"<2>\"}\r\n--B--\r\n")
	f("multipart/form-data", "--B\r\nhunter2", "<1>")
}

func TestRulesRefused(t *testing.T) {
	for _, rule := range []string{"", "cookie", "header:", "path:x", "value:(", "value:a*"} {
		if _, err := New(Rules{rule}); err == nil || !strings.HasPrefix(err.Error(), "redact: rule ") {
			t.Errorf("%q: %v", rule, err)
		}
	}
}

// Equal secrets are equal within a session, and in another one unlike.
func TestMarks(t *testing.T) {
	r, other := newRedactor(t), newRedactor(t)
	first, again, unlike, elsewhere := r.Mark("a"), r.Mark("a"), r.Mark("b"), other.Mark("a")
	if first != again || first == unlike || first == elsewhere {
		t.Errorf("%s %s %s, in another session %s", first, again, unlike, elsewhere)
	}
}

// No secret that stands where a rule says survives, whatever is around it and
// however it is written.
func TestNothingSurvives(t *testing.T) {
	r := newRedactor(t, "header:x-mine", "query:mine", "json:mine", "json:.a.b", `value:SEKRET[a-z]+`)
	rapid.Check(t, func(t *rapid.T) {
		// Not of hexadecimal digits alone, lest a marker contain it.
		secret := rapid.StringMatching(`[g-z]{6}[a-zA-Z0-9/+ "'\\%&=;é]{0,20}[g-z]{4}`).Draw(t, "secret")
		core := secret[:6]
		word := rapid.StringMatching(`[0-9a-f]{0,5}`)
		name := rapid.SampledFrom([]string{"mine", "password", "api_key", "accessToken", "client-secret"}).Draw(t, "name")
		check := func(what, out string) {
			if strings.Contains(out, core) {
				t.Fatalf("%s: %q is in %q", what, secret, out)
			}
		}

		check("header", r.Header(rapid.SampledFrom([]string{"X-Mine", "Cookie", "authorization", "X-Api-Key"}).Draw(t, "header"), secret))
		check("text", r.Text(word.Draw(t, "before")+" SEKRET"+core+" "+word.Draw(t, "after")))
		escaped := url.QueryEscape(secret)
		check("target", r.Target("/"+word.Draw(t, "path")+"?a="+word.Draw(t, "a")+"&"+name+"="+escaped+"&b=1"))
		check("target within a target", r.Target("/?next="+url.QueryEscape("/x?"+name+"="+escaped)))
		check("form", string(r.Body("application/x-www-form-urlencoded", []byte(name+"="+escaped+"&z=1"))))

		// A secret deep in JSON of any shape, cut anywhere.
		leaf := rapid.SampledFrom([]any{secret, []any{secret}, map[string]any{"x": secret}}).Draw(t, "leaf")
		var v any = map[string]any{name: leaf, "n": word.Draw(t, "n"), "z": 1}
		if rapid.Bool().Draw(t, "by path") {
			v = map[string]any{"a": map[string]any{"b": leaf}}
		} else {
			for range rapid.IntRange(0, 5).Draw(t, "depth") {
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					v = []any{word.Draw(t, "e"), v}
				case 1:
					v = map[string]any{word.Draw(t, "k"): v, "0": 1}
				case 2:
					inner, _ := json.Marshal(v)
					v = map[string]any{"s": string(inner)}
				}
			}
		}
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out := r.JSON(body)
		check("json", string(out))
		if strings.Count(string(body), `\"`) < 100 && !json.Valid(out) {
			t.Fatalf("%s became %s, which is not JSON", body, out)
		}
		cut := rapid.IntRange(0, len(body)).Draw(t, "cut")
		check("cut json", string(r.Body("application/json", body[:cut])))
	})
}

func FuzzBody(f *testing.F) {
	f.Add("application/json", []byte(`{"password":"hunter2","a":[1,{"token":"x"}]}`))
	f.Add("multipart/form-data; boundary=B", []byte("--B\r\nContent-Disposition: form-data; name=pin\r\n\r\n1\r\n--B--"))
	f.Add("application/x-www-form-urlencoded", []byte("a=1&token=%zz"))
	f.Add("", []byte("[[[{\"a\":\"[1]\"}"))
	r := newRedactor(f)
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		before := string(body)
		out := r.Body(contentType, body)
		if string(body) != before {
			t.Fatal("the body was changed in place")
		}
		if json.Valid(body) && !json.Valid(out) && strings.HasPrefix(contentType, "application/json") {
			t.Fatalf("%q became %q, which is not JSON", body, out)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("/a?b=c&token=d#e=f;g")
	f.Add("http://a:b@c/?x={\"pin\":1}")
	r := newRedactor(f)
	f.Fuzz(func(t *testing.T, s string) {
		r.Text(s)
		r.Target(s)
		if out := r.Target("/?" + s + "&token=zqzqzqzqzq"); strings.Contains(out, "zqzqzqzqzq") {
			t.Fatalf("%q", out)
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	r := newRedactor(b)
	var body []byte
	for i := range 20 {
		body = fmt.Appendf(body, `{"id":%d,"name":"item %d","url":"https://shop/item/%d?ref=home","price":{"amount":12.5,"currency":"EUR"}},`, i, i, i)
	}
	body = append(append([]byte("["), body[:len(body)-1]...), ']')
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.JSON(body)
	}
}
