package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
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
		r, err := q.client().Services(ctx, api.ServicesRequest{Selection: api.Selection{Start: start, End: end}})
		if err != nil {
			return q.failed(err)
		}
		if len(r.Services) == 0 && q.format == "table" {
			return withHint(fmt.Errorf("no service has sent anything in that range"),
				"point an OpenTelemetry SDK at the server with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317")
		}
		return q.answer(report.Services(r))
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
		r, err := ask(q, func(sel api.Selection) (*api.DistributionResponse, error) {
			return q.client().Distribution(ctx, api.DistributionRequest{
				Selection: sel, By: splitList(by), Quantiles: splitList(quantiles), At: values, Limit: limit})
		}, func(r *api.DistributionResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		return q.answer(report.Distribution(r, splitList(by)))
	})
	return cmd
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
	cmd.Flags().StringVar(&step, "step", "", "`length` of a column; default chosen by the width")
	cmd.Flags().IntVar(&height, "height", 20, "lines of the picture")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if height < 4 || height > 200 {
			return usage{fmt.Errorf("--height %d: write a number from 4 to 200", height)}
		}
		length, err := optionalDuration("--step", step)
		if err != nil {
			return err
		}
		p := report.HeatmapOptions{Width: q.columns(), Height: height, Colors: q.colors(), Zone: q.now().Location()}
		if q.format != "picture" {
			p.Colors = true // as fine as a picture can be
		}
		var used api.Selection
		h, err := ask(q, func(sel api.Selection) (*api.HeatmapResponse, error) {
			used = sel
			return q.client().Heatmap(ctx, api.HeatmapRequest{Selection: sel, Grid: api.Grid{Step: length, Width: p.Columns()}, Rows: p.Rows()})
		}, func(h *api.HeatmapResponse) bool { return h.Count == 0 })
		if err != nil {
			return err
		}
		if q.format != "picture" {
			return q.answer(report.Heatmap(h, p, nil, nil))
		}
		marks, err := q.client().Marks(ctx, api.MarksRequest{Start: unix(h.Start), End: unix(h.End), Service: q.service})
		if err != nil {
			return q.failed(err)
		}
		d, err := q.client().Distribution(ctx, api.DistributionRequest{Selection: used, Quantiles: []string{"0.5", "0.95", "0.99", "0.999"}})
		if err != nil {
			return q.failed(err)
		}
		return q.answer(report.Heatmap(h, p, marks.Marks, d.Groups))
	})
	return cmd
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
	cmd.Flags().StringVar(&step, "step", "", "`length` of a step; default chosen to give about 30")
	cmd.Flags().StringVar(&offset, "offset", "", "look that much earlier, such as `1d`")
	cmd.Flags().StringVar(&overlay, "overlay", "", "show an earlier `day` instead, by wall clock: day, week, or like (the last day like it)")
	cmd.Flags().StringVar(&zone, "tz", "", "time `zone` of the overlay, such as Europe/Berlin; default UTC")
	cmd.Flags().StringVar(&slide, "slide", "", "every step's figures are those of the `window` that ends with it, such as 10m")
	cmd.Flags().StringVar(&per, "per", "", "request divides a counter's increase by the `requests` of --service")
	cmd.Flags().IntVar(&limit, "limit", 0, "keep only so many groups, those with the most observations")
	cmd.RunE = q.run(func(ctx context.Context) error {
		wanted := api.TimelineRequest{By: splitList(by), Quantiles: splitList(quantiles),
			EarlierDay: api.EarlierDay{Overlay: overlay, Zone: zone}, Per: per, Limit: limit}
		if step == "" {
			wanted.Width = 30
		}
		var err error
		if wanted.Step, err = optionalDuration("--step", step); err != nil {
			return err
		}
		if wanted.Slide, err = durationOrZero("--slide", slide); err != nil {
			return err
		}
		back, later := strings.CutPrefix(offset, "-")
		if wanted.Offset, err = durationOrZero("--offset", back); err != nil {
			return err
		}
		if later {
			wanted.Offset = -wanted.Offset
		}
		r, err := ask(q, func(sel api.Selection) (*api.TimelineResponse, error) {
			wanted.Selection = sel
			return q.client().Timeline(ctx, wanted)
		}, func(r *api.TimelineResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		if r.Overlay != nil && q.format == "table" {
			fmt.Fprintf(io.err, "tailscope: these are figures of %s, at the times of the range asked for\n", r.Overlay.Of)
		}
		return q.answer(report.Timeline(r, splitList(by), q.now().Location()))
	})
	return cmd
}

func orSpans(family string) string {
	if family == "" {
		return report.SpanFamily
	}
	return family
}

func unix(t int64) api.Time { return api.Time(strconv.FormatInt(t, 10)) }
