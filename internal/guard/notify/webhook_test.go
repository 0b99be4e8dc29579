package notify

import (
	"net/http/httptest"
	"strings"
	"testing"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// An address that is a secret is used, and shown nowhere.
func TestWebhookSecretAddress(t *testing.T) {
	h := &hooks{}
	server := httptest.NewServer(h)
	t.Setenv("HOOK_URL", server.URL+"/services/hunter2")
	w := mustWebhook(t, spec.Webhook{URL: spec.Text{Secret: &spec.Secret{Env: "HOOK_URL"}}})
	e := eventMessage(someEvent("i", 1, event.Opened, event.OK, event.Critical, t0))
	if outcome, err := deliver(t, w, e); err != nil || len(outcome) != 1 {
		t.Fatal(outcome, err)
	}
	if bodies, _ := h.got(); len(bodies) != 1 {
		t.Errorf("it heard %q", bodies)
	}
	server.Close()
	if _, err := deliver(t, w, e); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	if to := w.capabilities().to; to != "an address from $HOOK_URL" {
		t.Errorf("it is shown as %q", to)
	}
	t.Setenv("HOOK_URL", "")
	if _, err := deliver(t, w, e); err == nil || !strings.Contains(err.Error(), "url") {
		t.Errorf("without an address: %v", err)
	}
}
