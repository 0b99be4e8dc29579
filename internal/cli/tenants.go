package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newQueryTenants(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles, slow, rare string
	var wanted api.TenantsRequest
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "who sends the traffic and how each fares, by cohort and tenant",
		Example: `  tailscope query tenants --service shop --sort 0.99
  tailscope query tenants --service shop --not-rare --slow 500ms --sort slow`,
		Args: exactArgs(0, ""),
	}
	q.register(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	fs.StringVar(&wanted.Sort, "sort", "", "requests, errors, mean, slow, cohort, size, name or a quantile; a leading minus turns it round")
	fs.StringVar(&wanted.Search, "search", "", "part of a tenant's `name`")
	fs.StringVar(&wanted.Cohort, "cohort", "", "only tenants of this `cohort`: very-large, large, medium or small")
	fs.BoolVar(&wanted.NotRare, "not-rare", false, "only tenants for whom slow requests are not rare")
	fs.StringVar(&slow, "slow", "", "from what `duration` a request is slow; default 1s")
	fs.StringVar(&rare, "rare", "", "up to what `share` slow requests are rare, such as 0.5%; default 1%")
	fs.IntVar(&wanted.Limit, "limit", 25, "how many tenants")
	cmd.RunE = q.run(func(ctx context.Context) error {
		var err error
		if wanted.Slow, err = optionalDuration("--slow", slow); err != nil {
			return err
		}
		if rare != "" {
			share, err := parseShare(rare, "1%")
			if err != nil {
				return usage{fmt.Errorf("--rare %w", err)}
			}
			wanted.Rare = api.Share(share)
		}
		r, err := ask(q, func(sel api.Selection) (*api.TenantsResponse, error) {
			wanted.Selection, wanted.Quantiles = sel, splitList(quantiles)
			return q.client().Tenants(ctx, wanted)
		}, func(r *api.TenantsResponse) bool { return len(r.Cohorts) == 0 })
		if err != nil {
			return err
		}
		return q.answer(report.Tenants(r, orSpans(q.family)))
	})
	return cmd
}
