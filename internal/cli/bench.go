package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/bench/threshold"
	"tailscope/internal/report"
)

// benchFlags holds the flags of `tailscope bench`.
type benchFlags struct {
	benchOutput
	set *settings
	// When requests are due.
	rate, arrivals    string
	precise           bool
	during, warmUp    time.Duration
	seed              uint64
	connections       int
	waiting           int
	timeout           time.Duration
	http2, keepAlive  bool
	insecure          bool
	cacert            string
	method            string
	headers           []string
	body, bodyFile    string
	data, order       string
	once              bool
	targets           string
	record, accessLog string
	logFormat         string
	speed             float64
	tenant, think     string
	checks            []string
	thresholds        []string

	untimed, duringGiven bool
	rawURL               string
	vars                 []string // of a scenario
	logs                 string   // of its servers and commands
}

func newBench(io streams) *cobra.Command {
	f := &benchFlags{set: &settings{}}
	f.streams, f.now = io, time.Now
	cmd := &cobra.Command{
		Use:   "bench URL|FILE.yaml",
		Short: "send load on a schedule and measure every request from when it was due",
		Long: `Bench sends requests when a schedule says, whatever became of those before, and
counts latency from when each was due: what a slow server makes requests wait is
in it. The figure without it, from when they were sent, stands beside it.

Its argument is a URL, or the file of a scenario, which has servers, data, several
queries, phases and faults; --targets whose file has whole URLs needs none. How late
it was itself, and how busy, is measured too;
a run in which it could not keep up says so, and ends with code 3. Code 1 says
that a threshold was missed, 2 that it was called wrongly. docs/bench.md explains
all of it.`,
		Example: `  tailscope bench http://127.0.0.1:8080/ --rate 500 --for 30s
  tailscope bench http://127.0.0.1:8080/search?q={{word}} --data words.csv --rate 100..800 --for 2m \
    --threshold 'p(99) < 300ms'
  tailscope bench http://127.0.0.1:8080 --record session.rec --set speed=2 -o run.html
  tailscope bench http://127.0.0.1:8080/ --arrivals closed --connections 32 --for 10s
  tailscope bench search.yaml --server http://127.0.0.1:7099`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && f.targets != "" {
				return nil // its requests name the host
			}
			return exactArgs(1, "a URL, or the file of a scenario")(cmd, args)
		},
	}
	cmd.Flags().SortFlags = false
	acceptFormer(cmd, "to")
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	f.schedule(fs)
	f.requests(fs)
	f.ofOneRun(fs)
	f.connection(fs, 64, 30*time.Second)
	fs.StringArrayVar(&f.checks, "check", nil, "`condition` on answers, such as 'status 200', 'contains total' or 'json hits.total=3'; may be given again")
	fs.StringArrayVar(&f.thresholds, "threshold", nil, "`condition` on the run, such as 'p(99) < 300ms' or 'errors < 1%, abort after 10s'; may be given again")
	fs.StringArrayVar(&f.vars, "var", nil, "`name=value` of a scenario's variable; may be given again")
	fs.StringVar(&f.logs, "logs", "", "`directory` for what a scenario's servers and commands print; default kept only if something fails")
	f.register(fs)
	f.set.register(cmd, fs, "timeout=5s", "rate", "for", "arrivals", "seed", "connections", "method", "header", "body", "data", "targets", "record", "access-log",
		"check", "threshold", "var", "server", "report", "output", "quiet")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		arg := ""
		if len(args) > 0 {
			arg = args[0]
		}
		if err := f.complete(cmd, arg); err != nil {
			return err
		}
		if isScenario(arg) {
			return f.runScenario(cmd, arg)
		}
		return f.runURL(cmd.Context(), arg)
	}
	cmd.AddCommand(newBenchValidate(io), newBenchSchema(io))
	return cmd
}

// isScenario reports whether an argument names a file, rather than a URL.
func isScenario(arg string) bool {
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return !strings.Contains(arg, "://")
	}
	return false
}

func (f *benchFlags) schedule(fs *pflag.FlagSet) {
	fs.StringVar(&f.rate, "rate", "50", "`requests` a second: 500, a ramp 100..800, or steps '200 for 1m, 400 for 1m'")
	fs.DurationVar(&f.during, "for", 10*time.Second, "how long")
	fs.StringVar(&f.arrivals, "arrivals", "constant", "`law`: constant, poisson, or closed (each connection sends its next request when it has its answer)")
	fs.DurationVar(&f.warmUp, "warm-up", 0, "how long to send before anything is measured")
	fs.BoolVar(&f.precise, "precise", false, "whether each request of constant arrivals has its own time, instead of groups every 400µs above 2,500/s, for more CPU")
	fs.Uint64Var(&f.seed, "seed", 0, "`number` that makes chance the same again; default another one each time")
}

