package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/experiment/capacity"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/mirror"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/scenario"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
	"tailscope/internal/server"
)

// capacityMirror holds the flags of `tailscope capacity mirror`.
type capacityMirror struct {
	capacityOutput
	set   *settings
	flags overrides // of the mirror
	file  string

	capacitySought
	watched               capacityWatched
	copies, rate, servers string // ranges, of which one holds
	of                    string
	session, from         string
	end                   bool

	unit   string
	search search.Options
	usage  capacity.Usage // of the processes that are watched
}

// copiesTried holds the default bounds of a search.
const copiesTried = "1..16"

func newCapacityMirror(io streams) *cobra.Command {
	f := &capacityMirror{}
	f.set = &settings{config: &f.flags, section: "mirror."}
	f.streams, f.now, f.called = io, time.Now, f.set.called
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "find how much of live traffic a candidate bears: by more copies of it, or with fewer servers",
		Long: `Mirror answers live clients from the primary, as tailscope mirror does, and sends a
candidate more and more copies of each request, or takes servers of its pool away,
until the objective breaks. Copies and pool are back to what they were as soon as it
surely does, and in the end, whatever happened. Conditions on the primary, such as
'primary p99 < 300ms', protect the clients.

All settings of tailscope mirror hold: --listen, --primary, --candidate, --control and
--server, the others by --set under their key in the file, such as --set mirror.share=0.5.
With --session the search is on a session that runs already, through the server that
knows of it: nothing of its clients is touched, and load that is too much is gone
a little later, after up to a second.

When the search has ended clients are served on until ctrl-c, unless --end is given.
Codes are those of tailscope capacity. docs/capacity-live.md explains all of it.`,
		Example: `  tailscope capacity mirror --listen :8080 --primary http://a:8081 --candidate http://b:8082 \
    --objective 'p99 < 200ms and errors < 0.1% and primary p99 < 300ms'
  tailscope capacity mirror --primary http://a:8081 --candidate http://b1:80,http://b2:80,http://b3:80 \
    --objective 'p95 < 150ms' --servers 1..3
  tailscope capacity mirror --session 20260301-120000-5f1c0de5 --server http://127.0.0.1:7099 \
    --objective 'p99 < 200ms' --copies 1..8`,
		Args: exactArgs(0, ""),
	}
	cmd.Flags().SortFlags = false
	acceptFormer(cmd, "to")
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	f.registerObjective(fs, "p99 < 200ms and primary p99 < 300ms")
	fs.StringVar(&f.copies, "copies", "", "`range` of copies of each live request that are tried; default 1..16")
	fs.StringVar(&f.rate, "rate", "", "`range` of requests a second, such as 100..2000, in place of copies: these follow what clients send")
	fs.StringVar(&f.servers, "servers", "", "`range` of servers of the candidate's pool, such as 1..11, in place of copies: they are taken away")
	fs.StringVar(&f.of, "of", "", "`name` of the candidate, if there are several")
	fs.StringVar(&f.session, "session", "", "`id` of a mirror session that runs, or running for the only one, to search on it through --server, default http://127.0.0.1:7099")
	fs.StringVar(&f.from, "from", "", "`address` of the server that knows of that session")
	fs.Lookup("from").Hidden = true // what --server was beside a session
	fs.BoolVar(&f.end, "end", false, "end the session with the search, and with it the port that clients use")
	f.registerBounds(fs, "5%")
	f.watched.register(fs)
	f.reportFiles.register(fs)
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show nothing while it runs")
	fs.StringVar(&f.file, "config", "", "read the mirror's settings from this YAML `file`")
	daily := []string{"listen", "primary", "candidate", "control", "server"}
	for _, s := range config.Settings {
		if name := config.MirrorFlag(s); slices.Contains(daily, name) {
			f.flags.add(fs, s, name)
		}
	}
	f.set.register(cmd, fs, "mirror.share=0.5", append(daily, "objective", "copies", "rate", "servers", "of", "session", "from", "end", "within", "precision",
		"report", "output", "quiet", "config")...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.completeSearch(); err != nil {
			return err
		}
		f.command = f.again(cmd)
		if servers := f.watched.servers(); len(servers) > 0 {
			w, err := scenario.StartWatch(servers, func(text string) { fmt.Fprintln(f.err, report.Printable(text)) })
			if err != nil {
				return usage{hintWithin(err)}
			}
			defer w.Close()
			f.usage = w.Usage
		}
		if f.session != "" || f.from != "" {
			return f.searchThere(cmd)
		}
		return f.searchHere(cmd)
	}
	return cmd
}

