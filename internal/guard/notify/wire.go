package notify

import (
	"encoding/json"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
)

// wireEvent is an event in webhooks, files and spools. Fields are added, never
// renamed. Missing values are null.
type wireEvent struct {
	Incident   string            `json:"incident"`
	Seq        int               `json:"seq"`
	Kind       event.Kind        `json:"kind"`
	ID         string            `json:"id"`
	Check      string            `json:"check"`
	Series     string            `json:"series,omitempty"` // canonical labels of the key
	Labels     map[string]string `json:"labels"`
	Host       string            `json:"host"`
	Service    string            `json:"service"`
	Time       time.Time         `json:"time"`
	Opened     time.Time         `json:"opened"`
	Since      time.Time         `json:"since"`
	From       string            `json:"from"`
	To         string            `json:"to"`
	Value      api.Float         `json:"value"`
	Unit       string            `json:"unit"`
	Thresholds api.CheckBands    `json:"thresholds"`
	Text       string            `json:"text"`
	User       string            `json:"user,omitempty"`
	Comment    string            `json:"comment,omitempty"`
	Link       string            `json:"link,omitempty"`
}

func newWireEvent(e *event.Event) wireEvent {
	return wireEvent{
		Incident: e.Incident, Seq: e.Seq, Kind: e.Kind,
		ID: e.Key.ID(), Check: e.Key.Check, Series: e.Key.Labels, Labels: e.Labels, Host: e.Host, Service: e.Service,
		Time: e.Time.UTC(), Opened: e.Opened.UTC(), Since: e.Since.UTC(), From: e.From.String(), To: e.To.String(),
		Value: api.Float(e.Value), Unit: e.Unit, Thresholds: newWireBands(e.Bands),
		Text: e.Text, User: e.User, Comment: e.Comment, Link: e.Link,
	}
}

func (w *wireEvent) event() event.Event {
	return event.Event{
		Incident: w.Incident, Seq: w.Seq, Kind: w.Kind,
		Key: event.Key{Check: w.Check, Labels: w.Series}, Labels: w.Labels, Host: w.Host, Service: w.Service,
		Time: w.Time, Opened: w.Opened, Since: event.SinceOr(w.Since, w.Opened), From: parseLevel(w.From), To: parseLevel(w.To),
		Value: float64(w.Value), Unit: w.Unit, Bands: bandsOf(w.Thresholds),
		Text: w.Text, User: w.User, Comment: w.Comment, Link: w.Link,
	}
}

// wireResult is a result in files and spools.
type wireResult struct {
	ID         string         `json:"id"`
	Check      string         `json:"check"`
	Series     string         `json:"series,omitempty"`
	Host       string         `json:"host"`
	Service    string         `json:"service"`
	Time       time.Time      `json:"time"`
	Level      string         `json:"level"` // of this run
	State      string         `json:"state"` // hard
	Soft       bool           `json:"soft"`
	Value      api.Float      `json:"value"`
	Unit       string         `json:"unit"`
	Thresholds api.CheckBands `json:"thresholds"`
	Text       string         `json:"text"`
	Error      string         `json:"error,omitempty"`
	Took       float64        `json:"took"` // seconds
	Perf       []wirePerf     `json:"perf,omitempty"`
	Quiet      string         `json:"quiet,omitempty"`
}

type wirePerf struct {
	Label    string    `json:"label"`
	Value    api.Float `json:"value"`
	Unit     string    `json:"unit,omitempty"`
	Warning  api.Float `json:"warning"`
	Critical api.Float `json:"critical"`
	Low      api.Float `json:"low"`
	High     api.Float `json:"high"`
}

func newWireResult(r *event.Result) wireResult {
	w := wireResult{
		ID: r.Key.ID(), Check: r.Key.Check, Series: r.Key.Labels, Host: r.Host, Service: r.Service,
		Time: r.Time.UTC(), Level: r.Level.String(), State: r.State.String(), Soft: r.Soft,
		Value: nullable(r.Reading), Unit: r.Unit, Thresholds: newWireBands(r.Bands),
		Text: r.Reading.Text, Took: r.Reading.Took.Seconds(), Quiet: r.Quiet,
	}
	if r.Reading.Err != nil {
		w.Error = r.Reading.Err.Error()
	}
	for _, p := range r.Reading.Perf {
		w.Perf = append(w.Perf, wirePerf{
			Label: p.Label, Value: api.Float(p.Value), Unit: p.Unit,
			Warning: api.Float(p.Warning), Critical: api.Float(p.Critical), Low: api.Float(p.Low), High: api.Float(p.High),
		})
	}
	return w
}

func (w *wireResult) result() event.Result {
	r := event.Result{
		Key: event.Key{Check: w.Check, Labels: w.Series}, Host: w.Host, Service: w.Service,
		Time: w.Time, Level: parseLevel(w.Level), State: parseLevel(w.State), Soft: w.Soft,
		Bands: bandsOf(w.Thresholds), Unit: w.Unit, Quiet: w.Quiet,
	}
	r.Reading.Value, r.Reading.Text = float64(w.Value), w.Text
	r.Reading.Null = isNaN(r.Reading.Value)
	r.Reading.Took = time.Duration(w.Took * float64(time.Second))
	if w.Error != "" {
		r.Reading.Err = textError(w.Error)
	}
	for _, p := range w.Perf {
		r.Reading.Perf = append(r.Reading.Perf, event.Perf{
			Label: p.Label, Value: float64(p.Value), Unit: p.Unit,
			Warning: float64(p.Warning), Critical: float64(p.Critical), Low: float64(p.Low), High: float64(p.High),
		})
	}
	return r
}

// textError is an error of which only the text is known.
type textError string

func (s textError) Error() string { return string(s) }

func newWireBands(b event.Bands) api.CheckBands {
	return api.CheckBands{
		Threshold:   api.Float(b.Threshold),
		LowCritical: api.Float(b.LowCritical), LowWarning: api.Float(b.LowWarning),
		HighWarning: api.Float(b.HighWarning), HighCritical: api.Float(b.HighCritical), Rule: b.Rule,
	}
}

func bandsOf(w api.CheckBands) event.Bands {
	return event.Bands{
		Threshold:   float64(w.Threshold),
		LowCritical: float64(w.LowCritical), LowWarning: float64(w.LowWarning),
		HighWarning: float64(w.HighWarning), HighCritical: float64(w.HighCritical), Rule: w.Rule,
	}
}

// parseLevel returns the level named by Level.String, or UNKNOWN.
func parseLevel(word string) event.Level {
	for l := event.OK; l < event.Unknown; l++ {
		if l.String() == word {
			return l
		}
	}
	return event.Unknown
}

func nullable(r event.Reading) api.Float {
	if r.Null {
		return api.Float(nan)
	}
	return api.Float(r.Value)
}

func (i incident) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireIncident{newWireEvent(&i.Event), i.Done})
}

func (i *incident) UnmarshalJSON(b []byte) error {
	var w wireIncident
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	i.Event, i.Done = w.Event.event(), w.Done
	return nil
}

type wireIncident struct {
	Event wireEvent `json:"event"`
	Done  time.Time `json:"done"`
}
