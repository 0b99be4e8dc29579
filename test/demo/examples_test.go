//go:build servers

package demo_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment/logbook"
	"tailscope/test/program"
)

// exampleFiles are what examples name: each runs in a directory of its own that has them.
var exampleFiles = map[string]string{
	"nginx.yaml":   "scenario: home\ntarget: http://127.0.0.1:8080\nservice: web\nqueries:\n  - {name: home, request: GET /}\nphases: [{name: load, rate: 50, for: 1s}]\nlimits: {late: 100%, cpu: 100%}\n",
	"workers.yaml": "experiment: workers\nhypothesis: none is needed\nscenario: nginx.yaml\nvariable: workers\ncontrol: {workers: 1}\nvariants: [{workers: 2}]\napply: [\"./scale.sh {{workers}}\"]\nrounds: 2\nmeasures: [p50]\n",
	"search.yaml":  "scenario: search\ntarget: http://127.0.0.1:8080\nservice: web\nvars: {shards: 1}\nqueries:\n  - {name: search, request: \"GET /search?q={{word}}\", data: words.csv}\nphases: [{name: load, rate: 50, for: 1s}]\n",
	"layouts.yaml": "simulate: lists of products\nasks: p90\nleaves:\n  - from: {service: shop, operation: GET /products, since: 1h, shards: 4}\nlayout: {shards: 4, threads: 4, cores: 2, rate: 5}\nvary: {nodes: [1, 2]}\n",
	"checks.yaml":  "checks:\n  front page:\n    every: 10s\n    value: {http: {url: \"http://127.0.0.1:8080/\", expect: [200]}}\n    threshold: {must: \"<\", of: 5, warning: 10%}\n",
	"agent.yaml":   "agent:\n  name: beside\n",
	"words.csv":    "word\nchair\nlamp\n",
	"points.csv":   "concurrency,rate\n1,95\n2,180\n4,330\n8,540\n16,700\n32,690\n",
	"scale.sh":     "#!/bin/sh\nexit 0\n",
}

// accessLog returns the nth access log of one request: the server takes each once.
func accessLog(n int32) string {
	return fmt.Sprintf("127.0.0.1 - - [01/Nov/2026:10:%02d:%02d +0000] \"GET /products HTTP/1.1\" 200 512 \"-\" \"curl\" 0.012\n", n/60, n%60)
}

// exampleRun runs examples beside a demo.
type exampleRun struct {
	bin, files, server string
	named              *strings.Replacer // what examples name, by what there is
	begun              atomic.Int32      // examples
}

// Every example of the help, and every command line in a block of README, does what it says, in
// a shell, beside one demo. An exit code that says what was found is an answer; an error is not.
// Those with ClickHouse have a test in internal/cli.
func TestExamples(t *testing.T) {
	path, err := program.Build(t.Context(), "tailscope")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	x := &exampleRun{bin: filepath.Join(dir, "bin"), files: filepath.Join(dir, "files")}
	for _, err := range []error{os.Mkdir(x.bin, 0o755), os.Mkdir(x.files, 0o755), os.Symlink(path, filepath.Join(x.bin, "tailscope"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	otlp := ""
	x.server, otlp = demoServer(t, path)
	x.prepare(t, otlp)
	lines := slices.DeleteFunc(append(x.helpExamples(t), readmeExamples(t)...), func(line string) bool { return strings.Contains(line, "clickhouse://") })
	if len(lines) < 120 {
		t.Fatalf("%d examples: the test looks in the wrong place", len(lines))
	}
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			x.run(t, line)
		})
	}
}

// demoServer runs the demo, and returns the addresses of its page and of its OTLP over HTTP.
func demoServer(t *testing.T, path string) (server, otlp string) {
	t.Helper()
	p, err := program.Start(filepath.Join(t.TempDir(), "demo.log"), nil, path, "demo", "--no-open",
		"--listen", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--rate", "20", "--change-after", "1h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, 3*time.Minute, "the demo", func() bool { return strings.Contains(p.Log(), "it is under load") })
	server = regexp.MustCompile(`tailscope is at (\S+)`).FindStringSubmatch(p.Log())[1]
	status, err := (&client.Client{Address: server}).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return server, "http://" + status.OTLPHTTP
}

