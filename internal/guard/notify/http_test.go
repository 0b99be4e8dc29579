package notify

import (
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

func mustWebhook(t *testing.T, s spec.Webhook) *webhook {
	t.Helper()
	w, err := newWebhook(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	return w
}

// deliver sends messages, and returns the outcome of each.
func deliver(t *testing.T, s sender, messages ...message) (map[int]error, error) {
	t.Helper()
	outcome := map[int]error{}
	err := s.send(t.Context(), messages, func(i int, err error) { outcome[i] = err })
	return outcome, err
}

func eventMessage(e event.Event) message { return message{seq: 1, at: t0, event: &e} }

func TestWebhook(t *testing.T) {
	h := &hooks{}
	server := httptest.NewServer(h)
	defer server.Close()
	t.Setenv("HOOK_SECRET", "k3y")
	t.Setenv("HOOK_TOKEN", "Bearer t0ken")
	w := mustWebhook(t, spec.Webhook{
		URL:     spec.Text{Plain: server.URL + "/path?x=1"},
		Headers: map[string]spec.Text{"X-Team": {Plain: "blue"}, "Authorization": {Secret: &spec.Secret{Env: "HOOK_TOKEN"}}}, Secret: &spec.Secret{Env: "HOOK_SECRET"},
	})
	w.now = func() time.Time { return time.Unix(1700000000, 0) }
	outcome, err := deliver(t, w, eventMessage(someEvent("i-1", 1, event.Opened, event.OK, event.Critical, t0)), eventMessage(someEvent("i-1", 2, event.Resolved, event.Critical, event.OK, t0)))
	if err != nil || len(outcome) != 2 || outcome[0] != nil {
		t.Fatal(outcome, err)
	}
	bodies, headers := h.got()
	for i, want := range []string{"i-1/1", "i-1/2"} {
		if got := headers[i].Get("Idempotency-Key"); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
		if headers[i].Get("Authorization") != "Bearer t0ken" || headers[i].Get("X-Team") != "blue" || headers[i].Get("X-Tailscope-Timestamp") != "1700000000" {
			t.Errorf("headers %v", headers[i])
		}
		if want := Sign("k3y", "1700000000", []byte(bodies[i])); !hmac.Equal([]byte(headers[i].Get("X-Tailscope-Signature")), []byte(want)) {
			t.Errorf("signature %q, want %q", headers[i].Get("X-Tailscope-Signature"), want)
		}
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"incident": "i-1", "seq": 1.0, "kind": "opened", "id": `orders{service="shop"}`, "to": "CRITICAL", "from": "OK", "value": 131.5, "time": "2000-01-01T00:00:00Z"} {
		if body[name] != want {
			t.Errorf("%s: got %v, want %v", name, body[name], want)
		}
	}
	if bands := body["thresholds"].(map[string]any); bands["high_warning"] != 110.0 || bands["low_warning"] != nil {
		t.Errorf("thresholds %v", bands)
	}
}

// The signature by another implementation:
// printf '1700000000.{}' | openssl dgst -sha256 -hmac k3y
func TestSign(t *testing.T) {
	if got, want := Sign("k3y", "1700000000", []byte("{}")), "sha256=e2974d0d973957aed8182a7f1ef5690a188566c2c4620fc16bd97d7febcf5ef3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWebhookTemplate(t *testing.T) {
	h := &hooks{}
	server := httptest.NewServer(h)
	defer server.Close()
	w := mustWebhook(t, spec.Webhook{URL: spec.Text{Plain: server.URL}, Template: `{"text": {{json .Text}}, "colour": "{{if eq .To "CRITICAL"}}red{{end}}", "team": {{json .Labels.team}}, "t": "{{.Threshold}} {{.Warning}} {{.Critical}}"}`})
	e := someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)
	e.Text = `say "hi"`
	if _, err := deliver(t, w, eventMessage(e)); err != nil {
		t.Fatal(err)
	}
	bodies, _ := h.got()
	if want := `{"text": "say \"hi\"", "colour": "red", "team": "blue", "t": "100 110 130"}`; bodies[0] != want {
		t.Errorf("got %s, want %s", bodies[0], want)
	}
	for _, bad := range []string{"{{.Nope}}", "{{", "{{nope .Text}}"} {
		if _, err := newWebhook(spec.Webhook{URL: spec.Text{Plain: server.URL}, Template: bad}, time.Now); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// What an answer means, and that none of it repeats a secret.
func TestAnswers(t *testing.T) {
	t.Setenv("HOOK_TOKEN", "Bearer t0ken")
	for _, c := range []struct {
		status  int
		refused bool
		alive   bool
	}{
		{200, false, false}, {204, false, false},
		{301, true, false}, {400, true, false}, {403, true, false}, {404, true, false}, {410, true, false}, {422, true, false},
		{401, false, false}, {407, false, false}, {408, false, false}, {425, false, false}, {429, false, false},
		{500, false, true}, {501, false, true}, {502, false, false}, {503, false, false}, {504, false, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			fmt.Fprintf(w, "I know %s\n", r.Header.Get("Authorization"))
		}))
		w := mustWebhook(t, spec.Webhook{URL: spec.Text{Plain: server.URL + "/s3cretpath?token=hidden"}, Headers: map[string]spec.Text{"Authorization": {Secret: &spec.Secret{Env: "HOOK_TOKEN"}}}})
		outcome, err := deliver(t, w, eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)))
		server.Close()
		if c.refused != refused(outcome[0]) || c.refused && err != nil {
			t.Errorf("%d: settled %v, %v", c.status, outcome, err)
		}
		if ok := c.status/100 == 2 || c.refused; ok != (len(outcome) == 1) || ok != (err == nil) {
			t.Errorf("%d: settled %v, %v", c.status, outcome, err)
		}
		if blamesMessage(err) != c.alive {
			t.Errorf("%d: alive %v", c.status, !c.alive)
		}
		if c.status == 503 && retryAfter(err) != 7*time.Second {
			t.Errorf("%d: after %v", c.status, retryAfter(err))
		}
		if text := fmt.Sprint(outcome, err); strings.Contains(text, "t0ken") || strings.Contains(text, "s3cret") || strings.Contains(text, "hidden") {
			t.Errorf("%d: says a secret: %s", c.status, text)
		}
		// Nothing there at all.
		_, err = deliver(t, w, eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0)))
		if err == nil || refused(err) || blamesMessage(err) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("closed: %v", err)
		}
	}
}

