package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/report"
)

func newQueryTraces(io streams) *cobra.Command {
	q := newQuestion(io, "table", "json", "csv")
	var low, high, why, sort string
	var limit int
	var text bool
	cmd := &cobra.Command{
		Use:   "traces [ID]",
		Short: "slow and failed requests; with an id, one of them span by span",
		Example: `  tailscope query traces --service shop --min 500ms
  tailscope query traces 5b8efff798038103d269b633813fc60c`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exactArgs(1, "the id of a trace, or none")(cmd, args)
			}
			return nil
		},
	}
	q.registerRequests(cmd, "1h")
	q.registerPicture(cmd.Flags())
	cmd.Flags().StringVar(&low, "min", "", "only requests that took at least this `time`")
	cmd.Flags().StringVar(&high, "max", "", "only requests that took at most this `time`")
	cmd.Flags().StringVar(&why, "why", "", "only those kept for these `reasons`: slow, failed, exemplar")
	cmd.Flags().StringVar(&sort, "sort", "", "slowest (default) or newest first")
	cmd.Flags().IntVar(&limit, "limit", 25, "how many requests")
	cmd.Flags().BoolVar(&text, "text", false, "with an id: print the statements under their spans")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return q.run(func(ctx context.Context) error {
			if len(args) == 1 {
				return oneTrace(ctx, io, q, args[0], text)
			}
			return listTraces(ctx, io, q, client.TracesQuery{Why: splitList(why), Sort: sort, Limit: limit}, low, high)
		})(cmd, args)
	}
	return cmd
}

func listTraces(ctx context.Context, io streams, q *question, ask client.TracesQuery, low, high string) (err error) {
	if ask.Selection, err = q.requests(); err != nil {
		return err
	}
	if ask.Min, err = optionalSeconds("--min", low); err != nil {
		return err
	}
	if ask.Max, err = optionalSeconds("--max", high); err != nil {
		return err
	}
	r, err := q.client().Traces(ctx, ask)
	if err != nil {
		return q.failed(err)
	}
	switch {
	case q.format == "json":
		return report.WriteJSON(io.out, r)
	case q.format == "csv":
		var rows [][]string
		for _, t := range r.Traces {
			rows = append(rows, []string{rawTime(t.Start), t.Service, t.Operation, t.Tenant, report.Raw(t.Duration), strconv.FormatBool(t.Failed), strings.Join(t.Why, " "), t.TraceID, t.SpanID})
		}
		return report.WriteCSV(io.out, []string{"start_unix_seconds", "service", "operation", "tenant", "duration_seconds", "failed", "why", "trace_id", "span_id"}, rows)
	case len(r.Traces) == 0:
		return q.nothing("no trace of such a request is kept")
	}
	t := &report.Table{}
	for _, h := range []string{"time", "service", "operation", "tenant"} {
		t.Column(h, false)
	}
	t.Column("duration", true)
	t.Column("", false)
	t.Column("why", false)
	t.Column("trace", false)
	for _, x := range r.Traces {
		failed := ""
		if x.Failed {
			failed = "failed"
		}
		t.Rows = append(t.Rows, []string{clock(x.Start, q), x.Service, x.Operation, x.Tenant, report.SecondsUnit.Value(x.Duration), failed, strings.Join(x.Why, ", "), x.TraceID})
	}
	return t.Write(io.out)
}

func clock(f api.Float, q *question) string {
	return time.UnixMilli(int64(math.Round(float64(f) * 1e3))).In(q.now().Location()).Format("Jan 02 15:04:05.000")
}

func oneTrace(ctx context.Context, io streams, q *question, id string, text bool) error {
	r, err := q.client().Trace(ctx, strings.ToLower(strings.TrimSpace(id)))
	if err != nil {
		var said *client.Error
		if errors.As(err, &said) && said.Code == "not_found" {
			return withHint(err, "tailscope query traces lists those that are kept")
		}
		return q.failed(err)
	}
	switch q.format {
	case "json":
		return report.WriteJSON(io.out, r)
	case "csv":
		return traceCSV(io.out, r)
	}
	return waterfall(io.out, r, q, text)
}

// A span is drawn dark where it is on the critical path, light elsewhere, and
// by a thin line while it waited in a queue.
const (
	onPath  = '█'
	offPath = '░'
	waited  = '·'
)

// minBar is the least room that the picture gets.
const minBar = 20

