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

// Explain returns the labels, and pairs of them, that a rectangle of the heatmap has more
// often than the rest.
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
	switch {
	case len(r.Items) == 0 && r.LabelsTried > 0:
		d.Line("nothing is over-represented: the rectangle looks like the rest")
	case len(r.Items) == 0 && len(r.Notes) == 0:
		d.Line("there is nothing to tell apart: every label has one value")
	case len(r.Items) > 0:
		t := Columns("more inside than outside", ">inside", ">outside", ">difference", ">times", "")
		for _, i := range r.Items {
			through := ""
			for name := range i.Through {
				if _, own := i.Labels[name]; !own {
					through = "only with " + explainTitle(api.Labels{name: i.Through[name]})
				}
			}
			lift := "-"
			if v := float64(i.Lift); !math.IsNaN(v) {
				lift = "×" + Digits(v)
			}
			difference := fmt.Sprintf("+%s points (%s–%s)", figure.Points(float64(i.Effect)), figure.Points(float64(i.EffLow)), figure.Points(float64(i.EffHigh)))
			t.Add(explainTitle(i.Labels), Percent(i.InsideShare), Percent(i.OutsideShare), difference, lift, through)
		}
		d.Gap()
		d.Table(t)
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

// explainTitle returns the names of labels: operation GET /search with tenant acme.
func explainTitle(l api.Labels) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if l[name] == "" {
			parts = append(parts, "no "+name)
		} else {
			parts = append(parts, name+" "+l[name])
		}
	}
	return strings.Join(parts, " with ")
}

func explainSheet(r *api.ExplainResponse) (header []string, rows [][]string) {
	header = []string{"labels", "inside", "outside", "inside_share", "outside_share", "effect", "effect_low", "effect_high", "lift", "adjusted_p", "through"}
	for _, i := range r.Items {
		through := ""
		if len(i.Through) > 0 {
			through = explainTitle(i.Through)
		}
		rows = append(rows, []string{explainTitle(i.Labels), whole(i.Inside), whole(i.Outside),
			Raw(i.InsideShare), Raw(i.OutsideShare), Raw(i.Effect), Raw(i.EffLow), Raw(i.EffHigh), Raw(i.Lift), Raw(i.Adjusted), through})
	}
	return header, rows
}
