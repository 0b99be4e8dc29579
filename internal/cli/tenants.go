package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newQueryTenants(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	wanted := api.TenantsRequest{Limit: 25}
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "who sends the traffic and how each fares, by cohort and tenant",
		Example: `  tailscope query tenants --service shop
  tailscope query tenants --service shop --sort requests
  tailscope query tenants --service shop --not-rare --slow 500ms --sort slow`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	q.registerCohort(cmd.Flags())
	bind(cmd.Flags(), &wanted, "q", "sort", "search", "not-rare", "slow", "rare", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		wanted.Cohort, q.cohort = q.cohort, "" // the cohorts of all stay beside its tenants
		r, err := ask(q, &wanted.Selection, func() (*api.TenantsResponse, error) { return q.client().Tenants(ctx, wanted) },
			func(r *api.TenantsResponse) bool { return len(r.Cohorts) == 0 })
		if errors.Is(err, errNothing) {
			return withHint(errors.New("no request named a tenant in that range"),
				"set the attribute tenant.id on the spans of requests; docs/tenants.md has the lines for Python, Java, Node and Go")
		}
		if err != nil {
			return err
		}
		return q.answer(report.Tenants(r, orSpans(q.Family)))
	})
	return cmd
}
