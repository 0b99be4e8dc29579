package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
)

// Marks returns marks by their times, with the finding at each.
func Marks(r *api.MarksResponse, zone *time.Location) *Document {
	d := &Document{Name: "marks", Data: r}
	marks := slices.Clone(r.Marks)
	slices.SortFunc(marks, func(a, b api.Mark) int { return cmp.Or(cmp.Compare(a.Time, b.Time), strings.Compare(a.ID, b.ID)) })
	header := []string{"time", "name", "service", "verdict", "found", "revision", "user", "description", "link", "id"}
	t := Columns(header...)
	var rows [][]string
	for _, m := range marks {
		word, found := verdictOf(m.Verdict)
		row := func(at, where, found string) []string {
			return []string{at, m.Name, where, word, found, m.Revision, m.User, m.Description, m.Link, m.ID}
		}
		t.Add(row(ClockIn(m.Time, zone), whereOf(&m), withoutInterval(found))...)
		rows = append(rows, row(unixFloat(m.Time), m.Service, found))
	}
	d.Table(t)
	if len(r.Groups) > 0 {
		d.Gap()
		for _, g := range r.Groups {
			d.Line(g.Sentence)
		}
	}
	d.Sheet(header, rows)
	return d
}

// verdictOf returns a verdict in two cells of a table: the word and the finding.
func verdictOf(v *api.MarkVerdict) (word, found string) {
	switch {
	case v == nil:
		return "", ""
	case v.Verdict == "":
		return string(v.State), ""
	case v.State == marks.Early:
		return string(v.Verdict) + ", so far", v.Sentence
	case v.State == marks.Provisional:
		return string(v.Verdict) + ", provisional", v.Sentence
	}
	return string(v.Verdict), v.Sentence
}

// secondsAfter returns how many seconds after the mark a verdict is based on, at most.
func secondsAfter(v *api.MarkVerdict) (most int64) {
	for _, s := range v.Services {
		most = max(most, s.After.End-s.After.Start)
	}
	return most
}

var interval = regexp.MustCompile(` \(\d[\d.]* % interval`)

// withoutInterval returns a sentence up to its first interval, for a line of a table.
func withoutInterval(sentence string) string {
	if at := interval.FindStringIndex(sentence); at != nil {
		return sentence[:at[0]]
	}
	return sentence
}

// whereOf returns what a mark concerns: shop in staging; empty for every service.
func whereOf(m *api.Mark) string {
	return judge.Where(m.Service, m.Environment, "")
}

// Mark returns a mark as it is read: what it is, then the word, then the reasons.
func Mark(m *api.Mark, zone *time.Location) *Document {
	d := &Document{Name: m.Name, Data: m}
	clock := func(t api.Float) string { return ClockIn(t, zone) }
	d.Line(fmt.Sprintf("%s, %s, %s", m.Name, cmp.Or(whereOf(m), "every service"), clock(m.Time)))
	for _, x := range []string{m.Revision, m.User, m.Description, m.Link} {
		if x != "" {
			d.Line(x)
		}
	}
	if m.Allow != "" {
		d.Line("allowed: " + m.Allow)
	}
	v := m.Verdict
	if v == nil {
		return d
	}
	word, _ := verdictOf(v)
	d.Gap()
	d.Line(word)
	d.Line(v.Sentence)
	if v.State == marks.Provisional {
		d.Line(fmt.Sprintf("provisional, from %d s of one-second slots", secondsAfter(v)))
	}
	if v.First > 0 {
		d.Line("first judged at " + clock(v.First))
	}
	if !IsNaN(v.Next) {
		when := "will be judged again at "
		if IsNaN(v.Judged) {
			when = "will be judged at "
		}
		d.Line(when + clock(v.Next))
	}
	for _, s := range v.Services {
		d.Gap()
		d.Line(fmt.Sprintf("%s: %s", judge.Where(s.Service, s.Environment, ""), s.Verdict))
		d.Indented(fmt.Sprintf("%s–%s against %s–%s", clock(api.Float(s.Before.Start)), clock(api.Float(s.Before.End)), clock(api.Float(s.After.Start)), clock(api.Float(s.After.End))))
		for _, x := range s.Measures {
			d.Indented(x.Sentence)
		}
		for _, row := range s.Operations {
			for _, x := range row.Measures {
				if x.Change != "" {
					d.Indented(x.Sentence)
				}
			}
		}
		for _, w := range s.Warnings {
			d.Indented("warning: " + w.Text)
		}
	}
	return d
}
