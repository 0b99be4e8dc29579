package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/report"
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
	set                                                        *settings
	a, b, mark, label, settle, window, level, within, measures string
	like, zone, per, watchFor, every                           string
	limit, days                                                int
	curve, live, watch                                         bool

	ends time.Time // of side B, if it is a window
}

func newCompare(io streams) *cobra.Command {
	f := compareFlags{question: newQuestion(io, "text", "json", "markdown"), set: &settings{}}
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "two sides in, a verdict out; the exit code says which",
		Long: `Compare judges what changed between two sides: two windows, the same hours of
earlier days, what lies before and after a mark, or two values of a label.

The exit code is 0 if nothing became worse, 1 if something did, 2 if there is
too little data to say, and 3 for errors.

With --watch it looks again until there is a verdict: a regression, an
improvement, mixed, changed, or the same. Its intervals hold at every look, so that
looking often raises no false alarm; they are wider for it.`,
		Example: `  tailscope compare --service shop --mark 5f1c0de5f1c0de11
  tailscope compare --service shop --a now-2h..now-1h --b now-1h..now
  tailscope compare --service shop --label version --a 1.0 --b 1.1 --since 1h
  tailscope compare --service shop --b now-1h..now --days 4 --set like=weekday --set tz=Europe/Berlin
  tailscope compare --service shop --mark 5f1c0de5f1c0de11 --watch --for 30m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs(0, "")(cmd, args); err != nil {
				return ended{err, exitNoAnswer}
			}
			return nil
		},
	}
	f.called = f.set.called
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.serverFlag.register(fs)
	fs.StringVar(&f.family, "family", "", "what is measured, such as span_self_seconds, process_cpu_time_seconds_total or go_memory_used_bytes; default "+report.SpanFamily)
	fs.StringVar(&f.per, "per", "", "`request`: figures of a counter for each request of the service")
	f.registerNames(fs, "only this service")
	fs.StringVar(&f.match, "match", "", "further PromQL matchers, such as '{version=\"1.4\"}'")
	f.registerRange(fs, "1h")
	f.registerFormat(fs)
	fs.IntVar(&f.width, "width", 0, "characters across, of --curve; default those of the terminal")
	fs.StringVar(&f.a, "a", "", "side A: `START..END`, or a value of --label")
	fs.StringVar(&f.b, "b", "", "side B, in the same manner")
	fs.StringVar(&f.mark, "mark", "", "`id` of a mark, as tailscope mark list shows it: compares before and after")
	fs.IntVar(&f.days, "days", 0, "compare --b with the same hours of so many earlier days, instead of --a")
	fs.StringVar(&f.like, "like", "", "which `days`: day, weekday (of the weeks before) or workday; default weekday")
	fs.StringVar(&f.zone, "tz", "", "time `zone` whose clocks say what the same hour is, such as Europe/Berlin; default UTC")
	fs.StringVar(&f.label, "label", "", "`label` of which --a and --b are values: version, variant, instance, tenant; over --since")
	fs.StringVar(&f.settle, "settle", "", "`time` to leave out after a mark; default a slot")
	fs.StringVar(&f.window, "window", "", "how `long` each side of a mark is; default 1h")
	fs.StringVar(&f.level, "level", "", "`confidence` of the intervals; default 95%")
	fs.StringVar(&f.within, "within", "", "relative `change` that is still the same; default 5%")
	fs.StringVar(&f.measures, "measures", "", "judge only these, such as `p50,p99`: p50, p75, p90, p95, p99, p99.9, mean, errors, apdex; of a metric also rate, per_request")
	fs.BoolVar(&f.curve, "curve", false, "draw the ratio at every quantile, with its band")
	fs.BoolVar(&f.live, "live", false, "intervals that hold however often you look while data comes in")
	fs.BoolVar(&f.watch, "watch", false, "look again and again, as live does, until there is a verdict or --for has passed")
	fs.StringVar(&f.watchFor, "for", "", "how `long` to watch; default 30m")
	fs.StringVar(&f.every, "every", "", "how `often` to look while watching; default 10s")
	fs.IntVar(&f.limit, "limit", 10, "how many operations and tenants to list")
	f.set.register(cmd, fs, "level=99%", "server", "service", "operation", "tenant", "match", "since", "a", "b", "mark", "label", "days", "family", "measures",
		"within", "format", "curve", "watch", "for", "limit")
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
		return ended{flagError(cmd, err), exitNoAnswer}
	})
	return cmd
}

func (f *compareFlags) compare(ctx context.Context) error {
	q, err := f.query()
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.CompareResponse, error) { return f.client().Compare(ctx, q) }
	var r *api.CompareResponse
	if f.watch {
		r, err = f.watched(ctx, ask)
	} else {
		r, err = ask(ctx)
	}
	if err != nil {
		return f.failed(err)
	}
	if err := f.answer(report.NewComparison(r, f.now().Location(), f.columns()).Document()); err != nil {
		return err
	}
	switch r.Verdict {
	case judge.Regression, judge.Mixed:
		return ended{errSilent, exitRegression}
	case judge.TooLittle:
		return ended{errSilent, exitTooLittle}
	}
	return nil
}

func (f *compareFlags) query() (api.CompareRequest, error) {
	q := api.CompareRequest{A: f.a, B: f.b, Mark: f.mark, Label: f.label, Measures: splitList(f.measures), Limit: f.limit,
		Days: f.days, Like: f.like, Zone: f.zone, Per: f.per, Live: f.live || f.watch}
	q.Family = f.family
	if f.curve {
		q.Include = []string{"curve"}
	}
	if ms := f.matchers(); len(ms) > 0 {
		q.Match = matchText(ms)
	}
	if !f.watch && (f.watchFor != "" || f.every != "") {
		return q, errors.New("--for and --set every belong to --watch")
	}
	if f.days < 0 {
		return q, fmt.Errorf("--days %d: write 1 or more", f.days)
	}
	if f.limit < 1 {
		return q, fmt.Errorf("--limit %d: write 1 or more", f.limit)
	}
	var err error
	switch {
	case f.mark != "":
		if f.a != "" || f.b != "" || f.label != "" || f.earlier() {
			return q, errors.New("--mark says what the sides are: leave --a, --b, --label, --days and --set like out")
		}
	case f.earlier():
		if f.a != "" || f.label != "" || f.b == "" {
			return q, errors.New("--days and --set like compare with earlier days: write --b START..END, and leave --a and --label out")
		}
		if q.B, err = f.parseSide("b", f.b); err != nil {
			return q, err
		}
	case f.a == "" || f.b == "":
		return q, withHint(errors.New("a comparison has two sides"), "write --mark ID, or --a START..END --b START..END, or --label version --a 1.0 --b 1.1")
	case f.label != "":
		if q.Start, q.End, err = f.timeRange(); err != nil {
			return q, err
		}
		if f.watch && f.start == "" { // the beginning stays where it is
			start, err := parseMoment(string(q.Start), f.now())
			if err != nil {
				return q, fmt.Errorf("--since %w", err)
			}
			q.Start = unix(start.Unix())
		}
	default:
		if q.A, err = f.parseSide("a", f.a); err != nil {
			return q, err
		}
		if q.B, err = f.parseSide("b", f.b); err != nil {
			return q, err
		}
	}
	if f.watch && f.mark == "" && f.label == "" && !f.ends.After(f.now()) {
		return q, errors.New("side B has ended, there is nothing to watch: leave --watch out, or write a later end")
	}
	if f.settle != "" {
		settle, err := durationOrZero(f.called("settle"), f.settle)
		if err != nil {
			return q, err
		}
		q.Settle = &settle
	}
	if q.Window, err = optionalDuration(f.called("window"), f.window); err != nil {
		return q, err
	}
	if f.level != "" {
		if q.Level, err = parseShare(f.level, "95%"); err != nil {
			return q, fmt.Errorf("--set level %w", err)
		}
	}
	if f.within != "" {
		if q.Within, err = parseShare(f.within, "5%"); err != nil {
			return q, fmt.Errorf("--within %w", err)
		}
	}
	return q, nil
}

// earlier says that side A is of earlier days.
func (f *compareFlags) earlier() bool { return f.days != 0 || f.like != "" }

// parseSide reads START..END.
func (f *compareFlags) parseSide(name, text string) (string, error) {
	start, end, ok := strings.Cut(text, "..")
	if !ok {
		return "", withHint(fmt.Errorf("--%s %q is not a window: write START..END, such as now-2h..now-1h", name, text), "values of a label need --label")
	}
	var at [2]string
	for i, s := range []string{start, end} {
		t, err := parseMoment(strings.TrimSpace(s), f.now())
		if err != nil {
			return "", fmt.Errorf("--%s %w", name, err)
		}
		f.ends = t
		at[i] = strconv.FormatFloat(float64(t.UnixMilli())/1e3, 'f', -1, 64)
	}
	return at[0] + "/" + at[1], nil
}
