package liveview

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"tailscope/internal/experiment"
	"tailscope/internal/report"
)

// Experiment shows how an experiment goes: a line that is drawn over on a
// terminal, a line of each step otherwise.
type Experiment struct {
	w        io.Writer
	terminal bool
	quiet    bool
	now      func() time.Time
	mu       sync.Mutex
	last     string
	drawn    bool
	at       time.Time
}

func NewExperiment(w io.Writer, quiet bool, now func() time.Time) *Experiment {
	return &Experiment{w: w, terminal: IsTerminal(w) && os.Getenv("TERM") != "dumb", quiet: quiet, now: now}
}

// Draws reports whether the view is a line that is drawn over.
func (v *Experiment) Draws() bool { return v.terminal && !v.quiet }

func (v *Experiment) Note(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	fmt.Fprintln(v.w, report.Printable(line))
}

func (v *Experiment) Show(m experiment.Moment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		return
	}
	line := m.Text
	if m.Left > 0 {
		line += ", about " + report.Duration(m.Left.Round(time.Second)) + " left"
	}
	if !v.terminal {
		if m.Text != v.last && !strings.HasSuffix(m.Text, ": applied") && !strings.HasSuffix(m.Text, ": settling") {
			v.last = m.Text
			fmt.Fprintln(v.w, report.Printable(line))
		}
		return
	}
	if m.Run != nil {
		line += " · " + benchLine(*m.Run)
	} else if v.now().Sub(v.at) < DrawEvery && m.Text == v.last {
		return
	}
	v.last, v.at = m.Text, v.now()
	v.erase()
	fmt.Fprint(v.w, report.Printable(line))
	v.drawn = true
}

func (v *Experiment) erase() {
	if v.drawn {
		fmt.Fprint(v.w, "\r\x1b[K")
		v.drawn = false
	}
}

func (v *Experiment) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
}