func waitFor(t *testing.T, most time.Duration, what string, there func() bool) {
	t.Helper()
	for begin := time.Now(); !there(); time.Sleep(200 * time.Millisecond) {
		if time.Since(begin) > most {
			t.Fatalf("%s is not there after %s", what, most)
		}
	}
}

// prepare makes what examples name: targets of load, files, a mirror session that runs, and ids of
// what the demo has.
func (x *exampleRun) prepare(t *testing.T, otlp string) {
	t.Helper()
	server := x.server
	var targets []string
	for range 4 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(5 * time.Millisecond) // the load is on time beside it
			fmt.Fprintln(w, "total 3")
		}))
		t.Cleanup(s.Close)
		targets = append(targets, s.URL)
	}
	host := func(i int) string { return strings.TrimPrefix(targets[i], "http://") }
	x.named = strings.NewReplacer("http://127.0.0.1:8080", targets[0])
	for name, text := range exampleFiles {
		if err := os.WriteFile(filepath.Join(x.files, name), []byte(x.named.Replace(text)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("1793527200.000 0.012 200 \"GET /products HTTP/1.1\"\n"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var combined bytes.Buffer
	z = gzip.NewWriter(&combined)
	_, _ = z.Write([]byte(accessLog(0)))
	if err := errors.Join(z.Close(), os.Mkdir(filepath.Join(x.files, "old"), 0o755), os.Mkdir(filepath.Join(x.files, "checks"), 0o755),
		os.WriteFile(filepath.Join(x.files, "old.log.gz"), packed.Bytes(), 0o644),
		os.WriteFile(filepath.Join(x.files, "old", "a.gz"), combined.Bytes(), 0o644),
		os.WriteFile(filepath.Join(x.files, "checks", "shop.yaml"), []byte(x.named.Replace(exampleFiles["checks.yaml"])), 0o644)); err != nil {
		t.Fatal(err)
	}
	x.setUp(t, targets[0], "tailscope serve --data var", 0)
	x.setUp(t, targets[0], "tailscope backup --data var --to backup", time.Minute)
	x.setUp(t, targets[0], "tailscope experiment run workers.yaml --output result.json --save-baseline base.json", time.Minute)
	x.setUp(t, targets[0], "tailscope mirror --listen LISTEN --primary "+targets[0]+" --candidate "+targets[1]+" --set mirror.record=session.rec", 0)

	c := &client.Client{Address: server}
	ctx, stop := context.WithCancel(t.Context())
	mirror := x.command(ctx, x.files, "exec tailscope mirror --name running --service shop --listen 127.0.0.1:0 --primary "+targets[0]+" --candidate candidate="+strings.Join(targets[1:], ",")+" --server "+server)
	if err := mirror.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = mirror.Wait() })
	x.setUp(t, targets[0], "tailscope bench nginx.yaml --server "+server, time.Minute)
	ids := map[string]string{}
	for _, kind := range []string{logbook.KindMirror, logbook.KindBench} {
		waitFor(t, time.Minute, "the session of "+kind, func() bool {
			list, err := c.Sessions(t.Context(), api.SessionsRequest{Kind: kind, Start: "now-1h", Limit: 1})
			if err != nil || len(list.Sessions) == 0 {
				return false
			}
			ids[kind] = list.Sessions[0].ID
			return true
		})
	}
	marks, err := c.Marks(t.Context(), api.MarksRequest{Start: "now-2h", End: "now", Service: "shop"})
	if err != nil || len(marks.Marks) == 0 {
		t.Fatalf("the marks of the demo: %v, %v", marks, err)
	}
	traces, err := c.Traces(t.Context(), api.TracesRequest{Requests: api.Requests{Match: `{service="shop"}`, Start: "now-1h"}, Limit: 1})
	if err != nil || len(traces.Traces) == 0 {
		t.Fatalf("the slow requests of the demo: %v, %v", traces, err)
	}
	change := ""
	waitFor(t, 2*time.Minute, "the change of the demo's history", func() bool {
		list, err := c.Changes(t.Context(), api.ChangesRequest{Match: `{service="shop"}`, Start: "now-6h", Status: "all"})
		// One that a mark tells has the moment of the mark, and its id stays as it is.
		i := slices.IndexFunc(list.Changes, func(c api.Change) bool { return c.ToldBy != "" })
		if err != nil || i < 0 {
			return false
		}
		change = list.Changes[i].ID
		return true
	})
	waitFor(t, 2*time.Minute, "the check of an operation", func() bool {
		_, err := c.Check(t.Context(), api.CheckRequest{ID: `errors{operation="GET /orders"}`})
		return err == nil
	})
	// Whatever stands first is looked for first.
	x.named = strings.NewReplacer(
		"http://127.0.0.1:7099", server, "127.0.0.1:7099", strings.TrimPrefix(server, "http://"), "http://tailscope:7099", server, "http://tailscope:4318", otlp,
		"http://127.0.0.1:8080", targets[0], "http://app.test", targets[0], "10.0.0.1:80", host(1), "10.0.0.2:80", host(2)+" --within 15s --set step=6s",
		"a:8081", host(0), "b:8082", host(1), "c:8081", host(2), "c:8082", host(2), "c:8083", host(2), "b:8083", host(3), "b1:80", host(1), "b2:80", host(2), "b3:80", host(3),
		"--listen :8080", "--listen 127.0.0.1:0", "bin/tailscope", "tailscope",
		"/var/lib/tailscope-agent", "agent", "restore --from /mnt/backup/tailscope --verify --data /var/lib/tailscope", "restore --from backup --verify --data restored",
		"/var/lib/tailscope", "var", "--to /mnt/backup/tailscope", "--to another", "/mnt/backup/tailscope", "backup", "/var/log/nginx/", "", "/etc/tailscope/", "",
		"--min 500ms", "--min 5ms", // on a fast machine nothing takes longer
		"confirm 5f1c0de5f1c0de11", "confirm "+change, "dismiss 5f1c0de5f1c0de11", "dismiss "+change,
		"report session 5f1c0de5f1c0de11", "report session "+ids[logbook.KindBench], "report session ID", "report session "+ids[logbook.KindBench], "20260301-120000-5f1c0de5", ids[logbook.KindMirror], "--service checkout", "--service shop",
		"5f1c0de5f1c0de11", marks.Marks[0].ID, "5b8efff798038103d269b633813fc60c", traces.Traces[0].TraceID,
		"--a 1.0 --b 1.1", "--a 2.3.0 --b 2.4.0", "solr/GET /select", "shop/GET /products", "leaves solr", "leaves shop", "simulate search.yaml", "simulate layouts.yaml",
		"ack orders", "ack 'looking at orders'", "run orders", "run 'placing an order'", "backtest orders", "backtest 'placing an order'", "--check orders", "--check 'placing an order'",
		`{check="orders"}`, `{check="placing an order"}`, "--check disk", "--check 'front page'",
		"--rate 500 --for 30s", "--rate 50 --for 1s", "--rate 100..800 --for 2m", "--rate 50..100 --for 1s", "--connections 32 --for 10s", "--connections 2 --for 1s",
		"--objective 'p99 < 200ms and errors < 0.1%'", "--objective 'p99 < 200ms and errors < 0.1%' --highest 40 --within 15s --set step=6s",
		"--highest 2000", "--highest 40 --within 15s --set step=6s", "--rate 400", "--rate 20", "--servers 1..11", "--servers 1..2 --within 15s --set step=6s",
	)
}

// setUp runs a command that makes files for examples; one without an end is interrupted once it
// serves.
func (x *exampleRun) setUp(t *testing.T, target, line string, most time.Duration) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	line = strings.ReplaceAll(line, "LISTEN", address)
	out, err := x.until(t, x.files, line, most, func(out string) bool {
		if strings.Contains(line, address) {
			r, err := http.Get("http://" + address + "/")
			if err != nil {
				return false
			}
			return r.Body.Close() == nil
		}
		return strings.Contains(out, "ready")
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// command returns a line of a shell that runs in a directory. All of its processes are ended
// with it.
func (x *exampleRun) command(ctx context.Context, dir, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+x.bin+":"+os.Getenv("PATH"), "TAILSCOPE_SERVER="+x.server, "TAILSCOPE_LISTEN=127.0.0.1:0", "TAILSCOPE_OTLP_GRPC=127.0.0.1:0", "TAILSCOPE_OTLP_HTTP=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// isAnswer reports whether an exit code and what a command wrote say what was found, and not that
// it failed. A shell that finds no program exits with 126 or 127, one killed by a signal with more.
func isAnswer(code int, out string) bool {
	return code < 126 && !crash.MatchString(out) &&
		(!strings.Contains("\n"+out, "\ntailscope: ") || strings.Contains(out, "\ntailscope: scaling is not fitted: "))
}

// crash is what the runtime of Go writes at the end of a program that panics.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+ )`)

func TestIsAnswer(t *testing.T) {
	for out, want := range map[string]bool{
		"3 checks are CRITICAL\n":                                        true,
		"x\ntailscope: scaling is not fitted: no request was seen\n":     true,
		"a table\ntailscope: the server does not answer\n":               false,
		"panic: index out of range [-1]\n\ngoroutine 1 [running]:\n":     false,
		"a table\nfatal error: out of memory\n\nruntime stack:\n":        false,
		"a table\ngoroutine 7 [running]:\ntailscope/stat.NewSeries(...)": false,
	} {
		if got := isAnswer(1, out); got != want {
			t.Errorf("exit code 1 after %q: got %v, want %v", out, got, want)
		}
	}
	if isAnswer(127, "sh: tailscop: not found\n") {
		t.Error("a program that was not found is an answer")
	}
}

// until runs a line, and interrupts it once it has done enough. An exit code that says what was
// found is not an error, unlike one with a message; nor is the end of one that was interrupted.
func (x *exampleRun) until(t *testing.T, dir, line string, most time.Duration, enough func(out string) bool) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), max(most, time.Minute))
	defer stop()
	cmd := x.command(ctx, dir, line)
	name := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	said := func() string {
		b, _ := os.ReadFile(name)
		return string(b)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for interrupted := false; ; {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) && !crash.MatchString(said()) {
				// A shell that is interrupted ends by the signal, once what it runs has ended.
				if interrupted && (exit.Exited() || exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT) ||
					exit.Exited() && isAnswer(exit.ExitCode(), said()) {
					err = nil
				}
			}
			if most == 0 && !interrupted {
				err = errors.Join(err, errors.New("it ended by itself"))
			}
			return said(), err
		case <-tick.C:
			if most == 0 && !interrupted && enough(said()) {
				interrupted = true
				_ = cmd.Cancel()
			}
		}
	}
}

