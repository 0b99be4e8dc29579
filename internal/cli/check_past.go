package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newCheckHistory(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history CHECK",
		Short:   "values, thresholds and states of a check over time",
		Example: `  tailscope check history 'front page' --since 6h --step 10m`,
		Args:    exactArgs(1, "the id of a check, as tailscope check list shows it"),
	}
	q := newCheckQuestion(io, cmd)
	var wanted api.CheckRequest
	q.registerRange(cmd.Flags(), "1d")
	bind(cmd.Flags(), &wanted, "step")
	cmd.RunE = q.run(func(ctx context.Context, args []string) (err error) {
		if wanted.Start, wanted.End, err = q.timeRange(); err != nil {
			return err
		}
		if wanted.Step == 0 {
			wanted.Step = q.defaultStep(wanted.Start, wanted.End)
		}
		wanted.ID = args[0]
		r, err := q.client().Check(ctx, wanted)
		return q.answer(err, func() *report.Document { return q.checks().History(r) })
	})
	return cmd
}

// defaultStep returns a step that makes about thirty lines of a range.
func (q *checkQuestion) defaultStep(start, end api.Time) time.Duration {
	now := q.now()
	return max(10*time.Second, (momentOf(end, now).Sub(momentOf(start, now)) / 30).Truncate(time.Second))
}

func newCheckEvaluate(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evaluate EXPRESSION",
		Short: "what an expression comes to, step by step",
		Example: `  tailscope check evaluate 'avgmad({check="orders"}[4 weekdays, -30M:+30M])'
  tailscope check evaluate 'p99(span_duration_seconds{service="shop", kind="server"}[-60M:-0M])' --at now-1d`,
		Args: exactArgs(1, "an expression"),
	}
	q := newCheckQuestion(io, cmd)
	var e api.CheckEvaluate
	var at api.Time
	f := cmd.Flags()
	bindField(f, &at, "at", "when; default now", "")
	f.StringVar(&e.Check, "check", "", "as this check evaluates: its zone, null policy and value")
	f.StringVar(&e.Null, "null", "", "strict, skip or zero")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		e.Expression, e.At = args[0], secondsOf(at, q.now())
		r, err := q.client().EvaluateCheck(ctx, e)
		return q.answer(err, func() *report.Document { return q.checks().Evaluation(r) })
	})
	return cmd
}

func newCheckBacktest(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backtest CHECK",
		Short: "what a threshold would have done, against marked incidents",
		Long: `Backtest runs a check over the past, as it is or with another threshold, and
says when it would have sent notifications. Incidents that were marked
(tailscope check incident add) say which of these were right.`,
		Example: `  tailscope check backtest orders --since 4w
  tailscope check backtest orders --of 'avg({check="orders"}[4 weeks])' --warning 15% --critical 40%`,
		Args: exactArgs(1, "the id of a check, as tailscope check list shows it"),
	}
	q := newCheckQuestion(io, cmd)
	var b api.CheckBacktest
	var t api.CheckThreshold
	var s api.CheckStates
	var every string
	q.registerRange(cmd.Flags(), "28d")
	f := cmd.Flags()
	f.StringVar(&t.Must, "must", "", "another threshold: what a healthy value does, <, > or =")
	f.StringVar(&t.Of, "of", "", "a number, an `expression`, or \"profile NAME\"")
	f.StringVar(&t.Warning, "warning", "", "how far beyond is a WARNING, such as 10% or 5")
	f.StringVar(&t.Critical, "critical", "", "how far beyond is CRITICAL")
	f.StringVar(&s.Bad, "soft", "", "bad runs that make the state hard, such as '3 of 5'")
	f.StringVar(&s.Good, "recover", "", "good runs that make it OK, such as '2 of 2'")
	f.StringVar(&b.Value, "value", "", "another value: an `expression`")
	f.StringVar(&every, "every", "", "`duration` between runs; default the check's")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		b.Check = args[0]
		start, end, err := q.timeRange()
		if err != nil {
			return err
		}
		b.Start, b.End = secondsOf(start, q.now()), secondsOf(end, q.now())
		if every != "" {
			d, err := parseSince(every)
			if err != nil {
				return usage{fmt.Errorf("--every %w", err)}
			}
			b.Every = api.Float(d.Seconds())
		}
		if t != (api.CheckThreshold{}) {
			if err := q.completeThreshold(cmd, args[0], &t); err != nil {
				return err
			}
			b.Threshold = &t
		}
		if s != (api.CheckStates{}) {
			b.States = &s
		}
		r, err := q.client().BacktestCheck(ctx, b)
		return q.answer(err, func() *report.Document { return q.checks().Backtest(r) })
	})
	return cmd
}

// completeThreshold sets from the check what the flags leave out.
func (q *checkQuestion) completeThreshold(cmd *cobra.Command, id string, t *api.CheckThreshold) error {
	if t.Must != "" && t.Of != "" && (t.Warning != "" || t.Critical != "") {
		return nil
	}
	r, err := q.client().Check(cmd.Context(), api.CheckRequest{ID: id})
	if err != nil {
		return err
	}
	if r.Threshold == nil {
		return usage{withHint(fmt.Errorf("%s has no threshold of its own", id), "write --must, --of, and --warning or --critical")}
	}
	if t.Must == "" {
		t.Must = r.Threshold.Must
	}
	if t.Of == "" {
		t.Of = r.Threshold.Of
	}
	if t.Warning == "" {
		t.Warning = r.Threshold.Warning
	}
	if t.Critical == "" {
		t.Critical = r.Threshold.Critical
	}
	return nil
}
