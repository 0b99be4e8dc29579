package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
	"tailscope/internal/strictyaml"
)

func newMark(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mark",
		Short: "name a moment: a deploy, a change, a backup",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && slices.Contains([]string{"delete", "del", "remove"}, args[0]) {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "to remove a mark, write tailscope mark rm %s", args[1])}
			}
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "to name this moment, write tailscope mark add %q", strings.Join(args, " "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMarkAdd(io), newMarkList(io), newMarkShow(io), newMarkRemove(io))
	return cmd
}

func newMarkAdd(io streams) *cobra.Command {
	var m api.Mark
	var at string
	q := newQuestion(io, "table")
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "name a moment, now unless --at says otherwise",
		Example: `  tailscope mark add "deploy 1.4" --service checkout --revision 5f1c0de --user ada \
    --description "the index on orders" --link https://ci.example/builds/1204`,
		Args: exactArgs(1, "a name"),
	}
	q.serverFlag.register(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&at, "at", "now", "the `moment`: RFC 3339, Unix seconds, 2006-01-02 15:04, now-10m")
	f.StringVar(&m.Service, "service", "", "the service it concerns; default every service")
	f.StringVar(&m.Environment, "environment", "", "the environment of the service that it concerns; default all that it has")
	f.StringVar(&m.Revision, "revision", "", "the version or commit")
	f.StringVar(&m.User, "user", "", "who did it")
	f.StringVar(&m.Description, "description", "", "what was done")
	f.StringVar(&m.Link, "link", "", "`url` where more is to be read")
	f.StringVar(&m.Allow, "allow", "", "changes that its verdict allows, such as worse:3%,p99=increase:5%; default none")
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		m.Name = args[0]
		if at != "now" {
			t, err := parseMoment(at, q.now())
			if err != nil {
				return usage{fmt.Errorf("--at %w", err)}
			}
			m.Time = api.Float(float64(t.UnixMilli()) / 1e3)
		}
		saved, err := q.client().PutMark(ctx, m)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintln(io.out, saved.ID); err != nil {
			return err
		}
		if note := noticeUnknown(ctx, q.client(), saved.Service); note != "" {
			fmt.Fprintln(io.err, "tailscope: "+note)
		}
		return nil
	})
	return cmd
}

// noticeUnknown returns a notice that no spans of a service were received, since its name
// is often misspelt. It returns an empty text if spans were received, or if the server
// does not answer.
func noticeUnknown(ctx context.Context, c *client.Client, service string) string {
	const few = 10
	if service == "" {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	r, err := c.Labels(ctx, api.LabelsRequest{Selection: api.Selection{Start: "0"}, Names: []string{"service"}, Limit: 1000})
	if err != nil || len(r.Labels) != 1 || r.Labels[0].Total > len(r.Labels[0].Values) {
		return ""
	}
	var known []string
	for _, v := range r.Labels[0].Values {
		if v.Value == service {
			return ""
		}
		known = append(known, v.Value)
	}
	note := fmt.Sprintf("no spans of service %q were ever received", service)
	slices.Sort(known)
	if near, ok := strictyaml.Nearest(service, known); ok {
		return fmt.Sprintf("%s; did you mean %q?", note, near)
	}
	switch more := len(known) - few; {
	case len(known) == 0:
		return note + ", or of any other"
	case more > 0:
		return fmt.Sprintf("%s; known are %s and %d more", note, strings.Join(known[:few], ", "), more)
	}
	return note + "; known are " + strings.Join(known, ", ")
}

func newMarkList(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var wanted api.MarksRequest
	cmd := &cobra.Command{
		Use: "list", Short: "the marks of a range, and of the future", Args: exactArgs(0, ""),
		Long: "List prints the marks from the start of the range on, with those of the\nfuture; --end now leaves these out.",
	}
	q.serverFlag.register(cmd.Flags())
	q.registerRange(cmd.Flags(), "30d")
	q.registerFormat(cmd.Flags())
	bind(cmd.Flags(), &wanted, "service")
	cmd.RunE = q.run(func(ctx context.Context, _ []string) (err error) {
		if wanted.Start, wanted.End, err = q.timeRange(); err != nil {
			return err
		}
		if !cmd.Flags().Changed("end") {
			wanted.End = "" // what is planned is a mark too
		}
		r, err := q.client().Marks(ctx, wanted)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Marks, func(m api.Mark) bool { return m.Service != "" }) {
			if note := noticeUnknown(ctx, q.client(), wanted.Service); note != "" && len(r.Marks) == 0 {
				return errors.New(note)
			} else if note != "" {
				fmt.Fprintln(io.err, "tailscope: "+note)
			}
		}
		return q.answer(report.Marks(r, q.now().Location()))
	})
	return cmd
}

func newMarkRemove(io streams) *cobra.Command {
	q := newQuestion(io, "table")
	cmd := &cobra.Command{Use: "rm ID", Short: "remove a mark", Args: exactArgs(1, "the id of a mark, as tailscope mark list shows it")}
	q.serverFlag.register(cmd.Flags())
	cmd.RunE = q.run(func(ctx context.Context, args []string) error {
		return q.client().DeleteMark(ctx, args[0])
	})
	return cmd
}
