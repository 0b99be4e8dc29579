package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Checks writes reports on checks at a moment, in its zone.
type Checks struct{ Now time.Time }

// clock writes a moment in the reader's zone, a dash if it is not known.
func (q Checks) clock(f api.Float) string {
	if v := float64(f); math.IsNaN(v) || v <= 0 {
		return "-"
	}
	return time.UnixMilli(int64(float64(f) * 1e3)).In(q.Now.Location()).Format("2006-01-02 15:04:05")
}

// ago writes the time since a moment.
func (q Checks) ago(f api.Float) string {
	if v := float64(f); math.IsNaN(v) || v <= 0 {
		return "-"
	}
	d := q.Now.Sub(time.UnixMilli(int64(float64(f) * 1e3)))
	if d < 0 {
		return "in " + figure.Span(-d.Round(time.Second).Seconds())
	}
	return figure.Span(d.Round(time.Second).Seconds())
}

func (q Checks) List(r *api.ChecksResponse) *Document {
	d := &Document{Name: "checks", Data: r}
	if r.Problem != "" {
		d.Line("the definitions on disk are not those that run:")
		for line := range strings.SplitSeq(r.Problem, "\n") {
			d.Line("    " + line)
		}
		d.Gap()
	}
	if r.Trouble != "" {
		d.Line("what checks find may be lost: " + r.Trouble)
		d.Gap()
	}
	t := Columns("state", ">for", "check", ">value", "threshold", "last", "what")
	for _, c := range r.Checks {
		state := c.State
		if c.Soft {
			state += " (" + c.Level + " soft)"
		}
		if c.Flapping {
			state += " flapping"
		}
		what := c.Text
		if c.Quiet != "" {
			what = "[" + c.Quiet + "] " + what
		}
		t.Add(state, q.ago(c.Since), c.ID, checkValue(c.Value, c.Unit), bandsText(c.Bands, c.Unit), q.ago(c.Last), what)
	}
	if len(r.Checks) > 0 {
		d.Table(t)
		d.Gap()
	}
	var counts []string
	for _, s := range []string{"CRITICAL", "UNKNOWN", "WARNING", "OK", "PENDING"} {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	line := Plural(r.Total, "check")
	if len(counts) > 0 {
		line += ": " + strings.Join(counts, ", ")
	}
	if more := r.Total - len(r.Checks); more > 0 {
		line += fmt.Sprintf("; --limit %d shows %d more", r.Total, more)
	}
	d.Line(line)
	if len(r.Files) == 0 {
		d.Line("no files of checks are configured: tailscope serve --checks FILE")
	}
	for _, c := range r.Checks {
		for _, text := range c.Warnings {
			d.Line(c.ID + ": " + text)
		}
	}
	for _, x := range r.Receivers {
		if x.State == "waiting" {
			d.Line(fmt.Sprintf("receiver %s waits with %d: %s", x.Name, x.Spooled, x.Error))
		}
	}
	return d
}

// checkValue writes a check's value with its unit.
func checkValue(f api.Float, unit string) string {
	if !known(f) {
		return "-"
	}
	return figure.Quantity(float64(f), unit)
}

func (q Checks) Show(r *api.CheckResponse) *Document {
	d := &Document{Name: "checks", Data: r}
	c := &r.Check
	d.Line(PluginLine(c))
	if c.Description != "" {
		d.Line("    " + c.Description)
	}
	for _, text := range c.Warnings {
		d.Line("    " + text)
	}
	facts := [][2]string{
		{"since", q.clock(c.Since)}, {"last run", q.clock(c.Last)}, {"next", q.clock(c.Next)},
		{"runs", c.Schedule}, {"defined in", r.File}, {"quiet", c.Quiet}, {"receivers", strings.Join(c.Receivers, ", ")},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		facts = append(facts, [2]string{name, c.Labels[name]})
	}
	for _, f := range facts {
		if f[1] != "" {
			d.Line(fmt.Sprintf("    %-11s %s", f[0], f[1]))
		}
	}
	d.Gap()
	for line := range strings.SplitSeq(strings.TrimRight(r.Definition, "\n"), "\n") {
		d.Line(line)
	}
	for _, s := range []struct {
		name  string
		steps []api.CheckStep
	}{{"value", r.ValueSteps}, {"threshold", r.ThresholdSteps}} {
		if len(s.steps) > 0 {
			d.Gap()
			d.Table(stepsTable(s.name, s.steps))
		}
	}
	if len(r.Incidents) > 0 {
		d.Gap()
		d.Table(q.incidents(r.Incidents))
	}
	return d
}

func stepsTable(name string, steps []api.CheckStep) *Table {
	t := Columns(name+", step by step", "")
	for _, s := range steps {
		t.Add(strings.Repeat("  ", s.Depth)+s.Text, s.Value)
	}
	return t
}

func (q Checks) incidents(list []api.Incident) *Table {
	t := Columns("begin", "end", "worst", "check", "what", "acknowledged", "id")
	for _, i := range list {
		name, acked := i.Check, ""
		if i.Kind == "marked" {
			name = "marked: " + i.Name
		}
		if i.Acked != nil {
			acked = i.Acked.User
		}
		end := q.clock(i.End)
		if math.IsNaN(float64(i.End)) {
			end = "open"
		}
		t.Add(q.clock(i.Start), end, i.Worst, name, i.Text, acked, i.ID)
	}
	return t
}

func (q Checks) History(r *api.CheckResponse) *Document {
	d := &Document{Name: "checks", Data: r}
	t := Columns("time", ">value", ">least", ">most", "held against")
	unit := r.Check.Unit
	for _, p := range r.Points {
		t.Add(q.clock(p.Time), checkValue(p.Value, unit), checkValue(p.Min, unit), checkValue(p.Max, unit), bandsText(p.Bands, unit))
	}
	d.Table(t)
	if len(r.States) > 0 {
		d.Gap()
		d.Table(q.states(r.States))
	}
	if len(r.Incidents) > 0 {
		d.Gap()
		d.Table(q.incidents(r.Incidents))
	}
	return d
}

func (q Checks) states(list []api.CheckState) *Table {
	t := Columns("state", "from", ">for", "why")
	for _, s := range list {
		name := s.State
		if s.Soft {
			name += " (soft)"
		}
		long := "until now"
		if known(s.End) {
			long = figure.Span(float64(s.End - s.Start))
		}
		t.Add(name, q.clock(s.Start), long, s.Why)
	}
	return t
}

func (q Checks) Backtest(r *api.CheckBacktestResponse) *Document {
	d := &Document{Name: "checks", Data: r}
	t := Columns("alarm", ">for", "worst", ">value", "marked incident")
	names := map[string]string{}
	for _, i := range r.Incidents {
		names[i.ID] = i.Name
	}
	for _, a := range r.Alarms {
		long := "still"
		if known(a.End) {
			long = figure.Span(float64(a.End - a.Start))
		}
		t.Add(q.clock(a.Start), long, a.Worst, checkValue(a.Value, r.Unit), names[a.Incident])
	}
	if len(r.Alarms) > 0 {
		d.Table(t)
		d.Gap()
	}
	d.Line(fmt.Sprintf("%s in %s every %s, %s a week; not OK for %s", Plural(len(r.Alarms), "alarm"), Plural(r.Runs, "run"),
		figure.Span(float64(r.Every)), orDash(r.PerWeek), figure.Span(float64(r.Seconds))))
	if r.Nulls > 0 || r.NoThreshold > 0 {
		d.Line(fmt.Sprintf("%s without a value, %s without a threshold", Plural(r.Nulls, "run"), Plural(r.NoThreshold, "run")))
	}
	if len(r.Incidents) > 0 {
		d.Line(fmt.Sprintf("of %s %d found, %d missed; %s outside of them", Plural(len(r.Incidents), "marked incident"), r.Found, r.Missed, Plural(r.False, "alarm")))
		for _, i := range r.Incidents {
			if i.Found {
				d.Line(fmt.Sprintf("    %s: found %s after it began", i.Name, figure.Span(float64(i.After))))
			} else {
				d.Line(fmt.Sprintf("    %s: missed", i.Name))
			}
		}
	} else {
		d.Line("no incidents are marked in this range: tailscope check incident add says when there were some")
	}
	if b := r.Before; b != nil {
		line := fmt.Sprintf("as it is now: %s, %s a week", Plural(b.Alarms, "alarm"), orDash(b.PerWeek))
		if len(r.Incidents) > 0 {
			line += fmt.Sprintf("; %d found, %d missed, %s outside", b.Found, b.Missed, Plural(b.False, "alarm"))
		}
		d.Line(line)
	}
	if r.Truncated {
		d.Line("note: this took too long and stops early; ask for less, or for a larger --every")
	}
	return d
}

func orDash(f api.Float) string {
	if !known(f) {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(f)), ".0")
}

