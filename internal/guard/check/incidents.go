package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/state"
	"tailscope/internal/query"
)

// Acknowledge notes that somebody takes care of a check that is not OK.
func (e *Engine) Acknowledge(ctx context.Context, id string, a api.Ack) (*api.Check, error) {
	return do[api.Check](ctx, e, &request{Acknowledge: id, Ack: &a})
}

// acknowledge does what Acknowledge says. Needs mu.
func (e *Engine) acknowledge(id string, a *api.Ack) (*api.Check, error) {
	now := e.o.Now()
	until := time.Time{}
	switch {
	case strings.TrimSpace(a.User) == "" || len(a.User) > 200:
		return nil, query.Invalid("user", "who takes care of it? write a name of at most 200 bytes")
	case len(a.Comment) > 2000:
		return nil, query.Invalid("comment", "the comment is too long; write at most 2000 bytes")
	}
	if u := float64(a.Until); !math.IsNaN(u) && u != 0 {
		if until = a.Until.Time(); !until.After(now) {
			return nil, query.Invalid("until", "%s is over; write Unix seconds that are to come, or leave it out to hold until the check is OK", until.UTC().Format(time.RFC3339))
		}
	}
	in, err := e.find(id)
	if err != nil {
		return nil, err
	}
	ack := state.Ack{User: a.User, Comment: a.Comment, At: now, Until: until}
	events, ok := in.machine.Acknowledge(ack, e.quietReason(in, now), nil)
	if !ok {
		return nil, query.Invalid("id", "%s has no open incident to acknowledge; begin maintenance instead", in.id)
	}
	e.recordTransition(in, events)
	e.touchCondition(in.condition)
	return e.apiCheck(in, now), nil
}

// Unacknowledge takes it back.
func (e *Engine) Unacknowledge(ctx context.Context, id, user string) (*api.Check, error) {
	return do[api.Check](ctx, e, &request{Unacknowledge: id})
}

// unacknowledge does what Unacknowledge says. Needs mu.
func (e *Engine) unacknowledge(id string) (*api.Check, error) {
	in, err := e.find(id)
	if err != nil {
		return nil, err
	}
	if !in.machine.Unacknowledge() {
		return nil, query.Invalid("id", "%s is not acknowledged", in.id)
	}
	if in.events != nil {
		in.events.Acked = nil
		e.putRecord("i"+in.events.ID, in.events.Incident)
	}
	e.touchCondition(in.condition)
	return e.apiCheck(in, e.o.Now()), nil
}

// Incidents returns incidents, the newest first.
func (e *Engine) Incidents(ctx context.Context, r IncidentsRequest) (*api.IncidentsResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Kind != "" && r.Kind != "check" && r.Kind != "marked" {
		return nil, query.Invalid("kind", "kind %q is not known; write check or marked", r.Kind)
	}
	if !r.End.IsZero() && !r.End.After(r.Start) {
		return nil, query.Invalid("end", "the end must be after the start")
	}
	if r.Limit <= 0 {
		r.Limit = 1000
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := &api.IncidentsResponse{Incidents: e.overlapping(r)}
	if !r.Start.IsZero() {
		out.Start = r.Start.Unix()
	}
	if out.End = e.o.Now().Unix(); !r.End.IsZero() {
		out.End = r.End.Unix()
	}
	return out, nil
}

// overlapping selects incidents. Needs mu; the answer is the caller's.
func (e *Engine) overlapping(r IncidentsRequest) []api.Incident {
	found := []api.Incident{}
	for _, k := range e.incidents {
		name, _, _ := strings.Cut(k.Check, "{")
		open := math.IsNaN(float64(k.End))
		switch {
		case r.Kind != "" && k.Kind != r.Kind, r.Open && !open:
		case r.Check != "" && k.Check != r.Check && (name != r.Check || k.Check == ""):
		case !r.Start.IsZero() && !open && k.End <= api.UnixTime(r.Start) && k.End != k.Start:
		case !r.End.IsZero() && k.Start >= api.UnixTime(r.End):
		default:
			found = append(found, k.Incident)
		}
	}
	slices.SortFunc(found, func(a, b api.Incident) int { return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(a.ID, b.ID)) })
	if r.Limit > 0 && len(found) > r.Limit {
		found = found[:r.Limit]
	}
	for i := range found {
		k := &found[i]
		k.Events = slices.Clone(k.Events)
		c := e.conditions[k.Check]
		if c == nil || k.Kind != "check" || !slices.ContainsFunc(k.Events, func(v api.IncidentEvent) bool { return v.Kind == string(event.Flapping) }) {
			continue
		}
		end := e.o.Now()
		if !math.IsNaN(float64(k.End)) {
			end = k.End.Time()
		}
		k.States = c.statesBetween(k.Start.Time(), end)
		// What its check is in goes on after the incident, which is over.
		if n := len(k.States); n > 0 && math.IsNaN(float64(k.States[n-1].End)) {
			k.States[n-1].End = k.End
		}
	}
	return found
}

