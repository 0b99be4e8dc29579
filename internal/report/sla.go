package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// SLA is the report as people read it: the same cells in every format.
type SLA struct {
	Title     string
	About     []string // what was asked for
	Header    []string
	Right     []bool
	Rows      []slaRow
	Legend    []string // of the marks that were used
	Notes     []string
	Made      string
	Objective bool
}

type slaRow struct {
	Cells                             []string
	All                               bool
	Satisfied, Tolerating, Frustrated float64 // per cent, for the bar; 0 without requests
	Thin, Saturated                   bool
	Met                               string
}

func NewSLA(r *api.SLAResponse, zone *time.Location, now time.Time) *SLA {
	d := &SLA{Title: r.Service, Notes: r.Notes, Made: now.In(zone).Format("2006-01-02 15:04 MST")}
	if r.Operation != "" {
		d.Title = r.Operation + " of " + r.Service
	}
	d.Title += " by " + r.Period
	d.Objective = !math.IsNaN(float64(r.Objective)) && r.Objective > 0
	d.About = append(d.About, fmt.Sprintf("%s to %s, days of %s", time.Unix(r.All.Start, 0).In(zone).Format("2006-01-02"),
		time.Unix(r.All.End-1, 0).In(zone).Format("2006-01-02"), r.Zone))
	d.About = append(d.About, fmt.Sprintf("Apdex: satisfied within %s, tolerating within %s, failed is frustrated", SecondsUnit.Value(r.T), SecondsUnit.Value(4*r.T)))
	if d.Objective {
		d.About = append(d.About, fmt.Sprintf("objective: %s of requests not failed and within %s", trimPercent(r.Objective), SecondsUnit.Value(r.Under)))
	}
	column := func(name string, right bool) { d.Header, d.Right = append(d.Header, name), append(d.Right, right) }
	column(r.Period, false)
	for _, name := range []string{"requests", "rate", "apdex", "satisfied", "tolerating", "frustrated", "mean"} {
		column(name, true)
	}
	qs := SortedQuantiles(r.All.Quantiles)
	for _, q := range qs {
		column(QuantileName(q), true)
	}
	column("errors", true)
	if d.Objective {
		column("good", true)
		column("met", false)
	}
	column("worst tenant", false)
	column("rate", true)
	column("apdex", true)
	column("p95", true)
	column("", false)
	for i := len(d.Header) - 4; i < len(d.Header)-1; i++ {
		d.Header[i] = "Δ " + d.Header[i]
	}
	used := map[string]bool{}
	for _, p := range r.Rows {
		d.Rows = append(d.Rows, d.row(p, qs, used))
	}
	all := d.row(r.All, qs, used)
	all.All = true
	d.Rows = append(d.Rows, all)
	for _, l := range []struct{ mark, text string }{
		{"*", "* not over yet, or the data begin in it; the rate is of the time covered"},
		{"()", "(…) below 100 requests a minute, where Apdex means little"},
		{"–", "… – … what the width of the buckets that hold T and 4T leaves open"},
		{"unknown", "unknown: the width of the bucket that holds the bound decides"},
		{"saturated", "saturated: throughput fell while Apdex fell and p95 rose"},
		{"Δ", "Δ: against the period before; for one that is not over, against the same part of it"},
	} {
		if used[l.mark] {
			d.Legend = append(d.Legend, l.text)
		}
	}
	return d
}

