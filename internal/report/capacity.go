package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/figure"
)

// Capacity returns the report of a search: the answer, each step, the law, and the
// environment.
func Capacity(c *api.Capacity) *Document {
	d := &Document{Name: c.Name + ": capacity", Data: c}
	d.Only(HTML, func() { d.Title(c.Headline) })
	d.Only(Markdown, func() { d.Heading("capacity of " + c.Name) })
	d.Only(Text|Markdown, func() { d.Line(c.Headline) })
	if c.Answer != nil && c.Answer.Next != "" {
		d.Paragraph()
		d.Line(c.Answer.Next)
	}
	for _, line := range capacityLines(c) {
		d.Paragraph()
		d.Line(line)
	}
	if c.Failed != "" {
		d.Alarm("It ended before its time: " + c.Failed)
	}
	if c.RestoreError != "" {
		d.Alarm("Not everything is as it was before: " + c.RestoreError)
	}
	d.Figures(capacityFigures(c)...)
	d.Only(HTML, func() { capacityCharts(d, c) })
	if len(c.Steps) > 0 {
		d.Gap()
		d.Only(HTML, func() { d.Heading("Steps") })
		d.Table(capacitySteps(c))
		d.Section("objective")
		d.Table(capacityObjectives(c))
	}
	if t := capacityResources(c); t != nil {
		d.Only(HTML, func() {
			d.Heading("Processes under test")
			d.Table(t)
		})
	}
	var stops []string
	for i := range c.Steps {
		if text := stopText(c, &c.Steps[i]); text != "" {
			stops = append(stops, text)
		}
	}
	d.List("stopped", stops, d.Item)
	if c.Law != nil {
		d.Section("scalability law")
		d.scaling(c.Law, 72)
		for _, w := range c.Law.Warnings {
			d.Item(w)
		}
	}
	var warnings []string
	for _, w := range c.Warnings {
		warnings = append(warnings, w.Text)
	}
	d.List("warnings", warnings, d.Item)
	d.List("events", eventTexts(c.Start, c.Events), d.Item)
	d.List("where", []string{environmentText(&c.Environment), "began " + benchMoment(c.Start)}, d.Item)
	if c.Command != "" {
		d.Gap()
		d.Command("again", c.Command)
	}
	return d
}

// capacityLines returns the lines on the objective, and on what steps do not show.
func capacityLines(c *api.Capacity) []string {
	text := c.Arrivals + " arrivals"
	switch live := c.Arrivals == "live"; {
	case live && c.Unit == "servers":
		text = "a candidate's pool that is shrunk under live requests"
	case live:
		text = "copies of live requests"
	case c.Mode == "servers":
		text = "a pool that is shrunk under a load that stays, " + text
	}
	lines := []string{fmt.Sprintf("%s: %s, %s", c.Target, c.Objective, text)}
	if c.Answer != nil && !IsNaN(c.Answer.Rate) && c.Unit != "requests/s" {
		lines = append(lines, "answered a second there: "+PerTime(c.Answer.Rate))
	}
	switch {
	case c.RestoreError != "":
		lines = append(lines, "NOT RESTORED: "+c.RestoreError)
	case !c.Restored && IsNaN(c.End):
		lines = append(lines, "it has not ended yet: "+c.Progress)
	}
	return lines
}

// stopText describes how a step was stopped.
func stopText(c *api.Capacity, s *api.CapacityStep) string {
	if s.Stopped == "" {
		return ""
	}
	text := fmt.Sprintf("at %s: %s", StepName(c, s), s.Stopped)
	switch {
	case IsNaN(s.StoppedAfter):
	case s.StoppedAfter == 0:
		text += "; nothing was sent after that was seen"
	default:
		text += fmt.Sprintf("; the last request was sent %s after that was seen", figure.Seconds(float64(s.StoppedAfter)))
	}
	return text
}

func StepName(c *api.Capacity, s *api.CapacityStep) string {
	x := Digits(float64(s.X))
	if v := float64(s.X); v >= 1000 {
		x = figure.Rounded(v)
	}
	if c.Unit == "requests/s" {
		return x + "/s"
	}
	return x + " " + search.Unit(x, c.Unit)
}

// stepLoad writes the load of a step.
func stepLoad(c *api.Capacity, s *api.CapacityStep) string {
	x, _, _ := strings.Cut(StepName(c, s), " ")
	return x
}

