package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newCheckMaintenance(io streams) *cobra.Command {
	return group(&cobra.Command{Use: "maintenance", Short: "times without notifications"}, newMaintenanceAdd(io), newMaintenanceList(io), newMaintenanceEnd(io))
}

func newMaintenanceAdd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "send no notifications for a while: of some checks, or of all",
		Example: `  tailscope check maintenance add "new disks" --check disk --for 2h
  tailscope check maintenance add move --match '{team="shop"}' --start "2026-12-01 22:00" --for 6h`,
		Args: exactArgs(1, "a name"),
	}
	q := newCheckQuestion(io, cmd)
	var m api.Maintenance
	var start, end api.Time
	var long string
	f := cmd.Flags()
	f.StringArrayVar(&m.Checks, "check", nil, "`name` or id of a check; may be given again; default all")
	f.StringVar(&m.Match, "match", "", "only checks with these labels: PromQL `matchers`")
	bindField(f, &start, "start", "when it begins; default now", "")
	bindField(f, &end, "end", "when it ends", "")
	f.StringVar(&long, "for", "", "how long it takes, instead of --end: a `duration` such as 2h")
	f.StringVar(&m.User, "user", userName(), "who says so")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		m.Name = args[0]
		var err error
		if m.Start, m.End, err = q.between(start, end, long); err != nil {
			return err
		}
		r, err := q.client().AddMaintenance(ctx, m)
		return q.answer(err, func() *report.Document { return report.OneLine(r, r.ID) })
	})
	return cmd
}

// between returns a beginning, default now, and an end, which is given or follows from
// a length.
func (q *checkQuestion) between(start, end api.Time, long string) (from, to api.Float, err error) {
	if (end == "") == (long == "") {
		return 0, 0, usage{withHint(fmt.Errorf("when does it end?"), "write --for 2h, or --end with a moment")}
	}
	from = secondsOf(cmp.Or(start, "now"), q.now())
	if long != "" {
		d, err := parseSince(long)
		if err != nil {
			return 0, 0, usage{fmt.Errorf("--for %w", err)}
		}
		return from, from + api.Float(d.Seconds()), nil
	}
	return from, secondsOf(end, q.now()), nil
}

func newMaintenanceList(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "windows of files, and those that were added", Args: exactArgs(0, "")}
	q := newCheckQuestion(io, cmd)
	cmd.RunE = q.run(func(ctx context.Context, _ []string) error {
		r, err := q.client().Maintenance(ctx)
		return q.answer(err, func() *report.Document { return q.checks().Maintenance(r) })
	})
	return cmd
}

func newMaintenanceEnd(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "end ID", Short: "end a window that was added, now", Args: exactArgs(1, "the id of a window, as tailscope check maintenance list shows it")}
	q := newCheckQuestion(io, cmd)
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		return q.client().EndMaintenance(ctx, args[0])
	})
	return cmd
}

func newCheckIncident(io streams) *cobra.Command {
	return group(&cobra.Command{Use: "incident", Short: "incidents: what checks found, and what somebody says was one"}, newIncidentAdd(io), newIncidentList(io), newIncidentRemove(io))
}

func newIncidentAdd(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "add NAME",
		Short:   "say that there was an incident, for backtests to be held against",
		Example: `  tailscope check incident add "the queue stood" --check orders --start "2026-11-02 14:05" --end "2026-11-02 14:40"`,
		Args:    exactArgs(1, "a name"),
	}
	q := newCheckQuestion(io, cmd)
	var m api.MarkedIncident
	var start, end api.Time
	var long string
	f := cmd.Flags()
	f.StringVar(&m.Check, "check", "", "the check that should see it; default every one")
	f.StringVar(&m.Service, "service", "", "the service it concerned")
	bindField(f, &start, "start", "when it began", "")
	bindField(f, &end, "end", "when it ended", "")
	f.StringVar(&long, "for", "", "how long it took, instead of --end")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		m.Name = args[0]
		if start == "" {
			return usage{withHint(fmt.Errorf("when did it begin?"), "write --start \"2026-11-02 14:05\"")}
		}
		var err error
		if m.Start, m.End, err = q.between(start, end, long); err != nil {
			return err
		}
		r, err := q.client().MarkIncident(ctx, m)
		return q.answer(err, func() *report.Document { return report.OneLine(r, r.ID) })
	})
	return cmd
}

func newIncidentList(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "incidents of a range, the newest first", Args: exactArgs(0, ""),
		Example: `  tailscope check incident list --since 7d --check orders`,
	}
	q := newCheckQuestion(io, cmd)
	var wanted api.IncidentsRequest
	f := cmd.Flags()
	q.registerRange(f, "7d")
	bind(f, &wanted, "check", "kind", "open")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) (err error) {
		if wanted.Start, wanted.End, err = q.timeRange(); err != nil {
			return err
		}
		r, err := q.client().Incidents(ctx, wanted)
		return q.answer(err, func() *report.Document { return q.checks().Incidents(r) })
	})
	return cmd
}

func newIncidentRemove(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "remove ID", Short: "forget an incident that was marked", Args: exactArgs(1, "the id of an incident, as tailscope check incident list shows it")}
	q := newCheckQuestion(io, cmd)
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		return q.client().DeleteIncident(ctx, args[0])
	})
	return cmd
}