func (d *SLA) row(p api.SLAPeriod, qs []string, used map[string]bool) slaRow {
	r := slaRow{Met: p.Met, Thin: p.Thin && p.Requests > 0, Saturated: p.Trend.Saturated}
	if p.Requests > 0 {
		r.Satisfied, r.Tolerating, r.Frustrated = 100*float64(p.Satisfied), 100*float64(p.Tolerating), 100*float64(p.Frustrated)
	}
	name := p.Name
	if p.Partial {
		name += "*"
		used["*"] = true
	}
	score := Ratio(p.Apdex)
	if low, high := Ratio(p.ApdexLow), Ratio(p.ApdexHigh); low != high {
		score += " " + low + "–" + high
		used["–"] = true
	}
	if r.Thin {
		score = "(" + score + ")"
		used["()"] = true
	}
	r.Cells = []string{name, figure.Thousands(p.Requests), PerTime(p.Rate), score, Share(p.Satisfied), Share(p.Tolerating), Share(p.Frustrated), SecondsUnit.Value(p.Mean)}
	for _, q := range qs {
		r.Cells = append(r.Cells, SecondsUnit.Value(p.Quantiles[q]))
	}
	r.Cells = append(r.Cells, Percent(p.ErrorRate))
	if d.Objective {
		met := p.Met
		if met == "none" {
			met = "-"
		}
		used[met] = true
		r.Cells = append(r.Cells, floorPercent(p.Good), met)
	}
	worst := "-"
	if p.Worst != nil {
		worst = fmt.Sprintf("%s %s, p95 %s", p.Worst.Name, Ratio(p.Worst.Apdex), SecondsUnit.Value(p.Worst.P95))
	}
	r.Cells = append(r.Cells, worst, change(p.Trend.Rate), difference(p.Trend.Apdex), change(p.Trend.P95), "")
	if p.Trend.Saturated {
		r.Cells[len(r.Cells)-1] = "saturated"
		used["saturated"] = true
	}
	if !math.IsNaN(float64(p.Trend.Rate)) {
		used["Δ"] = true
	}
	return r
}

// PerTime writes a rate by the unit of time that keeps it above 1.
func PerTime(f api.Float) string {
	v := float64(f)
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 999.5:
		return figure.Rounded(v) + "/s"
	case v >= 1 || v == 0:
		return Digits(v) + "/s"
	case v*60 >= 1:
		return Digits(v*60) + "/min"
	}
	return Digits(v*3600) + "/h"
}

// Share writes a part of the whole with one decimal.
func Share(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(100*float64(f), 'f', 1, 64) + "%"
}

// floorPercent never rounds up to an objective that was missed.
func floorPercent(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(math.Floor(float64(f)*1e5+1e-6)/1e3, 'f', 3, 64) + "%"
}

func trimPercent(f api.Float) string {
	return strconv.FormatFloat(math.Round(float64(f)*1e8)/1e6, 'f', -1, 64) + "%"
}

// change writes a ratio as what was added or lost, or how many times as much or
// as little it is.
func change(f api.Float) string {
	v := float64(f)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 10:
		return "×" + Digits(v)
	case v > 0 && v <= 0.05: // in per cent all of these are −100
		return "÷" + Digits(1/v)
	}
	return signed(100*(v-1), 1) + "%"
}

func difference(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return signed(float64(f), 3)
}

func signed(v float64, decimals int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', decimals, 64)
	switch {
	case strings.Trim(s, "0.") == "":
		return "±" + s
	case v < 0:
		return "−" + s
	}
	return "+" + s
}

func (d *SLA) Text(w io.Writer) error {
	t := &Table{Header: d.Header, Right: d.Right}
	for _, r := range d.Rows {
		t.Rows = append(t.Rows, r.Cells)
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n\n", Printable(d.Title), strings.Join(d.About, "\n")); err != nil {
		return err
	}
	if err := t.Write(w); err != nil {
		return err
	}
	return d.tail(w, "", "")
}

