package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/config"
	"tailscope/internal/experiment/mirror/record"
	"tailscope/internal/liveview"
	"tailscope/internal/report"
	"tailscope/internal/server"
	"tailscope/internal/store"
)

func newMirror(io streams) *cobra.Command {
	var file string
	var asJSON bool
	flags := &overrides{}
	set := &settings{config: flags}
	cmd := &cobra.Command{
		Use:   "mirror",
		Short: "answer clients from one server, copy their requests to others, and compare",
		Long: `Mirror stands between clients and their server, the primary, and gives copies of
their requests to other servers: candidates, which are judged, and perhaps a
control, which runs the old code. What these do never reaches a client.

Without --server the server runs in this process, with the page and the store;
with it, what is measured goes to a server that runs already. Settings come
from a file (--config, section mirror), then TAILSCOPE_MIRROR_* in the
environment, then flags; docs/mirror.md lists them. Those that have no flag are given
by --set, under their key in the file.`,
		Example: `  tailscope mirror --listen :8080 --primary http://a:8081 --candidate http://b:8082
  tailscope mirror --primary http://a:8081 --control http://c:8081 \
    --candidate new=http://b:8082,http://b:8083 --share 0.5 --server http://tailscope:7099 \
    --set mirror.timeout=5s`,
		Args: exactArgs(0, ""),
	}
	f := cmd.Flags()
	acceptFormer(cmd, "to")
	f.StringVar(&file, "config", "", "read settings from this YAML `file`")
	f.BoolVar(&asJSON, "json", false, "print how the session ended as JSON; stderr shows how it goes")
	for _, s := range config.Settings {
		switch name := config.MirrorFlag(s); {
		case name != "":
			flags.add(f, s, name)
		case s.Key == "data":
			flags.add(f, s, "data")
		case s.Key == "listen":
			flags.add(f, s, "page")
		}
	}
	set.addFlag(f, "mirror.timeout=5s")
	// The log would get in the way of the picture. A mirror starts even if something else
	// listens for OTLP on this machine.
	base := config.Default()
	base.LogLevel, base.OTLPGRPC, base.OTLPHTTP = "warn", "", ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(base, file, os.Environ(), flags)
		if err != nil {
			return usage{err}
		}
		if err := checkMirror(cfg.Mirror, optionNamer(cmd)); err != nil {
			return err
		}
		run := &mirrorRun{streams: io, cfg: cfg, json: asJSON, now: time.Now}
		return run.run(cmd.Context())
	}
	cmd.AddCommand(newMirrorSet(io), newMirrorShow(io))
	return cmd
}

// checkMirror reports what is wrong with the options, each under the name that the user
// wrote.
func checkMirror(m config.Mirror, called func(option string) string) error {
	o := server.MirrorOptions(m)
	err := o.Validate()
	if err == nil {
		return nil
	}
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		option, rest, _ := strings.Cut(line, ": ")
		errs = append(errs, fmt.Errorf("%s: %s", called(option), optionNamed.ReplaceAllStringFunc(rest, func(text string) string { return renameOption(text, called) })))
	}
	return usage{withHint(errors.Join(errs...), "docs/mirror.md says what each is for")}
}

// optionNamed finds an option of the mirror in a text, with the blank before its value.
var optionNamed = regexp.MustCompile(`--[a-z][a-z-]*( \b)?`)

// renameOption returns an option that optionNamed found as this command names it.
func renameOption(text string, called func(option string) string) string {
	option, value := strings.CutSuffix(text, " ")
	name := called(option[2:])
	s, err := config.Find(name)
	var c config.Config
	switch {
	case err != nil: // a flag, or --set, which is followed by a key already
		return text
	case s.Value(&c).Type() == "bool":
		return "--set " + name + "=true" + text[len(option):]
	case value:
		return "--set " + name + "="
	}
	return name
}

// optionNamer returns a function that names an option of the mirror as a command does: by
// its flag if it has one, else by its key.
func optionNamer(cmd *cobra.Command) func(option string) string {
	return func(option string) string {
		if f := cmd.Flags().Lookup(option); f != nil {
			return "--" + f.Name
		}
		return keyOf(option)
	}
}

func keyOf(option string) string { return "mirror." + strings.ReplaceAll(option, "-", "_") }

func newMirrorShow(io streams) *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "what a recording holds",
		Long:  "Show prints what a file holds that tailscope mirror --record wrote.",
		Args:  exactArgs(1, "a recording"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return withHint(err, "tailscope mirror --record FILE writes one")
			}
			defer file.Close()
			var text strings.Builder
			err = record.Describe(file, &text)
			for line := range strings.Lines(text.String()) { // clients chose what stands there
				fmt.Fprintln(io.out, report.Printable(strings.TrimSuffix(line, "\n")))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
}

// mirrorRun is one run of tailscope mirror.
type mirrorRun struct {
	streams
	cfg  config.Config
	json bool
	now  func() time.Time

	heard   server.Hearer // of answers; may be nil
	mirror  *server.Mirror
	client  *client.Client // of the server that keeps what is measured
	trouble func() string  // with that server
	begun   time.Time
}

