package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/internal/report"
)

func newChanges(io streams) *cobra.Command {
	return group(&cobra.Command{
		Use:   "changes",
		Short: "moments at which requests changed, found without naming where to look",
	}, newChangesList(io),
		newChangesDecide(io, "confirm", "confirmed", "make a change a mark", `  tailscope changes confirm 5f1c0de5f1c0de11 --service shop --name "the index"`),
		newChangesDecide(io, "dismiss", "dismissed", "show a change no more", ""),
		newChangesDecide(io, "undo", "new", "take back a decision, and the mark it made", ""))
}

// changesFlags holds the flags of all commands about changes.
type changesFlags struct {
	*question
	wanted api.ChangesRequest
}

func newChangesFlags(io streams, cmd *cobra.Command, formats ...string) *changesFlags {
	f := &changesFlags{question: newQuestion(io, formats...)}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	f.registerNames(fs, "only this service")
	f.registerPlaces(fs)
	bind(fs, &f.Selection, "match")
	bind(fs, &f.wanted, "operations")
	f.registerRange(fs, "6h")
	return f
}

func (f *changesFlags) ask(ctx context.Context) (*api.ChangesResponse, error) {
	of, err := f.requests()
	if err != nil {
		return nil, err
	}
	f.wanted.Match, f.wanted.Start, f.wanted.End = of.Match, of.Start, of.End
	r, err := f.client().Changes(ctx, f.wanted)
	if err != nil {
		return nil, err
	}
	return r, errUnsent(r)
}

func newChangesList(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "the changes of a range",
		Example: `  tailscope changes list --service shop --since 1d
  tailscope changes list --status all --format csv`,
		Args: exactArgs(0, ""),
	}
	f := newChangesFlags(io, cmd, "table", "json", "csv")
	f.registerFormat(cmd.Flags())
	bind(cmd.Flags(), &f.wanted, "status")
	cmd.RunE = f.run(func(ctx context.Context, _ []string) error {
		r, err := f.ask(ctx)
		if err != nil {
			return err
		}
		return f.answer(report.Changes(r, f.wanted.Status, f.now().Location()))
	})
	return cmd
}

// newChangesDecide returns a command that stores a decision about the change with an id.
func newChangesDecide(io streams, verb, status, short, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Long:    strings.ToUpper(short[:1]) + short[1:] + ".\n\nThe change is looked for in the range; ask for the range in which it was listed.",
		Example: example,
		Args:    exactArgs(1, "the id of a change, as tailscope changes list shows it"),
	}
	f := newChangesFlags(io, cmd, "table")
	var name, description string
	if status == "confirmed" {
		cmd.Flags().StringVar(&name, "name", "", "of the mark; default what changed")
		cmd.Flags().StringVar(&description, "description", "", "what was done")
	}
	cmd.RunE = f.run(func(ctx context.Context, args []string) error {
		f.wanted.Status = "all"
		r, err := f.ask(ctx)
		if err != nil {
			return err
		}
		for _, c := range r.Changes {
			if c.ID != args[0] {
				continue
			}
			d := api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Environment: c.Environment, Operation: c.Operation, Family: c.Family, Part: c.Part, OfFew: c.OfFew, Status: status}
			if status == "confirmed" {
				d.Name, d.Description = cmp.Or(name, c.Name), cmp.Or(description, c.Headline)
			}
			done, err := f.client().DecideChange(ctx, d)
			if err != nil {
				return err
			}
			if done.Mark != "" {
				_, err = fmt.Fprintln(io.out, done.Mark)
			}
			return err
		}
		return withHint(fmt.Errorf("no change %s was found in that range", strconv.Quote(args[0])),
			"write the --since, --start, --end and --service with which tailscope changes list --status all shows it; a change of the last minutes may have a new id there")
	})
	return cmd
}
