package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newQueryExplain(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	wanted := api.ExplainRequest{Limit: 20}
	var alone bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "who became slow, or is slow, in a rectangle of the heatmap: labels and pairs of them",
		Long: `Explain takes a rectangle of the heatmap, a stretch of time and a band of
values, and lists the labels, and pairs of labels, whose requests lie in it more
often than they did before: before a mark that is near, or else in the time
before the rectangle. What one of them accounts for is left out of the next.
With --against rest it lists those that are over-represented in it against all
other requests of the range.`,
		Example: `  tailscope query explain --service shop --low 500ms
  tailscope query explain --service shop --since 1h --low 500ms --before now-5h..now-4h
  tailscope query explain --service shop --low 500ms --against rest
  tailscope query explain --service shop --since 6h --from now-2h --to now-90m --low 0.2 --high 2`,
		Args: exactArgs(0, ""),
	}
	fs := cmd.Flags()
	q.register(fs)
	bind(fs, &wanted, "from", "to", "low", "high", "against", "before", "labels", "limit")
	fs.BoolVar(&alone, "alone", false, "leave pairs of labels out")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		if wanted.From == "" && wanted.To == "" && wanted.Low == nil && wanted.High == nil {
			return usage{withHint(errors.New("a rectangle is not the whole range"), "write --low 200ms for the slow ones, or --from and --to")}
		}
		if alone {
			wanted.Pairs = new(bool)
		}
		asked := wanted
		if wanted.Before != "" {
			var err error
			if asked.Before, _, err = parseWindow("before", wanted.Before, q.now()); err != nil {
				return usage{err}
			}
		}
		r, err := ask(q, &asked.Selection, func() (*api.ExplainResponse, error) { return q.client().Explain(ctx, asked) },
			func(r *api.ExplainResponse) bool { return r.Inside+r.Outside == 0 })
		if err != nil {
			return err
		}
		return q.answer(report.Explain(r, q.now().Location()))
	})
	return cmd
}
