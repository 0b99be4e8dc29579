package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/scenario"
)

// capacityFlags holds the flags of `tailscope capacity`.
type capacityFlags struct {
	capacityOutput
	set      *settings
	requests benchFlags // what is sent, and how

	capacitySought
	lowest, highest float64
	start           float64
	rate            string
	servers         string
	members         []string // of the pool that load is sent to directly
	apply           string
	queued, worked  []string
	watched         capacityWatched
	vars            []string
	logs            string
}

func newCapacity(io streams) *cobra.Command {
	f := &capacityFlags{set: &settings{}}
	f.streams, f.now, f.requests.set, f.capacitySought.called = io, time.Now, f.set, f.set.called
	cmd := &cobra.Command{
		Use:   "capacity URL|FILE.yaml",
		Short: "find the highest rate, or the fewest servers, that keep an objective",
		Long: `Capacity raises the rate of requests until the objective breaks, and narrows down
where that is: the answer has an interval. The load is taken away at once when the
objective is surely broken. Its argument is a URL, or the file of a scenario, whose
servers are started, whose data is loaded, and whose requests are sent; its phases,
faults and thresholds are left alone.

With --servers it goes the other way: a rate that stays, and a pool that is shrunk,
by a command or server by server, and restored in the end.

Code 1 says that the objective was broken at the lowest rate already, or that the
search failed, 2 that it was called wrongly, 3 that the time did not do for an answer
of the precision asked for, or that the generator was the limit. docs/capacity.md
explains all of it.`,
		Example: `  tailscope capacity http://127.0.0.1:8080/ --objective 'p99 < 200ms and errors < 0.1%'
  tailscope capacity search.yaml --objective 'p99{search} < 80ms' --highest 2000 --server http://127.0.0.1:7099
  tailscope capacity http://127.0.0.1:8080/ --objective 'p99 < 200ms' --rate 400 --servers 1..11 \
    --apply './scale.sh {{servers}}'
  tailscope capacity http://app.test/ --objective 'p95 < 100ms' --rate 400 --pool 10.0.0.1:80 --pool 10.0.0.2:80`,
		Args: exactArgs(1, "a URL, or the file of a scenario"),
	}
	cmd.Flags().SortFlags = false
	acceptFormer(cmd, "to")
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	f.registerObjective(fs, "p99 < 200ms and errors < 0.1%")
	fs.Float64Var(&f.lowest, "lowest", 0, "`requests` a second below which nothing is tried; default 10")
	fs.Float64Var(&f.highest, "highest", 0, "`requests` a second above which nothing is tried; default 20000")
	fs.Float64Var(&f.start, "start", 0, "`requests` a second to begin with; default the lowest")
	fs.StringVar(&f.rate, "rate", "", "`requests` a second that stay, of a search for servers")
	fs.StringVar(&f.servers, "servers", "", "`range` of servers that are tried, such as 1..11; needs --rate and --apply")
	fs.StringVar(&f.apply, "apply", "", "`command` that has {{servers}} servers used, and ends when they are")
	fs.StringArrayVar(&f.members, "pool", nil, "`host:port` of a server of the pool that load is sent to directly; to be given for each")
	f.registerBounds(fs, "3%")
	fs.StringVar(&f.requests.arrivals, "arrivals", "poisson", "`law`: poisson or constant")
	fs.Uint64Var(&f.requests.seed, "seed", 0, "`number` that makes chance the same again; default another one each time")
	f.requests.requests(fs)
	f.requests.connection(fs, 512, 5*time.Second)
	fs.StringArrayVar(&f.requests.checks, "check", nil, "`condition` on answers, such as 'status 200' or 'contains total'; may be given again")
	fs.StringArrayVar(&f.queued, "queued", nil, "`field` of answers that tells how long they queued, such as X-Queue-Time:ms or 'Server-Timing;queue'; the usual ones are found")
	fs.StringArrayVar(&f.worked, "worked", nil, "`field` of answers that tells how long they were worked on, such as X-Runtime:s")
	f.watched.register(fs)
	fs.StringArrayVar(&f.vars, "var", nil, "`name=value` of a scenario's variable; may be given again")
	fs.StringVar(&f.logs, "logs", "", "`directory` for what a scenario's servers and commands print; default kept only if something fails")
	f.register(fs)
	f.set.register(cmd, fs, "connections=64", "objective", "lowest", "highest", "rate", "servers", "apply", "pool", "within", "precision", "seed",
		"header", "body", "data", "check", "var", "server", "report", "output", "quiet")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := f.complete(cmd, args[0])
		if err != nil {
			return err
		}
		s, err := f.scenario(args[0], o)
		if err != nil {
			return err
		}
		return f.run(cmd.Context(), s, o)
	}
	cmd.AddCommand(newCapacityFit(io), newCapacityMirror(io))
	return cmd
}

