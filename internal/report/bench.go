package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"tailscope/api"
	"tailscope/internal/figure"
	"time"
)

// The headings of runs that say little of their target.
const BenchInvalid = "INVALID: the generator could not keep up, so that these figures say more of it than of the target"

// benchClosed stands beside the latency of a closed loop.
const benchClosed = "closed loop: each request was sent when the one before had its answer, so that these latencies leave out the waiting of users who would not have waited to ask"

// Bench returns the report of a run of load.
func Bench(r *api.BenchResult) *Document {
	d := &Document{Name: r.Name + ": load", Data: r}
	d.bench(r)
	return d
}

func (d *Document) bench(r *api.BenchResult) {
	d.Only(Text|Markdown, func() { d.Title(r.Name) })
	d.Only(HTML, func() {
		name := r.Name
		if r.Variant != "" {
			name += " (" + r.Variant + ")"
		}
		d.Title(name)
	})
	d.Paragraph()
	lead := func() {
		d.Line(PlanText(r))
		d.Paragraph()
		d.Line(rateLine(r))
	}
	d.Only(HTML, func() {
		lead()
		d.Line("began " + benchMoment(r.Start))
	})
	if !r.Valid {
		d.Alarm(BenchInvalid, r.Invalid...)
		d.Only(Text|Markdown, func() {
			d.Line(BenchInvalid)
			for _, why := range r.Invalid {
				d.Indented(why)
			}
			d.Paragraph()
		})
	}
	d.Only(Text|Markdown, lead)
	if r.Aborted != "" {
		d.Alarm("Ended before its time: " + r.Aborted)
		d.Only(Text|Markdown, func() {
			d.Paragraph()
			d.Line("ended before its time: " + r.Aborted)
		})
	}
	d.Figures(benchFigures(r)...)
	benchCharts(d, r)
	d.Gap()
	d.Columns(func() {
		d.Only(Markdown|HTML, func() { d.Heading("Latency") })
		d.Table(latencyTable(r))
		for _, n := range latencyNotes(r) {
			d.Paragraph()
			d.Line(n)
		}
		d.List("Requests", requestLines(r), d.Indented)
	})
	if len(r.Thresholds) > 0 {
		d.Section("Thresholds")
		d.Table(thresholdTable(r.Thresholds))
	}
	if len(r.Queries) > 1 {
		d.Section("Queries")
		d.Table(benchTable("query", r.Queries))
	}
	if len(r.Tenants) > 1 {
		d.Section("Tenants")
		d.Only(HTML, func() { d.Table(benchTable("tenant", r.Tenants)) })
		d.Only(Text|Markdown, func() {
			d.Table(benchTable("tenant", first(r.Tenants, benchTenants)))
			if n := len(r.Tenants) - benchTenants; n > 0 {
				d.Line(fmt.Sprintf("and %d more", n))
			}
		})
	}
	if len(r.Phases) > 1 {
		d.Section("Phases")
		d.Table(phaseTable(r))
	}
	d.List("Events", eventTexts(r.Start, r.Events), d.Indented)
	var loads []string
	for i := range r.Loads {
		loads = append(loads, LoadText(&r.Loads[i]))
	}
	d.List("Loaded before", loads, d.Indented)
	if w := r.WarmUp; w != nil {
		d.Section("Warm-up")
		d.Line(warmText(w))
	}
	if len(r.Resources) > 0 {
		d.Section("Processes under test")
		d.Table(resourceTable(r.Resources))
	}
	for i := range r.Resources {
		x := &r.Resources[i]
		d.Chart(Chart{Name: x.Process + ": " + strings.ReplaceAll(x.Name, "_", " "), Plot: readingChart(r, x)})
	}
	d.List("Generator", generatorLines(r), d.Indented)
	d.again(r.Command)
}

// again adds the command that repeats a run, if there is one.
func (d *Document) again(command string) {
	if command == "" {
		return
	}
	d.Section("Again")
	d.Only(Markdown|HTML, func() { d.Picture([]string{command}) })
	d.Only(Text, func() { d.Line("  " + command) })
}

// benchTenants is the number of tenants that a report names.
const benchTenants = 10

