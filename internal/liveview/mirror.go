package liveview

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/mirror/live"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

// How often a session is shown: over and over on a terminal, else as a line now
// and then, and when something changes.
const (
	RedrawEvery = time.Second
	lineEvery   = 10 * time.Second
)

// Moment is the state of a session at one time.
type Moment struct {
	At      time.Time
	State   api.MirrorState
	Figures live.Figures
	Trouble string // with the server that takes what is measured; empty if there is none
}

// Mirror shows a session as it goes.
type Mirror struct {
	terminal bool
	size     func() (width, height int)
	Title    string // what is mirrored, and where it is shown
	began    time.Time

	mu    sync.Mutex // over what follows, and what is written
	w     io.Writer
	drawn int // lines on the terminal that the next frame takes the place of
	last  Moment
	rate  float64 // requests a second between the last two moments
	said  string  // what the last line said beside figures
	line  time.Time
}

// NewMirror returns a view of a session that began then.
func NewMirror(w io.Writer, began time.Time) *Mirror {
	return &Mirror{w: w, terminal: IsTerminal(w) && os.Getenv("TERM") != "dumb", size: func() (int, int) { return sizeOf(w) }, began: began}
}

// Draws reports whether the view is a picture that is drawn over.
func (v *Mirror) Draws() bool { return v.terminal }

// Show takes in a moment, and draws it if it is time to.
func (v *Mirror) Show(m Moment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.terminal {
		v.measure(m)
		v.erase()
		text := v.frame(m)
		v.drawn = strings.Count(text, "\n")
		_, _ = io.WriteString(v.w, text)
		return
	}
	said := standing(m)
	if m.At.Sub(v.line) >= lineEvery || said != v.said {
		v.measure(m)
		v.line, v.said = m.At, said
		_, _ = io.WriteString(v.w, v.short(m)+"\n")
	}
}

// measure takes the rate since what was drawn last.
func (v *Mirror) measure(m Moment) {
	before := v.last
	if before.At.IsZero() {
		before.At = v.began
	}
	if d := m.At.Sub(before.At).Seconds(); d > 0 && m.State.Requests >= before.State.Requests {
		v.rate = float64(m.State.Requests-before.State.Requests) / d
	}
	v.last = m
}

// Write lets other text through, such as the log's, above what is drawn.
func (v *Mirror) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.terminal || v.last.At.IsZero() {
		return v.w.Write(b)
	}
	v.erase()
	n, err := v.w.Write(b)
	text := v.frame(v.last)
	v.drawn = strings.Count(text, "\n")
	_, _ = io.WriteString(v.w, text)
	return n, err
}

// Close leaves the last frame where it is.
func (v *Mirror) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.terminal = false
}

