package check

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// kind of the records, by the first letter of their keys. They are of the server
// that runs the checks, and of no other: it alone writes them, so no write looks at
// revisions.
//
//	c id               a condition: its labels of Each and its machine
//	t id NUL time      a transition
//	i id               an incident, or one that was marked
//	o number           events that receivers have not been handed yet
//	m id               a maintenance window that was posted
//	p profile NUL id   a learned profile
//
// Changes and their events are stored by one write. Events are handed to the notifier
// after that, and deleted by the next write. So after a crash receivers get events again
// that they may not have got, and never one of an incident that is not stored.
const kind = "checks"

type conditionRecord struct {
	Check   string            `json:"check"`
	Each    map[string]string `json:"each,omitempty"`
	Seen    time.Time         `json:"seen,omitzero"`
	Machine state.Machine     `json:"machine"`
	// Receivers and Labels are those of the definition. The receivers are notified of
	// the end when it is gone.
	Receivers []string          `json:"receivers,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// transition is the beginning of a band of state.
type transition struct {
	At    time.Time   `json:"-"`
	State event.Level `json:"state"`
	Flaps bool        `json:"flaps,omitempty"`
	Gone  bool        `json:"gone,omitempty"` // the check was gone from here on
	Why   string      `json:"why,omitempty"`
}

const (
	mostTransitions = 400                 // of a check
	keepTransitions = 35 * 24 * time.Hour // and how long
	mostIncidents   = 10000
	keepIncidents   = 400 * 24 * time.Hour
	mostEvents      = 100 // of an incident: the first and the last
	mostWhy         = 300 // bytes
)

// incident is one as it is kept.
type incident struct{ api.Incident }

// pendingEvents are events that the notifier has not been handed yet.
type pendingEvents struct {
	number    uint64
	untold    bool      // waits for a story, see addStories
	Receivers []string  `json:"receivers"`
	Event     eventJSON `json:"event"`
}

func (o *pendingEvents) key() string { return fmt.Sprintf("o%016x", o.number) }

// eventJSON is an event.Event whose numbers may be null.
type eventJSON struct {
	Incident  string            `json:"incident"`
	Seq       int               `json:"seq"`
	Kind      event.Kind        `json:"kind"`
	Check     string            `json:"check"`
	KeyLabels string            `json:"key_labels,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Host      string            `json:"host"`
	Service   string            `json:"service"`
	Time      time.Time         `json:"time"`
	Opened    time.Time         `json:"opened"`
	From      event.Level       `json:"from"`
	To        event.Level       `json:"to"`
	Value     api.Float         `json:"value"`
	Bands     api.CheckBands    `json:"bands"`
	Unit      string            `json:"unit,omitempty"`
	Text      string            `json:"text"`
	User      string            `json:"user,omitempty"`
	Comment   string            `json:"comment,omitempty"`
	Link      string            `json:"link,omitempty"`
}

func encodeEvent(v *event.Event) eventJSON {
	return eventJSON{v.Incident, v.Seq, v.Kind, v.Key.Check, v.Key.Labels, v.Labels, v.Host, v.Service, v.Time, v.Opened, v.From, v.To,
		api.Float(v.Value), apiBands(&v.Bands), v.Unit, v.Text, v.User, v.Comment, v.Link}
}

func (j *eventJSON) decode() event.Event {
	b := j.Bands
	return event.Event{
		Incident: j.Incident, Seq: j.Seq, Kind: j.Kind, Key: event.Key{Check: j.Check, Labels: j.KeyLabels}, Labels: j.Labels,
		Host: j.Host, Service: j.Service, Time: j.Time, Opened: j.Opened, From: j.From, To: j.To, Value: float64(j.Value),
		Bands: event.Bands{Threshold: float64(b.Threshold), LowCritical: float64(b.LowCritical), LowWarning: float64(b.LowWarning),
			HighWarning: float64(b.HighWarning), HighCritical: float64(b.HighCritical), Rule: b.Rule},
		Unit: j.Unit, Text: j.Text, User: j.User, Comment: j.Comment, Link: j.Link,
	}
}

