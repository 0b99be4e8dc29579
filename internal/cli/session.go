package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/judge"
	"tailscope/internal/report"
)

const sessionID = "the id of a session, as tailscope session list shows it"

func newSession(io streams) *cobra.Command {
	return group(&cobra.Command{
		Use:     "session",
		Aliases: []string{"sessions"},
		Short:   "the log book: mirror sessions, runs of load, experiments, searches for capacity, simulations",
		Example: `  tailscope session list --kind bench --state running
  tailscope session show 20260301-120000-5f1c0de5`,
	}, newSessionList(io), newSessionShow(io),
		newSessionDo(io, "stop", "end a session that runs, in order", func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.ChangeSession(ctx, id, api.MirrorChange{Stop: true})
			return err
		}),
		newSessionDo(io, "forget", "drop a session that has ended; its series stay", func(ctx context.Context, c *client.Client, id string) error {
			return c.ForgetSession(ctx, id)
		}))
}

func newSessionDo(io streams, verb, short string, do func(context.Context, *client.Client, string) error) *cobra.Command {
	q := newQuestion(io, "table")
	cmd := &cobra.Command{Use: verb + " ID", Short: short, Args: exactArgs(1, sessionID)}
	q.serverFlag.register(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, args []string) error { return do(ctx, q.client(), args[0]) })
	return cmd
}

func newSessionList(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var ask api.SessionsRequest
	cmd := &cobra.Command{Use: "list", Short: "the sessions of all time or a range, those that run first, then the latest", Args: exactArgs(0, "")}
	q.serverFlag.register(cmd.Flags())
	q.registerRange(cmd.Flags(), "") // default all time
	q.registerFormat(cmd.Flags())
	bind(cmd.Flags(), &ask, "state", "kind", "search")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		ask.Start, ask.End = q.Start, q.End
		if cmd.Flags().Changed("since") {
			var err error
			if ask.Start, ask.End, err = q.timeRange(); err != nil {
				return err
			}
		}
		r, err := q.client().Sessions(ctx, ask)
		if err != nil {
			return err
		}
		return q.answer(report.LogBook(r, q.now().Location()))
	})
	return cmd
}

func newSessionShow(io streams) *cobra.Command {
	q := newQuestion(io, "text", "json", "markdown")
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "one session: what was tried, and what came of it",
		Args:  exactArgs(1, sessionID),
	}
	q.serverFlag.register(cmd.Flags())
	q.registerFormat(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		x, err := q.client().Session(ctx, args[0])
		if err != nil {
			return err
		}
		if x.Kind != "mirror" || q.format == "json" {
			return q.answer(report.Session(x, nil, q.now()))
		}
		d := &report.Document{Name: x.Name, Data: x}
		d.Session(x, q.now().Location())
		if v, err := q.client().SessionVerdict(ctx, api.SessionVerdictRequest{ID: args[0]}); err == nil {
			shorten(v)
			d.Gap()
			d.Verdict(v)
		} else {
			d.Gap()
			d.Line("no verdict: " + q.failed(err).Error())
		}
		return q.answer(d)
	})
	return cmd
}

// shorten removes rows and measures that a first look does not need, but nothing that the
// headline may name. The request asks for all measures: a verdict on fewer would differ
// from the one that others see.
func shorten(v *api.MirrorVerdictResponse) {
	const rows = 5
	for i := range v.Candidates {
		c := &v.Candidates[i]
		c.Measures = slices.DeleteFunc(c.Measures, func(m api.MirrorMeasure) bool {
			plain := !judge.Moved(m.Verdict)
			return plain && !slices.Contains([]string{"ratio", "p50", "p95", "p99", "errors"}, m.Name)
		})
		c.Operations, c.Tenants = c.Operations[:min(rows, len(c.Operations))], c.Tenants[:min(rows, len(c.Tenants))]
	}
}
