package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newQueryExplain(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var from, to, low, high, only string
	var alone bool
	var limit int
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "what a rectangle of the heatmap has more often than the rest: labels and pairs of them",
		Long: `Explain takes a rectangle of the heatmap, a stretch of time and a band of
values, and lists the labels, and pairs of labels, that are over-represented in
it against all other requests of the range, the most telling first.`,
		Example: `  tailscope query explain --service shop --low 500ms
  tailscope query explain --service shop --since 6h --from now-2h --to now-90m --low 0.2 --high 2`,
		Args: exactArgs(0, ""),
	}
	fs := cmd.Flags()
	q.register(fs)
	fs.StringVar(&from, "from", "", "where the rectangle begins; default where the range does")
	fs.StringVar(&to, "to", "", "where the rectangle ends; default where the range does")
	fs.StringVar(&low, "low", "", "`value` above which it lies, such as 200ms or 0.2")
	fs.StringVar(&high, "high", "", "`value` up to which it reaches")
	fs.StringVar(&only, "labels", "", "look at these `labels` only, such as tenant,operation")
	fs.BoolVar(&alone, "alone", false, "leave pairs of labels out")
	fs.IntVar(&limit, "limit", 20, "how many labels and pairs to list")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if from == "" && to == "" && low == "" && high == "" {
			return usage{withHint(errors.New("a rectangle is not the whole range"), "write --low 200ms for the slow ones, or --from and --to")}
		}
		question := api.ExplainRequest{From: api.Time(from), To: api.Time(to), Labels: splitList(only), Limit: limit}
		if alone {
			question.Pairs = new(bool)
		}
		var err error
		if question.Low, err = explainBound("low", low); err != nil {
			return err
		}
		if question.High, err = explainBound("high", high); err != nil {
			return err
		}
		r, err := ask(q, func(sel api.Selection) (*api.ExplainResponse, error) {
			question.Selection = sel
			return q.client().Explain(ctx, question)
		}, func(r *api.ExplainResponse) bool { return r.Inside+r.Outside == 0 })
		if err != nil {
			return err
		}
		return q.answer(report.Explain(r, q.now().Location()))
	})
	return cmd
}

// explainBound reads a value as people write it; empty is none.
func explainBound(flag, s string) (*float64, error) {
	if s == "" {
		return nil, nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return &v, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, usage{fmt.Errorf("--%s %q: write a value such as 200ms or 0.2", flag, s)}
	}
	v := d.Seconds()
	return &v, nil
}
