package requests_test

import (
	"strings"
	"testing"

	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
)

// Every mistake is said before any load, with where it is and what to do.
func TestProblems(t *testing.T) {
	dir := write(t, map[string]string{
		"words.csv":  "word,count\ntime,1\n",
		"short.csv":  "word,count\ntime\n\"open,2\n",
		"empty.csv":  "",
		"header.csv": "word\n",
		"twice.csv":  "word,word\na,b\n",
		"rows.jsonl": "{\"word\": \"a\"}\n\n{\"wrd\": \"b\"}\n[1]\n",
		"odd.bin":    "x",
		"targets":    "GET /a\nno field\n\n@body\nContent-Length: 3\n\nPOST http://other:1/\n\nGET /a b\nPOST /x\n@zzzz\nGET /y#z\n",
		"none":       "# nothing\n",
		"log":        "nonsense\n",
	})
	query := func(q requests.Query) requests.Spec { return requests.Spec{Queries: []requests.Query{q}} }
	for _, c := range []struct {
		name string
		spec requests.Spec
		want string
	}{
		{"nothing", requests.Spec{}, "there is nothing to send (hint: give a URL, queries, a file of targets, a recording or an access log)"},
		{"two kinds", requests.Spec{Targets: "targets", Queries: []requests.Query{{Request: "/"}}}, "requests come from more than one place (hint: give one of: queries, targets, a recording, an access log)"},
		{"target", requests.Spec{Base: "localhost:80", Queries: []requests.Query{{Request: "/"}}}, `target: "localhost:80" does not begin with http:// or https:// (hint: write http://localhost:80)`},
		{"no column", query(requests.Query{Name: "term", Request: "/?q={{wrd}}", Data: "words.csv"}), "query term, request: {{wrd}} is neither a column, a variable nor a built-in value (hint: did you mean {{word}}?)"},
		{"no data", query(requests.Query{Request: "/?q={{word}}"}), "query GET /, request: {{word}} is neither a column, a variable nor a built-in value (hint: no data is given: say data: FILE.csv with a column word, or set the variable)"},
		{"open", query(requests.Query{Name: "q", Request: "/{{word"}), `query q, request: {{ is not closed by }} (hint: write \{{ for two braces that are meant as such)`},
		{"filter", query(requests.Query{Name: "q", Request: "/{{seq|html}}"}), "query q, request: {{seq|html}}: html is not known after the bar (hint: write {{seq|raw}} for a value as it is, without escapes)"},
		{"random", query(requests.Query{Name: "q", Request: "/{{random 0}}"}), "query q, request: {{random 0}} is not a range (hint: write {{random 100}} for 0 to 99, or {{random 5..10}})"},
		{"no file", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "word.csv"}), "query q, data: word.csv: there is no such file (hint: did you mean words.csv?)"},
		{"fields", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "short.csv"}), `query q, data: short.csv:2: it has another number of fields than the first line has names (hint: put a field that holds a comma into double quotes)
query q, data: short.csv:3:9: a double quote stands where none may, or one is not closed (hint: write "" for one within a quoted field (RFC 4180))`},
		{"empty", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "empty.csv"}), "query q, data: empty.csv: it is empty (hint: the first line names the columns, such as word,count)"},
		{"no rows", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "header.csv"}), "query q, data: header.csv: it holds no rows (hint: write at least one line below the names of the columns)"},
		{"columns", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "twice.csv"}), "query q, data: twice.csv:1: two columns are called word (hint: rename one of them in the first line)"},
		{"jsonl", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "rows.jsonl"}), `query q, data: rows.jsonl:3: the row has no word (hint: every row needs it, if only as null)
query q, data: rows.jsonl:4: this is not a JSON object: cannot unmarshal array into Go value of type map[string]json.RawMessage (hint: write one object a line, such as {"word": "time"})`},
		{"format", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "odd.bin"}), "query q, format: the format of odd.bin is not known (hint: say format: csv, tsv or jsonl)"},
		{"both", requests.Spec{Vars: map[string]string{"word": "x"}, Queries: []requests.Query{{Name: "q", Request: "/{{word}}", Data: "words.csv"}}}, "query q, request: {{word}} is a variable and a column of words.csv too (hint: rename one of the two)"},
		{"unused", query(requests.Query{Name: "q", Request: "/", Data: "words.csv"}), "query q, data: no word of the request is a column of words.csv (hint: write {{word}} where its values belong, or leave data out)"},
		{"order", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "words.csv", Order: "up", AtEnd: "stop"}), `query q, at_end: "stop" is not known (hint: write loop or once)
query q, order: "up" is not known (hint: write sequential, random or shuffle)`},
		{"chance", query(requests.Query{Name: "q", Request: "/{{word}}", Data: "words.csv", Order: "random", AtEnd: "once"}), "query q, at_end: rows by chance never run out (hint: write order: shuffle for each row once in random order)"},
		{"space", query(requests.Query{Name: "q", Request: "GET /a?q=b c"}), `query q, request: " " cannot stand in a path or query as it is (hint: write /a?q=b%20c)`},
		{"fragment", query(requests.Query{Name: "q", Request: "/a#b"}), "query q, request: # begins a fragment, which is never sent (hint: write %23 for a # that is meant as such)"},
		{"no slash", query(requests.Query{Name: "q", Request: "GET select"}), `query q, request: the path "select" does not begin with / (hint: write METHOD /path, such as GET /select?q=x)`},
		{"no JSON", query(requests.Query{Name: "q", Request: "POST /", Body: `{"a": {{word}}}`, Data: "words.csv"}), `query q, body: row 1 of words.csv: the body is not JSON: invalid character 'i' in literal true (expecting 'r') (hint: write {{words}} that are texts in quotes, as "{{word}}")`},
		{"a body of GET", query(requests.Query{Name: "q", Request: "/", Body: "x"}), "query q, body: GET has no body (hint: write POST before the path)"},
		{"header", query(requests.Query{Name: "q", Request: "/", Header: []load.Field{{Name: "Content-Length", Value: "3"}, {Name: "a b", Value: "c"}}}), `query q, header: Content-Length cannot be chosen (hint: leave it out: it follows from the body)
query q, header: "a b" is not a name of a header field (hint: write it as Name: value)`},
		{"weight", query(requests.Query{Name: "q", Request: "/", Weight: -1, Think: "long"}), `query q, weight: -1 is not a weight (hint: write a positive number; 2 is twice as often as 1)
query q, think: "long" is not a time to think (hint: write 1s, 1s..3s for anything between, or exp 2s for exponential ones of that mean)`},
		{"same name", requests.Spec{Queries: []requests.Query{{Name: "q", Request: "/"}, {Name: "q", Request: "/"}}}, "query q, name: query 1 is called so too (hint: give each query a name of its own)"},
		{"two hosts", requests.Spec{Base: "http://h", Queries: []requests.Query{{Name: "q", Request: "http://other/"}}}, "query q, request: http://other is another host than http://h (hint: load goes to one host: leave it out, or run one for each host)"},
		{"check", query(requests.Query{Name: "q", Request: "/", Check: &requests.Check{Status: []string{"ok"}}}), `query q, check.status: "ok" is not a status (hint: write 200, 2xx or 200..204)`},
		{"check of all", requests.Spec{Queries: []requests.Query{{Request: "/"}, {Request: "/b"}}, Check: requests.Check{Size: "x"}}, `check.size: "x" is not a number of bytes (hint: write > 100, < 2MB, 1kB..2MB or 512)`},
		{"tenant", requests.Spec{Tenant: "x", Queries: []requests.Query{{Request: "/"}}}, `tenant: "x" is not a place of a tenant (hint: write header:NAME, column:NAME, host, host:REGEX or path:REGEX)`},
		{"tenant's column", requests.Spec{Tenant: "column:shop", Queries: []requests.Query{{Name: "q", Request: "/{{word}}", Data: "words.csv"}}}, "query q, tenant: words.csv has no column shop (hint: its columns are word, count)"},
		{"changing tenant", requests.Spec{Tenant: "header:X-T", Queries: []requests.Query{{Name: "q", Request: "/", Header: []load.Field{{Name: "X-T", Value: "{{uuid}}"}}}}}, "query q, tenant: header X-T changes with every request (hint: tenants must come from data: write a column into it)"},
		{"targets", requests.Spec{Targets: "targets"}, `targets: targets:2: "no field" is neither a request, a header field nor a body (hint: write METHOD URL, Name: value or @FILE)
targets: targets:4: a body stands here, but no request above it (hint: write METHOD URL on the line before)
targets: targets:5: a header field stands here, but no request above it (hint: write METHOD URL on the line before)
targets: targets:7: http://other:1 is another host than http://h (hint: load goes to one host: leave it out, or run one for each host)
targets: targets:9: " " cannot stand in a path or query as it is (hint: write /a%20b)
targets: targets:10: body zzzz: there is no such file (hint: names of files are relative to DIR)
targets: targets:12: # begins a fragment, which is never sent (hint: write %23 for a # that is meant as such)`},
		{"no targets", requests.Spec{Targets: "none"}, "targets: none: it holds no requests (hint: write one a line, as GET http://127.0.0.1:8080/)"},
		{"log", requests.Spec{AccessLog: &requests.AccessLog{Path: "log"}}, "access_log: log: the lines are of no known format: name one of alb, haproxy, haproxy-bare, envoy-text, traefik-text, combined-time, apache, apache-common, or give the log_format that nginx is configured with as the format; the first line is\nnonsense (hint: say format: with the log_format it was written in)"},
		{"record", requests.Spec{Record: &requests.Record{Path: "log", Speed: -1}}, "speed: -1 is not a speed (hint: write 1 for the original times, 2 for twice as fast)"},
		{"no record", requests.Spec{Record: &requests.Record{Path: "log"}}, `record: log: no record of a session that this program can read: it does not begin with "TSREC" (hint: give a file that tailscope mirror --record wrote)`},
	} {
		c.spec.Dir = dir
		if c.spec.Base == "" {
			c.spec.Base = "http://h"
		}
		_, err := requests.Compile(c.spec)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
