package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/experiment"
	"tailscope/internal/judge"
)

// Experiment returns the report of an experiment.
func Experiment(t *api.Experiment) *Document {
	d := &Document{Name: t.Name, Data: t}
	d.experiment(t)
	return d
}

func (d *Document) experiment(t *api.Experiment) {
	d.Only(Text|Markdown, func() { // its page begins with that
		d.Heading(t.Name + ": " + t.Headline)
		d.Line("Verdict: " + string(t.Verdict))
		if t.Hypothesis != "" {
			d.Paragraph()
			d.Line("Hypothesis: " + t.Hypothesis)
		}
		d.Gap()
	})
	if t.Failed != "" {
		d.Item("ended before its time: " + t.Failed)
	}
	switch {
	case t.RestoreError != "":
		d.Item("THE CONTROL DOES NOT HOLD: " + t.RestoreError)
	case t.Restored:
		d.Item("the control holds again")
	}
	s := t.Stopping
	rounds := Plural(s.Done, "round")
	if s.Why != "" {
		rounds += ": " + s.Why
	}
	d.Item(fmt.Sprintf("%s of %s; %s", t.Design, t.Variable, rounds))
	by := "rounds"
	if t.Design == "live" {
		by = "slots of 10 s"
	}
	d.Item(fmt.Sprintf("intervals of %s, by %s; seed %d", trimPercent(s.Level), by, t.Seed))
	d.Item("on " + environmentText(&t.Environment))
	for _, name := range slices.Sorted(maps.Keys(t.Environment.Versions)) {
		d.Item(name + ": " + t.Environment.Versions[name])
	}
	if values := configured(&t.Environment); values != "" {
		d.Item("with " + values)
	}
	if t.Gate != nil {
		d.Gap()
		d.gate(t.Gate)
	}
	for _, kind := range []struct{ effect, title string }{{"main", "effect of"}, {"interaction", "together"}, {"", "setting"}} {
		d.experimentRows(t, kind.effect, kind.title)
	}
	d.experimentCurves(t)
	if len(t.Warnings) > 0 {
		d.Gap()
	}
	for _, w := range t.Warnings {
		d.Item("warning: " + w.Text)
	}
}

// isLine reports whether a recorded configuration is one short line, such as the value of
// a variable.
func isLine(text string) bool { return len(text) < 200 && !strings.Contains(text, "\n") }

// configured returns the recorded values that are lines: port 28443, workers 8.
func configured(e *api.Environment) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(e.Configuration)) {
		if text := e.Configuration[name]; isLine(text) {
			out = append(out, strings.TrimPrefix(name, "var ")+" "+text)
		}
	}
	return strings.Join(out, ", ")
}

// experimentColumns lists the measures of a table if there are more than mostColumns.
var experimentColumns = []string{"p50", "p95", "p99", "mean", "errors", "cpu_per_request"}

const mostColumns = 7

// shownMeasures returns the measures of the rows of one kind: all of them if they are few,
// as when the file names them, else the usual ones and the one that decides.
func shownMeasures(t *api.Experiment, effect string) []string {
	var all []string
	for i := range t.Rows {
		if t.Rows[i].Effect != effect {
			continue
		}
		for _, m := range t.Rows[i].Measures {
			if !slices.Contains(all, m.Name) {
				all = append(all, m.Name)
			}
		}
	}
	if len(all) <= mostColumns {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool {
		return name != t.Stopping.Measure && !slices.Contains(experimentColumns, name)
	})
}

// experimentRows adds a table of the rows of one kind: changes with their intervals.
func (d *Document) experimentRows(t *api.Experiment, effect, title string) {
	tb := Columns(title, "against", "of")
	columns := shownMeasures(t, effect)
	for _, c := range columns {
		tb.Column(strings.ReplaceAll(c, "_", " "), true)
		tb.Column("interval", true)
	}
	tb.Column("verdict", false)
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Effect != effect {
			continue
		}
		of := "everything"
		switch {
		case r.Query != "":
			of = r.Query
		case r.Tenant != "":
			of = "tenant " + r.Tenant
		}
		row := []string{r.Setting, r.Against, of}
		for _, c := range columns {
			m := experimentMeasure(r, c)
			row = append(row, experimentEffect(m, m.Effect), experimentInterval(m))
		}
		verdict := string(r.Verdict)
		if judge.Moved(r.Verdict) {
			verdict += " by " + strings.ReplaceAll(r.Lead, "_", " ")
		}
		tb.Rows = append(tb.Rows, append(row, verdict))
	}
	if len(tb.Rows) == 0 {
		return
	}
	d.Gap()
	d.Table(tb)
}

func experimentMeasure(r *api.ExperimentRow, name string) *api.ExperimentMeasure {
	for i := range r.Measures {
		if r.Measures[i].Name == name {
			return &r.Measures[i]
		}
	}
	nan := api.Float(math.NaN())
	return &api.ExperimentMeasure{Name: name, Effect: nan, Low: nan, High: nan}
}

func experimentEffect(m *api.ExperimentMeasure, f api.Float) string {
	return mirrorEffect(&api.MirrorMeasure{Name: m.Name}, f)
}

func experimentInterval(m *api.ExperimentMeasure) string {
	return mirrorInterval(&api.MirrorMeasure{Name: m.Name, Low: m.Low, High: m.High})
}

// experimentCurves adds the response to a sweep by its first measure: a table for all
// queries together, a sentence for each query.
func (d *Document) experimentCurves(t *api.Experiment) {
	var queries, sentences []string
	for i := range t.Curves {
		if q := t.Curves[i].Query; !slices.Contains(queries, q) {
			queries = append(queries, q)
		}
	}
	for _, q := range queries {
		c := experiment.CurveOf(t.Curves, q, t.Stopping.Measure)
		if c == nil {
			continue
		}
		if q != "" {
			sentences = append(sentences, c.Sentence)
			continue
		}
		d.Gap()
		tb := Columns("setting", ">"+c.Measure, ">interval", ">best in", "")
		value := func(f api.Float) string { return experimentFigure(c.Measure, f) }
		for _, p := range c.Points {
			mark := ""
			switch {
			case p.Setting == c.Best:
				mark = "best"
			case slices.Contains(c.Candidates, p.Setting):
				mark = "not to be told from it"
			}
			tb.Rows = append(tb.Rows, []string{p.Setting, value(p.Value), ends(value(p.Low), value(p.High)), ratio(p.BestIn) + " of rounds", mark})
		}
		d.Table(tb)
		d.Gap()
		d.Line(c.Sentence)
	}
	for _, s := range sentences {
		d.Item(s)
	}
}

// Gate returns the report of a gate.
func Gate(g *api.ExperimentGate) *Document {
	d := &Document{Name: "gate", Data: g}
	d.gate(g)
	return d
}

func (d *Document) gate(g *api.ExperimentGate) {
	word := "passed"
	if !g.Passed {
		word = "failed"
	}
	of := "the control of the same experiment"
	if g.Baseline != "" {
		of = "the baseline " + g.Baseline
	}
	d.Line("Gate " + word + ", against " + of)
	for _, why := range g.Why {
		d.Item(why)
	}
}
