package liveview

import (
	"cmp"
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
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/figure"
	"tailscope/internal/report"
)

// benchView shows a run of load while it goes: a picture that is drawn over on a
// terminal, a line every few seconds elsewhere.
type benchView struct {
	terminal, quiet bool
	colors          bool
	size            func() (width, height int)
	title           string
	now             func() time.Time

	mu    sync.Mutex
	w     io.Writer
	drawn int
	line  time.Time
	last  *session.Moment
}

// The interval of lines without a terminal.
const benchLineEvery = 5 * time.Second

func NewBench(w io.Writer, title string, quiet bool, now func() time.Time) *benchView {
	v := &benchView{w: w, title: title, quiet: quiet, now: now, size: func() (int, int) { return sizeOf(w) }}
	v.terminal = IsTerminal(w) && os.Getenv("TERM") != "dumb"
	v.colors = v.terminal && os.Getenv("NO_COLOR") == ""
	return v
}

// Show draws a moment, or writes its line if it is time for one.
func (v *benchView) Show(m session.Moment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		return
	}
	v.last = &m
	if v.terminal {
		v.draw()
		return
	}
	if t := v.now(); m.Ended || t.Sub(v.line) >= benchLineEvery-benchLineEvery/10 {
		v.line = t
		fmt.Fprintln(v.w, report.Printable(benchLine(m)))
	}
}

// Note writes a line that stays, above the picture.
func (v *benchView) Note(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.quiet {
		return
	}
	v.erase()
	fmt.Fprintln(v.w, report.Printable(line))
	if v.last != nil && v.terminal {
		v.draw()
	}
}

// Close takes the picture away: the report says how it ended.
func (v *benchView) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.quiet = true
}

func (v *benchView) erase() {
	if v.drawn > 0 {
		_, _ = fmt.Fprintf(v.w, "\x1b[%dA\r\x1b[J", v.drawn)
		v.drawn = 0
	}
}

func (v *benchView) draw() {
	width, height := v.size()
	var b strings.Builder
	n := 0
	for line := range strings.Lines(v.picture(*v.last, width)) {
		if n++; n >= height {
			break
		}
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width-1 {
			line = string([]rune(line)[:max(0, width-2)]) + "…"
		}
		b.WriteString(v.paint(line) + "\n")
	}
	text := b.String()
	v.erase()
	v.drawn = strings.Count(text, "\n")
	_, _ = io.WriteString(v.w, text)
}

// paint colors a line by how it begins; cutting has been done.
func (v *benchView) paint(line string) string {
	if !v.colors {
		return line
	}
	switch {
	case strings.HasPrefix(line, "  errors"), strings.HasPrefix(line, "  ! "):
		return "\x1b[31m" + line + "\x1b[0m"
	case strings.HasPrefix(line, "  waiting"):
		return "\x1b[33m" + line + "\x1b[0m"
	case !strings.HasPrefix(line, " "):
		return "\x1b[1m" + line + "\x1b[0m"
	}
	return line
}

// benchLine returns a moment in one line.
func benchLine(m session.Moment) string {
	if m.Elapsed < 0 {
		return "warming up, " + report.Duration(-m.Elapsed) + " left"
	}
	parts := []string{report.Duration(m.Elapsed), rateText(m), "p50 " + quantile(m.Live.Latency, 0.5) + " p99 " + quantile(m.Live.Latency, 0.99) + " max " + quantile(m.Live.Latency, 1)}
	if w := waiting(m); w > 0 {
		parts = append(parts, "waiting "+figure.Thousands(w))
	}
	if e := benchErrors(&m.Result.Account); e != "" {
		parts = append(parts, "errors "+e)
	}
	if m.Left > 0 {
		parts = append(parts, report.Duration(m.Left.Round(time.Second))+" left")
	}
	if m.Trouble != "" {
		parts = append(parts, m.Trouble)
	}
	return strings.Join(parts, "  ")
}

func rateText(m session.Moment) string {
	text := report.PerTime(api.Float(m.Live.Rate))
	if !math.IsNaN(m.Asked) {
		text += " of " + report.PerTime(api.Float(m.Asked))
	}
	return text
}

// waiting returns how many requests are due and wait for a connection.
func waiting(m session.Moment) uint64 {
	return m.Behind - min(m.Behind, uint64(m.Result.Plan.Connections))
}

// benchErrors says how many requests failed, and of what.
func benchErrors(a *api.BenchAccount) string {
	if a.Errors == 0 {
		return ""
	}
	by := map[string]uint64{}
	for cause, n := range a.Failed {
		by[cause] = n
	}
	for status, n := range a.Statuses {
		if status >= "400" {
			by["status "+status] = n
		}
	}
	for check, n := range a.Checks {
		by[check] = n
	}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) }) {
		parts = append(parts, figure.Thousands(by[name])+" × "+name)
	}
	return figure.Thousands(a.Errors) + ": " + strings.Join(parts, ", ")
}

const benchBar = 30

