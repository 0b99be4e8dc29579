package cli

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// writeSimulation writes what a simulation came to.
func writeSimulation(w *bytes.Buffer, s *api.Simulation, format string, now time.Time) error {
	switch format {
	case "json":
		return writeJSON(w, s)
	case "html":
		return writeSimulationHTML(w, s, now.Location())
	}
	d := &document{w: w, markdown: format == "markdown" || format == "md"}
	if d.markdown {
		d.print("# ")
	}
	d.line(s.Name)
	d.paragraph()
	d.line(s.Headline)
	simulationText(d, s)
	if s.Command != "" {
		d.section("Again")
		if d.markdown {
			d.picture([]string{s.Command})
		} else {
			d.line("  " + s.Command)
		}
	}
	return d.err
}

// simulationText writes warnings, layouts and leaves.
func simulationText(d *document, s *api.Simulation) {
	if s.Failed != "" {
		d.gap()
		d.line("ended before its time: " + s.Failed)
	}
	if len(s.Warnings) > 0 {
		d.gap()
		for _, w := range s.Warnings {
			d.item("warning: " + w.Text)
		}
	}
	d.section("Layouts")
	d.table(layoutTable(s, d.html))
	d.section("How busy they are")
	d.table(busyTable(s))
	d.section("Leaves")
	d.table(leafTable(s))
	for _, l := range s.Leaves {
		d.item(bulleted(d, l.Class+": "+l.Source))
	}
}

// shownQuantiles are those that tables have, in order, with their names.
var shownQuantiles = [][2]string{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}, {"0.999", "p99.9"}}

// longest is the greatest p99 of all layouts, NaN if none has one.
func longestP99(s *api.Simulation) float64 {
	most := math.NaN()
	for i := range s.Layouts {
		if v := float64(s.Layouts[i].Quantiles["0.99"].Value); math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

func layoutTable(s *api.Simulation, plain bool) *table {
	t := &table{}
	t.column("layout", false)
	for _, h := range []string{"nodes", "shards", "rounds"} {
		t.column(h, true)
	}
	for _, q := range shownQuantiles {
		t.column(q[1], true)
	}
	t.column("p99, 95 % interval", true)
	t.column("p99 against the first", true)
	t.column("p99 if none waited", true)
	if !plain {
		t.column("p99", false)
	}
	most := longestP99(s)
	for i := range s.Layouts {
		l := &s.Layouts[i]
		row := []string{l.Name, fmt.Sprint(l.Nodes), fmt.Sprint(l.Shards), fmt.Sprint(l.Rounds)}
		for _, q := range shownQuantiles {
			row = append(row, secondsUnit.value(l.Quantiles[q[0]].Value))
		}
		v, first := l.Quantiles["0.99"], s.Layouts[0].Quantiles["0.99"].Value
		row = append(row, secondsInterval(v), against(i, v.Value, first), secondsUnit.value(l.NoQueue["0.99"]))
		if !plain {
			row = append(row, bar(v.Value/api.Float(most), shareWidth))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func secondsInterval(v api.ScalingValue) string {
	if isNaN(v.Low) || isNaN(v.High) {
		return "-"
	}
	return secondsUnit.value(v.Low) + " … " + secondsUnit.value(v.High)
}

// against is a figure against that of the first layout.
func against(i int, v, first api.Float) string {
	if i == 0 || isNaN(v) || isNaN(first) {
		return "-"
	}
	return change(v / first)
}

func busyTable(s *api.Simulation) *table {
	t := &table{}
	t.column("layout", false)
	aggregators, hedged, cost := false, false, false
	for i := range s.Layouts {
		l := &s.Layouts[i]
		aggregators, hedged, cost = aggregators || l.Aggregator > 0, hedged || l.Hedged > 0, cost || !isNaN(l.Cost)
	}
	for _, h := range []string{"threads", "cores", "queries/s", "busy", "busiest node", "leaf p99", "a leaf waits", "slowest/mean leaf", "merge"} {
		t.column(h, true)
	}
	for _, h := range []struct {
		name string
		on   bool
	}{{"aggregators busy", aggregators}, {"asked twice", hedged}, {"cost/h", cost}, {"cost/1M queries", cost}} {
		if h.on {
			t.column(h.name, true)
		}
	}
	or := func(n float64, without string) string {
		if n == 0 || math.IsNaN(n) {
			return without
		}
		return digits(n)
	}
	for i := range s.Layouts {
		l := &s.Layouts[i]
		row := []string{
			l.Name, or(float64(l.Threads), "any"), or(float64(l.Cores), "enough"), or(float64(l.Rate), "-"), percent(l.Utilisation), percent(l.Busiest),
			secondsUnit.value(l.Leaf["0.99"]), secondsUnit.value(l.Waiting), ratio(l.Straggler), orNothing(l.Merge),
		}
		if aggregators {
			row = append(row, percent(l.Aggregator))
		}
		if hedged {
			row = append(row, percent(l.Hedged))
		}
		if cost {
			row = append(row, or(float64(l.Cost), "-"), or(float64(l.CostEach)*1e6, "-"))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// orNothing is a duration, - if there is none.
func orNothing(v api.Float) string {
	if v == 0 {
		return "-"
	}
	return secondsUnit.value(v)
}

func leafTable(s *api.Simulation) *table {
	t := &table{}
	t.column("class", false)
	for _, h := range []string{"share", "observations", "slots", "at shards", "mean", "p50", "p99", "p99.9", "max", "alike"} {
		t.column(h, true)
	}
	for _, l := range s.Leaves {
		shards, observations := "any", "given"
		if !isNaN(l.Shards) {
			shards = digits(float64(l.Shards))
		}
		if l.Observations > 0 {
			observations = figure.Thousands(l.Observations)
		}
		q := func(name string) string {
			v, ok := l.Latency.Quantiles[name]
			if !ok {
				return "-"
			}
			return secondsUnit.value(v)
		}
		t.rows = append(t.rows, []string{
			l.Class, percent(l.Weight), observations, fmt.Sprint(l.Slots), shards, secondsUnit.value(l.Latency.Mean),
			q("0.5"), q("0.99"), q("0.999"), secondsUnit.value(l.Latency.Max), digits(float64(l.Together)),
		})
	}
	return t
}

// writeSimulationHTML writes a page that needs nothing else.
func writeSimulationHTML(w *bytes.Buffer, s *api.Simulation, zone *time.Location) error {
	var b bytes.Buffer
	d := &document{w: &b, html: true}
	simulationText(d, s)
	d.list(false)
	if d.err != nil {
		return d.err
	}
	p := &experimentPage{
		Title: s.Name, Headline: s.Headline, Command: s.Command, Body: template.HTML(b.String()), // escaped by document
		When:   fmt.Sprintf("simulated %s, %s of %s queries each", clockIn(s.Start, zone), plural(len(s.Layouts), "layout"), figure.Thousands(simulatedQueries(s))),
		Charts: simulationCharts(s),
	}
	if s.File != "" {
		p.Files = []reportFile{{"the simulation's file", s.File}}
	}
	return experimentTemplate.Execute(w, p)
}

func simulatedQueries(s *api.Simulation) (n uint64) {
	for i := range s.Layouts {
		n = max(n, s.Layouts[i].Queries)
	}
	return n
}
