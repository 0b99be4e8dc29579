package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newQueryOperations(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	wanted := api.OperationsRequest{Limit: 25}
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "the operations that take the time: routes, queries, calls",
		Example: `  tailscope query operations --service shop --sort p99
  tailscope query operations --component db --since 6h`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	bind(cmd.Flags(), &wanted, "q", "component", "kind", "sort", "search", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) (err error) {
		if wanted.Requests, err = q.requests(); err != nil {
			return err
		}
		r, err := q.client().Operations(ctx, wanted)
		if err != nil {
			return err
		}
		if len(r.Rows) == 0 && q.format == "table" {
			return q.errEmpty(r, "no operation matches in that range")
		}
		return q.answer(report.Operations(r))
	})
	return cmd
}
