//go:build servers

package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/test/program"
)

const file = `receivers:
  hook:
    webhook: {url: %q, secret: {env: TAILSCOPE_TEST_HOOK}}
  log:
    file: {path: %q}
checks:
  queue:
    every: 1s
    value: {http: {url: %q, json: length}}
    threshold: {must: "<", of: 100, warning: 10%%, critical: 50%%}
    soft: 2 of 2
    recover: 2 of 2
    receivers: [hook, log]
`

// world is what surrounds the server: a queue that reports its length, and a webhook
// that may be down.
type world struct {
	length atomic.Int64
	down   atomic.Bool

	mu     sync.Mutex
	events []event
}

type event struct {
	Incident string
	Seq      int
	Kind     string
	Check    string
	To       string
}

func (w *world) hook(rw http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	var e event
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil || w.down.Load() {
		http.Error(rw, "not now", http.StatusServiceUnavailable)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) heard() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// server is the program on a directory, and its client.
type server struct {
	*program.Tailscope
	api *client.Client
}

func start(t *testing.T, data, checks string) *server {
	t.Helper()
	p, err := program.StartTailscope(t.Context(), data, "--ingest-flush=200ms", "--checks="+checks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", p.Log())
		}
		p.Kill()
		<-p.Done()
	})
	return &server{p, &client.Client{Address: p.URL}}
}

func (s *server) kill() {
	s.Kill()
	<-s.Done()
}

// queue waits until the check is in a state, and returns it.
func (s *server) queue(t *testing.T, what string, is func(*api.Check) bool) *api.Check {
	t.Helper()
	var last string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); wait(t) {
		r, err := s.api.Check(t.Context(), api.CheckRequest{ID: "queue"})
		if err != nil {
			t.Fatal(err)
		}
		if is(&r.Check) {
			return &r.Check
		}
		last = fmt.Sprintf("%+v", r.Check)
	}
	t.Fatalf("the check never was %s: %s", what, last)
	return nil
}

// wait lets the server work; it has a clock of its own.
func wait(t *testing.T) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// TestKill kills the server in the middle of an incident, again and again: its state,
// the incident with its id, and its owner are there afterwards, and receivers are
// notified of each event at least once and in order, although the webhook is down
// when it happens.
func TestKill(t *testing.T) {
	t.Setenv("TAILSCOPE_TEST_HOOK", "signs")
	w := &world{}
	hook := httptest.NewServer(http.HandlerFunc(w.hook))
	defer hook.Close()
	source := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(rw, `{"length": %d}`, w.length.Load())
	}))
	defer source.Close()
	dir := t.TempDir()
	data, checks, log := filepath.Join(dir, "data"), filepath.Join(dir, "checks.yaml"), filepath.Join(dir, "events.json")
	if err := os.WriteFile(checks, fmt.Appendf(nil, file, hook.URL, log, source.URL), 0o600); err != nil {
		t.Fatal(err)
	}

	s := start(t, data, checks)
	s.queue(t, "OK", func(c *api.Check) bool { return c.State == "OK" })
	w.down.Store(true)
	w.length.Store(200)
	bad := s.queue(t, "CRITICAL", func(c *api.Check) bool { return c.State == "CRITICAL" })
	if bad.Incident == nil {
		t.Fatalf("no incident: %+v", bad)
	}
	id := bad.Incident.ID
	// A state that somebody was notified of is kept; one of less than a second may
	// not be.
	for deadline := time.Now().Add(20 * time.Second); ; wait(t) {
		if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), id) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file receiver was not told")
		}
	}
	s.kill()

	s = start(t, data, checks)
	again := s.queue(t, "known", func(*api.Check) bool { return true })
	if again.State != "CRITICAL" || again.Since != bad.Since || again.Incident == nil || again.Incident.ID != id {
		t.Errorf("before it was killed %+v\nafterwards %+v", bad, again)
	}
	if _, err := s.api.AcknowledgeCheck(t.Context(), "queue", api.Ack{User: "ada", Comment: "emptying it"}); err != nil {
		t.Fatal(err)
	}
	s.kill()
	w.down.Store(false)

	s = start(t, data, checks)
	acked := s.queue(t, "known", func(*api.Check) bool { return true })
	if acked.Incident == nil || acked.Incident.ID != id || acked.Incident.Acked == nil || acked.Incident.Acked.User != "ada" || !strings.Contains(acked.Quiet, "ada") {
		t.Errorf("the acknowledgement is gone: %+v", acked)
	}
	w.length.Store(1)
	s.queue(t, "OK", func(c *api.Check) bool { return c.State == "OK" && c.Incident == nil })

	want := []string{"1 opened CRITICAL", "2 acknowledged CRITICAL", "3 resolved OK"}
	var got []string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); wait(t) {
		if got = order(t, id, w.heard()); len(got) >= len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the webhook heard %q, want %q", got, want)
	}
	s.kill()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []event
	for line := range strings.Lines(string(text)) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, e)
	}
	if got := order(t, id, lines); !slices.Equal(got, want) {
		t.Errorf("the file has %q, want %q", got, want)
	}
}

