//go:build unix

package scenario

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/series"
)

// left returns the environments of processes that have the directory of logs in it.
func left(dir string) (out []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(b), "TAILSCOPE_RUN="+dir+"\x00") {
			out = append(out, name+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}

// nothingLeft says that no process of a stage is there any more.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, p := range left(dir) {
		t.Errorf("this is left: %s", p)
	}
}

func find(events []api.BenchEvent, kind, name string) *api.BenchEvent {
	for i := range events {
		if events[i].Kind == kind && events[i].Name == name {
			return &events[i]
		}
	}
	return nil
}

// sunk keeps points.
type sunk struct {
	mu     sync.Mutex
	points []series.Point
}

func (s *sunk) Put(_ context.Context, points []series.Point) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = append(s.points, points...)
	return nil
}

// Everything at once: set-up, a server with a child, data, phases, a pause, a
// restart, readings, tear-down.
func TestStage(t *testing.T) {
	port := freePort(t)
	name := file(t, port, `scenario: whole
target: http://127.0.0.1:@PORT
vars: {count: "500", greeting: hello}
setup: [{run: 'seq "$count" | sed "s/.*/{\"n\": &}/" > docs.jsonl'}]
teardown: [{run: echo gone > gone}]
servers:
  - name: web
    run: CHILD=1 @SELF
    ready: {http: "http://127.0.0.1:@PORT/", within: 10s}
    metrics:
      - {prometheus: "http://127.0.0.1:@PORT/metrics", families: [gc_pause_seconds_sum, heap_bytes]}
      - {json: "http://127.0.0.1:@PORT/stats", path: jvm.gc.pauses.0.ms, name: last_pause, unit: s, scale: 0.001}
load: [{name: documents, file: docs.jsonl, request: POST /docs, batch: 40, parallel: 3, check: {json: {errors: false}}}]
queries:
  - {name: home, request: GET /, check: {contains: ["{{greeting}}"]}}
phases: [{name: base, rate: 200, for: 1s}, {name: more, rate: 200..400, for: 1500ms}, {name: after, rate: 100, for: 1500ms}]
faults: [{at: 300ms, pause: web, for: 400ms}, {at: 1300ms, restart: web}, {at: 100ms, run: "echo on > fault", undo: "echo off > fault"}]
thresholds: ["p(50) < 10s"]
versions: {shell: echo version 7}
timeout: 5s
`)
	s := mustLoad(t, name)
	dir := t.TempDir()
	st, err := Open(t.Context(), s, Options{RunDir: dir, Note: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	defer nothingLeft(t, dir)
	defer st.Close(t.Context())
	if got := get(t, fmt.Sprintf("http://127.0.0.1:%d/count", port)); got != "500" {
		t.Errorf("%s documents were loaded", got)
	}
	sink := &sunk{}
	out, err := st.Measure(t.Context(), MeasureOptions{Variant: "a", Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	r := out.Result
	if l := r.Loads[0]; l.Documents != 500 || l.Batches != 13 || l.Errors != 0 || l.Latency.Count != 13 || l.Rate <= 0 {
		t.Errorf("%+v", l)
	}
	if len(r.Account.Checks) > 0 || r.Account.Due != 800 {
		t.Errorf("%d requests were due, checks %v", r.Account.Due, r.Account.Checks)
	}
	if !(float64(r.Latency.Max) > 0.39) || r.Environment.Versions["shell"] != "version 7" {
		t.Errorf("the longest of %v, versions %v", r.Latency.Max, r.Environment.Versions)
	}
	pause := find(r.Events, "fault", "pause web")
	if pause == nil || pause.Failed || !(pause.End-pause.Time >= 0.39) || !(pause.Time-r.Start >= 0.299) || !(pause.Time < r.End) {
		t.Errorf("the pause is %+v of a run from %v to %v", pause, r.Start, r.End)
	}
	if e := find(r.Events, "fault", "restart web"); e == nil || e.Failed || !(e.End > e.Time) {
		t.Errorf("the restart is %+v", e)
	}
	for _, kind := range []string{"command", "server", "load"} {
		if !slices.ContainsFunc(r.Events, func(e api.BenchEvent) bool { return e.Kind == kind && !e.Failed }) {
			t.Errorf("no event %s in %+v", kind, r.Events)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(s.Dir, "fault")); string(b) != "off\n" {
		t.Errorf("the fault was left %s", b)
	}
	by := map[string]api.BenchResource{}
	for _, x := range r.Resources {
		by[x.Name] = x
	}
	if c := by["cpu_cores"]; !(c.PerRequest > 0 && c.PerRequest < 0.1) || len(c.Values) == 0 {
		t.Errorf("cores %+v", c)
	}
	if m := by["resident_bytes"]; !(m.Max > 1e6) || !math.IsNaN(float64(m.PerRequest)) {
		t.Errorf("memory %+v", m)
	}
	if g := by["gc_pause_seconds_sum"]; !(g.PerRequest > 0) || g.Unit != "seconds/s" {
		t.Errorf("pauses %+v", g)
	}
	if by["last_pause"].Max != 0.25 || by["heap_bytes"].Max != 5e6 || !(by["threads"].Max > 2) || !(by["open_files"].Max > 2) {
		t.Errorf("%+v", by)
	}
	families := map[string]bool{}
	for _, p := range sink.points {
		families[p.Family] = true
		if strings.HasPrefix(p.Family, "bench_process") && (p.Labels.Get("process") != "web" || p.Labels.Get("service") != "whole" || p.Labels.Get("variant") != "a") {
			t.Errorf("labels %v", p.Labels)
		}
	}
	if !families[FamilyResident] || !families[FamilyCPU] || !families[session.FamilyDuration] {
		t.Errorf("families %v", families)
	}
	if err := st.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.Dir, "gone")); string(b) != "gone\n" {
		t.Error("the tear-down did not run")
	}
}

func get(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const small = `scenario: small
target: http://127.0.0.1:@PORT
queries: [{name: home, request: GET /}]
phases: [{rate: 100, for: 300ms}]
`

// What goes wrong is said, and nothing is left.
func TestOpenFails(t *testing.T) {
	for _, tc := range []struct{ name, more, want string }{
		{"set-up", "setup: [{run: 'echo one; echo two >&2; exit 4'}]\nteardown: [{run: touch torn}]", "set-up: echo ended with code 4; it printed last:\n  | one\n  | two"},
		{"no program", "setup: [{run: [nothing-like-it]}]\nteardown: [{run: touch torn}]", "set-up: nothing-like-it does not start"},
		{"time", "setup: [{run: sleep 100, timeout: 200ms}]\nteardown: [{run: touch torn}]", "sleep was killed after its timeout of 200ms"},
		{"early end", "servers: [{name: web, run: DIE=1 @SELF, ready: {tcp: '127.0.0.1:@PORT'}}]\nteardown: [{run: touch torn}]", "server web ended with code 3 before it was ready; it printed last:\n  | out of luck"},
		{"not ready", "servers: [{name: web, run: '@SELF', ready: {log: never, within: 300ms}}]\nteardown: [{run: touch torn}]", "server web is not ready after 300ms: no line of its output matches never"},
		{"not ready, and stubborn", "servers: [{name: other, run: '@SELF', ready: {log: listening}}, {name: web, run: 'trap \"\" TERM; sleep 1000', grace: 200ms, ready: {http: 'http://127.0.0.1:@PORT/nothing', within: 1s}}]\nteardown: [{run: touch torn}]", "answers 404"},
		{"unreachable", "teardown: [{run: touch torn}]", "the target http://127.0.0.1:@PORT is not reached: dial tcp 127.0.0.1:@PORT: connect: connection refused (hint: start it, or let servers: do so)"},
		{"data", "servers: [{name: web, run: CHILD=1 @SELF, ready: {log: listening}}]\nload: [{name: docs, run: 'for i in 1 2 3; do echo 1; done; echo poison', format: lines, batch: 2, request: POST /docs}]\nteardown: [{run: touch torn}]", "data docs: batch 2 failed: the answer is 400 Bad Request: poisoned"},
		{"no data", "servers: [{name: web, run: '@SELF', ready: {log: listening}}]\nload: [{name: docs, run: 'true', request: POST /docs}]\nteardown: [{run: touch torn}]", "data docs: there are no documents in true"},
		{"bad data", "servers: [{name: web, run: '@SELF', ready: {log: listening}}]\nload: [{name: docs, run: 'echo 1; echo {', request: POST /docs}]\nteardown: [{run: touch torn}]", "data docs: echo:2: this line is not a JSON document"},
		{"generator fails", "servers: [{name: web, run: '@SELF', ready: {log: listening}}]\nload: [{name: docs, run: 'echo 1; echo sorry >&2; exit 9', request: POST /docs}]\nteardown: [{run: touch torn}]", "data docs: echo ended with code 9; it printed last:\n  | sorry"},
		{"nobody there", "servers: [{name: web, port: @PORT}]\nteardown: [{run: touch torn}]", "server web: nothing listens on port @PORT; start it first"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			s := mustLoad(t, file(t, port, small+tc.more))
			dir := t.TempDir()
			_, err := Open(t.Context(), s, Options{RunDir: dir})
			want := strings.ReplaceAll(tc.want, "@PORT", fmt.Sprint(port))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "torn")); err != nil {
				t.Error("the tear-down did not run")
			}
			nothingLeft(t, dir)
		})
	}
}

// An interrupt at any point takes everything down.
func TestInterrupt(t *testing.T) {
	stop := errors.New("interrupted")
	for _, tc := range []struct{ name, more, when string }{
		{"set-up", "setup: [{run: sleep 1000}]", "set-up"},
		{"waiting for a server", "servers: [{name: web, run: CHILD=1 @SELF, ready: {log: never}}]", "starting web"},
		{"loading", "servers: [{name: web, run: CHILD=1 @SELF, ready: {log: listening}}]\nload: [{name: docs, run: 'echo 1; sleep 1000', request: POST /docs, batch: 1}]", "loading docs"},
		{"warming up", "servers: [{name: web, run: CHILD=1 @SELF, ready: {log: listening}}]\nwarm_up: {at_least: 50s}", "warming up"},
		{"measuring", "servers: [{name: web, run: CHILD=1 @SELF, ready: {log: listening}}]\nfaults: [{at: 0s, pause: web, for: 100s}]", "fault: pause web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(small, "for: 300ms", "for: 60s", 1) + tc.more + "\nteardown: [{run: touch torn}]"
			s := mustLoad(t, file(t, freePort(t), text))
			dir := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			st, err := Open(ctx, s, Options{RunDir: dir, Note: func(line string) {
				if strings.HasPrefix(line, tc.when) {
					time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
				}
			}})
			if err == nil {
				var out *session.Outcome
				out, err = st.Measure(ctx, MeasureOptions{})
				if out != nil && strings.Contains(out.Result.Aborted, "interrupted") {
					err = stop
				}
				if e := st.Close(ctx); e != nil {
					t.Error(e)
				}
			}
			if !errors.Is(err, stop) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "torn")); err != nil {
				t.Error("the tear-down did not run")
			}
			nothingLeft(t, dir)
		})
	}
}