// tail writes what explains the table, each line behind a bullet.
func (d *SLA) tail(w io.Writer, bullet, end string) error {
	var b strings.Builder
	for i, line := range append(append([]string{}, d.Legend...), d.Notes...) {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(bullet + line + end + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdownCell has text stand in Markdown as it is.
var markdownCell markdownText

type markdownText struct{}

var (
	markdownMarks = strings.NewReplacer("|", `\|`, "\n", " ", "*", `\*`, "_", `\_`)
	// markdownTag is what may begin a tag of HTML, an address or an entity; a < before
	// a space or a figure begins nothing, and stays legible.
	markdownTag = regexp.MustCompile(`<([A-Za-z/!?])`)
)

// Replace returns s with what Markdown would take for something else marked.
func (markdownText) Replace(s string) string {
	return markdownTag.ReplaceAllString(markdownMarks.Replace(s), "&lt;$1")
}

// markdownCode is a code span in which s stands as it is, to be copied.
func markdownCode(s string) string {
	marks := "`"
	for strings.Contains(s, marks) {
		marks += "`"
	}
	s = Printable(s)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return marks + s + marks
}

func (d *SLA) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", markdownCell.Replace(d.Title), markdownCell.Replace(strings.Join(d.About, "; ")))
	rows := make([][]string, len(d.Rows))
	for i, r := range d.Rows {
		rows[i] = r.Cells
	}
	b.WriteString(markdownTable(d.Header, d.Right, rows, func(row int, c string) string {
		if row >= 0 {
			if c = markdownCell.Replace(c); c != "" && d.Rows[row].All {
				c = "**" + c + "**"
			}
		}
		return c
	}))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for i := range d.Legend {
		d.Legend[i] = markdownCell.Replace(d.Legend[i])
	}
	return d.tail(w, "- ", "")
}

//go:embed report_sla.html
var slaHTML string

var slaTemplate = template.Must(template.New("sla").Parse(slaHTML))

func (d *SLA) HTML(w io.Writer) error { return slaTemplate.Execute(w, d) }

// SLARows is every figure in full, with its unit in the header. The periods are
// not followed by their sum.
func SLARows(r *api.SLAResponse, zone *time.Location) (header []string, rows [][]string) {
	qs := SortedQuantiles(r.All.Quantiles)
	header = []string{"period", "start", "end", "partial", "covered_seconds", "requests", "rate_per_second", "apdex", "apdex_low", "apdex_high", "thin",
		"satisfied_ratio", "tolerating_ratio", "frustrated_ratio", "mean_seconds"}
	for _, q := range qs {
		header = append(header, QuantileName(q)+"_seconds")
	}
	header = append(header, "quantile_error_ratio", "errors", "error_ratio", "good_ratio", "good_low_ratio", "good_high_ratio", "objective_met",
		"worst_tenant", "worst_tenant_requests", "worst_tenant_apdex", "worst_tenant_p95_seconds",
		"rate_to_before_ratio", "apdex_to_before_difference", "p95_to_before_ratio", "saturated")
	whole := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, p := range r.Rows {
		row := []string{p.Name, time.Unix(p.Start, 0).In(zone).Format(time.RFC3339), time.Unix(p.End, 0).In(zone).Format(time.RFC3339),
			strconv.FormatBool(p.Partial), strconv.FormatInt(p.Covered, 10), whole(p.Requests), Raw(p.Rate), Raw(p.Apdex), Raw(p.ApdexLow), Raw(p.ApdexHigh),
			strconv.FormatBool(p.Thin), Raw(p.Satisfied), Raw(p.Tolerating), Raw(p.Frustrated), Raw(p.Mean)}
		for _, q := range qs {
			row = append(row, Raw(p.Quantiles[q]))
		}
		row = append(row, Raw(p.Error), whole(p.Errors), Raw(p.ErrorRate), Raw(p.Good), Raw(p.GoodLow), Raw(p.GoodHigh), p.Met)
		if w := p.Worst; w != nil {
			row = append(row, w.Name, whole(w.Requests), Raw(w.Apdex), Raw(w.P95))
		} else {
			row = append(row, "", "", "", "")
		}
		rows = append(rows, append(row, Raw(p.Trend.Rate), Raw(p.Trend.Apdex), Raw(p.Trend.P95), strconv.FormatBool(p.Trend.Saturated)))
	}
	return header, rows
}