// PlanText describes the planned load.
func PlanText(r *api.BenchResult) string {
	var parts []string
	p := &r.Plan
	atOnce := fmt.Sprintf("%d connections", p.Connections)
	if p.Protocol == "HTTP/2" {
		atOnce = fmt.Sprintf("%d requests at once", p.Connections)
	}
	switch {
	case p.Arrivals == "closed":
		parts = append(parts, "closed loop of "+atOnce)
	case p.Arrivals == "recorded":
		parts = append(parts, "at recorded times")
	case len(r.Phases) == 1 && r.Phases[0].From == r.Phases[0].To:
		parts = append(parts, PerTime(r.Phases[0].From))
	case len(r.Phases) == 1:
		parts = append(parts, PerTime(r.Phases[0].From)+" to "+PerTime(r.Phases[0].To))
	default:
		parts = append(parts, fmt.Sprintf("%d phases", len(r.Phases)))
	}
	if !IsNaN(p.Duration) {
		parts[0] += " for " + benchSpan(float64(p.Duration))
	}
	if p.Arrivals == "poisson" {
		parts[0] += ", Poisson arrivals"
	}
	parts = append(parts, p.Protocol)
	if p.TLS {
		parts[len(parts)-1] += " over TLS"
	}
	if p.Arrivals != "closed" {
		parts = append(parts, "up to "+atOnce)
	}
	return strings.Join(append(parts, r.Target), ", ")
}

// benchSpan writes 30s, 2m30s, 1.5s.
func benchSpan(s float64) string {
	d := time.Duration(math.Round(s*1e3)) * time.Millisecond
	if d >= time.Minute {
		d = d.Round(time.Second)
	}
	return figure.Duration(d)
}

func rateLine(r *api.BenchResult) string {
	text := fmt.Sprintf("%s answered", PerTime(r.Rate))
	if !IsNaN(r.Asked) {
		text += " of " + PerTime(r.Asked) + " asked for"
	}
	if !IsNaN(r.End) {
		text += ", " + figure.Thousands(r.Account.Answered) + " in " + benchSpan(float64(r.End-r.Start))
	}
	return text + ", " + Bytes(int64(r.Bytes)) + " received"
}

func latencyTable(r *api.BenchResult) *Table {
	t := &Table{}
	t.Column("", false)
	closed := r.Plan.Arrivals == "closed"
	if !closed {
		t.Column("from when due", true)
	}
	t.Column("from when sent", true)
	add := func(name string, due, sent api.Float) {
		row := []string{name, SecondsUnit.Value(due), SecondsUnit.Value(sent)}
		if closed {
			row = []string{name, SecondsUnit.Value(sent)}
		}
		t.Rows = append(t.Rows, row)
	}
	for _, q := range SortedQuantiles(r.Latency.Quantiles) {
		add(QuantileName(q), r.Latency.Quantiles[q], r.Uncorrected.Quantiles[q])
	}
	add("max", r.Latency.Max, r.Uncorrected.Max)
	add("mean", r.Latency.Mean, r.Uncorrected.Mean)
	return t
}

// latencyNotes returns the notes that a reader of the figures needs.
func latencyNotes(r *api.BenchResult) []string {
	var out []string
	if r.Plan.Arrivals == "closed" {
		out = append(out, benchClosed)
	}
	if !IsNaN(r.Latency.Error) {
		out = append(out, fmt.Sprintf("quantiles within %s; first byte p50 %s, p99 %s", Percent(r.Latency.Error), At(r.FirstByte, "0.5"), At(r.FirstByte, "0.99")))
	}
	if n := Sum(r.Account.Failed); n > 0 {
		out = append(out, fmt.Sprintf("%s requests had no whole answer (%s) and are in no latency", figure.Thousands(n), Causes(r.Account.Failed)))
	}
	if n := r.Account.Unsent + r.Account.CutOff; n > 0 {
		text := fmt.Sprintf("%s requests were still waiting or under way at the end and are in no latency", figure.Thousands(n))
		if r.Aborted == "" {
			text += ": the target fell behind"
		}
		out = append(out, text)
	}
	return out
}

// requestLines returns lines on the outcomes of requests, and on what was never sent.
func requestLines(r *api.BenchResult) []string {
	return append(accountLines(&r.Account), r.Notes...)
}

