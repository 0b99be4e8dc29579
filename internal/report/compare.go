package report

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// SpanFamily is the family of requests and their parts; selfFamily is the time of a span
// outside its parts.
const SpanFamily, selfFamily = "span_duration_seconds", "span_self_seconds"

// Comparison is a comparison as people read it.
type Comparison struct {
	R    *api.CompareResponse
	Zone *time.Location
	Unit Unit
	// width is the width of text, in characters.
	width int
}

func NewComparison(r *api.CompareResponse, zone *time.Location, width int) *Comparison {
	d := &Comparison{r, zone, UnitOf(r.Family), width}
	switch r.Unit {
	case "seconds":
		d.Unit = SecondsUnit
	case "bytes":
		d.Unit = bytesUnit
	}
	return d
}

// asFlags finds parameters of the API that are followed by the same as flags.
var asFlags = regexp.MustCompile(`\S+=\S+ \((--[^)]+)\)`)

// Document returns the comparison's report.
func (d *Comparison) Document() *Document {
	r := d.R
	out := &Document{Name: r.Sentence, Data: r}
	out.Heading(r.Sentence)
	out.Line("Verdict: " + string(r.Verdict))
	if r.Whole != nil {
		out.Paragraph()
		out.Line(figure.Sentence(r.Whole.Sentence))
	}
	out.Gap()
	for _, s := range []struct {
		letter string
		side   api.CompareSide
	}{{"A", r.A}, {"B", r.B}} {
		name := ""
		if s.side.Name != s.letter {
			name = " " + s.side.Name + ","
		}
		text := fmt.Sprintf("%s:%s %s, %s %s, %s", s.letter, name, d.sideTime(&s.side),
			figure.Thousands(s.side.Requests), d.counted()+sampled(s.side.Effective), PerTime(s.side.Rate))
		if d.spans() {
			text += ", " + figure.Thousands(s.side.Errors) + " failed"
		}
		out.Item(text)
	}
	how := "slot by slot"
	if !r.Paired {
		how = "as windows that differ in time"
	}
	if r.A.Windows != nil {
		how = "window by window: what differs among the windows of a side is the noise"
	}
	intervals := trimPercent(r.Level)
	if r.Live {
		intervals += " that hold at every look"
	}
	if r.Provisional {
		intervals += "; provisional: only gross changes count until there are 20 slots of 10 s"
	}
	out.Item(fmt.Sprintf("slots of %s, compared %s; intervals of %s", figure.Span(float64(r.Slot)), how, intervals))
	if r.Family != SpanFamily {
		of := r.Family
		if r.Per != "" {
			of += " per " + r.Per
		}
		out.Item("figures of " + of)
	}
	out.Gap()
	t := Columns("", ">A", ">B", ">raw", ">like for like", ">interval", ">bucket", "verdict")
	for i := range r.Measures {
		t.Rows = append(t.Rows, d.measure(&r.Measures[i]))
	}
	out.Table(t)
	if r.Curve != nil {
		if lines := RatioPicture(r.Curve, d.width); lines != nil {
			out.Gap()
			out.Line(d.drawn())
			out.Picture(lines)
		}
	}
	for _, list := range []struct {
		name string
		rows []api.CompareRow
	}{{"operation", r.Operations}, {"tenant", r.Tenants}} {
		if len(list.rows) > 1 || len(list.rows) == 1 && list.name == "tenant" {
			out.Gap()
			if list.name == "operation" && !d.spans() {
				list.name = "series"
			}
			out.Table(d.list(list.name, list.rows))
		}
	}
	if r.Light != nil {
		out.Gap()
		out.Item(r.Light.Sentence)
	}
	if len(r.Warnings) > 0 {
		out.Gap()
	}
	for _, x := range r.Warnings {
		out.Item("warning: " + asFlags.ReplaceAllString(x.Text, "$1"))
	}
	return out
}

// ofSpans reports whether a family counts requests, or parts of them.
func ofSpans(family string) bool { return family == SpanFamily || family == selfFamily }

func (d *Comparison) spans() bool { return ofSpans(d.R.Family) }

// counted returns the noun of the things counted.
func (d *Comparison) counted() string {
	switch {
	case d.spans() || d.R.Per != "":
		return "requests"
	case d.R.Whole != nil || len(d.R.Measures) > 1:
		return "observations"
	}
	return "samples"
}

// days names the days before the last that make a side.
func (d *Comparison) days(all []api.Range) string {
	if len(all) < 2 {
		return ""
	}
	const few = 3
	var dates []string
	for _, r := range all[1:min(len(all), few+1)] {
		dates = append(dates, time.Unix(r.Start, 0).In(d.Zone).Format(time.DateOnly))
	}
	s := " and the same hours of " + strings.Join(dates, ", ")
	if more := len(all) - 1 - few; more > 0 {
		s += fmt.Sprintf(" and %d more days", more)
	}
	return s
}

