package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// slaReport gathers the report of a service by period.
type slaReport struct {
	table     *Table
	quantiles []string
	objective bool
	used      map[string]bool // marks that the legend explains
}

// SLA returns the report of a service by day, week or month.
func SLA(r *api.SLAResponse, zone *time.Location, now time.Time) *Document {
	title := r.Service
	if r.Operation != "" {
		title = r.Operation + " of " + r.Service
	}
	if r.Environment != "" {
		title += " in " + r.Environment
	}
	title += " by " + r.Period
	d := &Document{Name: title, Made: now.In(zone).Format("2006-01-02 15:04 MST"), Wide: true, Data: r}
	s := &slaReport{quantiles: SortedQuantiles(r.All.Quantiles), objective: !math.IsNaN(float64(r.Objective)) && r.Objective > 0, used: map[string]bool{}}
	about := []string{
		fmt.Sprintf("%s to %s, days of %s", time.Unix(r.All.Start, 0).In(zone).Format("2006-01-02"), time.Unix(r.All.End-1, 0).In(zone).Format("2006-01-02"), r.Zone),
		fmt.Sprintf("Apdex: satisfied within %s, tolerating within %s, failed is frustrated", SecondsUnit.Value(r.T), SecondsUnit.Value(4*r.T)),
	}
	if s.objective {
		about = append(about, fmt.Sprintf("objective: %s of requests not failed and within %s", trimPercent(r.Objective), SecondsUnit.Value(r.Under)))
	}
	if r.All.Effective > 0 {
		about = append(about, figure.Thousands(r.All.Requests)+" requests"+sampled(r.All.Effective))
	}
	d.Title(title)
	d.Paragraph()
	d.Only(Markdown, func() { d.Line(strings.Join(about, "; ") + ".") })
	d.Only(Text|HTML, func() {
		for _, line := range about {
			d.Line(line)
		}
	})
	d.Gap()
	d.Table(s.rows(r))
	notes := s.legend()
	for _, o := range r.All.Outages {
		notes = append(notes, o.Sentence)
	}
	notes = append(notes, r.Notes...)
	if len(notes) > 0 {
		d.Gap()
	}
	for _, line := range notes {
		d.Only(Text, func() { d.Line(line) })
		d.Only(Markdown|HTML, func() { d.Item(line) })
	}
	d.Sheet(slaSheet(r, zone))
	return d
}

func (s *slaReport) rows(r *api.SLAResponse) *Table {
	t := Columns(r.Period, ">requests", ">rate", ">apdex", ">satisfied", ">tolerating", ">frustrated", ">mean")
	for _, q := range s.quantiles {
		t.Column(QuantileName(q), true)
	}
	t.Column("errors", true)
	if s.objective {
		t.Column("good", true)
		t.Column("met", false)
	}
	t.Column("worst tenant", false)
	for _, name := range []string{"Δ rate", "Δ apdex", "Δ p95"} {
		t.Column(name, true)
	}
	t.Column("", false)
	t.Total, t.Behind, t.Faint = true, 3, map[int]bool{}
	s.table = t
	for _, p := range r.Rows {
		s.row(p)
	}
	s.row(r.All)
	return t
}

// legend explains the marks that were used.
func (s *slaReport) legend() (out []string) {
	for _, l := range []struct{ mark, text string }{
		{"*", "* not over yet, or the data begin in it; the rate is of the time covered"},
		{"()", "(…) below 100 requests a minute, where Apdex means little"},
		{"…", "LOW … HIGH: what the width of the buckets that hold T and 4T leaves open"},
		{"unknown", "unknown: the width of the bucket that holds the bound decides"},
		{"†", "† there were times without requests: what never came cannot fail, and is not counted as good either"},
		{"saturated", "saturated: throughput fell while Apdex fell and p95 rose"},
		{"Δ", "Δ: against the period before; for one that is not over, against the same part of it"},
	} {
		if s.used[l.mark] {
			out = append(out, l.text)
		}
	}
	return out
}