// MarkIncident notes that there was one, for backtests.
func (e *Engine) MarkIncident(ctx context.Context, m api.MarkedIncident) (*api.Incident, error) {
	return do[api.Incident](ctx, e, &request{Mark: &m})
}

// markIncident does what MarkIncident says. Needs mu.
func (e *Engine) markIncident(m *api.MarkedIncident) (*api.Incident, error) {
	now := e.o.Now()
	switch {
	case strings.TrimSpace(m.Name) == "" || len(m.Name) > 200:
		return nil, query.Invalid("name", "an incident needs a name of at most 200 bytes, such as checkout down")
	case len(m.Service) > 200 || len(m.Check) > 2000:
		return nil, query.Invalid("service", "the name is too long")
	case !(m.Start > 0) || m.Start > api.UnixTime(now):
		return nil, query.Invalid("start", "write when it began in Unix seconds that have passed")
	case !(m.End > m.Start):
		return nil, query.Invalid("end", "an incident ends after it begins; write Unix seconds")
	}
	k := &incident{Incident: api.Incident{
		Kind: "marked", Name: m.Name, Service: m.Service, Check: m.Check, Start: m.Start, Since: m.Start, End: m.End, Value: api.Float(math.NaN()), Text: m.Name,
	}}
	marked := 0
	for _, other := range e.incidents {
		if other.Kind == "marked" {
			marked++
		}
	}
	if marked >= mostIncidents {
		return nil, &query.Error{Code: query.CodeTooMany, Field: "name", Message: "10000 incidents are marked already; forget some of them"}
	}
	k.ID = e.freshID("x", now)
	e.incidents[k.ID] = k
	e.putRecord("i"+k.ID, k.Incident)
	out := k.Incident
	return &out, nil
}

// DeleteIncident forgets one that was marked.
func (e *Engine) DeleteIncident(ctx context.Context, id string) error {
	_, err := do[api.Incident](ctx, e, &request{Forget: id})
	return err
}

// deleteIncident does what DeleteIncident says. Needs mu.
func (e *Engine) deleteIncident(id string) (*api.Incident, error) {
	k := e.incidents[id]
	if k == nil {
		return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("there is no incident %q", id)}
	}
	if k.Kind != "marked" {
		return nil, query.Invalid("id", "incident %s is a check's, which stays; only marked ones are forgotten", id)
	}
	delete(e.incidents, id)
	e.putRecord("i"+id, nil)
	return &k.Incident, nil
}

// freshID names something new. Needs mu.
func (e *Engine) freshID(prefix string, now time.Time) string {
	for n := now.UnixMilli(); ; n++ {
		id := prefix + strconv.FormatInt(n, 36)
		if _, ok := e.posted[id]; !ok && e.incidents[id] == nil {
			return id
		}
	}
}

// names of definitions, sorted. Needs mu.
func (e *Engine) names() []string { return slices.Sorted(maps.Keys(e.byName)) }

func apiAck(a *state.Ack) *api.Ack {
	out := &api.Ack{User: a.User, Comment: a.Comment, Time: api.UnixTime(a.At), Until: api.Float(math.NaN())}
	if !a.Until.IsZero() {
		out.Until = api.UnixTime(a.Until)
	}
	return out
}

func apiBands(b *event.Bands) api.CheckBands {
	return api.CheckBands{Threshold: api.Float(b.Threshold), LowCritical: api.Float(b.LowCritical), LowWarning: api.Float(b.LowWarning),
		HighWarning: api.Float(b.HighWarning), HighCritical: api.Float(b.HighCritical), Rule: b.Rule}
}

// levelNamed reads a level's name; what is none is OK.
func levelNamed(name string) event.Level {
	for _, l := range []event.Level{event.Warning, event.Critical, event.Unknown} {
		if l.String() == name {
			return l
		}
	}
	return event.OK
}

func sortFloats(f []api.Float) { slices.Sort(f) }