// Maintenance returns the times without notifications.
func (q Checks) Maintenance(r *api.MaintenanceResponse) *Document {
	d := &Document{Name: "maintenance", Data: r}
	t := Columns("now", "name", "checks", "begin", "end", "by", "id")
	for _, m := range r.Windows {
		now, what, by, id := "", strings.Join(m.Checks, ", "), m.User, m.ID
		if m.Active {
			now = "active"
		}
		if m.Match != "" {
			what = strings.TrimPrefix(what+" "+m.Match, " ")
		}
		if what == "" {
			what = "all"
		}
		if m.Fixed {
			by, id = "a file", ""
		}
		begin, end := q.clock(m.Start), q.clock(m.End)
		if m.When != "" {
			begin, end = m.When, ""
		}
		t.Add(now, m.Name, what, begin, end, by, id)
	}
	if len(t.Rows) == 0 {
		d.Line("no maintenance")
	} else {
		d.Table(t)
	}
	return d
}

// Evaluation returns the value of an expression, step by step.
func (q Checks) Evaluation(r *api.CheckEvaluateResponse) *Document {
	d := &Document{Name: "expression", Data: r}
	if known(r.Value) {
		d.Line(plainNumber(float64(r.Value)))
	} else {
		d.Line("null")
	}
	if len(r.Steps) > 1 {
		d.Gap()
		d.Table(stepsTable("expression", r.Steps))
	}
	return d
}

// Incidents returns incidents, a line each.
func (q Checks) Incidents(r *api.IncidentsResponse) *Document {
	d := &Document{Name: "incidents", Data: r}
	if len(r.Incidents) == 0 {
		d.Line("no incidents in that range")
	} else {
		d.Table(q.incidents(r.Incidents))
	}
	return d
}
