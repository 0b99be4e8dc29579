package report

import (
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Simulation returns the report of a simulation.
func Simulation(s *api.Simulation, now time.Time) *Document {
	d := &Document{Name: s.Name, Data: s}
	d.Title(s.Name)
	d.Only(HTML, func() {
		d.Line(fmt.Sprintf("simulated %s, %s of %s queries each", ClockIn(s.Start, now.Location()), Plural(len(s.Layouts), "layout"), figure.Thousands(simulatedQueries(s))))
		d.Heading(s.Headline)
	})
	d.Paragraph()
	d.Only(Text|Markdown, func() { d.Line(s.Headline) })
	for _, c := range simulationCharts(s) {
		d.Chart(c)
	}
	d.simulation(s)
	if s.File != "" {
		d.Only(HTML, func() { d.Heading("Files and configuration") })
		d.Details("the simulation's file", s.File)
	}
	d.again(s.Command)
	return d
}

// simulation adds warnings, layouts and leaves.
func (d *Document) simulation(s *api.Simulation) {
	if s.Failed != "" {
		d.Gap()
		d.Line("ended before its time: " + s.Failed)
	}
	if len(s.Warnings) > 0 {
		d.Gap()
		for _, w := range s.Warnings {
			d.Item("warning: " + w.Text)
		}
	}
	d.Section("Layouts")
	d.Only(Text|Markdown, func() { d.Table(layoutTable(s, false)) })
	d.Only(HTML, func() { d.Table(layoutTable(s, true)) })
	d.Section("How busy they are")
	d.Table(busyTable(s))
	d.Section("Leaves")
	d.Table(leafTable(s))
	for _, l := range s.Leaves {
		d.Indented(l.Class + ": " + l.Source)
	}
}

// shownQuantiles lists the quantiles of tables, in order, with their names.
var shownQuantiles = [][2]string{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}, {"0.999", "p99.9"}}

// longestP99 returns the greatest p99 of all layouts, NaN if none has one.
func longestP99(s *api.Simulation) float64 {
	most := math.NaN()
	for i := range s.Layouts {
		if v := float64(s.Layouts[i].Quantiles["0.99"].Value); math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

func layoutTable(s *api.Simulation, plain bool) *Table {
	t := Columns("layout", ">nodes", ">shards", ">rounds")
	for _, q := range shownQuantiles {
		t.Column(q[1], true)
	}
	for _, h := range []string{"p99, 95 % interval", "p99 against the first", "p99 if none waited"} {
		t.Column(h, true)
	}
	if !plain {
		t.Column("p99", false)
	}
	most := longestP99(s)
	for i := range s.Layouts {
		l := &s.Layouts[i]
		row := []string{l.Name, fmt.Sprint(l.Nodes), fmt.Sprint(l.Shards), fmt.Sprint(l.Rounds)}
		for _, q := range shownQuantiles {
			row = append(row, SecondsUnit.Value(l.Quantiles[q[0]].Value))
		}
		v, first := l.Quantiles["0.99"], s.Layouts[0].Quantiles["0.99"].Value
		row = append(row, secondsInterval(v), against(i, v.Value, first), SecondsUnit.Value(l.NoQueue["0.99"]))
		if !plain {
			row = append(row, Bar(v.Value/api.Float(most), ShareWidth))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func secondsInterval(v api.ScalingValue) string {
	return ends(SecondsUnit.Value(v.Low), SecondsUnit.Value(v.High))
}

// against writes a figure relative to that of the first layout.
func against(i int, v, first api.Float) string {
	if i == 0 || IsNaN(v) || IsNaN(first) {
		return "-"
	}
	return change(v / first)
}

func busyTable(s *api.Simulation) *Table {
	t := &Table{}
	t.Column("layout", false)
	aggregators, hedged, cost := false, false, false
	for i := range s.Layouts {
		l := &s.Layouts[i]
		aggregators, hedged, cost = aggregators || l.Aggregator > 0, hedged || l.Hedged > 0, cost || !IsNaN(l.Cost)
	}
	for _, h := range []string{"threads", "cores", "queries/s", "busy", "busiest node", "leaf p99", "a leaf waits", "slowest/mean leaf", "merge"} {
		t.Column(h, true)
	}
	for _, h := range []struct {
		name string
		on   bool
	}{{"aggregators busy", aggregators}, {"asked twice", hedged}, {"cost/h", cost}, {"cost/1M queries", cost}} {
		if h.on {
			t.Column(h.name, true)
		}
	}
	or := func(n float64, without string) string {
		if n == 0 || math.IsNaN(n) {
			return without
		}
		return Digits(n)
	}
	for i := range s.Layouts {
		l := &s.Layouts[i]
		row := []string{
			l.Name, or(float64(l.Threads), "any"), or(float64(l.Cores), "enough"), or(float64(l.Rate), "-"), ratio(l.Utilisation), ratio(l.Busiest),
			SecondsUnit.Value(l.Leaf["0.99"]), SecondsUnit.Value(l.Waiting), Ratio(l.Straggler), orNothing(l.Merge),
		}
		if aggregators {
			row = append(row, ratio(l.Aggregator))
		}
		if hedged {
			row = append(row, ratio(l.Hedged))
		}
		if cost {
			row = append(row, or(float64(l.Cost), "-"), or(float64(l.CostEach)*1e6, "-"))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// orNothing writes a duration, - if it is 0.
func orNothing(v api.Float) string {
	if v == 0 {
		return "-"
	}
	return SecondsUnit.Value(v)
}

func leafTable(s *api.Simulation) *Table {
	t := Columns("class", ">share", ">observations", ">slots", ">at shards", ">mean", ">p50", ">p99", ">p99.9", ">max", ">alike")
	for _, l := range s.Leaves {
		shards, observations := "any", "given"
		if !IsNaN(l.Shards) {
			shards = Digits(float64(l.Shards))
		}
		if l.Observations > 0 {
			observations = figure.Thousands(l.Observations)
		}
		q := func(name string) string {
			v, ok := l.Latency.Quantiles[name]
			if !ok {
				return "-"
			}
			return SecondsUnit.Value(v)
		}
		t.Rows = append(t.Rows, []string{
			l.Class, ratio(l.Weight), observations, fmt.Sprint(l.Slots), shards, SecondsUnit.Value(l.Latency.Mean),
			q("0.5"), q("0.99"), q("0.999"), SecondsUnit.Value(l.Latency.Max), Digits(float64(l.Together)),
		})
	}
	return t
}

func simulatedQueries(s *api.Simulation) (n uint64) {
	for i := range s.Layouts {
		n = max(n, s.Layouts[i].Queries)
	}
	return n
}
