package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/experiment"
)

// trialText writes what an experiment was and what came of it.
func trialText(d *document, t *api.Trial) {
	d.heading(t.Name + ": " + t.Headline)
	d.line("Verdict: " + t.Verdict)
	if t.Hypothesis != "" {
		d.paragraph()
		d.line("Hypothesis: " + t.Hypothesis)
	}
	d.gap()
	if t.Failed != "" {
		d.item("ended before its time: " + t.Failed)
	}
	switch {
	case t.RestoreError != "":
		d.item("THE CONTROL DOES NOT HOLD: " + t.RestoreError)
	case t.Restored:
		d.item("the control holds again")
	}
	s := t.Stopping
	rounds := plural(s.Done, "round")
	if s.Why != "" {
		rounds += ": " + s.Why
	}
	d.item(fmt.Sprintf("%s of %s; %s", t.Design, t.Variable, rounds))
	d.item(fmt.Sprintf("intervals of %s, by rounds; seed %d", trimPercent(s.Level), t.Seed))
	d.item("on " + environmentText(&t.Environment))
	for _, name := range slices.Sorted(maps.Keys(t.Environment.Versions)) {
		d.item(name + ": " + t.Environment.Versions[name])
	}
	if t.Gate != nil {
		d.gap()
		gateText(d, t.Gate)
	}
	for _, kind := range []struct{ effect, title string }{{"main", "effect of"}, {"interaction", "together"}, {"", "setting"}} {
		trialRows(d, t, kind.effect, kind.title)
	}
	trialCurves(d, t)
	if len(t.Warnings) > 0 {
		d.gap()
	}
	for _, w := range t.Warnings {
		d.item("warning: " + w.Text)
	}
}

// trialColumns are the measures of a table, of those there are.
var trialColumns = []string{"p50", "p95", "p99", "mean", "errors"}

// trialRows is a table of the rows of one sort: changes with their intervals.
func trialRows(d *document, t *api.Trial, effect, title string) {
	tb := &table{}
	tb.column(title, false)
	tb.column("against", false)
	tb.column("of", false)
	columns := trialColumns
	if m := t.Stopping.Measure; m != "" && !slices.Contains(columns, m) {
		columns = append([]string{m}, columns...)
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(name string) bool {
		return !slices.ContainsFunc(t.Rows, func(r api.TrialRow) bool {
			return r.Effect == effect && slices.ContainsFunc(r.Measures, func(m api.TrialMeasure) bool { return m.Name == name })
		})
	})
	for _, c := range columns {
		tb.column(strings.ReplaceAll(c, "_", " "), true)
		tb.column("interval", true)
	}
	tb.column("verdict", false)
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
			m := trialMeasure(r, c)
			row = append(row, trialEffect(m, m.Effect), trialInterval(m))
		}
		verdict := r.Verdict
		switch verdict {
		case "no evidence", "same", tooLittle:
		default:
			verdict += " by " + strings.ReplaceAll(r.Lead, "_", " ")
		}
		tb.rows = append(tb.rows, append(row, verdict))
	}
	if len(tb.rows) == 0 {
		return
	}
	d.gap()
	d.table(tb)
}

func trialMeasure(r *api.TrialRow, name string) *api.TrialMeasure {
	for i := range r.Measures {
		if r.Measures[i].Name == name {
			return &r.Measures[i]
		}
	}
	nan := api.Float(math.NaN())
	return &api.TrialMeasure{Name: name, Effect: nan, Low: nan, High: nan}
}

func trialEffect(m *api.TrialMeasure, f api.Float) string {
	return mirrorEffect(&api.MirrorMeasure{Name: m.Name}, f)
}

func trialInterval(m *api.TrialMeasure) string {
	return mirrorInterval(&api.MirrorMeasure{Name: m.Name, Low: m.Low, High: m.High})
}

// trialCurves is the response to a sweep by the measure that is read first: of
// everything a table, of each query a sentence.
func trialCurves(d *document, t *api.Trial) {
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
		d.gap()
		tb := &table{}
		tb.column("setting", false)
		tb.column(c.Measure, true)
		tb.column("interval", true)
		tb.column("best in", true)
		tb.column("", false)
		value := func(f api.Float) string { return mirrorValue(&api.MirrorMeasure{Name: c.Measure}, f) }
		if c.Measure == "rate" || strings.Contains(c.Measure, "_per_") && !strings.HasPrefix(c.Measure, "cpu") {
			value = func(f api.Float) string { return fmt.Sprintf("%.3g", float64(f)) }
		}
		for _, p := range c.Points {
			mark := ""
			switch {
			case p.Setting == c.Best:
				mark = "best"
			case slices.Contains(c.Candidates, p.Setting):
				mark = "not to be told from it"
			}
			tb.rows = append(tb.rows, []string{p.Setting, value(p.Value), value(p.Low) + " … " + value(p.High), percent(p.BestIn) + " of rounds", mark})
		}
		d.table(tb)
		d.gap()
		d.line(c.Sentence)
	}
	for _, s := range sentences {
		d.item(s)
	}
}