// load reads all records. It is called once, by Open.
func (e *Engine) load(ctx context.Context) error {
	now := e.o.Now()
	transitions := map[string][]transition{}
	return e.finishLoad(transitions, e.o.Records.ListRecords(ctx, kind, "", func(r store.Record) error {
		k, rest, value := r.Key[:1], r.Key[1:], r.Value
		broken := func(what string, err error) error {
			return fmt.Errorf("%s %q: %w: %w", what, rest, store.ErrCorrupt, err)
		}
		switch k {
		case "c":
			var r conditionRecord
			if err := json.Unmarshal(value, &r); err != nil {
				return broken("state of check", err)
			}
			id := keyOf(r.Check, r.Each)
			if r.Seen.IsZero() {
				r.Seen = now
			}
			c := &condition{key: id, id: id.ID(), each: r.Each, seen: r.Seen, machine: r.Machine, receivers: r.Receivers,
				labels: labels.FromMap(r.Labels), outputs: &outputs{}}
			e.conditions[c.id] = c
		case "t":
			id, at, _ := strings.Cut(rest, "\x00")
			millis, err := strconv.ParseInt(at, 10, 64)
			var t transition
			if err == nil {
				err = json.Unmarshal(value, &t)
			}
			if err != nil {
				return broken("transition of check", err)
			}
			t.At = time.UnixMilli(millis)
			transitions[id] = append(transitions[id], t)
		case "i":
			in := &incident{}
			if err := json.Unmarshal(value, &in.Incident); err != nil {
				return broken("incident", err)
			}
			e.incidents[in.ID] = in
		case "o":
			o := &pendingEvents{}
			var err error
			if o.number, err = strconv.ParseUint(rest, 16, 64); err == nil {
				err = json.Unmarshal(value, o)
			}
			if err != nil {
				return broken("events to be told", err)
			}
			e.owed = append(e.owed, o)
			e.lastOwed = max(e.lastOwed, o.number)
		case "m":
			var m api.Maintenance
			if err := json.Unmarshal(value, &m); err != nil {
				return broken("maintenance", err)
			}
			e.posted[m.ID] = m
		case "p":
			l := &profile.Learned{}
			if err := json.Unmarshal(value, l); err != nil {
				return broken("learned profile", err)
			}
			e.lessons.kept[rest] = l
		}
		return nil
	}))
}

func (e *Engine) finishLoad(transitions map[string][]transition, err error) error {
	if err != nil {
		return err
	}
	for id, c := range e.conditions {
		c.transitions = transitions[id]
		delete(transitions, id)
		if c.machine.Incident != nil {
			c.events = e.incidents[c.machine.Incident.ID]
		}
	}
	for id, all := range transitions { // of a check that is gone: its time is over
		for _, t := range all {
			e.records[transitionKey(id, t.At)] = nil
		}
	}
	return nil
}

func transitionKey(id string, at time.Time) string {
	return fmt.Sprintf("t%s\x00%013d", id, at.UnixMilli())
}

// touchCondition notes that a condition has to be stored again. Needs mu.
func (e *Engine) touchCondition(c *condition) {
	if !c.dirty {
		c.dirty = true
		e.dirty = append(e.dirty, c)
	}
	e.wakeUp()
}

// putRecord notes a record, nil to delete it. Needs mu.
func (e *Engine) putRecord(key string, value any) {
	var b []byte
	if value != nil {
		var err error
		if b, err = json.Marshal(value); err != nil {
			e.o.Logger.Error("encode a record of checks", "key", key, "error", err)
			return
		}
	}
	e.records[key] = b
	e.wakeUp()
}

func (e *Engine) wakeUp() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// ageReference returns the moment that ages are counted from.
func (e *Engine) ageReference() time.Time { return e.o.Now().Add(-e.o.Leapt()) }