func TestOrigin(t *testing.T) {
	for in, want := range map[string]string{
		"https://user:pw@hooks.example/services/T0/secret?x=y": "https://hooks.example/…",
		"http://127.0.0.1:9093":                                "http://127.0.0.1:9093",
		"https://icinga.example/":                              "https://icinga.example",
		"%%":                                                   "(not a URL)",
	} {
		if got := origin(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// Severity and value are not labels; alerts that differ in them alone are the same.
func TestAlertLabels(t *testing.T) {
	a, err := newAlertmanager(spec.Alertmanager{URL: "http://am.example"}, fixed)
	if err != nil {
		t.Fatal(err)
	}
	e := someEvent("i", 1, event.Opened, event.OK, event.Warning, t0)
	e.Labels = map[string]string{"service": "shop", "k8s.pod-name": "p", "9": "x", "empty": "", "severity": "page"}
	first := a.newAlert(&e, false)
	e.To, e.Value, e.Seq, e.Kind, e.User = event.Critical, 7, 2, event.Acknowledged, "me"
	second := a.newAlert(&e, true)
	if fmt.Sprint(first.Labels) != fmt.Sprint(second.Labels) {
		t.Errorf("%v and %v", first.Labels, second.Labels)
	}
	if want := "map[_9:x alertname:orders k8s_pod_name:p service:shop severity:page]"; fmt.Sprint(first.Labels) != want {
		t.Errorf("got %v, want %v", first.Labels, want)
	}
	if !first.EndsAt.Equal(t0.Add(4*time.Minute)) || !second.EndsAt.Equal(t0) || second.Annotations["acknowledged_by"] != "me" {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// Of a batch that is refused the bad one is found, and an incident that is over
// does not end the next one of its check.
func TestAlertBatches(t *testing.T) {
	h := &hooks{statuses: func(body string) int {
		if strings.Contains(body, "poison") {
			return 400
		}
		return 0
	}}
	server := httptest.NewServer(h)
	defer server.Close()
	a, err := newAlertmanager(spec.Alertmanager{URL: server.URL}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	bad := someEvent("b", 1, event.Opened, event.OK, event.Critical, t0)
	bad.Text = "poison"
	outcome, err := deliver(t, a, eventMessage(someEvent("a", 1, event.Opened, event.OK, event.Critical, t0)), eventMessage(bad), eventMessage(someEvent("c", 1, event.Opened, event.OK, event.Critical, t0)))
	if err != nil || len(outcome) != 3 || outcome[0] != nil || !refused(outcome[1]) || outcome[2] != nil {
		t.Errorf("%v, %v", outcome, err)
	}
	h.clear()
	over, now := someEvent("a", 2, event.Resolved, event.Critical, event.OK, t0), someEvent("z", 1, event.Opened, event.OK, event.Critical, t0.Add(time.Minute))
	if err := a.resend(t.Context(), []incident{{Event: over, Done: t0}, {Event: now}}); err != nil {
		t.Fatal(err)
	}
	if bodies, _ := h.got(); len(bodies) != 1 || strings.Count(bodies[0], "alertname") != 1 || !strings.Contains(bodies[0], `"incident":"z"`) {
		t.Errorf("%v", bodies)
	}
}

func TestIcingaAction(t *testing.T) {
	h := &hooks{statuses: func(body string) int {
		if strings.Contains(body, "unknown") {
			return 404
		}
		return 0
	}}
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	t.Setenv("ICINGA_PASSWORD", "s3cret")
	i, err := newIcinga(spec.Icinga{URL: server.URL + "/", User: "u", Password: &spec.Secret{Env: "ICINGA_PASSWORD"}, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer i.close()
	r := someResult("orders", 42, t0)
	r.Level, r.Reading.Took = event.Warning, 250*time.Millisecond
	unknown := someResult("unknown", 1, t0)
	var outcome [2]error
	if err := i.send(t.Context(), []message{{result: &r}, {result: &unknown}}, func(k int, err error) { outcome[k] = err }); err != nil || outcome[0] != nil || !refused(outcome[1]) {
		t.Fatal(err, outcome)
	}
	bodies, headers := h.got()
	want := `{"service":"shop!orders","exit_status":1,"plugin_output":"WARNING - 42 ms, threshold 100 ms by profile office: number 42","performance_data":["value=42ms;~:110;~:130","threshold=100ms","warning=110ms","critical=130ms"],"check_source":"tailscope","execution_start":946684800,"execution_end":946684800.25}`
	if got := strings.ReplaceAll(bodies[0], `\u003e`, ">"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := headers[0].Get("Authorization"); got != "Basic dTpzM2NyZXQ=" {
		t.Errorf("authorization %q", got)
	}
	// A certificate that nobody vouches for is a fault of the connection.
	i, err = newIcinga(spec.Icinga{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.send(t.Context(), []message{{result: &r}}, func(int, error) { t.Error("settled") }); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

func TestSecrets(t *testing.T) {
	for _, c := range []struct {
		s    *spec.Secret
		want string
	}{
		{&spec.Secret{Env: "NOTIFY_TEST_NOT_SET"}, "has no NOTIFY_TEST_NOT_SET"},
		{&spec.Secret{File: t.TempDir() + "/none"}, "no such file"},
		{&spec.Secret{File: "/dev/null"}, "is empty"},
	} {
		if _, err := readSecret("password", c.s); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "password: ") {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	err := redact(answer{error: errors.New("535 user secret, secret"), alive: true}, []string{"", "secret"})
	if err.Error() != "535 user ***, ***" || !blamesMessage(err) {
		t.Errorf("got %v", err)
	}
}
