package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

// registerRequests registers the flags of questions about requests, which have no
// family and no kind.
func (q *question) registerRequests(cmd *cobra.Command, since string) {
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerNames(fs, "only this service")
	q.registerPlaces(fs)
	bind(fs, &q.Selection, "match")
	q.registerRange(fs, since)
	q.registerFormat(fs)
}

// matchText returns the matchers that the flags say, empty if there are none.
func (q *question) matchText() string {
	ms := q.matchers()
	if len(ms) == 0 {
		return ""
	}
	return "{" + strings.Join(ms, ",") + "}"
}

// requests returns the selection that the flags say.
func (q *question) requests() (api.Requests, error) {
	start, end, err := q.timeRange()
	if err != nil {
		return api.Requests{}, err
	}
	return api.Requests{Match: q.matchText(), Start: start, End: end}, nil
}

// errUnsent returns the error of an answer that is empty because nobody sent a name; nil of
// others.
func errUnsent(answer any) error {
	if said, ok := answer.(interface{ Suggestion() *api.Instead }); ok && said.Suggestion() != nil {
		return errors.New(said.Suggestion().Message)
	}
	return nil
}

// errEmpty returns the error of an answer in which is nothing.
func (q *question) errEmpty(answer any, what string) error {
	if err := errUnsent(answer); err != nil {
		return err
	}
	return withHint(errors.New(what), "tailscope query services --since %s shows what there is; a wider --since may help", q.since)
}

func newQueryBreakdown(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	wanted := api.BreakdownRequest{Limit: 25}
	cmd := &cobra.Command{
		Use:   "breakdown",
		Short: "where the time of a service's requests goes, and that of the slowest",
		Example: `  tailscope query breakdown --service shop --since 6h
  tailscope query breakdown --service shop --operation 'PUT /cart/{id}' --above 0.99
  tailscope query breakdown --service shop --low 200ms --high 1s`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	bind(cmd.Flags(), &wanted, "q", "above", "low", "high", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		if q.service == "" && q.Match == "" {
			return usage{withHint(errors.New("a breakdown is of one service's requests"), "name it with --service; tailscope query services lists them")}
		}
		rows := wanted.Limit
		if rows < 0 {
			return usage{fmt.Errorf("--limit %d: write 0 or more", rows)}
		}
		wanted.Limit = max(rows, 1)
		var err error
		if wanted.Requests, err = q.requests(); err != nil {
			return err
		}
		r, err := q.client().Breakdown(ctx, wanted)
		if err != nil {
			return err
		}
		if r.Total == 0 && q.format != "json" {
			return q.errEmpty(r, cmp.Or(r.Note, "no request was taken apart in that range"))
		}
		return q.answer(report.Breakdown(r, rows))
	})
	return cmd
}
