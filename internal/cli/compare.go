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

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
)

// Exit codes of tailscope compare, for pipelines. Errors of any kind are 3, so
// that a pipeline never takes one for a verdict.
const (
	exitRegression = 1
	exitTooLittle  = 2
	exitNoAnswer   = 3
)

// ended is a command that ends with a code of its own; err, if any, is shown.
type ended struct {
	error
	code int
}

func (e ended) Unwrap() error { return e.error }

// errSilent is an end of which everything has been said.
var errSilent = errors.New("")

type compareFlags struct {
	*question
	a, b, mark, label, settle, window, level, within, measures string
	limit                                                      int
}

func newCompare(io streams) *cobra.Command {
	f := compareFlags{question: newQuestion(io, "text", "json", "markdown")}
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "two sides in, a verdict out; the exit code says which",
		Long: `Compare judges what changed between two sides: two windows, what lies before
and after a mark, or two values of a label.

The exit code is 0 if nothing became worse, 1 if something did, 2 if there is
too little data to say, and 3 for errors.`,
		Example: `  tailscope compare --service shop --mark 5f1c0de5f1c0de11
  tailscope compare --service shop --a now-2h..now-1h --b now-1h..now
  tailscope compare --service shop --label version --a 1.0 --b 1.1 --since 1h`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(0, "")(cmd, args); err != nil {
				return ended{err, exitNoAnswer}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	f.serverFlag.register(fs)
	fs.StringVar(&f.family, "family", "", "what is measured: "+spanFamily+" unless said otherwise, or span_self_seconds")
	fs.StringVar(&f.service, "service", "", "only this service")
	fs.StringVar(&f.operation, "operation", "", "only this operation, such as 'GET /cart/{id}'")
	fs.StringVar(&f.tenant, "tenant", "", "only this tenant")
	fs.StringVar(&f.match, "match", "", "further PromQL matchers, such as '{version=\"1.4\"}'")
	f.registerRange(fs, "1h")
	f.registerFormat(fs)
	fs.StringVar(&f.a, "a", "", "side A: `START..END`, or a value of --label")
	fs.StringVar(&f.b, "b", "", "side B, in the same manner")
	fs.StringVar(&f.mark, "mark", "", "`id` of a mark, as tailscope mark list shows it: compares before and after")
	fs.StringVar(&f.label, "label", "", "`label` of which --a and --b are values: version, variant, instance, tenant; over --since")
	fs.StringVar(&f.settle, "settle", "", "`time` to leave out after a mark; a slot unless given")
	fs.StringVar(&f.window, "window", "", "how `long` each side of a mark is; 1h unless given")
	fs.StringVar(&f.level, "level", "", "`confidence` of the intervals; 95% unless given")
	fs.StringVar(&f.within, "within", "", "relative `change` that is still the same; 5% unless given")
	fs.StringVar(&f.measures, "measures", "", "judge only these, such as `p50,p99`: p50, p75, p90, p95, p99, p99.9, mean, errors, apdex")
	fs.IntVar(&f.limit, "limit", 10, "how many operations and tenants to list")
	ask := f.run(func(ctx context.Context) error { return f.compare(ctx) })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := ask(cmd, args)
		var e ended
		if err == nil || errors.As(err, &e) {
			return err
		}
		return ended{err, exitNoAnswer}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return ended{withHint(err, "%s --help lists the flags", cmd.CommandPath()), exitNoAnswer}
	})
	return cmd
}

func (f *compareFlags) compare(ctx context.Context) error {
	q, err := f.query()
	if err != nil {
		return err
	}
	r, err := f.client().Compare(ctx, q)
	if err != nil {
		return f.failed(err)
	}
	switch f.format {
	case "json":
		err = writeJSON(f.streams.out, r)
	default:
		err = newCompareDocument(r, f.now().Location()).write(f.streams.out, f.format == "markdown")
	}
	if err != nil {
		return err
	}
	switch r.Verdict {
	case "regression", "mixed":
		return ended{errSilent, exitRegression}
	case "too little data":
		return ended{errSilent, exitTooLittle}
	}
	return nil
}

