package report

import (
	"fmt"
	"slices"
	"strconv"

	"tailscope/api"
	"tailscope/internal/figure"
)

// mostServices bounds the services of a component that have a row in the table.
const mostServices = 5

// Breakdown returns a report of where the time of requests and of the slowest requests
// goes, with at most limit parts.
func Breakdown(r *api.BreakdownResponse, limit int) *Document {
	d := &Document{Name: "breakdown", Data: r}
	n := api.Float(r.Total)
	d.Line(fmt.Sprintf("%s requests, %s each on average", figure.Thousands(r.Total), SecondsUnit.Value(r.Seconds/n)))
	d.Gap()
	var qs []string
	for _, c := range r.Components {
		if len(c.Quantiles) > 0 {
			qs = SortedQuantiles(c.Quantiles)
			break
		}
	}
	t := Columns("component", "share of request time", ">", ">per request", ">critical")
	t.addQuantiles(qs)
	for _, c := range r.Components {
		if c.Seconds == 0 || IsNaN(c.Seconds) {
			continue
		}
		t.Add(append([]string{c.Component, Bar(c.Share, ShareWidth), Share(c.Share), SecondsUnit.Value(c.Seconds / n), Share(c.CriticalShare)}, quantileCells(c.Quantiles, qs, SecondsUnit.Value)...)...)
		for _, s := range first(c.Services, mostServices) {
			t.Add("  of "+s.Service, Bar(s.Share, ShareWidth), Share(s.Share), SecondsUnit.Value(s.Seconds/n), Share(s.CriticalShare))
		}
	}
	d.Table(t)
	d.band(r.Band)
	d.parts(r, limit)
	d.backends(r.Backends, limit)
	for i, line := range breakdownNotes(r) {
		if i == 0 {
			d.Gap()
		}
		d.Line(line)
	}
	d.Sheet(breakdownSheet(r))
	return d
}

// band adds the slow requests beside the typical ones.
func (d *Document) band(b *api.Band) {
	if b == nil || b.Requests == 0 {
		return
	}
	name := "longer than " + SecondsUnit.Value(b.Low)
	if !IsNaN(b.High) {
		name += ", up to " + SecondsUnit.Value(b.High)
	}
	if b.Above > 0 {
		name = "above " + QuantileName(strconv.FormatFloat(float64(b.Above), 'f', -1, 64)) + ", " + name
	}
	d.Gap()
	d.Line(fmt.Sprintf("%s requests %s: %s each; the typical, up to %s: %s",
		figure.Thousands(b.Requests), name, SecondsUnit.Value(b.Mean), SecondsUnit.Value(b.Typical.High), SecondsUnit.Value(b.Typical.Mean)))
	d.Gap()
	t := Columns("component", "of the slow", ">", ">per request", ">typical", ">", ">added")
	for _, c := range b.Components {
		if c.Band.Seconds != 0 || c.Typical.Seconds != 0 {
			t.Add(c.Component, Bar(c.Band.Share, ShareWidth), Share(c.Band.Share), SecondsUnit.Value(c.Band.Seconds),
				Share(c.Typical.Share), SecondsUnit.Value(c.Typical.Seconds), added(c.Band.Seconds-c.Typical.Seconds))
		}
	}
	d.Table(t)
}

// added returns a difference of times, with its sign.
func added(f api.Float) string {
	if f >= 0 {
		return "+" + SecondsUnit.Value(f)
	}
	return figure.Seconds(float64(f))
}

func (d *Document) parts(r *api.BreakdownResponse, limit int) {
	if len(r.Parts) == 0 {
		return
	}
	d.Gap()
	t := Columns("service", "component", "operation", "share of request time", ">", ">calls/request", ">mean")
	qs := SortedQuantiles(r.Parts[0].Quantiles)
	t.addQuantiles(qs)
	band := slices.ContainsFunc(r.Parts, func(p api.BreakdownPart) bool { return p.Band != nil && p.Typical != nil })
	if band {
		t.Column("slow", true)
		t.Column("typical", true)
	}
	t.Column("", false)
	for _, p := range first(r.Parts, limit) {
		row := append([]string{p.Service, p.Component, p.Operation, Bar(p.Share, ShareWidth), Share(p.Share), Digits(float64(p.PerRequest)), SecondsUnit.Value(p.Mean)}, quantileCells(p.Quantiles, qs, SecondsUnit.Value)...)
		if band {
			slow, typical := "-", "-"
			if p.Band != nil {
				slow = SecondsUnit.Value(p.Band.Seconds)
			}
			if p.Typical != nil {
				typical = SecondsUnit.Value(p.Typical.Seconds)
			}
			row = append(row, slow, typical)
		}
		t.Add(append(row, nPlusOne(p.NPlusOne))...)
	}
	d.Table(t)
	d.more(len(r.Parts), min(limit, len(r.Parts)))
}