// asked is a search with the bounds that the flags give.
type asked struct {
	search search.Options
	pool   capacity.Pool
	rate   float64 // that stays, of a search for servers
	times  []capacity.Timing
}

// complete checks everything that does not depend on what is sent.
func (f *capacityFlags) complete(cmd *cobra.Command, arg string) (*asked, error) {
	sought, err := f.options()
	if err != nil {
		return nil, err
	}
	sought.Lowest, sought.Highest, sought.Start = f.lowest, f.highest, f.start
	a := &asked{search: sought}
	if err := f.times(a); err != nil {
		return nil, err
	}
	if err := f.pool(a); err != nil {
		return nil, err
	}
	if _, err := search.New(a.search); err != nil {
		return nil, usage{hintWithin(err)}
	}
	r, called := &f.requests, f.set.called
	switch {
	case r.arrivals != "poisson" && r.arrivals != "constant":
		return nil, usage{withHint(fmt.Errorf("%s %q is not known here", called("arrivals"), r.arrivals), "poisson or constant")}
	case r.connections < 1:
		return nil, usage{fmt.Errorf("%s %d: write 1 or more", called("connections"), r.connections)}
	case r.timeout <= 0:
		return nil, usage{fmt.Errorf("%s %s: write a time such as 5s", called("timeout"), r.timeout)}
	case r.body != "" && r.bodyFile != "":
		return nil, usage{fmt.Errorf("--body and %s: give one of the two", called("body-file"))}
	case len(f.vars) > 0 && !isScenario(arg):
		return nil, usage{errors.New("--var is of a scenario's file; a URL takes --data")}
	}
	if err := f.watched.check(f.set.called); err != nil {
		return nil, err
	}
	if r.seed == 0 {
		r.seed = rand.Uint64()>>11 + 1 // a number that JSON keeps
	}
	f.command = benchAgain(cmd, f.set, arg, r.seed)
	return a, f.capacityOutput.complete()
}

func (f *capacityFlags) times(a *asked) error {
	for i, list := range [][]string{f.queued, f.worked} {
		for _, text := range list {
			t, err := capacity.ParseTiming(text, i == 1)
			if err != nil {
				return usage{hintWithin(err)}
			}
			a.times = append(a.times, t)
		}
	}
	return nil
}

// The default bounds of a search.
const (
	lowestRate  = 10
	highestRate = 20_000
)

// pool makes it a search for servers if a flag asks for one.
func (f *capacityFlags) pool(a *asked) error {
	given, called := f.set.given, f.set.called
	if f.servers == "" && len(f.members) == 0 {
		for _, name := range []string{"rate", "apply"} {
			if given(name) {
				return usage{withHint(fmt.Errorf("--%s is of a search for servers", name), "add --servers 1..11, or --pool HOST:PORT for each server, or leave it out: the highest rate is searched for")}
			}
		}
		for _, bound := range []struct {
			name string
			v    float64
		}{{"lowest", f.lowest}, {"highest", f.highest}, {"start", f.start}} {
			if given(bound.name) && (!(bound.v > 0) || math.IsInf(bound.v, 0)) {
				return usage{withHint(fmt.Errorf("%s %v is not a rate", called(bound.name), bound.v), "write requests a second, such as 100")}
			}
		}
		if f.lowest == 0 {
			if a.search.Lowest = lowestRate; f.highest > 0 && f.highest <= lowestRate {
				a.search.Lowest = f.highest / 10
			}
		}
		if f.highest == 0 {
			a.search.Highest = max(highestRate, 10*a.search.Lowest)
		}
		if a.search.Lowest >= a.search.Highest {
			return usage{withHint(fmt.Errorf("--lowest %v is not less than --highest %v: there is nothing to search between", a.search.Lowest, a.search.Highest), "give bounds such as --lowest 10 --highest 2000; tailscope bench --rate holds one rate")}
		}
		return nil
	}
	for _, name := range []string{"lowest", "highest", "start"} {
		if given(name) {
			return usage{withHint(fmt.Errorf("%s is of a search for the highest rate", called(name)), "say how many servers are tried by --servers 1..11")}
		}
	}
	phases, err := bench.ParsePhases("", f.rate, time.Second)
	if f.rate == "" || err == nil && (len(phases) != 1 || phases[0].From != phases[0].To || phases[0].From == 0) {
		err = errors.New("one rate is needed under which servers are taken away")
	}
	if err != nil {
		return usage{withHint(fmt.Errorf("--rate %q: %w", f.rate, err), "such as --rate 400")}
	}
	a.rate = phases[0].From
	a.search.Falling, a.search.Integer = true, true
	if len(f.members) > 0 {
		if f.servers != "" || f.apply != "" {
			return usage{withHint(errors.New("--pool and --servers: load is sent to each server, or to what stands before them"), "give one of the two")}
		}
		for i, s := range f.members {
			if host, port, ok := strings.Cut(s, ":"); !ok || host == "" || port == "" || strings.Contains(s, "/") {
				return usage{withHint(fmt.Errorf("--pool %s is not an address", s), "write it as 10.0.0.1:8080")}
			}
			if slices.Contains(f.members[:i], s) {
				return usage{fmt.Errorf("--pool %s is given twice", s)}
			}
		}
		if len(f.members) == 1 {
			return usage{withHint(fmt.Errorf("--pool %s is the only one: none can be taken away", f.members[0]), "give --pool for each server of it, or leave it out: the highest rate is searched for")}
		}
		a.pool, a.search.Lowest, a.search.Highest = capacity.ListPool(f.members), 1, float64(len(f.members))
		return nil
	}
	low, high, err := parseRange(f.servers, true)
	if err != nil {
		return usage{withHint(fmt.Errorf("--servers %w", err), "write it as 1..11: the fewest that are tried, and how many there are")}
	}
	p := &capacity.CommandPool{Apply: f.apply, Before: int(high)}
	if err := p.Check(); err != nil {
		return usage{withHint(fmt.Errorf("--apply %w", trimHint(err)), "such as --apply './scale.sh {{servers}}'")}
	}
	a.pool, a.search.Lowest, a.search.Highest = p, low, high
	return nil
}

