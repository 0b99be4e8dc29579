package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
)

// serverFlag is the server that answers questions: --server, default TAILSCOPE_SERVER.
type serverFlag struct{ url string }

func (f *serverFlag) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "server", defaultServer(), "`url` of the server to ask; TAILSCOPE_SERVER in the environment")
}

func defaultServer() string { return cmp.Or(os.Getenv("TAILSCOPE_SERVER"), client.DefaultAddress) }

// acceptFormer makes --server known under names that it had in a command.
func acceptFormer(cmd *cobra.Command, names ...string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if slices.Contains(names, name) {
			name = "server"
		}
		return pflag.NormalizedName(name)
	})
}

func (f *serverFlag) client() *client.Client { return &client.Client{Address: f.url} }

// question holds the flags that every query command has: the selection of observations,
// and the format of the answer.
type question struct {
	serverFlag
	api.Selection
	service, operation, tenant, kind, environment, cohort string
	since                                                 string
	format, color                                         string
	width                                                 int
	formats                                               []string // that the command knows, the default first
	streams                                               streams
	now                                                   func() time.Time
	called                                                func(name string) string // the name of a setting as users write it
}

func (q *question) register(fs *pflag.FlagSet) {
	q.serverFlag.register(fs)
	bind(fs, &q.Selection, "family", "match")
	q.registerNames(fs, "only this service")
	q.registerEnvironment(fs)
	fs.StringVar(&q.kind, "kind", "", "only spans of this kind: server, client, producer, consumer, internal, all; default requests (server and consumer)")
	q.registerRange(fs, "1h")
	q.registerFormat(fs)
}

// registerNames registers the most frequent matchers; service is the help of --service.
func (q *question) registerNames(fs *pflag.FlagSet, service string) {
	fs.StringVar(&q.service, "service", "", service)
	fs.StringVar(&q.operation, "operation", "", "only this operation, such as 'GET /cart/{id}'")
	fs.StringVar(&q.tenant, "tenant", "", "only this tenant")
}

// registerPlaces registers the matchers of where requests are answered, and of tenants by
// their share of them. Commands that have too many flags leave them to --match.
func (q *question) registerPlaces(fs *pflag.FlagSet) {
	q.registerEnvironment(fs)
	q.registerCohort(fs)
}

func (q *question) registerEnvironment(fs *pflag.FlagSet) {
	fs.StringVar(&q.environment, "environment", "", "only this environment, such as production")
}

func (q *question) registerCohort(fs *pflag.FlagSet) {
	fs.StringVar(&q.cohort, "cohort", "", "only tenants of this cohort: very large, large, medium or small")
}

func (q *question) registerRange(fs *pflag.FlagSet, since string) {
	fs.StringVar(&q.since, "since", since, "how far back to look from --end, such as 15m, 6h or 7d")
	q.End = "now"
	bind(fs, &q.Selection, "start", "end")
}

func (q *question) registerFormat(fs *pflag.FlagSet) {
	fs.StringVar(&q.format, "format", q.formats[0], strings.Join(q.formats, ", "))
}

func (q *question) registerPicture(fs *pflag.FlagSet) {
	fs.StringVar(&q.color, "color", "auto", "auto, always or never")
	fs.IntVar(&q.width, "width", 0, "characters across; default that of the terminal")
}

// namesKind matches text with a matcher on kinds of spans. If a value merely looks like
// one, the question is about every kind.
var namesKind = regexp.MustCompile(`(^|[{,])\s*(kind|component)\s*[=!]`)

// check refuses flags that the server would not understand, before a request.
func (q *question) check(fs *pflag.FlagSet) error {
	if !slices.Contains(q.formats, q.format) {
		return usage{fmt.Errorf("--format %s: write one of %s", q.format, strings.Join(q.formats, ", "))}
	}
	if q.Start != "" && fs.Changed("since") {
		return usage{fmt.Errorf("%s and %s both say where to begin: write one of them", q.called("start"), q.called("since"))}
	}
	if kinds := []string{"", "all", "requests", "server", "client", "producer", "consumer", "internal"}; !slices.Contains(kinds, q.kind) {
		return usage{fmt.Errorf("--kind %s: write one of %s", q.kind, strings.Join(kinds[1:], ", "))}
	}
	if q.color != "" && !slices.Contains([]string{"auto", "always", "never"}, q.color) {
		return usage{fmt.Errorf("--color %s: write auto, always or never", q.color)}
	}
	return nil
}

// timeRange returns start and end in the form that the server reads.
func (q *question) timeRange() (start, end api.Time, err error) {
	if q.Start != "" {
		return q.Start, q.End, nil
	}
	back, err := parseSince(q.since)
	if err != nil {
		return "", "", usage{fmt.Errorf("%s %w", q.called("since"), err)}
	}
	if q.End == "now" {
		return api.Time("now-" + q.since), q.End, nil
	}
	return unix(momentOf(q.End, q.now()).Add(-back).Unix()), q.End, nil
}

// matchers returns the matchers of the flags.
func (q *question) matchers() []string {
	var ms []string
	for _, l := range [][2]string{{"service", q.service}, {"operation", q.operation}, {"tenant", q.tenant}, {"environment", q.environment}, {"cohort", q.cohort}} {
		if l[1] != "" {
			ms = append(ms, l[0]+"="+strconv.Quote(l[1]))
		}
	}
	rest := strings.TrimSpace(q.Match)
	if strings.HasPrefix(rest, "{") && strings.HasSuffix(rest, "}") {
		rest = strings.TrimSpace(rest[1 : len(rest)-1])
	}
	if rest = strings.TrimSuffix(rest, ","); rest != "" {
		ms = append(ms, rest)
	}
	return ms
}

