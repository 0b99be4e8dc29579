//go:build servers

package notify

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

type amAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Generator   string            `json:"generatorURL"`
	Status      struct{ State string }
}

// amAlerts are the alerts that an Alertmanager takes for firing.
func amAlerts(t *testing.T, address string) []amAlert {
	t.Helper()
	res, err := http.Get("http://" + address + "/api/v2/alerts")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var list []amAlert
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestAlertmanager(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	dir := t.TempDir()
	hook := &hooks{}
	hookAddress := serveHooks(t, hook, freePort(t))
	write(t, dir+"/am.yml", fmt.Sprintf(`
route:
  receiver: hook
  group_by: [alertname]
  group_wait: 100ms
  group_interval: 200ms
receivers:
- name: hook
  webhook_configs:
  - url: http://%s/
    send_resolved: true
`, hookAddress))
	address := freePort(t)
	run := func() *process {
		p := start(t, dir, "prometheus-alertmanager", "--config.file="+dir+"/am.yml", "--storage.path="+filepath.Join(dir, "data"),
			"--web.listen-address="+address, "--cluster.listen-address=")
		listening(t, address)
		return p
	}
	am := run()
	spool := t.TempDir()
	r := spec.Receiver{Alertmanager: &spec.Alertmanager{URL: "http://" + address, Resend: time.Second}}
	n := open(t, spool, r)
	opened := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	sendEvents := func(n *Notifier, e event.Event) {
		t.Helper()
		e.Opened = opened
		if err := n.Events(t.Context(), []string{"r"}, []event.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	one := func(severity string) func() bool {
		return func() bool {
			list := amAlerts(t, address)
			return len(list) == 1 && list[0].Annotations["severity"] == severity
		}
	}
	sendEvents(n, someEvent("i1", 1, event.Opened, event.OK, event.Warning, opened))
	eventually(t, "firing alert", one("warning"))
	a := amAlerts(t, address)[0]
	if a.Labels["alertname"] != "orders" || a.Labels["service"] != "shop" || a.Labels["team"] != "blue" || len(a.Labels) != 3 {
		t.Errorf("labels %v", a.Labels)
	}
	if !a.StartsAt.Equal(opened) || a.Generator == "" || a.Annotations["value"] != "132 ms" || a.Annotations["threshold"] != "100 ms" || a.Annotations["incident"] != "i1" {
		t.Errorf("alert %+v", a)
	}
	// Another severity is the same alert.
	sendEvents(n, someEvent("i1", 2, event.Changed, event.Warning, event.Critical, time.Now()))
	eventually(t, "critical alert, and no other", one("critical"))

	// Killed, it loses its alerts; they are sent again.
	am.kill()
	am = run()
	eventually(t, "the alert, sent again after a kill", one("critical"))

	// Killed ourselves, as it were: what is open is known from disk.
	crashed := copyDir(t, spool)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	am.kill()
	am = run()
	n = open(t, crashed, r)
	eventually(t, "the alert after our restart", one("critical"))

	// Resolved while it is down.
	am.kill()
	sendEvents(n, someEvent("i1", 3, event.Resolved, event.Critical, event.OK, time.Now()))
	hook.clear()
	run()
	eventually(t, "delivery", func() bool { s := n.States()[0]; return s.Spooled == 0 && s.State == "idle" })
	eventually(t, "no alert", func() bool { return len(amAlerts(t, address)) == 0 })

	// And one that comes and goes: people are notified of both.
	opened = time.Now().Truncate(time.Millisecond)
	sendEvents(n, someEvent("i2", 1, event.Opened, event.OK, event.Critical, time.Now()))
	eventually(t, "firing to the hook", func() bool { return has(hook, `"status":"firing"`) })
	sendEvents(n, someEvent("i2", 2, event.Resolved, event.Critical, event.OK, time.Now()))
	eventually(t, "resolved to the hook", func() bool { return has(hook, `"status":"resolved"`) })
	if s := n.States()[0]; len(s.Dropped) != 0 {
		t.Errorf("%+v", s)
	}
}

// serveHooks has h listen at address until the test ends.
func serveHooks(t *testing.T, h *hooks, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

// has says whether one of the bodies that came contains a word.
func has(h *hooks, word string) bool {
	bodies, _ := h.got()
	return slices.ContainsFunc(bodies, func(b string) bool { return strings.Contains(b, word) })
}