func trimHint(err error) error {
	text, _, _ := strings.Cut(err.Error(), " (hint: ")
	return errors.New(text)
}

// ofCapacityFiles lists the flags of requests, which a scenario's file describes instead.
var ofCapacityFiles = []string{"method", "header", "body", "body_file", "data", "order", "targets", "record", "access_log", "log_format", "tenant",
	"connections", "timeout", "protocol", "keep_alive", "tls.insecure", "tls.ca", "check", "watch_pid", "watch_port"}

// scenario returns the scenario under load: that of a file, or one of a URL.
func (f *capacityFlags) scenario(arg string, a *asked) (*scenario.Scenario, error) {
	if isScenario(arg) {
		var wrong error
		f.set.visit(func(name string) {
			if slices.Contains(ofCapacityFiles, name) && wrong == nil {
				wrong = usage{withHint(fmt.Errorf("%s is said in the file of a scenario", f.set.called(name)), "put a variable there and write --var NAME=VALUE")}
			}
		})
		if wrong != nil {
			return nil, wrong
		}
		vars, err := parseVars(f.vars)
		if err != nil {
			return nil, err
		}
		s, problems := scenario.Load(arg, scenario.LoadOptions{Vars: vars})
		if len(problems) > 0 {
			return nil, usage{joinProblems(problems)}
		}
		if f.name != "" {
			s.Name = f.name
		}
		if f.service != "" {
			s.Service = f.service
		}
		return s, nil
	}
	return f.ofURL(arg, a)
}

func (f *capacityFlags) ofURL(arg string, a *asked) (*scenario.Scenario, error) {
	r := &f.requests
	r.now, r.untimed, r.rawURL = f.now, r.recorded(), withScheme(arg)
	target, err := parseTarget(r.rawURL)
	if err != nil {
		return nil, err
	}
	s := &scenario.Scenario{Name: f.name, Service: f.service, Target: &url.URL{Scheme: target.Scheme, Host: target.Host}, Limits: f.limits}
	if s.Requests, err = r.spec(target); err != nil {
		return nil, usage{hintWithin(err)}
	}
	if s.Name == "" {
		s.Name = strings.TrimSuffix(target.Host+target.Path, "/")
	}
	if s.Service == "" {
		s.Service = target.Hostname()
	}
	if s.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	s.TLS = scenario.TLS{CA: r.cacert, Insecure: r.insecure}
	if r.cacert != "" && !filepath.IsAbs(r.cacert) {
		s.TLS.CA = filepath.Join(s.Dir, r.cacert)
	}
	s.HTTP = load.Options{Connections: r.connections, Timeout: r.timeout, Waiting: r.waiting, NoKeepAlive: !r.keepAlive}
	if r.http2 {
		s.HTTP.Protocol = load.HTTP2
	}
	// What is due at once is all that a plan is asked for here.
	s.Plan = bench.Plan{Arrivals: bench.Poisson, Seed: r.seed, Phases: []bench.Phase{{Name: "load", From: a.search.Lowest, To: a.search.Lowest, For: time.Second}}}
	s.Servers = f.watched.servers()
	return s, nil
}

// run searches, and returns the error that the command ends with.
func (f *capacityFlags) run(ctx context.Context, s *scenario.Scenario, a *asked) error {
	return f.present(ctx, s.Name, s.Service, func(ctx context.Context, h capacityHooks) error {
		return f.search(ctx, s, a, h)
	})
}
