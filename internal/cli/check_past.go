package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
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
	var step string
	q.registerRange(cmd.Flags(), "1d")
	cmd.Flags().StringVar(&step, "step", "", "`duration` between lines; such that there are some 30 unless given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := q.check(cmd.Flags()); err != nil {
			return err
		}
		start, end, err := q.timeRange()
		if err != nil {
			return err
		}
		if step == "" {
			if step, err = q.thirtieth(); err != nil {
				return err
			}
		}
		r, err := q.client().Check(cmd.Context(), client.CheckQuery{ID: args[0], Start: start, End: end, Step: step})
		return q.answer(r, err, func(w writer) error { return q.history(w, r) })
	}
	return cmd
}

// thirtieth is a step that makes some thirty lines of the range.
func (q *checkQuestion) thirtieth() (string, error) {
	end, err := parseMoment(q.end, q.now())
	if err != nil {
		return "", usage{fmt.Errorf("--end %w", err)}
	}
	since, err := parseSince(q.since)
	if q.start != "" {
		start, err := parseMoment(q.start, q.now())
		if err != nil {
			return "", usage{fmt.Errorf("--start %w", err)}
		}
		since = end.Sub(start)
	} else if err != nil {
		return "", usage{fmt.Errorf("--since %w", err)}
	}
	return fmt.Sprintf("%ds", max(10, int(since.Seconds()/30))), nil
}

func (q *checkQuestion) history(w io.Writer, r *api.CheckResponse) error {
	d := &report.Document{}
	t := &report.Table{}
	for i, h := range []string{"time", "value", "least", "most", "held against"} {
		t.Column(h, i > 0 && i < 4)
	}
	unit := r.Check.Unit
	for _, p := range r.Points {
		t.Rows = append(t.Rows, []string{q.clock(p.Time), value(p.Value, unit), value(p.Min, unit), value(p.Max, unit), bandsText(p.Bands)})
	}
	d.Table(t)
	if len(r.States) > 0 {
		d.Gap()
		d.Table(q.states(r.States))
	}
	if len(r.Incidents) > 0 {
		d.Gap()
		d.Table(q.incidents(r.Incidents))
	}
	return d.Write(w, report.Text)
}

func (q *checkQuestion) states(list []api.CheckState) *report.Table {
	t := &report.Table{}
	for i, h := range []string{"state", "from", "for", "why"} {
		t.Column(h, i == 2)
	}
	for _, s := range list {
		name := s.State
		if s.Soft {
			name += " (soft)"
		}
		long := "until now"
		if set(s.End) {
			long = report.Seconds(float64(s.End - s.Start))
		}
		t.Rows = append(t.Rows, []string{name, q.clock(s.Start), long, s.Why})
	}
	return t
}

func newCheckEvaluate(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evaluate EXPRESSION",
		Short: "what an expression comes to, step by step",
		Example: `  tailscope check evaluate 'avgmad({check="orders"}[4 weekdays, -30M:+30M])'
  tailscope check evaluate 'p99(span_duration_seconds{service="shop"}[-60M:-0M])' --at now-1d`,
		Args: exactArgs(1, "an expression"),
	}
	q := newCheckQuestion(io, cmd)
	var e api.CheckEvaluate
	var at string
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "the `moment`; now unless given")
	f.StringVar(&e.Check, "check", "", "as this check evaluates: its zone, null policy and value")
	f.StringVar(&e.Null, "null", "", "strict, skip or zero")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.Expression = args[0]
		var err error
		if e.At, err = q.moment("at", at); err != nil {
			return err
		}
		r, err := q.client().EvaluateCheck(cmd.Context(), e)
		return q.answer(r, err, func(w writer) error {
			d := &report.Document{}
			if set(r.Value) {
				d.Line(plainNumber(float64(r.Value)))
			} else {
				d.Line("null")
			}
			if len(r.Steps) > 1 {
				d.Gap()
				d.Table(stepsTable("expression", r.Steps))
			}
			return d.Write(w, report.Text)
		})
	}
	return cmd
}