// completeSearch checks the flags of the search.
func (f *capacityMirror) completeSearch() error {
	var err error
	if f.search, err = f.options(); err != nil {
		return err
	}
	text, flag, example := copiesTried, "--copies", "1..8"
	f.unit = capacity.Copies
	for _, r := range []struct{ given, flag, unit, example string }{
		{f.copies, "--copies", capacity.Copies, "1..8"}, {f.rate, "--rate", capacity.Requests, "100..2000"}, {f.servers, "--servers", capacity.Servers, "1..11"},
	} {
		switch {
		case r.given == "":
		case text != copiesTried || flag != "--copies":
			return usage{withHint(fmt.Errorf("%s and %s: one of them is searched for", flag, r.flag), "leave one out")}
		default:
			text, flag, f.unit, example = r.given, r.flag, r.unit, r.example
		}
	}
	if f.search.Lowest, f.search.Highest, err = parseRange(text, f.unit == capacity.Servers); err != nil {
		return usage{withHint(fmt.Errorf("%s %w", flag, err), "write it as %s", example)}
	}
	probe := f.search
	probe.Integer, probe.Falling = f.unit == capacity.Servers, f.unit == capacity.Servers
	if _, err := search.New(probe); err != nil {
		return usage{hintWithin(err)}
	}
	if err := f.watched.check(f.called); err != nil {
		return err
	}
	return f.capacityOutput.complete()
}

// again returns the command line that repeats a search, without secrets.
func (f *capacityMirror) again(cmd *cobra.Command) string {
	parts := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if _, ok := fl.Value.(*overrideFlag); !ok && !slices.Contains([]string{"output", "report", "quiet", "set"}, fl.Name) {
			parts = append(parts, "--"+fl.Name+"="+shellWord(formatValue(fl.Value)))
		}
	})
	f.set.own.Visit(func(fl *pflag.Flag) {
		parts = append(parts, "--set", shellWord(fl.Name+"="+formatValue(fl.Value)))
	})
	for _, o := range f.flags.set {
		v := o.text
		if o.setting.Key == "mirror.set_header" {
			v = withoutSecret(v)
		}
		parts = append(parts, "--set", shellWord(o.setting.Key+"="+v))
	}
	return strings.Join(parts, " ")
}

// formatValue returns a flag's value as it may be written.
func formatValue(v pflag.Value) string {
	if list, ok := v.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return v.String()
}

// hold searches on a session.
func (f *capacityMirror) hold(ctx context.Context, name, service string, o capacity.LiveOptions) error {
	return f.present(ctx, name, service, func(ctx context.Context, h capacityHooks) error {
		l, err := capacity.NewLive(ctx, o)
		if err != nil {
			return err
		}
		run := capacity.Options{Search: f.search, Name: name, Service: service, Command: h.command, Environment: h.environment, Report: h.report}
		l.Options(&run)
		_, err = capacity.Run(ctx, l, run)
		return err
	})
}

// live completes the options of a search on a session, and refuses one whose state does
// not allow it.
func (f *capacityMirror) live(state *api.MirrorState, o capacity.LiveOptions) (capacity.LiveOptions, error) {
	o.Objective, o.Unit, o.Candidate, o.Now = f.search.Objective, f.unit, f.of, f.now
	o.Usage = f.usage
	if err := o.Check(state, f.search.Highest); err != nil {
		return o, usage{hintWithin(err)}
	}
	return o, nil
}

