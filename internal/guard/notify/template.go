package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"tailscope/internal/guard/check/event"
)

// templateData is the data of a template for an event.
type templateData struct {
	Incident, Kind, ID, Check, Host, Service string
	Seq                                      int
	Labels                                   map[string]string
	Time, Opened, Since                      time.Time
	From, To                                 string // OK, WARNING, CRITICAL, UNKNOWN
	Value, Unit                              string // Value is empty if there is none
	Threshold, Warning, Critical, Rule       string // empty if not set
	Text, User, Comment, Link                string
}

func newTemplateData(e *event.Event) templateData {
	d := templateData{
		Incident: e.Incident, Kind: string(e.Kind), ID: e.Key.ID(), Check: e.Key.Check, Host: e.Host, Service: e.Service,
		Seq: e.Seq, Labels: e.Labels, Time: e.Time.UTC(), Opened: e.Opened.UTC(), Since: e.Since.UTC(), From: e.From.String(), To: e.To.String(),
		Unit: e.Unit, Rule: e.Bands.Rule, Text: e.Text, User: e.User, Comment: e.Comment, Link: e.Link,
	}
	short := formatShort
	if e.Unit == "ratio" { // people read per cent
		d.Unit, short = "%", func(v float64) string { return formatShort(100 * v) }
	}
	if finite(e.Value) {
		d.Value = short(e.Value)
	}
	for _, n := range bandNames(e.Bands) {
		switch v := short(n.value); strings.TrimPrefix(strings.TrimPrefix(n.name, "low_"), "high_") {
		case "threshold":
			d.Threshold = v
		case "warning":
			d.Warning = beside(d.Warning, v)
		case "critical":
			d.Critical = beside(d.Critical, v)
		}
	}
	return d
}

// beside returns the bounds on either side.
func beside(low, high string) string {
	if low == "" {
		return high
	}
	return low + " … " + high
}

var templateFuncs = template.FuncMap{
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
	"upper": strings.ToUpper,
	"lower": strings.ToLower,
}

// parseTemplate also runs it once, so that a field which does not exist is found
// when definitions are read and not at night.
func parseTemplate(name, text string) (*template.Template, error) {
	t, err := template.New(name).Funcs(templateFuncs).Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, err
	}
	_, err = execute(withMethods(t), &event.Event{Kind: event.Opened, Labels: map[string]string{}, Value: nan, To: event.Critical})
	return t, err
}

// mostText bounds what a template may print.
const mostText = 1 << 20

func execute(t *template.Template, e *event.Event) (string, error) {
	var b bounded
	if err := t.Execute(&b, newTemplateData(e)); err != nil {
		return "", err
	}
	return b.String(), nil
}

type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostText {
		return 0, fmt.Errorf("it prints more than %d bytes", mostText)
	}
	return b.Builder.Write(p)
}
