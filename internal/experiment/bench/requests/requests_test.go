package requests_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
)

// write puts files into a directory of their own.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func compile(t testing.TB, s requests.Spec) *requests.Set {
	t.Helper()
	set, err := requests.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

// take returns the next n requests of a loop, as HTTP/1.1 has them.
func take(t testing.TB, set *requests.Set, n int) (wires []string) {
	t.Helper()
	src, err := set.Source(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		var r load.Request
		if !src.Next(&r) {
			break
		}
		wires = append(wires, string(r.Wire))
	}
	return wires
}

func TestOneURL(t *testing.T) {
	set := compile(t, requests.Spec{Queries: []requests.Query{{Request: "http://shop.example:8080/cart/7?q=1"}}})
	want := "GET /cart/7?q=1 HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: tailscope-bench\r\n\r\n"
	if got := take(t, set, 2); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("got %q", got)
	}
	if set.Base().String() != "http://shop.example:8080" || set.Queries()[0] != "GET /cart/{id}" || set.Checker() != nil || set.Recorded() || !set.Endless() {
		t.Errorf("base %s, queries %q, checker %v", set.Base(), set.Queries(), set.Checker())
	}
}

func TestTemplates(t *testing.T) {
	dir := write(t, map[string]string{
		"words.csv":  "word,count\n\"time & \"\"tide\"\"\",3\n\"a,b\n\",4\n",
		"body.json":  `{"q": "{{word}}", "n": {{count}}, "c": "{{where}}"}`,
		"rows.jsonl": `{"user": {"id": 7, "name": "Zoë \"Z\""}, "tags": ["a", "b"], "none": null}` + "\n",
	})
	spec := requests.Spec{Base: "http://h/solr/", Dir: dir, Vars: map[string]string{"where": "a/b c"}, Header: []load.Field{{Name: "X-All", Value: "1"}}}
	for _, c := range []struct {
		name  string
		query requests.Query
		want  []string
	}{
		{"path and query are escaped, a variable too", requests.Query{Request: "GET /{{where}}/x?q={{word}}&n={{count}}", Data: "words.csv"}, []string{
			"GET /solr/a%2Fb%20c/x?q=time%20%26%20%22tide%22&n=3 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\n\r\n",
			"GET /solr/a%2Fb%20c/x?q=a%2Cb%0A&n=4 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\n\r\n",
			"GET /solr/a%2Fb%20c/x?q=time%20%26%20%22tide%22&n=3 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\n\r\n",
		}},
		{"raw", requests.Query{Request: "GET /{{where|raw}}?n={{ count | raw }}", Data: "words.csv"}, nil},
		{"bodies of JSON", requests.Query{Request: "POST /x", BodyFile: "body.json", Data: "words.csv", Header: []load.Field{{Name: "x-all", Value: "{{word}}"}}}, []string{
			"POST /solr/x HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nUser-Agent: tailscope-bench\r\nx-all: time & \"tide\"\r\nContent-Length: LENGTH\r\n\r\n" +
				`{"q": "time & \"tide\"", "n": 3, "c": "a/b c"}`,
			"POST /solr/x HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nUser-Agent: tailscope-bench\r\nx-all: a,b\r\nContent-Length: LENGTH\r\n\r\n" +
				`{"q": "a,b\n", "n": 4, "c": "a/b c"}`,
		}},
		{"rows of JSON", requests.Query{Request: "PUT /u/{{user.id}}", Body: `{"name": "{{user.name}}", "tags": {{tags}}, "none": "{{none}}", "all": {{user}}}`, Data: "rows.jsonl"}, []string{
			"PUT /solr/u/7 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nContent-Type: application/json\r\nUser-Agent: tailscope-bench\r\nContent-Length: LENGTH\r\n\r\n" +
				`{"name": "Zoë \"Z\"", "tags": ["a","b"], "none": "", "all": {"id":7,"name":"Zoë \"Z\""}}`,
		}},
		{"a form", requests.Query{Request: "POST /f", Body: "q={{word}}", Data: "words.csv", Header: []load.Field{{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}}}, []string{
			"POST /solr/f HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\nContent-Length: LENGTH\r\n\r\nq=time%20%26%20%22tide%22",
		}},
		{"built in, and braces", requests.Query{Request: `POST /s/{{seq}}`, Body: `\{{x}} {{seq}}`}, []string{
			"POST /solr/s/1 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\nContent-Length: LENGTH\r\n\r\n{{x}} 1",
			"POST /solr/s/2 HTTP/1.1\r\nHost: h\r\nX-All: 1\r\nUser-Agent: tailscope-bench\r\nContent-Length: LENGTH\r\n\r\n{{x}} 2",
		}},
	} {
		s := spec
		s.Queries = []requests.Query{c.query}
		set, err := requests.Compile(s)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), `cannot stand in a path or query as it is`) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, got := range take(t, set, len(c.want)) {
			_, body, _ := strings.Cut(c.want[i], "\r\n\r\n")
			if want := strings.Replace(c.want[i], "LENGTH", strconv.Itoa(len(body)), 1); got != want {
				t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
			}
		}
	}
}