// selections returns the selections to try in order: without --kind a service's
// requests, then all its spans.
func (q *question) selections() ([]api.Selection, error) {
	start, end, err := q.timeRange()
	if err != nil {
		return nil, err
	}
	ms := q.matchers()
	of := func(more ...string) api.Selection {
		return api.Selection{Family: q.Family, Start: start, End: end,
			Match: "{" + strings.Join(slices.Concat(ms, more), ",") + "}"}
	}
	spans := q.Family == "" || q.Family == report.SpanFamily
	switch {
	case q.kind == "all", !spans && q.kind == "":
		return []api.Selection{of()}, nil
	case q.kind == "requests":
		return []api.Selection{of(`kind=~"server|consumer"`)}, nil
	case q.kind != "":
		return []api.Selection{of("kind=" + strconv.Quote(q.kind))}, nil
	case namesKind.MatchString(q.Match):
		return []api.Selection{of()}, nil // the reader has chosen
	}
	return []api.Selection{of(`kind=~"server|consumer"`), of()}, nil
}

// errNothing is returned for a question whose every selection is empty.
var errNothing = errors.New("nothing was observed in that range")

// ask tries the selections in order until an answer is not empty, and prints a notice if
// it was not the first. It sets sel, the selection of the request, to each.
func ask[T any](q *question, sel *api.Selection, request func() (T, error), empty func(T) bool) (T, error) {
	var answer T
	all, err := q.selections()
	if err != nil {
		return answer, err
	}
	for i := range all {
		*sel = all[i]
		if answer, err = request(); err != nil {
			return answer, err
		}
		if !empty(answer) {
			if i > 0 {
				fmt.Fprintln(q.streams.err, "tailscope: there are no requests, so these are spans of every kind")
			}
			if warned, ok := any(answer).(interface{ Cautions() []string }); ok {
				for _, text := range warned.Cautions() {
					fmt.Fprintln(q.streams.err, "tailscope: "+text)
				}
			}
			return answer, nil
		}
		if err := errUnsent(answer); err != nil {
			return answer, err
		}
	}
	return answer, withHint(errNothing,
		"tailscope query services --since %s shows what there is; a wider --since may help", q.since)
}

// failed adds the next step to an error of the client, unless it has one.
func (f *serverFlag) failed(err error) error {
	var said *client.Error
	var h hinted
	switch {
	case errors.As(err, &h):
	case errors.Is(err, client.ErrUnreachable):
		return withHint(err, "start one with tailscope serve, or name another with --server or TAILSCOPE_SERVER")
	case errors.As(err, &said) && said.RetryAfter > 0:
		return withHint(err, "ask again in %s", said.RetryAfter)
	}
	return err
}

// colors reports whether the picture may use escape sequences.
func (q *question) colors() bool {
	switch q.color {
	case "always":
		return true
	case "never":
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && liveview.IsTerminal(q.streams.out)
}

// columns returns the greatest width of the picture, in characters.
func (q *question) columns() int {
	if q.width > 0 {
		return q.width
	}
	if f, ok := q.streams.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return min(w, 400)
		}
	}
	if w, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && w > 0 {
		return min(w, 400)
	}
	return 80
}

func newQuery(io streams) *cobra.Command {
	return group(&cobra.Command{
		Use:   "query",
		Short: "ask: distribution, heatmap, timeline, breakdown, operations, traces, explain, tenants, services, PromQL",
	}, newQueryServices(io), newQueryDistribution(io), newQueryHeatmap(io),
		newQueryTimeline(io), newQueryTenants(io), newQueryBreakdown(io), newQueryOperations(io), newQueryTraces(io), newQueryExplain(io), newQueryPromQL(io))
}

// newQuestion returns a question printed in one of the formats, the first of
// which is the default.
func newQuestion(io streams, formats ...string) *question {
	return &question{streams: io, formats: formats, format: formats[0], now: time.Now, called: func(name string) string { return "--" + name }}
}

// answer writes an answer in the format that was asked for.
func (q *question) answer(d *report.Document) error {
	return d.Write(q.streams.out, report.FormatOf(q.format))
}

// run returns the function of a command: it checks the flags, and adds the next step to
// an error of the client.
func (q *question) run(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := q.check(cmd.Flags()); err != nil {
			return err
		}
		return q.failed(q.inFlags(cmd.Flags(), do(cmd.Context(), args)))
	}
}

// inFlags returns an error of the server with the flag in place of its parameter.
func (q *question) inFlags(fs *pflag.FlagSet, err error) error {
	said, ok := err.(*client.Error)
	if !ok || said.Field == "" {
		return err
	}
	flag := dashed.Replace(said.Field)
	called := q.called(flag)
	if fs.Lookup(flag) == nil && called == "--"+flag {
		return err
	}
	own := *said
	own.Field = ""
	switch rest, named := strings.CutPrefix(said.Message, said.Field+" "); {
	case named:
		own.Message = called + " " + rest
	case flag != "match" || fs.Changed(flag): // else --service and its like made it
		own.Message = called + ": " + said.Message
	}
	return &own
}

// labelNames returns the names of a label set, sorted.
func labelNames[M ~map[string]string](l M) []string {
	names := make([]string, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
