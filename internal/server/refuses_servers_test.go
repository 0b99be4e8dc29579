//go:build servers

package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
)

// A store that refuses everything: what arrives is accepted and waits, the
// traces are given up after ten tries, and the server says both. The next start
// counts what waited.
func TestStoreThatRefuses(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Flush, cfg.Traces.Grace = time.Second, time.Second
	s, err := Start(t.Context(), Settings{Config: cfg, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	exporter, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(s.OTLPGRPC()), otlptracegrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	load := send(t, sdk(t, exporter), 500, 3)
	var body string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var code int
		if code, body = get(t, "http://"+s.Addr()+"/readyz"); code != http.StatusOK {
			t.Fatalf("/readyz answers %d %q", code, body)
		}
		if strings.Contains(body, "\nnot_stored: ") && strings.Contains(body, "\ntraces: ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute /readyz answers %q", body)
		}
	}
	if !strings.HasPrefix(body, "degraded\n") || !strings.Contains(body, "Nothing new is stored: ") || !strings.Contains(body, "Lost since the start: ") {
		t.Errorf("/readyz answers %q", body)
	}
	for _, code := range []string{problemNotStored, problemTraces} {
		if n := metric(t, s, `tailscope_problems{code="`+code+`"}`); n != 1 {
			t.Errorf("%v problems %s in the metrics, want 1", n, code)
		}
	}
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "store generation 1: ") {
		t.Errorf("closing says %v, want what is not stored", err)
	}
	holds(t, start(t, cfg), load)
}