func (f *compareFlags) query() (client.CompareQuery, error) {
	q := client.CompareQuery{A: f.a, B: f.b, Mark: f.mark, Label: f.label, Settle: f.settle, Window: f.window, Measures: splitList(f.measures), Limit: f.limit}
	q.Family = f.family
	if ms := f.matchers(); len(ms) > 0 {
		q.Match = matchText(ms)
	}
	if f.limit < 1 {
		return q, fmt.Errorf("--limit %d: write 1 or more", f.limit)
	}
	var err error
	switch {
	case f.mark != "":
		if f.a != "" || f.b != "" || f.label != "" {
			return q, errors.New("--mark says what the sides are: leave --a, --b and --label out")
		}
	case f.a == "" || f.b == "":
		return q, withHint(errors.New("a comparison has two sides"), "write --mark ID, or --a START..END --b START..END, or --label version --a 1.0 --b 1.1")
	case f.label != "":
		if q.Start, q.End, err = f.timeRange(); err != nil {
			return q, err
		}
	default:
		if q.A, err = f.parseSide("a", f.a); err != nil {
			return q, err
		}
		if q.B, err = f.parseSide("b", f.b); err != nil {
			return q, err
		}
	}
	if f.level != "" {
		if q.Level, err = parseShare(f.level); err != nil {
			return q, fmt.Errorf("--level %w", err)
		}
	}
	if f.within != "" {
		if q.Within, err = parseShare(f.within); err != nil {
			return q, fmt.Errorf("--within %w", err)
		}
	}
	return q, nil
}

// parseSide reads START..END.
func (f *compareFlags) parseSide(name, text string) (string, error) {
	start, end, ok := strings.Cut(text, "..")
	if !ok {
		return "", withHint(fmt.Errorf("--%s %q is no window: write START..END, such as now-2h..now-1h", name, text), "values of a label need --label")
	}
	var at [2]string
	for i, s := range []string{start, end} {
		t, err := parseMoment(strings.TrimSpace(s), f.now())
		if err != nil {
			return "", fmt.Errorf("--%s %w", name, err)
		}
		at[i] = strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', -1, 64)
	}
	return at[0] + "/" + at[1], nil
}

// compareDocument is a comparison as people read it.
type compareDocument struct {
	r    *api.CompareResponse
	zone *time.Location
	unit unit
}

func newCompareDocument(r *api.CompareResponse, zone *time.Location) *compareDocument {
	return &compareDocument{r, zone, unitOf(r.Family)}
}

func (d *compareDocument) write(w io.Writer, markdown bool) error {
	r := d.r
	out := &document{w: w, markdown: markdown}
	out.heading(r.Sentence)
	out.line("Verdict: " + r.Verdict)
	out.gap()
	for _, s := range []struct {
		letter string
		side   api.CompareSide
	}{{"A", r.A}, {"B", r.B}} {
		name := ""
		if s.side.Name != s.letter {
			name = " " + s.side.Name + ","
		}
		out.item(fmt.Sprintf("%s:%s %s to %s, %s requests, %s, %s failed", s.letter, name, d.clock(s.side.Start), d.clock(s.side.End),
			count(s.side.Requests), perTime(s.side.Rate), count(s.side.Errors)))
	}
	how := "slot by slot"
	if !r.Paired {
		how = "as windows that differ in time"
	}
	out.item(fmt.Sprintf("slots of %s, compared %s; intervals of %s", formatSeconds(float64(r.Slot)), how, trimPercent(r.Level)))
	out.gap()
	t := &table{}
	t.column("", false)
	for _, h := range []string{"A", "B", "raw", "like for like", "interval", "bucket"} {
		t.column(h, true)
	}
	t.column("verdict", false)
	for i := range r.Measures {
		t.rows = append(t.rows, d.measure(&r.Measures[i]))
	}
	out.table(t)
	for _, list := range []struct {
		name string
		rows []api.CompareRow
	}{{"operation", r.Operations}, {"tenant", r.Tenants}} {
		if len(list.rows) > 1 || len(list.rows) == 1 && list.name == "tenant" {
			out.gap()
			out.table(d.list(list.name, list.rows))
		}
	}
	if len(r.Warnings) > 0 {
		out.gap()
	}
	for _, x := range r.Warnings {
		out.item("warning: " + x.Text)
	}
	return out.err
}

func (d *compareDocument) clock(t int64) string {
	return time.Unix(t, 0).In(d.zone).Format("2006-01-02 15:04:05")
}

