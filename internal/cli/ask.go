package cli

import (
	"context"
	"fmt"
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
	q.registerEnvironment(cmd.Flags())
	q.registerRange(cmd.Flags(), "1h")
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		start, end, err := q.timeRange()
		if err != nil {
			return err
		}
		wanted := api.ServicesRequest{Selection: api.Selection{Start: start, End: end}}
		if ms := q.matchers(); len(ms) > 0 {
			wanted.Match = "{" + strings.Join(ms, ",") + "}"
		}
		r, err := q.client().Services(ctx, wanted)
		if err != nil {
			return err
		}
		if len(r.Services) == 0 && q.format == "table" {
			if err := errUnsent(r); err != nil {
				return err
			}
			return withHint(fmt.Errorf("no service has sent anything in that range"),
				"point an OpenTelemetry SDK at the server with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317")
		}
		return q.answer(report.Services(r))
	})
	return cmd
}

func newQueryDistribution(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var wanted api.DistributionRequest
	cmd := &cobra.Command{
		Use:   "distribution",
		Short: "quantiles of a range, and the shares below, at and above a value",
		Example: `  tailscope query distribution --service shop --q 0.5,0.99 --at 200ms
  tailscope query distribution --service shop --by tenant --since 15m`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	q.registerCohort(cmd.Flags())
	bind(cmd.Flags(), &wanted, "by", "q", "at", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		r, err := ask(q, &wanted.Selection, func() (*api.DistributionResponse, error) { return q.client().Distribution(ctx, wanted) },
			func(r *api.DistributionResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		return q.answer(report.Distribution(r, wanted.By))
	})
	return cmd
}

func newQueryHeatmap(io streams) *cobra.Command {
	q := newQuestion(io, "picture", "json", "csv")
	var wanted api.HeatmapRequest
	var height int
	cmd := &cobra.Command{
		Use:     "heatmap",
		Short:   "a picture of the whole distribution over time",
		Example: `  tailscope query heatmap --service shop --since 30m`,
		Args:    exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	q.registerCohort(cmd.Flags())
	q.registerPicture(cmd.Flags())
	bind(cmd.Flags(), &wanted, "step")
	cmd.Flags().IntVar(&height, "height", 20, "lines of the picture")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		if height < 4 || height > 200 {
			return usage{fmt.Errorf("--height %d: write a number from 4 to 200", height)}
		}
		p := report.HeatmapOptions{Width: q.columns(), Height: height, Colors: q.colors(), Zone: q.now().Location()}
		if q.format != "picture" {
			p.Colors = true // as fine as a picture can be
		}
		wanted.Width, wanted.Rows = p.Columns(), p.Rows()
		h, err := ask(q, &wanted.Selection, func() (*api.HeatmapResponse, error) { return q.client().Heatmap(ctx, wanted) },
			func(h *api.HeatmapResponse) bool { return h.Count == 0 })
		if err != nil {
			return err
		}
		if q.format != "picture" {
			return q.answer(report.Heatmap(h, p, nil, nil))
		}
		marks, err := q.client().Marks(ctx, api.MarksRequest{Start: unix(h.Start), End: unix(h.End), Service: q.service})
		if err != nil {
			return err
		}
		d, err := q.client().Distribution(ctx, api.DistributionRequest{Selection: wanted.Selection, Quantiles: []string{"0.5", "0.95", "0.99", "0.999"}})
		if err != nil {
			return err
		}
		return q.answer(report.Heatmap(h, p, marks.Marks, d.Groups))
	})
	return cmd
}

func newQueryTimeline(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var wanted api.TimelineRequest
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
	bind(cmd.Flags(), &wanted, "by", "q", "step", "offset", "overlay", "tz", "slide", "per", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		if wanted.Step == 0 {
			wanted.Width = 30
		}
		r, err := ask(q, &wanted.Selection, func() (*api.TimelineResponse, error) { return q.client().Timeline(ctx, wanted) },
			func(r *api.TimelineResponse) bool { return len(r.Groups) == 0 })
		if err != nil {
			return err
		}
		if r.Overlay != nil && q.format == "table" {
			fmt.Fprintf(io.err, "tailscope: these are figures of %s, at the times of the range asked for\n", r.Overlay.Of)
		}
		return q.answer(report.Timeline(r, wanted.By, q.now().Location()))
	})
	return cmd
}

func orSpans(family string) string {
	if family == "" {
		return report.SpanFamily
	}
	return family
}