// A server that ends while it is measured ends the run, which says so.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("for: 300ms", "for: 20s", "GET /", "GET /die").Replace(small) + `servers: [{name: web, run: '@SELF', ready: {http: 'http://127.0.0.1:@PORT/'}}]`
	s := mustLoad(t, file(t, freePort(t), text))
	dir := t.TempDir()
	st, err := Open(t.Context(), s, Options{RunDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	out, err := st.Measure(t.Context(), MeasureOptions{})
	if err == nil || out == nil || !strings.Contains(err.Error(), "server web ended with code 9 while it was measured; it printed last:\n  | ") || !strings.Contains(out.Result.Aborted, "server web") {
		t.Errorf("got %v", err)
	}
	if err := st.Close(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, dir)
}

// Variables start anew what they stand in, and nothing else.
func TestApply(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	name := file(t, port, `scenario: vars
target: http://127.0.0.1:@PORT
vars: {memory: "1", size: "10"}
setup: [{run: 'echo "$memory" >> setup-{{size}}'}]
servers: [{name: web, run: 'MEMORY={{memory}} @SELF', ready: {log: listening}}]
load: [{name: docs, run: 'seq {{size}}', request: POST /docs, batch: 7}]
queries: [{name: home, request: GET /}]
phases: [{rate: 100, for: 200ms}]
`)
	st, err := Open(t.Context(), mustLoad(t, name), Options{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(t.Context())
	first := st.servers[0].running().pid
	count := func() string { return get(t, fmt.Sprintf("http://127.0.0.1:%d/count", port)) }
	if err := st.Apply(t.Context(), map[string]string{"size": "20"}); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != "30" || st.servers[0].running().pid != first {
		t.Errorf("there are %s documents", got)
	}
	if err := st.Apply(t.Context(), map[string]string{"memory": "2"}); err != nil {
		t.Fatal(err)
	}
	if st.servers[0].running().pid == first {
		t.Error("the server was not started anew")
	}
	err = st.Apply(t.Context(), map[string]string{"memry": "3"})
	if err == nil || !strings.Contains(err.Error(), "the scenario has no variable memry: did you mean memory?") {
		t.Error(err)
	}
	again, err := Open(t.Context(), st.s, Options{RunDir: t.TempDir()})
	if err == nil {
		again.Close(t.Context())
		t.Error("a second server of the same address was started")
	}
}

// Faults of one server come one after the other, and none undoes another.
func TestFaultsTakeTurns(t *testing.T) {
	t.Parallel()
	text := strings.Replace(small, "for: 300ms", "for: 1s", 1) + `servers: [{name: web, run: '@SELF', ready: {http: 'http://127.0.0.1:@PORT/'}}]
faults:
  - {name: one, at: 0s, pause: web, for: 200ms}
  - {name: two, at: 0s, restart: web}
  - {name: three, at: 0s, kill: web, for: 50ms}
  - {name: four, at: 0s, pause: web, for: 200ms}
  - {name: beside, at: 0s, run: 'true'}
`
	st, err := Open(t.Context(), mustLoad(t, file(t, freePort(t), text)), Options{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nothingLeft(t, st.Dir())
	defer st.Close(t.Context())
	out, err := st.Measure(t.Context(), MeasureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var faults []api.BenchEvent
	for _, e := range out.Result.Events {
		if e.Kind == "fault" && e.Name != "beside" {
			faults = append(faults, e)
		}
	}
	slices.SortFunc(faults, func(a, b api.BenchEvent) int { return cmp.Compare(a.Time, b.Time) })
	if len(faults) == 0 || find(out.Result.Events, "fault", "beside") == nil {
		t.Fatalf("events %+v", out.Result.Events)
	}
	for i, e := range faults {
		if e.Failed || i > 0 && e.Time < faults[i-1].End {
			t.Errorf("fault %+v after %+v", e, faults[max(i-1, 0)])
		}
	}
}

// The load begins when latency is steady, or when that took too long; none of the
// warm-up's requests are in the result.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	const server = `servers: [{name: web, run: '@SELF', ready: {http: 'http://127.0.0.1:@PORT/'}}]` + "\n"
	text := strings.NewReplacer("rate: 100", "rate: 400", "GET /", "GET /warming").Replace(small) + server + "warm_up: {at_least: 0s, at_most: 3s, steady: 50%}"
	st, err := Open(t.Context(), mustLoad(t, file(t, freePort(t), text)), Options{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(t.Context())
	out, err := st.Measure(t.Context(), MeasureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := out.Result
	if w := r.WarmUp; w == nil || w.Requests < 100 || w.Steady && w.Seconds > 10 || !strings.Contains(w.Why, "p50 drifts by") {
		t.Errorf("warm-up %+v", w)
	} else {
		t.Logf("%+v", *w)
	}
	if e := find(r.Events, "warm_up", "warm-up"); e == nil || !(e.End <= r.Start) || r.Account.Due != 120 {
		t.Errorf("%d requests were due from %v, after %+v", r.Account.Due, r.Start, e)
	}

	text = small + server + "warm_up: {at_least: 0s, at_most: 300ms, need: true}"
	st, err = Open(t.Context(), mustLoad(t, file(t, freePort(t), text)), Options{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(t.Context())
	if _, err := st.Measure(t.Context(), MeasureOptions{}); err == nil || !strings.Contains(err.Error(), "warm-up: not steady after 300ms: ") || !strings.Contains(err.Error(), "too few to judge") {
		t.Errorf("got %v", err)
	}
}

// A server that ends while it is warmed up is what the error is of.
func TestServerEndsWarmingUp(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("for: 300ms", "for: 20s", "GET /", "GET /die").Replace(small) + `servers: [{name: web, run: '@SELF', ready: {http: 'http://127.0.0.1:@PORT/'}}]
warm_up: {at_least: 50s}`
	st, err := Open(t.Context(), mustLoad(t, file(t, freePort(t), text)), Options{RunDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer nothingLeft(t, st.Dir())
	defer st.Close(t.Context())
	_, err = st.Measure(t.Context(), MeasureOptions{})
	if err == nil || !strings.Contains(err.Error(), "warm-up: server web ended with code 9 while it was warmed up; it printed last:\n  | ") {
		t.Errorf("got %v", err)
	}
}

// Servers are gone with the program even if it is killed itself.
func TestKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := file(t, freePort(t), small+`servers: [{name: web, run: 'CHILD=1 @SELF', ready: {http: 'http://127.0.0.1:@PORT/'}}]`)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helper+"=1", "STAGE="+name, "STAGE_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _ = cmd.Process.Kill(); line != "open\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = cmd.Wait() // it was killed
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if len(left(dir)) == 0 {
			return
		}
	}
	nothingLeft(t, dir)
}
