package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

func newCheck(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "thresholds computed from history: try them, look at them, acknowledge",
		Long: `Check guards values by thresholds that are computed from history.
docs/checks.md says how they are written; tailscope serve --checks FILE runs them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{withHint(fmt.Errorf("unknown command %q", args[0]), "tailscope check --help lists them")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheckValidate(io), newCheckRun(io), newCheckList(io), newCheckShow(io), newCheckHistory(io), newCheckBacktest(io),
		newCheckEvaluate(io), newCheckAck(io), newCheckMaintenance(io), newCheckIncident(io), newCheckSchema(io))
	return cmd
}

// checkQuestion is a question about checks; its answer is a table or JSON.
type checkQuestion struct {
	*question
	json bool
}

func newCheckQuestion(io streams, cmd *cobra.Command) *checkQuestion {
	q := &checkQuestion{question: newQuestion(io, "table")}
	q.format = "table"
	q.serverFlag.register(cmd.Flags())
	cmd.Flags().BoolVar(&q.json, "json", false, "print the answer as the server gives it")
	return q
}

// answer prints r as JSON, or as people read it.
func (q *checkQuestion) answer(r any, err error, text func(io.Writer) error) error {
	switch {
	case err != nil:
		return q.failed(err)
	case q.json:
		return report.WriteJSON(q.streams.out, r)
	}
	return text(q.streams.out)
}

// clock is a moment in the reader's zone; a dash if there is none.
func (q *checkQuestion) clock(f api.Float) string {
	if v := float64(f); math.IsNaN(v) || v <= 0 {
		return "-"
	}
	return time.UnixMilli(int64(float64(f) * 1e3)).In(q.now().Location()).Format("2006-01-02 15:04:05")
}

// ago is how long since a moment.
func (q *checkQuestion) ago(f api.Float) string {
	if v := float64(f); math.IsNaN(v) || v <= 0 {
		return "-"
	}
	d := q.now().Sub(time.UnixMilli(int64(float64(f) * 1e3)))
	if d < 0 {
		return "in " + report.Seconds(-d.Round(time.Second).Seconds())
	}
	return report.Seconds(d.Round(time.Second).Seconds())
}

// moment reads a flag that may hold one; 0 if it is empty.
func (q *checkQuestion) moment(flag, text string) (api.Float, error) {
	if text == "" {
		return 0, nil
	}
	t, err := parseMoment(text, q.now())
	if err != nil {
		return 0, usage{fmt.Errorf("--%s %w", flag, err)}
	}
	return api.Float(float64(t.UnixMilli()) / 1e3), nil
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
	var wanted client.ChecksQuery
	f := cmd.Flags()
	f.StringVar(&wanted.State, "state", "", "OK, WARNING, CRITICAL, UNKNOWN, PENDING, or bad: all but OK and PENDING")
	f.StringVar(&wanted.Match, "match", "", "PromQL `matchers` on labels; check is the definition's name")
	f.StringVar(&wanted.Search, "search", "", "part of an `id` or description")
	f.IntVar(&wanted.Limit, "limit", 100, "how many checks")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := q.client().Checks(cmd.Context(), wanted)
		return q.answer(r, err, func(w writer) error { return q.list(w, r) })
	}
	return cmd
}

// writer is what answers are written to, where a parameter is called io.
type writer = io.Writer

func (q *checkQuestion) list(w io.Writer, r *api.ChecksResponse) error {
	d := &report.Document{}
	if r.Problem != "" {
		d.Line("the definitions on disk are not those that run:")
		for line := range strings.SplitSeq(r.Problem, "\n") {
			d.Line("    " + line)
		}
		d.Gap()
	}
	if r.Trouble != "" {
		d.Line("what checks find may be lost: " + r.Trouble)
		d.Gap()
	}
	t := &report.Table{}
	for i, h := range []string{"state", "for", "check", "value", "threshold", "last", "what"} {
		t.Column(h, i == 1 || i == 3)
	}
	for _, c := range r.Checks {
		state := c.State
		if c.Soft {
			state += " (" + c.Level + " soft)"
		}
		if c.Flapping {
			state += " flapping"
		}
		what := c.Text
		if c.Quiet != "" {
			what = "[" + c.Quiet + "] " + what
		}
		t.Rows = append(t.Rows, []string{state, q.ago(c.Since), c.ID, value(c.Value, c.Unit), bandsText(c.Bands), q.ago(c.Last), what})
	}
	if len(r.Checks) > 0 {
		d.Table(t)
		d.Gap()
	}
	var counts []string
	for _, s := range []string{"CRITICAL", "UNKNOWN", "WARNING", "OK", "PENDING"} {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	line := report.Plural(r.Total, "check")
	if len(counts) > 0 {
		line += ": " + strings.Join(counts, ", ")
	}
	if more := r.Total - len(r.Checks); more > 0 {
		line += fmt.Sprintf("; --limit %d shows %d more", r.Total, more)
	}
	d.Line(line)
	if len(r.Files) == 0 {
		d.Line("no files of checks are configured: tailscope serve --checks FILE")
	}
	for _, x := range r.Receivers {
		if x.State == "waiting" {
			d.Line(fmt.Sprintf("receiver %s waits with %d: %s", x.Name, x.Spooled, x.Error))
		}
	}
	return d.Write(w, report.Text)
}

// value writes a check's value with its unit.
func value(f api.Float, unit string) string {
	v := float64(f)
	switch {
	case math.IsNaN(v):
		return "-"
	case unit == "s":
		return report.Seconds(v)
	}
	return plainNumber(v) + unit
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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := q.client().Check(cmd.Context(), client.CheckQuery{ID: args[0]})
		return q.answer(r, err, func(w writer) error {
			if !*learned {
				return q.show(w, r)
			}
			if r.Learned == "" {
				return fmt.Errorf("check %s has learned nothing yet; it learns if its profile says learn, and soon after there are values", args[0])
			}
			_, err := fmt.Fprint(w, r.Learned)
			return err
		})
	}
	return cmd
}

func (q *checkQuestion) show(w io.Writer, r *api.CheckResponse) error {
	d := &report.Document{}
	c := &r.Check
	d.Line(pluginLine(c))
	if c.Description != "" {
		d.Line("    " + c.Description)
	}
	facts := [][2]string{
		{"since", q.clock(c.Since)}, {"last run", q.clock(c.Last)}, {"next", q.clock(c.Next)},
		{"runs", c.Schedule}, {"defined in", r.File}, {"quiet", c.Quiet}, {"receivers", strings.Join(c.Receivers, ", ")},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		facts = append(facts, [2]string{name, c.Labels[name]})
	}
	for _, f := range facts {
		if f[1] != "" {
			d.Line(fmt.Sprintf("    %-11s %s", f[0], f[1]))
		}
	}
	d.Gap()
	for line := range strings.SplitSeq(strings.TrimRight(r.Definition, "\n"), "\n") {
		d.Line(line)
	}
	for _, s := range []struct {
		name  string
		steps []api.CheckStep
	}{{"value", r.ValueSteps}, {"threshold", r.ThresholdSteps}} {
		if len(s.steps) > 0 {
			d.Gap()
			d.Table(stepsTable(s.name, s.steps))
		}
	}
	if len(r.Incidents) > 0 {
		d.Gap()
		d.Table(q.incidents(r.Incidents))
	}
	return d.Write(w, report.Text)
}

func stepsTable(name string, steps []api.CheckStep) *report.Table {
	t := &report.Table{}
	t.Column(name+", step by step", false)
	t.Column("", false)
	for _, s := range steps {
		t.Rows = append(t.Rows, []string{strings.Repeat("  ", s.Depth) + s.Text, s.Value})
	}
	return t
}

func (q *checkQuestion) incidents(list []api.Incident) *report.Table {
	t := &report.Table{}
	for _, h := range []string{"begin", "end", "worst", "check", "what", "acknowledged", "id"} {
		t.Column(h, false)
	}
	for _, i := range list {
		name, acked := i.Check, ""
		if i.Kind == "marked" {
			name = "marked: " + i.Name
		}
		if i.Acked != nil {
			acked = i.Acked.User
		}
		end := q.clock(i.End)
		if math.IsNaN(float64(i.End)) {
			end = "open"
		}
		t.Rows = append(t.Rows, []string{q.clock(i.Start), end, i.Worst, name, i.Text, acked, i.ID})
	}
	return t
}

// userName is who acts, unless --user says so.
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
		Short:   "say that somebody takes care: nobody is told again until the check is OK",
		Example: `  tailscope check ack orders --comment "the queue is being emptied" --until now+2h`,
		Args:    exactArgs(1, "the id of a check, as tailscope check list shows it"),
	}
	q := newCheckQuestion(io, cmd)
	var a api.Ack
	var until string
	var undo bool
	f := cmd.Flags()
	f.StringVar(&a.User, "user", userName(), "who takes care")
	f.StringVar(&a.Comment, "comment", "", "what is done about it")
	f.StringVar(&until, "until", "", "a `moment` such as now+2h; until the check is OK unless given")
	f.BoolVar(&undo, "undo", false, "take it back")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := q.acknowledge(cmd.Context(), args[0], a, until, undo)
		return q.answer(r, err, func(w writer) error {
			_, err := fmt.Fprintln(w, pluginLine(r))
			return err
		})
	}
	return cmd
}

func (q *checkQuestion) acknowledge(ctx context.Context, id string, a api.Ack, until string, undo bool) (*api.Check, error) {
	if a.User == "" {
		return nil, usage{withHint(fmt.Errorf("nobody is named"), "write --user NAME")}
	}
	if undo {
		return q.client().UnacknowledgeCheck(ctx, id, a.User)
	}
	var err error
	if a.Until, err = q.moment("until", until); err != nil {
		return nil, err
	}
	if until == "" {
		a.Until = api.Float(math.NaN())
	}
	return q.client().AcknowledgeCheck(ctx, id, a)
}
