package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

func newApdex(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	// The range is widened to whole steps: short ones keep it what was asked for.
	wanted := api.ApdexRequest{Grid: api.Grid{Width: 120}}
	cmd := &cobra.Command{
		Use:   "apdex",
		Short: "how satisfied users are, and what satisfies them",
		Example: `  tailscope apdex --service shop --by operation
  tailscope apdex set shop 300ms
  tailscope apdex set shop 2s --operation 'POST /orders'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "tailscope apdex --help lists set, rm and targets")}
			}
			return nil
		},
	}
	q.registerRequests(cmd, "1h")
	bind(cmd.Flags(), &wanted, "by", "t")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) (err error) {
		if wanted.By != "" && wanted.By != "operation" {
			return usage{fmt.Errorf("--by %s: write operation, or leave it out", wanted.By)}
		}
		if wanted.Requests, err = q.requests(); err != nil {
			return err
		}
		r, err := q.client().Apdex(ctx, wanted)
		if err != nil {
			return err
		}
		if len(r.Rows) == 0 && q.format == "table" {
			return q.errEmpty(r, "no request came in that range")
		}
		return q.answer(report.Apdex(r))
	})
	cmd.AddCommand(newApdexSet(io), newApdexRemove(io), newApdexTargets(io))
	return cmd
}

func newApdexSet(io streams) *cobra.Command {
	q := newQuestion(io, "table")
	var operation string
	cmd := &cobra.Command{
		Use:   "set SERVICE TIME",
		Short: "set the time that satisfies a user; what was measured is scored by it anew",
		Args:  exactArgs(2, "a service and a time, such as 300ms"),
	}
	q.serverFlag.register(cmd.Flags())
	cmd.Flags().StringVar(&operation, "operation", "", "of this operation only")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		t, err := parseSeconds(args[1])
		if err != nil {
			return usage{err}
		}
		return q.client().PutApdexTarget(ctx, api.ApdexTarget{Service: args[0], Operation: operation, T: api.Float(t)})
	})
	return cmd
}

func newApdexRemove(io streams) *cobra.Command {
	q := newQuestion(io, "table")
	var operation string
	cmd := &cobra.Command{Use: "rm SERVICE", Short: "remove a target, so that the next wider one holds", Args: exactArgs(1, "a service")}
	q.serverFlag.register(cmd.Flags())
	cmd.Flags().StringVar(&operation, "operation", "", "of this operation")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		if err := q.client().DeleteApdexTarget(ctx, args[0], operation); err != nil {
			var said *client.Error
			if errors.As(err, &said) && said.Code == "not_found" {
				return withHint(err, "tailscope apdex targets lists those there are")
			}
			return err
		}
		return nil
	})
	return cmd
}

func newApdexTargets(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	cmd := &cobra.Command{Use: "targets", Short: "the targets that are set", Args: exactArgs(0, "")}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		r, err := q.client().ApdexTargets(ctx)
		if err != nil {
			return err
		}
		return q.answer(report.ApdexTargets(r))
	})
	return cmd
}
