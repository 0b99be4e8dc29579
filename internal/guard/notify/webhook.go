package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Headers of webhook requests. The signature is "sha256=" and the HMAC-SHA256 in
// hexadecimal of the timestamp (Unix seconds, as in its header), a dot and the body.
const (
	HeaderKey       = "Idempotency-Key" // incident/seq: the same whenever the event is sent again
	HeaderTimestamp = "X-Tailscope-Timestamp"
	HeaderSignature = "X-Tailscope-Signature"
)

type webhook struct {
	spec     spec.Webhook
	client   *http.Client
	template *template.Template
	now      func() time.Time
}

func newWebhook(s spec.Webhook, now func() time.Time) (*webhook, error) {
	if s.URL.Secret == nil && !strings.HasPrefix(s.URL.Plain, "https://") && !strings.HasPrefix(s.URL.Plain, "http://") {
		return nil, fmt.Errorf("webhook: url: write an address that begins with https://")
	}
	client, err := newClient(1, "", false)
	if err != nil {
		return nil, err
	}
	w := &webhook{spec: s, client: client, now: now}
	if s.Template != "" {
		if w.template, err = parseTemplate("template", s.Template); err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
	}
	return w, nil
}

func (w *webhook) capabilities() capabilities {
	to := origin(w.spec.URL.Plain)
	if s := w.spec.URL.Secret; s != nil {
		to = "an address " + s.String()
	}
	return capabilities{kind: "webhook", to: to, events: true, batch: 16}
}

func (w *webhook) close() { w.client.CloseIdleConnections() }

func (w *webhook) send(ctx context.Context, messages []message, report func(int, error)) error {
	header := http.Header{"Content-Type": {"application/json"}}
	var secrets []string
	for _, name := range slices.Sorted(maps.Keys(w.spec.Headers)) {
		v, err := readText("header "+name, w.spec.Headers[name], &secrets)
		if err != nil {
			return err
		}
		header.Set(name, v)
	}
	key, err := readSecret("secret", w.spec.Secret)
	if err != nil {
		return err
	}
	secrets = append(secrets, key)
	to, err := readText("url", w.spec.URL, &secrets)
	if err != nil {
		return err
	}
	for i, m := range messages {
		body, err := w.body(m.event)
		if err != nil {
			report(i, refusal{err})
			continue
		}
		at := strconv.FormatInt(w.now().Unix(), 10)
		header.Set(HeaderKey, clean(m.event.Incident, "")+"/"+strconv.Itoa(m.event.Seq))
		header.Set(HeaderTimestamp, at)
		if key != "" {
			header.Set(HeaderSignature, Sign(key, at, body))
		}
		_, err = post(ctx, w.client, to, header, body, secrets...)
		if err != nil && !refused(err) {
			return err
		}
		report(i, err)
	}
	return nil
}

func (w *webhook) body(e *event.Event) ([]byte, error) {
	if w.template == nil {
		return json.Marshal(newWireEvent(e))
	}
	text, err := execute(w.template, e)
	return []byte(text), err
}

// Sign returns the signature of a body posted at a time. A receiver computes it too,
// compares in constant time, and rejects times that are minutes off.
func Sign(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
