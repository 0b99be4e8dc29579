package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/report"
)

func benchTarget(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("q") == "c" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.Header.Get("X-Side"))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A run as it is called: the report says what was sent, and the code whether it
// was right.
func TestBenchRuns(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(rows, []byte("word\na\nb\nc\nd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	url := benchTarget(t)
	for _, c := range []struct {
		name string
		args []string
		code int // but for a run that the machine made invalid
		want func(r *api.BenchResult) bool
	}{
		{"constant", []string{"--rate", "200", "--for", "300ms"}, exitOK, func(r *api.BenchResult) bool { return r.Account.Answered == 60 && r.Asked == 200 }},
		{"data and a check", []string{"/?q={{word}}", "--data", rows, "--rate", "200", "--for", "200ms", "--check", "status 200"}, exitOK,
			func(r *api.BenchResult) bool { return r.Account.Errors == 10 && r.Account.Statuses["404"] == 10 }},
		{"a threshold", []string{"--rate", "100", "--for", "100ms", "--threshold", "rate > 1000000/s"}, exitFailed,
			func(r *api.BenchResult) bool { return len(r.Thresholds) == 1 && !r.Thresholds[0].Met }},
		{"poisson over HTTP/2", []string{"--set", "protocol=HTTP/2", "--arrivals", "poisson", "--rate", "200", "--for", "200ms", "-d", "{}", "-H", "X-Side: left", "--check", "contains POST left"}, exitOK,
			func(r *api.BenchResult) bool {
				return r.Plan.Protocol == "HTTP/2" && r.Account.Due == r.Account.Sent && len(r.Account.Checks) == 0
			}},
		{"closed", []string{"--arrivals", "closed", "-c", "2", "--for", "1s"}, exitOK, func(r *api.BenchResult) bool { return r.Plan.Arrivals == "closed" && r.Account.Answered > 10 }},
		{"steps", []string{"--rate", "100 for 100ms, 100..300 for 100ms", "--seed", "9"}, exitOK,
			func(r *api.BenchResult) bool { return len(r.Phases) == 2 && r.Account.Due == 30 && r.Seed == 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, "out.json")
			arg, args := url, c.args
			if strings.HasPrefix(args[0], "/") {
				arg, args = url+args[0], args[1:]
			}
			var out, errs bytes.Buffer
			if c.name == "poisson over HTTP/2" {
				arg = benchTargetH2(t)
			}
			code := Run(t.Context(), append([]string{"bench", arg, "-o", file}, args...), nil, &out, &errs)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("code %d: %v\n%s", code, err, errs.String())
			}
			r := new(api.BenchResult)
			if err := json.Unmarshal(b, r); err != nil {
				t.Fatal(err)
			}
			want := c.code
			if !r.Valid {
				want = exitInvalid
			}
			if code != want || !c.want(r) {
				t.Errorf("code %d of a valid run: %t, account %+v, thresholds %+v\n%s", code, r.Valid, r.Account, r.Thresholds, errs.String())
			}
			if !strings.Contains(out.String(), "due") || strings.Contains(out.String(), report.BenchInvalid) == r.Valid {
				t.Errorf("the report says nothing of it:\n%s", out.String())
			}
			if !strings.HasPrefix(r.Command, "tailscope bench ") || strings.Contains(r.Command, file) {
				t.Errorf("command %s", r.Command)
			}
		})
	}
}

func benchTargetH2(t *testing.T) string {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.Header.Get("X-Side"))
	}))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// Wrong use ends before anything is sent, with what to write instead.
func TestBenchWrongUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{nil, exitUsage, []string{"needs a URL", "hint: write tailscope bench"}},
		{[]string{"ftp://host/"}, exitUsage, []string{"ftp is not spoken here", "hint:"}},
		{[]string{"http:///path"}, exitUsage, []string{"no host", "hint:"}},
		{[]string{"http://127.0.0.1:x/"}, exitUsage, []string{`http://127.0.0.1:x/: invalid port ":x" after host`, "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--rate", "fast"}, exitUsage, []string{`"fast"`, "hint: write 200"}},
		{[]string{"http://127.0.0.1:1/", "--arrivals", "odd"}, exitUsage, []string{"--arrivals", "hint: constant, poisson or closed"}},
		{[]string{"http://127.0.0.1:1/", "--arrivals", "closed", "--rate", "5"}, exitUsage, []string{"a closed loop has no rate", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--threshold", "p99 < 300"}, exitUsage, []string{"300 has no unit", "hint: write 300ms"}},
		{[]string{"http://127.0.0.1:1/", "--threshold", "p(99){hoem} < 1s"}, exitUsage, []string{"hoem", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--rate", "0"}, exitUsage, []string{"rate 0 sends nothing", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--set", "think=1s"}, exitUsage, []string{"--set think is of the users", "hint: leave it out, or add --arrivals closed"}},
		{[]string{"http://127.0.0.1:1/?q=1", "--targets", "testdata/targets.txt"}, exitUsage, []string{"more than a path", "hint:"}},
		{[]string{"--targets", "testdata/paths.txt"}, exitUsage, []string{"no host is named", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--targets", "testdata/paths.txt", "--set", "once=true"}, exitUsage, []string{"holds 2 requests, and the plan asks for 500", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--access-log", "../experiment/scenario/testdata/access.log", "--for", "1m", "--set", "once=true"}, exitUsage, []string{"lasts 2s, and 1m0s are asked for", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--check", "stats 200"}, exitUsage, []string{"stats is not known", "hint: status"}},
		{[]string{"http://127.0.0.1:1/", "--header", "nothing"}, exitUsage, []string{"no colon", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--data", "absent.csv"}, exitUsage, []string{"absent.csv"}},
		{[]string{"http://127.0.0.1:1/", "--report", "pdf"}, exitUsage, []string{"pdf", "hint: text, md, json or html"}},
		{[]string{"http://127.0.0.1:1/", "-o", "run.pdf"}, exitUsage, []string{"names no format", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "-o", "nowhere/run.html"}, exitUsage, []string{"nowhere", "hint: make the directory"}},
		{[]string{"http://127.0.0.1:1/", "--set", "speed=2"}, exitUsage, []string{"--set speed", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--for", "0s"}, exitUsage, []string{"--for"}},
		{[]string{"http://127.0.0.1:1/", "--conections", "2"}, exitUsage, []string{"--conections", "hint:"}},
		{[]string{"http://127.0.0.1:1/", "--rate", "5"}, exitFailed, []string{"cannot be reached", "hint: see that it runs"}},
		{[]string{"http://127.0.0.1:1/", "--to", "http://127.0.0.1:1"}, exitFailed, []string{"127.0.0.1:1", "hint: --server takes"}},
		{[]string{"search.yaml", "--rate", "5"}, exitUsage, []string{"--rate", "hint:"}},
		{[]string{"absent.yaml"}, exitUsage, []string{"absent.yaml"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			code := Run(t.Context(), append([]string{"bench"}, c.args...), nil, &out, &errs)
			if code != c.code || out.Len() > 0 {
				t.Errorf("code %d, want %d; printed %q", code, c.code, out.String())
			}
			for _, part := range c.want {
				if !strings.Contains(errs.String(), part) {
					t.Errorf("got %q, want %q", errs.String(), part)
				}
			}
		})
	}
}

// A file whose requests have whole URLs needs no other; each is sent once if that
// is asked for, and a path of the argument stands before theirs.
func TestBenchTargets(t *testing.T) {
	url := benchTarget(t)
	dir := t.TempDir()
	whole, paths := filepath.Join(dir, "whole"), filepath.Join(dir, "paths")
	for name, text := range map[string]string{whole: url + "/a\nPOST " + url + "/?q=c\n", paths: "/a\n/b\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--targets", whole, "--set", "once=true", "--rate", "20", "--for", "100ms"}, "GET /a 1, POST / 1"},
		{[]string{url + "/shop", "--targets", paths, "--rate", "40", "--for", "100ms"}, "GET /shop/a 2, GET /shop/b 2"},
	} {
		file := filepath.Join(dir, "out.json")
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"bench", "-o", file}, c.args...), nil, &out, &errs)
		b, err := os.ReadFile(file)
		r := new(api.BenchResult)
		if err == nil {
			err = json.Unmarshal(b, r)
		}
		if err != nil || code != exitOK && code != exitInvalid {
			t.Fatalf("code %d: %v\n%s", code, err, errs.String())
		}
		var got []string
		for _, q := range r.Queries {
			got = append(got, fmt.Sprintf("%s %d", q.Name, q.Sent))
		}
		if strings.Join(got, ", ") != c.want || r.Target != url {
			t.Errorf("%s of %s, want %s", got, r.Target, c.want)
		}
	}
}

func TestWithScheme(t *testing.T) {
	for arg, want := range map[string]string{
		"": "", "http://a/b": "http://a/b", "a:80/b": "http://a:80/b", "127.0.0.1:80": "http://127.0.0.1:80",
		"a/b?to=http://c": "http://a/b?to=http://c", "ftp://a": "ftp://a",
	} {
		if got := withScheme(arg); got != want {
			t.Errorf("%s: got %s, want %s", arg, got, want)
		}
	}
	for raw, want := range map[string]string{"http://a": "/", "http://a?q={{w}}": "/?q={{w}}", "http://a/b?to=http://c#d": "/b?to=http://c"} {
		if got := requestTarget(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// What a header field keeps secret is in no report.
func TestBenchAgainWithoutSecrets(t *testing.T) {
	for field, want := range map[string]string{
		"Authorization: Bearer abc": "Authorization: …", "X-Api-Key: abc": "X-Api-Key: …", "Cookie:a=b": "Cookie: …",
		"Accept: text/html": "Accept: text/html", "nothing": "nothing", "X-Side: left": "X-Side: left",
	} {
		if got := withoutSecret(field); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{"http://a/b?c": "'http://a/b?c'", "500": "500", "it's": `'it'\''s'`, "": "''", "p(99) < 3ms": "'p(99) < 3ms'"} {
		if got := shellWord(s); got != want {
			t.Errorf("%s: got %s, want %s", s, got, want)
		}
	}
}