func newCheckBacktest(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backtest CHECK",
		Short: "what a threshold would have done, against marked incidents",
		Long: `Backtest runs a check over the past, as it is or with another threshold, and
says when it would have been told of. Incidents that were marked
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
	f.StringVar(&every, "every", "", "`duration` between runs; the check's unless given")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.Check = args[0]
		start, end, err := q.timeRange()
		if err != nil {
			return err
		}
		for _, at := range []struct {
			flag, text string
			into       *api.Float
		}{{"start", start, &b.Start}, {"end", end, &b.End}} {
			if *at.into, err = q.moment(at.flag, at.text); err != nil {
				return err
			}
		}
		if every != "" {
			d, err := parseSince(every)
			if err != nil {
				return usage{fmt.Errorf("--every %w", err)}
			}
			b.Every = api.Float(d.Seconds())
		}
		if t != (api.CheckThreshold{}) {
			if err := q.otherThreshold(cmd, args[0], &t); err != nil {
				return err
			}
			b.Threshold = &t
		}
		if s != (api.CheckStates{}) {
			b.States = &s
		}
		r, err := q.client().BacktestCheck(cmd.Context(), b)
		return q.answer(r, err, func(w writer) error { return q.backtest(w, r) })
	}
	return cmd
}

// otherThreshold fills in from the check what the flags leave out.
func (q *checkQuestion) otherThreshold(cmd *cobra.Command, id string, t *api.CheckThreshold) error {
	if t.Must != "" && t.Of != "" && (t.Warning != "" || t.Critical != "") {
		return nil
	}
	r, err := q.client().Check(cmd.Context(), client.CheckQuery{ID: id})
	if err != nil {
		return q.failed(err)
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

func (q *checkQuestion) backtest(w io.Writer, r *api.CheckBacktestResponse) error {
	d := &report.Document{}
	t := &report.Table{}
	for _, h := range []string{"alarm", "for", "worst", "value", "marked incident"} {
		t.Column(h, h == "for" || h == "value")
	}
	names := map[string]string{}
	for _, i := range r.Incidents {
		names[i.ID] = i.Name
	}
	for _, a := range r.Alarms {
		long := "still"
		if set(a.End) {
			long = report.Seconds(float64(a.End - a.Start))
		}
		t.Rows = append(t.Rows, []string{q.clock(a.Start), long, a.Worst, value(a.Value, ""), names[a.Incident]})
	}
	if len(r.Alarms) > 0 {
		d.Table(t)
		d.Gap()
	}
	d.Line(fmt.Sprintf("%s in %s every %s, %s a week; not OK for %s", report.Plural(len(r.Alarms), "alarm"), report.Plural(r.Runs, "run"),
		report.Seconds(r.Every), orDash(r.PerWeek), report.SecondsUnit.Value(r.Seconds)))
	if r.Nulls > 0 || r.NoThreshold > 0 {
		d.Line(fmt.Sprintf("%s without a value, %s without a threshold", report.Plural(r.Nulls, "run"), report.Plural(r.NoThreshold, "run")))
	}
	if len(r.Incidents) > 0 {
		d.Line(fmt.Sprintf("of %s %d found, %d missed; %s outside of them", report.Plural(len(r.Incidents), "marked incident"), r.Found, r.Missed, report.Plural(r.False, "alarm")))
		for _, i := range r.Incidents {
			if i.Found {
				d.Line(fmt.Sprintf("    %s: found %s after it began", i.Name, report.SecondsUnit.Value(i.After)))
			} else {
				d.Line(fmt.Sprintf("    %s: missed", i.Name))
			}
		}
	} else {
		d.Line("no incidents are marked in this range: tailscope check incident add says when there were some")
	}
	if b := r.Before; b != nil {
		line := fmt.Sprintf("as it is now: %s, %s a week", report.Plural(b.Alarms, "alarm"), orDash(b.PerWeek))
		if len(r.Incidents) > 0 {
			line += fmt.Sprintf("; %d found, %d missed, %s outside", b.Found, b.Missed, report.Plural(b.False, "alarm"))
		}
		d.Line(line)
	}
	if r.Truncated {
		d.Line("note: this took too long and stops early; ask for less, or for a larger --every")
	}
	return d.Write(w, report.Text)
}

func orDash(f api.Float) string {
	if !set(f) {
		return "-"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(f)), ".0")
}
