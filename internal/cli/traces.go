package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

func newQueryTraces(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	wanted := api.TracesRequest{Limit: 25}
	var text bool
	cmd := &cobra.Command{
		Use:   "traces [ID]",
		Short: "slow and failed requests; with an id, one of them span by span",
		Example: `  tailscope query traces --service shop --min 500ms
  tailscope query traces 5b8efff798038103d269b633813fc60c`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactArgs(1, "the id of a trace, or none")(cmd, args)
			}
			return nil
		},
	}
	q.registerRequests(cmd, "1h")
	q.registerPicture(cmd.Flags())
	bind(cmd.Flags(), &wanted, "min", "max", "why", "sort", "limit", "where")
	cmd.Flags().BoolVar(&text, "text", false, "with an id: print the statements under their spans")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			return showTrace(ctx, q, args[0], text)
		}
		return listTraces(ctx, q, wanted)
	})
	return cmd
}

func listTraces(ctx context.Context, q *question, wanted api.TracesRequest) (err error) {
	if wanted.Requests, err = q.requests(); err != nil {
		return err
	}
	r, err := q.client().Traces(ctx, wanted)
	if err != nil {
		return err
	}
	if len(r.Traces) == 0 && q.format == "table" {
		return q.errEmpty(r, "no trace of such a request is kept")
	}
	return q.answer(report.Traces(r, q.now().Location()))
}

func showTrace(ctx context.Context, q *question, id string, text bool) error {
	r, err := q.client().Trace(ctx, strings.ToLower(strings.TrimSpace(id)))
	if err != nil {
		var said *client.Error
		if errors.As(err, &said) && said.Code == "not_found" {
			return withHint(err, "tailscope query traces lists those that are kept")
		}
		return err
	}
	return q.answer(report.Trace(r, report.TraceOptions{Zone: q.now().Location(), Width: q.columns(), Texts: text}))
}