func waterfall(w io.Writer, r *api.TraceResponse, q *question, text bool) error {
	state := ""
	if !r.Complete {
		state = ", incomplete"
	}
	if r.LeftOut > 0 {
		state += fmt.Sprintf(", %d more left out", r.LeftOut)
	}
	fmt.Fprintf(w, "trace %s\n%s, %s, %d spans%s\n\n", r.TraceID, clock(r.Start, q), report.SecondsUnit.Value(r.Duration), len(r.Spans), state) //nolint:errcheck // the last write tells
	names := make([]string, len(r.Spans))
	longest := 0
	for i, s := range r.Spans {
		names[i] = spanName(r, i, s)
		longest = max(longest, utf8.RuneCountInString(names[i]))
	}
	const figures = 2 + 8 + 2 + 8 // two columns of times
	room := q.columns() - figures
	nameWidth := min(longest, max(room/2, room-60))
	width := max(room-nameWidth-2, minBar)
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  %-*s%10s%10s\n", nameWidth, "", width, "0 … "+report.SecondsUnit.Value(r.Duration), "took", "itself")
	for i, s := range r.Spans {
		mark := ""
		if s.Failed {
			mark = " failed"
		}
		if s.Async {
			mark += " async"
		}
		if s.Queue > 0 {
			mark += " after " + report.SecondsUnit.Value(s.Queue) + " in a queue"
		}
		if s.Orphan {
			mark += " orphan"
		}
		if s.Shifted != 0 {
			mark += " clock moved by " + report.SecondsUnit.Value(s.Shifted)
		}
		fmt.Fprintf(&b, "%s  %s%s%s%s\n", padRight(cut(names[i], nameWidth), nameWidth), spanBar(s, float64(r.Duration), width),
			report.Pad(report.SecondsUnit.Value(s.Duration), 10), report.Pad(report.SecondsUnit.Value(s.Self), 10), mark)
		if text && s.Text != "" {
			b.WriteString(strings.Repeat(" ", 2*s.Depth+4) + report.Printable(s.Text) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%c on the critical path  %c elsewhere  %c waited in a queue\n", onPath, offPath, waited)
	var parts []string
	for _, c := range r.Components {
		if c.Self > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", c.Component, report.SecondsUnit.Value(c.Self)))
		}
	}
	if len(parts) > 0 {
		b.WriteString("where the time went: " + strings.Join(parts, ", ") + "\n")
	}
	if r.Link != "" {
		b.WriteString(r.Link + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// spanName is the span's operation, indented, with its service where that
// differs from its parent's.
func spanName(r *api.TraceResponse, i int, s api.TraceSpan) string {
	name := strings.Repeat("  ", s.Depth) + s.Operation
	if s.Parent < 0 || s.Parent >= len(r.Spans) || s.Parent == i || r.Spans[s.Parent].Service != s.Service {
		name = strings.Repeat("  ", s.Depth) + s.Service + " " + s.Operation
	}
	if s.Component != "" && s.Component != "app" {
		name += " [" + s.Component + "]"
	}
	return report.Printable(name)
}

// spanBar draws the span within width characters of total seconds.
func spanBar(s api.TraceSpan, total float64, width int) string {
	cells := []rune(strings.Repeat(" ", width))
	fill := func(from, to float64, r rune) {
		if !(total > 0) || to < from {
			return
		}
		a := min(max(int(from/total*float64(width)), 0), width-1)
		z := min(int(math.Ceil(to/total*float64(width)-1e-9)), width)
		for i := a; i < max(z, a+1); i++ {
			cells[i] = r
		}
	}
	start, end := float64(s.Start), float64(s.Start+s.Duration)
	if q := float64(s.Queue); q > 0 {
		fill(start-q, start, waited)
	}
	fill(start, end, offPath)
	for i := 0; i+1 < len(s.Path); i += 2 {
		fill(float64(s.Path[i]), float64(s.Path[i+1]), onPath)
	}
	return string(cells)
}

func padRight(s string, n int) string {
	return s + strings.Repeat(" ", max(n-utf8.RuneCountInString(s), 0))
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

func traceCSV(w io.Writer, r *api.TraceResponse) error {
	header := []string{"span_id", "parent_span_id", "service", "operation", "component", "kind", "tenant", "instance", "failed",
		"start_seconds", "duration_seconds", "self_seconds", "critical_seconds", "text"}
	var rows [][]string
	for _, s := range r.Spans {
		parent := ""
		if s.Parent >= 0 && s.Parent < len(r.Spans) {
			parent = r.Spans[s.Parent].SpanID
		}
		rows = append(rows, []string{s.SpanID, parent, s.Service, s.Operation, s.Component, s.Kind, s.Tenant, s.Instance, strconv.FormatBool(s.Failed),
			report.Raw(s.Start), report.Raw(s.Duration), report.Raw(s.Self), report.Raw(s.Critical), s.Text})
	}
	return report.WriteCSV(w, header, rows)
}
