package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/figure"
)

// unixFloat writes a moment for scripts.
func unixFloat(f api.Float) string { return strconv.FormatFloat(float64(f), 'f', -1, 64) }

// milliClock writes a moment to the millisecond.
func milliClock(f api.Float, zone *time.Location) string {
	return time.UnixMilli(int64(math.Round(float64(f) * 1e3))).In(zone).Format("Jan 02 15:04:05.000")
}

// Traces returns the requests whose traces are kept. If the answer has their longest parts, the
// groups that have one in common come first.
func Traces(r *api.TracesResponse, zone *time.Location) *Document {
	d := &Document{Name: "traces", Data: r}
	where := len(r.Groups) > 0
	if where {
		d.Table(traceGroups(r))
		d.Gap()
	}
	columns := []string{"time", "service", "operation", "tenant", ">duration", "", "why", "trace"}
	header := []string{"start_unix_seconds", "service", "operation", "tenant", "duration_seconds", "failed", "why", "trace_id", "span_id"}
	if where {
		columns, header = slices.Insert(columns, 6, "longest part"), append(header, "longest_service", "longest_operation", "longest_component", "longest_share")
	}
	t := Columns(columns...)
	var rows [][]string
	for _, x := range r.Traces {
		failed := ""
		if x.Failed {
			failed = "failed"
		}
		row := []string{milliClock(x.Start, zone), x.Service, x.Operation, x.Tenant, SecondsUnit.Value(x.Duration), failed, strings.Join(x.Why, ", "), x.TraceID}
		raw := []string{unixFloat(x.Start), x.Service, x.Operation, x.Tenant, Raw(x.Duration), strconv.FormatBool(x.Failed), strings.Join(x.Why, " "), x.TraceID, x.SpanID}
		if where {
			part := make([]string, 4)
			if l := x.Longest; l != nil {
				part = []string{l.Service, l.Operation, l.Component, Raw(l.Share)}
			}
			row, raw = slices.Insert(row, 6, partOf(x.Service, x.Longest)), append(raw, part...)
		}
		t.Add(row...)
		rows = append(rows, raw)
	}
	d.Table(t)
	d.Sheet(header, rows)
	return d
}

// traceGroups tells what kept requests have in common.
func traceGroups(r *api.TracesResponse) *Table {
	t := Columns(">requests", "operation", "longest part", ">share", ">took", "tenant")
	for _, g := range r.Groups {
		took := SecondsUnit.Value(g.Min)
		if g.Requests > 1 {
			took = ends(SecondsUnit.Value(g.Min), SecondsUnit.Value(g.Max))
		}
		tenant := g.Tenant
		if g.Tenants > 1 {
			tenant = fmt.Sprintf("%d tenants", g.Tenants)
		}
		t.Add(fmt.Sprintf("%d of %d", g.Requests, len(r.Traces)), g.Operation, partOf(g.Service, &g.Longest), figure.Percent(float64(g.Longest.Share)), took, tenant)
	}
	return t
}

// partOf names a part of a request of a service; p may be nil.
func partOf(service string, p *api.TracePart) string {
	switch {
	case p == nil:
		return ""
	case p.Itself:
		return "itself"
	case p.Service != service:
		return p.Service + ": " + p.Operation
	}
	return p.Operation
}

// A span is drawn dark where it is on the critical path, light elsewhere, and
// by a thin line while it waited in a queue.
const (
	onPath  = '█'
	offPath = '░'
	waited  = '·'
)

// minBar is the least width of the picture.
const minBar = 20

// TraceOptions configures the picture of a trace.
type TraceOptions struct {
	Zone  *time.Location
	Width int  // in characters
	Texts bool // statements stand under their spans
}

