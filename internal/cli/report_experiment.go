package cli

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/experiment/judge"
	"tailscope/internal/figure"
)

// newReportExperiment is what came of anything in the log book, in full.
func newReportExperiment(io streams) *cobra.Command {
	f := &experimentReport{question: newQuestion(io, "text", "md", "markdown", "html", "json")}
	cmd := &cobra.Command{
		Use:   "experiment ID",
		Short: "what came of a mirror session, a run of load, an experiment, a search for capacity or a simulation",
		Example: `  tailscope report experiment 5f1c0de5f1c0de11
  tailscope report experiment 5f1c0de5f1c0de11 --format html --output cache.html`,
		Args: exactArgs(1, experimentID),
	}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	f.registerFormat(fs)
	fs.StringVar(&f.start, "start", "", "of a mirror session, judge from this `moment` on: RFC 3339, Unix seconds, or now-6h; from its beginning unless given")
	fs.StringVar(&f.end, "end", "", "of a mirror session, judge up to this `moment`; to its end unless given")
	fs.StringVar(&f.measures, "measures", "", "of a mirror session, judge only these, such as `ratio,p99`: ratio, p50, p75, p90, p95, p99, p99.9, mean, errors, first_byte, bytes")
	fs.IntVar(&f.limit, "limit", 20, "how many operations and tenants of a mirror session to list")
	fs.StringVar(&f.output, "output", "", "`file` to write to instead of the terminal")
	var id string
	write := f.run(func(ctx context.Context) error { return f.report(ctx, id) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id = args[0]
		return write(cmd, args)
	}
	return cmd
}

type experimentReport struct {
	*question
	measures, output string
	limit            int
}

func (f *experimentReport) report(ctx context.Context, id string) error {
	if f.limit < 1 {
		return usage{fmt.Errorf("--limit %d: write 1 or more", f.limit)}
	}
	x, err := f.client().Experiment(ctx, id)
	if err != nil {
		return f.failed(err)
	}
	var v *api.MirrorVerdictResponse
	if x.Kind == "mirror" {
		v, err = f.client().ExperimentVerdict(ctx, client.ExperimentVerdictQuery{ID: id, Start: f.start, End: f.end, Measures: splitList(f.measures), Limit: f.limit})
		if err != nil {
			return f.failed(err)
		}
	}
	return toFile(f.output, f.streams.out, func(w *bytes.Buffer) error {
		return writeExperiment(w, x, v, f.format, f.now())
	})
}

// writeExperiment writes the report of an experiment; v is the verdict of a
// mirror session.
func writeExperiment(w *bytes.Buffer, x *api.Experiment, v *api.MirrorVerdictResponse, format string, now time.Time) error {
	if b := x.Bench; b != nil && x.State == "lost" && b.Aborted == "" && format != "json" {
		run, said := *b, *x
		run.Aborted = "its program has not reported since " + clockIn(x.Updated, now.Location())
		said.Bench = &run
		x = &said
	}
	switch {
	case format == "json" && v != nil:
		return writeJSON(w, v)
	case format == "json":
		return writeJSON(w, x)
	case x.Simulation != nil:
		return writeSimulation(w, x.Simulation, format, now)
	case x.Capacity != nil:
		return writeCapacity(w, capacityOf(x, now), format)
	case x.Bench != nil && format == "html":
		return writeBenchHTML(w, x.Bench)
	case format == "html":
		return writeExperimentHTML(w, x, v, now)
	}
	d := &document{w: w, markdown: format == "md" || format == "markdown"}
	if v == nil {
		return writeTried(d, x, now.Location())
	}
	verdictText(d, v)
	d.gap()
	experimentText(d, x, now.Location())
	return d.err
}

// writeTried writes a run of load or an experiment.
func writeTried(d *document, x *api.Experiment, zone *time.Location) error {
	switch {
	case x.Bench != nil:
		var b bytes.Buffer
		if err := writeBenchText(&b, x.Bench, d.markdown); err != nil {
			return err
		}
		d.print(b.String())
	case x.Trial != nil:
		trialText(d, x.Trial)
		if t := x.Trial; !t.Restored && t.RestoreError == "" && x.State != "running" && !d.html {
			d.gap()
			d.item(notKnown)
		}
		trialLog(d, x.Trial, zone)
	case x.Simulation != nil:
		d.heading(x.Simulation.Name)
		d.line(x.Headline)
		simulationText(d, x.Simulation)
	}
	if len(x.Cut) > 0 {
		d.gap()
	}
	for _, what := range x.Cut {
		d.item("not kept, as it is too long: " + what)
	}
	return d.err
}

// trialLog writes the settings, each round, what happened, and how to run an
// experiment again.
func trialLog(d *document, t *api.Trial, zone *time.Location) {
	d.gap()
	d.heading("Rounds")
	measure := roundMeasure(t)
	rounds := &table{}
	for i, h := range []string{"round", "turn", "setting", measure, "errors", "rate", "counts"} {
		rounds.column(h, i < 2 || i > 2 && i < 6)
	}
	for i := range t.Rounds {
		r := &t.Rounds[i]
		value := func(name string) string {
			v, ok := r.Figures[""][name]
			if !ok {
				return "-"
			}
			return trialFigure(name, v)
		}
		counts := "yes"
		if !r.Valid {
			counts = "no: " + r.Why
		}
		rounds.rows = append(rounds.rows, []string{figure.Thousands(uint64(r.Round)), figure.Thousands(uint64(r.Order)), r.Setting, value(measure), value("errors"), value("rate"), counts})
	}
	d.table(rounds)
	if len(t.Loads) > 0 {
		d.gap()
	}
	for i := range t.Loads {
		d.item("loaded before: " + loadText(&t.Loads[i]))
	}
	if len(t.Events) > 0 {
		d.gap()
		d.heading("Log")
	}
	for _, e := range t.Events {
		text := clockIn(e.Time, zone) + " " + e.Kind + " " + e.Name
		if e.Text != "" {
			text += ": " + e.Text
		}
		if e.Failed {
			text += " (FAILED)"
		}
		d.item(text)
	}
	if t.Command != "" && !d.html { // its page ends with that
		d.gap()
		d.command("again", t.Command)
	}
}

// roundMeasure is the figure that rounds are shown by: the one that decides or, where
// no round has it, the next that says most.
func roundMeasure(t *api.Trial) string {
	names := judge.Reading(t.Stopping.Measure)
	for _, name := range names {
		for i := range t.Rounds {
			if v, ok := t.Rounds[i].Figures[""][name]; ok && !isNaN(v) {
				return name
			}
		}
	}
	return names[0]
}

// trialFigure is a figure of a measure in its unit.
func trialFigure(name string, v api.Float) string {
	switch {
	case isNaN(v):
		return "-"
	case name == "rate":
		return perTime(v)
	case strings.Contains(name, "bytes"):
		return formatBytes(int64(v))
	case name == "errors", name == "ratio", name == "mean", judge.Needs(name) > 0, strings.Contains(name, "seconds"), strings.Contains(name, "cpu_per_"):
		return mirrorValue(&api.MirrorMeasure{Name: name}, v)
	}
	return digits(float64(v)) // of a metric of its own
}

//go:embed report_experiment.html
var experimentHTML string

var experimentTemplate = reportTemplate("experiment", experimentHTML)

// experimentPage is an experiment, or a mirror session, as a page that needs
// nothing else.
type experimentPage struct {
	Title, Verdict, Headline, Hypothesis, When string
	Alarms                                     []string
	Charts                                     []resourceChart
	Body                                       template.HTML
	Files                                      []reportFile
	Command                                    string
}

type reportFile struct{ Name, Text string }

func writeExperimentHTML(w *bytes.Buffer, x *api.Experiment, v *api.MirrorVerdictResponse, now time.Time) error {
	var b bytes.Buffer
	d := &document{w: &b, html: true}
	p := &experimentPage{Title: x.Name, Headline: x.Headline, When: fmt.Sprintf("%s of %s, id %s, %s since %s", x.Kind, x.Service, x.ID, x.State, clockIn(x.Start, now.Location()))}
	if v != nil {
		verdictText(d, v)
		d.gap()
		experimentText(d, x, now.Location())
		for i := range v.Candidates {
			p.Charts = append(p.Charts, resourceChart{v.Candidates[i].Candidate + " against " + v.Candidates[i].Against, mirrorWhiskers(&v.Candidates[i])})
		}
	} else if t := x.Trial; t != nil {
		p.Hypothesis, p.Verdict, p.Command = t.Hypothesis, t.Verdict, t.Command
		p.Alarms = trialAlarms(t, x.State)
		p.Charts = trialCharts(t)
		if err := writeTried(d, x, now.Location()); err != nil {
			return err
		}
		if t.File != "" {
			p.Files = append(p.Files, reportFile{"the experiment's file", t.File})
		}
		for _, name := range sortedNames(t.Files) {
			p.Files = append(p.Files, reportFile{name, t.Files[name]})
		}
		for _, name := range sortedNames(t.Environment.Configuration) {
			text := t.Environment.Configuration[name]
			kept := slices.ContainsFunc(p.Files, func(f reportFile) bool { return f.Text != "" && strings.HasSuffix(text, f.Text) })
			if !kept && !isLine(text) {
				p.Files = append(p.Files, reportFile{name, text})
			}
		}
	}
	d.list(false)
	if d.err != nil {
		return d.err
	}
	p.Body = template.HTML(b.String()) // escaped by document
	return experimentTemplate.Execute(w, p)
}

const notKnown = "Whether the control was restored is not known: the program ended before it said so. Look at the target."

// trialAlarms are what of an experiment must not be overlooked.
func trialAlarms(t *api.Trial, state string) (out []string) {
	switch {
	case t.RestoreError != "":
		out = append(out, "The control was not restored: "+t.RestoreError)
	case state != "running" && !t.Restored:
		out = append(out, notKnown)
	}
	if t.Failed != "" {
		out = append(out, "It ended before its time: "+t.Failed)
	}
	if t.Gate != nil && !t.Gate.Passed {
		out = append(out, "The gate is shut against "+t.Gate.Baseline)
	}
	return out
}
