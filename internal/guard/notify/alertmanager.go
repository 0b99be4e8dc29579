package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"tailscope/internal/figure"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// alertBatch is the most alerts of one post.
const alertBatch = 64

// alertmanager posts alerts to Alertmanager's API v2. An alert is named by its
// labels, so nothing that changes is among them: severity and value are
// annotations. Alertmanager resolves an alert that is not posted again, and loses all
// of them when it is killed. So firing alerts, and those resolved in the last quarter
// of an hour, are posted again and again, as Prometheus does.
// https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
type alertmanager struct {
	spec   spec.Alertmanager
	client *http.Client
	now    func() time.Time
}

func newAlertmanager(s spec.Alertmanager, now func() time.Time) (*alertmanager, error) {
	if !strings.HasPrefix(s.URL, "https://") && !strings.HasPrefix(s.URL, "http://") {
		return nil, fmt.Errorf("alertmanager: url: write http://host:9093")
	}
	if s.Resend <= 0 {
		s.Resend = time.Minute
	}
	client, err := newClient(1, "", false)
	if err != nil {
		return nil, err
	}
	s.URL = strings.TrimSuffix(s.URL, "/")
	return &alertmanager{spec: s, client: client, now: now}, nil
}

func (a *alertmanager) capabilities() capabilities {
	return capabilities{kind: "alertmanager", to: origin(a.spec.URL), events: true, batch: alertBatch, resend: a.spec.Resend}
}

func (a *alertmanager) close() { a.client.CloseIdleConnections() }

func (a *alertmanager) send(ctx context.Context, messages []message, report func(int, error)) error {
	alerts := make([]alert, len(messages))
	for i, m := range messages {
		alerts[i] = a.newAlert(m.event, m.event.Kind == event.Resolved)
	}
	err := a.post(ctx, alerts)
	if refused(err) && len(messages) > 1 {
		// Which of them? It takes those that are well, and takes them twice.
		for i := range messages {
			err := a.post(ctx, alerts[i:i+1])
			if err != nil && !refused(err) {
				return err
			}
			report(i, err)
		}
		return nil
	}
	if err != nil && !refused(err) {
		return err
	}
	for i := range messages {
		report(i, err)
	}
	return nil
}

func (a *alertmanager) resend(ctx context.Context, known []incident) error {
	// One check has one alert: an incident that is over must not end the next.
	latest := map[string]int{}
	for i := range known {
		id := known[i].Event.Key.ID()
		if k, ok := latest[id]; !ok || !known[i].Event.Opened.Before(known[k].Event.Opened) {
			latest[id] = i
		}
	}
	known = pick(known, latest)
	alerts := make([]alert, 0, alertBatch)
	for i := range known {
		alerts = append(alerts, a.newAlert(&known[i].Event, !known[i].Done.IsZero()))
		if len(alerts) < alertBatch && i < len(known)-1 {
			continue
		}
		if err := a.post(ctx, alerts); err != nil {
			return err
		}
		alerts = alerts[:0]
	}
	return nil
}

// pick returns the elements of known whose indexes are values of chosen, in order.
func pick(known []incident, chosen map[string]int) []incident {
	places := slices.Sorted(maps.Values(chosen))
	list := make([]incident, len(places))
	for i, k := range places {
		list[i] = known[k]
	}
	return list
}

func (a *alertmanager) post(ctx context.Context, alerts []alert) error {
	password, err := readSecret("password", a.spec.Password)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	secrets := []string{password}
	if a.spec.User != "" {
		basic := basicAuth(a.spec.User, password)
		header["Authorization"] = []string{"Basic " + basic}
		secrets = append(secrets, basic)
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return refusal{err}
	}
	_, err = post(ctx, a.client, a.spec.URL+"/api/v2/alerts", header, body, secrets...)
	return err
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	Generator   string            `json:"generatorURL,omitempty"`
}

// newAlert returns an event's incident as an alert. A firing alert ends by itself
// when it could not be posted four times in a row, as in Prometheus.
func (a *alertmanager) newAlert(e *event.Event, resolved bool) alert {
	al := alert{
		Labels:      map[string]string{},
		Annotations: map[string]string{},
		StartsAt:    e.Opened.UTC(),
		EndsAt:      a.now().Add(4 * a.spec.Resend).UTC(),
	}
	if resolved {
		al.EndsAt = e.Time.UTC()
	}
	for name, v := range e.Labels {
		if v != "" {
			al.Labels[labelName(name)] = v
		}
	}
	for _, l := range seriesLabels(e.Key) {
		if l.value != "" {
			al.Labels[labelName(l.name)] = l.value
		}
	}
	al.Labels["alertname"] = e.Key.Check
	if strings.HasPrefix(e.Link, "http") {
		al.Generator = e.Link
	}
	note := func(name, v string) {
		if v != "" {
			al.Annotations[name] = v
		}
	}
	note("summary", e.Text)
	note("severity", strings.ToLower(e.To.String()))
	note("incident", e.Incident)
	note("rule", e.Bands.Rule)
	note("acknowledged_by", e.User)
	note("comment", e.Comment)
	if finite(e.Value) {
		note("value", figure.Quantity(e.Value, e.Unit))
	}
	for _, n := range bandNames(e.Bands) {
		note(n.name, figure.Quantity(n.value, e.Unit))
	}
	return al
}

// labelName returns a name that every Alertmanager accepts.
func labelName(s string) string {
	s = strings.ReplaceAll(graphiteName(s), "-", "_")
	if s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return s
}
