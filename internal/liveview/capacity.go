package liveview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/report"
)

// Capacity shows a search while it goes: a line for each step that has ended,
// and below them, on a terminal, how the step that goes on looks.
type Capacity struct {
	*benchView
	told int // steps
}

func NewCapacity(w io.Writer, title string, quiet bool, now func() time.Time) *Capacity {
	return &Capacity{benchView: NewBench(w, title, quiet, now)}
}

// Show writes what is new.
func (v *Capacity) Show(c *api.Capacity) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		return
	}
	v.erase()
	going := len(c.Steps) > 0 && strings.HasPrefix(c.Progress, fmt.Sprintf("step %d,", len(c.Steps)))
	ended := len(c.Steps)
	if going {
		ended--
	}
	for ; v.told < ended; v.told++ {
		fmt.Fprintln(v.w, report.Printable(capacityLine(c, &c.Steps[v.told])))
	}
	if !v.terminal || !report.IsNaN(c.End) {
		return
	}
	lines := []string{"  " + c.Progress}
	if going {
		s := &c.Steps[len(c.Steps)-1]
		lines[0] += fmt.Sprintf("  %s answered, %s at a time", report.PerTime(s.Rate), report.Number.Value(s.Concurrency))
		for _, o := range s.Objectives {
			lines = append(lines, "    "+objectiveText(&o))
		}
	}
	if c.Answer != nil {
		lines = append(lines, "  so far: "+c.Answer.Sentence)
	}
	width, _ := v.size()
	for _, line := range lines {
		text := []rune(report.Printable(line))
		if len(text) > width-1 {
			text = append(text[:max(0, width-2)], '…')
		}
		fmt.Fprintln(v.w, v.paint(string(text)))
		v.drawn++
	}
}

func objectiveText(o *api.CapacityObjective) string {
	figure := report.ObjectiveFigure(o)
	mark := map[string]string{"kept": "✓", "broken": "✗"}[o.Kept]
	if mark == "" {
		mark = "?"
	}
	return fmt.Sprintf("%s %s  now %s (%s)", mark, o.Text, figure(o.Value), report.ObjectiveInterval(o))
}

// capacityLine returns a step in one line.
func capacityLine(c *api.Capacity, s *api.CapacityStep) string {
	parts := []string{fmt.Sprintf("%-7s %9s", s.Phase, report.StepName(c, s)), fmt.Sprintf("answered %s", report.PerTime(s.Rate)),
		"p50 " + report.At(s.Latency, "0.5"), "p99 " + report.At(s.Latency, "0.99")}
	if s.Errors > 0 {
		parts = append(parts, "errors "+report.Percent(s.Errors))
	}
	if !report.IsNaN(s.Queued) {
		parts = append(parts, "queued "+report.SecondsUnit.Value(s.Queued))
	}
	if !report.IsNaN(s.CPU) {
		parts = append(parts, report.Number.Value(s.CPU)+" cores")
	}
	parts = append(parts, report.KeptText(s))
	if s.Stopped != "" {
		parts = append(parts, s.Stopped)
	}
	return strings.Join(parts, "  ")
}