// Trace returns a trace as a waterfall.
func Trace(r *api.TraceResponse, o TraceOptions) *Document {
	d := &Document{Name: "trace " + r.TraceID, Data: r}
	d.Sheet(traceSheet(r))
	state := ""
	if !r.Complete {
		state = ", incomplete"
	}
	if r.LeftOut > 0 {
		state += fmt.Sprintf(", %d more left out", r.LeftOut)
	}
	d.Line("trace " + r.TraceID)
	d.Line(fmt.Sprintf("%s, %s, %d spans%s", milliClock(r.Start, o.Zone), SecondsUnit.Value(r.Duration), len(r.Spans), state))
	d.Gap()
	names := make([]string, len(r.Spans))
	longest := 0
	for i, s := range r.Spans {
		names[i] = spanName(r, i, s)
		longest = max(longest, utf8.RuneCountInString(names[i]))
	}
	const figures = 2 + 8 + 2 + 8 // two columns of times
	room := o.Width - figures
	nameWidth := min(longest, max(room/2, room-60))
	width := max(room-nameWidth-2, minBar)
	lines := []string{fmt.Sprintf("%-*s  %-*s%10s%10s", nameWidth, "", width, "0 … "+SecondsUnit.Value(r.Duration), "took", "itself")}
	for i, s := range r.Spans {
		mark := ""
		if s.Failed {
			mark = " failed"
		}
		if s.Async {
			mark += " async"
		}
		if s.Queue > 0 {
			mark += " after " + SecondsUnit.Value(s.Queue) + " in a queue"
		}
		if s.Orphan {
			mark += " orphan"
		}
		if s.Shifted != 0 {
			mark += " clock moved by " + SecondsUnit.Value(s.Shifted)
		}
		lines = append(lines, fmt.Sprintf("%s  %s%s%s%s", padRight(cut(names[i], nameWidth), nameWidth), spanBar(s, float64(r.Duration), width),
			Pad(SecondsUnit.Value(s.Duration), 10), Pad(SecondsUnit.Value(s.Self), 10), mark))
		if o.Texts && s.Text != "" {
			lines = append(lines, strings.Repeat(" ", 2*s.Depth+4)+Printable(s.Text))
		}
	}
	d.Picture(lines)
	d.Gap()
	d.Line(fmt.Sprintf("%c on the critical path  %c elsewhere  %c waited in a queue", onPath, offPath, waited))
	var parts []string
	for _, c := range r.Components {
		if c.Self > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", c.Component, SecondsUnit.Value(c.Self)))
		}
	}
	if len(parts) > 0 {
		d.Line("where the time went: " + strings.Join(parts, ", "))
	}
	if r.Link != "" {
		d.Line(r.Link)
	}
	return d
}

// spanName returns the span's operation, indented, with its service if that differs from
// its parent's.
func spanName(r *api.TraceResponse, i int, s api.TraceSpan) string {
	name := strings.Repeat("  ", s.Depth) + s.Operation
	if s.Parent < 0 || s.Parent >= len(r.Spans) || s.Parent == i || r.Spans[s.Parent].Service != s.Service {
		name = strings.Repeat("  ", s.Depth) + s.Service + " " + s.Operation
	}
	if s.Component != "" && s.Component != "app" {
		name += " [" + s.Component + "]"
	}
	return Printable(name)
}

// spanBar draws the span within width characters of total seconds.
func spanBar(s api.TraceSpan, total float64, width int) string {
	cells := []rune(strings.Repeat(" ", width))
	fill := func(from, to float64, r rune) {
		if !(total > 0) || to < from {
			return
		}
		a := min(max(int(from/total*float64(width)), 0), width-1)
		z := min(int(math.Ceil(to/total*float64(width)-1e-9)), width)
		for i := a; i < max(z, a+1); i++ {
			cells[i] = r
		}
	}
	start, end := float64(s.Start), float64(s.Start+s.Duration)
	if q := float64(s.Queue); q > 0 {
		fill(start-q, start, waited)
	}
	fill(start, end, offPath)
	for i := 0; i+1 < len(s.Path); i += 2 {
		fill(s.Path[i], s.Path[i+1], onPath)
	}
	return string(cells)
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

func traceSheet(r *api.TraceResponse) (header []string, rows [][]string) {
	header = []string{"span_id", "parent_span_id", "service", "operation", "component", "kind", "tenant", "instance", "failed",
		"start_seconds", "duration_seconds", "self_seconds", "critical_seconds", "text"}
	for _, s := range r.Spans {
		parent := ""
		if s.Parent >= 0 && s.Parent < len(r.Spans) {
			parent = r.Spans[s.Parent].SpanID
		}
		rows = append(rows, []string{s.SpanID, parent, s.Service, s.Operation, s.Component, s.Kind, s.Tenant, s.Instance, strconv.FormatBool(s.Failed),
			Raw(s.Start), Raw(s.Duration), Raw(s.Self), Raw(s.Critical), s.Text})
	}
	return header, rows
}
