package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/config"
	"tailscope/internal/report"
)

// registerRequests takes the flags of questions about requests, which have no
// family and no kind.
func (q *question) registerRequests(cmd *cobra.Command, since string) {
	fs := cmd.Flags()
	q.serverFlag.register(fs)
	q.registerNames(fs, "only this service")
	fs.StringVar(&q.match, "match", "", "further PromQL matchers, such as '{status=\"error\"}'")
	q.registerRange(fs, since)
	q.registerFormat(fs)
}

// requests is the selection that the flags say.
func (q *question) requests() (api.Requests, error) {
	start, end, err := q.timeRange()
	if err != nil {
		return api.Requests{}, err
	}
	match := ""
	if ms := q.matchers(); len(ms) > 0 {
		match = matchText(ms)
	}
	return api.Requests{Match: match, Start: start, End: end}, nil
}

// nothing says that a range is empty.
func (q *question) nothing(what string) error {
	return withHint(errors.New(what), "tailscope query services --since %s shows what there is; a wider --since may help", q.since)
}

func newQueryBreakdown(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var quantiles, low, high string
	var above float64
	var limit int
	cmd := &cobra.Command{
		Use:   "breakdown",
		Short: "where the time of a service's requests goes, and that of the slowest",
		Example: `  tailscope query breakdown --service shop --since 6h
  tailscope query breakdown --service shop --operation 'GET /cart/{id}' --above 0.99
  tailscope query breakdown --service shop --low 200ms --high 1s`,
		Args: exactArgs(0, ""),
	}
	q.registerRequests(cmd, "1h")
	cmd.Flags().StringVar(&quantiles, "q", "0.5,0.95,0.99", "`quantiles` between 0 and 1")
	cmd.Flags().Float64Var(&above, "above", 0, "look at the requests above this `quantile`; default 0.95")
	cmd.Flags().StringVar(&low, "low", "", "look at the requests that took longer than this `time` instead")
	cmd.Flags().StringVar(&high, "high", "", "and no longer than this `time`")
	cmd.Flags().IntVar(&limit, "limit", 25, "how many parts to show")
	cmd.RunE = q.run(func(ctx context.Context) error {
		if q.service == "" && q.match == "" {
			return usage{withHint(errors.New("a breakdown is of one service's requests"), "name it with --service; tailscope query services lists them")}
		}
		sel, err := q.requests()
		if err != nil {
			return err
		}
		ask := api.BreakdownRequest{Requests: sel, Quantiles: splitList(quantiles), Above: api.Quantile(above), Limit: max(limit, 1)}
		if ask.Low, err = optionalDuration("--low", low); err != nil {
			return err
		}
		if ask.High, err = optionalDuration("--high", high); err != nil {
			return err
		}
		r, err := q.client().Breakdown(ctx, ask)
		if err != nil {
			return q.failed(err)
		}
		if r.Total == 0 && q.format != "json" {
			return q.nothing(cmp.Or(r.Note, "no request was taken apart in that range"))
		}
		return q.answer(report.Breakdown(r, limit))
	})
	return cmd
}

// optionalDuration reads a time above 0; empty is 0.
func optionalDuration(flag, text string) (time.Duration, error) {
	v, err := optionalSeconds(flag, text)
	return time.Duration(math.Round(v * float64(time.Second))), err
}

// durationOrZero reads a time that may be 0; empty is 0, too.
func durationOrZero(flag, text string) (time.Duration, error) {
	if d, err := config.ParseDuration(text); err == nil {
		return d, nil
	}
	return optionalDuration(flag, text)
}

func optionalSeconds(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := parseSeconds(text)
	if err != nil {
		return 0, usage{fmt.Errorf("%s %w", flag, err)}
	}
	return v, nil
}