// endless are the commands that run until they are interrupted.
var endless = regexp.MustCompile(`^tailscope (serve|agent|mirror --|capacity mirror)`)

func (x *exampleRun) run(t *testing.T, line string) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(x.files)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "access.log"), []byte(accessLog(x.begun.Add(1))), 0o644); err != nil {
		t.Fatal(err)
	}
	line = x.named.Replace(line)
	most := 2 * time.Minute
	if endless.MatchString(line) {
		most = 0
	}
	for tries := 0; ; tries++ {
		begin := time.Now()
		out, err := x.until(t, dir, line, most, func(string) bool { return time.Since(begin) > 3*time.Second })
		switch {
		case err == nil:
			return
		case tries < 5 && strings.Contains(out, "ask again in "): // as a busy server says
			time.Sleep(10 * time.Second)
		default:
			t.Fatalf("%s\n%v after %s\n%s", line, err, time.Since(begin).Round(time.Second), out)
		}
	}
}

// helpExamples returns the examples of the help of every command.
func (x *exampleRun) helpExamples(t *testing.T) (lines []string) {
	t.Helper()
	var of func(args ...string)
	of = func(args ...string) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(x.bin, "tailscope"), append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("tailscope %s --help: %v", strings.Join(args, " "), err)
		}
		lines = append(lines, commandLines(section(string(out), "Examples:"))...)
		for line := range strings.Lines(section(string(out), "Available Commands:")) {
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
				of(append(slices.Clone(args), name)...)
			}
		}
	}
	of()
	return lines
}

// section returns the lines below a heading of a help, up to an empty one.
func section(help, heading string) string {
	_, rest, _ := strings.Cut(help, "\n"+heading+"\n")
	text, _, _ := strings.Cut(rest, "\n\n")
	return strings.Trim(text, "\n")
}

// readmeExamples returns the command lines in blocks of README, but for the demo, beside which all
// run, and for the scenario of docs/examples, which takes long.
func readmeExamples(t *testing.T) (lines []string) {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(text), "\n```") {
		if i%2 == 0 {
			continue
		}
		for _, line := range commandLines(block) {
			if line != "./tailscope demo" && !strings.Contains(line, "docs/examples/") {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

var commandLine = regexp.MustCompile(`^(\./|bin/)?tailscope |^zcat `)

// commandLines returns the lines of a text that call the program, each with what goes on below it.
func commandLines(text string) (lines []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "$ "); commandLine.MatchString(line) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}