func accountLines(a *api.BenchAccount) []string {
	var b strings.Builder
	SumLine(&b, "due", a.Due, []SumPart{{"sent", a.Sent, nil}, {"dropped", a.Dropped, nil}, {"unsent", a.Unsent, nil}})
	SumLine(&b, "sent", a.Sent, []SumPart{{"answered", a.Answered, nil}, {"failed", Sum(a.Failed), a.Failed}, {"cut off", a.CutOff, nil}})
	var out []string
	for line := range strings.Lines(b.String()) {
		out = append(out, strings.TrimSpace(line))
	}
	if len(a.Statuses) > 0 {
		out = append(out, "statuses "+strings.Join(statusTexts(a.Statuses), ", "))
	}
	if len(a.Checks) > 0 {
		out = append(out, "failed checks: "+Causes(a.Checks))
	}
	if a.Errors > 0 && a.Sent > 0 {
		out = append(out, fmt.Sprintf("errors %s, %s of what was sent", figure.Thousands(a.Errors), Percent(api.Float(float64(a.Errors)/float64(a.Sent)))))
	}
	return out
}

// statusTexts returns counts by status: 1,147 × 200.
func statusTexts(by map[string]uint64) []string {
	var out []string
	for _, s := range slices.Sorted(maps.Keys(by)) {
		out = append(out, figure.Thousands(by[s])+" × "+s)
	}
	return out
}

func thresholdTable(thresholds []api.BenchThreshold) *Table {
	t := &Table{}
	t.Column("threshold", false)
	t.Column("seen", true)
	t.Column("", false)
	for _, x := range thresholds {
		word := "met"
		if !x.Met {
			word = "MISSED"
		}
		if x.Aborted {
			word += ", ended the run"
		}
		t.Rows = append(t.Rows, []string{x.Text, ThresholdValue(x), word})
	}
	return t
}

// ThresholdValue writes the measured value, in the unit of its measure.
func ThresholdValue(t api.BenchThreshold) string {
	measure := strings.TrimSpace(t.Text)
	for name, write := range map[string]func(api.Float) string{
		"errors": Percent, "checks": Percent, "dropped": Percent, "rate": PerTime,
		"count": func(f api.Float) string { return Digits(float64(f)) },
	} {
		if strings.HasPrefix(measure, name) {
			if IsNaN(t.Value) {
				return "-"
			}
			return write(t.Value)
		}
	}
	return SecondsUnit.Value(t.Value)
}

func benchTable(what string, rows []api.BenchQuery) *Table {
	t := &Table{}
	t.Column(what, false)
	for _, h := range []string{"sent", "errors", "p50", "p90", "p99", "p99.9", "max", "from sent: p99"} {
		t.Column(h, true)
	}
	for _, q := range rows {
		t.Rows = append(t.Rows, []string{
			q.Name, figure.Thousands(q.Sent), figure.Thousands(q.Errors), At(q.Latency, "0.5"), At(q.Latency, "0.9"), At(q.Latency, "0.99"), At(q.Latency, "0.999"),
			SecondsUnit.Value(q.Latency.Max), At(q.Uncorrected, "0.99"),
		})
	}
	return t
}

func phaseTable(r *api.BenchResult) *Table {
	t := &Table{}
	t.Column("phase", false)
	for _, h := range []string{"from", "to", "rate", "answered", "errors", "p50", "p99", "max", "from sent: p99"} {
		t.Column(h, true)
	}
	for _, p := range r.Phases {
		rate := "-"
		if !IsNaN(p.From) {
			if rate = PerTime(p.From); p.To != p.From {
				rate += "…" + PerTime(p.To)
			}
		}
		t.Rows = append(t.Rows, []string{
			p.Name, benchSpan(float64(p.Start)), benchSpan(float64(p.End)), rate, figure.Thousands(p.Answered), figure.Thousands(p.Errors),
			At(p.Latency, "0.5"), At(p.Latency, "0.99"), SecondsUnit.Value(p.Latency.Max), At(p.Uncorrected, "0.99"),
		})
	}
	return t
}

// eventTexts returns texts of the events, without phases, which have a table.
func eventTexts(start api.Float, events []api.BenchEvent) []string {
	var out []string
	for _, e := range events {
		if e.Kind == "phase" {
			continue
		}
		text := fmt.Sprintf("%+.1fs  %s %s", float64(e.Time-start), e.Kind, e.Name)
		if e.Text != "" {
			text += ": " + e.Text
		}
		if !IsNaN(e.End) {
			text += fmt.Sprintf(", for %s", figure.Span(float64(e.End-e.Time)))
		}
		if e.Failed {
			text += " (failed)"
		}
		out = append(out, text)
	}
	return out
}