// searchThere searches on a session in another process.
func (f *capacityMirror) searchThere(cmd *cobra.Command) error {
	var wrong []string
	called := optionNamer(cmd)
	for _, o := range f.flags.set {
		if key := o.setting.Key; key != "mirror.name" && key != "mirror.service" && key != "mirror.to" {
			wrong = append(wrong, called(strings.ReplaceAll(strings.TrimPrefix(key, "mirror."), "_", "-")))
		}
	}
	for _, name := range []string{"config", "end"} {
		if cmd.Flags().Changed(name) {
			wrong = append(wrong, "--"+name)
		}
	}
	if len(wrong) > 0 {
		return usage{withHint(fmt.Errorf("%s: a session that runs already has its settings", strings.Join(wrong, ", ")), "leave them out, or leave --session out: then the mirror runs in this process")}
	}
	cfg, err := loadConfig(config.Default(), "", nil, &f.flags)
	if err != nil {
		return usage{err}
	}
	known := cmp.Or(f.from, cfg.Mirror.To, client.DefaultAddress)
	ctx := cmd.Context()
	c := &client.Client{Address: known}
	var ids []string
	if f.session != "" && f.session != "running" {
		ids = []string{f.session}
	}
	x, err := chosenSession(ctx, c, ids)
	if err != nil {
		if errors.Is(err, client.ErrUnreachable) {
			return withHint(err, "--server takes the address of the server that knows of the session, such as http://127.0.0.1:7099")
		}
		return err
	}
	f.to = cmp.Or(cfg.Mirror.To, known)
	name, service := cfg.Mirror.Name, x.Service
	if name == "" {
		name = "capacity of " + x.Name
	}
	if cfg.Mirror.Service != config.Default().Mirror.Service {
		service = cfg.Mirror.Service
	}
	if x.Mirror == nil {
		return usage{withHint(fmt.Errorf("session %s is not a mirror session", x.ID), "tailscope session list --kind mirror lists them")}
	}
	o, err := f.live(x.Mirror, capacity.LiveOptions{Client: c, ID: x.ID})
	if err != nil {
		return err
	}
	return f.hold(ctx, name, service, o)
}

// searchHere runs a session in this process, and searches on it.
func (f *capacityMirror) searchHere(cmd *cobra.Command) error {
	ctx := cmd.Context()
	cfg, err := loadConfig(config.Default(), f.file, os.Environ(), &f.flags)
	if err != nil {
		return usage{err}
	}
	if cfg.Mirror.TCP {
		return usage{withHint(errors.New("mirror.tcp: in bytes there are no requests whose time could be judged"), "leave it out")}
	}
	if err := checkMirror(cfg.Mirror, optionNamer(cmd)); err != nil {
		return err
	}
	cfg.LogLevel = "warn"
	timings := &capacity.AnswerTimings{}
	r := &mirrorRun{streams: f.streams, cfg: cfg, now: f.now, heard: timings.Record}
	log := newLogger(cfg, f.err)
	if f.to = cfg.Mirror.To; f.to != "" {
		err = r.startTo(ctx, log)
	} else {
		nobody := func(context.Context, string, api.SessionReport) (api.SessionReply, error) {
			return api.SessionReply{}, nil
		}
		r.mirror, err = server.StartMirror(context.WithoutCancel(ctx), cfg.Mirror, nowhere{}, nobody, timings.Record, log)
	}
	if err != nil {
		return mirrorHint(err, cfg)
	}
	s := r.mirror.Session
	fmt.Fprintf(f.err, "clients are answered by %s on %s\n", cfg.Mirror.Primary, s.Addr())
	err = f.searchOn(ctx, s, timings, &cfg.Mirror)
	if err == nil || errors.As(err, &ended{}) {
		f.serveOn(ctx, s)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if wrong := s.Close(closing); wrong != nil && err == nil {
		err = wrong
	}
	return err
}

func (f *capacityMirror) searchOn(ctx context.Context, s *mirror.Session, timings *capacity.AnswerTimings, m *config.Mirror) error {
	state := s.State()
	o, err := f.live(&state, capacity.LiveOptions{Session: s, Timings: timings})
	if err != nil {
		return err
	}
	if err := f.clients(ctx, s); err != nil {
		return err
	}
	name := m.Name
	if name == "" {
		name = "capacity beside " + m.Primary
	}
	return f.hold(ctx, name, m.Service, o)
}

// clients waits for clients: they come once their addresses are changed.
func (f *capacityMirror) clients(ctx context.Context, s *mirror.Session) error {
	tick := time.NewTicker(liveview.RedrawEvery)
	defer tick.Stop()
	printed := false
	for s.State().Requests == 0 {
		if !printed {
			printed = true
			fmt.Fprintln(f.err, "waiting for the first live request")
		}
		select {
		case <-tick.C:
		case <-s.Done():
			return s.Wait()
		case <-ctx.Done():
			return withHint(errors.New("no live request came"), "have clients connect to %s", s.Addr())
		}
	}
	return nil
}

// serveOn serves clients until somebody ends it.
func (f *capacityMirror) serveOn(ctx context.Context, s *mirror.Session) {
	if f.end || ctx.Err() != nil {
		return
	}
	fmt.Fprintf(f.err, "clients are served on at %s, as before the search, until ctrl-c\n", s.Addr())
	select {
	case <-ctx.Done():
	case <-s.Done():
	}
}

// nowhere is a sink of a mirror whose measurements nobody keeps.
type nowhere struct{}

func (nowhere) Put(context.Context, []pair.Point) error { return nil }
