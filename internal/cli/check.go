package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newCheck(io streams) *cobra.Command {
	return group(&cobra.Command{
		Use:   "check",
		Short: "thresholds computed from history: try them, look at them, acknowledge",
		Long: `Check guards values by thresholds that are computed from history.
docs/checks.md says how they are written; tailscope serve --checks FILE runs them.`,
	}, newCheckValidate(io), newCheckRun(io), newCheckList(io), newCheckShow(io), newCheckHistory(io), newCheckBacktest(io),
		newCheckEvaluate(io), newCheckAck(io), newCheckMaintenance(io), newCheckIncident(io), newCheckSchema(io))
}

// checkQuestion is a question about checks; its answer is a table or JSON.
type checkQuestion struct {
	*question
	json bool
}

// answer writes the document that of returns, unless err is an error.
func (q *checkQuestion) answer(err error, of func() *report.Document) error {
	if err != nil {
		return err
	}
	if q.json {
		q.format = "json"
	}
	return q.question.answer(of())
}

// checks returns a writer of reports on checks at this moment.
func (q *checkQuestion) checks() report.Checks { return report.Checks{Now: q.now()} }

func newCheckQuestion(io streams, cmd *cobra.Command) *checkQuestion {
	q := &checkQuestion{question: newQuestion(io, "table")}
	q.serverFlag.register(cmd.Flags())
	cmd.Flags().BoolVar(&q.json, "json", false, "print the answer as the server gives it")
	return q
}

func newCheckList(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "checks and their states, the worst first",
		Example: `  tailscope check list --state bad
  tailscope check list --match '{team="shop"}'`,
		Args: exactArgs(0, ""),
	}
	q := newCheckQuestion(io, cmd)
	wanted := api.ChecksRequest{Limit: 100}
	bind(cmd.Flags(), &wanted, "state", "match", "search", "limit")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		r, err := q.client().Checks(ctx, wanted)
		return q.answer(err, func() *report.Document { return q.checks().List(r) })
	})
	return cmd
}

func newCheckShow(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show CHECK",
		Short:   "one check: its state, definition, expressions step by step, incidents",
		Example: `  tailscope check show 'errors{operation="GET /orders"}'`,
		Args:    exactArgs(1, "the id of a check, as tailscope check list shows it"),
	}
	q := newCheckQuestion(io, cmd)
	learned := cmd.Flags().Bool("learned", false, "print only what its profile has learned, as YAML for a file of checks")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		r, err := q.client().Check(ctx, api.CheckRequest{ID: args[0]})
		if err == nil && *learned && !q.json {
			if r.Learned == "" {
				return fmt.Errorf("check %s has learned nothing yet; it learns if its profile says learn, and soon after there are values", args[0])
			}
			_, err := fmt.Fprint(io.out, r.Learned)
			return err
		}
		return q.answer(err, func() *report.Document { return q.checks().Show(r) })
	})
	return cmd
}

// userName returns the name of the user, the default of --user.
func userName() string {
	for _, name := range []string{"USER", "LOGNAME", "USERNAME"} {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	if u, err := user.Current(); err == nil { // a service or a container may have none of these
		return u.Username
	}
	return ""
}

func newCheckAck(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ack CHECK",
		Short:   "say that somebody takes care: no further notifications until the check is OK",
		Example: `  tailscope check ack orders --comment "the queue is being emptied" --until now+2h`,
		Args:    exactArgs(1, "the id of a check, as tailscope check list shows it"),
	}
	q := newCheckQuestion(io, cmd)
	var a api.Ack
	var until api.Time
	var undo bool
	f := cmd.Flags()
	f.StringVar(&a.User, "user", userName(), "who takes care")
	f.StringVar(&a.Comment, "comment", "", "what is done about it")
	bindField(f, &until, "until", "when it is over, such as now+2h; default when the check is OK", "")
	f.BoolVar(&undo, "undo", false, "take it back")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		r, err := q.acknowledge(ctx, args[0], a, until, undo)
		return q.answer(err, func() *report.Document { return report.OneLine(r, report.PluginLine(r)) })
	})
	return cmd
}

func (q *checkQuestion) acknowledge(ctx context.Context, id string, a api.Ack, until api.Time, undo bool) (*api.Check, error) {
	if a.User == "" {
		return nil, usage{withHint(fmt.Errorf("nobody is named"), "write --user NAME")}
	}
	if undo {
		return q.client().UnacknowledgeCheck(ctx, id, a.User)
	}
	if a.Until = secondsOf(until, q.now()); until == "" {
		a.Until = api.Float(math.NaN())
	}
	return q.client().AcknowledgeCheck(ctx, id, a)
}
