package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

func newQueryServices(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	cmd := &cobra.Command{
		Use:   "services",
		Short: "every service: requests, rate, errors, Apdex, quantiles",
		Args:  exactArgs(0, ""),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerRange(cmd.Flags(), "1h")
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context) error {
		start, end, err := q.timeRange()
		if err != nil {
			return err
		}
		r, err := q.client().Services(ctx, client.ServicesQuery{Selection: client.Selection{Start: start, End: end}})
		if err != nil {
			return q.failed(err)
		}
		if q.format == "json" {
			return report.WriteJSON(io.out, r)
		}
		if len(r.Services) == 0 && q.format == "table" {
			return withHint(fmt.Errorf("no service has sent anything in that range"),
				"point an OpenTelemetry SDK at the server with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317")
		}
		t := &report.Table{}
		t.Column("service", false)
		for _, h := range []string{"requests", "rate", "errors", "apdex", "mean"} {
			t.Column(h, true)
		}
		var qs []string
		if len(r.Services) > 0 {
			qs = report.SortedQuantiles(r.Services[0].Quantiles)
		}
		for _, name := range qs {
			t.Column(report.QuantileName(name), true)
		}
		var plainRows [][]string
		for _, s := range r.Services {
			row := []string{s.Name, figure.Thousands(s.Requests), report.Digits(float64(s.Rate)) + "/s", report.Percent(s.ErrorRate), report.Ratio(s.Apdex), report.SecondsUnit.Value(s.Mean)}
			plainRow := []string{s.Name, strconv.FormatUint(s.Requests, 10), report.Raw(s.Rate), report.Raw(s.ErrorRate), report.Raw(s.Apdex), report.Raw(s.Mean)}
			for _, name := range qs {
				row = append(row, report.SecondsUnit.Value(s.Quantiles[name]))
				plainRow = append(plainRow, report.Raw(s.Quantiles[name]))
			}
			t.Rows, plainRows = append(t.Rows, row), append(plainRows, plainRow)
		}
		if q.format == "csv" {
			return report.WriteCSV(io.out, append([]string{"service", "requests", "rate", "error_ratio", "apdex", "mean"}, qs...), plainRows)
		}
		return t.Write(io.out)
	})
	return cmd
}