// measure is a line of the table: A, B and the interval are like for like.
func (d *compareDocument) measure(m *api.CompareMeasure) []string {
	f, like := &m.Raw, "-"
	if m.Like != nil {
		f, like = m.Like, d.effect(m, m.Like.Effect)
	}
	value := func(v api.Float) string {
		switch m.Name {
		case "errors":
			return percent(v)
		case "apdex":
			return ratio(v)
		}
		return d.unit.value(v)
	}
	bucket := ""
	if f.Error > 0 {
		bucket = "±" + percent(f.Error)
	}
	verdict := m.Verdict
	switch {
	case verdict == "same":
		verdict += " within " + d.margin(m)
	case verdict == "too little data" && f.Short != "":
		verdict += ": " + f.Short
	}
	if more := float64(f.Needed); more > 1 && (m.Verdict == "no evidence" || m.Verdict == "too little data") {
		verdict += "; needs about " + formatSeconds(math.Ceil(float64(f.NeededSeconds))) + " a side"
	}
	return []string{m.Name, value(f.A), value(f.B), d.effect(m, m.Raw.Effect), like, d.interval(m, f), bucket, verdict}
}

func (d *compareDocument) margin(m *api.CompareMeasure) string {
	switch m.Name {
	case "errors":
		return "0.1 points"
	case "apdex":
		return "0.01"
	}
	return trimPercent(d.r.Within)
}

func (d *compareDocument) effect(m *api.CompareMeasure, f api.Float) string {
	v := float64(f)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case m.Scale == "ratio":
		return change(f)
	case m.Name == "errors":
		return signed(100*v, 2) + "pt"
	}
	return signed(v, 3)
}

func (d *compareDocument) interval(m *api.CompareMeasure, f *api.CompareFigure) string {
	low, high := d.effect(m, f.Low), d.effect(m, f.High)
	if low == "-" && high == "-" {
		return "-"
	}
	open := func(s string) string {
		if s == "-" {
			return "?"
		}
		return s
	}
	return open(low) + " … " + open(high)
}

func (d *compareDocument) list(name string, rows []api.CompareRow) *table {
	t := &table{}
	t.column(name, false)
	t.column("requests A", true)
	t.column("B", true)
	for _, m := range rows[0].Measures {
		t.column(m.Name, true)
		t.column("interval", true)
	}
	t.column("", false)
	for _, r := range rows {
		title := r.Operation
		if name == "tenant" {
			title = r.Tenant
		}
		row := []string{orNone(title), count(r.RequestsA), count(r.RequestsB)}
		for i := range r.Measures {
			m := &r.Measures[i]
			row = append(row, d.effect(m, m.Raw.Effect), d.interval(m, &m.Raw))
		}
		t.rows = append(t.rows, append(row, rowVerdict(r)))
	}
	return t
}

// rowVerdict is what remains of a row once all rows are thought of.
func rowVerdict(r api.CompareRow) string {
	var words []string
	for _, m := range r.Measures {
		if m.Change != "" && m.Adjusted <= 0.05 {
			words = append(words, m.Name+" "+m.Verdict)
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// document writes the same lines and tables as plain text or as Markdown.
type document struct {
	w        io.Writer
	markdown bool
	err      error
}

func (d *document) print(s string) {
	if d.err == nil {
		_, d.err = io.WriteString(d.w, s)
	}
}

func (d *document) gap() { d.print("\n") }

func (d *document) line(s string) {
	if d.markdown {
		s = markdownCell.Replace(s)
	}
	d.print(printable(s) + "\n")
}

func (d *document) heading(s string) {
	if d.markdown {
		d.print("## " + printable(markdownCell.Replace(s)) + "\n\n")
		return
	}
	d.line(s)
}

func (d *document) item(s string) {
	if d.markdown {
		d.print("- ")
	}
	d.line(s)
}

func (d *document) table(t *table) {
	if d.err != nil {
		return
	}
	if !d.markdown {
		d.err = t.write(d.w)
		return
	}
	row := func(cells []string) {
		for _, c := range cells {
			d.print("| " + printable(markdownCell.Replace(c)) + " ")
		}
		d.print("|\n")
	}
	row(t.header)
	for _, right := range t.right {
		if right {
			d.print("| ---: ")
		} else {
			d.print("| --- ")
		}
	}
	d.print("|\n")
	for _, r := range t.rows {
		row(r)
	}
}
