package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"time"
)

func ClockIn(t api.Float, zone *time.Location) string {
	return time.UnixMilli(int64(t * 1e3)).In(zone).Format("2006-01-02 15:04:05")
}

// Session adds a session on mirrored traffic, and its account.
func (d *Document) Session(x *api.Session, zone *time.Location) {
	d.Heading(x.Name)
	when := x.State + " since " + ClockIn(x.Start, zone)
	if !math.IsNaN(float64(x.End)) {
		when = fmt.Sprintf("%s, from %s to %s", x.State, ClockIn(x.Start, zone), ClockIn(x.End, zone))
	}
	d.Item(fmt.Sprintf("%s of %s, id %s: %s", x.Kind, x.Service, x.ID, when))
	m := x.Mirror
	if m == nil {
		return
	}
	skipped := ""
	if n := Sum(m.Skipped); n > 0 {
		skipped = fmt.Sprintf(", of which %s were not chosen (%s)", figure.Thousands(n), Causes(m.Skipped))
	}
	d.Item(fmt.Sprintf("%s requests at %s%s", figure.Thousands(m.Requests), m.Listen, skipped))
	if n := Sum(m.Failed); n > 0 {
		d.Item(fmt.Sprintf("%s got no whole answer from the primary (%s)", figure.Thousands(n), Causes(m.Failed)))
	}
	d.Gap()
	t := Columns("server", "role", ">in use", ">offered", ">queued", ">dropped", ">waiting", ">failed", ">unpaired", ">paired", "why")
	targets := append([]api.MirrorTarget{m.Primary}, m.Shadows...)
	for i := range targets {
		s := &targets[i]
		row := []string{s.Name, s.Role, fmt.Sprintf("%d of %d", s.Using, len(s.Servers))}
		if a := s.Account; a == nil {
			row = append(row, "", "", "", "", "", "", "", "")
		} else {
			var why []string
			for _, of := range []map[string]uint64{a.Dropped, a.Failed} {
				if Sum(of) > 0 {
					why = append(why, Causes(of))
				}
			}
			row = append(row, figure.Thousands(a.Offered), figure.Thousands(a.Queued), figure.Thousands(Sum(a.Dropped)), figure.Thousands(a.Waiting+a.Pairing), figure.Thousands(Sum(a.Failed)), figure.Thousands(a.Unpaired), figure.Thousands(a.Paired), strings.Join(why, ", "))
		}
		t.Rows = append(t.Rows, row)
	}
	d.Table(t)
}

// Verdict adds the verdict on each candidate.
func (d *Document) Verdict(v *api.MirrorVerdictResponse) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if i > 0 {
			d.Gap()
		}
		d.Heading(c.Candidate + ": " + c.Headline)
		d.Line("Verdict: " + string(c.Verdict))
		d.Gap()
		intervals := trimPercent(v.Level)
		if v.Live {
			intervals += " that hold at every look"
		}
		d.Item(fmt.Sprintf("%s requests answered by both %s and %s, in %d slots of %s; intervals of %s", figure.Thousands(c.Requests), c.Candidate, c.Against, v.Slots, figure.Span(float64(v.Slot)), intervals))
		if v.Allow != "" {
			d.Item("allowed: " + v.Allow)
		}
		if c.Caveat != "" {
			d.Item(c.Caveat)
		}
		d.Gap()
		d.Table(measuresTable(c))
		for _, list := range []struct {
			name   string
			rows   []api.MirrorRow
			judged int
		}{{"operation", c.Operations, c.OperationsJudged}, {"tenant", c.Tenants, c.TenantsJudged}} {
			if len(list.rows) > 0 {
				d.Gap()
				d.Table(rowsTable(list.name, list.rows))
				if more := list.judged - len(list.rows); more > 0 {
					d.Paragraph()
					d.Line("and " + Plural(more, "more "+list.name))
				}
			}
		}
	}
	if len(v.Warnings) > 0 {
		d.Gap()
	}
	for _, w := range v.Warnings {
		d.Item("warning: " + w.Text)
	}
}

func measuresTable(c *api.MirrorVerdict) *Table {
	t := Columns("", ">"+c.Against, ">"+c.Candidate, ">change", ">interval", ">noise floor", "verdict")
	for i := range c.Measures {
		m := &c.Measures[i]
		t.Rows = append(t.Rows, []string{strings.ReplaceAll(m.Name, "_", " "), mirrorValue(m, m.Reference), mirrorValue(m, m.Candidate), mirrorEffect(m, m.Effect), mirrorInterval(m), noiseFloor(m), mirrorVerdict(m)})
	}
	return t
}