func (v *benchView) picture(m session.Moment, width int) string {
	var b strings.Builder
	r := m.Result
	fmt.Fprintf(&b, "%s   %s\n", report.Printable(v.title), report.Printable(report.PlanText(r)))
	if m.Elapsed < 0 {
		fmt.Fprintf(&b, "  warming up, %s left; nothing is measured yet\n", report.Duration(-m.Elapsed+time.Second))
		return b.String()
	}
	share := math.NaN()
	if m.Left >= 0 {
		share = m.Elapsed.Seconds() / (m.Elapsed + m.Left).Seconds()
	}
	if !math.IsNaN(share) {
		full := report.Bar(api.Float(share), benchBar)
		fmt.Fprintf(&b, "  %s%s %3.0f %%   %s   %s left", full, strings.Repeat("░", max(0, benchBar-utf8.RuneCountInString(full))), 100*share, report.Duration(m.Elapsed), report.Duration(m.Left.Round(time.Second)))
	} else {
		fmt.Fprintf(&b, "  %s", report.Duration(m.Elapsed))
	}
	if len(r.Phases) > 1 && m.Phase < len(r.Phases) {
		fmt.Fprintf(&b, "   phase %s, %d of %d", report.Printable(r.Phases[m.Phase].Name), m.Phase+1, len(r.Phases))
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "  %-22s %s answered of %s sent\n", rateText(m), figure.Thousands(r.Account.Answered), figure.Thousands(r.Account.Sent))
	fmt.Fprintf(&b, "  last %-3s p50 %-8s p90 %-8s p99 %-8s max %s", fmt.Sprintf("%.0fs", m.Live.Seconds),
		quantile(m.Live.Latency, 0.5), quantile(m.Live.Latency, 0.9), quantile(m.Live.Latency, 0.99), quantile(m.Live.Latency, 1))
	if r.Plan.Arrivals != "closed" {
		fmt.Fprintf(&b, "   from sent: p99 %s", quantile(m.Live.Service, 0.99))
	}
	b.WriteByte('\n')
	fmt.Fprintf(&b, "  all      p50 %-8s p90 %-8s p99 %-8s max %s", report.At(r.Latency, "0.5"), report.At(r.Latency, "0.9"), report.At(r.Latency, "0.99"), report.SecondsUnit.Value(r.Latency.Max))
	if r.Plan.Arrivals != "closed" {
		fmt.Fprintf(&b, "   from sent: p99 %s", report.At(r.Uncorrected, "0.99"))
	}
	b.WriteByte('\n')
	if line := sparks(m.Live.Recent, min(60, width-30)); line != "" {
		fmt.Fprintf(&b, "  p99 by the second  %s\n", line)
	}
	if w := waiting(m); w > 0 {
		fmt.Fprintf(&b, "  waiting for a connection: %s\n", figure.Thousands(w))
	}
	if e := benchErrors(&r.Account); e != "" {
		fmt.Fprintf(&b, "  errors %s\n", report.Printable(e))
	}
	if late := float64(m.Live.Late.Quantile(0.99)); m.Live.Late.Count > 0 && late > 1e-3 {
		fmt.Fprintf(&b, "  ! the generator is late: p99 %s\n", figure.Seconds(late))
	}
	if r.Account.Dropped > 0 {
		fmt.Fprintf(&b, "  ! dropped: %s\n", figure.Thousands(r.Account.Dropped))
	}
	for _, t := range r.Thresholds {
		mark := "✓"
		if !t.Met {
			mark = "✗"
		}
		fmt.Fprintf(&b, "  %s %s   now %s\n", mark, report.Printable(t.Text), report.ThresholdValue(t))
	}
	if m.Trouble != "" {
		fmt.Fprintf(&b, "  ! %s\n", report.Printable(m.Trouble))
	}
	return b.String()
}

var sparkBlocks = []rune("▁▂▃▄▅▆▇█")

// sparks draws the p99 of seconds on a logarithmic scale, from the least to the
// greatest of them.
func sparks(slots []api.BenchSlot, most int) string {
	if most < 8 || len(slots) < 3 {
		return ""
	}
	if len(slots) > most {
		slots = slots[len(slots)-most:]
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range slots {
		if v := float64(s.P99); v > 0 {
			low, high = min(low, math.Log(v)), max(high, math.Log(v))
		}
	}
	if math.IsInf(low, 0) {
		return ""
	}
	var b strings.Builder
	for _, s := range slots {
		v := float64(s.P99)
		if !(v > 0) {
			b.WriteByte(' ')
			continue
		}
		i := 0
		if spread := max(high-low, math.Log(2)); spread > 0 {
			i = int((math.Log(v) - low) / spread * float64(len(sparkBlocks)-1))
		}
		b.WriteRune(sparkBlocks[min(max(i, 0), len(sparkBlocks)-1)])
	}
	return b.String() + "  " + figure.Seconds(math.Exp(low)) + "…" + figure.Seconds(math.Exp(high))
}
