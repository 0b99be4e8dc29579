package cli

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/mirror/live"
)

// How often a session is shown: over and over on a terminal, else as a line now
// and then, and when something changes.
const (
	redrawEvery = time.Second
	lineEvery   = 10 * time.Second
)

// moment is what there is to see of a session.
type moment struct {
	at      time.Time
	state   api.MirrorState
	figures live.Figures
	trouble string // with the server that takes what is measured; empty if there is none
}

// mirrorView shows a session as it goes.
type mirrorView struct {
	terminal bool
	size     func() (width, height int)
	title    string // what is mirrored, and where it is shown
	began    time.Time

	mu    sync.Mutex // over what follows, and what is written
	w     io.Writer
	drawn int // lines on the terminal that the next frame takes the place of
	last  moment
	rate  float64 // requests a second between the last two moments
	said  string  // what the last line said beside figures
	line  time.Time
}

// show takes in a moment, and draws it if it is time to.
func (v *mirrorView) show(m moment) {
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
	if m.at.Sub(v.line) >= lineEvery || said != v.said {
		v.measure(m)
		v.line, v.said = m.at, said
		_, _ = io.WriteString(v.w, v.short(m)+"\n")
	}
}

// measure takes the rate since what was drawn last.
func (v *mirrorView) measure(m moment) {
	before := v.last
	if before.at.IsZero() {
		before.at = v.began
	}
	if d := m.at.Sub(before.at).Seconds(); d > 0 && m.state.Requests >= before.state.Requests {
		v.rate = float64(m.state.Requests-before.state.Requests) / d
	}
	v.last = m
}

// Write lets other text through, such as the log's, above what is drawn.
func (v *mirrorView) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.terminal || v.last.at.IsZero() {
		return v.w.Write(b)
	}
	v.erase()
	n, err := v.w.Write(b)
	text := v.frame(v.last)
	v.drawn = strings.Count(text, "\n")
	_, _ = io.WriteString(v.w, text)
	return n, err
}

// close leaves the last frame where it is.
func (v *mirrorView) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.terminal = false
}

func (v *mirrorView) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.w, "\x1b[%dA\r\x1b[J", v.drawn)
		v.drawn = 0
	}
}

