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
	id := ""
	show := q.run(func(ctx context.Context) error {
		m, err := q.client().Mark(ctx, id)
		if err != nil {
			return q.failed(err)
		}
		return q.answer(report.Mark(m, q.now().Location()))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id = args[0]
		return show(cmd, args)
	}
	return cmd
}