// noteTransition notes that a band of state begins. Needs mu.
func (e *Engine) noteTransition(c *condition, at time.Time, why string) {
	if len(why) > mostWhy {
		why = strings.ToValidUTF8(why[:mostWhy], "") + "…"
	}
	t := transition{At: at, State: c.machine.Hard, Flaps: c.machine.Flapping, Why: why, Gone: c.removed}
	c.transitions = append(c.transitions, t)
	e.putRecord(transitionKey(c.id, at), t)
	drop, aged := 0, at.Add(-e.o.Leapt())
	for drop < len(c.transitions)-1 && (len(c.transitions)-drop > mostTransitions || aged.Sub(c.transitions[drop+1].At) > keepTransitions) {
		e.putRecord(transitionKey(c.id, c.transitions[drop].At), nil)
		drop++
	}
	c.transitions = c.transitions[drop:]
}

// recordTransition notes events of a machine: in the incident, and for receivers. Needs mu.
func (e *Engine) recordTransition(in *instance, events []state.Event) {
	for i := range events {
		s := &events[i]
		v := e.eventOf(in, s)
		if !s.Late {
			e.recordEvent(in, s, &v)
		}
		if !s.Notify {
			e.stats.EventsHeld++
			continue
		}
		if len(in.c.Receivers) == 0 || e.o.Notifier == nil {
			continue
		}
		e.lastOwed++
		o := &pendingEvents{number: e.lastOwed, Receivers: in.c.Receivers, Event: encodeEvent(&v)}
		o.untold = e.o.Story != nil && v.Labels[series.LabelService] != "" && v.To != event.OK && (v.Kind == event.Opened || v.Kind == event.Changed)
		e.owed = append(e.owed, o)
		e.putRecord(o.key(), o)
	}
}

// recordEvent adds an event to the incident as it is kept. Needs mu.
func (e *Engine) recordEvent(in *instance, s *state.Event, v *event.Event) {
	if s.Kind == event.Opened {
		in.events = &incident{Incident: api.Incident{
			ID: s.Incident, Kind: "check", Check: in.id, Service: in.labels.Get(series.LabelService), Start: api.UnixTime(s.Opened),
			End: api.Float(math.NaN()), Value: api.Float(v.Value), Text: v.Text,
		}}
		e.incidents[s.Incident] = in.events
		e.stats.Incidents++
	}
	k := in.events
	if k == nil { // its record was lost
		return
	}
	k.State = s.To.String()
	if w := levelNamed(k.Worst); k.Worst == "" || s.To.Severity() > w.Severity() {
		k.Worst = s.To.String()
	}
	if len(k.Events) >= mostEvents { // the first tell how it began, the last how it ended
		k.Events = append(k.Events[:mostEvents/2], k.Events[mostEvents/2+1:]...)
	}
	k.Events = append(k.Events, api.IncidentEvent{Seq: s.Seq, Time: api.UnixTime(s.Time), Kind: string(s.Kind), From: s.From.String(), To: s.To.String(), Text: v.Text})
	k.Acked = nil
	if a := in.machine.Ack; a != nil {
		k.Acked = apiAck(a)
	}
	if s.Kind == event.Resolved {
		k.End = api.UnixTime(s.Time)
		in.events = nil
	}
	e.putRecord("i"+k.ID, k.Incident)
	e.trimIncidents()
}

// trimIncidents forgets the oldest that are over. Needs mu.
func (e *Engine) trimIncidents() {
	now := e.o.Now()
	if since := now.Sub(e.trimmed); since < 10*time.Second || len(e.incidents) <= mostIncidents && since < time.Hour {
		return // not for each of the thousands that a bad moment opens
	}
	e.trimmed = now
	oldest := api.UnixTime(e.ageReference().Add(-keepIncidents))
	var ends []api.Float
	for id, k := range e.incidents {
		switch {
		case k.Kind != "check" || math.IsNaN(float64(k.End)):
		case k.End < oldest:
			delete(e.incidents, id)
			e.putRecord("i"+id, nil)
		default:
			ends = append(ends, k.End)
		}
	}
	if over := len(e.incidents) - mostIncidents; over > 0 && over < len(ends) {
		sortFloats(ends)
		// A tenth more, so that this is not done for every incident.
		limit := ends[min(len(ends)-1, over+mostIncidents/10)]
		for id, k := range e.incidents {
			if k.Kind == "check" && k.End <= limit {
				delete(e.incidents, id)
				e.putRecord("i"+id, nil)
			}
		}
	}
}
