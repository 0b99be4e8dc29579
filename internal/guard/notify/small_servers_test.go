//go:build servers

package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// small starts a small receiver in a process of its own.
func small(t *testing.T, dir, what, address, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "/usr/bin/env", "NOTIFY_TEST_RECEIVER="+what, "NOTIFY_TEST_ADDRESS="+address, "NOTIFY_TEST_FILE="+path, exe)
	listening(t, address)
	return p
}

// A receiver of webhooks is killed in the middle, and so, as it were, are we.
func TestWebhookProcess(t *testing.T) {
	dir := t.TempDir()
	got, address := filepath.Join(dir, "got"), freePort(t)
	hook := small(t, dir, "webhook", address, got)
	spool := t.TempDir()
	r := spec.Receiver{Webhook: &spec.Webhook{URL: spec.Text{Plain: "http://" + address + "/hook"}, Template: `{{.Kind}} number {{.Seq}}`}}
	n := open(t, spool, r)
	seq := 0
	sendResults := func(count int) {
		t.Helper()
		for range count {
			seq++
			if err := n.Events(t.Context(), []string{"r"}, []event.Event{someEvent("i-1", seq, event.Changed, event.Warning, event.Critical, time.Now())}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sendResults(100)
	eventually(t, "some", func() bool { return len(lines(got, "number ")) >= 50 })
	sendResults(100)
	hook.kill()
	sendResults(100)
	crashed := copyDir(t, spool)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = open(t, crashed, r)
	small(t, dir, "webhook", address, got)
	sendResults(10)
	eventually(t, "an empty spool", func() bool { return n.States()[0].Spooled == 0 })
	list := lines(got, "number ")
	inOrder(t, firsts(t, list, "number "), seq)
	if want := fmt.Sprintf("i-1/%d changed number %d", seq, seq); list[len(list)-1] != want {
		t.Errorf("last is %q, want %q", list[len(list)-1], want)
	}
}

// One that speaks Carbon's lines is killed and restarted.
func TestGraphiteProcess(t *testing.T) {
	dir := t.TempDir()
	got, address := filepath.Join(dir, "got"), freePort(t)
	carbon := small(t, dir, "lines", address, got)
	n := open(t, t.TempDir(), spec.Receiver{Graphite: &spec.Graphite{Address: address, Prefix: "test"}})
	sent := 0
	send := func(count int) {
		for range count {
			n.Results([]string{"r"}, []event.Result{someResult("orders", sent, time.Unix(int64(1000+sent), 0))})
			sent++
		}
	}
	const value = "test.orders.GET__a.shop.value "
	send(500)
	eventually(t, "500 values", func() bool { return len(lines(got, value)) >= 500 })
	send(100)
	carbon.kill()
	send(400)
	eventually(t, "a receiver that waits", func() bool { return n.States()[0].State == "waiting" })
	small(t, dir, "lines", address, got)
	eventually(t, "an empty spool", func() bool { return n.States()[0].Spooled == 0 })
	list := lines(got, value)
	inOrder(t, firsts(t, list, value), sent)
	if want := fmt.Sprintf("%s%d %d", value, sent-1, 1000+sent-1); list[len(list)-1] != want {
		t.Errorf("last is %q, want %q", list[len(list)-1], want)
	}
	for _, name := range []string{"threshold 100", "warning 110", "critical 130", "state 0"} {
		if k := len(lines(got, strings.TrimSuffix(value, "value ")+name+" ")); k < sent {
			t.Errorf("%d lines of %s, want %d", k, name, sent)
		}
	}
}

// A process that is stopped takes connections and says nothing: the others are
// sent all the same, and it is once it goes on.
func TestHangingProcess(t *testing.T) {
	dir := t.TempDir()
	got, well, address, other := filepath.Join(dir, "got"), filepath.Join(dir, "well"), freePort(t), freePort(t)
	hook := small(t, dir, "webhook", address, got)
	small(t, dir, "webhook", other, well)
	n := open(t, t.TempDir(), spec.Receiver{Webhook: &spec.Webhook{URL: spec.Text{Plain: "http://" + address}}, Timeout: 500 * time.Millisecond})
	if err := n.Replace(map[string]spec.Receiver{
		"r":    {Webhook: &spec.Webhook{URL: spec.Text{Plain: "http://" + address}}, Timeout: 500 * time.Millisecond},
		"well": {Webhook: &spec.Webhook{URL: spec.Text{Plain: "http://" + other}}},
	}); err != nil {
		t.Fatal(err)
	}
	hook.signal(syscall.SIGSTOP)
	begun := time.Now()
	for i := range 20 {
		if err := n.Events(t.Context(), []string{"r", "well"}, []event.Event{someEvent("i", i+1, event.Changed, event.OK, event.Critical, time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "20 events at the one that is well", func() bool { return len(lines(well, "i/")) == 20 })
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("a receiver that hangs held up another for %v", took)
	}
	eventually(t, "a receiver that waits", func() bool {
		s := n.States()[0]
		return s.State == "waiting" && strings.Contains(s.Error, "no answer within 500ms")
	})
	hook.signal(syscall.SIGCONT)
	eventually(t, "an empty spool", func() bool { return n.States()[0].Spooled == 0 })
	inOrder(t, firsts(t, lines(got, "i/"), "i/"), 20)
}
