package check

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

// window is a time in which nobody is notified: once, or by a schedule.
type window struct {
	name       string
	checks     []string // names or ids
	match      []*labels.Matcher
	start, end time.Time // [start, end); of one that happens once
	again      schedule.Schedule
	lasts      time.Duration // 0: once
	when       string
	id         string // of one that was posted
	user       string
}

const (
	mostWindows = 1000
	keepWindows = 24 * time.Hour // after their end
	dependsOn   = "depends on "
)

func fileWindow(w *spec.Window) (*window, error) {
	out := &window{name: w.Name, checks: w.Checks, match: w.Match, start: w.Start, end: w.End}
	if w.Cron != "" {
		s, err := schedule.Parse(spec.Schedule{Cron: w.Cron, Zone: w.Zone}, w.Name)
		if err != nil {
			return nil, fmt.Errorf("maintenance %s: %w", w.Name, err)
		}
		out.again, out.lasts, out.when = s, w.Duration, s.String()+" for "+figure.Duration(w.Duration)
	}
	return out, nil
}

func postedWindow(m *api.Maintenance) (*window, error) {
	w := &window{id: m.ID, name: m.Name, checks: m.Checks, start: m.Start.Time(), end: m.End.Time(), user: m.User}
	if m.Match != "" {
		var err error
		if w.match, err = parseMatchers(m.Match); err != nil {
			return nil, query.Invalid("match", "%v; write matchers such as {service=\"shop\"}", err)
		}
	}
	return w, nil
}

// parseMatchers reads {a="b", c=~"d"}, braces or not.
func parseMatchers(text string) ([]*labels.Matcher, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	s, err := parseSelector(text)
	if err != nil {
		return nil, err
	}
	return s.Matchers, nil
}

// parseSelector reads a selector without brackets.
func parseSelector(text string) (*expr.Selector, error) {
	p, err := expr.Parse("last("+text+"[0])", expr.Options{})
	if err != nil {
		return nil, err
	}
	if s := p.Selectors(); len(s) == 1 {
		return s[0], nil
	}
	return nil, fmt.Errorf("%s is not one list of matchers", text)
}

// active reports whether the window is open at a moment, and until when.
func (w *window) active(at time.Time) (until time.Time, ok bool) {
	if w.lasts > 0 {
		start, ok := w.again.Open(at, w.lasts)
		return start.Add(w.lasts), ok
	}
	return w.end, !at.Before(w.start) && at.Before(w.end)
}

// nextChange returns when the window next opens or closes, zero if never.
func (w *window) nextChange(at time.Time) time.Time {
	if until, ok := w.active(at); ok {
		return until
	}
	if w.lasts > 0 {
		return w.again.Next(at)
	}
	if at.Before(w.start) {
		return w.start
	}
	return time.Time{}
}

func (w *window) covers(c *condition) bool {
	if len(w.checks) > 0 && !slices.Contains(w.checks, c.key.Check) && !slices.Contains(w.checks, c.id) {
		return false
	}
	return series.Matches(c.labels, w.match)
}

// quietReason returns why receivers are not notified of a check at a moment, empty if
// they are. Needs mu.
func (e *Engine) quietReason(in *instance, at time.Time) string {
	if in.c.Silent {
		return "silent"
	}
	for _, w := range e.openWindows(at) {
		if w.covers(in.condition) {
			return "maintenance " + w.name
		}
	}
	for _, name := range in.c.DependsOn {
		if parent := e.findNotOK(name, in); parent != "" {
			return dependsOn + parent
		}
	}
	return ""
}

// openWindows returns the windows that are open at a moment. It looks once a second: a
// thousand runs ask within it. Needs mu.
func (e *Engine) openWindows(at time.Time) []*window {
	if second := at.Unix(); e.openedAt != second {
		e.openedAt, e.openNow = second, e.openNow[:0]
		for _, w := range e.windows {
			if _, ok := w.active(at); ok {
				e.openNow = append(e.openNow, w)
			}
		}
	}
	return e.openNow
}

// findNotOK returns the id of a check of that name that is not OK, or whose last run was
// not, empty if there is none. Of an Each it is the one with the same labels, if both are
// applied to the same, else any. Needs mu.
func (e *Engine) findNotOK(name string, child *instance) string {
	d := e.byName[name]
	if d == nil {
		return ""
	}
	if d.c.Each == nil || child.d.c.Each != nil && slices.Equal(d.by, child.d.by) {
		if in := d.byKey[child.key.Labels]; in != nil {
			return in.notOK()
		}
		if in := d.byKey[""]; in != nil {
			return in.notOK()
		}
		return ""
	}
	for _, in := range d.instances {
		if id := in.notOK(); id != "" {
			return id
		}
	}
	return ""
}

func (c *condition) notOK() string {
	if c.machine.Hard != event.OK || c.machine.Ran && c.machine.Last != event.OK {
		return c.id
	}
	return ""
}