func (s *slaReport) row(p api.SLAPeriod) {
	var shares [3]float64
	if p.Requests > 0 {
		shares = [3]float64{float64(p.Satisfied), float64(p.Tolerating), float64(p.Frustrated)}
	}
	s.table.Shares = append(s.table.Shares, shares)
	name := p.Name
	if p.Partial {
		name += "*"
		s.used["*"] = true
	}
	score := Score(p.Apdex)
	if low, high := Score(p.ApdexLow), Score(p.ApdexHigh); low != high {
		score += " " + ends(low, high)
		s.used["…"] = true
	}
	if p.Thin && p.Requests > 0 {
		s.table.Faint[len(s.table.Rows)] = true
		score = "(" + score + ")"
		s.used["()"] = true
	}
	cells := []string{name, figure.Thousands(p.Requests), PerTime(p.Rate), score, Share(p.Satisfied), Share(p.Tolerating), Share(p.Frustrated), SecondsUnit.Value(p.Mean)}
	for _, q := range s.quantiles {
		cells = append(cells, SecondsUnit.Value(p.Quantiles[q]))
	}
	cells = append(cells, ratio(p.ErrorRate))
	if s.objective {
		met := p.Met
		if met == "none" {
			met = "-"
		}
		s.used[met] = true
		if p.Without > 0 {
			met += "†"
			s.used["†"] = true
		}
		cells = append(cells, floorPercent(p.Good), met)
	}
	worst := "-"
	if p.Worst != nil {
		worst = fmt.Sprintf("%s %s, p95 %s", p.Worst.Name, Score(p.Worst.Apdex), SecondsUnit.Value(p.Worst.P95))
	}
	saturated := ""
	if p.Trend.Saturated {
		saturated = "saturated"
		s.used["saturated"] = true
	}
	if !math.IsNaN(float64(p.Trend.Rate)) {
		s.used["Δ"] = true
	}
	s.table.Add(append(cells, worst, change(p.Trend.Rate), difference(p.Trend.Apdex), change(p.Trend.P95), saturated)...)
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
		return figure.ThreeDigits(v) + "/s"
	case v*60 >= 1:
		return figure.ThreeDigits(v*60) + "/min"
	}
	return figure.ThreeDigits(v*3600) + "/h"
}

// Share writes a part of the whole with one decimal.
func Share(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(100*float64(f), 'f', 1, 64) + " %"
}

// floorPercent never rounds up to an objective that was missed.
func floorPercent(f api.Float) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(math.Floor(float64(f)*1e5+1e-6)/1e3, 'f', 3, 64) + " %"
}

func trimPercent(f api.Float) string {
	return strconv.FormatFloat(math.Round(float64(f)*1e8)/1e6, 'f', -1, 64) + " %"
}

// change writes a ratio as a gain or a loss, or as a multiple.
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
	return signed(100*(v-1), 1) + " %"
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

// slaSheet returns every figure in full, with its unit in the header. It has no row for
// the sum of the periods.
func slaSheet(r *api.SLAResponse, zone *time.Location) (header []string, rows [][]string) {
	qs := SortedQuantiles(r.All.Quantiles)
	header = []string{"period", "start", "end", "partial", "covered_seconds", "requests", "rate_per_second", "apdex", "apdex_low", "apdex_high", "thin",
		"satisfied_ratio", "tolerating_ratio", "frustrated_ratio", "mean_seconds"}
	for _, q := range qs {
		header = append(header, QuantileName(q)+"_seconds")
	}
	header = append(header, "quantile_error_ratio", "errors", "error_ratio", "good_ratio", "good_low_ratio", "good_high_ratio", "objective_met",
		"worst_tenant", "worst_tenant_requests", "worst_tenant_apdex", "worst_tenant_p95_seconds",
		"rate_to_before_ratio", "apdex_to_before_difference", "p95_to_before_ratio", "saturated", "effective", "worst_tenant_effective", "without_requests_seconds")
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
		worst := uint64(0)
		if p.Worst != nil {
			worst = p.Worst.Effective
		}
		rows = append(rows, append(row, Raw(p.Trend.Rate), Raw(p.Trend.Apdex), Raw(p.Trend.P95), strconv.FormatBool(p.Trend.Saturated), effectively(p.Effective), effectively(worst), strconv.FormatInt(p.Without, 10)))
	}
	return header, rows
}
