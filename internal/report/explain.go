package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/observe/explain"
)

// Explain returns the labels, and pairs of them, that a rectangle of the heatmap has more
// often than before, or than the rest.
func Explain(r *api.ExplainResponse, zone *time.Location) *Document {
	d := &Document{Name: "explain", Data: r}
	u := UnitOf(r.Family)
	low, high := float64(r.Low), float64(r.High)
	band := "of any value"
	switch none := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }; {
	case !none(low) && !none(high):
		band = u.Value(r.Low) + " to " + u.Value(r.High)
	case !none(low):
		band = "above " + u.Value(r.Low)
	case !none(high):
		band = "up to " + u.Value(r.High)
	}
	when := func(t int64) string { return time.Unix(t, 0).In(zone).Format("2006-01-02 15:04:05") }
	d.Line(fmt.Sprintf("%s inside, %s outside: %s to %s, %s", figure.Thousands(r.Inside), figure.Thousands(r.Outside), when(r.From), when(r.To), band))
	if b := r.Before; b != nil {
		ends := ""
		if b.Mark != "" {
			ends = ", up to mark " + cmp.Or(b.Name, b.Mark)
		}
		d.Line(fmt.Sprintf("before, %s of %s inside: %s to %s%s", figure.Thousands(b.Inside), figure.Thousands(b.Count), when(b.Start), when(b.End), ends))
	}
	first, than := "more inside than outside", "outside"
	if r.Before != nil {
		first, than = "became slow", "before"
	}
	if r.Sentence != "" {
		d.Line(r.Sentence)
	}
	if e := r.Errors; e != nil && e.Sentence != "" && !strings.HasSuffix(r.Sentence, e.Sentence) {
		d.Line(e.Sentence)
	}
	explainItems(d, r.Items, first, "inside", than)
	if e := r.Errors; e != nil {
		explainItems(d, e.Items, "fail more often", "failed", than)
	}
	for i, n := range r.Notes {
		if i == 0 {
			d.Gap()
		}
		d.Line("note: " + n)
	}
	d.Sheet(explainSheet(r))
	return d
}

// explainItems adds a table of items, if there are any.
func explainItems(d *Document, items []api.ExplainItem, first, inside, outside string) {
	if len(items) == 0 {
		return
	}
	t := Columns(first, ">"+inside, ">"+outside, ">difference", ">times", "")
	for n, i := range items {
		note := ""
		for name := range i.Through {
			if _, own := i.Labels[name]; !own {
				note = "only with " + explain.Title(api.Labels{name: i.Through[name]})
			}
		}
		switch {
		case explain.OthersDecreased(&i):
			note = "more than the increase: others decreased"
		case i.Part > 0:
			note = ratio(min(1, i.Part)) + " of the increase"
		}
		lift := "-"
		if v := float64(i.Lift); !math.IsNaN(v) {
			lift = "×" + Digits(v)
		}
		difference := fmt.Sprintf("+%s points (%s)", figure.Points(float64(i.Effect)), ends(figure.Points(float64(i.EffLow)), figure.Points(float64(i.EffHigh))))
		t.Add(explainName(n, i.Labels), ratio(i.InsideShare), ratio(i.OutsideShare), difference, lift, note)
	}
	d.Gap()
	d.Table(t)
}

// explainName returns the labels of item n; none are all that no item above it names.
func explainName(n int, l api.Labels) string {
	switch {
	case len(l) > 0:
		return explain.Title(l)
	case n > 0:
		return "all others"
	}
	return "all"
}

func explainSheet(r *api.ExplainResponse) (header []string, rows [][]string) {
	header = []string{"labels", "inside", "outside", "inside_share", "outside_share", "effect", "effect_low", "effect_high", "lift", "adjusted_p", "through", "part"}
	for n, i := range r.Items {
		through, part := "", ""
		if len(i.Through) > 0 {
			through = explain.Title(i.Through)
		}
		if r.Before != nil {
			part = Raw(i.Part)
		}
		rows = append(rows, []string{explainName(n, i.Labels), whole(i.Inside), whole(i.Outside),
			Raw(i.InsideShare), Raw(i.OutsideShare), Raw(i.Effect), Raw(i.EffLow), Raw(i.EffHigh), Raw(i.Lift), Raw(i.Adjusted), through, part})
	}
	return header, rows
}