// rebuildWindows merges the windows of files and posted ones. Needs mu.
func (e *Engine) rebuildWindows() {
	now := e.ageReference()
	e.windows, e.openedAt = slices.Clone(e.fixed), 0
	for id, m := range e.posted {
		if now.Sub(m.End.Time()) > keepWindows {
			if delete(e.posted, id); e.guards {
				e.putRecord("m"+id, nil)
			}
			continue
		}
		w, err := postedWindow(&m)
		if err != nil {
			e.o.Logger.Error("read a maintenance window", "id", id, "error", err)
			continue
		}
		e.windows = append(e.windows, w)
	}
	slices.SortFunc(e.windows, func(a, b *window) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.name, b.name)) })
	e.wakeUp()
}

// Maintenance lists the windows of files, those under way and to come of the
// posted ones, and those posted that ended within a day.
func (e *Engine) Maintenance(ctx context.Context) (*api.MaintenanceResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.o.Now()
	out := &api.MaintenanceResponse{Windows: []api.Maintenance{}}
	for _, w := range e.windows {
		m := api.Maintenance{ID: w.id, Name: w.name, Checks: w.checks, Start: api.UnixTime(w.start), End: api.UnixTime(w.end), User: w.user, Fixed: w.id == "", When: w.when}
		if m.Checks == nil {
			m.Checks = []string{}
		}
		if len(w.match) > 0 {
			parts := make([]string, len(w.match))
			for i, x := range w.match {
				parts[i] = x.String()
			}
			m.Match = "{" + strings.Join(parts, ", ") + "}"
		}
		until, ok := w.active(now)
		if m.Active = ok; w.lasts > 0 {
			next := w.again.Next(now)
			if ok {
				next = until.Add(-w.lasts)
			}
			m.Start, m.End = api.UnixTime(next), api.UnixTime(next.Add(w.lasts))
		}
		out.Windows = append(out.Windows, m)
	}
	return out, nil
}

// AddMaintenance begins a window, now or later.
func (e *Engine) AddMaintenance(ctx context.Context, m api.Maintenance) (*api.Maintenance, error) {
	return do[api.Maintenance](ctx, e, &request{Maintenance: &m})
}

// addMaintenance does what AddMaintenance says. Needs mu.
func (e *Engine) addMaintenance(m api.Maintenance) (*api.Maintenance, error) {
	now := e.o.Now()
	if m.Start == 0 || math.IsNaN(float64(m.Start)) {
		m.Start = api.UnixTime(now)
	}
	switch {
	case strings.TrimSpace(m.Name) == "" || len(m.Name) > 200:
		return nil, query.Invalid("name", "a window needs a name of at most 200 bytes that says what is done, such as move of the database")
	case math.IsNaN(float64(m.End)) || m.End <= m.Start:
		return nil, query.Invalid("end", "a window ends after it begins; write Unix seconds")
	case m.End.Time().Before(now):
		return nil, query.Invalid("end", "the window would be over already; write an end that is to come")
	case m.End-m.Start > 366*86400:
		return nil, query.Invalid("end", "a window lasts a year at most; write inactive: true in the definition instead")
	case len(m.Checks) > 1000 || len(m.Match) > 10000:
		return nil, query.Invalid("checks", "too many; write a matcher instead")
	}
	m.ID, m.Fixed, m.Active, m.When = "", false, false, ""
	if m.Checks == nil {
		m.Checks = []string{}
	}
	w, err := postedWindow(&m)
	if err != nil {
		return nil, err
	}
	for _, name := range m.Checks {
		if e.byName[name] == nil && e.conditions[name] == nil {
			return nil, query.Invalid("checks", "there is no check %q; %s", name, query.Suggest(name, e.names()))
		}
	}
	if len(e.posted) >= mostWindows {
		return nil, &query.Error{Code: query.CodeTooMany, Field: "name", Message: "1000 windows are posted already; end one of them"}
	}
	m.ID = e.freshID("m", now)
	e.posted[m.ID] = m
	e.putRecord("m"+m.ID, m)
	e.rebuildWindows()
	_, m.Active = w.active(now)
	return &m, nil
}

// EndMaintenance ends a window that was posted: one that has not begun is
// forgotten.
func (e *Engine) EndMaintenance(ctx context.Context, id string) error {
	_, err := do[api.Maintenance](ctx, e, &request{End: id})
	return err
}

// endMaintenance does what EndMaintenance says. Needs mu.
func (e *Engine) endMaintenance(id string) (*api.Maintenance, error) {
	m, ok := e.posted[id]
	if !ok {
		return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: fmt.Sprintf("there is no posted window %q; those of files are changed there", id)}
	}
	now := api.UnixTime(e.o.Now())
	switch {
	case m.Start >= now:
		delete(e.posted, id)
		e.putRecord("m"+id, nil)
	case m.End > now:
		m.End = now
		e.posted[id] = m
		e.putRecord("m"+id, m)
	}
	e.rebuildWindows()
	return &m, nil
}