func (f *benchFlags) requests(fs *pflag.FlagSet) {
	fs.StringVarP(&f.method, "method", "X", "", "`method`; default GET, or POST with a body")
	fs.StringArrayVarP(&f.headers, "header", "H", nil, "`field` of every request, such as 'Accept: text/html'; may be given again")
	fs.StringVarP(&f.body, "body", "d", "", "`text` of the body; may hold {{columns}}")
	fs.StringVar(&f.bodyFile, "body-file", "", "`file` that holds the body")
	fs.StringVar(&f.data, "data", "", "`file` of rows, CSV or JSONL, whose columns fill {{words}} in the URL, fields and body")
	fs.StringVar(&f.order, "order", "", "how rows are taken: sequential, random or shuffle")
	fs.StringVar(&f.targets, "targets", "", "`file` of requests, a METHOD and URL each line; more in docs/bench.md")
	fs.StringVar(&f.record, "record", "", "`file` that tailscope mirror --record wrote: its requests at their times, again and again with --for, or at --rate")
	fs.StringVar(&f.accessLog, "access-log", "", "`file` of an access log: its paths at their times, again and again with --for, or at --rate")
	fs.StringVar(&f.logFormat, "log-format", "", "`format` of the access log, if its lines do not show it")
	fs.StringVar(&f.tenant, "tenant", "", "what names the tenant: header:`NAME`, column:NAME or path:REGEX")
}

// ofOneRun lists settings of a run whose end or times are known.
func (f *benchFlags) ofOneRun(fs *pflag.FlagSet) {
	fs.BoolVar(&f.once, "once", false, "end when the rows, the targets, the recording or the log have run out, instead of beginning again")
	fs.Float64Var(&f.speed, "speed", 0, "how many `times` as fast as recorded")
	fs.StringVar(&f.think, "think", "", "`time` a user of a closed loop waits: 1s, 1s..3s, exp 2s")
}

func (f *benchFlags) connection(fs *pflag.FlagSet, connections int, timeout time.Duration) {
	fs.IntVarP(&f.connections, "connections", "c", connections, "how many at once at most; of HTTP/2 requests under way at once")
	fs.DurationVar(&f.timeout, "timeout", timeout, "how long a request may take from when it was sent")
	fs.IntVar(&f.waiting, "waiting", 0, "how many due requests may wait for a connection before some are dropped; default 1,000,000")
	fs.Var(protocol{&f.http2}, "protocol", "HTTP/1.1 or HTTP/2: over TLS by agreement, else with prior knowledge")
	fs.BoolVar(&f.keepAlive, "keep_alive", true, "whether a connection has further requests after one answer")
	fs.BoolVar(&f.insecure, "tls.insecure", false, "whether any certificate is taken")
	fs.StringVar(&f.cacert, "tls.ca", "", "`file` of certificates to trust, PEM")
}

// protocol is the flag of the protocol of requests, in the words of a scenario.
type protocol struct{ http2 *bool }

func (p protocol) Set(text string) error {
	if text != "HTTP/1.1" && text != "HTTP/2" {
		return fmt.Errorf("%q is not known: write HTTP/1.1 or HTTP/2", text)
	}
	*p.http2 = text == "HTTP/2"
	return nil
}