// order returns what was heard, each event where it came first; events of another
// incident and those that come before an earlier one fail the test.
func order(t *testing.T, id string, events []event) []string {
	t.Helper()
	var out []string
	last := 0
	for _, e := range events {
		if e.Incident != id || e.Check != "queue" {
			t.Fatalf("an event of another incident: %+v", e)
		}
		switch {
		case e.Seq <= last: // once more
		case e.Seq == last+1:
			last = e.Seq
			out = append(out, fmt.Sprintf("%d %s %s", e.Seq, e.Kind, e.To))
		default:
			t.Fatalf("event %d came before event %d", e.Seq, last+1)
		}
	}
	return out
}

// TestReload changes the file under a running server: after a mistake the old checks
// go on and the mistake is reported; a right file takes their place and keeps states.
func TestReload(t *testing.T) {
	t.Setenv("TAILSCOPE_TEST_HOOK", "signs")
	w := &world{}
	hook := httptest.NewServer(http.HandlerFunc(w.hook))
	defer hook.Close()
	source := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, `{"length": 7}`) }))
	defer source.Close()
	dir := t.TempDir()
	name := filepath.Join(dir, "checks.yaml")
	text := fmt.Sprintf(file, hook.URL, filepath.Join(dir, "events.json"), source.URL)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	s := start(t, filepath.Join(dir, "data"), name)
	first := s.queue(t, "OK", func(c *api.Check) bool { return c.State == "OK" })

	list := func(what string, is func(*api.ChecksResponse) bool) *api.ChecksResponse {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; wait(t) {
			r, err := s.api.Checks(context.Background(), api.ChecksRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if is(r) {
				return r
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, r)
			}
		}
	}
	write(strings.Replace(text, "every: 1s", "evry: 1s", 1))
	hangUp(t, s)
	r := list("a problem", func(r *api.ChecksResponse) bool { return r.Problem != "" })
	if !strings.Contains(r.Problem, name+":8:5: unknown key evry in check queue: did you mean every?") || len(r.Checks) != 1 {
		t.Errorf("got %q and %d checks", r.Problem, len(r.Checks))
	}
	write(text + "  second:\n    after: queue\n    value: '{check=\"queue\"}[0] * 2'\n")
	hangUp(t, s)
	list("two checks", func(r *api.ChecksResponse) bool { return r.Problem == "" && len(r.Checks) == 2 })
	if c := s.queue(t, "known", func(*api.Check) bool { return true }); c.Since != first.Since {
		t.Errorf("the state begins at %v, before it did at %v", c.Since, first.Since)
	}
	for deadline := time.Now().Add(20 * time.Second); ; wait(t) {
		r, err := s.api.Check(t.Context(), api.CheckRequest{ID: "second"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Check.Value == 14 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the second check is %+v", r.Check)
		}
	}
}

// hangUp asks the server to read its files again.
func hangUp(t *testing.T, s *server) {
	t.Helper()
	if err := syscall.Kill(s.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}