// backends adds which node of which system calls go to.
func (d *Document) backends(list []api.Backend, limit int) {
	if len(list) == 0 {
		return
	}
	d.Gap()
	t := Columns("component", "system", "node", "share of call time", ">", ">calls", ">calls/request", ">errors", ">mean")
	qs := SortedQuantiles(list[0].Quantiles)
	t.addQuantiles(qs)
	for _, b := range first(list, limit) {
		t.Add(append([]string{b.Component, b.System, b.Peer, Bar(b.Share, ShareWidth), Share(b.Share), worth(b.Calls, b.Effective), Digits(float64(b.PerRequest)),
			Share(api.Float(float64(b.Errors) / float64(b.Calls))), SecondsUnit.Value(b.Mean)}, quantileCells(b.Quantiles, qs, SecondsUnit.Value)...)...)
	}
	d.Table(t)
	d.more(len(list), min(limit, len(list)))
}

var clockWords = map[string]string{"ahead": "ahead of", "behind": "behind"}

// breakdownNotes returns the notes that a reader of the figures needs.
func breakdownNotes(r *api.BreakdownResponse) (lines []string) {
	for _, f := range r.FanOuts {
		if len(f.Instances) > 0 {
			i := f.Instances[0]
			lines = append(lines, fmt.Sprintf("of %d instances that %s %s called at once, %s was the last to end in %s (even: %s)",
				len(f.Instances), f.Service, f.Operation, i.Instance, Share(i.Share), Share(api.Float(1/float64(len(f.Instances))))))
		}
	}
	for _, s := range r.Skews {
		if s.Peer == "queue" { // the header of a proxy
			lines = append(lines, fmt.Sprintf("the clock of %s is %s that of the proxy before it by %s (median of %s requests, whose time in the queue is left out)",
				s.Service, clockWords[s.Direction], SecondsUnit.Value(s.Median), figure.Thousands(s.Calls)))
			continue
		}
		lines = append(lines, fmt.Sprintf("the clock of %s is %s that of %s by %s (median of %s calls, which were moved)",
			s.Service, clockWords[s.Direction], s.Peer, SecondsUnit.Value(s.Median), figure.Thousands(s.Calls)))
	}
	if r.Note != "" {
		lines = append(lines, r.Note)
	}
	return lines
}

// breakdownSheet returns a row for each component, without an operation, one for each
// service of a component that several share, one for each part, and one for each node that
// calls go to, whose share is of the calls' time. The last column tells the four apart: each
// holds all of the time.
func breakdownSheet(r *api.BreakdownResponse) (header []string, rows [][]string) {
	header = []string{"component", "service", "operation", "seconds", "share_ratio", "critical_ratio", "calls", "calls_per_request", "requests",
		"requests_of_ten_calls", "n_plus_one", "mean_seconds", "band_seconds_per_request", "typical_seconds_per_request", "system", "node", "errors", "effective", "row"}
	band := map[string]api.BandComponent{}
	if r.Band != nil {
		for _, c := range r.Band.Components {
			band[c.Component] = c
		}
	}
	for _, c := range r.Components {
		row := []string{c.Component, "", "", Raw(c.Seconds), Raw(c.Share), Raw(c.CriticalShare), "", "", "", "", "", "", "", "", "", "", "", "", "component"}
		if b, ok := band[c.Component]; ok {
			row[12], row[13] = Raw(b.Band.Seconds), Raw(b.Typical.Seconds)
		}
		rows = append(rows, row)
		for _, s := range c.Services {
			rows = append(rows, []string{c.Component, s.Service, "", Raw(s.Seconds), Raw(s.Share), Raw(s.CriticalShare), "", "", "", "", "", "", "", "", "", "", "", "", "service"})
		}
	}
	for _, p := range r.Parts {
		row := []string{p.Component, p.Service, p.Operation, Raw(p.Seconds), Raw(p.Share), Raw(p.CriticalShare), whole(p.Calls), Raw(p.PerRequest), whole(p.Requests),
			whole(p.Repeated), strconv.FormatBool(p.NPlusOne), Raw(p.Mean), "", "", p.System, "", "", "", "part"}
		if p.Band != nil {
			row[12] = Raw(p.Band.Seconds)
		}
		if p.Typical != nil {
			row[13] = Raw(p.Typical.Seconds)
		}
		rows = append(rows, row)
	}
	for _, b := range r.Backends {
		rows = append(rows, []string{b.Component, "", "", Raw(b.Seconds), Raw(b.Share), "", whole(b.Calls), Raw(b.PerRequest), "", "", "", Raw(b.Mean), "", "",
			b.System, b.Peer, whole(b.Errors), effectively(b.Effective), "node"})
	}
	return header, rows
}