func (p protocol) String() string {
	if p.http2 != nil && *p.http2 {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}
func (p protocol) Type() string { return "protocol" }

// complete checks what does not depend on what is sent.
func (f *benchFlags) complete(cmd *cobra.Command, arg string) error {
	if f.seed == 0 && !isScenario(arg) {
		f.seed = rand.Uint64()>>11 + 1 // a number that JSON keeps
	}
	given, called := f.set.given, f.set.called
	f.duringGiven = given("for")
	if f.recorded() && (given("rate") || given("arrivals")) {
		f.untimed = true
	}
	if !given("for") && f.recorded() && !f.untimed {
		f.during = 0
	}
	switch {
	case f.connections < 1:
		return usage{fmt.Errorf("%s %d: write 1 or more", called("connections"), f.connections)}
	case f.timeout <= 0:
		return usage{fmt.Errorf("%s %s: write a time such as 5s", called("timeout"), f.timeout)}
	case f.during < 0 || f.during == 0 && !f.recorded():
		return usage{fmt.Errorf("--for %s: write a time such as 30s", f.during)}
	case f.waiting < 0:
		return usage{fmt.Errorf("%s %d: write 1 or more", called("waiting"), f.waiting)}
	case f.arrivals == "closed" && given("rate"):
		return usage{withHint(errors.New("--rate and --arrivals closed: a closed loop has no rate, it sends when it has an answer"), "leave one of the two out")}
	case f.speed != 0 && !f.recorded():
		return usage{withHint(fmt.Errorf("%s is of a recording's own times", called("speed")), "say --record or --access-log, or the speed as --rate")}
	case f.think != "" && f.arrivals != "closed":
		return usage{withHint(fmt.Errorf("%s is of the users of a closed loop; a schedule waits for nobody", called("think")), "leave it out, or add --arrivals closed")}
	case len(f.vars) > 0 && !isScenario(arg):
		return usage{errors.New("--var is of a scenario's file; a URL takes --data")}
	case f.body != "" && f.bodyFile != "":
		return usage{fmt.Errorf("--body and %s: give one of the two", called("body-file"))}
	}
	f.command = benchAgain(cmd, f.set, arg, f.seed)
	return f.benchOutput.complete()
}

func (f *benchFlags) recorded() bool { return f.record != "" || f.accessLog != "" }

// withScheme puts http:// before an address that names no scheme.
func withScheme(arg string) string {
	if at := strings.Index(arg, "://"); arg == "" || at >= 0 && !strings.ContainsAny(arg[:at], "/?#") {
		return arg
	}
	return "http://" + arg
}

// parseTarget reads the argument. It returns nil for none, as the requests name the host
// then.
func parseTarget(arg string) (*url.URL, error) {
	if arg == "" {
		return nil, nil
	}
	target, err := url.Parse(arg)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // it says the URL again
	}
	switch {
	case err != nil:
		return nil, usage{withHint(fmt.Errorf("%s: %w", arg, err), "write a URL such as http://127.0.0.1:8080/")}
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, usage{withHint(fmt.Errorf("%s: %s is not spoken here", arg, target.Scheme), "write a URL that begins with http:// or https://")}
	case target.Host == "":
		return nil, usage{withHint(fmt.Errorf("%s: no host in it", arg), "write a URL such as http://127.0.0.1:8080/")}
	}
	return target, nil
}

func (f *benchFlags) runURL(ctx context.Context, arg string) error {
	f.rawURL = withScheme(arg)
	target, err := parseTarget(f.rawURL)
	if err != nil {
		return err
	}
	o := session.Options{Name: f.name, Service: f.service, Variant: f.variant, WarmUp: f.warmUp, Limits: f.limits}
	if o.Plan, err = f.plan(); err != nil {
		return usage{hintWithin(err)}
	}
	spec, err := f.spec(target)
	if err != nil {
		return usage{hintWithin(err)}
	}
	set, err := requests.Compile(spec)
	if err != nil {
		return usage{hintWithin(err)}
	}
	defer set.Close()
	if target == nil {
		target = set.Base()
	}
	o.Set, o.Target = set, target
	if o.Thresholds, err = f.parseThresholds(); err != nil {
		return err
	}
	o.Load = load.Options{Connections: f.connections, Timeout: f.timeout, Waiting: f.waiting, NoKeepAlive: !f.keepAlive}
	if f.http2 {
		o.Load.Protocol = load.HTTP2
	}
	if target.Scheme == "https" {
		if o.Load.TLS, err = f.tls(); err != nil {
			return err
		}
	}
	if o.Plan.Arrivals == bench.Recorded {
		o.Duration = f.during
	}
	for _, n := range set.Notes() {
		fmt.Fprintln(f.err, report.Printable(n))
	}
	if o.Name == "" {
		o.Name = strings.TrimSuffix(target.Host+target.Path, "/")
	}
	if o.Service == "" {
		o.Service = target.Hostname()
	}
	return f.present(ctx, o.Name, o.Service, func(ctx context.Context, h benchHooks) (*session.Outcome, error) {
		o.Experiment, o.Command, o.Environment, o.Labels = h.id, f.command, h.environment, h.labels
		o.Sink, o.Report, o.Progress = h.sink, h.report, h.progress
		return session.Run(ctx, o)
	})
}

func (f *benchFlags) parseThresholds() ([]threshold.Threshold, error) {
	var out []threshold.Threshold
	for _, text := range f.thresholds {
		t, err := threshold.Parse(text)
		if err != nil {
			return nil, usage{hintWithin(err)}
		}
		out = append(out, t)
	}
	return out, nil
}