func LoadText(l *api.BenchLoad) string {
	text := fmt.Sprintf("%s: %s documents, %s in %s, %s; %s batches, p50 %s, p99 %s", l.Name, figure.Thousands(l.Documents), Bytes(int64(l.Bytes)),
		benchSpan(float64(l.Seconds)), PerTime(l.Rate), figure.Thousands(l.Batches), At(l.Latency, "0.5"), At(l.Latency, "0.99"))
	if l.Errors > 0 {
		text += fmt.Sprintf("; %s failed", figure.Thousands(l.Errors))
	}
	return text
}

func warmText(w *api.BenchWarmUp) string {
	word := "not known to be steady"
	if w.Steady {
		word = "steady"
	}
	return fmt.Sprintf("%s, %s requests, %s: %s", benchSpan(float64(w.Seconds)), figure.Thousands(w.Requests), word, w.Why)
}

func resourceTable(rs []api.BenchResource) *Table {
	t := &Table{}
	t.Column("process", false)
	t.Column("reading", false)
	t.Column("mean", true)
	t.Column("max", true)
	t.Column("a request", true)
	for _, x := range rs {
		total := strings.TrimSuffix(x.Unit, "/s")
		if x.Name == "cpu_cores" {
			total = "seconds"
		}
		t.Rows = append(t.Rows, []string{x.Process, strings.ReplaceAll(x.Name, "_", " "), reading(x.Mean, x.Unit), reading(x.Max, x.Unit), reading(x.PerRequest, total)})
	}
	return t
}

// reading writes a figure of a process in its unit: bytes, seconds, either of them
// a second, or any other.
func reading(f api.Float, unit string) string {
	if IsNaN(f) {
		return "-"
	}
	what, perSecond := strings.CutSuffix(unit, "/s")
	text := Digits(float64(f))
	switch what {
	case "bytes":
		text = Bytes(int64(f))
	case "seconds":
		text = figure.Seconds(float64(f))
	}
	if perSecond {
		text += "/s"
	}
	return text
}

func generatorLines(r *api.BenchResult) []string {
	g := &r.Generator
	var out []string
	if g.Late.Count > 0 {
		out = append(out, fmt.Sprintf("late although a connection was free: p50 %s, p99 %s, p99.9 %s, max %s", At(g.Late, "0.5"), At(g.Late, "0.99"), At(g.Late, "0.999"), SecondsUnit.Value(g.Late.Max)))
		out = append(out, fmt.Sprintf("waiting for a connection, which is the target's doing: p50 %s, p99 %s, max %s", At(g.Blocked, "0.5"), At(g.Blocked, "0.99"), SecondsUnit.Value(g.Blocked.Max)))
	}
	text := fmt.Sprintf("CPU %s, %s a request", SecondsUnit.Value(g.CPUSeconds), SecondsUnit.Value(g.CPUPerRequest))
	if g.Loops > 0 {
		text += fmt.Sprintf("; %d sending, the busiest %s of the time", g.Loops, Percent(g.Busiest))
		if g.Starved >= 0.01 {
			text += fmt.Sprintf(", %s of it without a core", Percent(g.Starved))
		}
	}
	if !IsNaN(g.Host) {
		text += fmt.Sprintf("; the machine's cores %s busy", Percent(g.Host))
		if !IsNaN(g.Delayed) {
			text += fmt.Sprintf(", waited for one %s a request", SecondsUnit.Value(g.Delayed))
		}
	}
	out = append(out, text)
	if e := environmentText(&r.Environment); e != "" {
		out = append(out, e)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Environment.Versions)) {
		out = append(out, name+": "+r.Environment.Versions[name])
	}
	return append(out, fmt.Sprintf("began %s; seed %d", benchMoment(r.Start), r.Seed))
}

func benchMoment(f api.Float) string {
	return time.UnixMilli(int64(float64(f) * 1e3)).UTC().Format("2006-01-02 15:04:05 UTC")
}

func environmentText(e *api.Environment) string {
	var parts []string
	for _, s := range []string{e.Host, e.CPU} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if e.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%d cores", e.Cores))
	}
	if e.Memory > 0 {
		parts = append(parts, Bytes(int64(e.Memory))+" of memory")
	}
	if e.OS != "" {
		parts = append(parts, strings.TrimSpace(e.OS+" "+e.Kernel))
	}
	if e.Version != "" {
		parts = append(parts, "tailscope "+e.Version)
	}
	if e.Commit != "" {
		parts = append(parts, "commit "+e.Commit)
	}
	return strings.Join(parts, ", ")
}
