package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Changes returns each change in two lines and a few more: what changed, when, and its
// possible causes. Status is that of the request.
func Changes(r *api.ChangesResponse, status string, zone *time.Location) *Document {
	d := &Document{Name: "changes", Data: r}
	clock := func(t api.Float) string { return time.Unix(int64(t), 0).In(zone).Format("2006-01-02 15:04:05") }
	under := map[string][]api.Change{}
	for _, c := range r.Changes {
		under[c.Under] = append(under[c.Under], c)
	}
	leading := under[""]
	for _, c := range r.Changes { // what leads it has another status
		if c.Under != "" && !slices.ContainsFunc(leading, func(x api.Change) bool { return x.ID == c.Under }) {
			leading = append(leading, c)
		}
	}
	for i, c := range leading {
		if i > 0 {
			d.Gap()
		}
		d.Line(fmt.Sprintf("%s  %s", clock(c.Time), c.Headline))
		at := "between " + clock(c.Low) + " and " + clock(c.High)
		if c.Low == c.High {
			at = "in the slot of " + figure.Span(float64(r.Slot))
		}
		if len(c.Found) > 0 {
			at = "found in " + strings.Join(c.Found, ", ") + ", " + at
		}
		d.Line("    " + at)
		if c.Ended > 0 {
			d.Line("    normal again since " + clock(api.Float(c.Ended)))
		}
		t := Columns("", ">before", ">after", ">change", ">interval", "verdict")
		unit := SecondsUnit
		if c.Family != "" {
			unit = UnitOf("_" + c.Unit)
		}
		of := &Comparison{R: &api.CompareResponse{Within: 0.05, Measures: c.Measures}, Zone: zone, Unit: unit}
		for j := range c.Measures {
			m := &c.Measures[j]
			f := m.Judged()
			of.Unit = unit
			if m.Name == "calls_per_request" {
				of.Unit = UnitOf("")
			}
			row := of.measure(m)
			t.Add("    "+strings.ReplaceAll(m.Name, "_", " "), row[1], row[2], of.effect(m, f.Effect), row[5], string(m.Verdict))
		}
		d.Table(t)
		if c.Shape != nil && !strings.Contains(c.Headline, c.Shape.Sentence) {
			d.Line("    " + string(c.Shape.Kind) + ": " + c.Shape.Sentence)
		}
		if c.Who != nil {
			d.Line("    " + c.Who.Sentence)
		}
		if len(c.Operations) > 0 {
			d.Line("    operations: " + strings.Join(c.Operations, ", "))
		}
		for _, m := range c.Near {
			d.Line(fmt.Sprintf("    near: %s at %s", m.Name, clock(m.Time)))
		}
		state := "    " + c.Status + ", id " + c.ID
		if c.Mark != "" {
			state += ", mark " + c.Mark
		}
		d.Line(state)
		for _, e := range r.Events {
			if len(e.Services) > 1 && slices.Contains(e.Changes, c.ID) {
				d.Line("    " + e.Sentence)
			}
		}
		for _, x := range under[c.ID] {
			d.Line(fmt.Sprintf("    with it: %s (%s, id %s)", x.Headline, x.Status, x.ID))
		}
	}
	if len(r.Changes) > 0 {
		d.Gap()
	}
	noun := "change"
	if status != "" && status != "all" {
		noun = status + " change"
	}
	d.Line(fmt.Sprintf("%s in %s series, searched in slots of %s", Plural(len(r.Changes), noun), figure.Thousands(uint64(r.Searched)), figure.Span(float64(r.Slot))))
	for _, n := range r.Notes {
		d.Line("note: " + n)
	}
	d.Sheet(changesSheet(r))
	return d
}

func changesSheet(r *api.ChangesResponse) (header []string, rows [][]string) {
	header = []string{"time", "low", "high", "service", "operation", "found", "verdict", "adjusted_p"}
	names := []string{"p50", "p95", "p99", "errors", "rate"}
	for _, n := range names {
		kind := "ratio"
		if n == "errors" {
			kind = "difference"
		}
		header = append(header, n+"_"+kind, n+"_low", n+"_high")
	}
	header = append(header, "status", "mark", "id", "environment", "part", "shape")
	for _, c := range r.Changes {
		row := []string{unixFloat(c.Time), unixFloat(c.Low), unixFloat(c.High), c.Service, c.Operation, strings.Join(c.Found, " "), string(c.Verdict), Raw(c.P)}
		for _, n := range names {
			effect, low, high := math.NaN(), math.NaN(), math.NaN()
			for _, m := range c.Measures {
				f := m.Judged()
				if m.Name == n {
					effect, low, high = float64(f.Effect), float64(f.Low), float64(f.High)
				}
			}
			row = append(row, Raw(api.Float(effect)), Raw(api.Float(low)), Raw(api.Float(high)))
		}
		part, shape := "", ""
		if p := c.Part; p != nil {
			part = strings.TrimSpace(strings.Join([]string{p.Service, p.Component, p.System, p.Operation}, " "))
		}
		if c.Shape != nil {
			shape = string(c.Shape.Kind)
		}
		rows = append(rows, append(row, c.Status, c.Mark, c.ID, c.Environment, part, shape))
	}
	return header, rows
}