func (f *benchFlags) plan() (bench.Plan, error) {
	p := bench.Plan{Seed: f.seed}
	if !f.precise {
		p.Grid = bench.FrugalGrid
	}
	switch f.arrivals {
	case "constant":
	case "poisson":
		p.Arrivals = bench.Poisson
	case "closed":
		p.Arrivals = bench.Closed
		p.Phases = []bench.Phase{{Name: "load", For: f.during}}
		return p, nil
	default:
		return p, fmt.Errorf("--arrivals %q is not known (hint: constant, poisson or closed)", f.arrivals)
	}
	if f.recorded() && !f.untimed {
		if p.Arrivals = bench.Recorded; f.during > 0 {
			p.Phases = []bench.Phase{{Name: "recording", For: f.during}}
		}
		return p, nil
	}
	during := f.during
	if strings.Contains(f.rate, " for ") && !f.duringGiven {
		during = 0
	}
	var err error
	p.Phases, err = bench.ParsePhases("", f.rate, during)
	if err != nil {
		return p, fmt.Errorf("--%w", err)
	}
	return p, nil
}

// spec returns the requests to send; target is nil if a file of targets names the host.
func (f *benchFlags) spec(target *url.URL) (requests.Spec, error) {
	s := requests.Spec{Tenant: f.tenant, Think: f.think, Seed: f.seed, HTTP2: f.http2, Now: f.now}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return s, fmt.Errorf("--header %q has no colon (hint: write it as 'Accept: text/html')", h)
		}
		s.Header = append(s.Header, load.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	check, err := parseChecks(f.checks)
	if err != nil {
		return s, err
	}
	s.Check = check
	sources := 0
	for _, given := range []bool{f.targets != "", f.record != "", f.accessLog != ""} {
		if given {
			sources++
		}
	}
	if sources > 1 {
		return s, fmt.Errorf("%s, %s and %s: give one of them", f.set.called("targets"), f.set.called("record"), f.set.called("access-log"))
	}
	if sources == 1 && (f.data != "" || f.body != "" || f.bodyFile != "" || f.method != "") {
		return s, errors.New("--data, --body and --method are of one URL; a file of requests has its own (hint: leave them out)")
	}
	switch {
	case f.targets != "":
		s.Targets, s.Once = f.targets, f.once
	case f.record != "":
		s.Record = &requests.Record{Path: f.record, Speed: f.speed, Untimed: f.untimed, Loop: f.loops()}
	case f.accessLog != "":
		s.AccessLog = &requests.AccessLog{Path: f.accessLog, Format: f.logFormat, Speed: f.speed, Untimed: f.untimed, Loop: f.loops()}
	default:
		method := f.method
		if method == "" {
			if method = "GET"; f.body != "" || f.bodyFile != "" {
				method = "POST"
			}
		}
		q := requests.Query{Request: method + " " + requestTarget(f.rawURL), Body: f.body, BodyFile: f.bodyFile, Data: f.data, Order: f.order}
		if f.once {
			q.AtEnd = "once"
		}
		s.Queries = []requests.Query{q}
	}
	if target != nil {
		base := *target
		if base.Fragment = ""; sources == 0 { // the path is the request's; else it stands before theirs
			base.Path, base.RawPath, base.RawQuery = "", "", ""
		}
		s.Base = base.String()
	}
	return s, nil
}

// loops reports whether a recording or a log begins again at its end, because another
// flag decides when the run ends.
func (f *benchFlags) loops() bool { return (f.untimed || f.duringGiven) && !f.once }

// requestTarget returns the text after the host, as it was written: {{words}} must not be
// escaped.
func requestTarget(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	at := strings.IndexAny(rest, "/?#")
	if at < 0 {
		return "/"
	}
	target, _, _ := strings.Cut(rest[at:], "#")
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return target
}

func (f *benchFlags) tls() (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: f.insecure, MinVersion: tls.VersionTLS12}
	if f.cacert != "" {
		b, err := os.ReadFile(f.cacert)
		if err != nil {
			return nil, usage{fmt.Errorf("%s: %w", f.set.called("tls.ca"), err)}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, usage{withHint(fmt.Errorf("%s %s: no certificate in it", f.set.called("tls.ca"), f.cacert), "it is to be a file in PEM, which begins with -----BEGIN CERTIFICATE-----")}
		}
	}
	return c, nil
}

// hintWithin makes the last (hint: …) of an error's text one of its own.
func hintWithin(err error) error {
	text := err.Error()
	at := strings.LastIndex(text, " (hint: ")
	if at < 0 || !strings.HasSuffix(text, ")") || strings.Contains(text, "\n") {
		return err
	}
	return withHint(errors.New(text[:at]), "%s", text[at+len(" (hint: "):len(text)-1])
}