func (v *Mirror) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.w, "\x1b[%dA\r\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// frame returns the picture, cut to the size of the terminal: a line that wraps, or
// that has left it at the top, could not be drawn over.
func (v *Mirror) frame(m Moment) string {
	var b strings.Builder
	width, height := v.size()
	lines := 1 // where the cursor stands
	for line := range strings.Lines(v.picture(m)) {
		if lines++; lines > height {
			break
		}
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width-1 {
			line = string([]rune(line)[:max(0, width-2)]) + "…"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (v *Mirror) picture(m Moment) string {
	var b strings.Builder
	s := m.State
	fmt.Fprintf(&b, "%s   %s\n", v.Title, report.Duration(m.At.Sub(v.began)))
	fmt.Fprintf(&b, "%s   primary %s   %s requests", perSecond(v.rate), quantiles(m.Figures.Durations[s.Primary.Name]), figure.Thousands(s.Requests))
	if n := report.Sum(s.Failed); n > 0 {
		fmt.Fprintf(&b, "   %s failed: %s", figure.Thousands(n), report.Causes(s.Failed))
	}
	b.WriteByte('\n')
	var chosen []string
	switch {
	case s.Settings.Paused:
		chosen = append(chosen, "paused: nothing is copied")
	case s.Settings.Share < 1:
		chosen = append(chosen, fmt.Sprintf("copying %s of them", report.Percent(s.Settings.Share)))
	}
	if n := report.Sum(s.Skipped); n > 0 {
		chosen = append(chosen, fmt.Sprintf("%s not chosen: %s", figure.Thousands(n), report.Causes(s.Skipped)))
	}
	if len(chosen) > 0 {
		b.WriteString(strings.Join(chosen, "   ") + "\n")
	}

	t := &report.Table{}
	for i, h := range []string{"", "servers", "offered", "mirrored", "answered", "dropped", "failed", "unpaired", "queue", "buffered", "p50", "p99", "ratio"} {
		t.Column(h, i > 1)
	}
	for _, x := range s.Shadows {
		a := account(x)
		h := m.Figures.Durations[x.Name]
		t.Rows = append(t.Rows, []string{
			x.Name, inUse(x), figure.Thousands(a.Offered), figure.Thousands(a.Mirrored), figure.Thousands(a.Answered), figure.Thousands(report.Sum(a.Dropped)), figure.Thousands(report.Sum(a.Failed)), figure.Thousands(a.Unpaired),
			figure.Thousands(a.Queued), report.Bytes(a.Buffered), quantile(h, 0.5), quantile(h, 0.99), ratioOf(m, x),
		})
	}
	var rows strings.Builder
	_ = t.Write(&rows)
	first, _, _ := strings.Cut(rows.String(), "\n")
	if width, _ := v.size(); len(first) >= width {
		rows.Reset()
		_ = t.Turned().Write(&rows)
	}
	b.WriteString(rows.String())
	for _, x := range m.State.Shadows {
		if why := allCauses(account(x)); why != "" {
			fmt.Fprintf(&b, "  %s: %s\n", report.Printable(x.Name), report.Printable(why))
		}
	}
	for _, note := range notes(m) {
		b.WriteString("  " + report.Printable(note) + "\n")
	}
	return b.String()
}

func perSecond(rate float64) string {
	if rate >= 100 {
		return figure.Rounded(rate) + " requests/s"
	}
	return report.Digits(math.Round(rate*10)/10) + " requests/s"
}

// short is one line for a log.
func (v *Mirror) short(m Moment) string {
	s := m.State
	parts := []string{
		m.At.Format(time.TimeOnly), perSecond(v.rate),
		figure.Thousands(s.Requests) + " requests", "primary " + quantiles(m.Figures.Durations[s.Primary.Name]),
	}
	if n := report.Sum(s.Failed); n > 0 {
		parts = append(parts, "failed "+figure.Thousands(n))
	}
	for _, x := range s.Shadows {
		a := account(x)
		text := fmt.Sprintf("%s: offered %s, answered %s", x.Name, figure.Thousands(a.Offered), figure.Thousands(a.Answered))
		if n := report.Sum(a.Dropped); n > 0 {
			text += fmt.Sprintf(", dropped %s (%s)", figure.Thousands(n), report.Causes(a.Dropped))
		}
		if n := report.Sum(a.Failed); n > 0 {
			text += fmt.Sprintf(", failed %s (%s)", figure.Thousands(n), report.Causes(a.Failed))
		}
		if a.Unpaired > 0 {
			text += ", unpaired " + figure.Thousands(a.Unpaired)
		}
		if r := ratioOf(m, x); r != "-" {
			text += ", ratio " + r
		}
		parts = append(parts, text)
	}
	line := strings.Join(parts, "  ")
	if n := notes(m); len(n) > 0 {
		line += "  " + strings.Join(n, "; ")
	}
	return report.Printable(line)
}

// standing returns what a change of makes a line worth writing at once.
func standing(m Moment) string {
	words := []string{m.Trouble, fmt.Sprint(m.State.Settings)}
	for _, x := range m.State.Shadows {
		a := account(x)
		words = append(words, fmt.Sprint(x.Using, x.Amplify, x.DivergedWhy, slices.Sorted(maps.Keys(a.Dropped)), slices.Sorted(maps.Keys(a.Failed))))
		for _, srv := range x.Servers {
			words = append(words, srv.Down)
		}
	}
	return strings.Join(words, "\n")
}

// notes returns what a row of figures does not say.
func notes(m Moment) []string {
	var out []string
	for _, x := range m.State.Shadows {
		for _, srv := range x.Servers {
			if srv.Down != "" {
				out = append(out, fmt.Sprintf("%s: %s is not reached: %s", x.Name, srv.URL, srv.Down))
			}
		}
		if d := float64(x.Diverged); d > 0 {
			text := fmt.Sprintf("%s: diverged since %s", x.Name, time.UnixMilli(int64(d*1e3)).In(m.At.Location()).Format(time.TimeOnly))
			if x.DivergedWhy != "" {
				text += ", " + x.DivergedWhy
			}
			out = append(out, text)
		}
	}
	if c := m.State.Clients; c != nil && c.Evicted+c.Refused > 0 {
		out = append(out, fmt.Sprintf("clients: at the bound of %s connections %s that asked nothing were closed, %s that came were not taken: raise mirror.clients",
			figure.Thousands(uint64(c.Bound)), figure.Thousands(c.Evicted), figure.Thousands(c.Refused)))
	}
	if d := m.State.Differences; d != nil {
		found := 0
		for _, r := range d.Rows {
			if r.Real {
				found++
			}
		}
		places := "places differ"
		if found == 1 {
			places = "place differs"
		}
		text := fmt.Sprintf("answers: %s compared, %d %s beyond the noise", figure.Thousands(d.Compared), found, places)
		if n := report.Sum(d.Skipped); n > 0 {
			text += fmt.Sprintf(", %s not compared: %s", figure.Thousands(n), report.Causes(d.Skipped))
		}
		out = append(out, text)
	}
	if r := m.State.Recording; r != nil {
		text := fmt.Sprintf("recording: %s requests, %s to %s", figure.Thousands(r.Requests), report.Bytes(r.Bytes), r.Path)
		if r.Dropped > 0 {
			text += fmt.Sprintf(", %s left out as the disk was behind", figure.Thousands(r.Dropped))
		}
		if r.Error != "" {
			text += ": " + r.Error
		}
		out = append(out, text)
	}
	if m.Trouble != "" {
		out = append(out, m.Trouble)
	}
	return out
}

func allCauses(a api.MirrorAccount) string {
	var parts []string
	if len(a.Dropped) > 0 {
		parts = append(parts, "dropped: "+report.Causes(a.Dropped))
	}
	if len(a.Failed) > 0 {
		parts = append(parts, "failed: "+report.Causes(a.Failed))
	}
	return strings.Join(parts, "; ")
}

func account(x api.MirrorTarget) api.MirrorAccount {
	if x.Account == nil {
		return api.MirrorAccount{}
	}
	return *x.Account
}

// inUse says how many servers of a pool are used, and how many copies they get.
func inUse(x api.MirrorTarget) string {
	out := fmt.Sprint(x.Using)
	if x.Using != len(x.Servers) {
		out = fmt.Sprintf("%d of %d", x.Using, len(x.Servers))
	}
	if x.Amplify != 1 {
		out += " ×" + report.Digits(float64(x.Amplify))
	}
	return out
}

// ratioOf returns the median of what a shadow took by what its reference did: the
// control, or the primary without one.
func ratioOf(m Moment, x api.MirrorTarget) string {
	against := m.State.Primary.Name
	if x.Role != "control" {
		for _, c := range m.State.Shadows {
			if c.Role == "control" {
				against = c.Name
			}
		}
	}
	for _, r := range m.Figures.Ratios {
		if r.Variant == x.Name && r.Against == against && r.Hist.Count > 0 {
			return report.Digits(r.Hist.Quantile(0.5))
		}
	}
	return "-"
}

func quantiles(h *hist.Histogram) string {
	return "p50 " + quantile(h, 0.5) + " p99 " + quantile(h, 0.99)
}

func quantile(h *hist.Histogram, q float64) string {
	if h == nil || h.Count == 0 {
		return "-"
	}
	return figure.Seconds(h.Quantile(q))
}
