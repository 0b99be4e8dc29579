package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Scaling returns the fitted law, if there is one, with its points for scripts.
func Scaling(r *api.ScalingResponse, width int) *Document {
	d := &Document{Name: "scalability law", Data: r}
	if len(r.Configurations) > 1 {
		d.configurations(r)
		d.Gap()
	}
	if r.Law != nil {
		d.scaling(r.Law, width)
		if len(r.Warnings) > 0 {
			d.Gap()
		}
		for _, w := range r.Warnings {
			d.Item("note: " + w.Text)
		}
	}
	var rows [][]string
	for _, p := range r.Points {
		rows = append(rows, []string{unixFloat(p.Time), Raw(p.N), Raw(p.Rate), Raw(p.Mean), strconv.FormatBool(p.Left)})
	}
	d.Sheet([]string{"time", "concurrency", "rate", "mean", "left"}, rows)
	return d
}

// configurations adds what each mark gave of the whole, and what the configurations between
// marks came to.
func (d *Document) configurations(r *api.ScalingResponse) {
	if said := cmp.Or(r.Headline, r.Sentence); said != "" { // an older server has no headline
		d.Line(said)
		d.Gap()
	}
	columns := []string{"since", ">requests/s", ">mean", ">p50", ">p95", ">p99", ">errors", ">Apdex"}
	if r.CPU != "" {
		columns = append(columns, ">CPU")
	}
	if r.Memory != "" {
		columns = append(columns, ">memory")
	}
	t := Columns(append(columns, "mean, against before")...)
	for _, c := range r.Configurations {
		name, change := c.Name, ""
		if name == "" {
			name = "(start)"
		}
		if c.Change != nil {
			change = c.Change.Sentence
		}
		row := []string{name, scalingNumber(float64(c.Rate)), figure.Seconds(float64(c.Mean))}
		for _, q := range []string{"p50", "p95", "p99"} {
			row = append(row, figure.Seconds(float64(c.Quantiles[q])))
		}
		row = append(row, figure.Percent(float64(c.Errors)), Score(c.Apdex))
		if r.CPU != "" {
			row = append(row, scalingNumber(float64(c.CPU)))
		}
		if r.Memory != "" {
			row = append(row, bytesUnit.Value(c.Memory))
		}
		t.Rows = append(t.Rows, append(row, change))
	}
	d.Table(t)
	d.Paragraph()
}

// scaling adds a law: a sentence, its figures with their intervals, and the points with
// the curve, which is drawn elsewhere on a page.
func (d *Document) scaling(l *api.ScalingLaw, width int) {
	d.Line(l.Sentence)
	d.Gap()
	t := Columns("", ">value", ">low", ">high", "what")
	for _, row := range []struct {
		name  string
		v     api.ScalingValue
		what  string
		scale float64
		unit  string
	}{
		{"λ", l.Lambda, "of one request at a time", 1, "/s"},
		{"σ", l.Sigma, "contention", 100, " %"},
		{"κ", l.Kappa, "coherency", 100, " %"},
		{"peak", l.PeakRate, "the highest throughput", 1, "/s"},
		{"  at", l.PeakN, "requests at a time", 1, ""},
		{"ceiling", l.Ceiling, "without coherency", 1, "/s"},
	} {
		if math.IsNaN(float64(row.v.Value)) && !(float64(row.v.Low) > 0) {
			continue
		}
		figure := func(v api.Float) string {
			f := float64(v) * row.scale
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return "–"
			}
			return scalingNumber(f) + row.unit
		}
		t.Rows = append(t.Rows, []string{row.name, figure(row.v.Value), figure(row.v.Low), figure(row.v.High), row.what})
	}
	d.Table(t)
	d.Paragraph()
	d.Line(fmt.Sprintf("intervals at %.4g %%; R² %.3f, residual error %s/s", 100*float64(l.Level), float64(l.R2), scalingNumber(float64(l.Error))))
	if lines := scalingPicture(l, width); len(lines) > 0 {
		d.Only(Text, d.Gap) // Markdown parts them itself
		d.Only(Text|Markdown, func() { d.Picture(lines) })
	}
}

// scalingNumber writes three digits, and whole numbers from 1000 on.
func scalingNumber(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

const scalingRows = 14

// scalingPicture draws rate over concurrency: points as o (those left out as ·), the
// law as -, both axes from 0.
func scalingPicture(l *api.ScalingLaw, width int) []string {
	most, top := 0.0, 0.0
	for _, p := range l.Points {
		most, top = max(most, float64(p.N)), max(top, float64(p.Rate))
	}
	law := func(n float64) float64 {
		return float64(l.Lambda.Value) * n / (1 + (n-1)*(float64(l.Sigma.Value)+float64(l.Kappa.Value)*n))
	}
	label := max(len(scalingNumber(top)), 3)
	columns := min(width, 100) - label - 4
	if most <= 0 || top <= 0 || columns < 20 {
		return nil
	}
	cells := make([][]rune, scalingRows)
	for i := range cells {
		cells[i] = []rune(strings.Repeat(" ", columns))
	}
	put := func(n, x float64, r rune) {
		column, row := int(n/most*float64(columns-1)+0.5), scalingRows-1-int(x/top*(scalingRows-1)+0.5)
		if column >= 0 && column < columns && row >= 0 && row < scalingRows && (r == 'o' || cells[row][column] == ' ') {
			cells[row][column] = r
		}
	}
	for c := range columns {
		n := float64(c) / float64(columns-1) * most
		put(n, law(n), '-')
	}
	for _, p := range l.Points {
		mark := 'o'
		if p.Left {
			mark = '·'
		}
		put(float64(p.N), float64(p.Rate), mark)
	}
	var lines []string
	for i, row := range cells {
		name := ""
		switch i {
		case 0:
			name = scalingNumber(top)
		case scalingRows - 1:
			name = "0"
		}
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%*s |%s", label, name, string(row)), " "))
	}
	end := scalingNumber(most) + " at a time"
	return append(lines, fmt.Sprintf("%*s 0%s%s", label+1, "/s", strings.Repeat(" ", max(1, columns-len(end)-1)), end))
}
