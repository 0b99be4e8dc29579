package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge/rounds"
)

// Session returns the report of anything in the log book; v is the verdict of a mirror
// session.
func Session(x *api.Session, v *api.MirrorVerdictResponse, now time.Time) *Document {
	d := &Document{Name: x.Name}
	switch {
	case x.Simulation != nil:
		d = Simulation(x.Simulation, now)
	case x.Capacity != nil:
		d = Capacity(capacityOf(x, now))
	case x.Bench != nil:
		d.Name += ": load"
		d.bench(benchOf(x, now))
		d.Only(Text|Markdown, func() { d.cut(x) })
	case x.Experiment != nil:
		d.tried(x, now.Location())
	case v != nil:
		d.head(x, now.Location())
		d.Only(HTML, func() { d.Heading(x.Headline) })
		for i := range v.Candidates {
			c := &v.Candidates[i]
			d.Intervals(c.Candidate+" against "+c.Against, mirrorIntervals(c))
		}
		d.Verdict(v)
		d.Gap()
		d.Session(x, now.Location())
	}
	d.Data = x
	if v != nil {
		d.Data = v
	}
	return d
}

// head begins a page of the log book.
func (d *Document) head(x *api.Session, zone *time.Location) {
	d.Only(HTML, func() {
		d.Title(x.Name)
		d.Line(fmt.Sprintf("%s of %s, id %s, %s since %s", x.Kind, x.Service, x.ID, x.State, ClockIn(x.Start, zone)))
	})
}

// benchOf returns a run in the log book, with a note if its reports have ended early.
func benchOf(x *api.Session, now time.Time) *api.BenchResult {
	r := *x.Bench
	if x.State == "lost" && r.Aborted == "" {
		r.Aborted = "its program has not reported since " + ClockIn(x.Updated, now.Location())
	}
	return &r
}

// tried adds an experiment of settings with its log.
func (d *Document) tried(x *api.Session, zone *time.Location) {
	t := x.Experiment
	d.head(x, zone)
	d.Only(HTML, func() {
		if t.Hypothesis != "" {
			d.Line("Hypothesis: " + t.Hypothesis)
		}
		for _, a := range experimentAlarms(t, x.State) {
			d.Alarm(a)
		}
		if t.Verdict != "" {
			d.Heading(string(t.Verdict) + ": " + t.Headline)
		} else {
			d.Heading(t.Headline)
		}
	})
	d.Intervals("Against the control, by what says most", experimentIntervals(t))
	for _, c := range experimentCharts(t) {
		d.Chart(c)
	}
	d.experiment(t)
	if !t.Restored && t.RestoreError == "" && x.State != "running" {
		d.Only(Text|Markdown, func() { // its page has it above
			d.Gap()
			d.Item(notKnown)
		})
	}
	d.experimentLog(t, zone)
	d.cut(x)
	d.Only(HTML, func() {
		d.experimentFiles(t)
		if t.Command != "" {
			d.Command("again", t.Command)
		}
	})
}

// cut adds what the log book did not keep.
func (d *Document) cut(x *api.Session) {
	if len(x.Cut) > 0 {
		d.Gap()
	}
	for _, what := range x.Cut {
		d.Item("not kept, as it is too long: " + what)
	}
}

// experimentFiles adds the files that an experiment had, each once.
func (d *Document) experimentFiles(t *api.Experiment) {
	var files [][2]string
	add := func(name, text string) { files = append(files, [2]string{name, text}) }
	if t.File != "" {
		add("the experiment's file", t.File)
	}
	for _, name := range sortedNames(t.Files) {
		add(name, t.Files[name])
	}
	for _, name := range sortedNames(t.Environment.Configuration) {
		text := t.Environment.Configuration[name]
		kept := slices.ContainsFunc(files, func(f [2]string) bool { return f[1] != "" && strings.HasSuffix(text, f[1]) })
		if !kept && !isLine(text) {
			add(name, text)
		}
	}
	if len(files) > 0 {
		d.Heading("Files and configuration")
	}
	for _, f := range files {
		d.Details(f[0], f[1])
	}
}

// experimentLog adds the settings, each round, what happened, and how to run an
// experiment again.
func (d *Document) experimentLog(t *api.Experiment, zone *time.Location) {
	d.Section("Rounds")
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
		d.Section("Log")
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

// roundMeasure returns the measure that rounds are shown by: the one that decides or, if
// no round has it, the next most important.
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

// experimentFigure writes a figure of a measure in its unit.
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

const notKnown = "Whether the control was restored is not known: the program ended before it said so. Look at the target."

// experimentAlarms returns the warnings about an experiment.
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
