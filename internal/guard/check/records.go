package check

import (
	"context"
	"encoding/json"
	"errors"
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

// kind of the records, by the first letter of their keys. They are of the server that
// guards the checks: it alone writes them, but for what others ask of it. Where servers
// share a store each write also writes the fence, at the revision at which this server
// last wrote it; so one that no longer guards writes nothing.
//
//	c id               a condition: its labels of Each and its machine
//	t id NUL time      a transition
//	i id               an incident, or one that was marked
//	o number           an event, and the receivers that it is owed to
//	m id               a maintenance window that was posted
//	p profile NUL id   a learned profile
//
// Of servers that share a store also:
//
//	f                  the fence: the name of the server that guards, and a random name of its turn
//	d                  the names of its definitions
//	q name             a request of another server, later with its answer, or a verdict of a mark to tell
//
// Changes and their events are stored by one write. Events are handed to the notifier
// after that, and deleted by the next write: at once, or where servers share the store for each
// receiver once it has got them. So after a crash receivers get events again
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
type incident struct {
	api.Incident
	asked time.Time // when its story was last asked for
}

// since returns when what an incident is of began: opened, when it did, or before that.
func (k *incident) since(opened time.Time) time.Time {
	if k != nil && k.Since < k.Start {
		return k.Since.Time()
	}
	return opened
}

// pendingEvents are events that the notifier has not been handed yet.
type pendingEvents struct {
	number    uint64
	untold    bool            // waits for a story, see addStories
	lacking   func() []string // receivers that have been handed it and have not got it; see forgetDelivered
	Receivers []string        `json:"receivers"` // that have not got it
	Event     eventJSON       `json:"event"`
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
	Since     time.Time         `json:"since,omitzero"`
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
	return eventJSON{v.Incident, v.Seq, v.Kind, v.Key.Check, v.Key.Labels, v.Labels, v.Host, v.Service, v.Time, v.Opened, v.Since, v.From, v.To,
		api.Float(v.Value), apiBands(&v.Bands), v.Unit, v.Text, v.User, v.Comment, v.Link}
}

func (j *eventJSON) decode() event.Event {
	b := j.Bands
	return event.Event{
		Incident: j.Incident, Seq: j.Seq, Kind: j.Kind, Key: event.Key{Check: j.Check, Labels: j.KeyLabels}, Labels: j.Labels,
		Host: j.Host, Service: j.Service, Time: j.Time, Opened: j.Opened, Since: event.SinceOr(j.Since, j.Opened), From: j.From, To: j.To, Value: float64(j.Value),
		Bands: event.Bands{Threshold: float64(b.Threshold), LowCritical: float64(b.LowCritical), LowWarning: float64(b.LowWarning),
			HighWarning: float64(b.HighWarning), HighCritical: float64(b.HighCritical), Rule: b.Rule},
		Unit: j.Unit, Text: j.Text, User: j.User, Comment: j.Comment, Link: j.Link,
	}
}

// decoded is a record as it was last read.
type decoded struct {
	revision uint64
	value    any // of a kind that decodeRecord returns
}

// decodeRecord returns a pointer to what a record holds, nil where it is of no concern.
func decodeRecord(key string, value []byte) (out any, err error) {
	what, rest := "", key[1:]
	switch key[:1] {
	case "c":
		what, out = "state of check", &conditionRecord{}
	case "t":
		what, out = "transition of check", &transition{}
	case "i":
		what, out = "incident", &incident{}
	case "o":
		what, out = "events to be told", &pendingEvents{}
	case "m":
		what, out = "maintenance", &api.Maintenance{}
	case "p":
		what, out = "learned profile", &profile.Learned{}
	case "d":
		what, out = "names of checks", &[]string{}
	default:
		return nil, nil
	}
	switch v := out.(type) {
	case *incident:
		if err = json.Unmarshal(value, &v.Incident); v.Since == 0 { // as versions before this one wrote it
			v.Since = v.Start
		}
	default:
		err = json.Unmarshal(value, out)
	}
	switch v := out.(type) {
	case *transition:
		_, at, _ := strings.Cut(rest, "\x00")
		millis, parse := strconv.ParseInt(at, 10, 64)
		v.At, err = time.UnixMilli(millis), errors.Join(err, parse)
	case *pendingEvents:
		var parse error
		v.number, parse = strconv.ParseUint(rest, 16, 64)
		err = errors.Join(err, parse)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w: %w", what, rest, store.ErrCorrupt, err)
	}
	return out, nil
}

// read reads the records that have changed since it last did, and reports whether any has.
// Needs keeping.
func (e *Engine) read(ctx context.Context) (changed bool, err error) {
	now := make(map[string]decoded, len(e.decoded))
	err = e.o.Records.ListRecords(ctx, kind, "", func(r store.Record) error {
		d, known := e.decoded[r.Key]
		if !known || d.revision != r.Revision {
			v, err := decodeRecord(r.Key, r.Value)
			if err != nil {
				return err
			}
			d, changed = decoded{r.Revision, v}, true
		}
		now[r.Key] = d
		return nil
	})
	if err != nil {
		return false, err
	}
	changed = changed || len(now) != len(e.decoded)
	e.decoded = now
	return changed, nil
}

// install makes what was read the state of this engine. The definitions stay, and so do
// the series that they write. Needs keeping and mu.
func (e *Engine) install() {
	now := e.o.Now()
	conditions, transitions := map[string]*condition{}, map[string][]transition{}
	e.incidents, e.posted, e.owed, e.handed, e.lastOwed = map[string]*incident{}, map[string]api.Maintenance{}, nil, nil, 0
	learned, guarded := map[string]*profile.Learned{}, []string(nil)
	for _, key := range sortedKeys(e.decoded) {
		switch v := e.decoded[key].value.(type) {
		case *conditionRecord:
			id := keyOf(v.Check, v.Each)
			c := e.conditions[id.ID()]
			if c == nil {
				c = &condition{key: id, id: id.ID(), each: v.Each, receivers: v.Receivers, labels: labels.FromMap(v.Labels), outputs: &outputs{}}
			}
			if c.seen, c.machine = v.Seen, v.Machine; c.seen.IsZero() {
				c.seen = now
			}
			conditions[c.id] = c
		case *transition:
			id, _, _ := strings.Cut(key[1:], "\x00")
			transitions[id] = append(transitions[id], *v)
		case *incident:
			e.incidents[v.ID] = v
		case *pendingEvents:
			e.owed = append(e.owed, v)
			e.lastOwed = max(e.lastOwed, v.number)
		case *api.Maintenance:
			e.posted[v.ID] = *v
		case *profile.Learned:
			learned[key[1:]] = v
		case *[]string:
			guarded = *v
		}
	}
	for id, c := range e.conditions { // of which there is no record
		switch {
		case conditions[id] != nil || c.in == nil:
		case c.in.d.c.Each != nil:
			e.detach(c)
			c.removed = true
		default:
			c.machine = state.Machine{}
			conditions[id] = c
		}
	}
	e.conditions = conditions
	for id, c := range conditions {
		c.transitions, c.events = transitions[id], nil
		delete(transitions, id)
		if c.machine.Incident != nil {
			c.events = e.incidents[c.machine.Incident.ID]
		}
	}
	for id, all := range transitions { // of a check that is gone: its time is over
		for _, t := range all {
			if e.guards {
				e.records[transitionKey(id, t.At)] = nil
			}
		}
	}
	e.enterKnown()
	e.lessons.install(learned, e.profiles)
	e.rebuildWindows()
	if e.o.Once != nil { // else it is of a shared store that this one was restored from
		e.guarded = guarded
	}
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
		o := e.owe(in.c.Receivers, &v)
		o.untold = e.o.Story != nil && v.Labels[series.LabelService] != "" && v.To != event.OK && (v.Kind == event.Opened || v.Kind == event.Changed)
	}
}

// owe notes that receivers are to be told of an event. Needs mu.
func (e *Engine) owe(receivers []string, v *event.Event) *pendingEvents {
	e.lastOwed++
	o := &pendingEvents{number: e.lastOwed, Receivers: receivers, Event: encodeEvent(v)}
	e.owed = append(e.owed, o)
	e.putRecord(o.key(), o)
	return o
}

// recordEvent adds an event to the incident as it is kept. Needs mu.
func (e *Engine) recordEvent(in *instance, s *state.Event, v *event.Event) {
	if s.Kind == event.Opened {
		in.events = &incident{Incident: api.Incident{
			ID: s.Incident, Kind: "check", Check: in.id, Service: in.labels.Get(series.LabelService), Start: api.UnixTime(s.Opened), Since: api.UnixTime(s.Opened),
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
