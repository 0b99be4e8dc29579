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
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query"
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

// errSilent ends a command that has printed everything already.
var errSilent = errors.New("")

type compareFlags struct {
	*question
	set     *settings
	wanted  api.CompareRequest
	curve   bool
	watch   bool
	watched watchFlags

	ends time.Time // of side B, if it is a window
}

func newCompare(io streams) *cobra.Command {
	f := compareFlags{question: newQuestion(io, "text", "json", "markdown"), set: &settings{}, wanted: api.CompareRequest{Limit: 10}}
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "two sides in, a verdict out; the exit code says which",
		Long: `Compare judges what changed between two sides: two windows, several nights or
other windows that repeat, the same hours of earlier days, what lies before and
after a mark, or two values of a label.

The exit code is 0 if nothing became worse (drifts included: the sides differ, as what
is measured may do by itself), 1 if something did, 2 if there is too
little data to say, and 3 for errors.

With --watch it looks again until there is a verdict: a regression, an
improvement, mixed, changed, or the same. Its intervals hold at every look, so that
looking often raises no false alarm; they are wider for it. A change that begins up to
15 minutes after a mark may be a late effect of it: where there is a verdict before, the
watch ends, says until when that is, and asking again then has it in its exit code.`,
		Example: `  tailscope compare --service shop --mark 5f1c0de5f1c0de11
  tailscope compare --service shop --a now-2h..now-1h --b now-1h..now
  tailscope compare --service shop --a 'daily 22:00-06:00 last 5 before now-7d' --b 'daily 22:00-06:00 last 5'
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
	bind(fs, &f.wanted, "family", "per", "a", "b", "mark", "days", "like", "tz", "label", "settle", "window", "level", "within", "allow", "measures", "live", "limit")
	bind(fs, &f.watched, "for", "every")
	f.registerNames(fs, "only this service")
	f.registerPlaces(fs)
	bind(fs, &f.Selection, "match")
	f.registerRange(fs, "1h")
	f.registerFormat(fs)
	fs.IntVar(&f.width, "width", 0, "characters across, of --curve; default those of the terminal")
	fs.BoolVar(&f.curve, "curve", false, "draw the ratio at every quantile, with its band")
	fs.BoolVar(&f.watch, "watch", false, "look again and again, as live does, until there is a verdict or --for has passed")
	f.set.register(cmd, fs, "level=99%", "server", "service", "operation", "tenant", "environment", "match", "since", "a", "b", "mark", "label", "days", "family", "measures",
		"within", "format", "curve", "watch", "for", "limit")
	ask := f.run(func(ctx context.Context, _ []string) error { return f.compare(ctx) })
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
		r, err = f.watchUntil(ctx, ask)
	} else {
		r, err = ask(ctx)
	}
	if err != nil {
		return err
	}
	if err := f.answer(report.NewComparison(r, f.now().Location(), f.columns()).Document()); err != nil {
		return err
	}
	if q.Days > 0 && q.Like == "" && r.Verdict == judge.TooLittle && r.A.Requests == 0 {
		fmt.Fprintf(f.streams.err, "hint: earlier days are those of the same weekday: side A is %d of them; --set like=day takes the days before, --set like=workday those from Monday to Friday\n", q.Days)
	}
	if m := r.Mark; f.watch && m != nil && r.Then == nil {
		if until := m.Time.Time().Add(marks.LateWithin * time.Second); f.now().Before(until) {
			fmt.Fprintf(f.streams.err, "hint: a change that begins by %s may be a late effect of the mark: tailscope mark show %s says so some five minutes later\n",
				until.In(f.now().Location()).Format(time.TimeOnly), m.ID)
		}
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
	q := f.wanted
	q.Live = q.Live || f.watch
	if f.curve {
		q.Include = []string{"curve"}
	}
	q.Match = f.matchText()
	if !f.watch && f.watched != (watchFlags{}) {
		return q, errors.New("--for and --set every belong to --watch")
	}
	if q.Days < 0 {
		return q, fmt.Errorf("--days %d: write 1 or more", q.Days)
	}
	if q.Limit < 1 {
		return q, fmt.Errorf("--limit %d: write 1 or more", q.Limit)
	}
	earlier := q.Days != 0 || q.Like != "" // side A is of earlier days
	var err error
	switch {
	case q.Mark != "":
		if q.A != "" || q.B != "" || q.Label != "" || earlier {
			return q, errors.New("--mark says what the sides are: leave --a, --b, --label, --days and --set like out")
		}
	case earlier:
		if q.A != "" || q.Label != "" || q.B == "" {
			return q, errors.New("--days and --set like compare with earlier days: write --b START..END, and leave --a and --label out")
		}
		if q.B, err = f.parseSide("b", q.B); err != nil {
			return q, err
		}
	case q.A == "" || q.B == "":
		return q, withHint(errors.New("a comparison has two sides"), "write --mark ID, or --a START..END --b START..END, or --label version --a 1.0 --b 1.1")
	case q.Label != "":
		if q.Start, q.End, err = f.timeRange(); err != nil {
			return q, err
		}
		if f.watch && f.Start == "" { // the beginning stays where it is
			q.Start = unix(momentOf(q.Start, f.now()).Unix())
		}
	default:
		if q.A, err = f.parseSide("a", q.A); err != nil {
			return q, err
		}
		if q.B, err = f.parseSide("b", q.B); err != nil {
			return q, err
		}
	}
	if f.watch && q.Mark == "" && q.Label == "" && !f.ends.After(f.now()) {
		return q, errors.New("side B has ended, there is nothing to watch: leave --watch out, or write a later end")
	}
	return q, nil
}

// parseSide reads START..END, several of them with commas between, or a window that
// repeats.
func (f *compareFlags) parseSide(name, text string) (side string, err error) {
	if compare.Repeats(text) {
		return f.parseRepeat(name, text)
	}
	parts := strings.Split(text, ",")
	if f.watch && len(parts) > 1 {
		return "", errSeveralWatched
	}
	for i, part := range parts {
		if parts[i], f.ends, err = parseWindow(name, part, f.now()); err != nil && !strings.Contains(part, "..") {
			err = withHint(err, "windows that repeat are written as 'daily 22:00-06:00 last 5'; values of a label need --label")
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ","), nil
}

var errSeveralWatched = errors.New("sides of several windows are not watched: leave --watch out")

// parseRepeat reads a window that repeats, and writes its moment as the server takes it.
func (f *compareFlags) parseRepeat(name, text string) (string, error) {
	if f.watch {
		return "", errSeveralWatched
	}
	text = strings.Join(strings.Fields(text), " ")
	_, err := compare.ParseRepeat(name, text, f.now(), func(s string) (time.Time, error) {
		at, err := parseMoment(s, f.now())
		text = strings.TrimSuffix(text, s) + strconv.FormatInt(at.Unix(), 10)
		return at, err
	})
	if invalid := (*query.Error)(nil); errors.As(err, &invalid) { // the flag is its field
		err = errors.New(invalid.Message)
	}
	if err != nil {
		err = fmt.Errorf("--%s: %w", name, err)
	}
	return text, err
}

// parseWindow reads START..END and returns it as the server takes it.
func parseWindow(name, text string, now time.Time) (window string, ends time.Time, err error) {
	start, end, ok := strings.Cut(text, "..")
	if !ok {
		return "", ends, fmt.Errorf("--%s %q is not a window: write START..END, such as now-2h..now-1h", name, text)
	}
	var at [2]string
	var begins time.Time
	for i, s := range []string{start, end} {
		if ends, err = parseMoment(strings.TrimSpace(s), now); err != nil {
			return "", ends, fmt.Errorf("--%s %w", name, err)
		}
		at[i] = strconv.FormatFloat(float64(ends.UnixMilli())/1e3, 'f', -1, 64)
		if i == 0 {
			begins = ends
		}
	}
	if !ends.After(begins) {
		return "", ends, fmt.Errorf("--%s %q ends before it begins: write START..END, such as now-2h..now-1h", name, text)
	}
	return at[0] + "/" + at[1], ends, nil
}