// frame is the picture, cut to the size of the terminal: a line that wraps, or
// that has left it at the top, could not be drawn over.
func (v *mirrorView) frame(m moment) string {
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

func (v *mirrorView) picture(m moment) string {
	var b strings.Builder
	s := m.state
	fmt.Fprintf(&b, "%s   %s\n", v.title, duration(m.at.Sub(v.began)))
	fmt.Fprintf(&b, "%s   primary %s   %s requests", perSecond(v.rate), quantiles(m.figures.Durations[s.Primary.Name]), figure.Thousands(s.Requests))
	if n := sum(s.Failed); n > 0 {
		fmt.Fprintf(&b, "   %s failed: %s", figure.Thousands(n), causes(s.Failed))
	}
	b.WriteByte('\n')
	var chosen []string
	switch {
	case s.Settings.Paused:
		chosen = append(chosen, "paused: nothing is copied")
	case s.Settings.Share < 1:
		chosen = append(chosen, fmt.Sprintf("copying %s of them", percent(s.Settings.Share)))
	}
	if n := sum(s.Skipped); n > 0 {
		chosen = append(chosen, fmt.Sprintf("%s not chosen: %s", figure.Thousands(n), causes(s.Skipped)))
	}
	if len(chosen) > 0 {
		b.WriteString(strings.Join(chosen, "   ") + "\n")
	}

	t := &table{}
	for i, h := range []string{"", "servers", "offered", "mirrored", "answered", "dropped", "failed", "unpaired", "queue", "buffered", "p50", "p99", "ratio"} {
		t.column(h, i > 1)
	}
	for _, x := range s.Shadows {
		a := account(x)
		h := m.figures.Durations[x.Name]
		t.rows = append(t.rows, []string{
			x.Name, inUse(x), figure.Thousands(a.Offered), figure.Thousands(a.Mirrored), figure.Thousands(a.Answered), figure.Thousands(sum(a.Dropped)), figure.Thousands(sum(a.Failed)), figure.Thousands(a.Unpaired),
			figure.Thousands(a.Queued), formatBytes(a.Buffered), quantile(h, 0.5), quantile(h, 0.99), ratioOf(m, x),
		})
	}
	var rows strings.Builder
	_ = t.write(&rows)
	first, _, _ := strings.Cut(rows.String(), "\n")
	if width, _ := v.size(); len(first) >= width {
		rows.Reset()
		_ = t.turned().write(&rows)
	}
	b.WriteString(rows.String())
	for _, x := range m.state.Shadows {
		if why := allCauses(account(x)); why != "" {
			fmt.Fprintf(&b, "  %s: %s\n", printable(x.Name), printable(why))
		}
	}
	for _, note := range notes(m) {
		b.WriteString("  " + printable(note) + "\n")
	}
	return b.String()
}

// turned has a row for every column, for where there is no room across.
func (t *table) turned() *table {
	out := &table{}
	out.column(t.header[0], false)
	for _, row := range t.rows {
		out.column(row[0], true)
	}
	for i, h := range t.header[1:] {
		line := []string{h}
		for _, row := range t.rows {
			line = append(line, row[i+1])
		}
		out.rows = append(out.rows, line)
	}
	return out
}

func perSecond(rate float64) string {
	if rate >= 100 {
		return figure.Rounded(rate) + " requests/s"
	}
	return digits(math.Round(rate*10)/10) + " requests/s"
}

// short is one line for a log.
func (v *mirrorView) short(m moment) string {
	s := m.state
	parts := []string{
		m.at.Format(time.TimeOnly), perSecond(v.rate),
		figure.Thousands(s.Requests) + " requests", "primary " + quantiles(m.figures.Durations[s.Primary.Name]),
	}
	if n := sum(s.Failed); n > 0 {
		parts = append(parts, "failed "+figure.Thousands(n))
	}
	for _, x := range s.Shadows {
		a := account(x)
		text := fmt.Sprintf("%s: offered %s, answered %s", x.Name, figure.Thousands(a.Offered), figure.Thousands(a.Answered))
		if n := sum(a.Dropped); n > 0 {
			text += fmt.Sprintf(", dropped %s (%s)", figure.Thousands(n), causes(a.Dropped))
		}
		if n := sum(a.Failed); n > 0 {
			text += fmt.Sprintf(", failed %s (%s)", figure.Thousands(n), causes(a.Failed))
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
	return printable(line)
}

// standing is what a change of makes a line worth writing at once.
func standing(m moment) string {
	words := []string{m.trouble, fmt.Sprint(m.state.Settings)}
	for _, x := range m.state.Shadows {
		a := account(x)
		words = append(words, fmt.Sprint(x.Using, x.Amplify, x.DivergedWhy, slices.Sorted(maps.Keys(a.Dropped)), slices.Sorted(maps.Keys(a.Failed))))
		for _, srv := range x.Servers {
			words = append(words, srv.Down)
		}
	}
	return strings.Join(words, "\n")
}

// notes are what a row of figures does not say.
func notes(m moment) []string {
	var out []string
	for _, x := range m.state.Shadows {
		for _, srv := range x.Servers {
			if srv.Down != "" {
				out = append(out, fmt.Sprintf("%s: %s is not reached: %s", x.Name, srv.URL, srv.Down))
			}
		}
		if d := float64(x.Diverged); d > 0 {
			text := fmt.Sprintf("%s: diverged since %s", x.Name, time.UnixMilli(int64(d*1e3)).In(m.at.Location()).Format(time.TimeOnly))
			if x.DivergedWhy != "" {
				text += ", " + x.DivergedWhy
			}
			out = append(out, text)
		}
	}
	if c := m.state.Clients; c != nil && c.Evicted+c.Refused > 0 {
		out = append(out, fmt.Sprintf("clients: at the bound of %s connections %s that asked nothing were closed, %s that came were not taken: raise --clients",
			figure.Thousands(uint64(c.Bound)), figure.Thousands(c.Evicted), figure.Thousands(c.Refused)))
	}
	if d := m.state.Differences; d != nil {
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
		if n := sum(d.Skipped); n > 0 {
			text += fmt.Sprintf(", %s not compared: %s", figure.Thousands(n), causes(d.Skipped))
		}
		out = append(out, text)
	}
	if r := m.state.Recording; r != nil {
		text := fmt.Sprintf("recording: %s requests, %s to %s", figure.Thousands(r.Requests), formatBytes(r.Bytes), r.Path)
		if r.Dropped > 0 {
			text += fmt.Sprintf(", %s left out as the disk was behind", figure.Thousands(r.Dropped))
		}
		if r.Error != "" {
			text += ": " + r.Error
		}
		out = append(out, text)
	}
	if m.trouble != "" {
		out = append(out, m.trouble)
	}
	return out
}

func allCauses(a api.MirrorAccount) string {
	var parts []string
	if len(a.Dropped) > 0 {
		parts = append(parts, "dropped: "+causes(a.Dropped))
	}
	if len(a.Failed) > 0 {
		parts = append(parts, "failed: "+causes(a.Failed))
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
		out += " ×" + digits(float64(x.Amplify))
	}
	return out
}

// ratioOf is the median of what a shadow took by what its reference did: the
// control, or the primary without one.
func ratioOf(m moment, x api.MirrorTarget) string {
	against := m.state.Primary.Name
	if x.Role != "control" {
		for _, c := range m.state.Shadows {
			if c.Role == "control" {
				against = c.Name
			}
		}
	}
	for _, r := range m.figures.Ratios {
		if r.Variant == x.Name && r.Against == against && r.Hist.Count > 0 {
			return digits(r.Hist.Quantile(0.5))
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
	return formatSeconds(h.Quantile(q))
}

func sum(by map[string]uint64) uint64 {
	var n uint64
	for _, v := range by {
		n += v
	}
	return n
}

// causes lists counts by word, the greatest first.
func causes(by map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			if by[a] > by[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, n := range names {
		if by[n] > 0 {
			parts = append(parts, strings.ReplaceAll(n, "_", " ")+" "+figure.Thousands(by[n]))
		}
	}
	return strings.Join(parts, ", ")
}

// duration writes 12m31s, 1h02m.
func duration(d time.Duration) string {
	s := int(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}