// run mirrors until ctx is done, the session ends by itself, or it fails.
func (r *mirrorRun) run(ctx context.Context) error {
	r.begun = r.now()
	// Whoever reads what is printed for a script wants nothing else there.
	out := r.out
	if r.json {
		out = r.err
	}
	view := liveview.NewMirror(out, r.begun)
	logged := r.err
	if view.Draws() && liveview.IsTerminal(r.err) {
		logged = view
	}
	log := newLogger(r.cfg, logged)

	var failed <-chan error
	flush := func(context.Context) error { return nil }
	stop := flush
	if r.cfg.Mirror.To != "" {
		if err := r.startTo(ctx, log); err != nil {
			return err
		}
	} else {
		server.LimitHeap(r.cfg, log)
		srv, err := server.Start(ctx, server.Settings{Config: r.cfg, Log: log, Version: Version()})
		if err != nil {
			return mirrorHint(err, r.cfg)
		}
		r.mirror, r.client, r.trouble = srv.Mirror(), &client.Client{Address: srv.Addr()}, func() string { return "" }
		failed, flush, stop = srv.Failed(), srv.Flush, srv.Close
	}
	state := r.mirror.State()
	page := r.client.Address
	if !strings.Contains(page, "://") {
		page = "http://" + page
	}
	page = strings.TrimRight(page, "/") + "/sessions/" + r.mirror.ID()
	view.Title = fmt.Sprintf("mirror of %s on %s", r.cfg.Mirror.Primary, state.Listen)
	fmt.Fprintf(out, "tailscope mirrors %s on %s as session %s\n  %s\n", r.cfg.Mirror.Primary, state.Listen, r.mirror.ID(), page)

	err := r.watch(ctx, view, failed)
	if errors.Is(err, client.ErrUnreachable) {
		err = withHint(err, "the server was away at the end: what was measured since it was last there is lost")
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	// What was measured last is to be in the verdict.
	err = errors.Join(err, flush(closing))
	err = errors.Join(err, r.finish(closing), stop(closing))
	return err
}

// watch shows the session until it has ended. It ends the session when ctx is done.
func (r *mirrorRun) watch(ctx context.Context, view *liveview.Mirror, failed <-chan error) error {
	ended := make(chan error, 1)
	go func() { ended <- r.mirror.Wait() }()
	tick := time.NewTicker(liveview.RedrawEvery)
	defer tick.Stop()
	defer view.Close()
	// Clients are served even if a part of the server beside the mirror fails. The
	// failure is printed, and the command ends with its code.
	var broken error
	stop := ctx.Done()
	closed := make(chan struct{})
	begun := false
	for {
		select {
		case <-tick.C:
			m := r.moment()
			if broken != nil {
				m.Trouble = broken.Error()
			}
			view.Show(m)
		case <-stop:
			stop, begun = nil, true
			go func() {
				defer close(closed)
				limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
				defer cancel()
				_ = r.mirror.Close(limited) // Wait returns the same
			}()
		case err := <-failed:
			failed, broken = nil, err
		case err := <-ended:
			if begun {
				<-closed
			}
			if err != nil && broken != nil && strings.Contains(broken.Error(), err.Error()) {
				err = nil // the server says so of its part
			}
			return errors.Join(broken, err)
		}
	}
}

func (r *mirrorRun) moment() liveview.Moment {
	return liveview.Moment{At: r.now(), State: r.mirror.State(), Figures: r.mirror.Window.Figures(), Trouble: r.trouble()}
}

// mirrorResult is the result of a session, for scripts.
type mirrorResult struct {
	Session   api.Session                `json:"session"`
	Verdict   *api.MirrorVerdictResponse `json:"verdict"`              // null if there is none
	NoVerdict string                     `json:"no_verdict,omitempty"` // why
}

// finish prints the result of the session.
func (r *mirrorRun) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	state, why := r.mirror.State(), ""
	verdict, err := r.client.SessionVerdict(ctx, api.SessionVerdictRequest{ID: r.mirror.ID(), Limit: 5})
	if err != nil {
		verdict, why = nil, err.Error()
		var said *client.Error
		if errors.As(err, &said) {
			why = said.Message
		}
	}
	if r.json {
		x, err := r.client.Session(ctx, r.mirror.ID())
		if err != nil { // the server is away: what is known here
			seconds := func(t time.Time) api.Float { return api.Float(float64(t.UnixMilli()) / 1e3) }
			x = &api.Session{
				ID: r.mirror.ID(), Kind: "mirror", Name: r.cfg.Mirror.Name, Service: r.cfg.Mirror.Service, State: "ended",
				Start: seconds(r.begun), End: seconds(r.now()), Updated: seconds(r.now()),
			}
		}
		x.Mirror = &state
		return report.WriteJSON(r.out, mirrorResult{*x, verdict, why})
	}
	if _, werr := fmt.Fprint(r.out, liveview.MirrorSummary(state, r.now().Sub(r.begun), verdict)); werr != nil {
		return werr
	}
	if verdict == nil {
		fmt.Fprintf(r.out, "no verdict: %s\n", report.Printable(why))
	}
	if r.cfg.Mirror.To == "" {
		fmt.Fprintf(r.out, "tailscope serve --data %s shows the session again, at /sessions/%s\n", r.cfg.Data, r.mirror.ID())
	}
	return nil
}

// mirrorHint is startHint for a mirror that runs the server in its own process.
func mirrorHint(err error, cfg config.Config) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		return withHint(err, "a server has %s open: send it what is measured with --server http://%s, or keep it elsewhere with --data", cfg.Data, cfg.Listen)
	case errors.Is(err, server.ErrListen):
		return withHint(err, "if a server runs there, send it what is measured with --server http://%s; else choose other addresses with --page, --set otlp.grpc and --set otlp.http", cfg.Listen)
	}
	return startHint(err, cfg)
}
