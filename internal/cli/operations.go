package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func matchText(ms []string) string { return "{" + strings.Join(ms, ",") + "}" }

func newQueryOperations(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles, component, kind, sort, search string
	var limit int
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "the operations that take the time: routes, queries, calls",
		Example: `  tailscope query operations --service shop --sort p99
  tailscope query operations --component db --since 6h`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().StringVar(&component, "component", "", "only these `components`: app, db, cache, external, messaging")
	cmd.Flags().StringVar(&kind, "kind", "", "only these `kinds` of spans: server, client, producer, consumer, internal")
	cmd.Flags().StringVar(&sort, "sort", "", "`by` total (default), calls, errors, mean, name or a quantile (p99); a leading minus turns it round")
	cmd.Flags().StringVar(&search, "search", "", "part of an operation's `name`")
	cmd.Flags().IntVar(&limit, "limit", 25, "how many operations")
	cmd.RunE = q.run(func(ctx context.Context) error {
		sel, err := q.requests()
		if err != nil {
			return err
		}
		r, err := q.client().Operations(ctx, api.OperationsRequest{Requests: sel, Quantiles: splitList(quantiles),
			Sort: sort, Search: search, Components: splitList(component), Kinds: splitList(kind), Limit: limit})
		if err != nil {
			return q.failed(err)
		}
		if len(r.Rows) == 0 && q.format == "table" {
			return q.nothing("no operation matches in that range")
		}
		return q.answer(report.Operations(r))
	})
	return cmd
}