// sideTime says when a side is, of several windows or days how many.
func (d *Comparison) sideTime(s *api.CompareSide) string {
	from, to := d.clock(s.Start), d.clock(s.End)
	if len(s.Windows) == 0 {
		return from + " to " + to + d.days(s.Days)
	}
	long := 0.0
	for _, r := range s.Windows {
		long += float64(r.End - r.Start)
	}
	return fmt.Sprintf("%s from %s to %s, %s in all", figure.Counted(len(s.Windows), "window"), from, to, figure.Span(long))
}

func (d *Comparison) clock(t int64) string {
	return time.Unix(t, 0).In(d.Zone).Format("2006-01-02 15:04:05")
}

// measure returns a line of the table: A, B and the interval are like for like.
func (d *Comparison) measure(m *api.CompareMeasure) []string {
	f, like := &m.Raw, "-"
	if m.Like != nil {
		f, like = m.Like, d.effect(m, m.Like.Effect)
	}
	value := func(v api.Float) string {
		switch {
		case m.Name == "errors":
			return ratio(v)
		case m.Name == "apdex":
			return Score(v)
		case m.Name == "rate" && !math.IsNaN(float64(v)):
			if len(d.R.Measures) > 1 || d.R.Family == SpanFamily { // of observations or requests; else of what a counter counts
				return figure.ThreeDigits(float64(v)) + "/s"
			}
			return d.Unit.Value(v) + "/s"
		}
		return d.Unit.Value(v)
	}
	bucket := ""
	if f.Error > 0 {
		bucket = "±" + ratio(f.Error)
	}
	verdict := string(m.Verdict)
	switch {
	case m.Verdict == judge.Same:
		verdict += " within " + d.margin(m)
	case m.Verdict == judge.TooLittle && f.JudgedAt > 0:
		verdict = "too early: can be judged at " + d.clock(f.JudgedAt)
	case m.Verdict == judge.TooLittle && f.Short != "":
		verdict += ": " + f.Short
	}
	if m.Allowed != "" && m.Verdict != judge.TooLittle {
		verdict += "; " + m.Allowed
	}
	if more := float64(f.Needed); more > 1 && f.JudgedAt == 0 && (m.Verdict == judge.NoEvidence || m.Verdict == judge.TooLittle) {
		long := figure.Planned(float64(f.NeededSeconds))
		if f.NeededWindows > 0 {
			long = figure.Counted(f.NeededWindows, "window")
		}
		verdict += "; needs about " + long + " a side"
	}
	return []string{strings.ReplaceAll(m.Name, "_", " "), value(f.A), value(f.B), d.effect(m, m.Raw.Effect), like, d.interval(m, f), bucket, verdict}
}

func (d *Comparison) margin(m *api.CompareMeasure) string {
	switch m.Name {
	case "errors":
		return "0.1 points"
	case "apdex":
		return "0.01"
	}
	return trimPercent(d.R.Within)
}

func (d *Comparison) effect(m *api.CompareMeasure, f api.Float) string {
	v := float64(f)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || m.Verdict == judge.TooLittle:
		return "-"
	case m.Scale == "ratio":
		return change(f)
	case m.Name == "errors":
		return signed(100*v, 2) + "pt"
	}
	return signed(v, 3)
}

func (d *Comparison) interval(m *api.CompareMeasure, f *api.CompareFigure) string {
	return effectEnds(f.Low, f.High, m.Scale == "ratio", func(v api.Float) string { return d.effect(m, v) })
}

func (d *Comparison) list(name string, rows []api.CompareRow) *Table {
	t := &Table{}
	t.Column(name, false)
	t.Column(d.counted()+" A", true)
	t.Column("B", true)
	for _, m := range rows[0].Measures {
		t.Column(strings.ReplaceAll(m.Name, "_", " "), true)
		t.Column("interval", true)
	}
	t.Column("", false)
	for _, r := range rows {
		title := r.Operation
		if name == "tenant" {
			title = r.Tenant
		}
		row := []string{OrNone(title), worth(r.RequestsA, r.EffectiveA), worth(r.RequestsB, r.EffectiveB)}
		for i := range r.Measures {
			m := &r.Measures[i]
			f := m.Judged()
			row = append(row, d.effect(m, f.Effect), d.interval(m, f))
		}
		t.Rows = append(t.Rows, append(row, rowVerdict(r)))
	}
	return t
}

// rowVerdict lists the measures of a row that changed, by p-values adjusted for all rows.
func rowVerdict(r api.CompareRow) string {
	var words []string
	for _, m := range r.Measures {
		if m.Change != "" && m.Adjusted <= 0.05 {
			words = append(words, strings.ReplaceAll(m.Name, "_", " ")+" "+string(m.Verdict))
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// sampled says how much sampled requests say; nothing if none was sampled.
func sampled(effective uint64) string {
	if effective == 0 {
		return ""
	}
	return " (sampled: they say as much as " + figure.Thousands(effective) + ")"
}
