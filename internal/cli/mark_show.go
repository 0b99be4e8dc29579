package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tailscope/internal/report"
)

func newMarkShow(io streams) *cobra.Command {
	q := newQuestion(io, "text", "json")
	cmd := &cobra.Command{
		Use: "show ID", Short: "a mark, and what was found at it",
		Long: `Show prints a mark and its verdict: every mark is compared with what lay before
it without being asked, some four minutes after it and again until an hour has
passed. To compare a mark in other ways, write tailscope compare --mark ID.`,
		Args: exactArgs(1, "the id of a mark, as tailscope mark list shows it"),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		m, err := q.client().Mark(ctx, args[0])
		if err != nil {
			return err
		}
		return q.answer(report.Mark(m, q.now().Location()))
	})
	return cmd
}