func newQueryDistribution(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var by, quantiles, at string
	var limit int
	cmd := &cobra.Command{
		Use:   "distribution",
		Short: "quantiles of a range, and the shares below, at and above a value",
		Example: `  tailscope query distribution --service shop --q 0.5,0.99 --at 200ms
  tailscope query distribution --service shop --by tenant --since 15m`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	cmd.Flags().StringVar(&by, "by", "", "group by these `labels`, such as operation,tenant")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().StringVar(&at, "at", "", "`values` to rank, such as 200ms,1s")
	cmd.Flags().IntVar(&limit, "limit", 0, "keep only so many groups, those with the most observations")
	cmd.RunE = q.run(func(ctx context.Context) error {
		values, err := parseValues(at)
		if err != nil {
			return err
		}
		r, err := ask(q, func(sel client.Selection) (*api.DistributionResponse, error) {
			return q.client().Distribution(ctx, client.DistributionQuery{
				Selection: sel, By: splitList(by), Quantiles: splitList(quantiles), At: values, Limit: limit})
		}, func(r *api.DistributionResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		switch q.format {
		case "json":
			return report.WriteJSON(io.out, r)
		case "csv":
			return distributionCSV(io, r, splitList(by))
		}
		return distributionTable(io, r, splitList(by))
	})
	return cmd
}

func distributionTable(io streams, r *api.DistributionResponse, by []string) error {
	u := report.UnitOf(r.Family)
	t := &report.Table{}
	for _, name := range by {
		t.Column(name, false)
	}
	qs := report.SortedQuantiles(r.Groups[0].Quantiles)
	for _, h := range []string{"count", "mean", "min"} {
		t.Column(h, true)
	}
	for _, name := range qs {
		t.Column(report.QuantileName(name), true)
	}
	t.Column("max", true)
	t.Column("error", true)
	for _, a := range r.Groups[0].At {
		t.Column("below "+u.Value(a.Value), true)
		t.Column("same", true)
		t.Column("above", true)
	}
	for _, g := range r.Groups {
		var row []string
		for _, name := range by {
			row = append(row, report.OrNone(g.Labels[name]))
		}
		row = append(row, figure.Thousands(g.Count), u.Value(g.Mean), u.Value(g.Min))
		for _, name := range qs {
			row = append(row, u.Value(g.Quantiles[name]))
		}
		row = append(row, u.Value(g.Max), "±"+report.Percent(g.Error))
		for _, a := range g.At {
			row = append(row, report.Percent(a.Below), report.Percent(a.Same), report.Percent(a.Above))
		}
		t.Rows = append(t.Rows, row)
	}
	return t.Write(io.out)
}

func distributionCSV(io streams, r *api.DistributionResponse, by []string) error {
	qs := report.SortedQuantiles(r.Groups[0].Quantiles)
	header := slices.Concat(by, []string{"count", "sum", "mean", "min", "max", "error"}, qs)
	for _, a := range r.Groups[0].At {
		v := report.Raw(a.Value)
		header = append(header, "below_"+v, "same_"+v, "above_"+v)
	}
	var rows [][]string
	for _, g := range r.Groups {
		var row []string
		for _, name := range by {
			row = append(row, g.Labels[name])
		}
		row = append(row, strconv.FormatUint(g.Count, 10), report.Raw(g.Sum), report.Raw(g.Mean), report.Raw(g.Min), report.Raw(g.Max), report.Raw(g.Error))
		for _, name := range qs {
			row = append(row, report.Raw(g.Quantiles[name]))
		}
		for _, a := range g.At {
			row = append(row, report.Raw(a.Below), report.Raw(a.Same), report.Raw(a.Above))
		}
		rows = append(rows, row)
	}
	return report.WriteCSV(io.out, header, rows)
}

func newQueryHeatmap(io streams) *cobra.Command {
	q := newQuestion(io, "picture", "json", "csv")
	var step string
	var height int
	cmd := &cobra.Command{
		Use:     "heatmap",
		Short:   "a picture of the whole distribution over time",
		Example: `  tailscope query heatmap --service shop --since 30m`,
		Args:    exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	q.registerPicture(cmd.Flags())
	cmd.Flags().StringVar(&step, "step", "", "`length` of a column; chosen by the width unless given")
	cmd.Flags().IntVar(&height, "height", 20, "lines of the picture")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if height < 4 || height > 200 {
			return usage{fmt.Errorf("--height %d: write a number from 4 to 200", height)}
		}
		p := picture{width: q.columns(), height: height, colors: q.colors(), zone: q.now().Location()}
		if q.format != "picture" {
			p.colors = true // as fine as a picture can be
		}
		var used client.Selection
		h, err := ask(q, func(sel client.Selection) (*api.HeatmapResponse, error) {
			used = sel
			return q.client().Heatmap(ctx, client.HeatmapQuery{Selection: sel, Grid: client.Grid{Step: step, Width: p.columns()}, Rows: p.rows()})
		}, func(h *api.HeatmapResponse) bool { return h.Count == 0 })
		if err != nil {
			return err
		}
		switch q.format {
		case "json":
			return report.WriteJSON(io.out, h)
		case "csv":
			return heatmapCSV(io, h)
		}
		p.unit = report.UnitOf(h.Family)
		marks, err := q.client().Marks(ctx, client.MarksQuery{Start: unix(h.Start), End: unix(h.End), Service: q.service})
		if err != nil {
			return q.failed(err)
		}
		d, err := q.client().Distribution(ctx, client.DistributionQuery{Selection: used, Quantiles: []string{"0.5", "0.95", "0.99", "0.999"}})
		if err != nil {
			return q.failed(err)
		}
		if err := p.draw(io.out, h, marks.Marks); err != nil {
			return err
		}
		if len(d.Groups) == 0 {
			return nil
		}
		_, err = fmt.Fprintln(io.out, strings.Repeat(" ", report.AxisWidth)+summary(d.Groups[0], p.unit))
		return err
	})
	return cmd
}

// summary is a distribution in one line.
func summary(g api.DistributionGroup, u report.Unit) string {
	parts := []string{figure.Thousands(g.Count) + " observations", "mean " + u.Value(g.Mean)}
	for _, name := range report.SortedQuantiles(g.Quantiles) {
		parts = append(parts, report.QuantileName(name)+" "+u.Value(g.Quantiles[name]))
	}
	return strings.Join(append(parts, "max "+u.Value(g.Max)), "  ")
}

// heatmapCSV writes a line per occupied cell.
func heatmapCSV(io streams, h *api.HeatmapResponse) error {
	var rows [][]string
	for _, c := range h.Columns {
		for i, row := range c.Rows {
			if row+1 < len(h.Bounds) {
				rows = append(rows, []string{unix(c.Start), report.Raw(h.Bounds[row]), report.Raw(h.Bounds[row+1]), strconv.FormatUint(c.Counts[i], 10)})
			}
		}
	}
	return report.WriteCSV(io.out, []string{"start", "low", "high", "count"}, rows)
}

func newQueryTimeline(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var by, quantiles, step, offset, overlay, zone, per, slide string
	var limit int
	cmd := &cobra.Command{
		Use:   "timeline",
		Short: "rate, errors, mean and quantiles over time",
		Example: `  tailscope query timeline --service shop --step 1m --by operation
  tailscope query timeline --service shop --slide 10m --by cohort
  tailscope query timeline --service shop --overlay like --tz Europe/Berlin
  tailscope query timeline --service shop --family process_cpu_time_seconds_total --per request`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	cmd.Flags().StringVar(&by, "by", "", "group by these `labels`")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().StringVar(&step, "step", "", "`length` of a step; chosen to give about 30 unless given")
	cmd.Flags().StringVar(&offset, "offset", "", "look that much earlier, such as `1d`")
	cmd.Flags().StringVar(&overlay, "overlay", "", "show an earlier `day` instead, by wall clock: day, week, or like (the last day like it)")
	cmd.Flags().StringVar(&zone, "tz", "", "time `zone` of the overlay, such as Europe/Berlin; UTC unless given")
	cmd.Flags().StringVar(&slide, "slide", "", "every step's figures are those of the `window` that ends with it, such as 10m")
	cmd.Flags().StringVar(&per, "per", "", "request divides a counter's increase by the `requests` of --service")
	cmd.Flags().IntVar(&limit, "limit", 0, "keep only so many groups, those with the most observations")
	cmd.RunE = q.run(func(ctx context.Context) error {
		g := client.Grid{Step: step}
		if step == "" {
			g.Width = 30
		}
		r, err := ask(q, func(sel client.Selection) (*api.TimelineResponse, error) {
			return q.client().Timeline(ctx, client.TimelineQuery{
				Selection: sel, Grid: g, By: splitList(by), Quantiles: splitList(quantiles), Offset: offset,
				Overlay: overlay, Zone: zone, Per: per, Slide: slide, Limit: limit})
		}, func(r *api.TimelineResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		if q.format == "json" {
			return report.WriteJSON(io.out, r)
		}
		return timelineRows(io, r, splitList(by), q.format == "csv", q.now().Location())
	})
	return cmd
}

// timelineRows prints a line per step and group. Number families have a value
// instead of a distribution.
func timelineRows(io streams, r *api.TimelineResponse, by []string, asCSV bool, zone *time.Location) error {
	u := report.UnitOf(strings.TrimSuffix(r.Family, "_total"))
	numbers := len(r.Groups[0].Value) > 0
	if r.Overlay != nil && !asCSV {
		fmt.Fprintf(io.err, "tailscope: these are figures of %s, at the times of the range asked for\n", r.Overlay.Of)
	}
	t := &report.Table{}
	t.Column("time", false)
	for _, name := range by {
		t.Column(name, false)
	}
	header := append([]string{"time"}, by...)
	qs := report.SortedQuantiles(r.Groups[0].Quantiles)
	if numbers {
		t.Column("value", true)
		header = append(header, "value")
	} else {
		for _, h := range []string{"count", "rate", "errors", "mean"} {
			t.Column(h, true)
		}
		header = append(header, "count", "rate", "error_ratio", "mean")
		for _, name := range qs {
			t.Column(report.QuantileName(name), true)
		}
		header = append(header, qs...)
	}
	var plainRows [][]string
	for _, g := range r.Groups {
		for i, at := range r.Times {
			row := []string{time.Unix(at, 0).In(zone).Format("Jan 02 15:04:05")}
			plainRow := []string{unix(at)}
			for _, name := range by {
				row, plainRow = append(row, report.OrNone(g.Labels[name])), append(plainRow, g.Labels[name])
			}
			if numbers {
				if math.IsNaN(float64(g.Value[i])) {
					continue
				}
				row, plainRow = append(row, u.Value(g.Value[i])), append(plainRow, report.Raw(g.Value[i]))
			} else {
				if g.Count[i] == 0 {
					continue
				}
				errors := api.Float(math.NaN())
				if i < len(g.ErrorRate) {
					errors = g.ErrorRate[i]
				}
				row = append(row, figure.Thousands(g.Count[i]), report.Digits(float64(g.Rate[i]))+"/s", report.Percent(errors), u.Value(g.Mean[i]))
				plainRow = append(plainRow, strconv.FormatUint(g.Count[i], 10), report.Raw(g.Rate[i]), report.Raw(errors), report.Raw(g.Mean[i]))
				for _, name := range qs {
					row, plainRow = append(row, u.Value(g.Quantiles[name][i])), append(plainRow, report.Raw(g.Quantiles[name][i]))
				}
			}
			t.Rows, plainRows = append(t.Rows, row), append(plainRows, plainRow)
		}
	}
	if asCSV {
		return report.WriteCSV(io.out, header, plainRows)
	}
	return t.Write(io.out)
}

func orSpans(family string) string {
	if family == "" {
		return report.SpanFamily
	}
	return family
}

func unix(t int64) string { return strconv.FormatInt(t, 10) }
