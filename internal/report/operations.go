package report

import (
	"fmt"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// verbNames are what people read of what the API calls find and save.
var verbNames = map[string]string{"find": "reads", "save": "writes", "other": "other"}

// Operations returns the time of all requests by operation.
func Operations(r *api.OperationsResponse) *Document {
	d := &Document{Name: "operations", Data: r}
	var qs []string
	if len(r.Rows) > 0 {
		qs = SortedQuantiles(r.Rows[0].Quantiles)
	}
	t := Columns("service", "component", "operation", "share of call time", ">", ">calls", ">rate", ">errors", ">mean")
	t.addQuantiles(qs)
	t.Column("", false)
	header := []string{"service", "component", "operation", "kind", "verb", "seconds", "share_ratio", "calls", "rate_per_second", "errors", "error_ratio", "mean_seconds"}
	for _, q := range qs {
		header = append(header, QuantileName(q)+"_seconds")
	}
	var rows [][]string
	for _, o := range r.Rows {
		cells := append([]string{o.Service, o.Component, o.Operation, Bar(o.Share, ShareWidth), Share(o.Share), figure.Thousands(o.Calls), PerTime(o.Rate), Percent(o.ErrorRate), SecondsUnit.Value(o.Mean)}, quantileCells(o.Quantiles, qs, SecondsUnit.Value)...)
		t.Add(append(cells, nPlusOne(o.NPlusOne))...)
		row := append([]string{o.Service, o.Component, o.Operation, o.Kind, o.Verb, Raw(o.Seconds), Raw(o.Share), whole(o.Calls), Raw(o.Rate), whole(o.Errors), Raw(o.ErrorRate), Raw(o.Mean)}, quantileCells(o.Quantiles, qs, Raw)...)
		rows = append(rows, append(row, strconv.FormatBool(o.NPlusOne)))
	}
	d.Table(t)
	var verbs []string
	for _, v := range r.Verbs {
		if !IsNaN(v.Share) {
			verbs = append(verbs, fmt.Sprintf("%s %s", verbNames[v.Verb], Share(v.Share)))
		}
	}
	if len(verbs) > 0 {
		d.Gap()
		d.Line("database time: " + strings.Join(verbs, ", "))
	}
	d.more(r.Total, len(r.Rows))
	d.Sheet(append(header, "n_plus_one"), rows)
	return d
}

func nPlusOne(yes bool) string {
	if yes {
		return "N+1"
	}
	return ""
}