// capacitySteps returns a row of figures for each step. It leaves out columns without
// figures.
func capacitySteps(c *api.Capacity) *Table {
	some := func(of func(*api.CapacityStep) api.Float) bool {
		return slices.ContainsFunc(c.Steps, func(s api.CapacityStep) bool { return !IsNaN(of(&s)) })
	}
	seconds := func(of func(*api.CapacityStep) api.Float) func(*api.CapacityStep) string {
		return func(s *api.CapacityStep) string { return SecondsUnit.Value(of(s)) }
	}
	queued := func(s *api.CapacityStep) api.Float { return s.Queued }
	cpu := func(s *api.CapacityStep) api.Float { return s.CPU }
	errors := func(s *api.CapacityStep) api.Float { return s.Errors }
	type column struct {
		name string
		text func(*api.CapacityStep) string
		show bool
	}
	columns := []column{
		{c.Unit, func(s *api.CapacityStep) string { return stepLoad(c, s) }, true},
		{"answered", func(s *api.CapacityStep) string { return PerTime(s.Rate) }, true},
		{"p50", func(s *api.CapacityStep) string { return At(s.Latency, "0.5") }, true},
		{"p99", func(s *api.CapacityStep) string { return At(s.Latency, "0.99") }, true},
		{"errors", func(s *api.CapacityStep) string { return Percent(s.Errors) }, some(errors)},
		{"at a time", func(s *api.CapacityStep) string { return Number.Value(s.Concurrency) }, true},
		{"waited", seconds(func(s *api.CapacityStep) api.Float { return s.Waited }), true},
		{"queued", seconds(queued), some(queued)},
		{"worked", seconds(func(s *api.CapacityStep) api.Float { return s.Worked }), true},
		{"cores", func(s *api.CapacityStep) string { return Number.Value(s.CPU) }, some(cpu)},
	}
	t := &Table{}
	t.Column("phase", false)
	for _, col := range columns {
		if col.show {
			t.Column(col.name, true)
		}
	}
	t.Column("", false)
	for i := range c.Steps {
		s := &c.Steps[i]
		row := []string{s.Phase}
		for _, col := range columns {
			if col.show {
				row = append(row, col.text(s))
			}
		}
		t.Rows = append(t.Rows, append(row, cameOut(c, s)))
	}
	return t
}

// KeptText describes the outcome of a step by itself.
func KeptText(s *api.CapacityStep) string { return s.Kept + stepRemarks(s) }

// cameOut describes the outcome of a step in the end. If a step is unclear by itself, its
// place relative to the answer's interval may decide.
func cameOut(c *api.Capacity, s *api.CapacityStep) string {
	text := s.Kept
	if a := c.Answer; text == search.Unclear && s.Valid && a != nil {
		x, light, heavy := s.X, a.Low, a.High
		if c.Unit == "servers" {
			x, light, heavy = -s.X, -a.High, -a.Low
		}
		switch {
		case x <= light:
			text = search.Kept + ", by all steps"
		case x > heavy:
			text = search.Broken + ", by all steps"
		}
	}
	return text + stepRemarks(s)
}

func stepRemarks(s *api.CapacityStep) (text string) {
	if s.Stopped != "" {
		text += ", stopped"
	}
	if !s.Valid {
		text += ", not counted"
	}
	return text
}

// capacityObjectives returns a row for each step and condition.
func capacityObjectives(c *api.Capacity) *Table {
	t := &Table{}
	t.Column(c.Unit, true)
	for _, h := range []string{"condition", "seen", "interval", "is"} {
		t.Column(h, h == "seen")
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		for _, o := range s.Objectives {
			figure := ObjectiveFigure(&o)
			t.Rows = append(t.Rows, []string{stepLoad(c, s), o.Text, figure(o.Value), ObjectiveInterval(&o), o.Kept})
		}
	}
	return t
}

// ObjectiveFigure writes figures of a condition.
func ObjectiveFigure(o *api.CapacityObjective) func(api.Float) string {
	if !strings.Contains(o.Text, "errors") {
		return SecondsUnit.Value
	}
	return func(v api.Float) string {
		if math.Abs(float64(v)) < 1e-9 {
			v = 0
		}
		return Percent(v)
	}
}

// ObjectiveInterval writes the known ends of a condition's interval. The upper end is not
// known if few requests count, as they come in bursts.
func ObjectiveInterval(o *api.CapacityObjective) string {
	figure := ObjectiveFigure(o)
	switch low, high := IsNaN(o.Low), IsNaN(o.High); {
	case low && high:
		return "not known"
	case low:
		return "up to " + figure(o.High)
	case high:
		return "from " + figure(o.Low)
	}
	return ends(figure(o.Low), figure(o.High))
}

// resourceNames returns the names of the processes of all steps.
func resourceNames(c *api.Capacity) []string {
	names := map[string]bool{}
	for i := range c.Steps {
		for name := range c.Steps[i].Resources {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// capacityResources returns a column for each reading, nil without any.
func capacityResources(c *api.Capacity) *Table {
	names := resourceNames(c)
	if len(names) == 0 {
		return nil
	}
	t := &Table{}
	t.Column(c.Unit, true)
	for _, name := range names {
		t.Column(strings.ReplaceAll(name, "_", " "), true)
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		row := []string{stepLoad(c, s)}
		for _, name := range names {
			v, ok := s.Resources[name]
			unit := Number
			if strings.HasSuffix(name, "bytes") {
				unit = bytesUnit
			}
			if text := unit.Value(v); ok {
				row = append(row, text)
			} else {
				row = append(row, "-")
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// capacityOf returns a search in the log book, with a note if its reports have ended early.
func capacityOf(x *api.Session, now time.Time) *api.Capacity {
	c := *x.Capacity
	if x.State == "lost" && c.Failed == "" {
		c.Failed = "its program has not reported since " + ClockIn(x.Updated, now.Location())
		if c.Headline == "" {
			c.Headline = c.Failed
		}
	}
	if c.Headline == "" {
		c.Headline = "it has not ended yet: " + c.Progress
	}
	return &c
}
