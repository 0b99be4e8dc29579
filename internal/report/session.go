package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge/rounds"
)

// WriteSession writes the report of a session; v is the verdict of a
// mirror session.
func WriteSession(w *bytes.Buffer, x *api.Session, v *api.MirrorVerdictResponse, format string, now time.Time) error {
	if b := x.Bench; b != nil && x.State == "lost" && b.Aborted == "" && format != "json" {
		run, said := *b, *x
		run.Aborted = "its program has not reported since " + ClockIn(x.Updated, now.Location())
		said.Bench = &run
		x = &said
	}
	switch {
	case format == "json" && v != nil:
		return WriteJSON(w, v)
	case format == "json":
		return WriteJSON(w, x)
	case x.Simulation != nil:
		return WriteSimulation(w, x.Simulation, format, now)
	case x.Capacity != nil:
		return WriteCapacity(w, capacityOf(x, now), format)
	case x.Bench != nil && format == "html":
		return writeBenchHTML(w, x.Bench)
	case format == "html":
		return writeSessionHTML(w, x, v, now)
	}
	d := &Document{}
	if v == nil {
		TriedText(d, x, now.Location())
	} else {
		VerdictText(d, v)
		d.Gap()
		SessionText(d, x, now.Location())
	}
	return d.Write(w, FormatOf(format))
}

// TriedText has a run of load, an experiment or a simulation.
func TriedText(d *Document, x *api.Session, zone *time.Location) {
	switch {
	case x.Bench != nil:
		benchText(d, x.Bench)
	case x.Experiment != nil:
		ExperimentText(d, x.Experiment)
		if t := x.Experiment; !t.Restored && t.RestoreError == "" && x.State != "running" {
			d.Only(Text|Markdown, func() { // its page has it above
				d.Gap()
				d.Item(notKnown)
			})
		}
		experimentLog(d, x.Experiment, zone)
	case x.Simulation != nil:
		d.Heading(x.Simulation.Name)
		d.Line(x.Headline)
		simulationText(d, x.Simulation)
	}
	if len(x.Cut) > 0 {
		d.Gap()
	}
	for _, what := range x.Cut {
		d.Item("not kept, as it is too long: " + what)
	}
}

// experimentLog writes the settings, each round, what happened, and how to run an
// experiment again.
func experimentLog(d *Document, t *api.Experiment, zone *time.Location) {
	d.Gap()
	d.Heading("Rounds")
	measure := roundMeasure(t)
	rounds := &Table{}
	for i, h := range []string{"round", "turn", "setting", measure, "errors", "rate", "counts"} {
		rounds.Column(h, i < 2 || i > 2 && i < 6)
	}
	for i := range t.Rounds {
		r := &t.Rounds[i]
		value := func(name string) string {
			v, ok := r.Figures[""][name]
			if !ok {
				return "-"
			}
			return experimentFigure(name, v)
		}
		counts := "yes"
		if !r.Valid {
			counts = "no: " + r.Why
		}
		rounds.Rows = append(rounds.Rows, []string{figure.Thousands(uint64(r.Round)), figure.Thousands(uint64(r.Order)), r.Setting, value(measure), value("errors"), value("rate"), counts})
	}
	d.Table(rounds)
	if len(t.Loads) > 0 {
		d.Gap()
	}
	for i := range t.Loads {
		d.Item("loaded before: " + LoadText(&t.Loads[i]))
	}
	if len(t.Events) > 0 {
		d.Gap()
		d.Heading("Log")
	}
	for _, e := range t.Events {
		text := ClockIn(e.Time, zone) + " " + e.Kind + " " + e.Name
		if e.Text != "" {
			text += ": " + e.Text
		}
		if e.Failed {
			text += " (FAILED)"
		}
		d.Item(text)
	}
	if t.Command != "" {
		d.Only(Text|Markdown, func() { // its page ends with that
			d.Gap()
			d.Command("again", t.Command)
		})
	}
}

// roundMeasure is the figure that rounds are shown by: the one that decides or, where
// no round has it, the next that says most.
func roundMeasure(t *api.Experiment) string {
	names := rounds.Reading(t.Stopping.Measure)
	for _, name := range names {
		for i := range t.Rounds {
			if v, ok := t.Rounds[i].Figures[""][name]; ok && !IsNaN(v) {
				return name
			}
		}
	}
	return names[0]
}

// experimentFigure is a figure of a measure in its unit.
func experimentFigure(name string, v api.Float) string {
	switch {
	case IsNaN(v):
		return "-"
	case name == "rate":
		return PerTime(v)
	case strings.Contains(name, "bytes"):
		return Bytes(int64(v))
	case name == "errors", name == "ratio", name == "mean", rounds.Needs(name) > 0, strings.Contains(name, "seconds"), strings.Contains(name, "cpu_per_"):
		return mirrorValue(&api.MirrorMeasure{Name: name}, v)
	}
	return Digits(float64(v)) // of a metric of its own
}

//go:embed report_session.html
var sessionHTML string

var sessionTemplate = reportTemplate("session", sessionHTML)

// sessionPage is a session, as a page that needs
// nothing else.
type sessionPage struct {
	Title, Verdict, Headline, Hypothesis, When string
	Alarms                                     []string
	Charts                                     []resourceChart
	Body                                       template.HTML
	Files                                      []reportFile
	Command                                    string
}

type reportFile struct{ Name, Text string }

func writeSessionHTML(w *bytes.Buffer, x *api.Session, v *api.MirrorVerdictResponse, now time.Time) error {
	var b bytes.Buffer
	d := &Document{}
	p := &sessionPage{Title: x.Name, Headline: x.Headline, When: fmt.Sprintf("%s of %s, id %s, %s since %s", x.Kind, x.Service, x.ID, x.State, ClockIn(x.Start, now.Location()))}
	if v != nil {
		VerdictText(d, v)
		d.Gap()
		SessionText(d, x, now.Location())
		for i := range v.Candidates {
			p.Charts = append(p.Charts, resourceChart{v.Candidates[i].Candidate + " against " + v.Candidates[i].Against, mirrorWhiskers(&v.Candidates[i])})
		}
	} else if t := x.Experiment; t != nil {
		p.Hypothesis, p.Verdict, p.Command = t.Hypothesis, string(t.Verdict), t.Command
		p.Alarms = experimentAlarms(t, x.State)
		p.Charts = experimentCharts(t)
		TriedText(d, x, now.Location())
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
	if err := d.Write(&b, HTML); err != nil {
		return err
	}
	p.Body = template.HTML(b.String()) // escaped by document
	return sessionTemplate.Execute(w, p)
}

const notKnown = "Whether the control was restored is not known: the program ended before it said so. Look at the target."

// experimentAlarms are what of an experiment must not be overlooked.
func experimentAlarms(t *api.Experiment, state string) (out []string) {
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