func mirrorVerdict(m *api.MirrorMeasure) string {
	if m.Allowed != "" && m.Verdict != judge.TooLittle {
		return string(m.Verdict) + "; " + m.Allowed
	}
	return string(m.Verdict)
}

func rowsTable(name string, rows []api.MirrorRow) *Table {
	t := &Table{}
	t.Column(name, false)
	t.Column("pairs", true)
	for _, m := range rows[0].Measures {
		t.Column(strings.ReplaceAll(m.Name, "_", " "), true)
		t.Column("interval", true)
	}
	t.Column("verdict", false)
	for _, r := range rows {
		row := []string{r.Name, figure.Thousands(r.Requests)}
		for i := range r.Measures {
			row = append(row, mirrorEffect(&r.Measures[i], r.Measures[i].Effect), mirrorInterval(&r.Measures[i]))
		}
		verdict := string(r.Verdict)
		if r.Lead != "" && (judge.Moved(r.Verdict) || r.Verdict == judge.WithinFloor) {
			verdict += " by " + strings.ReplaceAll(r.Lead, "_", " ")
		}
		t.Rows = append(t.Rows, append(row, verdict))
	}
	return t
}

func mirrorValue(m *api.MirrorMeasure, v api.Float) string {
	switch m.Name {
	case "errors":
		return Percent(v)
	case "ratio":
		return Ratio(v)
	case "bytes":
		return bytesUnit.Value(v)
	}
	return SecondsUnit.Value(v)
}

func mirrorEffect(m *api.MirrorMeasure, f api.Float) string {
	switch v := float64(f); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case m.Name == "errors":
		return signed(100*v, 2) + "pt"
	}
	return change(f)
}

func mirrorInterval(m *api.MirrorMeasure) string {
	return effectEnds(m.Low, m.High, m.Name != "errors", func(v api.Float) string { return mirrorEffect(m, v) })
}

// mirrorIntervals returns the changes of a candidate.
func mirrorIntervals(v *api.MirrorVerdict) []Interval {
	var all []Interval
	for i := range v.Measures {
		m := &v.Measures[i]
		if m.Name != "errors" {
			all = append(all, Interval{Name: strings.ReplaceAll(m.Name, "_", " "), Verdict: m.Verdict, Ratio: float64(m.Effect), Low: float64(m.Low), High: float64(m.High), Text: m.Sentence})
		}
	}
	return all
}

func noiseFloor(m *api.MirrorMeasure) string {
	v := float64(m.Noise)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case m.Name == "errors":
		return "±" + strings.TrimLeft(signed(100*v, 2), "+±") + "pt"
	}
	return "±" + Percent(m.Noise)
}

// SumPart is a part of a sum, with its own parts by cause.
type SumPart struct {
	Name   string
	N      uint64
	Causes map[string]uint64
}

// SumLine writes a sum, without the requests under way if there are none.
func SumLine(b *strings.Builder, name string, total uint64, parts []SumPart) {
	var out []string
	var all uint64
	for _, p := range parts {
		all += p.N
		if p.N == 0 && p.Causes == nil && (p.Name == "queued" || p.Name == "waiting" || p.Name == "pairing") {
			continue
		}
		text := p.Name + " " + figure.Thousands(p.N)
		if why := Causes(p.Causes); why != "" {
			text += " (" + why + ")"
		}
		out = append(out, text)
	}
	fmt.Fprintf(b, "  %-8s %s = %s\n", name, figure.Thousands(total), strings.Join(out, " + "))
	if all != total {
		fmt.Fprintf(b, "  the sum does not close: the parts are %s\n", figure.Thousands(all))
	}
}

// Turned returns the table with a row for every column, for narrow places.
func (t *Table) Turned() *Table {
	out := &Table{}
	out.Column(t.Header[0], false)
	for _, row := range t.Rows {
		out.Column(row[0], true)
	}
	for i, h := range t.Header[1:] {
		line := []string{h}
		for _, row := range t.Rows {
			line = append(line, row[i+1])
		}
		out.Rows = append(out.Rows, line)
	}
	return out
}

func Sum(by map[string]uint64) uint64 {
	var n uint64
	for _, v := range by {
		n += v
	}
	return n
}

// Causes lists counts by word, the greatest first.
func Causes(by map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			if by[a] > by[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, n := range names {
		if by[n] > 0 {
			parts = append(parts, strings.ReplaceAll(n, "_", " ")+" "+figure.Thousands(by[n]))
		}
	}
	return strings.Join(parts, ", ")
}

// Duration writes 12m31s, 1h02m.
func Duration(d time.Duration) string {
	s := int(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}
