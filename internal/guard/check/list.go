package check

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

const pending = "PENDING"

// state is the word for the hard state. Needs mu.
func (c *condition) state() string {
	if !c.machine.Ran {
		return pending
	}
	return c.machine.Hard.String()
}

// severity orders states: the worst have the greatest.
func severity(state string) int {
	if state == pending {
		return 0
	}
	return 1 + levelNamed(state).Severity()
}

// find looks a check up by its id. Needs mu.
func (e *Engine) find(id string) (*instance, error) {
	if c := e.conditions[id]; c != nil && c.in != nil {
		return c.in, nil
	}
	// Labels may be written in another order, or with other spaces.
	if name, rest, ok := strings.Cut(id, "{"); ok {
		if ms, err := parseMatchers("{" + rest); err == nil {
			each := map[string]string{}
			for _, m := range ms {
				each[m.Name] = m.Value
			}
			if c := e.conditions[keyOf(name, each).ID()]; c != nil && c.in != nil {
				return c.in, nil
			}
		}
	}
	if d := e.byName[id]; d != nil {
		if len(d.instances) == 0 {
			return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("%s is applied to each series of %s, and none had data lately", id, family(d.c.Each.Series.Family))}
		}
		return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("%s is applied to each of %d series; name one, such as %s", id, len(d.instances), d.instances[0].id)}
	}
	known := e.names()
	if len(known) == 0 {
		return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: "no checks are defined; name files of them under checks: in the configuration"}
	}
	return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("there is no check %q; %s", id, query.Suggest(id, known))}
}

// List returns checks by falling severity, then by name.
func (e *Engine) List(ctx context.Context, r ListRequest) (*api.ChecksResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	state := strings.ToUpper(r.State)
	if !slices.Contains([]string{"", "BAD", pending, "OK", "WARNING", "CRITICAL", "UNKNOWN"}, state) {
		return nil, query.Invalid("state", "state %q is not known; write OK, WARNING, CRITICAL, UNKNOWN, PENDING or bad", r.State)
	}
	if r.Offset < 0 || r.Limit < 0 {
		return nil, query.Invalid("limit", "offset and limit are 0 or more")
	}
	if r.Limit == 0 {
		r.Limit = 100
	}
	now := e.o.Now()
	out := &api.ChecksResponse{
		Checks: []api.Check{}, Counts: map[string]int{"OK": 0, "WARNING": 0, "CRITICAL": 0, "UNKNOWN": 0, pending: 0},
		Receivers: []api.CheckReceiver{}, Lag: api.Float(e.loop.lag.p99(now)), Now: api.UnixTime(now),
	}
	if e.o.Receivers != nil {
		out.Receivers = append(out.Receivers, e.o.Receivers()...)
	}
	e.readResults(ctx)
	listed := e.list(r, state, now, out)
	for i, texts := range e.cautions(ctx, listed...) {
		out.Checks[i].Warnings = texts
	}
	return out, nil
}

// list adds the checks of the request to out, and returns them.
func (e *Engine) list(r ListRequest, state string, now time.Time, out *api.ChecksResponse) []*instance {
	q := strings.ToLower(r.Q)
	e.mu.Lock()
	defer e.mu.Unlock()
	out.Problem, out.Trouble, out.Files = e.problem, cmp.Or(e.trouble, e.unlike()), e.files
	var found []*instance
	for _, d := range e.definitions {
		described := strings.Contains(strings.ToLower(d.c.Description), q)
		for _, in := range d.instances {
			if q != "" && !described && !strings.Contains(strings.ToLower(in.id), q) || !series.Matches(in.labels, r.Match) {
				continue
			}
			s := in.state()
			out.Counts[s]++
			if state == "" || s == state || state == "BAD" && s != "OK" && s != pending {
				found = append(found, in)
			}
		}
	}
	out.Total = len(found)
	slices.SortFunc(found, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(severity(b.state()), severity(a.state())), cmp.Compare(a.id, b.id))
	})
	found = found[min(r.Offset, len(found)):]
	found = found[:min(r.Limit, len(found))]
	for _, in := range found {
		out.Checks = append(out.Checks, *e.apiCheck(in, now))
	}
	return found
}

// apiCheck is a check as the API has it. Needs mu.
func (e *Engine) apiCheck(in *instance, now time.Time) *api.Check {
	m, r := &in.machine, &in.last
	nan := api.Float(math.NaN())
	out := &api.Check{
		ID: in.id, Name: in.c.Name, Labels: map[string]string{}, Description: in.c.Description, Unit: in.c.Unit,
		Source: in.c.Value.Kind(), Schedule: in.d.schedule.String(), State: in.state(), Level: m.Last.String(), Soft: m.Soft(),
		Since: api.UnixTime(m.Since), Last: api.UnixTime(r.Time), Next: api.UnixTime(e.nextRun(in)), Value: nan, Flapping: m.Flapping,
		Quiet: e.quietReason(in, now), Receivers: in.c.Receivers,
	}
	if out.Receivers == nil {
		out.Receivers = []string{}
	}
	if out.Quiet == "" {
		out.Quiet = machineQuiet(m)
	}
	for _, l := range labelsOf(in.labels) {
		if l.Name != LabelCheck {
			out.Labels[l.Name] = l.Value
		}
	}
	bands := noBands("")
	switch {
	case r.Time.IsZero() && m.Ran:
		out.Text = "has not run since the server started"
	case r.Time.IsZero():
		out.Level, out.Text = pending, "has not run yet"
	default:
		bands = r.Bands
		if out.Value = api.Float(r.Reading.Value); r.Reading.Null {
			out.Value = api.Float(math.NaN())
		}
		if out.Text = r.Reading.Text; r.Reading.Err != nil {
			out.Text = r.Reading.Err.Error()
		} else if r.Level != event.OK || out.Text == "" {
			out.Text = strings.TrimPrefix(measuredText(in, r), ": ")
		}
		if r.Level == event.OK && m.Hard != event.OK { // the text is of the last run, the state is not
			out.Text = "well in the last run, not for long enough: " + out.Text
		}
	}
	out.Bands = apiBands(&bands)
	if in.events != nil {
		k := in.events.Incident
		k.Events = slices.Clone(k.Events)
		out.Incident, out.Since = &k, api.UnixTime(in.events.since(m.Since))
	}
	return out
}

// nextRun returns when an instance runs next, zero if that is not known. Needs mu.
func (e *Engine) nextRun(in *instance) time.Time {
	if in.task != nil {
		return e.loop.dueTime(in.task)
	}
	if len(in.d.tasks) > 0 {
		return e.loop.dueTime(in.d.tasks[0])
	}
	return time.Time{}
}

// RunNow runs a check besides its schedule, and waits for its result.
func (e *Engine) RunNow(ctx context.Context, id string) (*api.Check, error) {
	leave, err := e.short.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	e.mu.Lock()
	in, err := e.find(id)
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	timeout := in.c.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	run, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	outcomes := e.measure(run, in.d, []*instance{in}, e.o.Now())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	if !e.guards { // another server keeps its state
		defer e.mu.Unlock()
		return e.apiCheck(e.measureOnly(in, outcomes), e.o.Now()), nil
	}
	e.mu.Unlock()
	e.apply(outcomes)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.apiCheck(in, e.o.Now()), nil
}

// requests are places for requests under way.
type requests chan struct{}

// enter takes a place, leave gives it back.
func (r requests) enter(ctx context.Context) (leave func(), err error) {
	select {
	case r <- struct{}{}:
		return func() { <-r }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
