package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

func newChanges(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "changes",
		Short: "moments at which requests changed, found without being told where to look",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "write tailscope changes list, confirm, dismiss or undo")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newChangesList(io),
		newChangesDecide(io, "confirm", "confirmed", "make a change a mark", `  tailscope changes confirm 5f1c0de5f1c0de11 --service shop --name "the index"`),
		newChangesDecide(io, "dismiss", "dismissed", "show a change no more", ""),
		newChangesDecide(io, "undo", "new", "take back a decision, and the mark it made", ""))
	return cmd
}

// changesFlags say where to look.
type changesFlags struct {
	*question
	operations int
}

func newChangesFlags(io streams, cmd *cobra.Command, formats ...string) *changesFlags {
	f := &changesFlags{question: newQuestion(io, formats...)}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	fs.StringVar(&f.service, "service", "", "only this service")
	fs.StringVar(&f.operation, "operation", "", "only this operation, such as 'GET /cart/{id}'")
	fs.StringVar(&f.tenant, "tenant", "", "only this tenant")
	fs.StringVar(&f.match, "match", "", "further PromQL matchers, such as '{version=\"1.4\"}'")
	fs.IntVar(&f.operations, "operations", 0, "how many operations to search, those with the most requests; 50 unless given")
	f.registerRange(fs, "6h")
	return f
}

func (f *changesFlags) ask(ctx context.Context, status string) (*api.ChangesResponse, error) {
	start, end, err := f.timeRange()
	if err != nil {
		return nil, err
	}
	q := client.ChangesQuery{Selection: client.Selection{Start: start, End: end}, Operations: f.operations, Status: status}
	if ms := f.matchers(); len(ms) > 0 {
		q.Match = matchText(ms)
	}
	r, err := f.client().Changes(ctx, q)
	if err != nil {
		return nil, f.failed(err)
	}
	return r, nil
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
	var status string
	cmd.Flags().StringVar(&status, "status", "", "new, confirmed, dismissed or all; new and confirmed unless given")
	cmd.RunE = f.run(func(ctx context.Context) error {
		r, err := f.ask(ctx, status)
		if err != nil {
			return err
		}
		switch f.format {
		case "json":
			return report.WriteJSON(io.out, r)
		case "csv":
			return changesCSV(io.out, r)
		}
		return changesText(io.out, r, status, f.now().Location())
	})
	return cmd
}

// changesText writes a change in two lines and a few more: what, when, and who
// may have been it. Status is what was asked for.
func changesText(w io.Writer, r *api.ChangesResponse, status string, zone *time.Location) error {
	d := &report.Document{}
	clock := func(t api.Float) string { return time.Unix(int64(t), 0).In(zone).Format("2006-01-02 15:04:05") }
	for i, c := range r.Changes {
		if i > 0 {
			d.Gap()
		}
		d.Line(fmt.Sprintf("%s  %s", clock(c.Time), c.Headline))
		at := "between " + clock(c.Low) + " and " + clock(c.High)
		if c.Low == c.High {
			at = "in the slot of " + report.Seconds(float64(r.Slot))
		}
		d.Line("    " + at)
		t := &report.Table{}
		for j, h := range []string{"", "before", "after", "change", "interval", "verdict"} {
			t.Column(h, j > 0 && j < 5)
		}
		of := &report.Comparison{R: &api.CompareResponse{Within: 0.05}, Zone: zone, Unit: report.SecondsUnit}
		for j := range c.Measures {
			m := &c.Measures[j]
			f := &m.Raw
			if m.Like != nil {
				f = m.Like
			}
			row := of.Measure(m)
			t.Rows = append(t.Rows, []string{"    " + m.Name, row[1], row[2], of.Effect(m, f.Effect), row[5], string(m.Verdict)})
		}
		d.Table(t)
		if len(c.Operations) > 0 {
			d.Line("    operations: " + strings.Join(c.Operations, ", "))
		}
		for _, m := range c.Near {
			d.Line(fmt.Sprintf("    near: %s at %s", m.Name, clock(m.Time)))
		}
		state := "    " + c.Status + ", id " + c.ID
		if c.Mark != "" {
			state += ", mark " + c.Mark
		}
		d.Line(state)
	}
	if len(r.Changes) > 0 {
		d.Gap()
	}
	noun := "change"
	if status != "" && status != "all" {
		noun = status + " change"
	}
	d.Line(fmt.Sprintf("%s in %s series, searched in slots of %s", report.Plural(len(r.Changes), noun), figure.Thousands(uint64(r.Searched)), report.Seconds(float64(r.Slot))))
	for _, n := range r.Notes {
		d.Line("note: " + n)
	}
	return d.Write(w, report.Text)
}

func changesCSV(w io.Writer, r *api.ChangesResponse) error {
	header := []string{"time", "low", "high", "service", "operation", "verdict", "adjusted_p"}
	names := []string{"p50", "p95", "p99", "errors"}
	for _, n := range names {
		kind := "ratio"
		if n == "errors" {
			kind = "difference"
		}
		header = append(header, n+"_"+kind, n+"_low", n+"_high")
	}
	header = append(header, "status", "mark", "id")
	var rows [][]string
	for _, c := range r.Changes {
		row := []string{rawTime(c.Time), rawTime(c.Low), rawTime(c.High), c.Service, c.Operation, string(c.Verdict), report.Raw(c.P)}
		for _, n := range names {
			effect, low, high := math.NaN(), math.NaN(), math.NaN()
			for _, m := range c.Measures {
				f := &m.Raw
				if m.Like != nil {
					f = m.Like
				}
				if m.Name == n {
					effect, low, high = float64(f.Effect), float64(f.Low), float64(f.High)
				}
			}
			row = append(row, report.Raw(api.Float(effect)), report.Raw(api.Float(low)), report.Raw(api.Float(high)))
		}
		rows = append(rows, append(row, c.Status, c.Mark, c.ID))
	}
	return report.WriteCSV(w, header, rows)
}

// newChangesDecide is a command that decides of the change with an id.
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
		cmd.Flags().StringVar(&name, "name", "", "of the mark; what changed unless given")
		cmd.Flags().StringVar(&description, "description", "", "what was done")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := f.ask(cmd.Context(), "all")
		if err != nil {
			return err
		}
		for _, c := range r.Changes {
			if c.ID != args[0] {
				continue
			}
			d := api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Operation: c.Operation, Status: status}
			if status == "confirmed" {
				d.Name, d.Description = cmp.Or(name, c.Name), cmp.Or(description, c.Headline)
			}
			done, err := f.client().DecideChange(cmd.Context(), d)
			if err != nil {
				return f.failed(err)
			}
			if done.Mark != "" {
				_, err = fmt.Fprintln(io.out, done.Mark)
			}
			return err
		}
		return withHint(fmt.Errorf("no change %s was found in that range", strconv.Quote(args[0])),
			"write the --since, --start, --end and --service with which tailscope changes list --status all shows it")
	}
	return cmd
}
